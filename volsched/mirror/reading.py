"""From API objects to what the scheduler keeps of them: pure functions, one per kind.

A quantity that cannot be read counts as nothing and is reported as a problem of its object: one bad object must not
stop the scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Final

from volsched.model import api, labels, unserved
from volsched.model.conditions import ADMITTED
from volsched.model.errors import QuantityError
from volsched.model.job import JobProperties, PodGroupCondition
from volsched.model.nodes.node import NodeProperties
from volsched.model.plan import EVICTED
from volsched.model.pods import workload
from volsched.model.pods.claim_use import ResourceClaimUse
from volsched.model.pods.task import ADMISSION_GATE, UNGATED
from volsched.model.queues.allowed_namespaces import allowed_in
from volsched.model.queues.queue import QueuePast, QueueProperties
from volsched.model.status import TaskStatus
from volsched.model.values.bounded import Weighed
from volsched.model.values.quantity import QuantityText, amount_of
from volsched.model.values.resources import PODS, Resources

GROUP_NAME: Final = "scheduling.k8s.io/group-name"
GENERATED_GROUP: Final = "podgroup-"
"""The name of the PodGroup that the controllers generate for pods without one: this, then the uid of the owner."""

ROLE: Final = "volcano.sh/task-spec"
TASK_PRIORITY: Final = "volcano.sh/task-priority"
PREEMPTABLE: Final = "volcano.sh/preemptable"
MIRROR: Final = "kubernetes.io/config.mirror"
"""Of pods by which a kubelet shows what it runs by itself. The API server lets it be set with the node only."""
LONGEST_NAME: Final = 253
"""The longest name of an object: a longer text names none, and is cut just above that."""

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,10}")
_QUOTA_NAMES: Final = ("count/", "requests.", "limits.")
"""Prefixes of names that only a ResourceQuota knows: they repeat ``cpu``, ``pods`` or a card's own name."""

_known_names: Final[Weighed[tuple[str, ...], tuple[str, ...]]] = Weighed(1 << 20, lambda names: sum(map(len, names)))

_LONGEST_STAMP: Final = 64
"""Characters of a time: RFC 3339 needs half of them."""

_MOST_USED: Final = 1e30
"""Amounts times seconds above those of any cluster: a mebibyte of such clusters' memory for a million years."""

Report = Callable[[str, str], None]
"""Takes a field's path and what is wrong with it."""


def amounts(listed: Mapping[str, QuantityText | None], path: str, report: Report) -> dict[str, int]:
    """Read a resource list into the project's units. Zeros are kept, negative and unreadable amounts count as 0."""
    found: dict[str, int] = {}
    for name, text in listed.items():
        try:
            found[name] = amount_of(name, text)
        except QuantityError as error:
            report(f"{path}[{name}]", str(error))
            found[name] = 0
        if found[name] < 0:
            report(f"{path}[{name}]", f"{text} is negative")
            found[name] = 0
    return found


def shared(texts: dict[str, str]) -> dict[str, str]:
    """Return the same texts, one copy of each in memory: pods of a workload have similar texts."""
    for key, text in texts.items():
        texts[key] = intern(text)
    return texts


def container_names(pod: api.Pod) -> tuple[str, ...]:
    """Return the names of a pod's containers, then of its init containers, one copy of each list in memory."""
    return _same_names(tuple([item.name for item in (*pod.spec.containers, *pod.spec.init_containers)]))


def _same_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return _known_names.recall(names) or _known_names.keep(names, names)


def seconds(stamp: str | None) -> float | None:
    """Return a timestamp as seconds since the epoch, or None when absent or unreadable.

    A gang's pods state much the same.
    """
    return _seconds(stamp) if stamp and len(stamp) <= _LONGEST_STAMP else None


