"""The results of a session for jobs: refusals, and the phases, counts and conditions of PodGroups."""
