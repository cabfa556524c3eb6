"""One scheduling session: a transaction over the live cluster, with the plugins' callbacks registered for it.

A session copies nothing. Actions ask it the plugins' combined answers, try things in statements, and leave refusals
with the tasks and jobs that they concern. What was only tried or held is undone when the session closes.

``Session`` is the face that actions and plugins see: most methods only pass on to one of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from volsched.framework.boundary import Boundary, Bounds, SessionOverError, failed, too_expensive
from volsched.framework.callbacks import UNLIMITED, Headroom
from volsched.framework.config.configuration import Configuration
from volsched.framework.dispatch.ruleset import Ruleset
from volsched.framework.engine.fast import Engine
from volsched.framework.nominations import Nominations
from volsched.framework.outcome.events import SessionEvents
from volsched.framework.outcome.refusals import Refusals, RefusedByNodes
from volsched.framework.outcome.stats import SessionStats
from volsched.framework.queries import SessionQueries
from volsched.framework.registration import Accounts
from volsched.framework.reports import Report
from volsched.framework.rules import Preemptive, SessionClose
from volsched.framework.statement import Statement, Statements, bind_step
from volsched.model.cluster import Cluster
from volsched.model.former import renamed_attributes
from volsched.model.generations import ClusterEvent
from volsched.model.job import INQUEUE, JobInfo, PodGroupCondition
from volsched.model.nodes.node import NodeInfo
from volsched.model.plan import LiftGate, PlanStep, RecordEvent
from volsched.model.pods.task import ADMISSION_GATE, TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.values.series import Numbers, Series
from volsched.model.verdict import Scope, Step, Verdict

LIFTING = Verdict(Step.GATED, "", Scope.POD, "SchedulingGated", f"{ADMISSION_GATE} is being lifted", resolvable=False)
"""A task whose gate we are taking away. The API server words gates itself, so this is not told."""

_LOST = "an account does not follow the cluster any more"

_FORMER = {
    "bounds": "boundary.bounds",
    "clocks": "generations",
    "faults": "boundary.faults",
    "gang_searches": "stats.gang_searches",
    "gave_way": "boundary.gave_way",
    "hints": "stats.hints",
    "is_due": "is_within_deserved",
    "is_unfinished": "stats.is_unfinished",
    "job_attempts": "stats.job_attempts",
    "modules": "boundary.modules",
    "over": "boundary.over",
    "reclaimable_by_due": "reclaimable_by_share",
    "tell": "record_event",
    "victim_searches": "stats.victim_searches",
    "victims": "stats.victims",
    "whole": "events.whole",
}
"""Where the attributes of one minor version ago are now."""

_ENDED = "; a session that has ended has no attributes: plugins keep data in an account (registrar.account)"

FAILED_SCHEDULING = "FailedScheduling"
"""The reason of the Event on a pod that no node takes, as kube-scheduler's."""


T = TypeVar("T")
Part = TypeVar("Part")


