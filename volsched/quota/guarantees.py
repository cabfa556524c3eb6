"""What is kept for queues: each is guaranteed at least what all queues right below it are together.

What a queue is guaranteed no other queue may take, even if it is unused. So queues beside it share what is left of that
which the queue above them may have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Generic, TypeVar

from volsched.quota.amounts import larger, total_of

D = TypeVar("D", bound=Hashable)
N = TypeVar("N", int, Fraction)


class Guarantees(Generic[D, N]):
    """The guarantees of all queues at one time, by what each states and which queues are right below it."""

    def __init__(self, own: Callable[[str], Mapping[D, N]], below: Callable[[str], Iterable[str]]) -> None:
        self._own: Callable[[str], Mapping[D, N]] = own
        self._below = below
        self._known: dict[str, Mapping[D, N]] = {}

    def of(self, queue: str) -> Mapping[D, N]:
        """Return what a queue, or the queues below it together, are guaranteed."""
        if queue not in self._known:
            own = self._known[queue] = self._own(queue)  # a queue that is below itself ends here
            self._known[queue] = larger(own, self.together(self._below(queue)))
        return self._known[queue]

    def together(self, queues: Iterable[str]) -> Mapping[D, N]:
        """Return what some queues are guaranteed together."""
        return total_of(map(self.of, queues))


def left_by(kept: Mapping[D, N], available: Callable[[D], Sequence[N]]) -> dict[D, N]:
    """Return what is left, beside what is kept for others, of the least that is available, where that is known."""
    return {name: max(min(most), amount) - amount for name, amount in kept.items() if (most := available(name))}
