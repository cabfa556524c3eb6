"""One pod as the scheduler sees it: its identity, its status and node, and its template.

``TaskInfo`` has many attributes: it is the record of one pod.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from volsched.model.former import former_attributes
from volsched.model.pods.claim_use import ResourceClaimUse
from volsched.model.pods.owners import Owner, as_pod
from volsched.model.pods.template import PodTemplate
from volsched.model.pods.workload import OFFLINE
from volsched.model.status import TaskStatus
from volsched.model.verdict import Verdict

if TYPE_CHECKING:
    from volsched.model.job import JobInfo
    from volsched.model.nodes.node import NodeInfo
    from volsched.model.plan import ClaimWrite, VolumeWrite

ADMISSION_GATE = "scheduling.volcano.sh/queue-allocation-gate"
"""Volcano's scheduling gate on pods that wait until their queue has room for them."""

UNGATED = "volsched.io/Ungated"
"""The condition of a pod whose gate volsched lifts: a later leader counts it in its queue.

It is a condition, as users who may make pods may annotate them, and would fill other queues with pods that go nowhere.
"""

USER_PRIORITY_LIMIT: Final = 1_000_000_000
"""Priorities above are those of the system's classes (Kubernetes: HighestUserDefinablePriority)."""


class PodProperties(msgspec.Struct, frozen=True, gc=False):
    """The properties of a pod that may change without changing its request; replaced as a whole when the Pod changes.

    * ``containers``: the names of ``spec.containers`` if one of them requests an extended resource, else empty.
    * ``priority`` orders the tasks of a job; ``pod_priority`` is the value of the API server.
    * ``pinned``: a DaemonSet makes another pod on the same node at once, so others are evicted first.
    * ``gated``: the gates of the pod; ``admission_gate``: Volcano's gate, which volsched lifts once its queue takes it.
    * ``resource_claims``: the entries of ``spec.resourceClaims``, which never change; ``claim_names``: the claims that
      were
    made from templates: (entry of the pod, name or None for none).
    * ``scheduling_group``: its PodGroup of scheduling.k8s.io, empty without one.
    * ``is_managed``: volsched is its scheduler.
    * ``workload``: whether the pod serves (online) or runs to an end; if that changes it is another task.
    * ``started``: its start in seconds since the epoch, 0 if not reported yet; ``deadline``:
    ``spec.activeDeadlineSeconds``.
    """

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    role: str = ""
    containers: tuple[str, ...] = ()
    scheduler: str = ""
    is_managed: bool = False
    priority: int = 1
    pod_priority: int = 0
    priority_class: str = ""
    preemptable: bool = True
    preempts: bool = True
    pinned: bool = False
    gated: tuple[str, ...] = ()
    admission_gate: bool = False
    terminating: bool = False
    resource_claims: tuple[ResourceClaimUse, ...] = ()
    claim_names: tuple[tuple[str, str | None], ...] = ()
    scheduling_group: str = ""
    workload: str = OFFLINE
    started: float = 0.0
    deadline: float | None = None

    @property
    def may_be_placed(self) -> bool:
        """True if volsched is its scheduler, and it is neither gated nor being deleted."""
        return self.is_managed and not self.gated and not self.terminating

    @property
    def ours(self) -> bool:
        """Return ``is_managed``, under the name of one minor version ago."""
        message = "PodProperties.ours ends with the next minor version; it is is_managed"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.is_managed


NOTHING_STATED: Final = PodProperties()


