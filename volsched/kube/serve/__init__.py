"""What a process shows of itself over HTTP: probes, metrics, its effective configuration."""
