"""The answers of capacity-card: which job is admitted, which task its queue takes on, and on which nodes.

For every limit that holds for a queue (its own; in a hierarchy, its ancestors')::

    admission   held + reserved - elastic + wanted <= limit; lists of cards by sums, see ``matching``
    placing     held + requested <= limit; of a list any card will do that has that much left
    node        offers a card of the list that has that much left, so the node decides which card is charged
    charge      held <= limit, looked at again when it was made: whatever others score, no quota is exceeded

Equality passes; an amount of 0 is not looked at.

``CardRules`` is one class: all answers compare the same ledger with the same limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

import numpy as np

from plugins.capacity_card import refusals
from plugins.capacity_card.accounts import QueueAccount
from plugins.capacity_card.cards.matching import Unmet, first_unmet
from plugins.capacity_card.demands import CardDemands, QueueSums
from plugins.capacity_card.ledger import CardQuotaLedger
from plugins.capacity_card.quotas.limits import QueueLimit
from plugins.capacity_card.refusals import NAME, ExceededLimit
from plugins.capacity_card.requests.charges import Charge, ChargedCard
from plugins.capacity_card.requests.minimum import RequestTotal
from plugins.capacity_card.requests.requests import CardRequest, Names
from volsched.plugin import (
    CPU,
    MEMORY,
    NO_LIMIT,
    PERMIT,
    Allocatable,
    Ballot,
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
    Vote,
    never,
)
from volsched.plugin.quota import Amounts, At, QueueTree, exceeded, not_a_leaf

_MOST_KNOWN: Final = 10_000


class CardRules:
    """Reads ledger and demands; keeps nothing but counts of refusals and verdicts that may be given again."""

    def __init__(self, cluster: Cluster, ledger: CardQuotaLedger, demands: CardDemands) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._accounts = ledger.accounts
        self._demands = demands
        self._tree = QueueTree(cluster)
        self._known: dict[tuple[str, int], tuple[tuple[int, ...], Headroom]] = {}
        self._no_card: dict[Names, Verdict] = {}
        self._no_quota: dict[str, Verdict] = {}
        self._open_at: tuple[object, ...] = ()
        self._open: Names = ()
        self.refused: Counter[tuple[str, ...]] = Counter()
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

    # -- admission ----------------------------------------------------------------------------------------------------

    def vote(self, job: JobInfo) -> Ballot:
        """Admit a job whose minimum fits beside what is held and reserved."""
        if self._has_children(job.queue):
            return Ballot(Vote.REJECT, not_a_leaf(NAME, job.queue, Step.ENQUEUE))
        wanted = self._demands.wanted(job)
        if wanted.is_empty:
            return PERMIT
        for limit in self._ledger.limits.chain(job.queue):
            refusal = self._not_admitted(limit, wanted)
            if refusal is not None:
                if refusal != job.refusal:
                    self.refused[job.queue, refusal.reason] += 1
                return Ballot(Vote.REJECT, refusal)
        return PERMIT

    def _not_admitted(self, limit: QueueLimit, wanted: RequestTotal) -> Verdict | None:
        account, sums = self._accounts.account(limit.queue), self._demands.of(limit.queue)
        committed = {
            CPU: max(0, account.cpu + sums.reserved_cpu - sums.elastic_cpu),
            MEMORY: max(0, account.memory + sums.reserved_memory - sums.elastic_memory),
        }
        refusal = _short_of_resources(limit, _resources(wanted), committed, Step.ENQUEUE)
        return refusal or self._short_of_lists(limit, account, sums, wanted)

    def _short_of_lists(
        self, limit: QueueLimit, account: QueueAccount, sums: QueueSums, wanted: RequestTotal
    ) -> Verdict | None:
        if not wanted.cards:
            return None
        cards = {card for names in (*wanted.cards, *sums.reserved) for card in names}
        room = {card: limit.card(card) - account.cards.get(card, 0) for card in cards}
        unmet = first_unmet(room, sorted(sums.reserved.items()), sorted(wanted.cards.items()))
        return _unmet(limit, account, unmet) if unmet is not None else None

    # -- placing ------------------------------------------------------------------------------------------------------

    def headroom(self, queue: QueueInfo, template: PodTemplate) -> Headroom:
        """Return how many such tasks a queue may take on, of all cards of their list together, and why not even one.

        At once so many as are left of whichever of the cards that are open: the same stay open. A refusal is kept for
        tasks that are alike while no account has moved.
        """
        name, ledger = queue.name, self._ledger
        if self._has_children(name):
            return Headroom(0, not_a_leaf(NAME, name, Step.ALLOCATABLE))
        limits = ledger.limits
        chain = limits.chain(name)
        state = (
            limits.version,
            ledger.catalogue.version,
            *[self._accounts.account(limit.queue).version for limit in chain],
        )
        known = self._known.get((name, template.id))
        if known is not None and known[0] == state:
            return known[1]
        count, at_once = self._room(chain, template)
        if count > 0:
            return Headroom(count, None, at_once)
        refused = Headroom(count, self._refusal(name, chain, template))
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[name, template.id] = state, refused
        return refused

    def _room(self, chain: Sequence[QueueLimit], template: PodTemplate) -> tuple[int, int]:
        """How many tasks there is room for, and how many whichever card each gets."""
        asked, charge = self._ledger.charges.card_request(template), self._ledger.charges.of(template)
        if isinstance(asked, FieldError):
            return 0, 0
        most = self._room_of_cpu_and_memory(chain, charge) if charge.cpu or charge.memory else NO_LIMIT
        if asked is None:
            return most, most
        left, amount = self._accounts.left, asked.amount
        cards = [count for name in asked.candidates if (count := left(chain, name) // amount) > 0]
        return (min(most, sum(cards)), min(most, *cards)) if cards else (0, 0)

    def count_refusal(self, task: TaskInfo, verdict: Verdict) -> None:
        """Count a refusal when it becomes the reason why a pod waits."""
        if verdict != task.refusal and task.job is not None:
            self.refused[task.job.queue, verdict.reason] += 1

    def _has_children(self, queue: str) -> bool:
        """Whether in a hierarchy a queue has others below it, and so takes no work itself."""
        return self._ledger.limits.is_hierarchical and self._tree.is_parent(queue)

    def _room_of_cpu_and_memory(self, chain: Sequence[QueueLimit], charge: Charge) -> int:
        count = NO_LIMIT
        for limit in chain:
            account = self._accounts.account(limit.queue)
            if charge.cpu:
                count = min(count, (limit.cpu - account.cpu) // charge.cpu)
            if charge.memory:
                count = min(count, (limit.memory - account.memory) // charge.memory)
        return count

    def _refusal(self, queue: str, chain: Sequence[QueueLimit], template: PodTemplate) -> Verdict:
        charges = self._ledger.charges
        asked, charge = charges.card_request(template), charges.of(template)
        if isinstance(asked, FieldError):
            return refusals.unreadable_request(queue, asked)
        for limit in chain:
            held = _resources(self._accounts.account(limit.queue))
            verdict = _short_of_resources(limit, _resources(charge), held, Step.ALLOCATABLE)
            if verdict is not None:
                return verdict
        # with room for the rest it is cards that are short
        return self._short_of_all(chain, cast("CardRequest", asked))

    def _short_of_all(self, chain: Sequence[QueueLimit], asked: CardRequest) -> Verdict:
        """Every card of a list is short; the last one's numbers stand in the sentence (as in Volcano's design)."""
        details: list[ExceededLimit] = []
        last = chain[0]
        for name in asked.candidates:
            last = self._accounts.blocking(chain, name, asked.amount) or last
            held = self._accounts.account(last.queue).cards.get(name, 0)
            details.append(ExceededLimit(name, asked.amount, held, last.card(name)))
        return refusals.short_of_cards(last, asked.names, details[-1], details, Step.ALLOCATABLE)

    def may_preempt(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """Whether a queue would stay within its own limit with all of these tasks.

        What queues above it may hold is looked at once victims are gone: they may be below the same ones.
        """
        charges = self._ledger.charges
        cpu = sum(charges.of(task.template).cpu for task in tasks)
        memory = sum(charges.of(task.template).memory for task in tasks)
        all_asked = [charges.card_request(task.template) for task in tasks]
        if any(isinstance(asked, FieldError) for asked in all_asked):
            return False
        lists = [(asked.names, asked.amount) for asked in all_asked if isinstance(asked, CardRequest)]
        return all(self._takes(limit, cpu, memory, lists) for limit in self._ledger.limits.chain(queue.name)[:1])

    def _takes(self, limit: QueueLimit, cpu: int, memory: int, lists: Sequence[tuple[Names, int]]) -> bool:
        account = self._accounts.account(limit.queue)
        if (cpu and account.cpu + cpu > limit.cpu) or (memory and account.memory + memory > limit.memory):
            return False
        room = {card: limit.card(card) - account.cards.get(card, 0) for names, _ in lists for card in names}
        return first_unmet(room, (), lists) is None

    # -- nodes --------------------------------------------------------------------------------------------------------

    def offers(self, template: PodTemplate, node: NodePropertiesView) -> Verdict | None:
        """Refuse a node that does not offer a task's card."""
        if self._ledger.offered(template, node) is not None:
            return None
        return self._without_card(template)

    def offering_rows(self, template: PodTemplate, nodes: NodeTable) -> Mask:
        """``offers`` for many nodes."""
        return self._rows_of(template, lambda charged: charged is not None, nodes)

    def has_quota_left(self, task: TaskInfo, node: NodePropertiesView) -> Verdict | None:
        """Refuse a node whose card the task's queue may not hold that much more of."""
        charged = self._ledger.offered(task.template, node)
        if charged is None or charged.card in self.open_cards(task.template, task.queue):
            return None
        return self._without_quota(task.queue)

    def quota_rows(self, task: TaskInfo, nodes: NodeTable) -> Mask:
        """``has_quota_left`` for many nodes."""
        left = self.open_cards(task.template, task.queue)
        return self._rows_of(task.template, lambda charged: charged is None or charged.card in left, nodes)

    def _rows_of(self, template: PodTemplate, passes: Callable[[ChargedCard | None], bool], nodes: NodeTable) -> Mask:
        by_kind = np.fromiter(map(passes, self._ledger.offered_by_kinds(template)), np.bool_)
        found: Mask = by_kind.take(self._ledger.catalogue.kind_rows().take(nodes.rows))
        return found

    def open_cards(self, template: PodTemplate, queue: str) -> Names:
        """The cards of a template's list of which a queue has as much left as one of its pods asks for.

        Answers about nodes depend on nothing else of the queue, so pods of all queues share them by this.
        """
        ledger = self._ledger
        state = (template, queue, self._accounts.version, ledger.limits.version, ledger.catalogue.version)
        if state != self._open_at:  # asked for row after row, for the same pod
            self._open_at, self._open = state, self._look_up_open(template, queue)
        return self._open

    def _look_up_open(self, template: PodTemplate, queue: str) -> Names:
        asked = self._ledger.charges.card_request(template)
        if not isinstance(asked, CardRequest):
            return ()
        chain = self._ledger.limits.chain(queue)
        return tuple(name for name in asked.candidates if self._accounts.blocking(chain, name, asked.amount) is None)

    def key(self, template: PodTemplate, queue: QueueInfo) -> Names | None:
        """What answers about a pod's nodes are shared by; None for a pod without a list of cards."""
        return self.open_cards(template, queue.name) if self.has_list(template) else None

    def version(self, _: TaskInfo) -> int:
        """Changes when cards become other resources."""
        return self._ledger.catalogue.version

    def has_list(self, template: PodTemplate) -> bool:
        """Whether pods of a template name several cards."""
        return len(self._ledger.charges.of(template).names) > 1

    def names_cards(self, template: PodTemplate) -> bool:
        """Whether pods of a template name any card."""
        return bool(self._ledger.charges.of(template).names)

    def _without_card(self, template: PodTemplate) -> Verdict:
        names = self._ledger.charges.of(template).names
        found = self._no_card.get(names)
        if found is None:
            text = f"node(s) didn't have card {'|'.join(names)}"
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
        """Look at the charge that was just made; what is beyond a limit is taken back."""
        charge, queue = self._ledger.charges.of(task.template), task.queue
        if task.status not in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED):
            return None
        charged = self._ledger.charged(task)
        if charged is not None and not charged.is_offered:
            return self._without_card(task.template)
        for limit in self._ledger.limits.chain(queue):
            refusal = _overcharged(limit, self._accounts.account(limit.queue), charge, charged)
            if refusal is not None:
                return refusal
        return None

    def deallocate(self, task: TaskInfo) -> None:
        """Nothing to do: the ledger follows moves."""


