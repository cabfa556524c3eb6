"""What a pod states that decides where it may go: its template, its requests, its limits."""
