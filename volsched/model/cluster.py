"""The live state of the cluster: the one object that sessions work on and the mirror feeds.

Every change of a task's standing goes through ``Cluster.move``, which keeps the accounts of node, job and queue
exact and tells the observers; so an undo is a move back. Changes of nodes are noted in a log of rows, so that whoever
keeps answers about nodes catches up by asking only about the rows that changed.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from volsched.model.budget import Budget
from volsched.model.columns import ResourceColumns
from volsched.model.dra.devices import Devices
from volsched.model.job import INQUEUE, PENDING, JobInfo
from volsched.model.node import NodeInfo, NodeSpec
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.permissions import Permissions
from volsched.model.queues.queue import ROOT, QueueInfo
from volsched.model.status import HOLDS_ROOM, IS_ALLOCATED, TaskStatus
from volsched.model.storage import Storage
from volsched.model.values.resources import PODS, accumulate

_FEWEST_FORGOTTEN: Final = 256
"""Templates that went before what is kept by template begins anew, however few are left."""

_OFFERS_PER_NODE = 4
"""So many numbers of offers there may be for each node before those that no node makes any more are forgotten."""


class Observer:
    """Something that keeps an account over the cluster and follows its changes instead of recounting.

    Subclasses override what they care for.
    """

    def follows(self, template: PodTemplate) -> bool:
        """Say whether moves of this template's tasks matter at all; asked once for each template."""
        return True

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Hear that ``task`` left ``(before, node_before)`` for its present status and node.

        Also called when tasks come or go: a new task comes from ``(PENDING, None)``, a removed one leaves to it. Not
        called when a task goes on to a status that takes the same room on the same node (allocated, binding, bound,
        running).
        """

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Hear that equal tasks of one job, which waited without a node, have all just been allocated."""
        for task in tasks:
            self.task_moved(task, TaskStatus.PENDING, None)

    def task_annotated(self, task: TaskInfo) -> None:
        """``task`` has a node and other annotations, or what its Binding carried is shown for the first time."""

    def task_ungated(self, task: TaskInfo, *, counts: bool) -> None:
        """``task`` has no node and counts in its queue from now on, since its gate was lifted; or no longer.

        Told beside its moves: it ceases to count before it gets a node, and does so again once it has lost that.
        """

    def node_changed(self, node: NodeInfo, before: NodeSpec | None) -> None:
        """``node`` is new (``before`` is None), or says something else of itself, or offers something else."""

    def node_removed(self, node: NodeInfo) -> None:
        """``node`` is gone; its tasks have been moved away already."""

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """``job`` came, went (``gone``), or changed spec, phase, queue or members; tasks' moves are told one by one."""

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        """``queue`` is new, changed in whatever its object says, or went (``gone``); what it holds is told by moves."""


class RowLog:
    """Positions of changed rows, in order, for any number of readers that each remember how far they have read.

    ``start`` is the position of the first entry that is still kept; a reader behind it must start afresh.
    """

    __slots__ = ("rows", "start")

    KEPT = 1 << 18

    def __init__(self) -> None:
        self.rows = array("q")
        self.start = 0

    @property
    def end(self) -> int:
        """The position after the newest entry."""
        return self.start + len(self.rows)

    def append(self, row: int) -> None:
        """Note that a row changed."""
        self.rows.append(row)
        self.trim()

    def since(self, position: int) -> list[int] | None:
        """The rows that changed since a position, each once, ascending; None when that was forgotten."""
        if position < self.start:
            return None
        return sorted(set(self.rows[position - self.start :]))

    def trim(self) -> None:
        """Forget the older half of a log that has grown too long."""
        if len(self.rows) > self.KEPT:
            cut = len(self.rows) // 2
            del self.rows[:cut]
            self.start += cut


