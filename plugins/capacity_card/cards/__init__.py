"""Cards of nodes: which there are, by model, and whether demands for several of them can all be met."""
