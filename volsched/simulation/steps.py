"""Pods and PodGroups after a step of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from volsched.model import api
from volsched.model.plan import LiftGate, WriteGroupStatus, WritePodCondition
from volsched.model.pods.task import UNGATED
from volsched.simulation import workloads
from volsched.simulation.kubelet_checks import KubeletRefusal


def running(pod: api.Pod, node: str, annotations: Mapping[str, str], *, since: str) -> api.Pod:
    """Return a pod that was bound and has started; ``since``: when, as the API server writes it."""
    status = msgspec.structs.replace(
        pod.status,
        phase="Running",
        nominated_node_name="",
        conditions=_with(pod, api.Condition(type="PodScheduled", status="True")),
        start_time=since,
    )
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    pod = msgspec.structs.replace(pod, spec=spec, status=status)
    return workloads.annotated(pod, annotations) if annotations else pod


def rejected(pod: api.Pod, node: str, refusal: KubeletRefusal) -> api.Pod:
    """Return a bound pod that its kubelet refused: it has failed, and stays on its node."""
    message = f"Pod was rejected: {refusal.message}"
    status = msgspec.structs.replace(pod.status, phase="Failed", reason=refusal.reason, message=message)
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    return msgspec.structs.replace(pod, spec=spec, status=status)


def ungated(pod: api.Pod, step: LiftGate) -> api.Pod:
    """Return a pod without the gate that was lifted."""
    gates = tuple(gate for gate in pod.spec.scheduling_gates if gate.name != step.gate)
    spec = msgspec.structs.replace(pod.spec, scheduling_gates=gates)
    conditions = (*pod.status.conditions, api.Condition(UNGATED, "True", "QueueAllocated"))
    status = msgspec.structs.replace(pod.status, conditions=conditions)
    return msgspec.structs.replace(pod, spec=spec, status=status)


def unscheduled(pod: api.Pod, step: WritePodCondition) -> api.Pod:
    """Return a pod with the condition that it waits."""
    conditions = _with(pod, api.Condition("PodScheduled", "False", step.reason, step.message))
    status = msgspec.structs.replace(pod.status, nominated_node_name=step.nominated, conditions=conditions)
    return msgspec.structs.replace(pod, status=status)


def with_status(group: api.PodGroup, step: WriteGroupStatus) -> api.PodGroup:
    """Return a PodGroup with the status that was written."""
    conditions = tuple(api.Condition(c.type, c.status, c.reason, c.message) for c in step.conditions)
    status = api.PodGroupStatus(step.phase, conditions, step.running, step.succeeded, step.failed)
    return msgspec.structs.replace(group, status=status)


def _with(pod: api.Pod, new: api.Condition) -> tuple[api.Condition, ...]:
    return (*(condition for condition in pod.status.conditions if condition.type != new.type), new)
