"""What keeps the cluster itself running is nobody's victim."""
