"""What guarantees of the queues beside one leave it of what a queue above them may have.

Only below a queue with a quota: nobody counts how many devices of a class there are, so of all of them nothing is taken
off. A queue is guaranteed at least what all queues right below it are together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from plugins.capacity_dra.quota import Quota, total
from volsched.plugin.devices import Amount, Amounts
from volsched.plugin.quota import QueueTree

LimitFn = Callable[[Amount, str], Fraction | None]
"""The most that a queue may hold of something, what is left by guarantees beside it included; None without limit."""


class DeviceGuarantees:
    """The guarantees of one session."""

    def __init__(
        self, tree: QueueTree, quota: Callable[[str], Quota], levels: Callable[[str], Sequence[str]], limit: LimitFn
    ) -> None:
        self._tree = tree
        self._quota = quota
        self._levels = levels
        self._limit = limit
        self._left: dict[str, Amounts] = {}
        self._guaranteed: dict[str, Amounts] = {}

    def left(self, queue: str) -> Amounts:
        """Return how much a queue may hold, of what others beside it are guaranteed."""
        if queue not in self._left:
            self._left[queue] = {}  # a queue that is above itself ends here
            self._left[queue] = self._left_by_others(queue)
        return self._left[queue]

    def _left_by_others(self, queue: str) -> Amounts:
        above = self._levels(queue)[1:]
        beside = (other for other in self._tree.below(above[0]) if other != queue) if above else ()
        found: dict[Amount, Fraction] = {}
        for key, amount in total(map(self._of, beside)).items():
            limits = [limit for level in above if (limit := self._limit(key, level)) is not None]
            if limits:
                found[key] = max(Fraction(0), min(limits) - amount)
        return found

    def _of(self, queue: str) -> Amounts:
        if queue not in self._guaranteed:
            own = self._quota(queue).guarantee
            self._guaranteed[queue] = own  # as above
            below = total(map(self._of, self._tree.below(queue)))
            self._guaranteed[queue] = {
                key: max(own.get(key, Fraction(0)), below.get(key, Fraction(0))) for key in {**own, **below}
            }
        return self._guaranteed[queue]
