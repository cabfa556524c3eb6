"""reserve: nodes are held for large jobs that have waited long, until they can start there."""
