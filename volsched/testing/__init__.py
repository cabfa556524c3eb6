"""Helpers for testing volsched and plugins written for it: shipped, so that plugin authors can use them."""
