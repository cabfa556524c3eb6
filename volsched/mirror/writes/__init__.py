"""What came of writes: bindings and evictions that were made or refused, and when they are tried again."""
