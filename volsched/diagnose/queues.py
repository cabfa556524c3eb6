"""One queue for people: quotas of devices, running jobs, and the amounts that it could reclaim from other queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from volsched.diagnose.nodes import CardOwner, owner_of
from volsched.diagnose.queries import amount_text
from volsched.diagnose.records import AnswerRecord, Figures
from volsched.framework.quota_report import RESERVATIONS, JobUse, QuotaRow, QuotaTable, Usage
from volsched.model.cluster import Cluster
from volsched.model.queues.queue import levels

MOST_RUNNING: Final = 100
"""Running jobs that are listed, those with the most pods first."""

_QUEUE: Final = "queue"


class RunningJob(AnswerRecord, frozen=True):
    """A job with pods on nodes, the number of both, and the amounts that it holds."""

    owner: CardOwner
    pods: int
    nodes: int
    held: Mapping[str, str]


class ReclaimSource(AnswerRecord, frozen=True):
    """A queue that holds more than it deserves, and how much more."""

    queue: str
    amount: str


class Reclaimable(AnswerRecord, frozen=True):
    """The amount of a resource up to the deserved share of a queue, and the queues from which it could be reclaimed.

    ``short`` is the missing amount, ``amount`` the part of it that the ``sources`` hold beyond their deserved shares.
    """

    resource: str
    short: str
    amount: str
    sources: tuple[ReclaimSource, ...]


class QueueDetails(AnswerRecord, frozen=True):
    """One queue with everything that lists of queues leave out.

    ``more_running`` jobs are not in ``running``. ``tables`` are quotas of other kinds, with the rows of this queue.
    ``reclaims``: the scheduler evicts pods for queues below their deserved shares.
    """

    quotas: tuple[Figures, ...]
    running: tuple[RunningJob, ...]
    more_running: int
    reclaimable: tuple[Reclaimable, ...]
    tables: tuple[QuotaTable, ...]
    reclaims: bool


def details_of_queue(
    cluster: Cluster, usage: Usage, tables: Sequence[QuotaTable], name: str, *, reclaims: bool = True
) -> QueueDetails | None:
    """Return the details of a queue, None if there is no such queue."""
    use = usage.queues.get(name)
    if use is None:
        return None
    running = sorted((job for job in use.jobs if job.pods), key=lambda job: (-len(job.pods), job.name))
    own = [table for table in (_of_queue(each, name) for each in tables) if table is not None]
    amounts = [*_dimensions(usage), *_counted(tables)]
    return QueueDetails(
        tuple(_figures(row) for table in own if _has_limits(table) for row in table.rows),
        tuple(_running(cluster, usage, job) for job in running[:MOST_RUNNING] if job.name in cluster.jobs),
        max(0, len(running) - MOST_RUNNING),
        tuple(_reclaimable(usage, name, amounts)),
        tuple(table for table in own if not _has_limits(table)),
        reclaims,
    )


def _of_queue(table: QuotaTable, name: str) -> QuotaTable | None:
    """Return a table with the rows of one queue, None if it has none. That of reservations is about jobs."""
    rows = [row for row in table.rows if row.about[0] == name] if table.about[0] == _QUEUE else []
    if not rows or table.name == RESERVATIONS:
        return None
    return QuotaTable(table.name, table.title, table.about, table.figures, rows)


def _has_limits(table: QuotaTable) -> bool:
    return {"quota", "used"} <= {*table.figures}


def _figures(row: QuotaRow) -> Figures:
    """Return a row of a table as the figures of a queue."""

    def text(name: str) -> str | None:
        value = row.figures.get(name)
        return None if value is None else str(value)

    name = _name(row)
    used, reserved = text("used") or "0", text("reserved") or "0"
    return Figures(name, used, reserved, text("quota"), text("headroom"), text("deserved"), text("guarantee"))


def _name(row: QuotaRow) -> str:
    return " ".join(str(part) for part in row.about[1:])


def _running(cluster: Cluster, usage: Usage, job: JobUse) -> RunningJob:
    nodes = {pod.node for pod in job.pods}
    cards = {card for use in usage.queues.values() for card in use.cards} if usage.by_card else set()
    held = {name: amount_text(name, amount, is_card=name in cards) for name, amount in sorted(job.held.items())}
    return RunningJob(owner_of(cluster.jobs[job.name]), len(job.pods), len(nodes), held)


# --- what could be reclaimed ----------------------------------------------------------------------------------------


class _Amount(AnswerRecord, frozen=True):
    """One resource of one queue, as numbers. ``is_card``: in thousandths of a card; ``is_plain``: without a unit."""

    queue: str
    resource: str
    used: int
    deserved: int | None
    reclaimable: int | None
    is_card: bool = False
    is_plain: bool = False

    def text(self, amount: int) -> str:
        """Return an amount of the resource for people."""
        return str(amount) if self.is_plain else amount_text(self.resource, amount, is_card=self.is_card)


def _dimensions(usage: Usage) -> Iterator[_Amount]:
    for name, use in usage.queues.items():
        for resource, of in use.dimensions:
            beyond = of.reclaimable
            if beyond is None and use.queue.spec.reclaimable:
                beyond = max(0, of.used - (of.deserved or 0))
            yield _Amount(name, resource, of.used, of.deserved, beyond, is_card=resource in use.cards)


def _counted(tables: Iterable[QuotaTable]) -> Iterator[_Amount]:
    """Yield the rows of tables of queues that have whole numbers, such as those of devices."""
    for table in tables:
        for row in table.rows if table.about[0] == _QUEUE and _has_limits(table) else ():
            used, deserved, more = (row.figures.get(name) for name in ("used", "deserved", "reclaimable"))
            if isinstance(used, int) and isinstance(deserved, int | None) and isinstance(more, int | None):
                yield _Amount(str(row.about[0]), _name(row), used, deserved, more, is_plain=True)


def _reclaimable(usage: Usage, name: str, amounts: Iterable[_Amount]) -> Iterator[Reclaimable]:
    """Yield what a queue below its deserved share could reclaim at most.

    As in ``volsched.quota.reclaim``, other queues are sources with what they hold beyond their deserved shares. Queues
    above and below it are none, nor are queues with children: these hold what their children hold. The shares of
    queues above may allow less, and so may the plugins that protect pods.
    """
    queues = {each: use.queue for each, use in usage.queues.items()}
    above = levels(queues, name)
    parents = {queue.spec.parent for queue in queues.values()}
    by_resource: dict[str, dict[str, _Amount]] = {}
    for each in amounts:
        by_resource.setdefault(each.resource, {})[each.queue] = each
    for resource, found in by_resource.items():
        own = found.get(name)
        if own is None or own.deserved is None:
            continue
        short = own.deserved - own.used
        if short <= 0:
            continue
        sources = [
            each
            for each in found.values()
            if each.reclaimable and each.queue not in parents and each.queue not in above
            if name not in levels(queues, each.queue)
        ]
        sources.sort(key=lambda each: (-(each.reclaimable or 0), each.queue))
        amount = min(short, sum(each.reclaimable or 0 for each in sources))
        listed = tuple(ReclaimSource(each.queue, each.text(each.reclaimable or 0)) for each in sources)
        yield Reclaimable(resource, own.text(short), own.text(amount), listed)
