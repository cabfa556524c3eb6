"""The part of the scheduler that talks to Kubernetes: watches, election, writes, and HTTP pages.

It imports `volsched.model` and `volsched.ports`, nothing of sessions, plugins or actions: changes go in, steps come
out.
"""
