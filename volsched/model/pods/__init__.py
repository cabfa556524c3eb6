"""The parts of a pod that decide where it may go: its template, its requests, its limits."""
