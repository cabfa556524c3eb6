"""What is sent to the API server to bind a pod, to evict one, and to lift a gate."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from volsched.model.plan import Bind, Evict, LiftGate
from volsched.model.pods.task import UNGATED


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
    """Return the patch that states why a pod is about to be deleted; it fails for another pod of the same name."""
    message = step.message or f"volsched: {step.action} to make room for {step.preemptor}"
    return _condition_body(step.uid, "DisruptionTarget", "PreemptionByScheduler", message)


def ungated_body(step: LiftGate) -> bytes:
    """Return the patch that states that a queue has taken a pod on; it fails for another pod of the same name."""
    return _condition_body(step.uid, UNGATED, "QueueAllocated", f'volsched: the gate "{step.gate}" is lifted')


def _condition_body(uid: str, kind: str, reason: str, message: str) -> bytes:
    condition = {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return msgspec.json.encode({"metadata": {"uid": uid}, "status": {"conditions": [condition]}})


def gate_body(step: LiftGate) -> bytes:
    """Return the patch that removes one gate and leaves others; it fails for another pod of the same name."""
    gone = {"$patch": "delete", "name": step.gate}
    return msgspec.json.encode({"metadata": {"uid": step.uid}, "spec": {"schedulingGates": [gone]}})


def delete_body(step: Evict) -> bytes:
    """Return the body of a deletion: that pod and no other of its name."""
    return msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": step.uid}})
