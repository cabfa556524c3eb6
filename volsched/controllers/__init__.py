"""The rules of controllers for workloads, Queues and Volcano Jobs: pure, without a clock and without a cluster.

`volsched controllers` carries them out against an API server (`volsched.operator`); a simulation does so in memory.
"""