class Cluster:
    """Nodes, tasks, jobs, queues, storage and devices, with exact accounts.

    ``layout`` changes when nodes come or go (rows are numbered anew), ``relief`` whenever something happened that
    could let a waiting task in: room freed, a node changed, a quota changed. ``standing`` changes with every move,
    ``changes`` only with what a session has committed and what the mirror has heard, not with what is tried and undone.
    ``touched`` are the jobs that changed since a session last wrote their status, ``waiting`` those with pending tasks,
    ``unadmitted`` those in no phase or Pending; all three are kept so that a session need not look at every job.
    ``charged`` are the names of queues that are new or whose tasks may hold something else since it was last looked;
    ``queue_tree`` changes when a queue comes, goes, or is put below another one.
    ``ungated`` is what pods ask for together, pod slots too, by queue, whose gate was lifted and that have no node yet.
    ``lost`` are the failures of observers that are told nothing more.
    ``era`` changes when so many templates are gone that who keeps something by template had better begin anew: working
    it out again for those that are left costs less than they cost when they came.
    ``nominated`` are the tasks for which room is being made on a node. ``dropped_fields`` are those that the API server
    drops from all objects of a kind; a kind that is not there was not looked at.
    """

    def __init__(self) -> None:
        self.columns = ResourceColumns(self.is_left_to_devices)
        self.nodes: dict[str, NodeInfo] = {}
        self.rows: list[NodeInfo] = []
        self.tasks: dict[str, TaskInfo] = {}
        self.jobs: dict[str, JobInfo] = {}
        self.queues: dict[str, QueueInfo] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.permissions = Permissions(self.queues, self.namespaces)
        self.priority_classes: dict[str, int] = {}
        self.default_priority = 0
        self.storage = Storage()
        self.devices = Devices(self._touch_named, self._ask_devices_again)
        self._devices_serve = False
        self.budgets: dict[str, Budget] = {}
        self.dropped_fields: dict[str, frozenset[str]] = {}
        self.usage_log = RowLog()
        self.facts_log = RowLog()
        self.layout = 0
        self.relief = 0
        self.standing = 0
        self.changes = 0
        self.namespaces_version = 0
        self.unsettled: dict[str, NodeInfo] = {}
        self.touched: dict[str, JobInfo] = {}
        self.nominated: dict[str, TaskInfo] = {}
        self.waiting: dict[str, JobInfo] = {}
        self.unadmitted: dict[str, JobInfo] = {}
        self.charged: dict[str, None] = {}
        self.queue_tree = 0
        self.ungated: dict[str, dict[str, int]] = {}
        self.totals: list[int] = []
        self.total_used: list[int] = []
        self.lost: dict[int, Exception] = {}
        self._observers: tuple[Observer, ...] = ()
        self._hear_of_jobs: tuple[Observer, ...] = ()
        self.era = 0
        self._forgotten = 0
        self._followers: dict[int, tuple[Observer, ...]] = {}
        self._offers: dict[tuple[int, ...], int] = {}
        self._queue_versions = 0

    # -- observers ------------------------------------------------------------------------------------------------

    def observe(self, observer: Observer) -> None:
        """Tell ``observer`` of every later change. What stands already is its own to read."""
        self._set_observers((*self._observers, observer))

    def ignore(self, observer: Observer) -> None:
        """Stop telling ``observer``."""
        self._set_observers(tuple(o for o in self._observers if o is not observer))

    def _set_observers(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers
        self._hear_of_jobs = tuple(o for o in observers if type(o).job_changed is not Observer.job_changed)
        self._followers.clear()

    def lose(self, observer: Observer, error: Exception) -> None:
        """Tell an observer nothing more, as it has failed: what it keeps is not right any more."""
        self.lost[id(observer)] = error
        self.ignore(observer)

    def _tell(self, observers: Iterable[Observer], tell: Callable[[Observer], None]) -> None:
        """Tell observers of a change; one that fails is lost, the others hear of it."""
        for observer in observers:
            try:
                tell(observer)
            except Exception as error:
                self.lose(observer, error)

    def _followers_of(self, template: PodTemplate) -> tuple[Observer, ...]:
        """Whom to tell when a task of this template moved; there are many moves, and few observers care for most."""
        found = self._followers.get(template.id)
        if found is None:
            found = self._followers[template.id] = tuple(
                o for o in self._observers if type(o).task_moved is not Observer.task_moved and o.follows(template)
            )
        return found

    def forget(self, templates: Collection[PodTemplate], *, left: int) -> None:
        """Drop what is remembered of templates that no task has any more; there are so many others."""
        for template in templates:
            self.columns.forget(template)
            self._followers.pop(template.id, None)
        self._forgotten += len(templates)
        if self._forgotten >= max(_FEWEST_FORGOTTEN, 2 * left):
            self._forgotten = 0
            self.era += 1

    # -- nodes ----------------------------------------------------------------------------------------------------

    @property
    def facts_version(self) -> tuple[int, int]:
        """Another one whenever nodes come or go, or say something else of themselves or of what they offer."""
        return self.layout, self.facts_log.end

    def put_nodes(self, nodes: Iterable[tuple[NodeSpec, Mapping[str, int]]]) -> None:
        """Add or replace nodes: what each says of itself, and what pods may take there (amounts in project units)."""
        before: dict[str, NodeSpec | None] = {}
        arrived = changed = False
        for facts, allocatable in nodes:
            node = self.nodes.get(facts.name)
            if node is None:
                node = self.nodes[facts.name] = NodeInfo(facts, self.columns)
                before[node.name] = None
                self._set_allocatable(node, allocatable)
                arrived = True
                continue
            known = node.spec
            says_more = known != facts
            if says_more:
                node.spec = facts
            if self._set_allocatable(node, allocatable) or says_more:
                before.setdefault(node.name, known)
                self.facts_log.append(node.row)
                self.usage_log.append(node.row)
                changed = True
        if arrived:
            self._number_rows()
        for name, facts_before in before.items():
            self._tell_of_node(self.nodes[name], facts_before)
        if changed:
            self.relief += 1

    def set_spec(self, node: NodeInfo, facts: NodeSpec) -> None:
        """Let a node say something else of itself, which takes effect at once."""
        before = node.spec
        if facts == before:
            return
        node.spec = facts
        self.facts_log.append(node.row)
        self.usage_log.append(node.row)
        self._tell_of_node(node, before)
        self.relief += 1

    def _tell_of_node(self, node: NodeInfo, before: NodeSpec | None) -> None:
        self._tell(self._observers, lambda observer: observer.node_changed(node, before))

    def remove_node(self, name: str) -> None:
        """Forget a node. Its tasks must have been moved or removed before."""
        node = self.nodes.pop(name)
        for column, amount in enumerate(node.allocatable):
            self.totals[column] -= amount
        self.unsettled.pop(name, None)
        self._number_rows()
        self._tell(self._observers, lambda observer: observer.node_removed(node))

    def _set_allocatable(self, node: NodeInfo, allocatable: Mapping[str, int]) -> bool:
        """Set what pods may take on a node; whether that is anything new."""
        if not self.columns.in_vain().isdisjoint(allocatable):
            self._give_columns([name for name in allocatable if name in self.columns.in_vain()])
        columns = {self.columns.column(name): amount for name, amount in allocatable.items()}
        self._widen()
        changed = False
        for column, before in enumerate(node.allocatable):
            amount = columns.get(column, 0)
            if amount != before:
                self.totals[column] += amount - before
                node.allocatable[column] = amount
                changed = True
        if changed:
            self._number_offer(node)
        return changed

    def _number_offer(self, node: NodeInfo) -> None:
        node.offer = self._offers.setdefault(tuple(node.allocatable), len(self._offers))

    def _number_rows(self) -> None:
        self.rows = [self.nodes[name] for name in sorted(self.nodes)]
        if len(self._offers) > _OFFERS_PER_NODE * len(self.rows):
            self._offers.clear()
            for node in self.rows:
                self._number_offer(node)
        for row, node in enumerate(self.rows):
            node.row = row
        self.layout += 1
        self.relief += 1

    def _widen(self) -> None:
        """Give every list of amounts a place for each column that was named since."""
        missing = len(self.columns) - len(self.totals)
        if missing <= 0:
            return
        for amounts in (self.totals, self.total_used):
            amounts.extend([0] * missing)
        size = len(self.columns)
        for node in self.nodes.values():
            for amounts in (node.allocatable, node.used, node.releasing, node.pipelined):
                amounts.extend([0] * (size - len(amounts)))

    def _give_columns(self, names: Sequence[str]) -> None:
        """Charge tasks that ask for resources which are offered from now on with what they ask for of each."""
        templates = self.columns.offered_now(names)
        self._widen()
        for task in self.tasks.values():
            if task.template.id in templates:
                node, status = task.node, task.status
                if node is not None:
                    self._charge(node, task, status, -1)
                task.charge = self.columns.charge(task.template)
                if node is not None:
                    self._charge(node, task, status, 1)
        self.layout += 1
        self.relief += 1

    def let_devices_serve(self, serve: bool) -> None:
        """Say whether whoever decides gives out devices for extended resources; without, a node must offer them."""
        if serve != self._devices_serve:
            self._devices_serve = serve
            self._ask_devices_again()

    def is_left_to_devices(self, resource: str) -> bool:
        """Whether nodes that offer none of an extended resource leave it to devices: nobody knows how much there is."""
        return self._devices_serve and self.devices.class_for(resource) is not None

    def _ask_devices_again(self) -> None:
        """Have every node asked again when other resources are left to devices."""
        served = [name for name in self.columns.in_vain() if self.is_left_to_devices(name)]
        if served:
            self._give_columns(served)
        if self.columns.ask_again():
            for node in self.rows:
                self.touch(node)
            self.relief += 1

    def _touch_named(self, name: str) -> None:
        if name in self.nodes:
            self.touch(self.nodes[name])

    def touch(self, node: NodeInfo) -> None:
        """Note that something on a node changed, so that answers about it are asked again."""
        self.usage_log.append(node.row)

    # -- tasks ----------------------------------------------------------------------------------------------------

    def add_task(self, task: TaskInfo, status: TaskStatus, node: NodeInfo | None = None) -> None:
        """Take in a task that nobody knew, standing as it does."""
        if not task.charge:
            task.charge = self.columns.charge(task.template)
            if len(self.totals) < len(self.columns):
                self._widen()
        self.tasks[task.uid] = task
        if task.job is not None:
            task.job.admit(task)
            self.members_changed(task.job)
            task.ungated = task.ungated and not task.job.barred
        if task.ungated:
            self._count_ungated(task, 1)
        if status is not TaskStatus.PENDING or node is not None:
            self.move(task, status, node)

    def remove_task(self, task: TaskInfo) -> None:
        """Forget a task, and give back what it held."""
        self._leave(task)
        if task.ungated:
            self.set_ungated(task, ungated=False)
            self.relief += 1
        del self.tasks[task.uid]
        self.nominated.pop(task.uid, None)
        if task.job is not None:
            task.job.dismiss(task)
            self.members_changed(task.job)
            task.job = None

    def move(self, task: TaskInfo, status: TaskStatus, node: NodeInfo | None) -> None:
        """Change where a task stands, and every account with it. The reverse move restores them exactly."""
        before, node_before = task.status, task.node
        if task.ungated:
            self._count_ungated(task, -1)
        if node_before is not None:
            self._charge(node_before, task, before, -1)
        task.status, task.node = status, node
        if node is not None:
            self._charge(node, task, status, 1)
        job = task.job
        if job is not None:
            job.recount(task, before)
            self._note(job)
            if IS_ALLOCATED[before] != IS_ALLOCATED[status]:
                self._charge_accounts(job, task, 1 if IS_ALLOCATED[status] else -1)
        self.standing += 1
        if node_before is not None:
            self.relief += 1
        for observer in self._followers_of(task.template):
            try:
                observer.task_moved(task, before, node_before)
            except Exception as error:
                self.lose(observer, error)
        if task.ungated:
            self._count_ungated(task, 1)

    def allocate_run(self, tasks: Sequence[TaskInfo], nodes: Iterator[NodeInfo]) -> int:
        """Allocate equal tasks of one job that wait without a node, each to the next of some nodes; say how many.

        As ``move`` for each, but job and queue are counted once, and observers are told when all have moved.
        """
        job, charge, count = tasks[0].job, tasks[0].charge, 0
        if job is None:
            return 0
        note, allocated = self.usage_log.rows.append, TaskStatus.ALLOCATED
        for task, node in zip(tasks, nodes, strict=False):
            used = node.used
            for column, amount in charge:
                used[column] += amount
            node.tasks[task.uid] = task
            task.status, task.node = allocated, node
            note(node.row)
            count += 1
        self.usage_log.trim()
        if count:
            self._count_run(job, tasks[:count])
        return count

    def _count_run(self, job: JobInfo, tasks: Sequence[TaskInfo]) -> None:
        """Count tasks that were pending and have just been allocated, and tell of them."""
        count, first = len(tasks), tasks[0]
        for column, amount in first.charge:
            self.total_used[column] += count * amount
        job.recount_run(tasks)
        self._note(job)
        request = first.template.request
        accumulate(job.allocated, request, count)
        self._charge_queue(job.queue, request, count, 1)
        self.standing += count
        for observer in self._followers_of(first.template):
            try:
                observer.run_allocated(tasks)
            except Exception as error:
                self.lose(observer, error)

    def set_ungated(self, task: TaskInfo, *, ungated: bool) -> None:
        """Let a task that waits count in its queue although it has no node, or no longer."""
        ungated = ungated and not (task.job is not None and task.job.barred)
        if task.ungated == ungated:
            return
        if not ungated:
            self._count_ungated(task, -1)
        task.ungated = ungated
        if ungated:
            self._count_ungated(task, 1)

    def count_ungated_again(self, task: TaskInfo) -> None:
        """Tell observers that a task counts for something else while it has no node: claims were made for it."""
        if task.ungated:
            self._count_ungated(task, -1)
            self._count_ungated(task, 1)

    def _count_ungated(self, task: TaskInfo, by: int) -> None:
        job = task.job
        if task.status is not TaskStatus.PENDING or job is None:
            return
        account = self.ungated.setdefault(job.queue, {})
        accumulate(account, {**task.template.request, PODS: 1}, by)
        if not account:
            del self.ungated[job.queue]
        self._tell(self._observers, lambda observer: observer.task_ungated(task, counts=by > 0))

    def nominate(self, task: TaskInfo, node: str, *, sent: bool) -> None:
        """Note that room is being made for a task on a node (empty: no longer); ``sent``: it is we who say so."""
        task.nominated, task.nomination_sent = node, sent
        if node:
            self.nominated[task.uid] = task
        else:
            self.nominated.pop(task.uid, None)

    def relabel(self, task: TaskInfo, before: Mapping[str, str]) -> None:
        """Tell observers that a placed task's labels were ``before``: it leaves under those and returns."""
        now, status, node = task.labels, task.status, task.node
        task.labels = before
        self.move(task, TaskStatus.PENDING, None)
        task.labels = now
        self.move(task, status, node)

    def annotated(self, task: TaskInfo) -> None:
        """Tell observers that the API server shows other annotations of a placed task than those that counted."""
        for observer in self._observers:
            if type(observer).task_annotated is not Observer.task_annotated and observer.follows(task.template):
                self._tell((observer,), lambda observer: observer.task_annotated(task))
                self.relief += 1

    def move_quietly(self, task: TaskInfo, status: TaskStatus) -> None:
        """Change a status that takes the same room and counts the same: no answer is asked again, nobody is told."""
        before, task.status = task.status, status
        job = task.job
        if job is not None:
            job.counts[before] -= 1
            job.counts[status] += 1
            job.version += 1
            self.touched[job.key] = job

    def _charge(self, node: NodeInfo, task: TaskInfo, status: TaskStatus, by: int) -> None:
        if HOLDS_ROOM[status]:
            used, total = node.used, self.total_used
            for column, amount in task.charge:
                change = by * amount
                used[column] += change
                total[column] += change
            if status is TaskStatus.RELEASING:
                self._promise(node, node.releasing, task, by)
        elif status is TaskStatus.PIPELINED:
            self._promise(node, node.pipelined, task, by)
        if by > 0:
            node.tasks[task.uid] = task
        else:
            node.tasks.pop(task.uid, None)
        self.usage_log.append(node.row)

    def _promise(self, node: NodeInfo, amounts: list[int], task: TaskInfo, by: int) -> None:
        for column, amount in task.charge:
            amounts[column] += by * amount
        node.unsettled += by
        if node.unsettled:
            self.unsettled[node.name] = node
        else:
            self.unsettled.pop(node.name, None)

    def _charge_accounts(self, job: JobInfo, task: TaskInfo, by: int) -> None:
        """Put a task's request on the accounts of its job and its queue, or take it off."""
        accumulate(job.allocated, task.template.request, by)
        self._charge_queue(job.queue, task.template.request, by, 1)

    def _charge_queue(self, name: str, amounts: Mapping[str, int], by: int, tasks: int) -> None:
        queue = self.queues.get(name)
        if queue is not None:
            accumulate(queue.allocated, amounts, by)
            queue.placed += by * tasks
            queue.version += 1
            self.charged[name] = None

    # -- jobs and queues --------------------------------------------------------------------------------------------

    def put_queue(self, queue: QueueInfo) -> None:
        """Add or replace a queue; what its tasks hold is counted anew only when it is new."""
        known = self.queues.get(queue.name)
        self.queues[queue.name] = queue
        self.charged[queue.name] = None
        if known is None or known.parent != queue.parent:
            self.queue_tree += 1
        if known is not None:
            queue.allocated, queue.placed, queue.version = known.allocated, known.placed, known.version + 1
        else:
            queue.version = self._queue_versions
            for job in self._jobs_in(queue.name):
                self._charge_queue(queue.name, job.allocated, 1, job.placed_count)
                self.touched[job.key] = job
        self.relief += 1
        if self.permissions.put_queue(queue, known):
            self._judge_below(queue.name)
        self._tell(self._observers, lambda observer: observer.queue_changed(queue, gone=False))

    def remove_queue(self, name: str) -> None:
        """Forget a queue; its jobs stay and wait for one of that name."""
        queue = self.queues.pop(name, None)
        if queue is not None:  # one that comes back must not be taken for this one
            self._queue_versions = max(self._queue_versions, queue.version + 1)
            self.queue_tree += 1
        self.touched.update((job.key, job) for job in self._jobs_in(name))
        self.relief += 1
        if queue is not None:
            if self.permissions.drop_queue(queue):
                self._judge_below(name)
            self._tell(self._observers, lambda observer: observer.queue_changed(queue, gone=True))

    def _jobs_in(self, queue: str) -> list[JobInfo]:
        return [job for job in self.jobs.values() if job.queue == queue]

    def put_job(self, job: JobInfo) -> None:
        """Add a job."""
        self.jobs[job.key] = job
        self._judge(job)
        job.unpark()
        self.set_phase(job, job.phase)
        self._note(job)
        self.relief += 1
        self._tell(self._hear_of_jobs, lambda observer: observer.job_changed(job, gone=False))

    def remove_job(self, job: JobInfo) -> None:
        """Forget a job that has no tasks left."""
        job.part()
        self.permissions.forget(job)
        for known in (self.jobs, self.waiting, self.unadmitted, self.touched):
            known.pop(job.key, None)
        self.relief += 1
        self._tell(self._hear_of_jobs, lambda observer: observer.job_changed(job, gone=True))

    def set_phase(self, job: JobInfo, phase: str) -> None:
        """Set a job's phase; jobs that nobody has admitted are kept at hand for the enqueue action.

        One that may not use its queue is not admitted, whoever says so.
        """
        if job.barred and phase == INQUEUE:
            phase = PENDING
        if phase in ("", PENDING):
            self.unadmitted[job.key] = job
        else:
            self.unadmitted.pop(job.key, None)
        if phase != job.phase:
            if job.phase == INQUEUE:
                self.relief += 1
            job.phase = phase
            job.version += 1
            job.unpark()
            self.touched[job.key] = job
            self._tell(self._hear_of_jobs, lambda observer: observer.job_changed(job, gone=False))

    def members_changed(self, job: JobInfo) -> None:
        """Note that a member came, went, or says something else of itself: its gates, role, or names of its claims."""
        self._note(job)
        self._tell(self._hear_of_jobs, lambda observer: observer.job_changed(job, gone=False))

    def _note(self, job: JobInfo) -> None:
        """Remember that a job changed, and whether it has tasks that wait."""
        key = job.key
        self.touched[key] = job
        if job.waiting:
            self.waiting[key] = job
        else:
            self.waiting.pop(key, None)

    def set_job_queue(self, job: JobInfo, queue: str) -> None:
        """Let a job count for another queue, with everything that its tasks hold."""
        if job.queue == queue:
            return
        ungated = [task for task in job.waiting.values() if task.ungated]
        for task in ungated:
            self._count_ungated(task, -1)
        self._charge_queue(job.queue, job.allocated, -1, job.placed_count)
        job.part()
        job.queue = queue
        self._charge_queue(job.queue, job.allocated, 1, job.placed_count)
        self.relief += 1
        self._tell(self._hear_of_jobs, lambda observer: observer.job_changed(job, gone=False))
        for task in ungated:
            self._count_ungated(task, 1)
        self._judge(job)

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Take in a namespace."""
        if self.namespaces.get(name) != labels:
            self.namespaces[name] = labels
            self.relief += 1
            self._namespace_changed(name)

    def remove_namespace(self, name: str) -> None:
        """Forget a namespace."""
        if self.namespaces.pop(name, None) is not None:
            self._namespace_changed(name)

    def _namespace_changed(self, name: str) -> None:
        self.namespaces_version += 1
        for job in self.permissions.minded_in(name):
            self._judge(job)

    def _judge_below(self, queue: str) -> None:
        """Ask again who may use a queue and those below it."""
        queues = self.permissions.below(queue)
        for job in list(self.jobs.values()):
            if job.queue in queues or queue == ROOT:
                self._judge(job)

    def _judge(self, job: JobInfo) -> None:
        """Ask whether a job may use its queue; one that may no longer gives back what it was promised."""
        before, job.barred = job.barred, self.permissions.judge(job)
        if job.barred == before:
            return
        for task in list(job.waiting.values()):
            self.set_ungated(task, ungated=task.ungated)
        self.set_phase(job, job.phase)
        job.unpark()
        self.touched[job.key] = job
        self.relief += 1
        self._tell(self._hear_of_jobs, lambda observer: observer.job_changed(job, gone=False))

    def join(self, task: TaskInfo, job: JobInfo | None) -> None:
        """Make a task a member of another job (or of none): it leaves as the one's and returns as the other's."""
        if task.job is job:
            return
        status, node = task.status, task.node
        self._leave(task)
        ungated = task.ungated
        self.set_ungated(task, ungated=False)
        if task.job is not None:
            task.job.dismiss(task)
            self.members_changed(task.job)
        task.job = job
        if job is not None:
            job.admit(task)
            self.members_changed(job)
        self.set_ungated(task, ungated=ungated)
        if status is not TaskStatus.PENDING or node is not None:
            self.move(task, status, node)

    def _leave(self, task: TaskInfo) -> None:
        """Take a task off whatever it stands on."""
        if task.status is not TaskStatus.PENDING or task.node is not None:
            self.move(task, TaskStatus.PENDING, None)
