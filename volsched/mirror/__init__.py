"""The mirror of the cluster: API objects in, live state out."""
