"""Parts of a Node that others read: its operating system, and conditions that become taints."""

from __future__ import annotations

from typing import Final

from volsched.model import api

OS_LABEL: Final = "kubernetes.io/os"
_OLD_OS_LABEL: Final = "beta.kubernetes.io/os"

PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions in which a kubelet evicts pods, and starts few or none."""

_TAINTED: Final = {
    ("Ready", "False"): ("not-ready", ("NoSchedule", "NoExecute")),
    ("Ready", "Unknown"): ("unreachable", ("NoSchedule", "NoExecute")),
    ("MemoryPressure", "True"): ("memory-pressure", ("NoSchedule",)),
    ("DiskPressure", "True"): ("disk-pressure", ("NoSchedule",)),
    ("PIDPressure", "True"): ("pid-pressure", ("NoSchedule",)),
    ("NetworkUnavailable", "True"): ("network-unavailable", ("NoSchedule",)),
}
"""The taints of conditions, by type and status, as the node lifecycle controller of Kubernetes sets them."""


def operating_system(node: api.Node) -> str:
    """Return the operating system of a node, ``linux`` if the Node states none."""
    labels = node.metadata.labels
    return node.status.node_info.operating_system or labels.get(OS_LABEL) or labels.get(_OLD_OS_LABEL) or "linux"


def taints_of_conditions(node: api.Node) -> tuple[api.Taint, ...]:
    """Return the taints of a node's conditions that it lacks; Kubernetes' controller adds them within seconds."""
    known = {(taint.key, taint.effect) for taint in node.spec.taints}
    taints = [
        api.Taint(key=f"node.kubernetes.io/{name}", effect=effect)
        for condition in node.status.conditions
        for name, effects in [_TAINTED.get((condition.type, condition.status), ("", ()))]
        for effect in effects
    ]
    return tuple(taint for taint in taints if (taint.key, taint.effect) not in known)
