"""What quotas there are and who holds what of them, as the plugins that keep them count: for people.

A plugin registers a ``Report``. One with quotas by resource or by card gives the ``Usage`` of all of them. Quotas of
anything else are a ``QuotaTable``, whose columns the plugin names. Both are made from the plugin's own accounts when
somebody asks: people are shown what the scheduler believes. Where no plugin has quotas, ``unlimited_usage`` has what
queues hold.

Amounts are integers in each resource's unit, cards in milli-cards; None is an amount that nobody has set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias, overload

from volsched.framework.accounts.queue_demand import QueueDemand, QueueDemands, reserved_by
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import IS_CHOSEN
from volsched.model.values.resources import CPU, MEMORY

Names: TypeAlias = tuple[str, ...]
"""Cards any one of which would do."""

Value: TypeAlias = int | str | None
"""A number, a quantity or a word in a table; None where there is nothing to show."""


# --- tables of any kind ---------------------------------------------------------------------------------------------


STRANDED_CARDS: Final = "strandedCards"
"""The name of the table of cards that cannot be used now, which ``volsched simulate`` shows, too."""

RESERVATIONS: Final = "reservations"
"""The name of the table of jobs for which nodes are held, which ``volsched simulate`` shows, too."""


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One line: what it is about, in the order of the table's ``about``, and its figures by name.

    None in place of the first name stands for all of them together.
    """

    about: tuple[Value, ...]
    figures: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class QuotaTable:
    """Quotas that a plugin keeps. ``name`` is that of the field in ``-o json``, ``title`` what people read.

    ``about`` and ``figures`` name the columns, in camel case, in their order; a figure that no row has is not shown.
    """

    name: str
    title: str
    about: tuple[str, ...]
    figures: tuple[str, ...]
    rows: Sequence[QuotaRow]

    def objects(self) -> list[dict[str, Value]]:
        """Return the rows as programs read them: what each is about, and the figures that it has."""
        return [
            {
                **dict(zip(self.about, row.about, strict=True)),
                **{name: row.figures[name] for name in self.figures if name in row.figures},
            }
            for row in self.rows
        ]


# --- queues ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dimension:
    """One resource, or one card, of a queue. ``quota``: None without a limit, and then ``headroom`` is None as well.

    ``deserved``, ``guarantee`` and ``reclaimable`` are columns of their own where any queue has them.
    """

    quota: int | None = None
    used: int = 0
    reserved: int = 0
    headroom: int | None = None
    deserved: int | None = None
    guarantee: int | None = None
    reclaimable: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        amounts = (self.quota, self.used, self.reserved, self.deserved, self.guarantee, self.reclaimable)
        return not any(amounts)


@dataclass(frozen=True, slots=True)
class PodUse:
    """A pod on a node: which card it is charged for, and milli-cards of it; no name when it is charged for none."""

    pod: str
    node: str
    card: str = ""
    amount: int = 0


@dataclass(frozen=True, slots=True)
class JobUse:
    """What one job holds, has reserved, and what its pods without a node want, without zeros; lists as ``A|B``."""

    name: str
    phase: str
    held: Mapping[str, int]
    reserved: Mapping[str, int]
    pending: Mapping[str, int]
    pods: tuple[PodUse, ...]
    waiting: int

    @property
    def is_idle(self) -> bool:
        """Whether the job neither holds nor wants anything."""
        return not (self.pods or self.waiting or self.held or self.reserved)


class JobUses(Sequence[JobUse]):
    """The jobs of a queue that hold or want something, worked out when somebody first asks: most ask for queues alone.

    ``each`` yields all of its jobs, from the accounts as they are when it is called.
    """

    def __init__(self, each: Callable[[], Iterable[JobUse]]) -> None:
        self._each = each

    @cached_property
    def _found(self) -> tuple[JobUse, ...]:
        return tuple(use for use in self._each() if not use.is_idle)

    @overload
    def __getitem__(self, place: int) -> JobUse: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[JobUse]: ...

    def __getitem__(self, place: int | slice) -> JobUse | Sequence[JobUse]:
        return self._found[place]

    def __len__(self) -> int:
        return len(self._found)


