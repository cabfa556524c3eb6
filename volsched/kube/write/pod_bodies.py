"""The bodies of requests that bind a pod, evict one, and lift a gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from volsched.model.plan import EVICTED, Bind, Evict, LiftGate
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
    """Return the patch with the reason of an eviction and the session that decided it.

    It fails for another pod of the same name.
    """
    conditions = [_condition("DisruptionTarget", "PreemptionByScheduler", step.message)]
    if step.session:
        began = datetime.fromtimestamp(step.session, UTC).isoformat(timespec="microseconds")
        conditions.append(_condition(EVICTED, "EvictedBySession", f"volsched: in the session of {began}"))
    return _status_body(step.uid, conditions)


def ungated_body(step: LiftGate) -> bytes:
    """Return the patch that states that a queue took a pod. It fails for another pod of the same name."""
    message = f'volsched: the gate "{step.gate}" is lifted'
    return _status_body(step.uid, [_condition(UNGATED, "QueueAllocated", message)])


def _condition(kind: str, reason: str, message: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _status_body(uid: str, conditions: Sequence[Mapping[str, str]]) -> bytes:
    return msgspec.json.encode({"metadata": {"uid": uid}, "status": {"conditions": conditions}})


def gate_body(step: LiftGate) -> bytes:
    """Return the patch that removes one gate and leaves others. It fails for another pod of the same name."""
    gone = {"$patch": "delete", "name": step.gate}
    return msgspec.json.encode({"metadata": {"uid": step.uid}, "spec": {"schedulingGates": [gone]}})


def delete_body(step: Evict) -> bytes:
    """Return the body of a deletion: that pod and no other of its name."""
    return msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": step.uid}})
