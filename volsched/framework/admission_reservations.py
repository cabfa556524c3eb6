"""Room is kept for an admitted job only while the job would fit on empty nodes.

The amount that an admitted job lacks of its minimum counts in its queue, so that others are not admitted in its place.
A job that fits on no node, even an empty one, would keep others out for ever: one pod with a misspelt selector, or a
gang whose nodes are gone. So its amount does not count (*ours*; Volcano counts it). It counts again once the job would
fit, even beyond the limit: nothing is revoked. The PodGroup stays Inqueue and its pods stay Unschedulable, so that
autoscalers act.

A session judges the admitted jobs that wait, tried or not: those that changed, or all of them after a change of nodes
or of a queue's capability. A session that ended before it was through judges some of them, and leaves the others to the
next ones. The judgement is a relaxation by static filters, node sizes, host ports, topology domains, roles,
sums of amounts, and limits of queues. A job that passes may be impossible nevertheless.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from volsched.framework.accounts.reservation_times import ReservationTimes
from volsched.framework.reporter import about_group
from volsched.framework.rules import Allocatable, JobEnqueueable
from volsched.framework.session import Session
from volsched.model.cluster import Cluster
from volsched.model.conditions import RESERVATION_RELEASED
from volsched.model.generations import ClusterEvent
from volsched.model.job import INQUEUE, RUNNING, JobInfo, PodGroupCondition, with_condition
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.values.quantity import format_amount
from volsched.model.values.resources import PODS, Resources
from volsched.model.verdict import BINDER, Scope, Shortfall, Step, Verdict

ACCOUNT: Final = "framework.released_reservations"

MOST_AFTER_END: Final = 1000
"""Jobs that a session judges at most after its time was over: others wait for the next session."""


class AdmissionReservations(Observer):
    """The reserved amounts of admitted jobs, and the nodes and capabilities of the last check."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._counted: dict[str, Resources] = {}
        self._capabilities: dict[str, Mapping[str, int]] = {}
        self._properties: tuple[int, int] | None = None
        self._is_new = True
        self._left: dict[str, None] = {}
        self.times = ReservationTimes()

    @classmethod
    def of(cls, session: Session) -> AdmissionReservations:
        """Return what is remembered of a session's cluster."""
        return session.account(ACCOUNT, cls)

    def follows(self, template: PodTemplate) -> bool:
        """Return False: what moves is looked at when the session is over."""
        return False

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        """Have all that wait judged again where a queue may hold more or less."""
        if self._capabilities.get(queue.name) != queue.spec.capability:
            self._properties = None
        if gone:
            self._capabilities.pop(queue.name, None)
        else:
            self._capabilities[queue.name] = queue.spec.capability

    def begin_session(self) -> None:
        """Requeue jobs that wait for admission, if an admitted job counts less since its pods came.

        Each session the action states how long room is kept, if it is configured.
        """
        self.times.timeout = math.inf
        if not self._counted:
            return
        for key in self._cluster.queue_cache.dirty_jobs.keys() & self._counted.keys():
            job = self._cluster.jobs.get(key)
            least = (job.counted_minimum if job is not None else None) or Resources.EMPTY
            if any(amount > least.get(name, 0) for name, amount in self._counted[key].items()):
                self._cluster.wake(ClusterEvent.DEMAND_CHANGED)
                return

    def end_session(self, session: Session) -> None:
        """Judge admitted jobs that wait, where plugins vote on admission."""
        cache, properties = self._cluster.queue_cache, self._cluster.node_cache.properties_version
        nothing_changed = properties == self._properties and not cache.dirty_jobs and self.times.timeout == math.inf
        if (nothing_changed and not self._left) or not session.rules.of[JobEnqueueable]:
            return
        changed = self._next(self._changed(session.now), has_ended=bool(session.boundary.over))
        self.times.forget_gone(self._cluster.jobs)
        judge = _Judge(session)
        if len(self._counted) > len(self._cluster.jobs):
            self._counted = {key: least for key, least in self._counted.items() if key in self._cluster.jobs}
        for job in changed:
            self._note(job)
            self._note_time(session, job)
            if (
                job.release_reason
                or self.times.is_over(job, session.now)
                or job.unplaceable
                or _states_release(job)
                or (_waits_for_room(session, job) and (job.keeps_room or _was_tried(job)))
            ):
                with session.contained(job):
                    self._settle(session, judge, job)

    def _changed(self, now: float) -> dict[str, JobInfo]:
        """Return the jobs to check: changed ones, those whose time is over, and all waiting ones if nodes changed."""
        cluster, cache = self._cluster, self._cluster.queue_cache
        changed, properties = dict(cache.dirty_jobs), cluster.node_cache.properties_version
        if properties != self._properties:
            changed = {**cache.waiting, **changed}
        if self._is_new and self.times.timeout < math.inf:
            changed = dict(cluster.jobs)
            self._is_new = False
        for key in self.times.take_over(now):
            if key in cluster.jobs:
                changed[key] = cluster.jobs[key]
        self._properties = properties
        return changed

    def _next(self, changed: Mapping[str, JobInfo], *, has_ended: bool) -> list[JobInfo]:
        """Return the jobs to judge now: all by name, or those that were left longest if the session has ended."""
        keys = list(dict.fromkeys(key for key in (*self._left, *changed) if key in self._cluster.jobs))
        most = MOST_AFTER_END if has_ended else len(keys)
        chosen, self._left = keys[:most], dict.fromkeys(keys[most:])
        return [self._cluster.jobs[key] for key in (chosen if has_ended else sorted(chosen))]

    def _note_time(self, session: Session, job: JobInfo) -> None:
        """Remember since when an admitted job waits, and state it on its PodGroup."""
        if self.times.timeout == math.inf and not job.admitted_at:
            return
        self.times.follow(job, session.now)
        if not job.is_native and job.spec.has_group:
            session.refusals.set_conditions(job, self.times.conditions_of(job))

    def _note(self, job: JobInfo) -> None:
        """Remember what counts for an admitted job."""
        least = job.counted_minimum if job.phase == INQUEUE else None
        if least:
            self._counted[job.key] = least
        else:
            self._counted.pop(job.key, None)

    def _settle(self, session: Session, judge: _Judge, job: JobInfo) -> None:
        why, unplaceable = _judged(session, judge, job)
        if not why and self.times.is_over(job, session.now):
            why = _too_late(job, f"{self.times.timeout:g}s")
        is_news = bool(why) and not job.release_reason
        self._cluster.queue_cache.set_released(job, why, unplaceable)
        message = f"no room is kept for it: {why}"
        condition = PodGroupCondition(RESERVATION_RELEASED, "True", RESERVATION_RELEASED, message)
        if is_news and condition not in job.conditions and job.spec.has_group:
            session.record_event(about_group(job, "Warning", RESERVATION_RELEASED, condition.message))
        if job.is_native:  # its status states what Kubernetes' own scheduler states, and what it has to remember
            return
        others = tuple(c for c in job.conditions if c.type != RESERVATION_RELEASED)
        session.refusals.set_conditions(job, with_condition(job.conditions, condition) if why else others)


