"""Quotas of queues: what plugins that limit queues share, for any dimension that they count."""
