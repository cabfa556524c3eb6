"""What the guarantees of other queues leave of each card.

What a queue is guaranteed nobody else may take, though it does not use it: of the cards that there are, the queues
beside it may have what all of their guarantees leave, and their own. In a hierarchy queues share what the queue above
them may have, and a queue is guaranteed at least what all queues right below it are together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from plugins.capacity_card.quotas.quota import CardQuota, Cards
from volsched.plugin import ROOT, QueueInfo


class CardGuarantees:
    """The guarantees of all queues at one time, in milli-cards."""

    def __init__(
        self, queues: Mapping[str, QueueInfo], quotas: Mapping[str, CardQuota], *, is_hierarchical: bool
    ) -> None:
        self._below: dict[str, list[str]] = {}
        self._parents = {name: (queue.spec.parent or ROOT) if is_hierarchical else "" for name, queue in queues.items()}
        for name, parent in self._parents.items():
            if name != parent:
                self._below.setdefault(parent, []).append(name)
        self._own = {name: quota.guarantee for name, quota in quotas.items() if any(quota.guarantee.values())}
        self._known: dict[str, Cards] = {}

    @property
    def are_any(self) -> bool:
        """Whether anything is guaranteed to anybody."""
        return bool(self._own)

    def of(self, queue: str) -> Cards:
        """Return what a queue, or those below it together, are guaranteed."""
        if queue not in self._known:
            self._known[queue] = self._own.get(queue, {})  # a queue that is below itself ends here
            below = self._sum(self._below.get(queue, ()))
            self._known[queue] = below | Counter(self._own.get(queue, {}))
        return self._known[queue]

    def of_others(self, queue: str) -> Cards:
        """Return what the queues beside one are guaranteed together."""
        if not self.are_any or queue not in self._parents:
            return {}
        return self._sum(name for name in self._below.get(self._parents[queue], ()) if name != queue)

    def _sum(self, queues: Iterable[str]) -> Counter[str]:
        total: Counter[str] = Counter()
        for name in queues:
            total.update(self.of(name))
        return total
