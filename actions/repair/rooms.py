"""The gangs that have lost a pod, and the room that is kept until the pod is made again.

A gang that lacks a pod holds what it has and gets nothing done. So it comes before jobs of its queue that are no more
important, and what the lost pod held on its node and of its queue's quota is kept from them. Jobs of other queues are
not kept from the node: the order of queues decides between those. A pod that was evicted for another leaves no room
behind, nor does one whose node is gone. A gang that asks for more than it held when it was whole has neither
precedence nor room: its author may lose small pods and make large ones, or raise the minimum.

It lives as long as the configuration. Which gangs have lost pods, on which nodes and when, and what they held when they
were whole, stands in the PodGroups' conditions, from which it is made again: tenants may not write these. A gang of
which it is not stated what it held has neither precedence nor room. The size of a pod that was lost before that is
taken from a member that runs, as its author may change members that wait.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from volsched.framework.session import Session
from volsched.model.cluster import Cluster
from volsched.model.conditions import LOST_PODS
from volsched.model.dra.devices import Devices
from volsched.model.generations import ClusterEvent
from volsched.model.job import UNKNOWN, JobInfo, PodGroupCondition
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_ALLOCATED, TaskStatus
from volsched.model.verdict import Scope, Step, Verdict

if TYPE_CHECKING:
    from actions.repair.lost_devices import LostDevices
    from actions.repair.lost_room import LostRoom

ACCOUNT: Final = "allocate.repair"
REPAIR_TIMEOUT: Final = "repairTimeout"
DEFAULT_TIMEOUT: Final = 30.0

ROOM_KEPT: Final = "RoomKept"
"""The reason of who waits for such room, or for what is kept of a quota."""


class LostRooms(Observer):
    """All gangs that have lost pods, and all rooms, the oldest first. ``timeout`` is in seconds."""

    def __init__(self, cluster: Cluster, timeout: float) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._lost: list[LostRoom] = []
        self._changed: dict[str, JobInfo] = dict(cluster.jobs)
        self.kept: dict[str, LostRoom] = {}
        self.broken: dict[str, JobInfo] = {}
        self._held: dict[str, Counter[str]] = {}
        self._asks_more: dict[str, bool] = {}
        self.version = 0
        self._closed: dict[Hashable, Hashable | None] = {}
        self._nodes: set[str] = set()
        self._rows: set[int] = set()
        self._read_to = self._moves = 0
        self.is_trying = False
        self.devices: LostDevices | None = None
        """Of the rooms of this session; None where no lost pod had any."""
        self._restore()

    @classmethod
    def of(cls, session: Session, timeout: float = DEFAULT_TIMEOUT) -> LostRooms:
        """Return those of a session's cluster. They are made when allocate opens the first session."""
        return session.account(ACCOUNT, lambda cluster: cls(cluster, timeout))

    def _restore(self) -> None:
        """Take up what PodGroups state."""
        for job in self._cluster.jobs.values():
            states_loss = any(condition.type == LOST_PODS for condition in job.conditions)
            if not _is_gang(job) or not (job.phase == UNKNOWN or states_loss):
                continue
            self.broken[job.key] = job
            if states_loss:
                from actions.repair.stated import held_stated_by, rooms_stated_of  # noqa: PLC0415 - few state that

                self._lost.extend(rooms_stated_of(job))
                if (held := held_stated_by(job)) is not None:
                    self._held[job.key] = held

    # -- what is heard ------------------------------------------------------------------------------------------------

    def task_lost(self, task: TaskInfo) -> None:
        """Remember where a gang had a pod, if it had its minimum, or had lost a pod before."""
        job, node = task.job, task.node
        if job is None or node is None or not _is_gang(job):
            return
        if self._had_minimum(job):
            self._note_broken(job)
            if not task.evicted:
                self._lost.append(_room_of(task, job, node, self._cluster))

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Look at the job when the next session begins: pods of it may be leaving."""
        if gone:
            self._changed.pop(job.key, None)
            self.broken.pop(job.key, None)
            self._held.pop(job.key, None)
        elif _is_gang(job):
            self._changed[job.key] = job

    def _note_broken(self, job: JobInfo) -> None:
        """Remember a gang that lacks pods, and what it held when it was whole."""
        if job.key not in self.broken:
            placed = [task for task in job.tasks.values() if task.node is not None]
            self._held[job.key] = amounts_of(placed, self._cluster.devices)
        self.broken[job.key] = job

    def _had_minimum(self, job: JobInfo) -> bool:
        return job.key in self.broken or job.ready_count + job.counts[TaskStatus.RELEASING] >= job.spec.min_available

    # -- what is kept -------------------------------------------------------------------------------------------------

    def open(self, session: Session) -> None:
        """Begin a session: PodGroups state what their gangs lack."""
        concerned = self.broken | self._changed
        self.begin(session.now)
        for job in (concerned | self.broken).values():
            session.set_conditions(job, self.stated(job))

    def begin(self, now: float) -> None:
        """Begin a session: keep the rooms of pods that were lost since the last one, and end those that are over."""
        for room in sorted(self._lost, key=lambda room: (room.job.key, room.pod)):
            room.until = min(room.until, now + self._timeout)
            self._keep(room)
        self._lost.clear()
        for _, job in sorted(self._changed.items()):
            self._note_leaving(job)
        self._changed.clear()
        self.broken = {key: job for key, job in self.broken.items() if _lacks_pods(job)}
        self._held = {key: held for key, held in self._held.items() if key in self.broken}
        self._asks_more.clear()
        self._end_those_over(now)
        self._closed.clear()
        self._read_to = self._cluster.node_cache.usage_log.end
        self._moves += 1
        self._rows = {self._cluster.nodes[name].row for name in self._nodes}
        for room in self.kept.values():
            room.priority = max(member.eviction_priority for member in room.job.tasks.values())
        self.devices = self._devices() if any(room.claims for room in self.kept.values()) else None

    def _devices(self) -> LostDevices:
        from actions.repair.lost_devices import LostDevices  # noqa: PLC0415 - few lost pods had devices

        return LostDevices(self._cluster.devices)

    def _note_leaving(self, job: JobInfo) -> None:
        """Keep the rooms of pods that are being deleted. No other pod is promised them."""
        if not job.counts[TaskStatus.RELEASING] or not _lacks_pods(job) or not self._had_minimum(job):
            return
        self._note_broken(job)
        for task in sorted(job.tasks.values(), key=lambda task: task.key):
            if task.status is TaskStatus.RELEASING and task.node is not None and not task.evicted:
                room = _room_of(task, job, task.node, self._cluster)
                room.leaving = task
                self._keep(room)

    def _end_those_over(self, now: float) -> None:
        over, lacking = [], {key: job.spec.min_available - job.ready_count for key, job in self.broken.items()}
        for key, room in self.kept.items():
            if self._holds(room, now) and lacking[room.job.key]:
                lacking[room.job.key] -= 1
            else:
                over.append(key)
        self._end(over)
        if over:
            self._cluster.wake(ClusterEvent.ROOM_FREED)

    def placed(self, job: JobInfo) -> None:
        """Hear that pods of a job were placed: a gang that is whole again needs no room."""
        if not _lacks_pods(job):
            self._end([key for key, room in self.kept.items() if room.job is job])

    def _keep(self, room: LostRoom) -> None:
        self.kept[f"{room.job.key}/{room.pod}"] = room
        self._changes()

    def _end(self, keys: list[str]) -> None:
        for key in keys:
            del self.kept[key]
        if keys:
            self._changes()
            self.give_devices_back()

    def _changes(self) -> None:
        self.version += 1
        self._closed.clear()
        self._nodes = {room.node for room in self.kept.values()}

    def _holds(self, room: LostRoom, now: float) -> bool:
        job, leaving = room.job, room.leaving
        is_there = now < room.until and room.node in self._cluster.nodes
        is_its_own = self.broken.get(job.key) is job and job.spec.group_uid == room.uid and not job.blocked
        return is_there and is_its_own and (leaving is None or leaving.status is TaskStatus.RELEASING)

    def is_broken(self, job: JobInfo) -> bool:
        """True if a gang has pods that hold room, and fewer than it works with, and had these once."""
        return job.key in self.broken and _lacks_pods(job)

    def next_end(self) -> float | None:
        """Return when the next room is kept no longer, in seconds since the epoch; None: not at a known time."""
        return min((room.until for room in self.kept.values() if room.until < math.inf), default=None)

    def has_room(self, job: JobInfo) -> bool:
        """True if room is kept for a gang, which asks for no more than it held."""
        return any(room.job is job for room in self.kept.values()) and not self._asks_for_more(job)

    def _asks_for_more(self, job: JobInfo) -> bool:
        """True if a gang would hold more with the pods that it lacks than when it was whole, or that is not known.

        It is not known of pods that were lost while no scheduler ran.
        """
        if job.key not in self._asks_more:
            held = self._held.get(job.key)
            self._asks_more[job.key] = held is None or not _would_hold(job, self._cluster.devices) <= held
        return self._asks_more[job.key]

    def goes_before(self, job: JobInfo, other: JobInfo) -> bool:
        """True if a job of the same queue is to be tried before another one that comes first else."""
        return job.priority >= other.priority and self._comes_first(job) and not self._comes_first(other)

    def _comes_first(self, job: JobInfo) -> bool:
        return self.is_broken(job) and not self._asks_for_more(job)

    def precedence(self) -> Callable[[JobInfo, JobInfo], bool] | None:
        """Return how gangs that have lost pods go before others of their queue; None if there are none."""
        return self.goes_before if self.broken else None

    def stated(self, job: JobInfo) -> tuple[PodGroupCondition, ...]:
        """Return the conditions of a gang's PodGroup, with what it lacks and what is kept for it."""
        if not self.is_broken(job):
            return tuple(condition for condition in job.conditions if condition.type != LOST_PODS)
        from actions.repair.stated import with_loss  # noqa: PLC0415 - few gangs have lost pods

        rooms = [room for room in self.kept.values() if room.job is job]
        return with_loss(job, rooms, self._held.get(job.key, {}))

    # -- who is kept from it ------------------------------------------------------------------------------------------

    def closed_to(self, task: TaskInfo) -> Hashable | None:
        """Return which rooms a task may not have, or None when there are none."""
        if self.is_trying:
            return None
        job = task.job.key if task.job is not None and task.job.key in self.broken else ""
        alike = task.queue, task.eviction_priority, job
        if alike not in self._closed:
            self._closed[alike] = tuple(key for key, room in self.kept.items() if room.is_closed_to(task)) or None
        return self._closed[alike]

    def usage(self, _: TaskInfo) -> Hashable:
        """Return what changes with what is in use on nodes where room is kept."""
        log = self._cluster.node_cache.usage_log
        if self._read_to != log.end:
            changed, self._read_to = log.since(self._read_to), log.end
            self._moves += changed is None or not self._rows.isdisjoint(changed)
        return self.version, self._moves

    def keep_devices_from(self, job: JobInfo) -> None:
        """Let devices of rooms count as taken while a job is placed that is kept from them."""
        if self.devices is not None:
            task = next(iter(job.tasks.values()))
            self.devices.keep(room for room in self.kept.values() if room.is_closed_to(task))

    def give_devices_back(self) -> None:
        """Let no device count as taken for a room: the placement of jobs is over."""
        if self.devices is not None:
            self.devices.keep(())

    def refusal(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """Why a task may not go on a node: beside it there would be too little for the pods that were lost there."""
        if node.name not in self._nodes:
            return None
        closed = [room for room in self.kept.values() if room.node == node.name and room.is_closed_to(task)]
        if not closed:
            return None
        left = [a - u - p for a, u, p in zip(node.allocatable, node.used, node.pipelined, strict=True)]
        for column, amount in (each for room in closed if room.leaving is None for each in room.stand_in.charge):
            left[column] -= amount
        is_enough = all(left[column] >= amount for column, amount in self._cluster.columns.request(task.template))
        if is_enough and not (task.template.host_ports and any(room.has_port_of(task) for room in closed)):
            return None
        message = f"node(s) had room kept for {closed[0].job.label}, which lost a pod"
        return Verdict(Step.PREDICATE, "allocate", Scope.NODE, ROOM_KEPT, message, resolvable=False)


def _is_gang(job: JobInfo) -> bool:
    """True if a job works with several pods alone. The minimum of a native group is for its start."""
    return job.spec.min_available > 1 and not job.is_native


def _lacks_pods(job: JobInfo) -> bool:
    return 0 < job.ready_count < job.spec.min_available


def amounts_of(tasks: Iterable[TaskInfo], devices: Devices) -> Counter[str]:
    """Return the sum of what pods request, and how many ResourceClaims they have that ask for the same."""
    total = Counter[str]()
    for task in tasks:
        total.update(task.template.request)
        if task.spec.resource_claims:
            from actions.repair.lost_devices import shapes_of  # noqa: PLC0415 - few gangs have claims

            total.update(shapes_of(task, devices))
    return total


def _would_hold(job: JobInfo, devices: Devices) -> Counter[str]:
    """Return what a gang holds with as many more pods as it lacks, of each resource the largest requests."""
    total = amounts_of((task for task in job.tasks.values() if IS_ALLOCATED[task.status]), devices)
    lacks, asked = job.spec.min_available - job.ready_count, [amounts_of([t], devices) for t in job.waiting.values()]
    for name in {name for each in asked for name in each}:
        total[name] += sum(nlargest(lacks, (each[name] for each in asked)))
    return total


def _room_of(task: TaskInfo, job: JobInfo, node: NodeInfo, cluster: Cluster) -> LostRoom:
    from actions.repair.lost_room import room_of  # noqa: PLC0415 - few gangs lose pods

    room = room_of(task, job, task.name, node.name)
    if task.template.has_resource_claims or task.template.container_amounts:
        from actions.repair.lost_devices import claims_lost_with  # noqa: PLC0415 - few lost pods had devices

        room.claims = claims_lost_with(task, cluster.devices)
    return room
