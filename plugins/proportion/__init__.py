"""Every queue gets its deserved share by weight."""
