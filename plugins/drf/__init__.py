"""Whoever holds the smallest share of what it needs most goes first."""
