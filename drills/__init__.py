"""Drills: what must never happen, tried on a real control plane through a proxy that makes it fail."""
