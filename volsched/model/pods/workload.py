"""Online and offline work: pods that serve until they are deleted, and pods that end by themselves.

The kind of a pod's owner decides, unless a label of the pod states it: controllers that keep pods running make online
ones; others, and pods without an owner, are offline. Unknown owners count as jobs, as most operators of training are
(*ours*).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LABEL: Final = "volsched.io/workload"
"""A label of pods, so of pod templates: ``online`` or ``offline``, whatever the owner is.

Other values count nothing.
"""

ONLINE: Final = "online"
OFFLINE: Final = "offline"
WORKLOADS: Final = (ONLINE, OFFLINE)

ONLINE_OWNERS: Final = frozenset(
    ("DaemonSet", "Deployment", "Node", "ReplicaSet", "ReplicationController", "StatefulSet")
)
"""Kinds of owners whose pods are online. A pod that a kubelet runs by itself is owned by its Node."""


def workload_of(labels: Mapping[str, str], owner: str) -> str:
    """Return online or offline for a pod with these labels, whose controller is of this kind (empty for none)."""
    label = labels.get(LABEL)
    if label in WORKLOADS:
        return label
    return ONLINE if owner in ONLINE_OWNERS else OFFLINE
