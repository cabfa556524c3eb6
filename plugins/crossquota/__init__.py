"""Quotas of CPU pods on nodes with accelerators, so that the accelerators keep CPU and memory beside them."""
