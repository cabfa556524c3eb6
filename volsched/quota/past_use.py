"""Past use of queues, for shares that are fair over time. Older use counts less.

Of what a queue holds at each moment the integral is kept, weighted by 2^(-age / half-life), as in Slurm's and Maui's
fair share. It is known exactly at any time from the integral at one time and what has been held since, so nothing
ticks. People are shown a mean: who always held the same has that times half-life / ln 2 as the integral.

The integral cannot be derived from what the API server shows, so a queue's status keeps it (`status.usage`): a word
about a queue that changed, once a minute at most. A new leader goes on from there, with what is held now.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from volsched.framework.callbacks import QueueKeyFn
from volsched.framework.config.arguments import Argument, ArgumentProblem
from volsched.framework.deprecated_names import former
from volsched.framework.quota_report import QuotaRow, QuotaTable, Value
from volsched.framework.registration import Registrar
from volsched.framework.reports import Report
from volsched.framework.rules import QueueOrder, Rule
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo, QueuePast
from volsched.model.status import IS_ALLOCATED, TaskStatus
from volsched.model.values.duration import seconds_of
from volsched.model.values.quantity import in_base_units
from volsched.model.values.series import Numbers, Series

HALF_LIFE: Final = "usage.halfLife"
PRESENT: Final = 60.0
"""Seconds that what a queue holds now counts as, so that of equal pasts the one that holds less goes first."""
WORD_EVERY: Final = 60.0
"""Seconds between two words about a queue."""
_NUMBERS_EVERY: Final = 15.0
"""Seconds for which the numbers of metrics hold."""

HALF_LIFE_ARGUMENT: Final = Argument(
    HALF_LIFE,
    "str",
    "0s",
    "Order queues by what they held over time and not by what they hold now: after this time use counts half. "
    "A duration as 168h; 0s: by what they hold now.",
)

MEAN_USE = Series(
    "volsched_queue_mean_use",
    "What the queue held on average, the past weighted by the half-life of usage.halfLife",
    ("queue", "resource"),
)
"""In cores, bytes and whole devices."""


def check_half_life(values: Mapping[str, Any]) -> Iterator[ArgumentProblem]:
    """Refuse what is no duration."""
    text = values[HALF_LIFE]
    if seconds_of(text) is None:
        yield ArgumentProblem(HALF_LIFE, f"must be a duration as 168h or 90m, not {text!r}")


def half_life_of(values: Mapping[str, Any]) -> float:
    """Return the half-life in seconds, 0 when use over time does not count."""
    return seconds_of(values.get(HALF_LIFE, HALF_LIFE_ARGUMENT.default)) or 0.0


@dataclass(slots=True)
class _QueuePastUse:
    """The past use of one queue: the weighted integral at a time (amounts x seconds), and its holdings since."""

    at: float
    used: dict[str, float] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)
    word_at: float = -math.inf


class PastUse(Observer):
    """Follows what queues hold. ``held`` states what a queue holds, ``levels`` in which queues a queue counts.

    Tell it of the time by ``settle`` when a session opens, before anything is tried, and when it has closed: what has
    changed in between counts from then on.
    """

    def __init__(
        self,
        cluster: Cluster,
        half_life: float,
        held: Callable[[QueueInfo], Mapping[str, int]],
        levels: Callable[[str], Iterable[str]] = lambda name: (name,),
    ) -> None:
        self._cluster = cluster
        self._half_life = half_life
        self._held = held
        self._levels = levels
        self._accounts: dict[str, _QueuePastUse] = {}
        self._changed: dict[str, None] = {}
        self._unreported: dict[str, None] = {}
        self._tree = -1
        self._now = 0.0
        self._numbers: tuple[float, Numbers] = (-math.inf, {})

    # -- what changes -------------------------------------------------------------------------------------------------

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Look at its queue again when the task began or ceased to hold something."""
        if task.job is not None and IS_ALLOCATED[before] != IS_ALLOCATED[task.status]:
            self._changed[task.job.queue] = None

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Look at all queues again when a job that holds something may be in another one."""
        if job.placed_count:
            self._tree = -1

    def settle(self, now: float) -> None:
        """Add up to ``now`` what queues held of which something changed."""
        self._now = max(self._now, now)
        for name in self._to_look_at():
            queue = self._cluster.queues.get(name)
            if queue is None:
                self._accounts.pop(name, None)
                continue
            account = self._accounts.get(name) or self._begin(queue)
            held = self._held(queue)
            if held != account.held:
                account.used = self._used(account, self._now)
                account.at, account.held = self._now, dict(held)
                self._unreported[name] = None

    def _to_look_at(self) -> Iterable[str]:
        if self._tree != self._cluster.generations.queue_tree:
            self._tree = self._cluster.generations.queue_tree
            self._changed = {}
            return [*self._cluster.queues, *(name for name in self._accounts if name not in self._cluster.queues)]
        changed, self._changed = self._changed, {}
        return dict.fromkeys(level for name in changed for level in self._levels(name))

    def _begin(self, queue: QueueInfo) -> _QueuePastUse:
        """Go on from what the queue's status states. What it holds now is taken to have been held since."""
        past = queue.past
        account = _QueuePastUse(self._now) if past is None else _QueuePastUse(min(past.at, self._now), dict(past.used))
        account.held = dict(self._held(queue)) if past is not None else {}
        self._accounts[queue.name] = account
        return account

    # -- answers ------------------------------------------------------------------------------------------------------

    def used(self, queue: str) -> Mapping[str, float]:
        """Return the weighted integral of a queue, as of the last session, in amounts times seconds."""
        account = self._accounts.get(queue)
        return self._used(account, self._now) if account is not None else {}

    def mean(self, queue: str) -> dict[str, float]:
        """Return what a queue held on average, the past weighted."""
        return {name: used * math.log(2) / self._half_life for name, used in self.used(queue).items()}

    def key(self, queue: QueueInfo, held: Mapping[str, int], totals: Mapping[str, int]) -> float:
        """Return the place of a queue by its largest part of any resource of the cluster. Smaller goes first.

        ``held`` is what it holds now, with what it was promised.
        """
        return place_over_time(self.used(queue.name), held, totals, queue.spec.weight)

    def sum_key(self, queue: str, held: Mapping[str, int], weight: int) -> float:
        """Return the order of a queue by the sum of all that is counted, if it is alike, as cards are."""
        used = self.used(queue)
        return sum(_with_present(used, held, name) for name in sorted({*used, *held})) / max(weight, _LEAST_WEIGHT)

    def _used(self, account: _QueuePastUse, now: float) -> dict[str, float]:
        rest = math.exp2(-max(0.0, now - account.at) / self._half_life)
        grown = (1.0 - rest) * self._half_life / math.log(2)
        used, held = account.used, account.held
        found = {name: used.get(name, 0.0) * rest + held.get(name, 0) * grown for name in (*used, *held)}
        return {name: value for name, value in found.items() if value >= _NOTHING}

    # -- what is written ---------------------------------------------------------------------------------------------

    def take_due(self) -> Iterator[str]:
        """Yield the queues about which a word is due, once each."""
        for name in list(self._unreported):
            account = self._accounts.get(name)
            if account is None or self._now - account.word_at >= WORD_EVERY:
                del self._unreported[name]
            if account is not None and self._now - account.word_at >= WORD_EVERY:
                account.word_at = self._now
                yield name

    def word(self, queue: str) -> QueuePast:
        """Return what a queue's status is to state."""
        return QueuePast(self._now, {name: float(f"{used:.6g}") for name, used in self.used(queue).items()})

    def numbers(self) -> Numbers:
        """Return the mean of each queue for metrics."""
        if self._now - self._numbers[0] >= _NUMBERS_EVERY:
            self._numbers = self._now, dict(self._means())
        return self._numbers[1]

    def _means(self) -> Iterator[tuple[tuple[str, str], float]]:
        for name in self._accounts:
            for resource, mean in self.mean(name).items():
                yield (name, resource), in_base_units(resource, mean)

    def table(self, key: Callable[[QueueInfo], Any]) -> QuotaTable:
        """Return use over time for people: the queues in their order by ``key``."""
        queues = [queue for queue in self._cluster.queues.values() if queue.name in self._accounts]
        rows = [row for place, queue in enumerate(sorted(queues, key=key), 1) for row in self._rows(place, queue)]
        return QuotaTable("usage", "Use over time", ("queue", "resource"), ("place", "weight", "now", "mean"), rows)

    def _rows(self, place: int, queue: QueueInfo) -> Iterator[QuotaRow]:
        now, mean = self._held(queue), self.mean(queue.name)
        for name in sorted({*now, *mean}):
            figures: dict[str, Value] = {
                "place": place,
                "weight": queue.spec.weight,
                "now": f"{in_base_units(name, now.get(name, 0)):.4g}",
                "mean": f"{in_base_units(name, mean.get(name, 0.0)):.4g}",
            }
            yield QuotaRow((queue.name, name), figures)


