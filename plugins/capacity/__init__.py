"""Every queue has what its spec says: capability, deserved, guarantee; over a hierarchy of queues, too."""
