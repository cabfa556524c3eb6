"""Faults of a PodGroup or a Workload of scheduling.k8s.io, and of a group name on a pod."""

from __future__ import annotations

from typing import Final

from volsched.framework.validation import INVALID, NOT_FOUND, Fault, Faults, Surroundings, pods_in, warning
from volsched.mirror.native.reading import understood
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.errors import FieldError, shortened
from volsched.model.native_group import QUEUE_NAME, NativeGroup
from volsched.validation import permissions
from volsched.validation.queues import use_faults

_QUEUE: Final = f"metadata.annotations[{QUEUE_NAME}]"
_WORKLOAD_OF_ALPHA2: Final = "spec.podGroupTemplateRef.workload.workloadName"
_WORKLOAD: Final = "spec.workloadRef.workloadName"


def group_faults(found: native.PodGroup, beside: Surroundings) -> Faults:
    """Yield why a group would not be placed, and faults of the names in it."""
    try:
        group = understood(found)
    except FieldError as error:
        yield Fault(error.path, INVALID, error.message)
    else:
        yield from _reference_faults(group, beside)
    yield from queue_faults(found, beside)


def _reference_faults(group: NativeGroup, beside: Surroundings) -> Faults:
    """Yield that a group's Workload is none of those that are given."""
    known = beside.derived(_workloads)
    if group.workload and known and (group.namespace, group.workload) not in known:
        field = _WORKLOAD_OF_ALPHA2 if group.version.name == native.PodGroupV1alpha2.group_version else _WORKLOAD
        words = f"Workload {shortened(group.workload)!r} is not known; the API server refuses a PodGroup without it"
        yield warning(field, NOT_FOUND, words)


def _workloads(beside: Surroundings) -> frozenset[tuple[str, str]]:
    return frozenset((found.metadata.namespace, found.metadata.name) for found in beside.of(native.Workload))


def queue_faults(found: api.ApiObject, beside: Surroundings) -> Faults:
    """Yield why the queue that a group or a Workload names cannot be used."""
    queue = found.metadata.annotations.get(QUEUE_NAME, "")
    if queue:
        yield from use_faults(_QUEUE, queue, beside.queues)
        yield from permissions.use_faults(_QUEUE, found.metadata.namespace, queue, beside)


def member_faults(found: api.ApiObject, beside: Surroundings) -> Faults:
    """Yield a fault if the group of a pod, or of future pods, is not among the given ones."""
    known = beside.derived(_groups)
    for pod in pods_in(found):
        member = pod.spec.scheduling_group
        if member is not None and known and (found.metadata.namespace, member.pod_group_name) not in known:
            name = shortened(member.pod_group_name)
            words = f"PodGroup {name!r} of scheduling.k8s.io is not known, and the pod waits for it; is the name right?"
            yield warning(f"{pod.prefix}spec.schedulingGroup.podGroupName", NOT_FOUND, words)


def _groups(beside: Surroundings) -> frozenset[tuple[str, str]]:
    found = (group for struct in native.VERSIONS.values() for group in beside.of(struct))
    return frozenset((group.metadata.namespace, group.metadata.name) for group in found)