class Session(SessionQueries):
    """What actions and plugins work with during one cycle.

    ``now`` is the time of the session in seconds since the epoch, ``action`` the name of the action that runs.
    ``boundary`` has what ends the session early, ``stats`` what it counts, ``events`` the Events that it records, and
    ``refusals`` why pods and jobs wait. ``submit`` of the constructor takes the steps of every committed statement at
    once, ``clock`` gives seconds of CPU that this thread has used.
    """

    def __init__(
        self,
        cluster: Cluster,
        configuration: Configuration,
        engine: Engine,
        accounts: Accounts,
        submit: Callable[[Sequence[PlanStep]], None],
        now: float = 0.0,
        clock: Callable[[], float] = lambda: 0.0,
        bounds: Bounds | None = None,
    ) -> None:
        self.cluster = cluster
        self.configuration = configuration
        self.engine = engine
        self.now = now
        self.action = ""
        self.rules = Ruleset(cluster)
        self.boundary = Boundary(bounds or Bounds(), clock)
        self.stats = SessionStats()
        self.events = SessionEvents(cluster)
        self.refusals = Refusals(cluster, self.events.record)
        self.nominations = Nominations(self)
        self.on_placed: Callable[[Session, TaskInfo], None] | None = None
        self.evicted: dict[str, TaskInfo] = {}
        self._accounts = accounts
        self._submit = submit
        self._statements = Statements()
        self._excluded: list[TaskInfo] = []
        self._refused_by_nodes: dict[tuple[str, str, int], RefusedByNodes] = {}

    @property
    def clock(self) -> Callable[[], float]:
        """The clock of CPU time."""
        return self.boundary.clock

    @property
    def is_long(self) -> bool:
        """True if the session took long enough for namespaces to take turns."""
        return self.boundary.is_long

    def account(self, name: str, make: Callable[[Cluster], T]) -> T:
        """Return an account that outlives the session; if it is an ``Observer`` it follows every change."""
        return self._accounts.get(name, make)

    # -- what queues take on ------------------------------------------------------------------------------------------

    def quota(self, queue: QueueInfo, task: TaskInfo) -> Headroom:
        """Return the smallest headroom of all quotas for tasks like this one. Its ``batch`` may be placed in one step.

        Room that the task itself was promised does not count against it. A refused task loses its promise. It also no
        longer counts because its gate was lifted.
        """
        found = self._smallest_headroom(queue, task)
        if found.refusal is not None and self.nominations.is_kept(task):
            self.nominations.release(task)
            found = self._smallest_headroom(queue, task)
            if found.refusal is not None:
                self.nominations.give_up(task)
        return found

    def _smallest_headroom(self, queue: QueueInfo, task: TaskInfo) -> Headroom:
        self._exclude_ungated((task,))
        smallest, template = UNLIMITED, task.template
        for headroom, refusal, refused in self.rules.quotas:
            if headroom is not None:
                found = headroom(queue, template)
            else:
                verdict = refusal(queue, task)
                found = UNLIMITED if verdict is None else Headroom(0, verdict)
            if found.refusal is not None:
                if refused is not None:
                    refused(task, found.refusal)
                self._count_no_more()
                return found
            if found.batch < smallest.batch:
                smallest = found
        return smallest

    def allocatable_refusal(self, queue: QueueInfo, task: TaskInfo) -> Verdict | None:
        """Return why the queue may not take the task on."""
        return self._smallest_headroom(queue, task).refusal

    def _count_no_more(self) -> None:
        """Have refused tasks that were set aside not count again."""
        if self._excluded:
            self._excluded.clear()
            self.cluster.wake(ClusterEvent.DEMAND_CHANGED)

    def takes_on(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """True if the queue may take the task on; unlike ``allocatable_refusal`` it reports nothing to plugins."""
        self._exclude_ungated((task,))
        return all(
            (headroom(queue, task.template).refusal if headroom is not None else refusal(queue, task)) is None
            for headroom, refusal, _ in self.rules.quotas
        )

    def _exclude_ungated(self, tasks: Sequence[TaskInfo]) -> None:
        """Let those that count in their queue because their gate was lifted not do so while they are tried themselves.

        They count again when the next one is tried.
        """
        for task in self._excluded:
            self.cluster.queue_cache.set_ungated(task, ungated=True)
        self._excluded = [task for task in tasks if task.ungated and task.status is TaskStatus.PENDING]
        for task in self._excluded:
            self.cluster.queue_cache.set_ungated(task, ungated=False)

    def headrooms(self, queue: QueueInfo, task: TaskInfo) -> tuple[Headroom, ...] | None:
        """Return what each plugin lets the queue take on of such tasks, or None when one refuses plainly."""
        self._exclude_ungated(())
        found = self.rules.headrooms
        return tuple(fn(queue, task.template) for fn in found) if len(found) == len(self.rules.quotas) else None

    def together(self, task: TaskInfo) -> int:
        """Return how many tasks equal to this one, of its job and template, may be placed in one step."""
        rules, job = self.rules, task.job
        if self.nominations.held or self.on_placed is not None or job is None or rules.one_at_a_time.applies_to(task):
            return 1
        return 1 if rules.is_ready(job) else job.lacking

    def may_preempt(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """True if the queue may take room from others for these tasks."""
        self._exclude_ungated(tasks)
        return all(fn(queue, tasks) for fn in self.rules.of[Preemptive])

    def enqueued(self, job: JobInfo) -> None:
        """Admit a job, and notify the plugins."""
        self.rules.enqueued(job)
        self.cluster.queue_cache.set_phase(job, INQUEUE, admits=True)

    # -- what actions leave with jobs and tasks -----------------------------------------------------------------------

    def refuse(self, task: TaskInfo, verdict: Verdict) -> None:
        """Leave with a task why it waits."""
        self.refusals.refuse_task(task, verdict)

    def refuse_job(self, job: JobInfo, verdict: Verdict) -> None:
        """Leave with a job why it waits, and no longer why each of its tasks did."""
        self.refusals.refuse_job(job, verdict)

    def clear_refusal(self, job: JobInfo) -> None:
        """Leave no reason with a job any more. Its tasks keep theirs."""
        self.refusals.clear(job)

    def set_conditions(self, job: JobInfo, conditions: tuple[PodGroupCondition, ...]) -> None:
        """Replace the conditions of a PodGroup. They are written when they state something new."""
        self.refusals.set_conditions(job, conditions)

    def refused_again(self) -> list[tuple[TaskInfo, Verdict | None]]:
        """Return the tasks that were refused for another reason than before, and that reason."""
        return [(task, self.refusals.before(task)) for task in self.refusals.refused.values()]

    def promote(self, job: JobInfo) -> None:
        """Admit a job without telling plugins, as there is no action enqueue that would ask them."""
        self.cluster.queue_cache.set_phase(job, INQUEUE, admits=True)

    # -- boundaries ---------------------------------------------------------------------------------------------------

    def is_paused(self, job: JobInfo) -> bool:
        """True if a job is skipped for a while: it failed, took too long, or its admission has just ended."""
        return self.boundary.bounds.is_paused(job, self.now)

    def admission_turn(self, job: JobInfo) -> float:
        """Return when the admission of a job ended last (seconds since the epoch), 0 if none did."""
        return self.boundary.bounds.admissions.turn(job)

    @contextmanager
    def about(self, job: JobInfo) -> Iterator[None]:
        """Do something about a job: what fails ends with that job, see ``boundary``. Raises SessionOverError."""
        boundary = self.boundary
        began = boundary.clock()
        if began > boundary.long_from and boundary.is_over_budget(began):
            self._end_over_budget()
        open_before = len(self._statements)
        try:
            yield
        except Exception as error:
            if not self._contain(job, error, open_before):
                raise
        if self.cluster.observers.lost:
            raise SessionOverError(_LOST)
        took = boundary.clock() - began
        if took > boundary.worth_noting:
            boundary.charge(job, took)

    @contextmanager
    def contained(self, job: JobInfo) -> Iterator[None]:
        """Do something about a job as ``about`` does, also in a session that has no time left."""
        open_before = len(self._statements)
        try:
            yield
        except Exception as error:
            if not self._contain(job, error, open_before):
                raise
        if self.cluster.observers.lost:
            raise SessionOverError(_LOST)

    def _contain(self, job: JobInfo, error: Exception, open_before: int) -> bool:
        """Let what failed end with a job; false if it ends the session, or is to be raised."""
        if isinstance(error, SessionOverError) or not self.boundary.bounds.contains_faults:
            return False
        self._fail(job, error, open_before)
        return True

    def _fail(self, job: JobInfo, error: Exception, open_before: int) -> None:
        """Undo the attempt for a job, and refuse the job with what failed."""
        plugin = self.boundary.blame(error)
        try:
            self._statements.discard_since(open_before)
        except Exception as worse:
            raise SessionOverError(f"what was tried could not be undone: {worse}", plugin) from worse
        self.engine = self.engine.new_instance()
        self.engine.open(self.rules.nodes)
        self.refusals.refuse_all(job, failed(plugin, error, self._pause(job)))

    def _end_over_budget(self) -> None:
        """End the session, and leave alone for a while what has taken most of its time."""
        most = self.boundary.most_expensive()
        if most is not None:
            cost, job = most
            budget = self.boundary.bounds.budget
            self.refusals.refuse_all(job, too_expensive(cost, budget, self._pause(job)))
        raise self.boundary.over_budget()

    def _pause(self, job: JobInfo) -> float:
        """Pause a job. Return for how many seconds."""
        return self.boundary.bounds.paused_jobs.add(job, self.now)

    def check_accounts(self) -> None:
        """Raise the error of an account that has failed: without it quotas are not enforced."""
        if self.cluster.observers.lost:
            raise next(iter(self.cluster.observers.lost.values()))

    # -- doing --------------------------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """Start an attempt."""
        statement = Statement(self)
        self._statements.open(statement)
        return statement

    def closed(self, statement: Statement) -> None:
        """Hear that a statement was committed, held or discarded."""
        self._statements.close(statement)

    def hold(self, statement: Statement) -> None:
        """Keep what a statement reserved until the session closes."""
        self._statements.hold(statement)
        self.nominations.note(statement)

    def submit(self, steps: Sequence[PlanStep]) -> None:
        """Hand steps to the executor."""
        if steps:
            self._submit(steps)

    def stand_alone(self, statement: Statement, task: TaskInfo) -> None:
        """Let stand what was done for one task by itself: bound at once when its job is ready, else when it becomes so.

        A promise of room is held until the session closes, ready or not.
        """
        job = task.job
        if job is not None and self.rules.is_ready(job):
            statement.commit(job)
            return
        self.hold(statement)
        if job is not None:
            self._statements.waiting.setdefault(job.key, []).append(task)

    def release_waiting(self, job: JobInfo) -> list[PlanStep]:
        """Bind what earlier actions of this session allocated for a job that is ready now."""
        steps: list[PlanStep] = []
        for task in self._statements.waiting.pop(job.key, ()):
            if task.status is TaskStatus.ALLOCATED and task.node is not None:
                steps.append(bind_step(task, task.node))
                self.cluster.move_quietly(task, TaskStatus.BINDING)
        return steps

    def lift_gate(self, task: TaskInfo) -> None:
        """Let a task in that waits behind Volcano's admission gate: its queue takes it on, so it can be placed next.

        From now on it counts in its queue, so that others do not take the room for which it was let in.
        """
        if not task.ungated and task not in self._excluded:
            self.submit([LiftGate(task.uid, task.namespace, task.name, ADMISSION_GATE)])
            self.cluster.queue_cache.set_ungated(task, ungated=True)
        task.refusal = LIFTING

    def places(self, tasks: Sequence[TaskInfo]) -> Iterator[NodeInfo]:
        """Return nodes with room now for equal tasks: the one nominated for the first, else the best of the engine."""
        task = tasks[0]
        if task.nominated:
            nominated = self.nominations.node_of(task)
            if nominated is not None and self.fits_now(task, nominated):
                return iter((nominated,))
        nodes = self.engine.places(tasks)
        return nodes if self.on_placed is None else self._noted(task, nodes)

    def _noted(self, task: TaskInfo, nodes: Iterator[NodeInfo]) -> Iterator[NodeInfo]:
        for node in nodes:
            if self.on_placed is not None:
                self.on_placed(self, task)
            yield node
            return

    def later(self, task: TaskInfo) -> NodeInfo | None:
        """Return a node with room once others have left: the nominated one, else the best (``Engine.later``)."""
        nominated = self.nominations.node_of(task)
        if nominated is not None and self.nominations.will_admit(task, nominated):
            return nominated
        node = self.engine.later(task)
        if node is not None and self.on_placed is not None:
            self.on_placed(self, task)
        return node

    def before_nodes(self, task: TaskInfo) -> Verdict | None:
        """Give back promised room of a task, as it is tried again. Return why no node can do, if that is known."""
        self.nominations.release(task)
        return self.rules.pre_refusal(task) or self.refusal_of_equal(task)

    def has_room(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if a node has as much free now as a task requests."""
        return node.fits_idle(self.request(task))

    def fits_now(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if a task may go on a node now."""
        return self.has_room(task, node) and self.engine.admits(task, node)

    def refuse_by_nodes(self, task: TaskInfo, step: Step) -> None:
        """Leave with a task that no node takes it, and why, in kube-scheduler's words."""
        refusals = self.engine.refusals(task)
        message = refusals.text(len(self.cluster.rows))
        verdict = Verdict(step, refusals.plugin, Scope.NODE, FAILED_SCHEDULING, message)
        self.refusals.refuse_task(task, verdict)
        if self.engine.no_node_fits(task):
            known = RefusedByNodes(self.cluster.node_cache.usage_log.end, self.engine.kind(task), verdict)
            self._refused_by_nodes[self.action, task.queue, task.template.id] = known

    def refusal_of_equal(self, task: TaskInfo) -> Verdict | None:
        """Return why all nodes refused an equal pod of the same queue in this action, if no node has changed since."""
        known = self._refused_by_nodes.get((self.action, task.queue, task.template.id))
        if known is None or known.usage != self.cluster.node_cache.usage_log.end or task.nominated:
            return None
        return known.verdict if known.kind == self.engine.kind(task) else None

    # -- closing ------------------------------------------------------------------------------------------------------

    def record_event(self, event: RecordEvent) -> None:
        """Have an Event recorded on an object. How things stand is reported once in a session.

        It names no object of another namespace than its own.
        """
        self.events.record(event)

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Report no refusals inside, and wake no jobs, as things are only tried."""
        with self.events.quiet(), self.cluster.without_requeue():
            yield

    def opened(self) -> None:
        """Every plugin has registered: get ready to answer."""
        self.engine.open(self.rules.nodes)

    def close(self) -> None:
        """Call the plugins' close hooks, then undo what was only held."""
        self._exclude_ungated(())
        for fn in self.rules.of[SessionClose]:
            fn()
        with self.cluster.without_requeue():
            self._statements.discard_held()

    def release(self) -> None:
        """Let go of everything, as the next session begins: until then the last one can be asked.

        What plugins registered refers back to the session. It would stay, with all that it refers to, until Python
        looks for cycles, and in the meantime hundreds of sessions would keep objects that are gone.
        """
        vars(self.rules).clear()
        vars(self).clear()

    if not TYPE_CHECKING:  # a type checker knows what a session has
        __getattr__ = renamed_attributes(_FORMER, hint=_ENDED)

    def reported(self, part: Callable[[Report], Part | None]) -> list[Part]:
        """Return one part of each report of a plugin that has it, in the order of registration."""
        reports = (report for _, report in self.rules.of[Report])
        return [found for report in reports if (found := part(report)) is not None]

    def reported_by(self, plugin: str, part: Callable[[Report], Part | None]) -> Part | None:
        """Return one part of what a plugin reports, or None where it does not report that."""
        found = [part(report) for name, report in self.rules.of[Report] if name == plugin]
        return next((each for each in reversed(found) if each is not None), None)

    def series(self) -> tuple[tuple[Series, Numbers], ...]:
        """Return the plugins' own numbers as they are now, but for those that fail."""
        found: list[tuple[Series, Numbers]] = []
        metrics = (each for _, report in self.rules.of[Report] for each in report.metrics.items())
        for series, fn in metrics:
            try:
                found.append((series, fn()))
            except Exception as error:
                if not self.boundary.bounds.contains_faults:
                    raise
                self.boundary.blame(error)
        return tuple(found)
