"""The controllers' data about the cluster, and the objects that a change affects.

Of a pod only its state is kept, and the template of its PodGroup (equal pods share that). A change names the keys that
it affects; the controller of a key decides its writes.

The store is one class: every change of an object moves several of its indexes together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain, islice
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import astuple

from volsched.controllers import grouping
from volsched.controllers.authors import OURS, WRITTEN, Authorship, authorship_of
from volsched.controllers.counted import NOTHING, Counted
from volsched.controllers.grouping import GROUP_MIN_MEMBER, GroupTemplate
from volsched.controllers.job_controller import JobSurroundings, JobView
from volsched.controllers.jobs import identity_only
from volsched.controllers.lifecycle import JobPod, Loss, Losses
from volsched.controllers.objects import WORKLOADS, PodOwner, RawJob
from volsched.controllers.owners import as_owner
from volsched.controllers.pod_index import JobPodIndex, member_of
from volsched.controllers.queues import PodGroupCounts, QueueHierarchy
from volsched.controllers.waiting import unschedulable
from volsched.controllers.writes import GROUP, JOB, POD, QUEUE
from volsched.mirror.reading import GENERATED_GROUP, GROUP_NAME, as_name, generated_group_name, seconds
from volsched.model import api
from volsched.model.changes import Deleted, Refused
from volsched.model.job import UNKNOWN
from volsched.model.pods.owners import Owner, controller_of, group_of, named_by
from volsched.model.values.bounded import Bounded, Size

FINISHED: Final = ("Succeeded", "Failed")


class Key(NamedTuple):
    """An object that may need a write: its kind, and `namespace/name` (a pod's uid)."""

    kind: str
    name: str


Dirty = Callable[[Key], None]
"""Gets each key that a change affects."""


@dataclass(slots=True, eq=False)
class PodView:
    """The kept data of a pod. `group` is the PodGroup that it names, `plain` the one that it has by its owner.

    Further data of a Volcano Job's pod is in the `pod_index` of that Job.
    """

    uid: str
    namespace: str
    name: str
    version: int
    owner: api.OwnerReference
    group: str
    plain: str
    group_template: GroupTemplate
    phase: str
    terminating: bool
    has_node: bool
    pod_index: JobPodIndex | None
    seen: float
    created: float

    @property
    def whose(self) -> Owner:
        """Return the owner that it names."""
        return named_by(self.namespace, self.owner)

    @property
    def is_alive(self) -> bool:
        """True if it waits or runs, and is to go on doing so."""
        return self.phase not in FINISHED and not self.terminating

    @property
    def is_waiting(self) -> bool:
        """True if it has no node yet, and is to get one."""
        return self.is_alive and not self.has_node


class _Waiting:
    """The pods of one owner that wait for a node, the newest one first.

    A pod may change while it waits, so an entry is checked when it has become the first one. `synced_template` is the
    template of the pod that was the newest one at the last call of ``newest``.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, str]] = []
        self._numbers = 0
        self.synced_template: GroupTemplate | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, pod: PodView) -> None:
        """Take in a waiting pod; of those made in the same second the one that came last is the newest."""
        self._numbers += 1
        heappush(self._entries, (-pod.created, -self._numbers, pod.uid))

    def newest(self, pods: Mapping[str, PodView], whose: Owner) -> PodView | None:
        """Return the newest of these pods that waits."""
        while self._entries:
            pod = pods.get(self._entries[0][2])
            if pod is not None and pod.is_waiting and pod.whose == whose:
                return pod
            heappop(self._entries)
        return None


@dataclass(frozen=True, slots=True)
class OwnerView:
    """The kept data of a workload."""

    annotations: Mapping[str, str]
    is_scaled_to_zero: bool


CONDEMNED_AT_ONCE: Final = 500
"""The most pods of a Volcano Job that are marked before others have their turn."""

MOST_TOMBSTONES: Final = 4096


class Tombstones:
    """The uids of recently deleted objects, and their kinds: they do not come back."""

    def __init__(self) -> None:
        self._gone: Bounded[str, tuple[str, str, str]] = Bounded(MOST_TOMBSTONES)

    def __len__(self) -> int:
        return len(self._gone)

    def put(self, uid: str, kind: str, namespace: str, name: str) -> None:
        """Note what is gone."""
        self._gone[uid] = kind, namespace, name

    def __contains__(self, uid: str) -> bool:
        return uid in self._gone

    def has(self, owner: Owner) -> bool:
        """True if an owner was deleted."""
        return self._gone.get(owner.uid) == (owner.kind, owner.namespace, owner.name)


@dataclass(slots=True)
class Store:
    """The cluster as the controllers see it. `clock` gives seconds since the epoch."""

    dirty: Dirty
    clock: Callable[[], float]
    default_queue: str = grouping.DEFAULT_QUEUE
    inherit: bool = True
    pods: dict[str, PodView] = field(default_factory=dict)
    groups: dict[str, api.PodGroup] = field(default_factory=dict)
    owners: dict[Owner, OwnerView] = field(default_factory=dict)
    queues: dict[str, api.Queue] = field(default_factory=dict)
    jobs: dict[str, JobView] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    pod_group_counts: PodGroupCounts = field(default_factory=PodGroupCounts)
    tombstones: Tombstones = field(default_factory=Tombstones)
    refused: set[str] = field(default_factory=set)
    """Keys of PodGroups without room in memory: only their identity is known, and they are not written."""
    _pods_of_group: dict[str, dict[str, PodView]] = field(default_factory=dict)
    _waiting: dict[str, dict[Owner, _Waiting]] = field(default_factory=dict)
    _authors: dict[str, Authorship] = field(default_factory=dict)
    _known_authors: WeakValueDictionary[tuple[Any, ...], Authorship] = field(default_factory=WeakValueDictionary)
    _pod_indexes: dict[Owner, JobPodIndex] = field(default_factory=dict)
    _tree: QueueHierarchy = field(default_factory=QueueHierarchy)
    _namespaces: dict[str, str] = field(default_factory=dict)
    _unknown_since: dict[str, float] = field(default_factory=dict)
    _group_templates: WeakValueDictionary[tuple[Any, ...], GroupTemplate] = field(default_factory=WeakValueDictionary)

    # -- changes --------------------------------------------------------------------------------------------------

    def put(self, found: api.ApiObject) -> None:
        """Take in an object as it is now. An outdated or deleted one is ignored."""
        match found:
            case api.Pod():
                self._put_pod(found)
            case api.PodGroup():
                self._put_group(found)
            case PodOwner():
                self._put_owner(found)
            case api.Queue():
                self._put_queue(found)
            case api.Namespace():
                self._put_namespace(found)
            case api.PriorityClass():
                self.classes[found.metadata.name] = found.value

    def gone(self, gone: Deleted) -> None:
        """Take in that an object is no longer there."""
        self.tombstones.put(gone.uid, gone.kind, gone.namespace, gone.name)
        key = f"{gone.namespace}/{gone.name}" if gone.namespace else gone.name
        if gone.kind == POD.name:
            self._drop_pod(gone.uid)
        elif gone.kind == GROUP.name:
            self._drop_group(key, gone.uid)
        elif gone.kind == QUEUE.name:
            self._drop_queue(key)
        elif gone.kind == "Namespace":
            self._namespaces.pop(key, None)
        elif gone.kind == "PriorityClass":
            self.classes.pop(key, None)
        else:
            self._drop_owner(gone)

    def everything(self) -> Iterator[Key]:
        """Yield every key that may need a write, for the start of writing. Objects may change meanwhile."""
        yield from (Key(QUEUE.name, name) for name in list(self.queues))
        yield from (Key(JOB.name, name) for name in list(self.jobs))
        yield from (Key(GROUP.name, key) for key in list(self._pods_of_group))
        yield from (Key(GROUP.name, key) for key in list(self.groups))
        yield from (Key(POD.name, pod.uid) for pod in list(self.pods.values()) if self._may_be_named(pod))

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of all that is kept here."""
        return {
            "store.pods": lambda: len(self.pods),
            "store.groups": lambda: len(self.groups),
            "store.owners": lambda: len(self.owners),
            "store.queues": lambda: len(self.queues),
            "store.jobs": lambda: len(self.jobs),
            "store.rosters": lambda: len(self._pod_indexes),
            "store.waiting": lambda: sum(len(some) for owners in self._waiting.values() for some in owners.values()),
            "store.authors": lambda: len(self._authors),
            "store.families": lambda: len(self._pods_of_group),
            "store.seeds": lambda: len(self._group_templates),
            "store.unknown": lambda: len(self._unknown_since),
            "store.tombstones": lambda: len(self.tombstones),
        }

    def waiting(self) -> int:
        """Return how many pods have no PodGroup yet."""
        return sum(1 for pod in self.pods.values() if not pod.group and pod.is_alive)

    # -- pods -----------------------------------------------------------------------------------------------------

    def _put_pod(self, pod: api.Pod) -> None:
        uid, version = pod.metadata.uid, _version(pod)
        known = self.pods.get(uid)
        if uid in self.tombstones or (known is not None and _is_known(version, known.version)):
            return
        view = self._view(pod, known, version)
        if known is not None and (known.plain, known.pod_index) != (view.plain, view.pod_index):
            self._leave(known)
            if known.plain not in ("", view.plain):
                self.dirty(Key(GROUP.name, f"{known.namespace}/{known.plain}"))
        self.pods[uid] = view
        if view.plain and not view.is_alive:
            self._leave_group(view)
        elif view.plain:
            key = f"{view.namespace}/{view.plain}"
            self._pods_of_group.setdefault(key, {})[uid] = view
            if view.is_waiting and (known is None or not known.is_waiting or _moves(known, view)):
                self._waiting.setdefault(key, {}).setdefault(view.whose, _Waiting()).put(view)
        if view.pod_index is not None:
            view.pod_index.put(self._member(pod, view))
            self._pod_indexes[view.whose] = view.pod_index
        self._update_job_pods(view, known)

    def _member(self, pod: api.Pod, view: PodView) -> JobPod:
        """Return a pod of a Volcano Job as it is. The Job states which pods are to go."""
        before = view.pod_index.get(pod.metadata.uid) if view.pod_index is not None else None
        member, job = member_of(pod, before, self.clock()), self._job_of(view)
        if member.killed or job is None:
            return member
        is_surplus = member.terminating and not (before is not None and before.terminating) and not job.wants(member)
        return member._replace(killed=is_surplus or job.counted.covers(member))

    def _view(self, pod: api.Pod, known: PodView | None, version: int) -> PodView:
        meta = pod.metadata
        owner = grouping.group_owner(pod)
        whose = named_by(meta.namespace, owner)
        of_job = (whose.group, whose.kind) == _JOB
        group = as_name(meta.annotations.get(GROUP_NAME, ""))
        is_native = pod.spec.scheduling_group is not None  # its PodGroup is one of Kubernetes' own, made by others
        plain = "" if of_job or is_native else generated_group_name(pod)
        if group and group != plain:
            plain = ""
        return PodView(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            version=version,
            owner=known.owner if known is not None and known.owner == owner else owner,
            group=group,
            plain=plain,
            group_template=self._group_template(pod) if plain else _NO_SEED,
            phase=pod.status.phase,
            terminating=meta.deletion_timestamp is not None,
            has_node=bool(pod.spec.node_name),
            pod_index=self._pod_indexes.get(whose, JobPodIndex(whose.name)) if of_job else None,
            seen=(seen := known.seen if known is not None else self.clock()),
            created=seconds(meta.creation_timestamp) or seen,
        )

    def _group_template(self, pod: api.Pod) -> GroupTemplate:
        """The fields that a PodGroup takes from a pod: equal pods share them, and they end with the last of these."""
        group_template = grouping.group_template_of(pod)
        return self._group_templates.setdefault(astuple(group_template), group_template)

    def _update_job_pods(self, view: PodView, known: PodView | None) -> None:
        if view.pod_index is not None:
            job = self._job_of(view)
            if job is not None:
                if view.phase == "Running":
                    job.losses.drop(view.name)  # a pod that was lost runs again
                self.dirty(Key(JOB.name, f"{view.namespace}/{view.owner.name}"))
        elif view.plain:
            has_news = known is None or (known.group, known.is_alive) != (view.group, view.is_alive)
            if self._has_other_template(view) or has_news:
                self.dirty(Key(GROUP.name, f"{view.namespace}/{view.plain}"))
            if has_news and self._may_be_named(view):
                self.dirty(Key(POD.name, view.uid))

    def _may_be_named(self, pod: PodView) -> bool:
        """True if a pod does not name its PodGroup yet, which exists; the PodGroup names its pods when it comes."""
        return not pod.group and f"{pod.namespace}/{pod.plain}" in self.groups

    def _has_other_template(self, pod: PodView) -> bool:
        """True if the newest waiting pod of the same PodGroup has another template than before."""
        key = f"{pod.namespace}/{pod.plain}"
        newest, waiting = self.newest(key, pod.whose), self._waiting.get(key, {}).get(pod.whose)
        if newest is None or waiting is None or waiting.synced_template is newest.group_template:
            return False
        waiting.synced_template = newest.group_template
        return True

    def _drop_pod(self, uid: str) -> None:
        view = self.pods.pop(uid, None)
        if view is None:
            return
        member = self._leave(view)
        if view.plain:
            self.dirty(Key(GROUP.name, f"{view.namespace}/{view.plain}"))
        job = self._job_of(view)
        if member is not None and job is not None:
            loss = self._loss(member)
            if (member.evicted or not member.is_finished) and not member.killed and job.is_open(loss):
                job.losses.put(loss)
            self.dirty(Key(JOB.name, f"{view.namespace}/{view.owner.name}"))

    def _loss(self, member: JobPod) -> Loss:
        since = member.since if member.terminating else self.clock()
        return Loss(member.name, member.task, member.number, member.version, since, member.retry, member.session)

    def _leave(self, view: PodView) -> JobPod | None:
        """Remove a pod from its counts. Return the former data of a Job's pod."""
        if view.plain:
            self._leave_group(view)
        if view.pod_index is None:
            return None
        member = view.pod_index.drop(view.uid)
        if not len(view.pod_index):
            self._pod_indexes.pop(view.whose, None)
        return member

    def _leave_group(self, view: PodView) -> None:
        """Remove a pod from those that its PodGroup is for."""
        key = f"{view.namespace}/{view.plain}"
        pods = self._pods_of_group.get(key, {})
        pods.pop(view.uid, None)
        if not pods:
            self._pods_of_group.pop(key, None)
            self._waiting.pop(key, None)

    def _job_of(self, view: PodView) -> JobView | None:
        """Return the Volcano Job that has a pod, if there is just that one."""
        job = self.jobs.get(f"{view.namespace}/{view.owner.name}") if view.pod_index is not None else None
        return job if job is not None and as_owner(job.job) == view.whose else None

    def pod_index_of(self, uid: str) -> JobPodIndex | None:
        """Return the index of a pod, if it is of a Volcano Job."""
        view = self.pods.get(uid)
        return view.pod_index if view is not None else None

    def pods_of_group(self, key: str) -> Collection[PodView]:
        """Return the pods that have this PodGroup by the owner that they name, as they came; not those that ended."""
        return self._pods_of_group.get(key, {}).values()

    def newest(self, key: str, whose: Owner) -> PodView | None:
        """Return the newest waiting pod of those that have this PodGroup by their owner."""
        waiting = self._waiting.get(key, {}).get(whose)
        return waiting.newest(self._pods_of_group[key], whose) if waiting is not None else None

    # -- PodGroups ------------------------------------------------------------------------------------------------

    def _put_group(self, group: api.PodGroup) -> None:
        meta, key = group.metadata, group.key
        known = self.groups.get(key)
        if meta.uid in self.tombstones:
            return
        if known is not None and key not in self.refused and _is_known(_version(group), _version(known)):
            return
        kept = unschedulable(group) if _is_of_job(group) else ()
        status = api.PodGroupStatus(phase=group.status.phase, conditions=kept)
        self._note_authors(key, group)
        plain = api.PodGroup(_plain_meta(meta), group.spec, status)
        self.refused.discard(key)
        self.groups[key] = plain
        queue = group.spec.queue or self.default_queue
        if known is None or _queue_and_phase(known) != _queue_and_phase(group):
            if known is not None:
                self.dirty(Key(QUEUE.name, known.spec.queue or self.default_queue))
            self.pod_group_counts.put_group(key, queue, group.status.phase)
            self.dirty(Key(QUEUE.name, queue))
        if known is None:
            self.dirty(Key(GROUP.name, key))
            for pod in self.pods_of_group(key):
                if not pod.group:
                    self.dirty(Key(POD.name, pod.uid))
        if _is_of_job(group) and group.status.phase == UNKNOWN:
            since = _condition_since(group) if known is None else None
            self._unknown_since.setdefault(meta.uid, min(self.clock(), since or self.clock()))
        else:
            self._unknown_since.pop(meta.uid, None)
        self._dirty_job_with(group)

    def refuse(self, refused: Refused) -> None:
        """Keep no more of an object than who it is: there is no memory for it."""
        key = f"{refused.namespace}/{refused.name}"
        match refused.kind:
            case GROUP.name:
                known = self.groups.get(key)
                if known is not None:
                    spec = api.PodGroupSpec(queue=as_name(known.spec.queue))
                    meta = msgspec.structs.replace(known.metadata, annotations={}, labels={})
                    self.groups[key] = api.PodGroup(meta, spec, api.PodGroupStatus(phase=known.status.phase))
                    self._authors.pop(key, None)
                    self.refused.add(key)
            case RawJob.__name__:
                view = self.jobs.get(key)
                if view is not None:
                    self.put_job(key, JobView(identity_only(view.job), too_large=refused.message))
            case kind:
                self._keep_no_annotations(kind, refused)

    def _keep_no_annotations(self, kind: str, refused: Refused) -> None:
        group = next((group_of(version) for version, known in WORKLOADS.values() if known == kind), "")
        owner = Owner(refused.namespace, group, kind, refused.name, refused.uid)
        view = self.owners.get(owner)
        if view is not None:
            self.owners[owner] = OwnerView(_NO_ANNOTATIONS, view.is_scaled_to_zero)

    def _drop_group(self, key: str, uid: str) -> None:
        group = self.groups.get(key)
        if group is None or group.metadata.uid != uid:
            return
        del self.groups[key]
        self.refused.discard(key)
        self._authors.pop(key, None)
        self._unknown_since.pop(uid, None)
        self.pod_group_counts.drop_group(key)
        self.dirty(Key(QUEUE.name, group.spec.queue or self.default_queue))
        self.dirty(Key(GROUP.name, key))
        self._dirty_job_with(group)

    def _note_authors(self, key: str, group: api.PodGroup) -> None:
        """Keep the authors of a PodGroup that we make. Most have the same ones and share the record."""
        is_made = group.metadata.name.startswith(GENERATED_GROUP) or _is_of_job(group)
        authors = authorship_of(group) if is_made else OURS
        if authors == OURS:
            self._authors.pop(key, None)
        else:
            self._authors[key] = self._known_authors.setdefault(astuple(authors), authors)

    def authors(self, key: str) -> Authorship:
        """Return who wrote what of a PodGroup."""
        return self._authors.get(key, OURS)

    def _dirty_job_with(self, group: api.PodGroup) -> None:
        owner = controller_of(group.metadata)
        if owner is not None and _is_of_job(group):
            self.dirty(Key(JOB.name, f"{owner.namespace}/{owner.name}"))

    def queue_for(self, namespace: str, queue: str) -> str:
        """Return the queue of a new PodGroup, as its namespace states it."""
        return grouping.admitted_queue(
            queue or self.default_queue, self._namespaces.get(namespace, ""), self.default_queue
        )

    # -- workloads, namespaces ------------------------------------------------------------------------------------

    def _put_owner(self, found: PodOwner) -> None:
        meta = found.metadata
        kept = grouping.inherited(meta.annotations)
        least = meta.annotations.get(GROUP_MIN_MEMBER, "")
        kept |= {GROUP_MIN_MEMBER: least} if grouping.min_member_in(least) else {}
        view, owner = OwnerView(kept or _NO_ANNOTATIONS, found.spec.replicas == 0), as_owner(found)
        if self.owners.get(owner) != view:
            self.owners[owner] = view
            self.dirty(Key(GROUP.name, f"{meta.namespace}/podgroup-{meta.uid}"))

    def _drop_owner(self, gone: Deleted) -> None:
        group = next((group_of(version) for version, kind in WORKLOADS.values() if kind == gone.kind), "")
        self.owners.pop(Owner(gone.namespace, group, gone.kind, gone.name, gone.uid), None)
        self.dirty(Key(GROUP.name, f"{gone.namespace}/podgroup-{gone.uid}"))

    def _put_namespace(self, found: api.Namespace) -> None:
        name, queue = found.metadata.name, as_name(found.metadata.annotations.get(grouping.QUEUE_NAME, ""))
        if queue == self._namespaces.get(name, ""):
            return
        if queue:
            self._namespaces[name] = queue
        else:
            del self._namespaces[name]
        for key in self._waiting:
            if key.startswith(f"{name}/"):
                self.dirty(Key(GROUP.name, key))

    # -- queues ---------------------------------------------------------------------------------------------------

    def _put_queue(self, queue: api.Queue) -> None:
        name = queue.metadata.name
        known = self.queues.get(name)
        if queue.metadata.uid in self.tombstones or (known is not None and _version(queue) < _version(known)):
            return
        self._tree.put(queue)
        self.queues[name] = queue
        self.dirty(Key(QUEUE.name, name))
        if known is None or known.status.state != queue.status.state:
            for child in self._tree.below(name):
                self.dirty(Key(QUEUE.name, child))

    def _drop_queue(self, name: str) -> None:
        queue = self.queues.pop(name, None)
        if queue is not None:
            self._tree.drop(name)
            self.dirty(Key(QUEUE.name, name))

    # -- Volcano Jobs ---------------------------------------------------------------------------------------------

    def put_job(self, key: str, view: JobView) -> None:
        """Take in a Volcano Job. What is remembered beside the object itself stays."""
        known, meta, version = self.jobs.get(key), view.job.metadata, view.job.status.version
        if meta.uid in self.tombstones:
            return
        if known is not None and known.job.metadata.uid == meta.uid:
            if _version(view.job) < _version(known.job):
                return
            is_same = (view.digest, view.counted, version) == (known.digest, known.counted, known.job.status.version)
            view.losses = known.losses if is_same else Losses(filter(view.is_open, known.losses))
            view.condemned = known.condemned
            view.prepared = known.prepared
            view.command, view.obeyed = known.commands_after(version)
        self.jobs[key] = view
        self._condemn(view, known.counted if known is not None else NOTHING)
        self.dirty(Key(JOB.name, key))

    def _condemn(self, view: JobView, before: Counted) -> None:
        """Let those of its pods go that the Job states to have been counted for since."""
        pod_index = self._pod_indexes.get(as_owner(view.job))
        if pod_index is None or view.counted.restarts == before.restarts:
            return
        for restart in set(view.counted.restarts) - set(before.restarts):
            view.condemned = chain(view.condemned, restart.pods(pod_index))
        self.condemn_some(view)

    def condemn_some(self, view: JobView) -> bool:
        """Mark some more pods that a counted retry is about; True if there may be others: until then it is not run."""
        pod_index = self._pod_indexes.get(as_owner(view.job))
        some = list(islice(view.condemned, CONDEMNED_AT_ONCE))
        if pod_index is not None:
            for pod in some:
                pod_index.kill(pod.uid)
        return len(some) == CONDEMNED_AT_ONCE

    def size_of_job(self, key: str) -> int:
        """Return how many pods a Volcano Job has."""
        view = self.jobs.get(key)
        return len(self._pod_indexes.get(as_owner(view.job), ())) if view is not None else 0

    def drop_job(self, key: str, uid: str) -> None:
        """Take in that a Volcano Job is gone."""
        namespace, _, name = key.partition("/")
        self.tombstones.put(uid, JOB.name, namespace, name)
        known = self.jobs.get(key)
        if known is not None and known.job.metadata.uid == uid:
            del self.jobs[key]

    def around(self, view: JobView) -> JobSurroundings:
        """Return what belongs to a Volcano Job."""
        owner, meta = as_owner(view.job), view.job.metadata
        group = self.groups.get(f"{meta.namespace}/{meta.name}-{meta.uid}")
        if group is not None and controller_of(group.metadata) != owner:
            group = None
        queue = self.queue_for(meta.namespace, view.job.spec.queue)
        since = self._unknown_since.get(group.metadata.uid) if group is not None else None
        authors = self.authors(group.key) if group is not None else OURS
        is_refused = group is not None and group.key in self.refused
        pods = self._pod_indexes.get(owner, JobPodIndex(meta.name))
        return JobSurroundings(pods, group, self.classes, queue, since, authors, is_refused)


_JOB: Final = (group_of(JOB.group_version), JOB.name)
_NO_SEED: Final = GroupTemplate()
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


_NOTES: Final = range(1, 4 * grouping.MOST_INHERITED)
"""The longest annotation about our writes: a longer one is not ours."""


def _moves(before: PodView, after: PodView) -> bool:
    return (before.plain, before.owner) != (after.plain, after.owner)


def _plain_meta(meta: api.ObjectMeta) -> api.ObjectMeta:
    """Return metadata without who wrote what, and of annotations and labels those that a PodGroup inherits."""
    plain = {name: getattr(meta, name) for name in api.ObjectMeta.__struct_fields__}
    notes = grouping.inherited(meta.annotations)
    notes |= {WRITTEN: meta.annotations[WRITTEN]} if len(meta.annotations.get(WRITTEN, "")) in _NOTES else {}
    owners = tuple(owner for owner in meta.owner_references if owner.controller)
    kept = {"annotations": notes, "labels": grouping.inherited(meta.labels), "owner_references": owners}
    return api.ObjectMeta(**plain | kept | {"finalizers": ()})


def _condition_since(group: api.PodGroup) -> float | None:
    """Return since when a PodGroup states that it cannot start; it becomes Unknown one session later."""
    return next((seconds(found.last_transition_time) for found in unschedulable(group)), None)


def _is_of_job(group: api.PodGroup) -> bool:
    owner = controller_of(group.metadata)
    return owner is not None and (owner.group, owner.kind) == _JOB


def _queue_and_phase(group: api.PodGroup) -> tuple[str, str]:
    return group.spec.queue, group.status.phase


def _is_known(version: int, known: int) -> bool:
    """True if a version of an object is no news: its watch shows, too, what the answer to a write has shown."""
    return version < known or 0 < version == known


def _version(found: api.ApiObject) -> int:
    text = found.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else 0
