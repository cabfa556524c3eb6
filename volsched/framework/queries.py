"""Queries of actions to a session: objects of the cluster, and answers of plugins. None changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from volsched.framework.callbacks import JobKeyFn
from volsched.framework.dispatch.combining import Number
from volsched.framework.dispatch.ordering import Heap
from volsched.framework.dispatch.ruleset import Ruleset
from volsched.framework.rules import Rule
from volsched.model.budget import Budget
from volsched.model.cluster import Cluster
from volsched.model.generations import Generations
from volsched.model.job import JobInfo
from volsched.model.nodes.columns import ResourceColumns
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Verdict


class SessionQueries:
    """The questions; ``cluster`` and ``rules`` answer them."""

    cluster: Cluster
    rules: Ruleset

    # -- what is in the cluster ---------------------------------------------------------------------------------------

    @property
    def queues(self) -> Mapping[str, QueueInfo]:
        """All queues by name."""
        return self.cluster.queues

    @property
    def jobs(self) -> Mapping[str, JobInfo]:
        """All jobs by key."""
        return self.cluster.jobs

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        """All nodes by name."""
        return self.cluster.nodes

    @property
    def rows(self) -> Sequence[NodeInfo]:
        """All nodes in the order of the engine's rows."""
        return self.cluster.rows

    @property
    def budgets(self) -> Mapping[str, Budget]:
        """All PodDisruptionBudgets by key."""
        return self.cluster.budgets

    @property
    def generations(self) -> Generations:
        """The counters of changes, to see whether anything has changed since."""
        return self.cluster.generations

    @property
    def columns(self) -> ResourceColumns:
        """The columns of resources in amounts of nodes."""
        return self.cluster.columns

    @property
    def properties_version(self) -> tuple[int, int]:
        """Changes when a property of any node does."""
        return self.cluster.node_cache.properties_version

    def request(self, task: TaskInfo) -> tuple[tuple[int, int], ...]:
        """Return the request of a task as pairs of column and amount."""
        return self.cluster.columns.request(task.template)

    def best_effort_jobs(self) -> Iterable[JobInfo]:
        """Return the jobs with waiting pods that request nothing."""
        return self.cluster.queue_cache.best_effort.values()

    def unadmitted_jobs(self) -> Iterable[JobInfo]:
        """Return the jobs that no queue has admitted yet."""
        return self.cluster.queue_cache.unadmitted.values()

    def labels_of_namespace(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace, or None for one that is not known."""
        return self.cluster.queue_cache.namespaces.get(name)

    def without_requeue(self) -> AbstractContextManager[None]:
        """Have nothing wake jobs that is moved inside: it is moved back."""
        return self.cluster.without_requeue()

    # -- what plugins answer ------------------------------------------------------------------------------------------

    def has_rule(self, kind: type[Rule]) -> bool:
        """True if any plugin registered a rule of this kind."""
        return bool(self.rules.of[kind])

    def queues_of(
        self, jobs: Iterable[JobInfo], key: JobKeyFn | None = None
    ) -> tuple[Heap[QueueInfo], dict[str, Heap[JobInfo]]]:
        """Return heaps of the queues of some jobs, and of each queue's jobs, by a key if one is given."""
        return self.rules.queues_of(jobs, key)

    def queue_key(self, queue: QueueInfo) -> tuple[Any, ...]:
        """Return the place of a queue among queues. Smaller goes first."""
        return self.rules.queue_key(queue)

    def job_key(self, job: JobInfo) -> tuple[Any, ...]:
        """Return the place of a job in its queue. Smaller goes first."""
        return self.rules.job_key(job)

    def in_order(self, tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
        """Return tasks of one job in the order in which they are tried."""
        return self.rules.in_order(tasks)

    def invalidity(self, job: JobInfo) -> Verdict | None:
        """Return why a job is not complete enough."""
        return self.rules.invalidity(job)

    def is_ready(self, job: JobInfo) -> bool:
        """True if what was placed of a job may be committed."""
        return self.rules.is_ready(job)

    def may_wait(self, job: JobInfo) -> bool:
        """True if a job may keep what was placed and promised of it, and wait for room being freed."""
        return self.rules.is_pipelined(job)

    def is_starving(self, job: JobInfo) -> bool:
        """True if a job lacks room."""
        return self.rules.is_starving(job)

    def enqueue_refusal(self, job: JobInfo) -> Verdict | None:
        """Return why a job is not admitted."""
        return self.rules.enqueue_refusal(job)

    def overused(self, queue: QueueInfo) -> Verdict | None:
        """Return why a queue gets nothing more in this action."""
        return self.rules.overused(queue)

    def pre_refusal(self, task: TaskInfo) -> Verdict | None:
        """Return why no node can do for a task, if that is known without asking nodes."""
        return self.rules.pre_refusal(task)

    def depends_on_template(self, task: TaskInfo) -> bool:
        """True if the answers about nodes depend on nothing of a task but its template and queue."""
        return self.rules.depends_on_template(task)

    def shares_settled(self) -> AbstractContextManager[None]:
        """Ignore quotas inside that follow what other queues ask for: a promised start stands."""
        return self.rules.shares_settled()

    # -- whom plugins let evict ---------------------------------------------------------------------------------------

    def is_within_deserved(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """True if a queue would hold no more than it deserves with a waiting task."""
        return self.rules.is_within_deserved(queue, task)

    def preemptable(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return whom of the candidates a task may preempt."""
        return self.rules.preemptable(task, candidates)

    def reclaimable(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return from whom of the candidates a task may reclaim."""
        return self.rules.reclaimable(task, candidates)

    def reclaimable_by_share(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return from whom a task may reclaim while all their queues keep what they deserve."""
        return self.rules.reclaimable_by_share(task, candidates)

    def protectors(self, task: TaskInfo, candidates: Iterable[TaskInfo]) -> list[frozenset[str]]:
        """Return for each candidate the plugins that protect it, or one that goes with it."""
        return self.rules.protectors(task, candidates)

    def in_order_of_victims(self, task: TaskInfo, victims: Iterable[TaskInfo]) -> list[TaskInfo]:
        """Return victims for a task, the least important first."""
        return self.rules.in_order_of_victims(task, victims)

    def preempts_for(self, task: TaskInfo) -> bool:
        """True if a quota of what a task asks for limits whom it preempts."""
        return self.rules.elastic.preempts_for(task)

    def reclaims_for(self, task: TaskInfo) -> bool:
        """True if a quota of what a task asks for limits from whom it reclaims."""
        return self.rules.elastic.reclaims_for(task)

    def held_of_requested(self, task: TaskInfo, victim: TaskInfo) -> Number:
        """Return how much a victim holds of what a task asks for, by quotas of that."""
        return self.rules.elastic.released(task, victim)
