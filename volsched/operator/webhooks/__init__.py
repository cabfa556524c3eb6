"""Admission webhooks: what is answered to whoever writes to the API server, and over which connection."""