@lru_cache(maxsize=4096)
def _seconds(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        return None


def node_spec(node: api.Node, report: Report) -> tuple[NodeProperties, dict[str, int]]:
    """Return the properties of a node, and its allocatable amounts."""
    meta, spec, status = node.metadata, node.spec, node.status
    properties = NodeProperties(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels,
        annotations=meta.annotations,
        taints=spec.taints,
        unschedulable=spec.unschedulable,
        capacity=amounts(status.capacity, "status.capacity", report),
        images={name: image.size_bytes for image in status.images for name in image.names},
        features=frozenset(status.declared_features),
        terminating=meta.deletion_timestamp is not None,
    )
    return properties, amounts(status.allocatable, "status.allocatable", report)


def pod_status(pod: api.Pod) -> TaskStatus:
    """Return where a pod stands, by its phase, its node and whether it is being deleted."""
    phase = pod.status.phase
    if phase == "Succeeded":
        return TaskStatus.SUCCEEDED
    if phase == "Failed":
        return TaskStatus.FAILED
    if pod.metadata.deletion_timestamp is not None and pod.spec.node_name:
        return TaskStatus.RELEASING
    if phase == "Running":
        return TaskStatus.RUNNING
    if phase == "Unknown":
        return TaskStatus.UNKNOWN
    return TaskStatus.BOUND if pod.spec.node_name else TaskStatus.PENDING


def task_priority(pod: api.Pod, classes: Mapping[str, int]) -> int:
    """Return a task's priority within its job, as Volcano.

    It is the annotation, else the pod's number, else its class's, else 1.
    """
    annotated = task_priority_in(pod.metadata.annotations.get(TASK_PRIORITY, ""))
    if annotated is not None:
        return annotated
    if pod.spec.priority is not None:
        return pod.spec.priority
    return classes.get(pod.spec.priority_class_name, 1)


def task_priority_in(text: str) -> int | None:
    """Return the number in an annotation of priority, None without one: digits, 32 bits, as Go reads it."""
    if not _WHOLE.fullmatch(text) or not -(2**31) <= int(text) < 2**31:
        return None
    return int(text)


def is_preemptable(pod: api.Pod) -> bool:
    """The annotation, else the label. Absent means yes, unreadable no. No mirror pod is: its kubelet makes it anew."""
    meta = pod.metadata
    if MIRROR in meta.annotations:
        return False
    text = meta.annotations.get(PREEMPTABLE, meta.labels.get(PREEMPTABLE))
    return text is None or truth_in(text) is True


def is_pinned(pod: api.Pod) -> bool:
    """True if a DaemonSet keeps a pod on its node: it makes another one there as soon as the pod goes."""
    owner = pod.metadata.controller
    return owner is not None and owner.kind == "DaemonSet"


def truth_in(text: str) -> bool | None:
    """Return the boolean of a text in one of Go's spellings, or None if it is none."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    return False if text in ("0", "f", "F", "false", "FALSE", "False") else None


def as_name(text: str) -> str:
    """Return the name of an object in an annotation, cut if it is too long for one."""
    return text[: LONGEST_NAME + 1]


def owner_name(meta: api.ObjectMeta) -> str:
    """Return the controller of an object as ``Kind/name``; empty without one."""
    owner = meta.controller
    return f"{as_name(owner.kind)}/{as_name(owner.name)}" if owner is not None else ""


def volcano_group_of(pod: api.Pod) -> str:
    """Return the name of the Volcano PodGroup that a pod names; empty without one."""
    return "" if scheduling_group_of(pod) else intern(as_name(pod.metadata.annotations.get(GROUP_NAME, "")))


def generated_group_name(pod: api.Pod) -> str:
    """Return the name of the PodGroup that the controllers generate for a pod that names none."""
    owner = pod.metadata.controller
    return f"{GENERATED_GROUP}{owner.uid if owner is not None else pod.metadata.uid}"


def scheduling_group_of(pod: api.Pod) -> str:
    """Return the PodGroup of scheduling.k8s.io that a pod is in; empty when it is in none."""
    group = pod.spec.scheduling_group
    return intern(group.pod_group_name) if group is not None else ""


def role_of(pod: api.Pod) -> str:
    """Return the task role of a gang member."""
    return as_name(pod.metadata.annotations.get(ROLE) or pod.metadata.labels.get(ROLE, ""))


def workload_of(pod: api.Pod) -> str:
    """Return whether a pod is online or offline work, by its label, else by the kind of its owner."""
    owner = pod.metadata.controller
    return workload.workload_of(pod.metadata.labels, owner.kind if owner is not None else "")


def gates_of(pod: api.Pod) -> tuple[str, ...]:
    """Return the gates that stop a pod. Volcano's admission gate, which volsched lifts, does not."""
    gates = pod.spec.scheduling_gates
    return tuple(gate.name for gate in gates if gate.name != ADMISSION_GATE) if gates else ()


def was_ungated(pod: api.Pod) -> bool:
    """True if we have removed Volcano's gate from a pod: its queue took it."""
    was_ungated = any(condition.type == UNGATED and condition.status == "True" for condition in pod.status.conditions)
    return was_ungated and not has_admission_gate(pod)


PREEMPTED: Final = ("DisruptionTarget", "PreemptionByScheduler")
"""Type and reason of the condition of a pod that is evicted for another one, as kube-scheduler writes it, too."""


def was_evicted(pod: api.Pod) -> bool:
    """True if a scheduler has decided to evict a pod for another one."""
    stated = (condition for condition in pod.status.conditions if condition.status == "True")
    return any(c.type == EVICTED or (c.type, c.reason) == PREEMPTED for c in stated)


def has_admission_gate(pod: api.Pod) -> bool:
    """True if a pod has the gate that we lift once its queue takes it."""
    gates = pod.spec.scheduling_gates
    return bool(gates) and any(gate.name == ADMISSION_GATE for gate in gates)


def resource_claims_of(pod: api.Pod) -> tuple[ResourceClaimUse, ...]:
    """Return the ResourceClaims that a pod names, and the templates from which it has others made."""
    uses = pod.spec.resource_claims
    if not uses:
        return ()
    return tuple(
        ResourceClaimUse(use.name, use.resource_claim_name or "", use.resource_claim_template_name or "")
        for use in uses
    )


def claim_names_of(pod: api.Pod) -> tuple[tuple[str, str | None], ...]:
    """Return the ResourceClaims made for a pod from templates: the entry, and the name, None for none."""
    made = pod.status.resource_claim_statuses
    return tuple((one.name, one.resource_claim_name) for one in made) if made else ()


def queue_spec(queue: api.Queue, report: Report) -> QueueProperties:
    """Return the properties of a queue."""
    meta, spec = queue.metadata, queue.spec
    return QueueProperties(
        name=meta.name,
        uid=meta.uid,
        created=seconds(meta.creation_timestamp) or 0.0,
        reported_state=queue.status.state,
        parent=spec.parent,
        weight=spec.weight,
        priority=spec.priority,
        reclaimable=spec.reclaimable is not False,
        capability=amounts(spec.capability, "spec.capability", report),
        deserved=amounts(spec.deserved, "spec.deserved", report),
        guarantee=amounts(spec.guarantee.resource, "spec.guarantee.resource", report),
        dra=spec.dra,
        annotations=meta.annotations,
        allowed=allowed_in(meta.annotations),
    )


def past_of(usage: api.QueueUsage | None) -> QueuePast | None:
    """Return the past usage in a queue's status, or None without a time, impossible numbers left out."""
    at = seconds(usage.time) if usage is not None else None
    if usage is None or at is None:
        return None
    return QueuePast(at, {name: value for name, text in usage.resource_seconds.items() if (value := _amount(text)) > 0})


def _amount(text: str | float) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 < value < _MOST_USED else 0.0


def minimum_of(group: api.PodGroup, report: Report) -> Resources | None:
    """Return a PodGroup's minResources, or None if it names none.

    Volcano's job controller writes them as a ResourceQuota would count them, ``count/pods`` and ``requests.cpu`` beside
    ``cpu``; no node has those (Volcano's scheduler leaves them out, too). ``pods`` do not count either, as requests
    have none: slots are a matter of nodes.
    """
    listed = group.spec.min_resources
    if listed is None:
        return None
    asked = {name: text for name, text in listed.items() if name != PODS and not name.startswith(_QUOTA_NAMES)}
    return Resources(amounts(asked, "spec.minResources", report))


def group_spec(group: api.PodGroup, report: Report) -> JobProperties:
    """Return the properties of a PodGroup."""
    meta, spec = group.metadata, group.spec
    return JobProperties(
        has_group=True,
        group_uid=meta.uid,
        owner=owner_name(meta),
        min_available=spec.min_member,
        min_roles=spec.min_task_member,
        min_resources=minimum_of(group, report),
        priority_class=spec.priority_class_name,
        unserved=unserved.refusal_of(f"{meta.namespace}/{meta.name}", spec),
        labels=labels.kept(meta.labels),
        annotations=meta.annotations,
    )


def admitted_at(group: api.PodGroup) -> float:
    """Return when a PodGroup was admitted that has not started, in seconds since the epoch, else 0."""
    stated = (seconds(c.last_transition_time) for c in group.status.conditions if c.type == ADMITTED)
    return next(stated, None) or 0.0


def conditions_of(group: api.PodGroup) -> tuple[PodGroupCondition, ...]:
    """Return a PodGroup's conditions without the fields that only state when."""
    return tuple(PodGroupCondition(c.type, c.status, c.reason, c.message) for c in group.status.conditions)
