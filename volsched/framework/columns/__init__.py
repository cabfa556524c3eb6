"""What callbacks are shown of nodes, one at a time or as NumPy columns of all nodes at once."""
