"""What a pod says that decides where it may go: its template, its requests, its limits."""
