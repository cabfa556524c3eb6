"""Online and offline work: what serves until somebody ends it, and what ends by itself (seed 001, 2.4.1).

The kind of a pod's owner tells, unless a label of the pod states it: controllers that keep pods running make online
ones, whatever runs to an end, and whatever nobody owns, is offline. Owners that are not known are taken for jobs, as
most operators of training are (*ours*).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LABEL: Final = "volsched.io/workload"
"""A label of pods, so of pod templates: ``online`` or ``offline``, whatever the owner is. Others count for nothing."""

ONLINE: Final = "online"
OFFLINE: Final = "offline"
WORKLOADS: Final = (ONLINE, OFFLINE)

ONLINE_OWNERS: Final = frozenset(
    ("DaemonSet", "Deployment", "Node", "ReplicaSet", "ReplicationController", "StatefulSet")
)
"""Kinds of owners whose pods are online; a pod that a kubelet runs by itself is owned by its Node."""


def workload_of(labels: Mapping[str, str], owner: str) -> str:
    """Return which of the two a pod with these labels is, whose controller is of this kind (empty for none)."""
    label = labels.get(LABEL)
    if label in WORKLOADS:
        return label
    return ONLINE if owner in ONLINE_OWNERS else OFFLINE
