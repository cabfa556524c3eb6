"""Dynamic Resource Allocation: devices, classes, claims, and who has which device."""