def _overcharged(
    limit: QueueLimit, account: QueueAccount, charge: Charge, charged: ChargedCard | None
) -> Verdict | None:
    """Return which amount is above a limit now that a task is charged."""
    if (charge.cpu and account.cpu > limit.cpu) or (charge.memory and account.memory > limit.memory):
        before = {CPU: account.cpu - charge.cpu, MEMORY: account.memory - charge.memory}
        return _short_of_resources(limit, _resources(charge), before, Step.ALLOCATABLE)
    if charged is None or account.cards.get(charged.card, 0) <= limit.card(charged.card):
        return None
    short = ExceededLimit(
        charged.card, charged.amount, account.cards.get(charged.card, 0) - charged.amount, limit.card(charged.card)
    )
    return refusals.short_of_cards(limit, (charged.card,), short, [short], Step.ALLOCATABLE)


def _resources(of: QueueAccount | Charge | RequestTotal | QueueLimit) -> dict[str, int]:
    return {CPU: of.cpu, MEMORY: of.memory}


def _short_of_resources(limit: QueueLimit, request: Amounts, used: Amounts, step: At) -> Verdict | None:
    """Return that a queue states nothing at all, or that its cpu, or else its memory, does not suffice."""
    if limit.is_empty:
        return refusals.empty_capability(limit, step)
    short = exceeded(request, used, _resources(limit).get)
    return refusals.short_of_resource(limit, ExceededLimit(*short[0]), step) if short else None


def _unmet(limit: QueueLimit, account: QueueAccount, unmet: Unmet) -> Verdict:
    held = sum(account.cards.get(card, 0) for card in unmet.cards) + unmet.asked - unmet.amount
    total = ExceededLimit("|".join(unmet.cards), unmet.amount, held, sum(limit.card(card) for card in unmet.cards))
    return refusals.short_of_cards(limit, unmet.cards, total, list(_each(limit, account, unmet, total)), Step.ENQUEUE)


def _each(limit: QueueLimit, account: QueueAccount, unmet: Unmet, total: ExceededLimit) -> Iterator[ExceededLimit]:
    yield total
    if len(unmet.cards) > 1:
        for card in unmet.cards:
            yield ExceededLimit(card, 0, account.cards.get(card, 0), limit.card(card))
