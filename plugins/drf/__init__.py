"""The job with the smallest dominant share goes first."""
