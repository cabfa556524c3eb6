"""volsched: a session scheduler for Kubernetes clusters with expensive, mixed accelerators."""

__version__ = "0.1.0"
