"""Rules about a node's own properties. All are static: asked once for each class of nodes that state the same."""
