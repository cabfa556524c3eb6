"""Refuse jobs that ask for a network topology, as there is none."""
