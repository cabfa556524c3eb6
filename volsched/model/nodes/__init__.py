"""Nodes, what is taken of each, and the columns in which amounts are kept."""
