"""What queues deserve of cards, and of cpu and memory, as the rule of elastic quotas asks it.

See ``volsched.quota.reclaim``.

For a pod with cards cards alone are counted, the one that it holds, or those of its list any of which would do. For any
other pod cpu and memory are, by ``spec.deserved`` and the guarantee, and it takes nothing from pods that hold cards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from plugins.capacity_card.requests.requests import Amounts, CardRequest, Dimension
from plugins.capacity_card.usage import CardUsage
from volsched.plugin import Cluster, TaskInfo
from volsched.plugin.quota import reclaimable_of, total_of

NOTHING: Final[Amounts] = {}


class QueueView:
    """What queues hold and deserve of all that is counted."""

    def __init__(self, cluster: Cluster, usage: CardUsage) -> None:
        self._cluster = cluster
        self._usage = usage
        self._held = usage.held.with_below

    def levels(self, queue: str) -> Sequence[str]:
        """Return a queue, and in a hierarchy those above it."""
        return self._usage.limits.levels(queue)

    def allocated(self, queue: str, key: Dimension) -> int:
        """Return how much a queue holds, promised room included."""
        return self._held.of(queue).get(key, 0)

    def deserved(self, queue: str, key: Dimension) -> int | None:
        """Return how much a queue deserves. Cpu and memory of 0 state nothing."""
        if isinstance(key, tuple):
            deserved = self._usage.limits.card_quota(queue).deserved
            return deserved.get(key[0], 0) if deserved is not None else None
        found = self._cluster.queues.get(queue)
        if found is None:
            return None
        return max(found.spec.deserved.get(key, 0), found.spec.guarantee.get(key, 0)) or None

    def cards_of(self, victims: Sequence[TaskInfo]) -> Amounts:
        """Return the cards that victims are charged for."""
        charged = map(self._usage.charged, victims)
        amounts: list[Amounts] = [{found.dimension: found.amount} for found in charged if found is not None]
        return total_of(amounts)


class CardReclaimView(QueueView):
    """The rule for pods with cards."""

    def __init__(self, cluster: Cluster, usage: CardUsage) -> None:
        super().__init__(cluster, usage)
        self._deserved_cards: dict[Dimension, None] = {}
        self._read_at = -1

    def reclaimable(self, queue: str) -> Mapping[Dimension, int]:
        """Return what queues below their due could take of what a queue holds: of cards that any queue deserves."""
        limits = self._usage.limits
        if self._read_at != limits.version:
            self._read_at = limits.version
            self._deserved_cards = {
                (card,): None for name in self._cluster.queues for card in limits.card_quota(name).deserved or ()
            }
        return reclaimable_of(self._cluster, self, queue, self._deserved_cards)

    def requested(self, task: TaskInfo) -> Amounts:
        """Return the cards of a task's list that there are, each in the amount that the task asks for."""
        asked = self._usage.charges.card_request(task.template)
        if not isinstance(asked, CardRequest):
            return NOTHING
        return dict.fromkeys([(card,) for card in asked.candidates], asked.amount)

    def holds(self, victim: TaskInfo, task: TaskInfo) -> Amounts:
        """Return the card that a pod has, on a node that offers it."""
        charged = self._usage.charged(victim)
        return {charged.dimension: charged.amount} if charged is not None and charged.is_offered else NOTHING

    def frees(self, queue: str, victims: Sequence[TaskInfo], task: TaskInfo) -> Amounts:
        """Return the cards that victims are charged for."""
        return self.cards_of(victims)


class CpuReclaimView(QueueView):
    """The rule for pods without cards, by cpu and memory. Cards of victims are counted beside."""

    def requested(self, task: TaskInfo) -> Amounts:
        """Return what a task without cards counts for."""
        charge = self._usage.charges.of(task.template)
        return NOTHING if charge.names else charge.resources

    def holds(self, victim: TaskInfo, task: TaskInfo) -> Amounts:
        """Return what a pod without cards counts for."""
        return self.requested(victim)

    def frees(self, queue: str, victims: Sequence[TaskInfo], task: TaskInfo) -> Amounts:
        """Return what victims count for, the cards of their gangs included."""
        resources = (self._usage.charges.of(victim.template).resources for victim in victims)
        return total_of((self.cards_of(victims), *resources))
