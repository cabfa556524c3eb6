"""Requests to one API server: its address, our credentials, and HTTP."""
