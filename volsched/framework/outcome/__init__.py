"""The results of a session for jobs: refusals, phases, counts and conditions."""
