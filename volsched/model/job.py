"""A job: the pods of one PodGroup, counted by status and by role.

``JobInfo`` has many attributes: it is the record of one PodGroup, with counts that keep questions cheap.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from volsched.model.former import former_attributes
from volsched.model.status import IS_ALLOCATED, IS_FINISHED, IS_READY, IS_VALID, TaskStatus
from volsched.model.values.resources import Resources
from volsched.model.verdict import Verdict

if TYPE_CHECKING:
    from volsched.model.native_group import NativeGroup
    from volsched.model.pods.task import TaskInfo
    from volsched.model.pods.template import PodTemplate

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"
"""The phases of a PodGroup."""

TO_BE_TRIED = -1

SUPERSEDED: Final = "its pods belong to PodGroups of scheduling.k8s.io"
"""The reason to skip the job of a Volcano PodGroup that was made for pods of native groups."""

NATIVE: Final = "group/"
"""The prefix of jobs of Kubernetes' own PodGroups: no name of a Volcano PodGroup has a slash."""

LONE: Final = "pod/"
"""The prefix of jobs of one pod without a PodGroup."""


@dataclass(frozen=True, slots=True)
class PodGroupCondition:
    """One condition of a PodGroup. Transition times are the writer's business: they never decide whether to write."""

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The status of a PodGroup, as read or as wanted."""

    phase: str
    running: int
    succeeded: int
    failed: int
    conditions: tuple[PodGroupCondition, ...]


def with_condition(conditions: Iterable[PodGroupCondition], new: PodGroupCondition) -> tuple[PodGroupCondition, ...]:
    """Replace the condition of the same type, or add it at the end."""
    kept = list(conditions)
    for place, condition in enumerate(kept):
        if condition.type == new.type:
            kept[place] = new
            return tuple(kept)
    return (*kept, new)


def shown_as(conditions: Iterable[PodGroupCondition]) -> GroupStatus:
    """Return the status of a native group, which has nothing but conditions."""
    return GroupStatus("", 0, 0, 0, tuple(conditions))


@dataclass(frozen=True, slots=True)
class JobProperties:
    """The properties of a job's PodGroup; replaced as a whole when the PodGroup changes.

    ``has_group``: the PodGroup exists. ``implicit``: the job of a plain pod that is scheduled without one.
    ``owner``: the PodGroup's controller as ``Kind/name``, empty without one.
    ``min_resources`` is the stated minimum; of a native group the request of its first members. ``unserved`` refuses a
    job with a hard rule that volsched cannot keep (``unserved.py``). ``native``: the PodGroup if it is one of
    Kubernetes' own.
    """

    has_group: bool = False
    group_uid: str = ""
    owner: str = ""
    implicit: bool = False
    min_available: int = 1
    min_roles: Mapping[str, int] = field(default_factory=dict)
    min_resources: Resources | None = None
    priority_class: str = ""
    unserved: Verdict | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    native: NativeGroup | None = None


NO_GROUP: Final = JobProperties()
"""The properties of a job that has no PodGroup yet."""


class JobInfo:
    """The tasks of one PodGroup, its properties (``spec``), and its status.

    * ``allocated``: amounts of its placed tasks, by resource. Counts follow moves of tasks; ``counts`` is by status.
    * ``blocked``: why sessions skip it, empty if they do not: its namespace may not use its queue, or it is
      ``unserved``. A blocked job is never Inqueue, and counts only with what it holds.
    * ``fault``: what is wrong with a native group, which is not placed then.
    * ``placements``: the number of domains in which a native group with a topology key was last tried.
    * ``reported``: the status last read or written; ``confirmed``: the API server has been seen to have it.
    * ``unschedulable_at``: the requeue generation of the last failed try (``actions/unschedulable.py``);
      ``equivalents``: the jobs that wait for the same reason, itself among them.
    * ``placed_in_last_try``: uids of members that found a node when the gang was last tried and could not start.
    * ``shortage``: what the gang as a whole lacks, after a search for a placement of all members.
    * ``highest``: the highest priority among its pods, None if it must be computed.
    * ``admitted_at``: the time of admission by its status, in seconds since the epoch, else 0.
    * ``counted_minimum``: the part of its stated minimum that counts.
    * ``release_reason``: why no room is kept for the admitted job, empty if it is kept.
    * ``unplaceable``: uids of waiting members that fit on no node, even an empty one.
    """

    __slots__ = (
        "_counted",
        "admitted_at",
        "allocated",
        "blocked",
        "conditions",
        "confirmed",
        "counts",
        "created",
        "equivalents",
        "fault",
        "highest",
        "key",
        "name",
        "namespace",
        "pending_best_effort",
        "phase",
        "placed_in_last_try",
        "placements",
        "priority",
        "queue",
        "ready_count",
        "refusal",
        "release_reason",
        "reported",
        "shortage",
        "spec",
        "tasks",
        "uid",
        "unplaceable",
        "unschedulable_at",
        "version",
        "waiting",
    )

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.name = name
        self.key = f"{namespace}/{name}"
        self.uid = self.key
        self.spec = NO_GROUP
        self.fault = ""
        self.placements = 0
        self.queue = ""
        self.blocked = ""
        self._counted: tuple[int, int, Resources, Resources] | None = None
        self.admitted_at = 0.0
        self.release_reason = ""
        self.unplaceable: frozenset[str] = frozenset()
        self.priority = 0
        self.created = 0.0
        self.phase = ""
        self.conditions: tuple[PodGroupCondition, ...] = ()
        self.reported: GroupStatus | None = None
        self.confirmed = True
        self.tasks: dict[str, TaskInfo] = {}
        self.waiting: dict[str, TaskInfo] = {}
        self.counts = [0] * len(TaskStatus)
        self.allocated: dict[str, int] = {}
        self.ready_count = 0
        self.pending_best_effort = 0
        self.refusal: Verdict | None = None
        self.placed_in_last_try: frozenset[str] = frozenset()
        self.shortage = ""
        self.unschedulable_at = TO_BE_TRIED
        self.equivalents: dict[str, JobInfo] | None = None
        self.highest: int | None = None
        self.version = 0

    @property
    def is_native(self) -> bool:
        """True if its PodGroup is one of Kubernetes' own, whether it exists or not."""
        return self.name.startswith(NATIVE)

    @property
    def group_name(self) -> str:
        """Return the name of its PodGroup."""
        return self.name.removeprefix(NATIVE)

    @property
    def label(self) -> str:
        """Its PodGroup as people name it: ``namespace/name``."""
        return f"{self.namespace}/{self.group_name}"

    @property
    def superseded(self) -> bool:
        """True if its Volcano PodGroup was made for pods of native groups: it counts for nothing."""
        return self.blocked == SUPERSEDED

    # -- what is kept for it ------------------------------------------------------------------------------------------

    @property
    def keeps_room(self) -> bool:
        """True if its queue counts what an admitted job still lacks of its minimum."""
        if self.blocked or self.release_reason:
            return False
        return self.phase == INQUEUE or (self.phase == RUNNING and self.placed_count >= self.spec.min_available)

    @property
    def counted_minimum(self) -> Resources | None:
        """Return the part of the PodGroup's stated minimum that counts, or None without one.

        Before there are pods all of it counts. Then at most the request of the pods, and the largest request once more
        for each pod that is missing of ``min_available`` (*ours*; Volcano believes the PodGroup). Gated pods,
        terminating pods, pods of another scheduler, and ``unplaceable`` ones count nothing.
        """
        stated = self.spec.min_resources
        if stated is None or not self.tasks:
            return stated
        known = self._counted
        if known is None or known[:2] != (self.version, self.spec.min_available) or known[2] is not stated:
            known = self._counted = self.version, self.spec.min_available, stated, self._count_minimum(stated)
        return known[3]

    def _count_minimum(self, stated: Resources) -> Resources:
        missing = max(0, self.spec.min_available - len(self.tasks))
        total, largest = dict(self.allocated), dict[str, int]()
        if all(total.get(name, 0) >= amount for name, amount in stated.items()):
            return stated
        unplaceable = self.unplaceable
        alike: dict[PodTemplate, int] = {}
        for task in self.waiting.values():  # as counts_in_minimum, for many
            spec = task.spec
            if (
                spec.is_managed
                and not (spec.gated or spec.terminating)
                and (not unplaceable or task.uid not in unplaceable)
            ):
                alike[task.template] = alike.get(task.template, 0) + 1
        if missing or self.pipelined_count:
            for task in self.tasks.values():
                if task.status is not TaskStatus.PENDING and self.counts_in_minimum(task):
                    alike.setdefault(task.template, 0)
                    alike[task.template] += task.status is TaskStatus.PIPELINED
        for template, count in alike.items():
            for name, amount in template.request.items():
                total[name] = total.get(name, 0) + count * amount
                largest[name] = max(largest.get(name, 0), amount)
        return stated.minimum({name: amount + missing * largest.get(name, 0) for name, amount in total.items()})

    def counts_in_minimum(self, task: TaskInfo) -> bool:
        """True if the request of a member counts in the job's minimum: see ``counted_minimum``."""
        if IS_ALLOCATED[task.status] or task.status is TaskStatus.PIPELINED:
            return True
        is_waiting = task.status is TaskStatus.PENDING and task.spec.may_be_placed
        return is_waiting and task.uid not in self.unplaceable

    # -- trying again -----------------------------------------------------------------------------------------------

    def requeue(self) -> None:
        """Have the job tried again: something of its own changed."""
        self.unschedulable_at = TO_BE_TRIED
        self.leave_equivalents()

    def leave_equivalents(self) -> None:
        """Leave those that wait for the same: this job may be waiting for something else."""
        if self.equivalents is not None:
            del self.equivalents[self.key]
            self.equivalents = None

    # -- counting, called by the cluster only ---------------------------------------------------------------------

    def add_member(self, task: TaskInfo) -> None:
        """Count a task that has just become a member. The job is worth another try."""
        self.requeue()
        self.tasks[task.uid] = task
        self.highest = None
        self._count(task, task.status, 1)

    def remove_member(self, task: TaskInfo) -> None:
        """Stop counting a member. The job is worth another try."""
        self.requeue()
        del self.tasks[task.uid]
        self.highest = None
        self._count(task, task.status, -1)
        self.waiting.pop(task.uid, None)

    def recount(self, task: TaskInfo, before: TaskStatus) -> None:
        """Follow a member from one status to another."""
        status, counts = task.status, self.counts
        counts[before] -= 1
        counts[status] += 1
        self.ready_count += IS_READY[status] - IS_READY[before]
        if IS_FINISHED[status]:
            self.highest = None
        if before is TaskStatus.PENDING or status is TaskStatus.PENDING:
            self.leave_equivalents()
            self._wait(task, (status is TaskStatus.PENDING) - (before is TaskStatus.PENDING))
        self.version += 1

    def recount_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Follow equal members that were pending and have just been allocated."""
        count, waiting = len(tasks), self.waiting
        self.counts[TaskStatus.PENDING] -= count
        self.counts[TaskStatus.ALLOCATED] += count
        self.ready_count += count
        self.leave_equivalents()
        if tasks[0].best_effort:
            self.pending_best_effort -= count
        for task in tasks:
            del waiting[task.uid]
        self.version += 1

    def count_best_effort(self) -> None:
        """Count pending best-effort members again: their templates may state something else now."""
        self.pending_best_effort = sum(1 for task in self.waiting.values() if task.best_effort)

    def _count(self, task: TaskInfo, status: TaskStatus, by: int) -> None:
        self.counts[status] += by
        if IS_READY[status]:
            self.ready_count += by
        if status is TaskStatus.PENDING:
            self._wait(task, by)
        self.version += 1

    def _wait(self, task: TaskInfo, by: int) -> None:
        """Count a pending member, or (-1) count it no more."""
        if task.best_effort:
            self.pending_best_effort += by
        if by > 0:
            self.waiting[task.uid] = task
        elif by < 0:
            self.waiting.pop(task.uid, None)

    @property
    def highest_pod_priority(self) -> int:
        """Return the highest priority among its unfinished pods, as the API server has it."""
        if self.highest is None:
            alive = (task.spec.pod_priority for task in self.tasks.values() if not IS_FINISHED[task.status])
            self.highest = max(alive, default=0)
        return self.highest

    # -- gang arithmetic (Volcano's JobInfo: IsReady, IsPipelined, IsStarving and their per-role twins) --------------

    @property
    def pipelined_count(self) -> int:
        """Members that wait for room being freed."""
        return self.counts[TaskStatus.PIPELINED]

    @property
    def lacking(self) -> int:
        """Members without room that the gang needs to start. Pending best-effort members need none."""
        return self.spec.min_available - self.ready_count - self.pending_best_effort

    @property
    def is_ready(self) -> bool:
        """True if enough members hold room for the gang to start. Pending best-effort members count as ready."""
        return self.ready_count + self.pending_best_effort >= self.spec.min_available

    @property
    def is_pipelined(self) -> bool:
        """True if the gang could start once the room it waits for is free."""
        return self.ready_count + self.pending_best_effort + self.pipelined_count >= self.spec.min_available

    @property
    def is_starving(self) -> bool:
        """True if allocated and pipelined members are fewer than its minimum.

        A native group wants room for all of its members; the minimum is only what it starts with.
        """
        if self.spec.native is not None:
            return next(self.schedulable(), None) is not None
        return self.ready_count + self.pipelined_count < self.spec.min_available

    @property
    def judges_roles(self) -> bool:
        """True if the minima per role count: they are skipped if their sum exceeds the job's minimum."""
        return bool(self.spec.min_roles) and self.spec.min_available >= sum(self.spec.min_roles.values())

    def roles_ready(self) -> bool:
        """True if every role has its minimum of members with room."""
        return not self.judges_roles or self._reach_minima(self._by_role(_counts_as_ready))

    def roles_pipelined(self) -> bool:
        """True if every role has its minimum of allocated or pipelined members."""
        return not self.judges_roles or self._reach_minima(self._by_role(_counts_as_pipelined))

    def roles_valid(self, absent: Container[str] = ()) -> bool:
        """True if every role with a minimum has enough members that can run at all, without those of these uids."""
        if not self.judges_roles:
            return True
        return self._reach_minima(self._by_role(lambda task: IS_VALID[task.status] and task.uid not in absent))

    @property
    def placed_count(self) -> int:
        """Members that are charged to the queue."""
        return sum(count for count, placed in zip(self.counts, IS_ALLOCATED, strict=True) if placed)

    @property
    def valid_count(self) -> int:
        """Members that can be, or are, at work."""
        return sum(count for count, valid in zip(self.counts, IS_VALID, strict=True) if valid)

    def ready_in_role(self, role: str) -> int:
        """Members of one role that hold room."""
        return sum(1 for task in self.tasks.values() if task.spec.role == role and IS_READY[task.status])

    def _by_role(self, counts: _Test) -> dict[str, int]:
        found: dict[str, int] = {}
        for task in self.tasks.values():
            if counts(task):
                found[task.spec.role] = found.get(task.spec.role, 0) + 1
        return found

    def _reach_minima(self, found: Mapping[str, int]) -> bool:
        return all(found.get(role, 0) >= least for role, least in self.spec.min_roles.items())

    def schedulable(self) -> Iterator[TaskInfo]:
        """Return waiting members of volsched's that are neither gated, terminating, nor in back-off."""
        return (
            task
            for task in self.waiting.values()
            if (spec := task.spec).is_managed and not (spec.gated or spec.terminating or task.backing_off)
        )

    if not TYPE_CHECKING:  # a type checker finds the former names itself
        __getattr__ = former_attributes(
            JobProperties,
            {
                "barred": "blocked",
                "fitting": "placed_in_last_try",
                "hollow": "superseded",
                "hopeless": "unplaceable",
                "released": "release_reason",
                "unschedulable_with": "equivalents",
            },
        )

    def __repr__(self) -> str:
        return f"<Job {self.key} {self.phase or '-'} {self.ready_count}/{self.spec.min_available} of {len(self.tasks)}>"


def _counts_as_ready(task: TaskInfo) -> bool:
    return IS_READY[task.status] or (task.status is TaskStatus.PENDING and task.best_effort)


def _counts_as_pipelined(task: TaskInfo) -> bool:
    return _counts_as_ready(task) or task.status is TaskStatus.PIPELINED


if TYPE_CHECKING:
    from collections.abc import Callable

    _Test = Callable[[TaskInfo], bool]
