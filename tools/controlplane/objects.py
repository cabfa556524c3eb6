"""Builders of API objects that many tests and benches need, as the plain JSON that the API server takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.controlplane.client import Json

DEFAULT_SCHEDULER = "default-scheduler"


def a_node(
    name: str,
    *,
    cpu: str = "32",
    memory: str = "128Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    **extended: str | int,
) -> Json:
    """Return a node that is Ready at once; keywords such as ``**{"nvidia.com/gpu": 8}`` are extended resources."""
    amounts = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi"}
    amounts |= {resource: str(amount) for resource, amount in extended.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "made for a test"}],
        },
    }


def a_pod(
    name: str,
    *,
    scheduler: str = DEFAULT_SCHEDULER,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    **requests: str | int,
) -> Json:
    """Return a pod of one container; keywords are its requests (and, for all but cpu and memory, its limits)."""
    amounts = {resource: str(amount) for resource, amount in requests.items()}
    limits = {resource: amount for resource, amount in amounts.items() if resource not in {"cpu", "memory"}}
    container: Json = {"name": "main", "image": "registry.invalid/none:1"}
    container["resources"] = {"requests": amounts, "limits": limits}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"schedulerName": scheduler, "containers": [container], **(spec or {})},
    }


def a_binding(pod: Mapping[str, Any], node: str) -> Json:
    """Return the Binding that puts a pod (as it was read from the API server) on a node."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def is_schedulable(node: Mapping[str, Any]) -> bool:
    """Tell whether a node is Ready and has none of the taints that the node lifecycle controller sets."""
    keys = {taint["key"] for taint in node["spec"].get("taints") or ()}
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in node["status"].get("conditions") or ())
    return ready and not any(key.startswith("node.kubernetes.io/") for key in keys)
