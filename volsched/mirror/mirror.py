"""The cluster as the scheduler believes it to be, fed by typed changes.

The scheduling thread owns the mirror and is its only writer. What the scheduler has decided counts at once (a pod is
*assumed* on its node) and stays until the API server shows it or is known to have refused it. Nothing here asks the
API server anything, and nothing here raises over an object's content: a field that cannot be read is a problem that is
told, and an object that cannot be taken in is set aside (``quarantine``).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Final

from volsched.mirror import reading
from volsched.mirror.online import OnlineAccounts
from volsched.mirror.quarantine import Identity, Quarantine, SetAside, identity_of, stopped_by, unreadable
from volsched.mirror.rejections import rejection_of
from volsched.model import api
from volsched.model.budget import Budget
from volsched.model.changes import (
    BindFailed,
    Bound,
    Change,
    DroppedFields,
    EvictFailed,
    Gone,
    GroupWriteFailed,
    Put,
    Unreadable,
)
from volsched.model.cluster import Cluster
from volsched.model.errors import FieldError
from volsched.model.job import GroupStatus, JobInfo
from volsched.model.node import NodeInfo, NodeSpec
from volsched.model.plan import Tell
from volsched.model.pods.limits import DEFAULT, PodLimits
from volsched.model.pods.task import ResourceClaimUse, TaskInfo
from volsched.model.pods.template import PodTemplate, TemplateTable
from volsched.model.queues.allowed_namespaces import FIELD as ALLOWED_FIELD
from volsched.model.queues.queue import QueueInfo
from volsched.model.selectors import LabelSelector
from volsched.model.status import TaskStatus
from volsched.model.values.bounded import Bounded, Size
from volsched.model.verdict import BINDER, ConditionReason, Scope, Step, Verdict

ASSUMED: Final = (TaskStatus.BINDING, TaskStatus.BOUND)
FINISHED: Final = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
MOST_PROBLEMS: Final = 4096
"""Fields that could not be read and that nobody was told of yet; a follower tells nobody for as long as it follows."""

_SWEEP_EVERY: Final = 64


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """Whose pods are ours, and how they are grouped.

    ``plain_pods``: a pod of ours that names no PodGroup is a job of one; otherwise it waits for a PodGroup.
    ``pod_limits``: how much one pod may say.
    """

    scheduler_names: tuple[str, ...] = ("volsched", "volcano")
    default_queue: str = "default"
    plain_pods: bool = False
    pod_limits: PodLimits = DEFAULT


@dataclass(frozen=True, slots=True)
class Problem:
    """A field of an object that could not be read; ``outcome`` says what that comes to."""

    kind: str
    namespace: str
    name: str
    uid: str
    field: str
    message: str
    outcome: str = "it counts as 0"


@dataclass(slots=True)
class _Arrival:
    """Order of arrival, for objects that say no time of creation."""

    count: int = 0

    def next(self) -> int:
        self.count += 1
        return self.count


@dataclass(slots=True)
class _Pods:
    """What the mirror must remember of pods beside their tasks."""

    homeless: dict[str, dict[str, TaskInfo]] = field(default_factory=dict)
    """Tasks whose node is not known (yet), by the node's name."""
    homes: dict[str, str] = field(default_factory=dict)
    """The node's name of each of them."""
    retries: list[tuple[float, str]] = field(default_factory=list)
    """When held tasks may be tried again: a heap of (seconds since the epoch, uid), some of them out of date."""
    due: dict[str, float] = field(default_factory=dict)
    """When each task that is held for a time may be tried again."""
    failed: dict[str, TaskInfo] = field(default_factory=dict)
    """Tasks whose binding failed and nobody was told of it yet."""


