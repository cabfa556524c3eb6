"""The only part of the scheduler that speaks to Kubernetes: watching, electing, writing, serving its own state.

It sees `volsched.model` and `volsched.ports`, nothing of sessions, plugins or actions: changes go in, steps come out.
"""
