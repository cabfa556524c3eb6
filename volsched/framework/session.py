"""One scheduling session: a transaction over the live cluster, with the plugins' callbacks registered for it.

A session copies nothing. Actions ask it the plugins' combined answers, try things in statements, and leave refusals
with the tasks and jobs that they concern. What was only tried or held is undone when the session closes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cmp_to_key
from typing import Any, TypeVar, cast

from volsched.framework import dispatch
from volsched.framework.accounts.elastic import ElasticQuota, ElasticQuotas
from volsched.framework.boundary import EXPENSIVE_SHARE, Bounds, SessionOverError, culprit, failed, too_expensive
from volsched.framework.callbacks import (
    ANY_RUN,
    AllocatableFn,
    AppliesFn,
    BatchNodeOrder,
    BatchNodeOrderFn,
    BatchVectorFn,
    BestNodeFn,
    CloseFn,
    DeviceLimitsFn,
    EventHandler,
    JobEnqueuedFn,
    JobKeyFn,
    JobReadyFn,
    JobStarvingFn,
    JobValidFn,
    JobVoteFn,
    KeyFn,
    Leeway,
    LeewayFn,
    NodeCallbacks,
    NodeOrder,
    NodeOrderFn,
    NodeOrderVectorFn,
    OverusedFn,
    Predicate,
    PredicateFn,
    PredicateVectorFn,
    PreemptiveFn,
    PrePredicateFn,
    QueueAmountsFn,
    QueueHoldings,
    QueueKeyFn,
    QueueKeyOfPodsFn,
    QueueUsageFn,
    QuotaTableFn,
    RunFn,
    RunPlacedFn,
    SeriesFn,
    TaskKeyFn,
    UniformFn,
    VersionFn,
    VictimQueueKeyFn,
    VictimsFn,
    WakeFn,
    WordingsFn,
)
from volsched.framework.config.configuration import Configuration, PluginOption
from volsched.framework.engine.engine import Engine
from volsched.framework.groups import with_condition
from volsched.framework.leaving import all_left, terminating_on
from volsched.framework.ordering import Heap, in_order, job_key, queue_key, reverse
from volsched.framework.reporter import about_group
from volsched.framework.signature import is_of_queue, signature_of, slower_without_types
from volsched.framework.statement import Statement, bind_step
from volsched.model.clocks import ClusterEvent
from volsched.model.cluster import Cluster
from volsched.model.job import INQUEUE, Condition, JobInfo
from volsched.model.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.plan import LiftGate, Step, Tell
from volsched.model.pods.task import ADMISSION_GATE, TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.values.bounded import entries_of
from volsched.model.values.series import Numbers, Series
from volsched.model.verdict import Scope as VerdictScope
from volsched.model.verdict import Step as VerdictStep
from volsched.model.verdict import Verdict

LIFTING = Verdict(
    VerdictStep.GATED, "", VerdictScope.POD, "SchedulingGated", f"{ADMISSION_GATE} is being lifted", resolvable=False
)
"""A task whose gate we are taking away; the API server words gates itself, so this is not told."""

_WORTH_NOTING = 0.01
"""Of a session's budget: what took less is not remembered of a job."""

FAILED_SCHEDULING = "FailedScheduling"
"""The reason of the Event on a pod that no node takes, as kube-scheduler's."""


def waits_for_room(task: TaskInfo, node: NodeInfo) -> Verdict:
    """A task that can go to a node once pods there have gone."""
    message = f'pod "{task.key}" can go to node "{node.name}" once pods that are being deleted there are gone'
    return Verdict(VerdictStep.PREDICATE, "predicates", VerdictScope.POD, FAILED_SCHEDULING, message)


def by_importance(task: TaskInfo) -> tuple[int, float, str]:
    """Of tasks that were promised room: the more important first, then the older."""
    return -task.eviction_priority, task.created, task.uid


T = TypeVar("T")
KeyedCallback = TypeVar("KeyedCallback", Predicate, NodeOrder)


