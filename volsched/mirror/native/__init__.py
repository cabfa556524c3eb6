"""Kubernetes' own gangs as the mirror takes them in."""
