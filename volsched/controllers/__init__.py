"""What controllers make of workloads, Queues and Volcano Jobs: pure rules, without a clock and without a cluster.

`volsched controllers` carries them out against an API server (`volsched.operator`); a simulation plays them in memory.
"""
