"""Report of jobs that ask for a network topology that there is none."""
