"""Quotas by card model, never exceeded."""