@dataclass(frozen=True, slots=True)
class QueueUse:
    """One queue. ``lists``: milli-cards reserved for any card of a list; ``jobs``: those in the queue itself.

    ``others``: resources beside cpu and memory, where they are counted by resource.
    """

    queue: QueueInfo
    cpu: Dimension
    memory: Dimension
    cards: Mapping[str, Dimension]
    lists: Mapping[Names, int]
    jobs: Sequence[JobUse]
    others: Mapping[str, Dimension] = field(default_factory=dict)

    @property
    def dimensions(self) -> Iterator[tuple[str, Dimension]]:
        """Everything, cards first."""
        yield from self.cards.items()
        yield from self.others.items()
        yield from ((CPU, self.cpu), (MEMORY, self.memory))


@dataclass(frozen=True, slots=True)
class CardUse:
    """One card in the whole cluster, in milli-cards. More ``quota`` than ``total`` is over-committed."""

    total: int
    idle: int
    used: int
    quota: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """All queues and all cards, by name. ``by_card``: jobs hold cards, not resources; else ``cards`` is empty."""

    queues: Mapping[str, QueueUse]
    cards: Mapping[str, CardUse] = field(default_factory=dict)
    by_card: bool = False


# --- by resource ----------------------------------------------------------------------------------------------------


def usage_by_resource(cluster: Cluster, dimensions: Callable[[QueueInfo], Mapping[str, Dimension]]) -> Usage:
    """Return the usage of all queues, each with the dimensions that a plugin gives it, and with its jobs."""
    jobs = jobs_by_queue(cluster)

    def of(name: str) -> QueueUse:
        uses = JobUses(lambda: map(_job, sorted(jobs.get(name, ()), key=lambda job: job.key)))
        return _queue(cluster.queues[name], dict(dimensions(cluster.queues[name])), uses)

    return Usage({name: of(name) for name in sorted(cluster.queues)})


def jobs_by_queue(cluster: Cluster) -> dict[str, list[JobInfo]]:
    """Return all jobs by their queue."""
    found: dict[str, list[JobInfo]] = {}
    for job in cluster.jobs.values():
        found.setdefault(job.queue, []).append(job)
    return found


def unlimited_usage(cluster: Cluster) -> Usage:
    """Return what queues hold and have reserved where no plugin states what they may hold."""
    demands = QueueDemands(cluster).queues()

    def dimensions(queue: QueueInfo) -> dict[str, Dimension]:
        reserved = demands.get(queue.name, QueueDemand()).reserved
        return {
            name: Dimension(used=queue.allocated.get(name, 0), reserved=reserved.get(name, 0))
            for name in sorted({*queue.allocated, *reserved})
        }

    return usage_by_resource(cluster, dimensions)


def left(quota: int, taken: int) -> int:
    """Return what is left of a quota: nothing when it is exceeded."""
    return max(0, quota - taken)


def _queue(queue: QueueInfo, dimensions: dict[str, Dimension], jobs: Sequence[JobUse]) -> QueueUse:
    cpu, memory = dimensions.pop(CPU, Dimension()), dimensions.pop(MEMORY, Dimension())
    return QueueUse(queue, cpu, memory, {}, {}, jobs, dict(sorted(dimensions.items())))


def _job(job: JobInfo) -> JobUse:
    pending: dict[str, int] = {}
    for task in job.waiting.values():
        for name, amount in task.template.request.items():
            pending[name] = pending.get(name, 0) + amount
    return JobUse(
        job.key,
        job.phase,
        dict(job.allocated),
        dict(reserved_by(job)),
        pending,
        pods_of(job, lambda task: PodUse(task.key, node_name(task))),
        len(job.waiting),
    )


def pods_of(job: JobInfo, use: Callable[[TaskInfo], PodUse]) -> tuple[PodUse, ...]:
    """Return the pods of a job that have a node, or room promised on one, by name."""
    placed = [task for task in job.tasks.values() if IS_CHOSEN[task.status]]
    return tuple(use(task) for task in sorted(placed, key=lambda task: task.key))


def node_name(task: TaskInfo) -> str:
    """Return the name of a task's node, empty without one."""
    return task.node.name if task.node is not None else ""
