"""The answers of capacity-card: which job is admitted, which task its queue takes on, and on which nodes.

Cpu and memory are judged by ``volsched.quota.checks``. For every limit that holds for a queue (its own; in a hierarchy,
its ancestors')::

    admission   lists of cards by sums of what is held, reserved and wanted, see ``matching``
    placing     of a list any card will do of which so much is left
    node        offers a card of the list that has that much left, so the node decides which card is charged
    charge      held <= limit, looked at again when it was made: whatever others score, no quota is exceeded

Equality passes; an amount of 0 is not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, cast

import numpy as np

from plugins.capacity_card import refusals
from plugins.capacity_card.cards.matching import Unmet, first_unmet
from plugins.capacity_card.demands import CardDemands
from plugins.capacity_card.quotas.limits import QueueLimit
from plugins.capacity_card.refusals import NAME
from plugins.capacity_card.requests.charges import ChargedCard, amounts_of
from plugins.capacity_card.requests.requests import (
    Amounts,
    CardRequest,
    Dimension,
    Names,
    lists_of,
    resources_of,
    shown,
)
from plugins.capacity_card.usage import CardUsage
from volsched.plugin import (
    PERMIT,
    Allocatable,
    Ballot,
    Bounded,
    Cluster,
    EventHandler,
    FieldError,
    Headroom,
    JobEnqueueable,
    JobInfo,
    Mask,
    NodePropertiesView,
    NodeTable,
    PodTemplate,
    Predicate,
    Preemptive,
    QueueInfo,
    Rule,
    Scope,
    Step,
    TaskInfo,
    TaskStatus,
    Verdict,
    never,
)
from volsched.plugin.quota import At, Exceeded, QueueQuotas, QueueTree, committed, total_of

_MOST_KNOWN: Final = 10_000
_MOST_LISTS: Final = 512
"""Lists of cards, which authors of pods write, with the verdicts about them."""


class CardRules(QueueQuotas[QueueLimit, Dimension, int]):
    """Reads usage and demands. Keeps nothing but counts of refusals and verdicts that may be given again."""

    name: ClassVar[str] = NAME
    without_minimum: Ballot = PERMIT

    def __init__(self, cluster: Cluster, usage: CardUsage, demands: CardDemands) -> None:
        self._cluster = cluster
        self._usage = usage
        self._held = usage.held.with_below
        self._demands = demands
        self._tree = QueueTree(cluster)
        self._known: dict[tuple[str, int], tuple[tuple[int, ...], Headroom]] = {}
        self._no_card: Bounded[Names, Verdict] = Bounded(_MOST_LISTS)
        self._no_quota: dict[str, Verdict] = {}
        self._open_at: tuple[object, ...] = ()
        self._open: Names = ()
        self.refusal_counts: Counter[tuple[str, ...]] = Counter()
        """Refusals by queue and reason, each counted when it becomes the reason of a pod or PodGroup."""

    def registered(self) -> Iterator[Rule]:
        """Return what the plugin registers of them."""
        yield JobEnqueueable(self.vote, always=True)
        yield Allocatable(headroom=self.headroom, refused=self.count_refusal)
        yield Preemptive(self.may_preempt)
        yield Predicate(self.offers, vector=self.offering_rows, applies_to=self.names_cards)
        yield Predicate(
            self.has_quota_left,
            vector=self.quota_rows,
            applies_to=self.has_list,
            key=self.key,
            version=self.version,
            for_each_pod=never,
        )
        yield EventHandler(self, for_each_pod=never)

    # -- amounts ------------------------------------------------------------------------------------------------------

    def is_parent(self, queue: str) -> bool:
        """True if in a hierarchy a queue has others below it, and so takes no work itself."""
        return self._usage.limits.is_hierarchical and self._tree.is_parent(queue)

    def levels(self, queue: str) -> Sequence[QueueLimit]:
        """Return the limits that hold for a queue, its own first."""
        return self._usage.limits.chain(queue)

    def limit(self, level: QueueLimit, dimension: Dimension) -> int:
        """Return how much a queue may hold."""
        return level.of(dimension)

    bound = limit

    def allocated(self, level: QueueLimit) -> Amounts:
        """Return what a queue, in a hierarchy with those below it, holds."""
        return self._held.of(level.queue)

    def committed(self, level: QueueLimit, minimum: Iterable[Dimension]) -> Amounts:
        """Return what a queue holds and has reserved of cpu and memory, beyond what its jobs could do without."""
        return committed(self.allocated(level), self._demands.of(level.queue), minimum)

    def minimum(self, job: JobInfo, level: QueueLimit) -> Amounts | None:
        """Return what a job still wants of its minimum, or None for nothing."""
        return self._demands.wanted(job) or None

    def request(self, pod: PodTemplate, level: QueueLimit) -> Amounts:
        """Return what a pod counts for of cpu and memory. Cards of a list are looked at together."""
        return self._usage.charges.of(pod).resources

    def refused(self, queue: str, level: QueueLimit, short: Sequence[Exceeded], step: At) -> Verdict:
        """Return the refusal of a queue without quota, or of the first short amount: cpu, memory, a card."""
        if level.is_empty:
            return refusals.empty_capability(level, step)
        if isinstance(short[0].dimension, str):
            return refusals.short_of_resource(level, short[0], step)
        return refusals.short_of_cards(level, short[0], short[:1], step)

    # -- admission ----------------------------------------------------------------------------------------------------

    def vote(self, job: JobInfo) -> Ballot:
        """Admit a job whose minimum fits beside what is held and reserved. Count why others are not admitted."""
        ballot = super().vote(job)
        if ballot.verdict is not None and ballot.verdict != job.refusal and not self.is_parent(job.queue):
            self.refusal_counts[job.queue, ballot.verdict.reason] += 1
        return ballot

    def not_admitted(self, queue: str, level: QueueLimit, minimum: Amounts) -> Verdict | None:
        """Return why a minimum does not fit into a queue: cpu, memory, then lists of cards."""
        if level.is_empty:
            return refusals.empty_capability(level, Step.ENQUEUE)
        refusal = super().not_admitted(queue, level, resources_of(minimum))
        return refusal or self._short_of_lists(level, lists_of(minimum))

    def _short_of_lists(self, level: QueueLimit, wanted: Mapping[Names, int]) -> Verdict | None:
        if not wanted:
            return None
        reserved = lists_of(self._demands.of(level.queue).reserved)
        unmet = first_unmet(self._left(level, (*wanted, *reserved)), sorted(reserved.items()), sorted(wanted.items()))
        return self._unmet(level, unmet) if unmet is not None else None

    def _left(self, level: QueueLimit, lists: Iterable[Names]) -> dict[str, int]:
        """Return how much is left to a queue of each card of some lists; below zero where its limit is exceeded."""
        held, cards = self.allocated(level), dict.fromkeys((card,) for names in lists for card in names)
        return {card[0]: level.of(card) - held.get(card, 0) for card in cards}

    def _unmet(self, level: QueueLimit, unmet: Unmet) -> Verdict:
        held, cards = self.allocated(level), [(card,) for card in unmet.cards]
        used = sum(held.get(card, 0) for card in cards) + unmet.asked - unmet.amount
        total = Exceeded(unmet.cards, unmet.amount, used, sum(map(level.of, cards)))
        each = [Exceeded(card, 0, held.get(card, 0), level.of(card)) for card in cards if len(cards) > 1]
        return refusals.short_of_cards(level, total, [total, *each], Step.ENQUEUE)

    # -- placing ------------------------------------------------------------------------------------------------------

    def headroom(self, queue: QueueInfo, template: PodTemplate) -> Headroom:
        """Return how many tasks of a template a queue may take, with any cards of their list, or why none.

        At once so many as are left of whichever of the cards that are open: the same stay open. A refusal is kept for
        tasks that are alike while no account has moved.
        """
        name, usage = queue.name, self._usage
        if self.is_parent(name):
            return Headroom(0, self.closed(name, Step.ALLOCATABLE))
        levels, version = self.levels(name), self._held.version_of
        state = (usage.limits.version, usage.catalogue.version, *[version(level.queue) for level in levels])
        known = self._known.get((name, template.id))
        if known is not None and known[0] == state:
            return known[1]
        count, at_once = self._room(levels, template)
        if count > 0:
            return Headroom(count, None, at_once)
        refused = Headroom(count, self.refusal(queue, template))
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[name, template.id] = state, refused
        return refused

    def _room(self, levels: Sequence[QueueLimit], template: PodTemplate) -> tuple[int, int]:
        """Return how many tasks there is room for, and how many whichever card each gets."""
        asked = self._usage.charges.card_request(template)
        if isinstance(asked, FieldError):
            return 0, 0
        most = self.room(levels, template)
        if asked is None:
            return most, most
        cards = [count for name in asked.candidates if (count := self._rest(levels, name) // asked.amount) > 0]
        return (min(most, sum(cards)), min(most, *cards)) if cards else (0, 0)

    def _rest(self, levels: Sequence[QueueLimit], card: str) -> int:
        """Return how much more of a card all limits allow, in milli-cards; below zero when one is exceeded."""
        held, dimension = self._held.of, (card,)
        return min([level.of(dimension) - held(level.queue).get(dimension, 0) for level in levels])

    def count_refusal(self, task: TaskInfo, verdict: Verdict) -> None:
        """Count a refusal when it becomes the reason why a pod waits."""
        if verdict != task.refusal and task.job is not None:
            self.refusal_counts[task.job.queue, verdict.reason] += 1

    def refusal(self, queue: QueueInfo, pod: PodTemplate) -> Verdict:
        """Return why a queue without room does not take on a pod: a request that cannot be read, or what is short."""
        asked, levels = self._usage.charges.card_request(pod), self.levels(queue.name)
        if isinstance(asked, FieldError):
            return refusals.unreadable_request(queue.name, asked)
        if levels[0].is_empty:
            return refusals.empty_capability(levels[0], Step.ALLOCATABLE)
        # with room for the rest it is cards that are short
        return super().refusal(queue, pod) or self._short_of_all(levels, cast("CardRequest", asked))

    def _short_of_all(self, levels: Sequence[QueueLimit], asked: CardRequest) -> Verdict:
        """Every card of a list is short; the last one's numbers stand in the sentence (as in Volcano's design)."""
        details: list[Exceeded] = []
        last = levels[0]
        for name in asked.candidates:
            last = self._usage.blocking(levels, name, asked.amount) or last
            held = self.allocated(last).get((name,), 0)
            details.append(Exceeded((name,), asked.amount, held, last.of((name,))))
        return refusals.short_of_cards(last, details[-1]._replace(dimension=asked.names), details, Step.ALLOCATABLE)

    def may_preempt(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """True if a queue would stay within its own limit with all of these tasks.

        What queues above it may hold is looked at once victims are gone: they may be below the same ones.
        """
        charges = self._usage.charges
        request = total_of(charges.of(task.template).resources for task in tasks)
        all_asked = [charges.card_request(task.template) for task in tasks]
        if any(isinstance(asked, FieldError) for asked in all_asked):
            return False
        lists = [(asked.names, asked.amount) for asked in all_asked if isinstance(asked, CardRequest)]
        return all(
            not self.beyond(level, request) and first_unmet(self._left(level, dict(lists)), (), lists) is None
            for level in self.levels(queue.name)[:1]
        )

    # -- nodes --------------------------------------------------------------------------------------------------------

    def offers(self, template: PodTemplate, node: NodePropertiesView) -> Verdict | None:
        """Refuse a node that does not offer a task's card."""
        if self._usage.offered(template, node) is not None:
            return None
        return self._without_card(template)

    def offering_rows(self, template: PodTemplate, nodes: NodeTable) -> Mask:
        """``offers`` for many nodes."""
        return self._rows_of(template, lambda charged: charged is not None, nodes)

    def has_quota_left(self, task: TaskInfo, node: NodePropertiesView) -> Verdict | None:
        """Refuse a node whose card the task's queue may not hold that much more of."""
        charged = self._usage.offered(task.template, node)
        if charged is None or charged.card in self.open_cards(task.template, task.queue):
            return None
        return self._without_quota(task.queue)

    def quota_rows(self, task: TaskInfo, nodes: NodeTable) -> Mask:
        """``has_quota_left`` for many nodes."""
        left = self.open_cards(task.template, task.queue)
        return self._rows_of(task.template, lambda charged: charged is None or charged.card in left, nodes)

    def _rows_of(self, template: PodTemplate, passes: Callable[[ChargedCard | None], bool], nodes: NodeTable) -> Mask:
        by_kind = np.fromiter(map(passes, self._usage.offered_by_kinds(template)), np.bool_)
        found: Mask = by_kind.take(self._usage.catalogue.kind_rows().take(nodes.rows))
        return found

    def open_cards(self, template: PodTemplate, queue: str) -> Names:
        """Return the cards of a template's list with enough quota left for one pod.

        Answers about nodes depend on nothing else of the queue, so pods of all queues share them by this.
        """
        usage = self._usage
        state = (template, queue, self._held.version, usage.limits.version, usage.catalogue.version)
        if state != self._open_at:  # asked for row after row, for the same pod
            self._open_at, self._open = state, self._look_up_open(template, queue)
        return self._open

    def _look_up_open(self, template: PodTemplate, queue: str) -> Names:
        asked = self._usage.charges.card_request(template)
        if not isinstance(asked, CardRequest):
            return ()
        levels, blocking = self.levels(queue), self._usage.blocking
        return tuple(name for name in asked.candidates if blocking(levels, name, asked.amount) is None)

    def key(self, template: PodTemplate, queue: QueueInfo) -> Names | None:
        """Return what answers about a pod's nodes are shared by, or None for a pod without a list of cards."""
        return self.open_cards(template, queue.name) if self.has_list(template) else None

    def version(self, _: TaskInfo) -> int:
        """Changes when cards become other resources."""
        return self._usage.catalogue.version

    def has_list(self, template: PodTemplate) -> bool:
        """True if pods of a template name several cards."""
        return len(self._usage.charges.of(template).names) > 1

    def names_cards(self, template: PodTemplate) -> bool:
        """True if pods of a template name any card."""
        return bool(self._usage.charges.of(template).names)

    def _without_card(self, template: PodTemplate) -> Verdict:
        names = self._usage.charges.of(template).names
        found = self._no_card.recall(names)
        if found is None:
            text = f"node(s) didn't have card {shown(names)}"
            found = Verdict(Step.PREDICATE, NAME, Scope.NODE, "FailedScheduling", text, resolvable=False)
            self._no_card[names] = found
        return found

    def _without_quota(self, queue: str) -> Verdict:
        found = self._no_quota.get(queue)
        if found is None:
            text = f'node(s) had a card of which queue "{queue}" has no quota left'
            found = self._no_quota[queue] = Verdict(Step.PREDICATE, NAME, Scope.NODE, "FailedScheduling", text)
        return found

    # -- charges ------------------------------------------------------------------------------------------------------

    def allocate(self, task: TaskInfo) -> Verdict | None:
        """Look at the charge that was just made. What is beyond a limit is taken back."""
        if task.status not in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED):
            return None
        charged = self._usage.charged(task)
        if charged is not None and not charged.is_offered:
            return self._without_card(task.template)
        charge = amounts_of(self._usage.charges.of(task.template), charged)
        for level in self.levels(task.queue):
            refusal = self.overcharged(task.queue, level, charge)
            if refusal is not None:
                return refusal
        return None