class Accounts:
    """Observers of the cluster that plugins keep from one session to the next, by name."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kept: dict[str, Any] = {}

    def get(self, name: str, make: Callable[[Cluster], T]) -> T:
        """The account of that name; made, and told of every change from then on, when it is asked for first."""
        if name not in self._kept:
            account = make(self._cluster)
            self._kept[name] = account
            if isinstance(account, Observer):
                self._cluster.observe(account)
        return cast("T", self._kept[name])

    def sizes(self) -> dict[str, int]:
        """Return how many entries each account keeps, by name; may be asked on any thread."""
        kept = dict(self._kept)
        apart = {id(self._cluster), *map(id, kept.values())}
        return {name: entries_of(account, apart) for name, account in kept.items()}

    def drop(self) -> None:
        """Forget all accounts: the configuration that they were made for is gone."""
        for account in self._kept.values():
            if isinstance(account, Observer):
                self._cluster.ignore(account)
        self._kept.clear()


class Session:
    """What actions and plugins work with during one cycle.

    ``now`` is the time of the session in seconds since the epoch, ``clock`` gives seconds of CPU that this thread has
    used, for budgets. ``submit`` of the constructor takes the steps of every committed statement at once. ``faults``
    are the exceptions of this session, each with the plugin that raised it, ``over`` says why it ended before it was
    through, and ``modules`` says which plugin's code is where. ``hints`` tell authors of plugins what would be faster.
    """

    def __init__(  # noqa: PLR0915 - a line for each kind of callback
        self,
        cluster: Cluster,
        configuration: Configuration,
        engine: Engine,
        accounts: Accounts,
        submit: Callable[[Sequence[Step]], None],
        now: float = 0.0,
        clock: Callable[[], float] = lambda: 0.0,
        bounds: Bounds | None = None,
    ) -> None:
        self.cluster = cluster
        self.configuration = configuration
        self.engine = engine
        self.now = now
        self.clock = clock
        self.bounds = bounds or Bounds()
        self.faults: list[tuple[str, BaseException]] = []
        self.hints: list[str] = []
        self.modules: dict[str, str] = {}
        self.over = ""
        self._began = clock()
        self._costs: dict[str, tuple[float, JobInfo]] = {}
        self._open: dict[int, Statement] = {}
        self.action = ""
        self.nodes = NodeCallbacks()
        self.elastic = ElasticQuotas()
        self.on_placed: Callable[[Session, TaskInfo], None] | None = None
        self.refused: dict[str, TaskInfo] = {}
        self.evicted: dict[str, TaskInfo] = {}
        self.victim_searches: Counter[tuple[str, ...]] = Counter()
        self.victims: Counter[tuple[str, ...]] = Counter()
        self._refusals_before: dict[TaskInfo, Verdict | None] = {}
        self._nominations_before: dict[TaskInfo, tuple[str, bool]] = {}
        self.unschedulable: dict[str, bool] = {}
        self.told: list[Tell] = []
        self._accounts = accounts
        self._submit = submit
        self._held: list[Statement] = []
        self._promises: dict[str, Statement] = {}
        self._kept: set[str] = set()
        self._waiting: dict[str, list[TaskInfo]] = {}
        self._tier = 0
        self._option = PluginOption("")
        self._aside: list[TaskInfo] = []
        self._job_keys: list[JobKeyFn] = []
        self._queue_keys: list[QueueKeyFn] = []
        self._victim_queue_keys: list[VictimQueueKeyFn] = []
        self._task_keys: list[TaskKeyFn] = []
        self._pre_predicates: list[PrePredicateFn] = []
        self._overused: list[OverusedFn] = []
        self._allocatable: list[AllocatableFn] = []
        self._leeways: list[LeewayFn | None] = []
        self._preemptive: list[PreemptiveFn] = []
        self._valid: list[JobValidFn] = []
        self._ready: list[JobReadyFn] = []
        self._starving: dispatch.Tiered[JobStarvingFn] = []
        self._enqueueable: dispatch.Tiered[JobVoteFn] = []
        self._enqueued: list[JobEnqueuedFn] = []
        self._pipelined: dispatch.Tiered[JobVoteFn] = []
        self._preemptable: dispatch.Tiered[VictimsFn] = []
        self._reclaimable: dispatch.Tiered[VictimsFn] = []
        self._handlers: list[EventHandler] = []
        self._closers: list[CloseFn] = []
        self._series: list[tuple[Series, SeriesFn]] = []
        self._wakers: list[WakeFn] = []
        self.queue_amounts: list[QueueAmountsFn] = []
        self.queue_holdings: list[QueueHoldings] = []
        self.queue_usages: list[QueueUsageFn] = []
        self.quota_tables: list[QuotaTableFn] = []
        self._device_limits: list[DeviceLimitsFn] = []
        self._runs: dict[str, RunFn] = {}
        self._run_placed: list[tuple[str, RunPlacedFn]] = []
        self._handler_of: dict[str, EventHandler] = {}
        self._break_runs: set[str] = set()

    # -- registration -------------------------------------------------------------------------------------------------

    def opening(self, tier: int, option: PluginOption) -> None:
        """The registrations that follow are of this plugin entry; its switches decide which of them count."""
        self._tier, self._option = tier, option

    @property
    def minds_ancestors(self) -> bool:
        """Whether the plugin entry that is registering is to look at the queues above a queue, too."""
        return self._option.allows("enableHierarchy")

    def account(self, name: str, make: Callable[[Cluster], T]) -> T:
        """An account that outlives the session; if it is an ``Observer`` it follows every change."""
        return self._accounts.get(name, make)

    def add_job_order_fn(self, plugin: str, key: JobKeyFn) -> None:
        """Order jobs of a queue by a key, smaller first."""
        self._add("enableJobOrder", self._job_keys, key)

    def add_queue_order_fn(self, plugin: str, key: QueueKeyFn) -> None:
        """Order queues by a key, smaller first."""
        self._add("enableQueueOrder", self._queue_keys, key)

    def add_victim_queue_order_fn(self, plugin: str, key: VictimQueueKeyFn) -> None:
        """Say whose pods go first for a task of another queue, smaller keys first. No switch turns this off."""
        self._victim_queue_keys.append(key)

    def add_task_order_fn(self, plugin: str, key: TaskKeyFn) -> None:
        """Order tasks of a job by a key, smaller first."""
        self._add("enableTaskOrder", self._task_keys, key)

    def add_pre_predicate_fn(self, plugin: str, fn: PrePredicateFn) -> None:
        """Refuse a task before any node is asked."""
        self._break_runs.add(plugin)
        self._add("enablePredicate", self._pre_predicates, fn)

    def add_predicate_fn(
        self,
        plugin: str,
        fn: PredicateFn,
        *,
        vector: PredicateVectorFn | None = None,
        applies: AppliesFn | None = None,
        key: KeyFn | QueueKeyOfPodsFn | None = None,
        version: VersionFn | None = None,
        wordings: WordingsFn | None = None,
    ) -> None:
        """Refuse nodes for a pod. What the function reads its annotations say, see ``signature``.

        What depends on more says by which ``key`` pods share answers, and by which ``version`` these have changed; for
        pods whose key is None it must pass. ``applies`` leaves it out for whole templates. Raises SignatureError.
        """
        made = Predicate(plugin, fn, signature_of(plugin, fn), vector, applies, wordings=wordings)
        self._add("enablePredicate", self.nodes.predicates, self._keyed(made, key, version))

    def add_node_order_fn(
        self,
        plugin: str,
        fn: NodeOrderFn,
        *,
        vector: NodeOrderVectorFn | None = None,
        applies: AppliesFn | None = None,
        key: KeyFn | QueueKeyOfPodsFn | None = None,
        version: VersionFn | None = None,
    ) -> None:
        """Score nodes for a pod; the rest as for predicates. For pods whose key is None the score must be 0."""
        made = NodeOrder(plugin, fn, signature_of(plugin, fn), vector, applies)
        self._add("enableNodeOrder", self.nodes.node_orders, self._keyed(made, key, version))

    def _keyed(
        self, made: KeyedCallback, key: KeyFn | QueueKeyOfPodsFn | None, version: VersionFn | None
    ) -> KeyedCallback:
        """A callback with the key by which pods share its answers."""
        if key is None:
            if not made.signature.is_typed:
                self.hints.append(slower_without_types(made.plugin, made.fn))
            return made
        self._break_runs.add(made.plugin)
        of_queue = is_of_queue(made.plugin, key)
        of_task = self._key_by_queue(cast("QueueKeyOfPodsFn", key)) if of_queue else cast("KeyFn", key)
        return replace(made, key=of_task, version=version, is_keyed_by_queue=of_queue)

    def _key_by_queue(self, key: QueueKeyOfPodsFn) -> KeyFn:
        queues = self.cluster.queues

        def of_task(task: TaskInfo) -> Hashable | None:
            queue = queues.get(task.queue)
            return None if queue is None else key(task.template, queue)

        return of_task

    def add_batch_node_order_fn(
        self,
        plugin: str,
        fn: BatchNodeOrderFn,
        *,
        uniform: UniformFn | None = None,
        vector: BatchVectorFn | None = None,
    ) -> None:
        """Score all candidates for a task together."""
        self._break_runs.add(plugin)
        self._add("enableNodeOrder", self.nodes.batch_orders, BatchNodeOrder(plugin, fn, uniform, vector))

    def add_best_node_fn(self, plugin: str, fn: BestNodeFn) -> None:
        """Choose among scored nodes."""
        self._add("enableBestNode", self.nodes.best_nodes, fn)

    def add_overused_fn(self, plugin: str, fn: OverusedFn) -> None:
        """Stop a queue that has its due."""
        self._add("enabledOverused", self._overused, fn)

    def add_allocatable_fn(self, plugin: str, fn: AllocatableFn, leeway: LeewayFn | None = None) -> None:
        """Refuse a task by its queue's quota.

        With a ``leeway`` jobs that this keeps waiting for the same are asked about together, without it one by one.
        """
        self._break_runs.add(plugin)
        self._add("enabledAllocatable", self._allocatable, fn)
        self._add("enabledAllocatable", self._leeways, leeway)

    def add_preemptive_fn(self, plugin: str, fn: PreemptiveFn) -> None:
        """Say whether a queue may take room from others."""
        self._add("enablePreemptive", self._preemptive, fn)

    def add_job_valid_fn(self, plugin: str, fn: JobValidFn) -> None:
        """Refuse a job that is not complete enough. No switch turns this off."""
        self._valid.append(fn)

    def add_job_ready_fn(self, plugin: str, fn: JobReadyFn) -> None:
        """Say whether what was placed of a job may be committed."""
        self._break_runs.add(plugin)
        self._add("enableJobReady", self._ready, fn)

    def add_job_pipelined_fn(self, plugin: str, fn: JobVoteFn) -> None:
        """Vote on whether a job may wait for room being freed."""
        self._add_tiered("enableJobPipelined", self._pipelined, fn)

    def add_job_starving_fn(self, plugin: str, fn: JobStarvingFn) -> None:
        """Say whether a job lacks room."""
        self._add_tiered("enableJobStarving", self._starving, fn)

    def add_job_enqueueable_fn(self, plugin: str, fn: JobVoteFn, *, always: bool = False) -> None:
        """Vote on admitting a job. Reserve nothing here: see ``add_job_enqueued_fn``.

        A job that says no minimum of resources is voted on by those that want ``always`` to be asked.
        """
        self._add_tiered("enableJobEnqueued", self._enqueueable, fn if always else dispatch.with_minimum(fn))

    def add_job_enqueued_fn(self, plugin: str, fn: JobEnqueuedFn) -> None:
        """Hear that a job was admitted."""
        self._add("enableJobEnqueued", self._enqueued, fn)

    def add_preemptable_fn(self, plugin: str, fn: VictimsFn) -> None:
        """Say whom a task may preempt."""
        self._add_tiered("enablePreemptable", self._preemptable, fn)

    def add_reclaimable_fn(self, plugin: str, fn: VictimsFn) -> None:
        """Say from whom a task may reclaim."""
        self._add_tiered("enableReclaimable", self._reclaimable, fn)

    def add_elastic_quota(self, plugin: str, quota: ElasticQuota, *, inside: bool = True) -> None:
        """Have what queues deserve of something taken back, and nothing else of that; see ``accounts.elastic``.

        With ``inside``, preemption inside a queue takes only from those who hold what is wanted, too.
        """
        self.add_preemptive_fn(plugin, quota.may_take_room)
        self.add_reclaimable_fn(plugin, quota.victims)
        allows = self._option.allows
        self.elastic.add(quota, reclaims=allows("enableReclaimable"), preempts=inside and allows("enablePreemptable"))

    def add_event_handler(self, plugin: str, handler: EventHandler, *, first: bool = False) -> None:
        """Follow what statements do with tasks; ``first``: before all others, which read what it decides."""
        self._break_runs.add(plugin)
        self._handler_of[plugin] = handler
        self._handlers.insert(0 if first else len(self._handlers), handler)

    def add_run_fn(self, plugin: str, fn: RunFn, placed: RunPlacedFn | None = None) -> None:
        """Say how many equal tasks may be placed in one go; a plugin that does not has them placed one by one.

        It has to be said by plugins that register more than orders and what is read of nodes alone. An event handler is
        not told of tasks that were placed in one go: ``placed`` is. No switch turns this off.
        """
        self._runs[plugin] = fn
        if placed is not None:
            self._run_placed.append((plugin, placed))

    def add_close_fn(self, plugin: str, fn: CloseFn) -> None:
        """Be called when the session closes."""
        self._closers.append(fn)

    def add_wake_fn(self, plugin: str, fn: WakeFn) -> None:
        """Say when the plugin's answers change although nothing else does."""
        self._wakers.append(fn)

    def wake_at(self) -> float | None:
        """When the first plugin's answers change by themselves (seconds since the epoch); None: never."""
        return min((due for due in (fn() for fn in self._wakers) if due is not None), default=None)

    def add_series_fn(self, plugin: str, series: Series, fn: SeriesFn) -> None:
        """Show numbers of the plugin's own beside the scheduler's metrics."""
        self._series.append((series, fn))

    def add_queue_amounts_fn(self, plugin: str, fn: QueueAmountsFn) -> None:
        """Say what queues hold in the plugin's own terms."""
        self.queue_amounts.append(fn)

    def add_queue_holdings(self, plugin: str, holdings: QueueHoldings) -> None:
        """Say in `status.allocated` of Queues what their pods hold in the plugin's own terms."""
        self.queue_holdings.append(holdings)

    def add_queue_usage_fn(self, plugin: str, fn: QueueUsageFn) -> None:
        """Say what all queues may hold and hold, for `volsched queue`."""
        self.queue_usages.append(fn)

    def add_quota_table_fn(self, plugin: str, fn: QuotaTableFn) -> None:
        """Show quotas of another kind than those of queues by resource or card."""
        self.quota_tables.append(fn)

    def add_device_limits_fn(self, plugin: str, fn: DeviceLimitsFn) -> None:
        """Say how many devices a task may still be given."""
        self._device_limits.append(fn)

    def device_limits(self, task: TaskInfo) -> dict[tuple[str, str], Fraction]:
        """How much more of each (DeviceClass, dimension) a task may be given; what is absent is not limited."""
        limits: dict[tuple[str, str], Fraction] = {}
        for fn in self._device_limits:
            for key, amount in (fn(task) or {}).items():
                limits[key] = min(amount, limits.get(key, amount))
        return limits

    def _add(self, switch: str, where: list[T], what: T) -> None:
        if self._option.allows(switch):
            where.append(what)

    def _add_tiered(self, switch: str, where: list[tuple[int, T]], what: T) -> None:
        if self._option.allows(switch):
            where.append((self._tier, what))

    # -- the plugins' combined answers --------------------------------------------------------------------------------

    def queues_of(self, jobs: Iterable[JobInfo]) -> tuple[Heap[QueueInfo], dict[str, Heap[JobInfo]]]:
        """Heaps of the queues that have some of these jobs, and of each queue's jobs."""
        grouped: dict[str, list[JobInfo]] = {}
        for job in jobs:
            grouped.setdefault(job.queue, []).append(job)
        queues = Heap(self.queue_key, [self.cluster.queues[name] for name in grouped])
        return queues, {name: Heap(self.job_key, found) for name, found in grouped.items()}

    def queue_key(self, queue: QueueInfo) -> tuple[Any, ...]:
        """The place of a queue among queues; smaller goes first."""
        return queue_key(self._queue_keys, queue)

    def job_key(self, job: JobInfo) -> tuple[Any, ...]:
        """The place of a job in its queue; smaller goes first."""
        return job_key(self._job_keys, job)

    def in_order(self, tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
        """Tasks of one job in the order in which they are tried."""
        return in_order(self._task_keys, tasks)

    def in_order_of_victims(self, task: TaskInfo, victims: Iterable[TaskInfo]) -> list[TaskInfo]:
        """Victims for a task, the least important first (Volcano's order of victims)."""

        def compare(left: TaskInfo, right: TaskInfo) -> int:
            mine, theirs = left.job, right.job
            if mine is theirs:
                return 1 if self.in_order([left, right])[0] is left else -1
            if mine is None or theirs is None:
                return -1 if mine is None else 1
            if mine.queue != theirs.queue and task.job is not None:
                return self._compare_victim_queues(task.job, mine, theirs)
            return reverse(self.job_key(mine), self.job_key(theirs))

        return sorted(victims, key=cmp_to_key(compare))

    def _compare_victim_queues(self, job: JobInfo, mine: JobInfo, theirs: JobInfo) -> int:
        queues = self.cluster.queues
        own, left, right = queues[job.queue], queues[mine.queue], queues[theirs.queue]
        for key in self._victim_queue_keys:
            closer, farther = key(left, own), key(right, own)
            if closer != farther:
                return -1 if closer < farther else 1
        return reverse(self.queue_key(left), self.queue_key(right))

    def pre_refusal(self, task: TaskInfo) -> Verdict | None:
        """Why no node can do for the task, if that is known without asking nodes."""
        for fn in self._pre_predicates:
            verdict = fn(task)
            if verdict is not None:
                return verdict
        return None

    def overused(self, queue: QueueInfo) -> Verdict | None:
        """Why the queue gets nothing more in this action."""
        return dispatch.first_refusal(self._overused, queue)

    def allocatable_refusal(self, queue: QueueInfo, task: TaskInfo) -> Verdict | None:
        """Why the queue may not take the task on; it counts there no longer, then, because its gate was lifted."""
        self._set_aside([task])
        refusal = self._refused_by_queue(queue, task)
        if refusal is not None and self._aside:
            self._aside.clear()
            self.cluster.wake(ClusterEvent.DEMAND_CHANGED)
        return refusal

    def _set_aside(self, tasks: Sequence[TaskInfo]) -> None:
        """Let those that count in their queue because their gate was lifted not do so while they are tried themselves.

        They count again when the next one is tried.
        """
        for task in self._aside:
            self.cluster.queue_ledger.set_ungated(task, ungated=True)
        self._aside = [task for task in tasks if task.ungated and task.status is TaskStatus.PENDING]
        for task in self._aside:
            self.cluster.queue_ledger.set_ungated(task, ungated=False)

    def _refused_by_queue(self, queue: QueueInfo, task: TaskInfo) -> Verdict | None:
        for fn in self._allocatable:
            verdict = fn(queue, task)
            if verdict is not None:
                return verdict
        return None

    def leeways(self, queue: QueueInfo, task: TaskInfo) -> tuple[Leeway, ...] | None:
        """What each plugin lets the queue take on of such tasks; None when one does not say."""
        self._set_aside(())
        found = [fn(queue, task) for fn in self._leeways if fn is not None]
        return tuple(found) if len(found) == len(self._leeways) else None

    def may_preempt(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """Whether the queue may take room from others for these tasks."""
        self._set_aside(tasks)
        return all(fn(queue, tasks) for fn in self._preemptive)

    def longest_run(self, queue: QueueInfo, task: TaskInfo) -> int:
        """How many tasks of the same job and template as this one may be placed in one go (see ``RunFn``)."""
        if self._promises or self.on_placed is not None or not self._ready or not self._break_runs <= self._runs.keys():
            return 0
        self._set_aside(())
        longest = ANY_RUN
        for fn in self._runs.values():
            longest = min(longest, fn(queue, task))
            if longest < 2:
                break
        return longest

    def invalidity(self, job: JobInfo) -> Verdict | None:
        """Why the job is not complete enough."""
        return dispatch.first_refusal(self._valid, job)

    def is_ready(self, job: JobInfo) -> bool:
        """Whether what was placed of the job may be committed."""
        for fn in self._ready:  # noqa: SIM110 - asked for every placement; a generator costs twice as much
            if not fn(job):
                return False
        return True

    def is_pipelined(self, job: JobInfo) -> bool:
        """Whether the job may wait for room being freed."""
        return dispatch.vote(self._pipelined, job)[0]

    def is_starving(self, job: JobInfo) -> bool:
        """Whether the job lacks room."""
        return dispatch.first_tier_and(self._starving, job)

    def enqueue_refusal(self, job: JobInfo) -> Verdict | None:
        """Why the job is not admitted; None admits it."""
        admitted, verdict = dispatch.vote(self._enqueueable, job, tell_all=True)
        return None if admitted else verdict or dispatch.UNEXPLAINED_REJECT

    def enqueued(self, job: JobInfo) -> None:
        """Admit the job: every plugin is told."""
        for fn in self._enqueued:
            fn(job)
        self.promote(job)

    def promote(self, job: JobInfo) -> None:
        """Set a job's phase to Inqueue."""
        self.cluster.queue_ledger.set_phase(job, INQUEUE)

    def preemptable(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Whom of the candidates the task may preempt."""
        return self.elastic.preemptable(task, dispatch.victims(self._preemptable, task, candidates))

    def reclaimable(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """From whom of the candidates the task may reclaim."""
        return self.elastic.reclaimable(task, dispatch.victims(self._reclaimable, task, candidates))

    # -- events of statements -----------------------------------------------------------------------------------------

    def told_allocated(self, task: TaskInfo) -> Verdict | None:
        """Tell the handlers; when one refuses, those that had accepted are told the reverse."""
        for index, handler in enumerate(self._handlers):
            refusal = handler.allocate(task)
            if refusal is not None:
                for earlier in reversed(self._handlers[:index]):
                    earlier.deallocate(task)
                return refusal
        return None

    def told_run(self, tasks: Sequence[TaskInfo]) -> bool:
        """Tell of tasks that were placed in one go; when one refuses, handlers of those that had accepted undo it."""
        for index, (_, fn) in enumerate(self._run_placed):
            if fn(tasks) is None:
                continue
            accepted = (self._handler_of.get(plugin) for plugin, _ in reversed(self._run_placed[:index]))
            for handler in filter(None, accepted):
                for task in reversed(tasks):
                    handler.deallocate(task)
            return False
        return True

    def told_deallocated(self, task: TaskInfo) -> None:
        """Tell the handlers, last registered first."""
        for handler in reversed(self._handlers):
            handler.deallocate(task)

    # -- boundaries ---------------------------------------------------------------------------------------------------

    @contextmanager
    def about(self, job: JobInfo) -> Iterator[None]:
        """Do something about a job: what fails ends with that job, see ``boundary``. Raises SessionOverError."""
        began = self.clock()
        if began - self._began > self.bounds.budget:
            self._end_over_budget(began - self._began)
        open_before = len(self._open)
        try:
            yield
        except SessionOverError:
            raise
        except Exception as error:
            if not self.bounds.contains_faults:
                raise
            self._fail(job, error, open_before)
        if self.cluster.observers.lost:
            raise SessionOverError("an account does not follow the cluster any more")
        took = self.clock() - began
        if took > self.bounds.budget * _WORTH_NOTING:
            self._costs[job.key] = (self._costs.get(job.key, (0.0, job))[0] + took, job)

    def _fail(self, job: JobInfo, error: Exception, open_before: int) -> None:
        """Undo what was tried for a job, and tell it what failed."""
        plugin = culprit(error, self.modules)
        self.faults.append((plugin, error))
        try:
            for statement in list(self._open.values())[: open_before - len(self._open) - 1 : -1]:
                statement.discard()
        except Exception as worse:
            raise SessionOverError(f"what was tried could not be undone: {worse}", plugin) from worse
        self.engine = self.engine.afresh()
        self.engine.open(self.nodes)
        self.refuse_all(job, failed(plugin, error, self.bounds.set_aside.add(job, self.now)))

    def refuse_all(self, job: JobInfo, verdict: Verdict) -> None:
        """Leave with a job and with all of it that waits why that is."""
        self.refuse_job(job, verdict)
        for task in job.waiting.values():
            self.refuse_task(task, verdict)

    def _end_over_budget(self, used: float) -> None:
        """End the session, and leave alone for a while what has taken most of its time."""
        waiting = (each for each in self._costs.values() if each[1].waiting)
        cost, job = max(waiting, key=lambda each: each[0], default=(0.0, None))
        if job is not None and cost > EXPENSIVE_SHARE * self.bounds.budget:
            self.refuse_all(job, too_expensive(cost, self.bounds.budget, self.bounds.set_aside.add(job, self.now)))
        raise SessionOverError(f"{used:.1f}s of CPU were used, the budget of a session is {self.bounds.budget:g}s")

    def check_accounts(self) -> None:
        """Raise what an account failed with that has to follow what is done: without it quotas are not minded."""
        if self.cluster.observers.lost:
            raise next(iter(self.cluster.observers.lost.values()))

    # -- doing ---------------------------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """Start an attempt."""
        statement = Statement(self)
        self._open[id(statement)] = statement
        return statement

    def closed(self, statement: Statement) -> None:
        """Hear that a statement was committed, held or discarded."""
        self._open.pop(id(statement), None)

    def hold(self, statement: Statement) -> None:
        """Keep what a statement reserved until the session closes."""
        self.closed(statement)
        self._held.append(statement)
        for operation in statement.operations:
            if operation.kind == "pipeline":
                self._promises[operation.task.uid] = statement

    def promised(self) -> list[TaskInfo]:
        """Tasks that were promised room in this session."""
        return [self.cluster.tasks[uid] for uid in self._promises if uid in self.cluster.tasks]

    def redeem(self, task: TaskInfo) -> None:
        """Take back the promise of room that a task has, so that it can be placed for real."""
        statement = self._promises.pop(task.uid, None)
        if statement is not None:
            statement.undo(task)

    def promise(self, task: TaskInfo, *, nominate: bool) -> None:
        """Say of a task that room is promised to it; with ``nominate`` the promise outlives the session."""
        node = task.node
        if node is None:
            return
        if nominate:
            self._nominate(task, node.name)
        self.refuse_task(task, waits_for_room(task, node))

    def forget_promise(self, task: TaskInfo) -> None:
        """Room that was promised to a task went to a more important one."""
        statement = self._promises.pop(task.uid, None)
        if statement is not None:
            statement.operations = [o for o in statement.operations if o.task is not task]
        self.give_up_nomination(task)

    def give_up_nomination(self, task: TaskInfo) -> None:
        """No room is being made for a task any more."""
        if task.nominated:
            self._nominate(task, "")

    def _nominate(self, task: TaskInfo, node: str) -> None:
        before = self._nominations_before.setdefault(task, (task.nominated, task.nomination_sent))
        self.cluster.nominate(task, node, sent=before != (node, False))

    def newly_nominated(self) -> list[TaskInfo]:
        """Return waiting tasks for which room is made on another node than when the session began, or no longer."""
        before = self._nominations_before.items()
        return [t for t, (node, _) in before if t.nominated != node and t.status is TaskStatus.PENDING]

    def keep_promises(self) -> None:
        """Hold the room that earlier sessions made for tasks, the most important first; give up what is lost.

        One may count on another that comes after it (a pod that wants to be near it), so those that cannot be held yet
        are asked again while more are.
        """
        open_promises: list[TaskInfo] = []
        for task in sorted(self.cluster.nominated.values(), key=by_importance):
            if task.status is TaskStatus.PENDING and task.ours:
                open_promises.append(task)
            else:
                self.cluster.nominate(task, "", sent=False)
        kept_some = True
        while open_promises and kept_some:
            left = [task for task in open_promises if not self._kept_within(task)]
            kept_some, open_promises = len(left) < len(open_promises), left
        for task in open_promises:
            self.give_up_nomination(task)

    def _kept_within(self, task: TaskInfo) -> bool:
        """Keep a task's promise; what fails over it ends with its job."""
        if task.job is None:
            return self._keep_promise(task)
        with self.about(task.job):
            return self._keep_promise(task)
        return False

    def _keep_promise(self, task: TaskInfo) -> bool:
        """Hold the room that was made for a task, if it still is to be had."""
        node = self.cluster.nodes.get(task.nominated)
        if node is None or not self.will_admit(task, node):
            return False
        statement = self.statement()
        if statement.pipeline(task, node) is not None:
            return False
        statement.hold()
        self._kept.add(task.uid)
        return True

    def will_admit(self, task: TaskInfo, node: NodeInfo) -> bool:
        """Whether a task may go on a node now, or once those who are leaving it are gone."""
        if self.engine.admits(task, node):
            return True
        if not terminating_on(node) and not self.cluster.devices.unclean:
            return False
        with all_left(self.cluster, node):
            return self.engine.admits(task, node)

    def was_promised_before(self, task: TaskInfo) -> bool:
        """Whether a task holds a promise of room from an earlier session."""
        return task.uid in self._kept and task.status is TaskStatus.PIPELINED

    def submit(self, steps: Sequence[Step]) -> None:
        """Hand steps to the executor."""
        if steps:
            self._submit(steps)

    def stand_alone(self, statement: Statement, task: TaskInfo) -> None:
        """Let stand what was done for one task by itself: bound at once when its job is ready, else when it becomes so.

        A promise of room is held until the session closes, ready or not.
        """
        job = task.job
        if job is not None and self.is_ready(job):
            statement.commit(job)
            return
        self.hold(statement)
        if job is not None:
            self._waiting.setdefault(job.key, []).append(task)

    def release_waiting(self, job: JobInfo) -> list[Step]:
        """Bind what earlier actions of this session allocated for a job that is ready now."""
        steps: list[Step] = []
        for task in self._waiting.pop(job.key, ()):
            if task.status is TaskStatus.ALLOCATED and task.node is not None:
                steps.append(bind_step(task, task.node))
                self.cluster.move_quietly(task, TaskStatus.BINDING)
        return steps

    def lift_gate(self, task: TaskInfo) -> None:
        """Let a task in that waits behind Volcano's admission gate: its queue takes it on, so it can be placed next.

        From now on it counts in its queue, so that others do not take the room for which it was let in.
        """
        if not task.ungated and task not in self._aside:
            self.submit([LiftGate(task.uid, task.namespace, task.name, ADMISSION_GATE)])
            self.cluster.queue_ledger.set_ungated(task, ungated=True)
        task.refusal = LIFTING

    def best_node(self, task: TaskInfo) -> NodeInfo | None:
        """The best node for a task (see ``Engine.best``)."""
        node = self.engine.best(task)
        if node is not None and self.on_placed is not None:
            self.on_placed(self, task)
        return node

    def refuse_by_nodes(self, task: TaskInfo, step: VerdictStep) -> None:
        """Leave with a task that no node takes it, and why, in kube-scheduler's words."""
        refusals = self.engine.refusals(task)
        message = refusals.text(len(self.cluster.rows))
        verdict = Verdict(step, refusals.plugin, VerdictScope.NODE, FAILED_SCHEDULING, message)
        self.refuse_task(task, verdict)

    # -- refusals -----------------------------------------------------------------------------------------------------

    def refuse_task(self, task: TaskInfo, verdict: Verdict) -> None:
        """Leave with a task why it waits."""
        if task.refusal != verdict:
            self._refusals_before.setdefault(task, task.refusal)
            task.refusal = verdict
            self.refused[task.uid] = task
            if task.job is not None:
                self.cluster.queue_ledger.dirty_jobs[task.job.key] = task.job

    def refuse_job(self, job: JobInfo, verdict: Verdict | None) -> None:
        """Leave with a job why it waits, and no longer why each of its tasks did; None takes that back."""
        if job.refusal == verdict:
            return
        job.refusal = verdict
        self.cluster.queue_ledger.dirty_jobs[job.key] = job
        if verdict is not None:
            for task in job.schedulable():
                task.refusal = None

    def refusal_before(self, task: TaskInfo) -> Verdict | None:
        """Return why a task waited when the session began; for tasks that were refused since."""
        return self._refusals_before[task]

    def cannot_start(self, job: JobInfo, condition: Condition) -> None:
        """Note on a PodGroup that its gang cannot start in this session, and whether an earlier one said so too.

        That is an Event as well, unless one tells already what keeps the job as a whole. Where a queue has its due both
        are told, as Volcano's own tools look for this one there.
        """
        self.unschedulable[job.key] = any(c.type == condition.type and c.status == "True" for c in job.conditions)
        is_told = job.refusal is not None and job.refusal.step is not VerdictStep.OVERUSED
        if condition not in job.conditions and not is_told:
            self.tell(about_group(job, "Warning", condition.type, condition.message))
        self.set_condition(job, condition)

    def set_condition(self, job: JobInfo, condition: Condition) -> None:
        """Put a condition on a PodGroup; it is written when it says something new."""
        self.set_conditions(job, with_condition(job.conditions, condition))

    def set_conditions(self, job: JobInfo, conditions: tuple[Condition, ...]) -> None:
        """Replace a PodGroup's conditions."""
        if conditions != job.conditions:
            job.conditions = conditions
            self.cluster.queue_ledger.dirty_jobs[job.key] = job

    def tell(self, event: Tell) -> None:
        """Have an Event recorded on an object."""
        self.told.append(event)

    # -- closing ------------------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """Every plugin has registered: get ready to answer."""
        self.engine.open(self.nodes)

    def close(self) -> None:
        """Call the plugins' close hooks, then undo what was only held."""
        self._set_aside(())
        for fn in self._closers:
            fn()
        with self.cluster.tentative():
            for statement in reversed(self._held):
                statement.keep_bound()
                statement.discard()
        self._held.clear()

    def series(self) -> tuple[tuple[Series, Numbers], ...]:
        """The plugins' own numbers as they are now, but for those that fail."""
        found: list[tuple[Series, Numbers]] = []
        for series, fn in self._series:
            try:
                found.append((series, fn()))
            except Exception as error:
                if not self.bounds.contains_faults:
                    raise
                self.faults.append((culprit(error, self.modules), error))
        return tuple(found)
