"""Values that the rest of volsched talks about.

Nothing here knows a cluster, a clock or a logger: objects as Kubernetes writes them (`api`), exact amounts (`quantity`,
`resources`), what a pod asks for (`requests`), where it may go (`selectors`, `template`) and why it did not go there
(`verdict`). Imports nothing but the standard library, msgspec and numpy.

Rooms below have what belongs to pods, queues, devices and plain values; what is here concerns all of these.
"""
