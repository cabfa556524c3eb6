"""Combines the answers of plugins: rules of a session by kind, votes, orders, and steps of equal tasks."""
