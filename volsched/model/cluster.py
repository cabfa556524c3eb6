"""The live state of the cluster: sessions work on it and the mirror updates it.

Every change of a task's status or node goes through ``Cluster.move`` or ``Cluster.allocate``, which update the caches
of nodes and queues and notify the observers; so an undo is a move back. ``move_quietly`` changes a status that takes
the same room. Changes of nodes are noted in a log of rows, so cached answers about nodes are computed again only for
changed rows.

``Cluster`` has many attributes: its parts (caches, generations, observers) and the maps of its objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from volsched.model.budget import Budget
from volsched.model.dra.devices import Devices
from volsched.model.former import renamed_attributes
from volsched.model.generations import ClusterEvent, Generations, WithoutRequeue
from volsched.model.job import JobInfo
from volsched.model.nodes.cache import NodeCache
from volsched.model.nodes.columns import ResourceColumns
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer, Observers
from volsched.model.pods.task import PodProperties, TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.cache import QueueCache
from volsched.model.status import IS_ALLOCATED, TaskStatus
from volsched.model.storage import Storage

_FEWEST_FORGOTTEN: Final = 64
"""The fewest ended templates after which caches by template are cleared; else half as many as are left.

Computing the answers for those that are left again costs at most twice what it cost for the ended ones.
"""


class Cluster:
    """Nodes, tasks, jobs, queues, storage and devices, with exact accounts.

    ``generations`` count changes, ``node_cache`` and ``queue_cache`` hold the accounts; ``nodes``, ``rows``, ``jobs``
    and ``queues`` are theirs. ``nominated`` are the tasks for which room is being made on a node. ``dropped_fields``
    are those that the API server drops from all objects of a kind; a kind that is not there was not looked at.
    ``native_jobs`` are the jobs of Kubernetes' own PodGroups, and ``native_served`` is the group and
    version in which the API server has these, empty when it has none.
    """

    def __init__(self) -> None:
        self.generations = Generations()
        self.observers = Observers()
        self.columns = ResourceColumns(self.is_left_to_devices)
        self.node_cache = NodeCache(self.columns, self.generations, self.observers, self._give_columns)
        self.queue_cache = QueueCache(self.generations, self.observers)
        self.nodes = self.node_cache.nodes
        self.rows = self.node_cache.rows
        self.jobs = self.queue_cache.jobs
        self.queues = self.queue_cache.queues
        self.tasks: dict[str, TaskInfo] = {}
        self.nominated: dict[str, TaskInfo] = {}
        self.priority_classes: dict[str, int] = {}
        self.default_priority = 0
        self.storage = Storage()
        self.devices = Devices(self.node_cache.touch_named, self._ask_devices_again)
        self.budgets: dict[str, Budget] = {}
        self.dropped_fields: dict[str, frozenset[str]] = {}
        self.native_jobs: dict[str, JobInfo] = {}
        self.native_served = ""
        self._devices_serve = False
        self._forgotten = 0

    # -- who hears of changes -----------------------------------------------------------------------------------------

    def observe(self, observer: Observer) -> None:
        """Notify ``observer`` of every later change. It reads the present state itself."""
        self.observers.add(observer)

    def ignore(self, observer: Observer) -> None:
        """Stop telling ``observer``."""
        self.observers.remove(observer)

    def wake(self, event: ClusterEvent) -> None:
        """Requeue all jobs that could not be placed, since something changed that could let them in."""
        self.generations.wake(event)

    def without_requeue(self, since: int | None = None) -> WithoutRequeue:
        """Requeue no job by changes inside the block; with ``since``, nor by those since that generation."""
        return self.generations.without_requeue(since)

    def forget(self, templates: Collection[PodTemplate], *, left: int) -> None:
        """Drop data about templates without tasks. ``left`` is the weight of the other templates."""
        for template in templates:
            self.columns.forget(template)
            self.observers.forget(template)
        self._forgotten += sum(template.weight for template in templates)
        if self._forgotten >= max(_FEWEST_FORGOTTEN, left // 2):
            self._forgotten = 0
            self.generations.template += 1

    # -- resources that devices serve ---------------------------------------------------------------------------------

    def _give_columns(self, names: Sequence[str]) -> None:
        """Charge tasks for resources that some node offers from now on."""
        templates = self.columns.offered_now(names)
        self.node_cache.widen()
        for task in self.tasks.values():
            if task.template.id in templates:
                node, status = task.node, task.status
                if node is not None:
                    self.node_cache.charge(node, task, status, -1)
                task.charge = self.columns.charge(task.template)
                if node is not None:
                    self.node_cache.charge(node, task, status, 1)
        self.generations.layout += 1
        self.generations.wake(ClusterEvent.NODE_CHANGED)

    def let_devices_serve(self, serve: bool) -> None:
        """State whether a plugin gives out devices for extended resources. If none does, a node must offer them."""
        if serve != self._devices_serve:
            self._devices_serve = serve
            self._ask_devices_again()

    def is_left_to_devices(self, resource: str) -> bool:
        """True if nodes that offer none of an extended resource leave it to devices, with unknown amounts."""
        return self._devices_serve and self.devices.class_for(resource) is not None

    def _ask_devices_again(self) -> None:
        """Have every node asked again when other resources are left to devices."""
        served = [name for name in self.columns.in_vain() if self.is_left_to_devices(name)]
        if served:
            self._give_columns(served)
        if self.columns.ask_again():
            self.node_cache.touch_all()

    # -- tasks ----------------------------------------------------------------------------------------------------

    def add_task(self, task: TaskInfo, status: TaskStatus, node: NodeInfo | None = None) -> None:
        """Add a task with its present status and node."""
        if not task.charge:
            task.charge = self.columns.charge(task.template)
            self.node_cache.widen()
        self.tasks[task.uid] = task
        if task.job is not None:
            task.job.add_member(task)
            self.queue_cache.members_changed(task.job)
            task.ungated = task.ungated and not task.job.blocked
        if task.ungated:
            self.queue_cache.count_ungated(task, 1)
        if status is not TaskStatus.PENDING or node is not None:
            self.move(task, status, node)

    def remove_task(self, task: TaskInfo) -> None:
        """Forget a task, and give back what it held."""
        self._leave(task)
        if task.ungated:
            self.queue_cache.set_ungated(task, ungated=False)
            self.generations.wake(ClusterEvent.DEMAND_CHANGED)
        del self.tasks[task.uid]
        self.nominated.pop(task.uid, None)
        if task.job is not None:
            task.job.remove_member(task)
            self.queue_cache.members_changed(task.job)
            task.job = None

    def move(self, task: TaskInfo, status: TaskStatus, node: NodeInfo | None) -> None:
        """Change where a task stands, and every account with it. The reverse move restores them exactly."""
        before, node_before = task.status, task.node
        if task.ungated:
            self.queue_cache.count_ungated(task, -1)
        if node_before is not None:
            self.node_cache.charge(node_before, task, before, -1)
        task.status, task.node = status, node
        if node is not None:
            self.node_cache.charge(node, task, status, 1)
        job = task.job
        if job is not None:
            job.recount(task, before)
            self.queue_cache.note(job)
            if IS_ALLOCATED[before] != IS_ALLOCATED[status]:
                self.queue_cache.charge(job, task.template.request, 1 if IS_ALLOCATED[status] else -1)
        self.generations.move += 1
        if node_before is not None:
            self.generations.wake(ClusterEvent.ROOM_FREED)
        for observer in self.observers.of_moves(task.template):
            try:
                observer.task_moved(task, before, node_before)
            except Exception as error:
                self.observers.lose(observer, error)
        if task.ungated:
            self.queue_cache.count_ungated(task, 1)

    def allocate(self, tasks: Sequence[TaskInfo], nodes: Iterator[NodeInfo]) -> int:
        """Allocate equal tasks of one job, each to the next of some nodes. Return how many.

        It is like ``move`` for each, but job and queue are updated once, and observers are notified after all moves.
        Several tasks must be pending without a node and without history; a single one may be pipelined, and count in
        its queue.
        """
        first = tasks[0]
        if first.node is not None:
            self._leave(first)
        if first.ungated:
            self.queue_cache.count_ungated(first, -1)
        try:
            count = self.node_cache.allocate_each(tasks, nodes)
            if count:
                self._count_allocated(tasks if count == len(tasks) else tasks[:count])
        finally:
            if first.ungated:
                self.queue_cache.count_ungated(first, 1)
        return count

    def _count_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Count tasks that were pending and have just been allocated, and tell of them."""
        count, first = len(tasks), tasks[0]
        job, template = first.job, first.template
        if job is not None:
            job.recount_allocated(tasks)
            self.queue_cache.note(job)
            self.queue_cache.charge(job, template.request, count)
        self.generations.move += count
        for observer in self.observers.of_moves(template):
            try:
                observer.run_allocated(tasks)
            except Exception as error:
                self.observers.lose(observer, error)

    def nominate(self, task: TaskInfo, node: str, *, sent: bool) -> None:
        """Note that room is being made for a task on a node (empty: no longer); ``sent``: whether we decided so."""
        task.nominated, task.nomination_sent = node, sent
        if node:
            self.nominated[task.uid] = task
        else:
            self.nominated.pop(task.uid, None)

    def relabel(self, task: TaskInfo, before: PodProperties) -> None:
        """Notify observers that the labels of a placed task changed: it leaves with those of ``before`` and returns."""
        now, status, node = task.spec, task.status, task.node
        task.spec = msgspec.structs.replace(now, labels=before.labels)
        self.move(task, TaskStatus.PENDING, None)
        task.spec = now
        self.move(task, status, node)

    def annotated(self, task: TaskInfo) -> None:
        """Notify observers that the API server shows other annotations of a placed task than those that counted."""
        if self.observers.notify_annotations(task):
            self.generations.wake(ClusterEvent.DEMAND_CHANGED)

    def move_quietly(self, task: TaskInfo, status: TaskStatus) -> None:
        """Change to a status that takes the same room and counts the same; notify no observer."""
        before, task.status = task.status, status
        job = task.job
        if job is not None:
            job.counts[before] -= 1
            job.counts[status] += 1
            job.version += 1
            self.queue_cache.dirty_jobs[job.key] = job

    def join(self, task: TaskInfo, job: JobInfo | None) -> None:
        """Move a task to another job (or to none): it leaves with the old job and returns with the new one."""
        if task.job is job:
            return
        status, node = task.status, task.node
        self._leave(task)
        ungated = task.ungated
        self.queue_cache.set_ungated(task, ungated=False)
        if task.job is not None:
            task.job.remove_member(task)
            self.queue_cache.members_changed(task.job)
        task.job = job
        if job is not None:
            job.add_member(task)
            self.queue_cache.members_changed(job)
        self.queue_cache.set_ungated(task, ungated=ungated)
        if status is not TaskStatus.PENDING or node is not None:
            self.move(task, status, node)

    def _leave(self, task: TaskInfo) -> None:
        """Take a task off its node."""
        if task.status is not TaskStatus.PENDING or task.node is not None:
            self.move(task, TaskStatus.PENDING, None)

    if not TYPE_CHECKING:  # a type checker finds the former names itself
        __getattr__ = renamed_attributes(
            {
                "clocks": "generations",
                "node_ledger": "node_cache",
                "queue_ledger": "queue_cache",
                "tentative": "without_requeue",
            }
        )