_LEAST_WEIGHT: Final = 1e-3
_NOTHING: Final = 1e-6
"""Amounts times seconds that are dropped, so that what was used once does not stay for ever."""


def place_over_time(
    used: Mapping[str, float], held: Mapping[str, int], totals: Mapping[str, int], weight: float
) -> float:
    """Return the place of who used something and holds something now: the largest part of a total, over a weight."""
    parts = (_with_present(used, held, name) / total for name, total in totals.items() if total)
    return max(parts, default=0.0) / max(weight, _LEAST_WEIGHT)


def _with_present(used: Mapping[str, float], held: Mapping[str, int], name: str) -> float:
    return used.get(name, 0.0) + PRESENT * held.get(name, 0)


class CountedOverTime(Rule, frozen=True):
    """Have what queues hold over time kept in their status (`status.usage`), from one session to the next."""

    past: PastUse


def order_queues(
    registrar: Registrar,
    plugin: str,
    past_use: Callable[[Cluster], PastUse] | None,
    order: QueueKeyFn | QueueOrder,
    past_order: Callable[[PastUse], QueueKeyFn | QueueOrder],
) -> None:
    """Order queues by what they hold, or with an account of use over time by what they held."""
    if past_use is None:
        registrar.register(order if isinstance(order, QueueOrder) else QueueOrder(order))
    else:
        past = registrar.account(f"{plugin}.past", past_use)
        order_over_time(registrar, past, past_order(past))


def order_over_time(registrar: Registrar, past: PastUse, order: QueueKeyFn | QueueOrder) -> None:
    """Order queues by a key that is made from their past, which is counted up to now, kept in statuses and shown."""
    rule = order if isinstance(order, QueueOrder) else QueueOrder(order)
    past.settle(registrar.session.now)
    counted: list[PastUse] = registrar.session.rules.of[CountedOverTime]
    if not counted:
        registrar.register(Report(metrics={MEAN_USE: lambda: _numbers(counted)}))
    registrar.register(rule, CountedOverTime(past), Report(table=partial(past.table, rule.key)))


def _numbers(counted: Sequence[PastUse]) -> Numbers:
    """Return the numbers of all plugins that count over time as those of one metric."""
    return {labels: number for past in counted for labels, number in past.numbers().items()}


if not TYPE_CHECKING:  # a type checker knows the present names alone
    __getattr__ = former(__name__, {"ARGUMENT": (":HALF_LIFE_ARGUMENT", "it is HALF_LIFE_ARGUMENT")})
