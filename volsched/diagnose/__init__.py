"""Questions about a cluster: why something waits, what would help, and what another configuration would change.

Everything is answered by the scheduler itself: its mirror is filled with the objects, its sessions are run, and what
comes of it is read. Nothing here knows a Kubernetes client, and nothing is written.
"""
