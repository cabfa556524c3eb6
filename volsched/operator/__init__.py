"""`volsched controllers`: the pure controllers of `volsched.controllers` against a cluster."""
