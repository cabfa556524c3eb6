"""What queues hold, ask for and deserve, counted move by move, for every plugin that has quotas."""
