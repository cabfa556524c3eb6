"""Admit somewhat more work than the cluster can hold at once."""
