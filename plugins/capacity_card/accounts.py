"""Sums of cpu, memory and cards: what each job holds, each queue, and in a hierarchy each subtree.

The three change together with every charge. Which moves of tasks are charged, and for which card, is the ledger's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from plugins.capacity_card.quotas.limits import QueueLimit, QueueLimits
from plugins.capacity_card.requests.charges import Charge, ChargedCard
from volsched.plugin import JobInfo, accumulate

K = TypeVar("K")
Placed: TypeAlias = tuple[str, str]
"""A card, and the workload of those who hold it."""


@dataclass(slots=True)
class QueueAccount:
    """Milli-cores, bytes, and milli-cards by name without zeros. ``version`` changes with any of them.

    ``placed`` are those of the cards that tasks hold which stand allocated, by card and workload (online or offline):
    without promised room and lifted gates.
    """

    cpu: int = 0
    memory: int = 0
    cards: dict[str, int] = field(default_factory=dict)
    placed: dict[Placed, int] = field(default_factory=dict)
    version: int = 0

    def charge(self, charge: Charge, charged: ChargedCard | None, by: int, placed: str) -> None:
        """Add what a task counts for, or take it off; ``placed`` is its workload if it stands allocated, else empty."""
        self.cpu += by * charge.cpu
        self.memory += by * charge.memory
        self.version += 1
        if charged is not None:
            _add(self.cards, charged.card, by * charged.amount)
            if placed:
                _add(self.placed, (charged.card, placed), by * charged.amount)

    def add(self, other: QueueAccount, by: int) -> None:
        """Add all of another account, or take it off."""
        self.cpu += by * other.cpu
        self.memory += by * other.memory
        self.version += 1
        accumulate(self.cards, other.cards, by)
        accumulate(self.placed, other.placed, by)

    @property
    def is_zero(self) -> bool:
        """Whether nothing is on it."""
        return not (self.cpu or self.memory or self.cards)


@dataclass(slots=True)
class JobCharge:
    """What one job holds, and the queue that it is charged to."""

    queue: str
    account: QueueAccount = field(default_factory=QueueAccount)


_NOTHING: Final = QueueAccount()


class QueueAccounts:
    """The accounts. ``version`` changes with any of them.

    ``changed_placed`` are queues whose placed tasks hold other cards, for whoever reads them to clear.
    """

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self.changed_placed: dict[str, None] = {}
        self.version = 0
        self._own: dict[str, QueueAccount] = {}
        self._below: dict[str, QueueAccount] = {}
        self._holdings: dict[str, JobCharge] = {}

    # -- reading ------------------------------------------------------------------------------------------------------

    def account(self, queue: str) -> QueueAccount:
        """What counts against a queue's limit: what it holds; in a hierarchy, with all queues below it."""
        accounts = self._below if self._limits.is_hierarchical else self._own
        return accounts.get(queue, _NOTHING)

    def own(self, queue: str) -> QueueAccount:
        """What the jobs of a queue itself hold."""
        return self._own.get(queue, _NOTHING)

    def held(self, job: JobInfo) -> QueueAccount:
        """What a job holds."""
        holding = self._holdings.get(job.key)
        return holding.account if holding is not None else _NOTHING

    def blocking(self, chain: Sequence[QueueLimit], card: str, amount: int) -> QueueLimit | None:
        """Return the first limit that has not that much left of a card (milli-cards); None when all have."""
        for limit in chain:
            if self.account(limit.queue).cards.get(card, 0) + amount > limit.card(card):
                return limit
        return None

    def left(self, chain: Sequence[QueueLimit], card: str) -> int:
        """Return how much more of a card all limits allow, in milli-cards; below zero when one is exceeded."""
        return min(limit.card(card) - self.account(limit.queue).cards.get(card, 0) for limit in chain)

    def levels(self, queue: str) -> tuple[str, ...]:
        """The queues in which a queue counts: itself, and in a hierarchy those above it."""
        return tuple(limit.queue for limit in self._limits.chain(queue)) or (queue,)

    # -- charging -----------------------------------------------------------------------------------------------------

    def charge(self, job: JobInfo, charge: Charge, charged: ChargedCard | None, by: int, placed: str) -> None:
        """Add what tasks of a job count for, or take it off; ``placed`` as in ``QueueAccount.charge``."""
        holding = self._holdings.get(job.key)
        if holding is None:
            holding = self._holdings[job.key] = JobCharge(job.queue)
        holding.account.charge(charge, charged, by, placed)
        for account in self._accounts_of(holding.queue):
            account.charge(charge, charged, by, placed)
        if charged is not None and placed:
            self.changed_placed[holding.queue] = None
        self.version += 1

    def _accounts_of(self, queue: str) -> list[QueueAccount]:
        """The accounts of a queue and of those above it."""
        own = self._own.get(queue)
        if own is None:
            own = self._own[queue] = QueueAccount()
        if not self._limits.is_hierarchical:
            return [own]
        return [own, *(_of(self._below, name) for name in self._above(queue))]

    def _above(self, queue: str) -> tuple[str, ...]:
        return self.levels(queue) if self._limits.is_hierarchical else ()

    # -- jobs and queues ----------------------------------------------------------------------------------------------

    def move(self, job: JobInfo, *, gone: bool) -> None:
        """Let what a job holds count for the queue that it is in now."""
        holding = self._holdings.get(job.key)
        if holding is None:
            return
        if holding.queue != job.queue:
            self._shift(holding, -1)
            holding.queue = job.queue
            self._shift(holding, 1)
        if gone:
            del self._holdings[job.key]

    def _shift(self, holding: JobCharge, by: int) -> None:
        for account in self._accounts_of(holding.queue):
            account.add(holding.account, by)
        if holding.account.placed:
            self.changed_placed[holding.queue] = None
        self.version += 1

    def hierarchy(self) -> dict[str, tuple[str, ...]]:
        """Return the queues in which each queue counts that something was charged to; none without a hierarchy."""
        return {name: self._above(name) for name in self._own}

    def add_up_again(self, before: dict[str, tuple[str, ...]]) -> None:
        """Add up again what subtrees hold, if the hierarchy is another than it was."""
        if self.hierarchy() == before:
            return
        self._below = {name: QueueAccount(version=account.version + 1) for name, account in self._below.items()}
        for name, held in self._own.items():
            for subtree in self._above(name):
                _of(self._below, subtree).add(held, 1)
        self.version += 1


def _add(cards: dict[K, int], key: K, amount: int) -> None:
    left = cards.get(key, 0) + amount
    if left:
        cards[key] = left
    else:
        cards.pop(key, None)


def _of(accounts: dict[str, QueueAccount], name: str) -> QueueAccount:
    found = accounts.get(name)
    if found is None:
        found = accounts[name] = QueueAccount()
    return found
