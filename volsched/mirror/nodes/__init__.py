"""Nodes as the mirror takes them in, those that are not known yet, and those that take nothing new."""
