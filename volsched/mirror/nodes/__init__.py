"""Nodes in the mirror, pods on unknown nodes, and nodes that take no new pods."""