class Mirror:
    """Applies changes to a ``Cluster``. ``online`` follows what online pods take of it."""

    def __init__(self, settings: MirrorSettings | None = None) -> None:
        self.settings = settings or MirrorSettings()
        self.cluster = Cluster()
        self.online = OnlineAccounts(self.cluster)
        self.cluster.observe(self.online)
        self.problems: Bounded[Problem, None] = Bounded(MOST_PROBLEMS)
        self.rejections: Bounded[Tell, None] = Bounded(MOST_PROBLEMS)
        self.quarantine = Quarantine()
        self.templates = TemplateTable(limits=self.settings.pod_limits)
        self._kept_annotations: tuple[frozenset[str], frozenset[str]] = frozenset(), frozenset()
        self._arrival = _Arrival()
        self._pods = _Pods()
        self._since_sweep = 0
        self._put: dict[type, Callable[[api.ApiObject], None]] = {
            api.Pod: self._put_pod,
            api.PodGroup: self._put_group,
            api.Queue: self._put_queue,
            api.PriorityClass: self._put_priority_class,
            api.Namespace: self._put_namespace,
            api.PodDisruptionBudget: self._put_budget,
        }
        self._gone: dict[str, Callable[[Gone], None]] = {
            "Pod": self._drop_pod,
            "Node": lambda gone: self._drop_node(gone.name),
            "PodGroup": self._drop_group,
            "Queue": self._drop_queue,
            "PriorityClass": self._drop_priority_class,
            "Namespace": self._drop_namespace,
            "PodDisruptionBudget": self._drop_budget,
        }
        for name in dict.fromkeys(("root", self.settings.default_queue)):
            self.cluster.put_queue(self._standing_queue(name))

    def count_online(self) -> None:
        """Count anew what online pods take."""
        self.cluster.ignore(self.online)
        self.online = OnlineAccounts(self.cluster)
        self.cluster.observe(self.online)

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of what is kept here and in the cluster; they may be read on any thread."""
        cluster = self.cluster
        return {
            "mirror.pods": lambda: len(cluster.tasks),
            "mirror.jobs": lambda: len(cluster.jobs),
            "mirror.nodes": lambda: len(cluster.nodes),
            "mirror.queues": lambda: len(cluster.queues),
            "mirror.namespaces": lambda: len(cluster.namespaces),
            "mirror.permissions": lambda: cluster.permissions.minded,
            "mirror.columns": lambda: len(cluster.columns),
            "mirror.templates": lambda: len(self.templates),
            "mirror.remembered": lambda: self.templates.remembered,
            "mirror.retries": lambda: len(self._pods.retries),
            "mirror.problems": lambda: len(self.problems),
            "mirror.rejections": lambda: len(self.rejections),
            "mirror.quarantine": lambda: len(self.quarantine),
        }

    # -- changes ------------------------------------------------------------------------------------------------------

    def apply(self, changes: Iterable[Change]) -> int:
        """Take changes in, in order; how many there were.

        Nodes that come together are numbered together, and before what else is there: pods find them, then.
        """
        count = 0
        nodes: list[Put] = []
        others: list[Change] = []
        for change in changes:
            count += 1
            if isinstance(change, Put) and isinstance(change.object, api.Node):
                nodes.append(change)
                continue
            others.append(change)
            if not isinstance(change, Put):
                self._apply_batch(nodes, others)
                nodes, others = [], []
        self._apply_batch(nodes, others)
        self.cluster.changes += count
        return count

    def _apply_batch(self, nodes: Sequence[Put], others: Iterable[Change]) -> None:
        if nodes:
            self._put_nodes(nodes)
        for change in others:
            self._guarded(self._apply_one, change)

    def _guarded(self, take: Callable[[Change], None], change: Change) -> None:
        """Take a change in; what fails over an object ends with that object."""
        try:
            take(change)
        except Exception as error:
            self._set_aside(stopped_by(change, error))
        else:
            if self.quarantine and not isinstance(change, Unreadable):
                self._take_back(identity_of(change))

    def _apply_one(self, change: Change) -> None:
        match change:
            case Put(found):
                self._put.get(type(found), self._put_storage)(found)
            case Gone():
                self._gone.get(change.kind, self._drop_storage)(change)
            case Unreadable():
                self._set_aside(unreadable(change))
            case Bound():
                self._bound(change)
            case BindFailed():
                self._bind_failed(change)
            case EvictFailed():
                self._evict_failed(change)
            case GroupWriteFailed():
                self._group_write_failed(change)
            case DroppedFields():
                self.cluster.dropped_fields[change.kind] = change.fields

    # -- quarantine ---------------------------------------------------------------------------------------------------

    def _set_aside(self, found: SetAside | None) -> None:
        """Leave an object as it was last understood; the node of a pod that does not count takes nothing new."""
        if found is None:
            return
        if found.uid in self.cluster.tasks:
            found = replace(found, node="")
        before = self.quarantine.add(found)
        self._close_or_open(found, before)

    def _take_back(self, identity: Identity | None) -> None:
        if identity is not None:
            self._close_or_open(self.quarantine.drop(identity))

    def _close_or_open(self, *found: SetAside | None) -> None:
        """Have the nodes on which these run take something new or not, as it is now."""
        for name in {each.node for each in found if each is not None}:
            node = self.cluster.nodes.get(name)
            if node is not None:
                self.cluster.set_spec(node, self._with_quarantine(node.spec))

    def _with_quarantine(self, facts: NodeSpec) -> NodeSpec:
        closed = facts.name in self.quarantine.closed_nodes()
        return facts if facts.quarantined == closed else replace(facts, quarantined=closed)

    def tick(self, now: float) -> None:
        """Let tasks whose back-off is over be tried again. ``now`` is in seconds since the epoch."""
        due = self.next_retry()
        while due is not None and due <= now:
            self._release(self.cluster.tasks[self._pods.retries[0][1]])
            due = self.next_retry()

    def next_retry(self) -> float | None:
        """When the next held task may be tried again; None when none is held for a time."""
        retries, due = self._pods.retries, self._pods.due
        while retries and due.get(retries[0][1]) != retries[0][0]:
            heapq.heappop(retries)
        return retries[0][0] if retries else None

    def take_failed(self) -> list[TaskInfo]:
        """The tasks whose binding failed since this was last called and that wait again."""
        failed, self._pods.failed = self._pods.failed, {}
        return list(failed.values())

    def take_problems(self) -> list[Problem]:
        """The problems found since this was last called."""
        found = list(self.problems)
        self.problems.clear()
        return found

    def take_rejections(self) -> list[Tell]:
        """The Events about pods that nodes refused since this was last called."""
        found = list(self.rejections)
        self.rejections.clear()
        return found

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _put_nodes(self, changes: Sequence[Put]) -> None:
        read: list[tuple[NodeSpec, Mapping[str, int]]] = []
        for change in changes:
            self._guarded(lambda change: read.append(self._read_node(change)), change)
        self.cluster.put_nodes(read)
        for facts, _ in read:
            for task in list(self._pods.homeless.get(facts.name, {}).values()):
                self._leave_home(task.uid)
                self.cluster.move(task, task.status, self.cluster.nodes[facts.name])

    def _read_node(self, change: Change) -> tuple[NodeSpec, Mapping[str, int]]:
        assert isinstance(change, Put)
        assert isinstance(change.object, api.Node)
        facts, allocatable = reading.node_spec(change.object, self._reporter("Node", change.object))
        return self._with_quarantine(facts) if self.quarantine else facts, allocatable

    def _drop_node(self, name: str) -> None:
        node = self.cluster.nodes.get(name)
        if node is None:
            return
        for task in list(node.tasks.values()):
            if task.status is TaskStatus.BINDING:
                self.cluster.move(task, TaskStatus.PENDING, None)
            else:
                self.cluster.move(task, task.status, None)
                self._wait_for_home(task, name)
        self.cluster.remove_node(name)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _put_pod(self, pod: api.ApiObject) -> None:
        assert isinstance(pod, api.Pod)
        uid = pod.metadata.uid
        task = self.cluster.tasks.get(uid)
        if task is None:
            if self._concerns_us(pod):
                self._add_pod(pod)
            return
        if task.resource_version and task.resource_version == pod.metadata.resource_version:
            return
        self._update_pod(task, pod)

    def _concerns_us(self, pod: api.Pod) -> bool:
        """Our own pods in any state, and others' that hold room."""
        if pod.spec.scheduler_name in self.settings.scheduler_names or reading.GROUP_NAME in pod.metadata.annotations:
            return True
        return bool(pod.spec.node_name) and pod.status.phase not in ("Succeeded", "Failed")

    def _add_pod(self, pod: api.Pod, placed_as: PodTemplate | None = None) -> None:
        meta = pod.metadata
        task = TaskInfo(meta.uid, intern(meta.namespace), meta.name, self.templates.intern(pod, placed_as))
        task.sequence = self._arrival.next()
        created = reading.seconds(meta.creation_timestamp)
        task.created = created if created is not None else task.sequence * 1e-6
        self._describe(task, pod)
        task.ungated = reading.was_ungated(pod)
        task.job = self._job_of(task)
        status, node = self._standing(task, pod)
        self.cluster.add_task(task, status, node)
        if task.gated and node is None:
            self.cluster.relief += 1  # what was reserved for it in its job's minimum is not, as long as it is gated
        self._explain_gates(task)
        self._sweep_sometimes()

    def _update_pod(self, task: TaskInfo, pod: api.Pod) -> None:
        template = self.templates.intern(pod, self._placed_as(task))
        labels_before, role_before, group_before = task.labels, task.role, self._group_of(task)
        annotations_before = task.annotations
        gates_before = _gates_of(task)
        says_before = (*gates_before, task.role)
        assumed = _stays_assumed(task, pod) or _stays_evicted(task, pod)
        self._note_rejection(task, pod)
        if template is not task.template or _kept_for_life(pod) != (task.resource_claims, task.workload):
            self._replace(task, pod)
            return
        self._describe(task, pod)
        if pod.spec.node_name and (task.annotations != annotations_before or task.bind_annotations):
            self._hear_annotations(task)
        if self._group_of(task) != group_before:
            self._leave(task)
            self.cluster.join(task, self._job_of(task))
        if (*_gates_of(task), task.role) != says_before:
            self._tell_members_changed(task, claims_changed=task.claim_names != gates_before[2])
        if task.labels != labels_before and task.node is not None:
            self.cluster.relabel(task, labels_before)
        elif (task.labels, task.role) != (labels_before, role_before) and task.job is not None:
            task.job.unpark()
        if assumed:
            return
        status, node = self._standing(task, pod)
        if (status, node) != (task.status, task.node):
            self._move(task, status, node)
        if task.held and task.uid not in self._pods.due:
            self._release(task)
        if gates_before != _gates_of(task) and task.job is not None:
            task.job.unpark()
            if gates_before[1] and not task.admission_gate:
                task.refusal = task.told = None  # what kept it from its queue is not in its condition
            self._explain_gates(task)

    def _note_rejection(self, task: TaskInfo, pod: api.Pod) -> None:
        found = rejection_of(task, pod)
        if found is not None:
            self.rejections[found] = None

    def _tell_members_changed(self, task: TaskInfo, *, claims_changed: bool) -> None:
        if claims_changed:
            self.cluster.count_ungated_again(task)
        if task.job is not None:
            self.cluster.members_changed(task.job)

    def _hear_annotations(self, task: TaskInfo) -> None:
        """Once the API server shows a pod on its node, what it shows counts, and no longer what the Binding carried."""
        task.bind_annotations = None
        if task.node is not None:
            self.cluster.annotated(task)

    def _replace(self, task: TaskInfo, pod: api.Pod) -> None:
        """The pod asks for something else now: take its task out and put a new one in, standing as before."""
        stays = _stays_assumed(task, pod) or _stays_evicted(task, pod)
        assumed_on = self._home_of(task) if stays else ""
        status, created = task.status, task.created
        placed_as = self._placed_as(task)
        self._drop_task(task.uid)
        self._add_pod(pod, placed_as)
        again = self.cluster.tasks[pod.metadata.uid]
        again.created = created
        if assumed_on:
            again.bind_annotations = task.bind_annotations
            self.cluster.move(again, status, self._at_home(again, assumed_on))

    def _placed_as(self, task: TaskInfo) -> PodTemplate | None:
        """The template that a pod with a node was placed as; None for one that waits."""
        return task.template if self._home_of(task) else None

    def _describe(self, task: TaskInfo, pod: api.Pod) -> None:
        """Everything of a pod that may change without changing what it asks for."""
        meta, spec = pod.metadata, pod.spec
        task.labels = reading.shared(meta.labels)
        task.annotations = reading.shared(meta.annotations)
        task.role = reading.role_of(pod)
        task.containers = reading.container_names(pod) if task.template.container_amounts else ()
        task.scheduler = intern(spec.scheduler_name)
        task.ours = spec.scheduler_name in self.settings.scheduler_names
        task.pod_priority = self._class_value(spec.priority_class_name) if spec.priority is None else spec.priority
        task.priority = reading.task_priority(pod, self.cluster.priority_classes)
        if task.job is not None:
            task.job.highest = None
        task.priority_class = intern(spec.priority_class_name)
        task.preemptable = reading.is_preemptable(pod)
        task.preempts = spec.preemption_policy != "Never"
        task.gated = reading.gates_of(pod)
        task.admission_gate = reading.has_admission_gate(pod)
        task.terminating = meta.deletion_timestamp is not None
        task.resource_claims, task.workload = _kept_for_life(pod)
        task.claim_names = reading.claim_names_of(pod)
        self._hear_nomination(task, pod.status.nominated_node_name)
        task.resource_version = meta.resource_version

    def _hear_nomination(self, task: TaskInfo, node: str) -> None:
        """Take a pod's nomination from its status, unless that is older than what we have just decided."""
        if task.nomination_sent and node != task.nominated:
            return
        if node != task.nominated or task.nomination_sent:
            self.cluster.nominate(task, node, sent=False)

    def _standing(self, task: TaskInfo, pod: api.Pod) -> tuple[TaskStatus, NodeInfo | None]:
        """Status and node of a pod; a node that is not known yet is waited for."""
        status = reading.pod_status(pod)
        name = pod.spec.node_name
        self._leave_home(task.uid)
        if not name or status in FINISHED:
            return status, None
        return status, self._at_home(task, name)

    def _at_home(self, task: TaskInfo, name: str) -> NodeInfo | None:
        """The node of that name; when it is not known (yet), the task waits for it."""
        node = self.cluster.nodes.get(name)
        if node is None:
            self._wait_for_home(task, name)
        return node

    def _wait_for_home(self, task: TaskInfo, name: str) -> None:
        self._leave_home(task.uid)
        self._pods.homeless.setdefault(name, {})[task.uid] = task
        self._pods.homes[task.uid] = name

    def _leave_home(self, uid: str) -> None:
        """Let a task wait for its node no longer."""
        name = self._pods.homes.pop(uid, None)
        if name is not None:
            waiting = self._pods.homeless[name]
            del waiting[uid]
            if not waiting:
                del self._pods.homeless[name]

    def _home_of(self, task: TaskInfo) -> str:
        """The name of the node that a task is on, known or not; empty when it is on none."""
        return task.node.name if task.node is not None else self._pods.homes.get(task.uid, "")

    def _move(self, task: TaskInfo, status: TaskStatus, node: NodeInfo | None) -> None:
        if node is task.node and {status, task.status} <= _SAME_ROOM:
            self.cluster.move_quietly(task, status)
        else:
            self.cluster.move(task, status, node)
        if status is not TaskStatus.PENDING:
            task.refusal = task.told = None

    def _drop_pod(self, gone: Gone) -> None:
        self._drop_task(gone.uid)
        self._sweep_sometimes()

    def _drop_task(self, uid: str) -> None:
        task = self.cluster.tasks.get(uid)
        if task is None:
            return
        self._leave_home(uid)
        self._pods.due.pop(uid, None)
        self._pods.failed.pop(uid, None)
        job = task.job
        self.cluster.remove_task(task)
        self._drop_if_empty(job)

    def _explain_gates(self, task: TaskInfo) -> None:
        if task.gated and task.ours and task.status is TaskStatus.PENDING:
            names = ", ".join(task.gated)
            task.refusal = Verdict(
                Step.GATED, "", Scope.POD, "SchedulingGated", f"scheduling is gated by {names}", resolvable=False
            )
        elif task.refusal is not None and task.refusal.step is Step.GATED:
            task.refusal = None

    def _sweep_sometimes(self) -> None:
        """Forget templates that no task has any more, after as many pods came or went as cost little to look at."""
        self._since_sweep += 1
        if self._since_sweep < max(_SWEEP_EVERY, len(self.cluster.tasks) // 4):
            return
        self._since_sweep = 0
        dead = self.templates.sweep({task.template.id for task in self.cluster.tasks.values()})
        self.cluster.forget(dead, left=len(self.templates))

    def keep_annotations(self, keys: Iterable[str], asking: Iterable[str] = ()) -> None:
        """Let these annotations of pods decide placement, and no others: they are in the templates from now on.

        A key that ends in ``*`` stands for all that begin like it. By one of ``asking`` a pod asks for something.
        Plugins name theirs, so this is called whenever there are other plugins, between two sessions.
        """
        kept, asks = frozenset(keys), frozenset(asking)
        if (kept, asks) == self._kept_annotations:
            return
        self._kept_annotations = kept, asks
        exact = frozenset(key for key in kept if not key.endswith("*"))
        families = tuple(sorted(key[:-1] for key in kept if key.endswith("*")))
        self.templates.keep(lambda key: key in exact or key.startswith(families), asks)
        for task in self.cluster.tasks.values():
            task.template = self.templates.again(task.template, task.annotations)
        for job in self.cluster.jobs.values():
            job.unpark()
            job.count_best_effort()

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _group_of(self, task: TaskInfo) -> str:
        return task.annotations.get(reading.GROUP_NAME, "")

    def _job_of(self, task: TaskInfo) -> JobInfo | None:
        """The job that a task belongs to, made when it is the first to name it."""
        group = self._group_of(task)
        if group:
            return self.cluster.jobs.get(f"{task.namespace}/{group}") or self._new_job(task.namespace, group)
        if not task.ours:
            return None
        return self._lone_job(task)

    def _lone_job(self, task: TaskInfo) -> JobInfo:
        """The job of a pod that names no PodGroup: of one, or waiting for a PodGroup."""
        job = JobInfo(task.namespace, f"pod/{task.name}")
        earlier = self.cluster.jobs.get(job.key)
        if earlier is not None:  # a pod of that name was made again: the old one is gone
            for uid in list(earlier.tasks):
                self._drop_task(uid)
        job.uid = task.uid
        job.queue = self.settings.default_queue
        job.created = task.created
        job.priority = task.pod_priority
        job.implicit = self.settings.plain_pods
        self.cluster.put_job(job)
        return job

    def _new_job(self, namespace: str, name: str) -> JobInfo:
        job = JobInfo(namespace, name)
        job.created = self._arrival.next() * 1e-6
        self.cluster.put_job(job)
        return job

    def _leave(self, task: TaskInfo) -> None:
        job = task.job
        self.cluster.join(task, None)
        self._drop_if_empty(job)

    def _drop_if_empty(self, job: JobInfo | None) -> None:
        if job is not None and not job.tasks and not job.has_group and job.key in self.cluster.jobs:
            self.cluster.remove_job(job)

    def _put_group(self, group: api.ApiObject) -> None:
        assert isinstance(group, api.PodGroup)
        meta, spec = group.metadata, group.spec
        job = self.cluster.jobs.get(f"{meta.namespace}/{meta.name}") or self._new_job(meta.namespace, meta.name)
        before = _spec_of(job) if job.has_group and job.group_uid == meta.uid else None
        if before is None:
            job.created = reading.seconds(meta.creation_timestamp) or job.created
            job.reported, job.confirmed, job.told = None, True, None
        job.has_group = True
        job.group_uid = meta.uid
        job.labels, job.annotations = meta.labels, meta.annotations
        job.min_available = spec.min_member
        job.min_roles = spec.min_task_member
        job.min_resources = reading.minimum_of(group, self._reporter("PodGroup", group))
        job.priority_class = spec.priority_class_name
        job.priority = self._class_value(spec.priority_class_name)
        job.topology = spec.network_topology.mode if spec.network_topology is not None else ""
        job.resource_version = meta.resource_version
        self.cluster.set_job_queue(job, spec.queue or self.settings.default_queue)
        self._take_status(job, group)
        if _spec_of(job) != before:
            job.refusal = None
            self.cluster.put_job(job)

    def _take_status(self, job: JobInfo, group: api.PodGroup) -> None:
        """Take a PodGroup's status in, unless it is older than one that we are still writing."""
        status = group.status
        shown = GroupStatus(status.phase, status.running, status.succeeded, status.failed, reading.conditions_of(group))
        if shown == job.reported:
            job.confirmed = True
        elif job.confirmed:
            job.reported = shown
            job.conditions = shown.conditions
            self.cluster.touched[job.key] = job
        else:
            return
        self.cluster.set_phase(job, status.phase)

    def _group_write_failed(self, change: GroupWriteFailed) -> None:
        job = self.cluster.jobs.get(f"{change.namespace}/{change.name}")
        if job is not None:
            job.reported, job.confirmed = None, True
            self.cluster.touched[job.key] = job

    def _drop_group(self, gone: Gone) -> None:
        job = self.cluster.jobs.get(f"{gone.namespace}/{gone.name}")
        if job is None or not job.has_group:
            return
        job.has_group = False
        job.reported, job.confirmed = None, True
        self.cluster.set_phase(job, "")
        self.cluster.relief += 1
        self._drop_if_empty(job)

    def _class_value(self, name: str) -> int:
        return self.cluster.priority_classes.get(name, self.cluster.default_priority)

    def _put_priority_class(self, found: api.ApiObject) -> None:
        assert isinstance(found, api.PriorityClass)
        self.cluster.priority_classes[found.metadata.name] = found.value
        if found.global_default:
            self.cluster.default_priority = found.value
            self._default_class = found.metadata.name
        elif self._default_class == found.metadata.name:
            self.cluster.default_priority, self._default_class = 0, ""
        self._revalue_jobs()

    _default_class = ""

    def _drop_priority_class(self, gone: Gone) -> None:
        self.cluster.priority_classes.pop(gone.name, None)
        if gone.name == self._default_class:
            self.cluster.default_priority, self._default_class = 0, ""
        self._revalue_jobs()

    def _revalue_jobs(self) -> None:
        for job in self.cluster.jobs.values():
            if job.has_group:
                job.priority = self._class_value(job.priority_class)

    # -- queues, namespaces, storage ----------------------------------------------------------------------------------

    def _standing_queue(self, name: str) -> QueueInfo:
        """A queue that exists without being declared."""
        queue = QueueInfo(name)
        queue.reclaimable = name != "root"
        return queue

    def _put_queue(self, found: api.ApiObject) -> None:
        assert isinstance(found, api.Queue)
        info = reading.queue_info(found, self._reporter("Queue", found))
        created = reading.seconds(found.metadata.creation_timestamp)
        known = self.cluster.queues.get(info.name)
        if created is None:
            created = known.created if known is not None and known.created else self._arrival.next() * 1e-6
        info.created = created
        if info.allowed is not None and info.allowed.problem and (known is None or known.allowed != info.allowed):
            self._reporter("Queue", found, "nobody new may use the queue")(ALLOWED_FIELD, info.allowed.problem)
        if known is None or known.said != info.said:
            self.cluster.put_queue(info)
        else:
            known.past = info.past

    def _drop_queue(self, gone: Gone) -> None:
        if gone.name in ("root", self.settings.default_queue):
            self.cluster.put_queue(self._standing_queue(gone.name))
        else:
            self.cluster.remove_queue(gone.name)

    def _put_namespace(self, found: api.ApiObject) -> None:
        self.cluster.put_namespace(found.metadata.name, found.metadata.labels)

    def _drop_namespace(self, gone: Gone) -> None:
        self.cluster.remove_namespace(gone.name)

    def _put_budget(self, found: api.ApiObject) -> None:
        assert isinstance(found, api.PodDisruptionBudget)
        meta = found.metadata
        try:
            selector = LabelSelector.parse(found.spec.selector, "spec.selector")
        except FieldError as error:
            self._reporter("PodDisruptionBudget", found)(error.path, error.message)
            selector = LabelSelector.of({})  # it protects more rather than fewer
        budget = Budget(meta.namespace, meta.name, selector, found.status.disruptions_allowed)
        self.cluster.budgets[budget.key] = budget

    def _drop_budget(self, gone: Gone) -> None:
        self.cluster.budgets.pop(f"{gone.namespace}/{gone.name}", None)

    def _put_storage(self, found: api.ApiObject) -> None:
        if self.cluster.storage.put(found) or self.cluster.devices.put(found):
            self.cluster.relief += 1

    def _drop_storage(self, gone: Gone) -> None:
        named = (gone.kind, gone.namespace, gone.name)
        if self.cluster.storage.drop(*named) or self.cluster.devices.drop(*named):
            self.cluster.relief += 1

    # -- results of writes --------------------------------------------------------------------------------------------

    def _bound(self, change: Bound) -> None:
        task = self.cluster.tasks.get(change.uid)
        if task is None or task.status not in (TaskStatus.BINDING, TaskStatus.PENDING):
            return
        if task.node is not None and task.node.name == change.node:
            self.cluster.move_quietly(task, TaskStatus.BOUND)
        else:  # its node went while the binding was under way; the API server takes such a binding too
            self.cluster.move(task, TaskStatus.BOUND, self._at_home(task, change.node))
        task.refusal = None

    def _bind_failed(self, change: BindFailed) -> None:
        task = self.cluster.tasks.get(change.uid)
        if task is None or task.status not in ASSUMED or task.node is None or task.node.name != change.node:
            return
        self.cluster.move(task, TaskStatus.PENDING, None)
        message = f'binding to node "{change.node}" failed: {change.message}'
        shown_as = ConditionReason.SCHEDULER_ERROR
        task.refusal = Verdict(Step.PREDICATE, BINDER, Scope.POD, "FailedScheduling", message, shown_as=shown_as)
        task.told = None
        task.held = True
        self._pods.failed[task.uid] = task
        if change.retry_at is not None:
            self._pods.due[task.uid] = change.retry_at
            heapq.heappush(self._pods.retries, (change.retry_at, task.uid))

    def _release(self, task: TaskInfo) -> None:
        task.held = False
        self._pods.due.pop(task.uid, None)
        if task.job is not None:
            task.job.unpark()

    def _evict_failed(self, change: EvictFailed) -> None:
        task = self.cluster.tasks.get(change.uid)
        if task is not None and task.status is TaskStatus.RELEASING and not task.terminating:
            self.cluster.move(task, TaskStatus.RUNNING, task.node)

    # -- problems -----------------------------------------------------------------------------------------------------

    def _reporter(self, kind: str, found: api.ApiObject, outcome: str = "it counts as 0") -> reading.Report:
        meta = found.metadata

        def report(path: str, message: str) -> None:
            self.problems[Problem(kind, meta.namespace, meta.name, meta.uid, path, message, outcome)] = None

        return report


def _spec_of(job: JobInfo) -> tuple[object, ...]:
    """What a PodGroup says that decides anything, its status aside."""
    needs = (job.min_available, job.min_roles, job.min_resources)
    return (*needs, job.queue, job.priority_class, job.topology, job.labels, job.annotations)


def _kept_for_life(pod: api.Pod) -> tuple[tuple[ResourceClaimUse, ...], str]:
    """What accounts are kept by beside the template: a pod that says something else there is another task."""
    return reading.resource_claims_of(pod), reading.workload_of(pod)


def _gates_of(task: TaskInfo) -> tuple[tuple[str, ...], bool, tuple[tuple[str, str | None], ...]]:
    """What keeps a pod from being tried, and which claims were made for it."""
    return task.gated, task.admission_gate, task.claim_names


def _stays_assumed(task: TaskInfo, pod: api.Pod) -> bool:
    """Whether a pod that the API server shows without a node is on its way to the one that we chose."""
    ended = pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed")
    return task.status in ASSUMED and not pod.spec.node_name and not ended


def _stays_evicted(task: TaskInfo, pod: api.Pod) -> bool:
    """Whether a pod that the API server does not show as being deleted is about to be, because we decided so.

    Its condition ``DisruptionTarget`` is written, and seen, first. Only a refusal takes the decision back.
    """
    ended = pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed")
    return task.status is TaskStatus.RELEASING and not task.terminating and not ended


_SAME_ROOM: Final = {TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING}
