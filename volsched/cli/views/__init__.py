"""Answers for people and for programs: as tables and as plain values."""
