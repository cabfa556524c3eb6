"""Faults of objects and configurations, found without a cluster: pure functions from objects to problems.

The same rules serve ``volsched validate``, the reading of ``volsched simulate`` and the admission webhooks.
"""
