"""One leader among several schedulers, and the right to write that goes with it."""
