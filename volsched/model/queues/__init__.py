"""Queues, and which namespaces may use them."""
