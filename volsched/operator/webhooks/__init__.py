"""Admission webhooks: the answers to writes at the API server, and the connection for them."""
