"""Values that know nothing of the cluster: quantities, amounts, durations, bounded tables."""
