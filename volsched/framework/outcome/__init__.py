"""What a session leaves with jobs: refusals, and the phases, counts and conditions of PodGroups."""
