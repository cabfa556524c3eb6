"""Benches: each prints a table, says what it measured and on what, and leaves its figures as JSON in bench/results."""
