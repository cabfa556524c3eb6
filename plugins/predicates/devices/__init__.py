"""Rules about devices: the ResourceClaims of a pod, and the devices that can serve them."""
