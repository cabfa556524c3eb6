"""Let a job in that has waited for as long as was agreed."""
