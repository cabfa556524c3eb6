"""Rules about the other pods of a node or of a topology domain: affinity, spreading, ports, slots."""
