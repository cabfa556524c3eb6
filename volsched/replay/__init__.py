"""Replay: jobs with their durations, scheduled in virtual time."""
