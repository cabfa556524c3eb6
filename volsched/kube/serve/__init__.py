"""The HTTP pages of a process: probes, metrics, its effective configuration."""
