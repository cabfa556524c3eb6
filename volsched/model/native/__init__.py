"""Kubernetes' own gangs (scheduling.k8s.io PodGroup): one record for all versions of the API."""
