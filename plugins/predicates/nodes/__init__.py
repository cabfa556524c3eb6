"""Rules about what a node says of itself. All are static: asked once for each class of nodes that say the same."""
