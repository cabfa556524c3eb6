"""The mirror of the cluster: API objects in, live state out.

A module for each kind of object, and ``mirror`` that sends changes to them.
"""