def _too_late(job: JobInfo, timeout: str) -> str:
    if job.phase == RUNNING:
        return f"its other pods have waited for more than {timeout}"
    return f"it was admitted more than {timeout} ago and has not started"


def _judged(session: Session, judge: _Judge, job: JobInfo) -> tuple[str, frozenset[str]]:
    """Return what ``_Judge.of`` returns; for a paused job what it returned last, and nothing for one that is placed.

    The try after the pause changes the refusal of the job, so that it is judged again.
    """
    if not _waits_for_room(session, job):
        return "", frozenset()
    return (job.release_reason, job.unplaceable) if session.is_paused(job) else judge.of(job)


def _waits_for_room(session: Session, job: JobInfo) -> bool:
    """True if an admitted job waits for room that may count in its queue."""
    if not job.waiting or job.blocked or job.phase not in (INQUEUE, RUNNING):
        return False
    return job.spec.min_resources is not None or bool(session.rules.of[Allocatable])


def _states_release(job: JobInfo) -> bool:
    return any(condition.type == RESERVATION_RELEASED for condition in job.conditions)


def _was_tried(job: JobInfo) -> bool:
    """True if any member was refused."""
    return any(task.refusal is not None for task in job.waiting.values())


@dataclass(frozen=True, slots=True)
class _Room:
    """The number of pods of a kind that fit on each empty node, with the topology domain of the node.

    The search stops at the first domain that has ``enough`` room.
    """

    nodes: Mapping[str, tuple[str, int]]
    enough: int

    @property
    def total(self) -> int:
        """Return how many fit on all nodes."""
        return sum(fits for _, fits in self.nodes.values())

    @property
    def domain(self) -> int:
        """Return the most that fit in a topology domain."""
        domains: Counter[str] = Counter()
        for domain, fits in self.nodes.values():
            domains[domain] += fits
        return max(domains.values(), default=0)


