"""What plugins report: the rules that carry it, and the types of their parts. `Session.reported` reads it.

Metrics, `volsched queue`, `cards`, `explain`, `simulate`, statuses of Queues and the page read it; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, TypeAlias

from volsched.framework.quota_report import Consumer, QuotaTable, Suggestion, Usage
from volsched.framework.rules import Rule
from volsched.model.cards.names import CardNameFn
from volsched.model.job import JobInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.values.series import Numbers, Series
from volsched.model.verdict import Verdict


@dataclass(frozen=True, slots=True)
class QueueAmounts:
    """A queue in the terms of a quota plugin: what its own jobs hold and have reserved, and what it may hold.

    Amounts by resource, or by what else the plugin counts (a card's name), in the resource's unit, extended resources
    in thousandths. Queues below it are left out.
    """

    allocated: Mapping[str, int]
    inqueue: Mapping[str, int]
    capability: Mapping[str, int]
    beside: bool = False
    """These amounts are shown beside those of resources, and not in their place."""


QueueAmountsFn: TypeAlias = Callable[[QueueInfo], QueueAmounts]
"""What a queue holds in a quota plugin's own terms, to be shown. Of several plugins all amounts are shown;
without any, the resources that placed pods request."""


QueueUsageFn: TypeAlias = Callable[[], Usage]
"""What all queues may hold, hold and have left, for people; called when somebody asks. Of several the first counts."""
QuotaTableFn: TypeAlias = Callable[[], QuotaTable]
"""Quotas of another kind as a table for people; called when somebody asks."""
ConsumersFn: TypeAlias = Callable[[JobInfo, Verdict], Iterable[Consumer]]
"""Who holds what a job waits for that this plugin refused; called when somebody asks, after a session."""
SuggestionsFn: TypeAlias = Callable[[JobInfo], Iterable[Suggestion]]
"""What could be changed in the plugin's terms so that a job starts; called when somebody asks, after a session."""
SeriesFn: TypeAlias = Callable[[], Numbers]
"""The present numbers of a series, by label values. Called at the end of every session, after what was only held is
undone: give the same mapping again while nothing has changed, and never change one that was given. A combination of
labels that is left out disappears."""


class QueueHoldings(Protocol):
    """What placed pods hold in a plugin's own terms, for `status.allocated` of Queues.

    Pods stand allocated there (``model.status.IS_ALLOCATED``): promised room is not held yet.
    """

    def take_changed(self) -> Iterable[str]:
        """Return the names of queues that may hold something else than when this was last called."""

    def of(self, queue: str) -> Mapping[str, int]:
        """Return what a queue's own pods hold, in thousandths, by names that are no resource's; no zeros."""


class Report(Rule, frozen=True):
    """Report what a plugin counts: metrics, tables, cards, quotas. It decides nothing, and every field is optional.

    ``metrics``: numbers beside the scheduler's metrics. ``table``: quotas of any kind as a table. ``usage``: what all
    queues may hold and hold by resource or by card; of several plugins the first counts. ``amounts``: what one queue
    holds in the plugin's own terms. ``allocated``: what `status.allocated` of Queues reports of these.
    ``card_name``: what a node's cards are called, beside those that have a standard label; of several plugins the
    first counts. ``shared_cards``: resources in which containers share cards, and what people call each. ``consumers``:
    who holds what a job waits for that this plugin refused. ``suggestions``: changes with which a job might start,
    which are tried before they are shown.
    """

    is_named: ClassVar[bool] = True
    metrics: Mapping[Series, SeriesFn] = {}
    table: QuotaTableFn | None = None
    usage: QueueUsageFn | None = None
    amounts: QueueAmountsFn | None = None
    allocated: QueueHoldings | None = None
    card_name: CardNameFn | None = None
    shared_cards: Mapping[str, str] = {}
    consumers: ConsumersFn | None = None
    suggestions: SuggestionsFn | None = None

    def callback(self) -> Self:
        """Return the rule: each reader looks at a part of it."""
        return self
