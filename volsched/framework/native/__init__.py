"""Kubernetes' own gangs (scheduling.k8s.io) as sessions see them: rules, statuses, topology."""