_NOWHERE: Final = _Room({}, 0)

_Alike: TypeAlias = Mapping[Hashable, list[TaskInfo]]
"""Members of a job that wait, by what decides to which nodes they may go."""


class _Judge:
    """Answers for one session. What was found for a kind of pods holds for its equals."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cluster = session.cluster
        self._rooms: dict[object, _Room] = {}

    def of(self, job: JobInfo) -> tuple[str, frozenset[str]]:
        """Return why a job would not fit on empty nodes (empty: it would), and the uids of members that fit nowhere."""
        alike = self._alike(job)
        waiting = sum(map(len, alike.values()))
        rooms = {key: self._room(job, tasks[0], key) for key, tasks in alike.items()}
        unplaceable = frozenset(task.uid for key, tasks in alike.items() for task in tasks if not rooms[key].nodes)
        hopeful = {key: tasks for key, tasks in alike.items() if rooms[key].nodes}
        needed = job.spec.min_available - (_members(job) - waiting)
        least = _least(hopeful.values(), needed)
        found = _lacking(job, unplaceable) or self._crowded(job, hopeful, rooms, needed)
        return found or self._beyond_queue(job, hopeful.values(), needed) or self._beyond_nodes(least), unplaceable

    def _alike(self, job: JobInfo) -> dict[Hashable, list[TaskInfo]]:
        """Group the members that wait and ask for anything, by what decides where they may go; None: nowhere."""
        engine, found = self._session.engine, dict[Hashable, list[TaskInfo]]()
        applies_to_task: dict[int, bool] = {}
        for task in job.schedulable():
            if task.best_effort:
                continue
            number = task.template.id
            if number not in applies_to_task:
                applies_to_task[number] = engine.is_shared_in_queue(task)
            key = None if _is_refused_as_such(task) else number if applies_to_task[number] else engine.kind(task)
            found.setdefault(key, []).append(task)
        return found

    def _room(self, job: JobInfo, task: TaskInfo, kind: Hashable) -> _Room:
        if kind is None:
            return _NOWHERE
        key = (kind, job.queue, _topology_key(job))
        known = self._rooms.get(key)
        if known is None or (job.spec.min_available > known.enough and known.domain < job.spec.min_available):
            known = self._rooms[key] = self._look(job, task)
        return known

    def _look(self, job: JobInfo, task: TaskInfo) -> _Room:
        """Count nodes until the gang's minimum fits, inside one domain if it needs one."""
        request, key, enough = (
            self._cluster.columns.request(task.template),
            _topology_key(job),
            max(1, job.spec.min_available),
        )
        found: dict[str, tuple[str, int]] = {}
        domains: Counter[str] = Counter()
        for node in self._session.engine.hopeful(task):
            fits = _fits(node, request, alone=bool(task.template.host_ports))
            domain = node.spec.labels.get(key, "") if key else ""
            if fits:
                found[node.name] = domain, fits
            domains[domain] += fits
            if domains[domain] >= enough:
                break
        return _Room(found, enough)

    # -- the gang as a whole ------------------------------------------------------------------------------------------

    def _crowded(self, job: JobInfo, hopeful: _Alike, rooms: Mapping[Hashable, _Room], needed_in_all: int) -> str:
        """Return a reason if fewer pods of a template fit on all nodes than the gang needs at least."""
        alike: dict[int, list[Hashable]] = {}
        for key, tasks in hopeful.items():
            alike.setdefault(tasks[0].template.id, []).append(key)
        count = sum(map(len, hopeful.values()))
        for keys in alike.values():
            needed = needed_in_all - (count - sum(len(hopeful[key]) for key in keys))
            room = _Room({name: fits for key in keys for name, fits in rooms[key].nodes.items()}, 0)
            fit = room.domain if _topology_key(job) else room.total
            if needed > fit:
                where = "any topology domain" if _topology_key(job) else "all nodes"
                return f"{needed} of its pods would have to run at once, and {fit} fit on {where} without others"
        return ""

    def _beyond_nodes(self, least: Mapping[str, int]) -> str:
        """Say so if the nodes have less in all than the gang asks for at least."""
        columns, totals = self._cluster.columns, self._cluster.node_cache.totals
        for name, amount in least.items():
            column = columns.find(name)
            total = totals[column] if column is not None and column < len(totals) else 0
            if amount > total and not self._cluster.is_left_to_devices(name):
                return f"it needs {format_amount(name, amount)} {name}, and all nodes have {format_amount(name, total)}"
        return ""

    def _beyond_queue(self, job: JobInfo, hopeful: Iterable[list[TaskInfo]], needed: int) -> str:
        """Return a reason if the limit of its queue, or of one above it, is below the minimum of the gang.

        Members of which the queue may not hold even one are treated like those that fit on no node.
        """
        queue = self._cluster.queues.get(job.queue)
        if queue is None or needed < 1:
            return ""
        refusals = [(tasks, self._limit_refusal(queue, tasks[0])) for tasks in hopeful]
        left = [(tasks, refusal) for tasks, refusal in refusals if _over(refusal, {}) is None]
        if sum(len(tasks) for tasks, _ in left) < needed:
            return next(filter(None, (_words(job, refusal, {}) for _, refusal in refusals)), "")
        least = _least((tasks for tasks, _ in left), needed)
        return next(filter(None, (_words(job, refusal, least) for _, refusal in left)), "")

    def _limit_refusal(self, queue: QueueInfo, task: TaskInfo) -> Verdict | None:
        """Return which limit of queues a pod meets."""
        refusal = self._session.rules.limit_refusal(queue, task)
        return refusal if refusal is not None and refusal.scope is Scope.QUEUE else None


