"""Quotas of cards of queues: limits, guarantees, and what they deserve."""
