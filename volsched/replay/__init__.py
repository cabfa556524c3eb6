"""What would have been: jobs with their durations, scheduled by the engine in virtual time."""
