"""Fill nodes up: the fuller a node would be, the better."""
