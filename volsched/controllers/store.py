"""What the controllers know of the cluster, and which objects a change makes worth another look.

Of a pod no more is kept than its standing, and what its PodGroup would take from it (equal pods share that). A change
names the keys that it concerns; what is to be written about a key is asked of the key's controller.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from volsched.cache.reading import GROUP_NAME, ROLE, seconds
from volsched.controllers import grouping, jobs
from volsched.controllers.grouping import GROUP_MIN_MEMBER, VOLCANO_PREFIX, Seed
from volsched.controllers.job_controller import JobView, Surroundings
from volsched.controllers.lifecycle import Loss, Member
from volsched.controllers.objects import Workload
from volsched.controllers.queues import Books, parent_of
from volsched.controllers.waiting import unschedulable
from volsched.controllers.writes import GROUP, JOB, POD, QUEUE
from volsched.model import api
from volsched.model.changes import Gone

WORKLOADS: Final = (
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
)
"""Kinds of owners whose annotations a PodGroup inherits, so that it is not made before they are known."""

FINISHED: Final = ("Succeeded", "Failed")
_TOMBSTONES: Final = 4096

MOST_SEEDS: Final = 10_000
"""Seeds that equal pods share; beyond, sharing begins anew."""


class Key(NamedTuple):
    """An object that may need a write: its kind, and `namespace/name` (a pod's uid)."""

    kind: str
    name: str


Dirty = Callable[[Key], None]
"""Is told each key that a change concerns."""


@dataclass(slots=True, eq=False)
class PodView:
    """What is kept of a pod. `group` is the PodGroup that it names, `plain` the one that it has by its owner."""

    uid: str
    namespace: str
    name: str
    version: int
    owner: api.OwnerReference
    group: str
    plain: str
    seed: Seed
    phase: str
    terminating: bool
    member: Member | None
    seen: float

    @property
    def is_alive(self) -> bool:
        """Whether it waits or runs, and is to go on doing so."""
        return self.phase not in FINISHED and not self.terminating


@dataclass(frozen=True, slots=True)
class OwnerView:
    """What is kept of a workload."""

    annotations: Mapping[str, str]
    is_scaled_to_zero: bool


@dataclass(slots=True)
class Store:
    """The cluster as the controllers see it. `clock` gives seconds since the epoch."""

    dirty: Dirty
    clock: Callable[[], float]
    default_queue: str = grouping.DEFAULT_QUEUE
    inherit: bool = True
    pods: dict[str, PodView] = field(default_factory=dict)
    groups: dict[str, api.PodGroup] = field(default_factory=dict)
    owners: dict[str, OwnerView] = field(default_factory=dict)
    queues: dict[str, api.Queue] = field(default_factory=dict)
    jobs: dict[str, JobView] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)
    books: Books = field(default_factory=Books)
    _by_owner: dict[str, dict[str, PodView]] = field(default_factory=dict)
    _children: dict[str, set[str]] = field(default_factory=dict)
    _namespaces: dict[str, str] = field(default_factory=dict)
    _seeds: dict[Seed, Seed] = field(default_factory=dict)
    _gone: OrderedDict[str, None] = field(default_factory=OrderedDict)

    # -- changes --------------------------------------------------------------------------------------------------

    def put(self, found: api.ApiObject) -> None:
        """Take in an object as it is now; one that is older than what is known, or was seen going, is passed over."""
        match found:
            case api.Pod():
                self._put_pod(found)
            case api.PodGroup():
                self._put_group(found)
            case Workload():
                self._put_owner(found)
            case api.Queue():
                self._put_queue(found)
            case api.Namespace():
                self._put_namespace(found)
            case api.PriorityClass():
                self.classes[found.metadata.name] = found.value

    def gone(self, gone: Gone) -> None:
        """Take in that an object is no longer there."""
        self._gone[gone.uid] = None
        if len(self._gone) > _TOMBSTONES:
            self._gone.popitem(last=False)
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
            self.owners.pop(gone.uid, None)
            self.dirty(Key(GROUP.name, f"{gone.namespace}/podgroup-{gone.uid}"))

    def is_gone(self, uid: str) -> bool:
        """Whether an object was seen going not long ago."""
        return uid in self._gone

    def everything(self) -> Iterator[Key]:
        """Yield everything that may need a write, as when writing begins."""
        yield from (Key(QUEUE.name, name) for name in self.queues)
        yield from (Key(JOB.name, name) for name in self.jobs)
        yield from {Key(GROUP.name, f"{pod.namespace}/{pod.plain}") for pod in self.pods.values() if pod.plain}
        yield from (Key(GROUP.name, key) for key in self.groups)
        yield from (Key(POD.name, uid) for uid, pod in self.pods.items() if not pod.group)

    def waiting(self) -> int:
        """Return how many pods have no PodGroup yet."""
        return sum(1 for pod in self.pods.values() if not pod.group and pod.is_alive)

    # -- pods -----------------------------------------------------------------------------------------------------

    def _put_pod(self, pod: api.Pod) -> None:
        uid, version = pod.metadata.uid, _version(pod)
        known = self.pods.get(uid)
        if uid in self._gone or (known is not None and version < known.version):
            return
        view = self._view(pod, known, version)
        if known is not None and known.owner.uid != view.owner.uid:
            self._leave_owner(known)
        self.pods[uid] = view
        self._by_owner.setdefault(view.owner.uid, {})[uid] = view
        self._tell_of_pod(view, known)

    def _view(self, pod: api.Pod, known: PodView | None, version: int) -> PodView:
        meta = pod.metadata
        owner = grouping.group_owner(pod)
        of_job = owner.api_version == JOB.group_version and owner.kind == JOB.name
        group = meta.annotations.get(GROUP_NAME, "")
        plain = "" if of_job else grouping.plain_group_name(pod)
        if group and group != plain:
            plain = ""
        return PodView(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            version=version,
            owner=owner,
            group=group,
            plain=plain,
            seed=self._seed(pod) if plain else _NO_SEED,
            phase=pod.status.phase,
            terminating=meta.deletion_timestamp is not None,
            member=self._member(pod, known) if of_job else None,
            seen=known.seen if known is not None else self.clock(),
        )

    def _seed(self, pod: api.Pod) -> Seed:
        seed = grouping.seed_of(pod)
        if len(self._seeds) >= MOST_SEEDS:
            self._seeds.clear()
        return self._seeds.setdefault(seed, seed)

    def _member(self, pod: api.Pod, known: PodView | None) -> Member:
        meta, before = pod.metadata, known.member if known is not None else None
        now = self.clock()
        ended = [status.state.terminated for status in pod.status.container_statuses if status.state is not None]
        return Member(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            task=meta.annotations.get(ROLE, ""),
            number=_number(meta.annotations.get(jobs.TASK_INDEX, "")),
            version=_number(meta.annotations.get(jobs.JOB_VERSION, "")),
            phase=pod.status.phase,
            terminating=meta.deletion_timestamp is not None,
            killed=False,
            exit_code=next((state.exit_code for state in ended if state is not None and state.exit_code), 0),
            restarts=sum(status.restart_count for status in pod.status.container_statuses),
            created=seconds(meta.creation_timestamp) or now,
            since=before.since if before is not None and before.phase == pod.status.phase else now,
        )

    def _tell_of_pod(self, view: PodView, known: PodView | None) -> None:
        if view.member is not None:
            if view.phase == "Running":
                self._forget_loss(view)
            self._dirty_job_of(view)
        elif view.plain and (known is None or (known.group, known.is_alive) != (view.group, view.is_alive)):
            self.dirty(Key(GROUP.name, f"{view.namespace}/{view.plain}"))
            if not view.group:
                self.dirty(Key(POD.name, view.uid))

    def _drop_pod(self, uid: str) -> None:
        view = self.pods.pop(uid, None)
        if view is None:
            return
        self._leave_owner(view)
        if view.plain:
            self.dirty(Key(GROUP.name, f"{view.namespace}/{view.plain}"))
        member = view.member
        if member is not None:
            job = self.jobs.get(f"{view.namespace}/{view.owner.name}")
            if job is not None and not member.is_finished and uid not in self.killed:
                job.losses.append(Loss(view.name, member.task, member.number, member.version, self.clock()))
            self._dirty_job_of(view)
        self.killed.discard(uid)

    def _leave_owner(self, view: PodView) -> None:
        siblings = self._by_owner[view.owner.uid]
        del siblings[view.uid]
        if not siblings:
            del self._by_owner[view.owner.uid]

    def _forget_loss(self, view: PodView) -> None:
        """A pod that was lost runs again."""
        job = self.jobs.get(f"{view.namespace}/{view.owner.name}")
        if job is not None and job.losses:
            job.losses = [loss for loss in job.losses if loss.name != view.name]

    def _dirty_job_of(self, view: PodView) -> None:
        self.dirty(Key(JOB.name, f"{view.namespace}/{view.owner.name}"))

    def family(self, key: str) -> list[PodView]:
        """Return the pods that have this PodGroup by their owner."""
        namespace, _, name = key.partition("/")
        pods = self._by_owner.get(name.removeprefix("podgroup-"), {}).values()
        return [pod for pod in pods if (pod.namespace, pod.plain) == (namespace, name)]

    # -- PodGroups ------------------------------------------------------------------------------------------------

    def _put_group(self, group: api.PodGroup) -> None:
        meta, key = group.metadata, group.key
        known = self.groups.get(key)
        if meta.uid in self._gone or (known is not None and _version(group) < _version(known)):
            return
        kept = unschedulable(group) if _is_of_job(group) else ()
        status = api.PodGroupStatus(phase=group.status.phase, conditions=kept)
        self.groups[key] = msgspec.structs.replace(group, status=status)
        queue = group.spec.queue or self.default_queue
        if known is None or _standing(known) != _standing(group):
            if known is not None:
                self.dirty(Key(QUEUE.name, known.spec.queue or self.default_queue))
            self.books.put_group(key, queue, group.status.phase)
            self.dirty(Key(QUEUE.name, queue))
        if known is None:
            self.dirty(Key(GROUP.name, key))
            for pod in self.family(key):
                if not pod.group:
                    self.dirty(Key(POD.name, pod.uid))
        self._dirty_job_with(group)

    def _drop_group(self, key: str, uid: str) -> None:
        group = self.groups.get(key)
        if group is None or group.metadata.uid != uid:
            return
        del self.groups[key]
        self.books.drop_group(key)
        self.dirty(Key(QUEUE.name, group.spec.queue or self.default_queue))
        self.dirty(Key(GROUP.name, key))
        self._dirty_job_with(group)

    def _dirty_job_with(self, group: api.PodGroup) -> None:
        controller = group.metadata.controller
        if controller is not None and _is_of_job(group):
            self.dirty(Key(JOB.name, f"{group.metadata.namespace}/{controller.name}"))

    def queue_for(self, namespace: str, queue: str) -> str:
        """Return the queue of a new PodGroup, with what its namespace says about that."""
        return grouping.admitted_queue(
            queue or self.default_queue, self._namespaces.get(namespace, ""), self.default_queue
        )

    # -- workloads, namespaces ------------------------------------------------------------------------------------

    def _put_owner(self, found: Workload) -> None:
        meta = found.metadata
        kept = {
            key: value
            for key, value in meta.annotations.items()
            if key.startswith(VOLCANO_PREFIX) or key == GROUP_MIN_MEMBER
        }
        view = OwnerView(kept or _NO_ANNOTATIONS, found.spec.replicas == 0)
        if self.owners.get(meta.uid) != view:
            self.owners[meta.uid] = view
            self.dirty(Key(GROUP.name, f"{meta.namespace}/podgroup-{meta.uid}"))

    def _put_namespace(self, found: api.Namespace) -> None:
        queue = found.metadata.annotations.get(grouping.QUEUE_NAME, "")
        if queue:
            self._namespaces[found.metadata.name] = queue
        else:
            self._namespaces.pop(found.metadata.name, None)

    # -- queues ---------------------------------------------------------------------------------------------------

    def _put_queue(self, queue: api.Queue) -> None:
        name = queue.metadata.name
        known = self.queues.get(name)
        if queue.metadata.uid in self._gone or (known is not None and _version(queue) < _version(known)):
            return
        if known is not None:
            self._children.get(parent_of(known), set()).discard(name)
        self.queues[name] = queue
        self._children.setdefault(parent_of(queue), set()).add(name)
        self.dirty(Key(QUEUE.name, name))
        if known is None or known.status.state != queue.status.state:
            for child in self._children.get(name, ()):
                self.dirty(Key(QUEUE.name, child))

    def _drop_queue(self, name: str) -> None:
        queue = self.queues.pop(name, None)
        if queue is not None:
            self._children.get(parent_of(queue), set()).discard(name)
            self.dirty(Key(QUEUE.name, name))

    # -- Volcano Jobs ---------------------------------------------------------------------------------------------

    def put_job(self, key: str, view: JobView) -> None:
        """Take in a Volcano Job; what is remembered beside the object itself stays."""
        known, meta = self.jobs.get(key), view.job.metadata
        if meta.uid in self._gone:
            return
        if known is not None and known.job.metadata.uid == meta.uid:
            if _version(view.job) < _version(known.job):
                return
            view.losses = [loss for loss in known.losses if loss.version >= view.job.status.version]
            view.prepared, view.command = known.prepared, known.command
        self.jobs[key] = view
        self.dirty(Key(JOB.name, key))

    def drop_job(self, key: str, uid: str) -> None:
        """Take in that a Volcano Job is gone."""
        self._gone[uid] = None
        known = self.jobs.get(key)
        if known is not None and known.job.metadata.uid == uid:
            del self.jobs[key]

    def around(self, view: JobView) -> Surroundings:
        """Return what belongs to a Volcano Job."""
        uid, namespace = view.job.metadata.uid, view.job.metadata.namespace
        pods = [
            pod.member._replace(killed=pod.uid in self.killed)
            for pod in self._by_owner.get(uid, {}).values()
            if pod.member is not None
        ]
        group = self.groups.get(f"{namespace}/{view.job.metadata.name}-{uid}")
        return Surroundings(pods, group, self.classes, self.queue_for(namespace, view.job.spec.queue))


_NO_SEED: Final = Seed()
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


def _is_of_job(group: api.PodGroup) -> bool:
    controller = group.metadata.controller
    return controller is not None and controller.api_version == JOB.group_version


def _standing(group: api.PodGroup) -> tuple[str, str]:
    return group.spec.queue, group.status.phase


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _version(found: api.ApiObject) -> int:
    text = found.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else 0
