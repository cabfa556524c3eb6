"""Requests to one API server: where it is, who we are to it, and the bytes that go there."""
