"""What queues deserve of cards, and of cpu and memory, as the rule of elastic quotas asks it.

See ``volsched.quota.reclaim``.

For a pod with cards cards alone are counted, the one that it holds, or those of its list any of which would do. For any
other pod cpu and memory are, by ``spec.deserved`` and the guarantee, and it takes nothing from pods that hold cards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from plugins.capacity_card.accounts import QueueAccount
from plugins.capacity_card.ledger import CardQuotaLedger
from plugins.capacity_card.requests.charges import Charge
from plugins.capacity_card.requests.requests import CardRequest
from volsched.plugin import CPU, MEMORY, Cluster, TaskInfo
from volsched.plugin.quota import reclaimable_of

Amounts = Mapping[str, int]
NOTHING: Amounts = {}


class CardReclaimView:
    """Cards, in milli-cards."""

    def __init__(self, cluster: Cluster, ledger: CardQuotaLedger) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._accounts = ledger.accounts
        self._deserved_cards: dict[str, None] = {}
        self._read_at = -1

    def reclaimable(self, queue: str) -> Amounts:
        """Return what queues below their due could take of what a queue holds: of cards that any queue deserves."""
        limits = self._ledger.limits
        if self._read_at != limits.version:
            self._read_at = limits.version
            self._deserved_cards = {
                card: None for name in self._cluster.queues for card in limits.card_quota(name).deserved or ()
            }
        return reclaimable_of(self._cluster, self, queue, self._deserved_cards)

    def levels(self, queue: str) -> Sequence[str]:
        """Return a queue, and in a hierarchy those above it."""
        return self._accounts.levels(queue)

    def allocated(self, queue: str, key: str) -> int:
        """Return how much of a card a queue holds, promised room included."""
        return self._accounts.account(queue).cards.get(key, 0)

    def deserved(self, queue: str, key: str) -> int | None:
        """Return how much of a card a queue deserves."""
        deserved = self._ledger.limits.card_quota(queue).deserved
        return deserved.get(key, 0) if deserved is not None else None

    def requested(self, task: TaskInfo) -> Amounts:
        """Return the cards of a task's list that there are, each in the amount that the task asks for."""
        asked = self._ledger.charges.card_request(task.template)
        return dict.fromkeys(asked.candidates, asked.amount) if isinstance(asked, CardRequest) else NOTHING

    def holds(self, victim: TaskInfo, task: TaskInfo) -> Amounts:
        """Return the card that a pod has, on a node that offers it."""
        charged = self._ledger.charged(victim)
        return {charged.card: charged.amount} if charged is not None and charged.is_offered else NOTHING

    def frees(self, queue: str, victims: Sequence[TaskInfo], task: TaskInfo) -> Amounts:
        """Return the cards that victims are charged for."""
        found: Counter[str] = Counter()
        for charged in map(self._ledger.charged, victims):
            if charged is not None:
                found[charged.card] += charged.amount
        return found


class CpuReclaimView:
    """Cpu and memory, in milli-cores and bytes, for pods without cards; cards of victims are counted beside."""

    def __init__(self, cluster: Cluster, ledger: CardQuotaLedger) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._accounts = ledger.accounts
        self._cards = CardReclaimView(cluster, ledger)

    def levels(self, queue: str) -> Sequence[str]:
        """Return a queue, and in a hierarchy those above it."""
        return self._accounts.levels(queue)

    def allocated(self, queue: str, key: str) -> int:
        """Return how much a queue holds."""
        account = self._accounts.account(queue)
        return dict(_parts(account)).get(key, account.cards.get(key, 0))

    def deserved(self, queue: str, key: str) -> int | None:
        """Return what the object of a queue states; cpu and memory of 0 state nothing."""
        if key not in (CPU, MEMORY):
            return self._cards.deserved(queue, key)
        found = self._cluster.queues.get(queue)
        if found is None:
            return None
        return max(found.spec.deserved.get(key, 0), found.spec.guarantee.get(key, 0)) or None

    def requested(self, task: TaskInfo) -> Amounts:
        """Return what a task without cards counts for."""
        charge = self._ledger.charges.of(task.template)
        return NOTHING if charge.names else {key: amount for key, amount in _parts(charge) if amount}

    def holds(self, victim: TaskInfo, task: TaskInfo) -> Amounts:
        """Return what a pod without cards counts for."""
        return self.requested(victim)

    def frees(self, queue: str, victims: Sequence[TaskInfo], task: TaskInfo) -> Amounts:
        """Return what victims count for, the cards of their gangs included."""
        found = Counter(self._cards.frees(queue, victims, task))
        for victim in victims:
            found.update({key: amount for key, amount in _parts(self._ledger.charges.of(victim.template)) if amount})
        return found


def _parts(of: QueueAccount | Charge) -> Iterator[tuple[str, int]]:
    yield CPU, of.cpu
    yield MEMORY, of.memory
