"""Every queue has what its spec states: capability, deserved, guarantee; over a hierarchy of queues, too."""
