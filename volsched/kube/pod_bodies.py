"""What is sent to the API server to bind a pod, to evict one, and to lift a gate."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from volsched.model.plan import Bind, Evict, LiftGate
from volsched.model.task import UNGATED


class _BindingMeta(msgspec.Struct):
    name: str
    namespace: str
    uid: str
    annotations: Mapping[str, str] | None


class _Target(msgspec.Struct, rename="camel"):
    name: str
    kind: str = "Node"
    api_version: str = "v1"


class _Binding(msgspec.Struct, rename="camel"):
    metadata: _BindingMeta
    target: _Target
    kind: str = "Binding"
    api_version: str = "v1"


def binding_body(step: Bind) -> bytes:
    """Return the Binding of a step; the API server merges its annotations into the pod in the same write."""
    meta = _BindingMeta(step.name, step.namespace, step.uid, step.annotations or None)
    return msgspec.json.encode(_Binding(meta, _Target(step.node)))


def disruption_body(step: Evict) -> bytes:
    """Return the patch that says why a pod is about to be deleted; it fails for another pod of the same name."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": step.message or f"volsched: {step.action} to make room for {step.preemptor}",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return msgspec.json.encode({"metadata": {"uid": step.uid}, "status": {"conditions": [condition]}})


def gate_body(step: LiftGate) -> bytes:
    """Return the patch that removes one gate, leaves others, and says so; it fails for another pod of the same name."""
    gone = {"$patch": "delete", "name": step.gate}
    metadata = {"uid": step.uid, "annotations": {UNGATED: "true"}}
    return msgspec.json.encode({"metadata": metadata, "spec": {"schedulingGates": [gone]}})


def delete_body(step: Evict) -> bytes:
    """Return what a deletion says: that pod and no other of its name."""
    return msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": step.uid}})
