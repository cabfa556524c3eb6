"""Helpers for testing volsched and plugins: they are shipped, so that plugin authors can use them."""
