"""The mirror of the cluster: API objects in, live state out.

``apply`` passes changes to the modules of pods, groups, queues, nodes and other kinds. It gives volumes and devices to
the cluster itself, which accounts for them.
"""