def _over(refusal: Verdict | None, least: Mapping[str, int]) -> Shortfall | None:
    """Return the first amount that exceeds a limit, of one pod or of the minimum of the job."""
    shortfalls = refusal.shortfalls if refusal is not None else ()
    return next((s for s in shortfalls if max(s.requested, least.get(s.resource, 0)) > s.limit), None)


def _words(job: JobInfo, refusal: Verdict | None, least: Mapping[str, int]) -> str:
    short = _over(refusal, least)
    if refusal is None or short is None:
        return ""
    name, above = short.resource, refusal.queue or job.queue
    asked, limit = max(short.requested, least.get(name, 0)), format_amount(name, short.limit)
    return f'it needs {format_amount(name, asked)} {name}, and queue "{above}" may hold {limit}'


def _is_refused_as_such(task: TaskInfo) -> bool:
    """True if a pod was refused before nodes were asked, for a missing claim or a wrong field."""
    refusal = task.refusal
    if refusal is None or refusal.scope is not Scope.POD or refusal.resolvable:
        return False
    return refusal.step in (Step.PREDICATE, Step.INVALID) and refusal.plugin != BINDER


def _members(job: JobInfo) -> int:
    """Return how many members run or could run, gated and not yet created ones included."""
    missing = max(0, job.spec.min_available - len(job.tasks))
    return missing + job.valid_count - sum(1 for task in job.waiting.values() if _is_lost(task))


def _is_lost(task: TaskInfo) -> bool:
    """True if volsched never places this pending pod: it is being deleted, or belongs to another scheduler."""
    return task.spec.terminating or not task.spec.is_managed


def _lacking(job: JobInfo, unplaceable: frozenset[str]) -> str:
    """Say so if too few members could be placed, in all or of a role."""
    if unplaceable and _members(job) - len(unplaceable) < job.spec.min_available:
        return f"no node could take {len(unplaceable)} of its pods if all others left"
    missing = max(0, job.spec.min_available - len(job.tasks))
    if unplaceable and not missing and not job.roles_valid(unplaceable):
        return f"no node could take {len(unplaceable)} of its pods if all others left, of roles that it needs"
    return ""


def _least(hopeful: Iterable[Sequence[TaskInfo]], needed: int) -> dict[str, int]:
    """Return the smallest request of so many of the pending members, by resource."""
    if needed < 1:
        return {}
    kinds = [(tasks[0].template.request, len(tasks)) for tasks in hopeful]
    found: dict[str, int] = {}
    for name in sorted({name for request, _ in kinds for name in request}):
        left = needed
        for amount, count in sorted((request.get(name, 0), count) for request, count in kinds):
            found[name] = found.get(name, 0) + amount * min(count, left)
            left -= min(count, left)
    return found


def _fits(node: NodeInfo, request: Sequence[tuple[int, int]], *, alone: bool) -> int:
    """Return how many pods of a kind fit on an empty node."""
    counts = [node.allocatable[c] // amount for c, amount in request if amount and not node.leaves_to_devices(c)]
    most = min([*counts, node.allocatable_of(PODS)])
    return min(most, 1) if alone else most


def _topology_key(job: JobInfo) -> str:
    return job.spec.native.topology_key if job.spec.native is not None else ""
