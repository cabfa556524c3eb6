"""Every queue gets its due by weight."""
