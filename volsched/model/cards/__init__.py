"""Accelerator cards of nodes and their names, from labels and resources that vendors document."""
