"""The reports of plugins: the rule that carries them, and the types of their parts.

`Session.reported` reads them for metrics, `volsched queue`, `cards`, `explain`, `simulate`, statuses of Queues and the
page. A report decides nothing.
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
    """A queue in the terms of a quota plugin: allocated, reserved and limit of its own jobs.

    Amounts by resource, or by another dimension of the plugin (a card's name), in the resource's unit, extended
    resources in thousandths. Queues below it are left out.
    """

    allocated: Mapping[str, int]
    inqueue: Mapping[str, int]
    capability: Mapping[str, int]
    beside: bool = False
    """These amounts are shown beside those of resources, and not in their place."""


QueueAmountsFn: TypeAlias = Callable[[QueueInfo], QueueAmounts]
"""Return the allocated amounts of a queue in a quota plugin's own terms, for display.

The amounts of all plugins are shown; without any plugin, the resources that placed pods request.
"""


QueueUsageFn: TypeAlias = Callable[[], Usage]
"""Return usage, limits and free amounts of all queues, for display. Called on request; the first plugin counts."""
QuotaTableFn: TypeAlias = Callable[[], QuotaTable]
"""Return quotas of another kind as a table for display. Called on request."""
ConsumersFn: TypeAlias = Callable[[JobInfo, Verdict], Iterable[Consumer]]
"""Return the consumers of the amounts that a refused job waits for. Called on request, after a session."""
SuggestionsFn: TypeAlias = Callable[[JobInfo], Iterable[Suggestion]]
"""Return changes in the plugin's terms with which a job might start. Called on request, after a session."""
SeriesFn: TypeAlias = Callable[[], Numbers]
"""The present numbers of a series, by label values. Called at the end of every session, after what was only held is
undone: give the same mapping again while nothing has changed, and never change one that was given. A combination of
labels that is left out disappears."""


FreeCardsFn: TypeAlias = Callable[[], Mapping[str, float]]
"""Return the part of each node's free cards that is in a state, above 0 and at most 1, by node. Called on request."""


class QueueAllocation(Protocol):
    """The amounts of placed pods in a plugin's own terms, for `status.allocated` of Queues.

    Only allocated pods count (``model.status.IS_ALLOCATED``): pipelined pods do not.
    """

    def take_changed(self) -> Iterable[str]:
        """Return the names of queues that may hold something else than when this was last called."""

    def of(self, queue: str) -> Mapping[str, int]:
        """Return the used amounts of a queue's own pods, in thousandths, by names that are no resource's; no zeros."""


class Report(Rule, frozen=True):
    """The report of a plugin: metrics, tables, cards, quotas. It decides nothing, and every field is optional.

    * ``metrics``: numbers beside the scheduler's metrics.
    * ``table``: quotas of any kind as a table.
    * ``usage``: used amounts and limits of all queues by resource or card; the first plugin counts.
    * ``amounts``: used amounts of one queue in the plugin's own terms.
    * ``allocated``: the part of these for `status.allocated` of Queues.
    * ``card_name``: the name of a node's cards, beside cards with a standard label; the first plugin counts.
    * ``shared_cards``: resources in which containers share cards, with their display names.
    * ``free_cards``: free cards that not every pod can use, by state: ``IS_STRANDED`` or ``IS_PROMISED``.
    * ``consumers``: the jobs that hold the amounts that a refused job waits for.
    * ``suggestions``: changes with which a job might start; they are tried before they are shown.
    """

    is_named: ClassVar[bool] = True
    metrics: Mapping[Series, SeriesFn] = {}
    table: QuotaTableFn | None = None
    usage: QueueUsageFn | None = None
    amounts: QueueAmountsFn | None = None
    allocated: QueueAllocation | None = None
    card_name: CardNameFn | None = None
    shared_cards: Mapping[str, str] = {}
    free_cards: Mapping[str, FreeCardsFn] = {}
    consumers: ConsumersFn | None = None
    suggestions: SuggestionsFn | None = None

    def callback(self) -> Self:
        """Return the rule itself: readers ask for its parts."""
        return self
