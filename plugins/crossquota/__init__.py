"""What CPU pods may take on nodes that carry accelerators, so that the accelerators keep what they need beside them."""
