"""Admission webhooks: what is said to whoever writes to the API server, and over which connection."""