class TaskInfo:
    """A pod: identity, template, what it states of itself (``spec``), and where it stands.

    Created by the mirror; moved only by the methods of ``Cluster``.

    ``charge`` is what the task takes on a node: ``(column, amount)`` pairs in the cluster's resource columns.
    ``ungated``: we have lifted Volcano's gate, or are about to; until the task has a node it counts in its queue all
    the same. ``nominated`` is the node where room is being made for the task; ``nomination_sent`` states that we
    decided so (or that it no longer holds) and the API server has not shown it yet. ``group`` is the PodGroup of
    Volcano that the pod is in, empty: in none. An annotation names it, and it stays what it was when the pod was
    placed. ``backing_off`` keeps a task out after its binding was refused, until its back-off is over or its pod
    changes. ``created`` orders tasks: seconds since the epoch; ``sequence`` orders those created in the same second.
    ``order`` orders tasks of a job after plugins' keys (``framework.dispatch.ordering``); () before it is asked.
    """

    __slots__ = (
        "backing_off",
        "bind_annotations",
        "bind_claims",
        "bind_volumes",
        "charge",
        "created",
        "evicted",
        "group",
        "has_run",
        "job",
        "key",
        "name",
        "namespace",
        "node",
        "nominated",
        "nomination_sent",
        "order",
        "refusal",
        "resource_version",
        "sequence",
        "spec",
        "status",
        "template",
        "uid",
        "ungated",
    )

    def __init__(
        self,
        uid: str,
        namespace: str,
        name: str,
        template: PodTemplate,
        charge: tuple[tuple[int, int], ...] = (),
        spec: PodProperties = NOTHING_STATED,
    ) -> None:
        self.uid = uid
        self.namespace = namespace
        self.name = name
        self.key = f"{namespace}/{name}"
        self.template = template
        self.spec = spec
        self.charge = charge
        self.status = TaskStatus.PENDING
        self.node: NodeInfo | None = None
        self.job: JobInfo | None = None
        self.group = ""
        self.has_run = False
        self.evicted = False
        self.created = 0.0
        self.sequence = 0
        self.ungated = False
        self.backing_off = False
        self.nominated = ""
        self.nomination_sent = False
        self.resource_version = ""
        self.refusal: Verdict | None = None
        self.bind_annotations: dict[str, str] | None = None
        self.bind_volumes: tuple[VolumeWrite, ...] = ()
        self.bind_claims: tuple[ClaimWrite, ...] = ()
        self.order: tuple[object, ...] = ()

    def claims_by_entry(self) -> Iterator[tuple[ResourceClaimUse, str]]:
        """Yield each entry of ``resource_claims`` with its claim's key; empty without a claim."""
        made = dict(self.spec.claim_names)
        for use in self.spec.resource_claims:
            name = use.claim or made.get(use.name)
            yield use, f"{self.namespace}/{name}" if name else ""

    @property
    def best_effort(self) -> bool:
        """True if backfill places the task: it requests nothing (pod slots aside), devices included.

        Members of gangs are placed with their gang whatever they request, of native groups and of every job that starts
        with more than one pod. (Ours; Volcano leaves them to backfill, so that a gang may start in part.)
        """
        if not self.template.best_effort or self.spec.scheduling_group:
            return False
        return self.job is None or self.job.spec.min_available <= 1

    @property
    def as_owner(self) -> Owner:
        """Return the pod as the owner that objects may name."""
        return as_pod(self.namespace, self.name, self.uid)

    @property
    def eviction_priority(self) -> int:
        """Return the priority with which the task takes room from other jobs' pods, and keeps its own.

        It is its PodGroup's, and at most the highest of the pods of its job: a user may write a PodGroup of any class,
        while the API server and ResourceQuotas limit the classes of pods. Values above ``USER_PRIORITY_LIMIT``, the
        classes of the system, count only for pods that have such a class themselves. (Ours; Volcano believes the
        PodGroup.)
        """
        job = self.job
        if job is None:
            return self.spec.pod_priority
        if job.spec.native is not None:  # the API server has looked at its class, as it has at those of pods
            return job.priority
        value = min(job.priority, job.highest_pod_priority)
        return value if value <= USER_PRIORITY_LIMIT else min(value, self.spec.pod_priority)

    @property
    def victim_priority(self) -> int:
        """With how much priority the task keeps its room.

        A native group that goes as a whole keeps it with the group's, and so does each of its pods from Kubernetes 1.37
        on. In 1.36 pods that go one by one have their own.
        """
        group = self.job.spec.native if self.job is not None else None
        if group is None or group.goes_whole or group.version.one_priority:
            return self.eviction_priority
        return self.spec.pod_priority

    @property
    def queue(self) -> str:
        """Return the name of the queue that the task counts for; empty without a job."""
        return self.job.queue if self.job is not None else ""

    if not TYPE_CHECKING:  # a type checker finds the former names itself
        __getattr__ = former_attributes(PodProperties, {"ours": "spec.is_managed"})

    def __repr__(self) -> str:
        return f"<Task {self.key} {self.status.name}{f' on {self.node.name}' if self.node else ''}>"


def index_in_name(name: str) -> int | None:
    """Return the number after the last dash of a pod's name with at least three parts, else None.

    Volcano's tie break between tasks: ``job-worker-2`` comes before ``job-worker-10``.
    """
    rest, _, last = name.rpartition("-")
    return int(last) if last.isdigit() and last.isascii() and "-" in rest else None
