"""Views of nodes for callbacks: single nodes, or NumPy columns of all nodes."""
