"""Protects pods that keep the cluster itself running from eviction."""
