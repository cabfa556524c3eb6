"""The views of nodes that callbacks get: one node at a time, or NumPy columns of all nodes."""
