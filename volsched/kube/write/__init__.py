"""Writes to the API server: bindings and evictions first, then statuses and Events."""
