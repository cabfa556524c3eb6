"""What each queue deserves: the cluster shared out by weight, in rounds, among queues that ask for something.

The rule is Volcano's proportion plugin's. In each round every unfinished queue gets its weight's part of what remains,
bounded by what it may have and by what it asks for, and never less than it is guaranteed; a queue is finished when its
request is covered or a round brought it nothing. Amounts are exact fractions, so that no rounding decides who is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from volsched.model.queue import QueueInfo

Amounts = Mapping[str, int]
Parts = dict[str, Fraction]


@dataclass(slots=True)
class Claim:
    """One queue's claim: what it asks for, what it may have, and what it deserves of that."""

    queue: QueueInfo
    request: Amounts
    limit: Mapping[str, int]
    deserved: Parts = field(default_factory=dict)

    @property
    def is_covered(self) -> bool:
        """Whether the queue deserves all that it asks for."""
        return all(amount <= self.deserved.get(name, 0) for name, amount in self.request.items())


def limits(queue: QueueInfo, total: Amounts, guaranteed: Amounts) -> dict[str, int]:
    """What a queue may have: the cluster less what others are guaranteed, and not above its capability.

    A resource that the capability does not name is bounded by the cluster alone; cpu and memory of 0 there mean unset.
    """
    found: dict[str, int] = {}
    for name in {**total, **queue.guarantee, **queue.capability}:
        most = max(0, total.get(name, 0) - guaranteed.get(name, 0)) + queue.guarantee.get(name, 0)
        capability = queue.capability.get(name)
        if capability is not None and not (capability == 0 and name in ("cpu", "memory")):
            most = min(most, capability)
        found[name] = most
    return found


def share_out(claims: Iterable[Claim], total: Amounts) -> None:
    """Fill every claim's ``deserved``."""
    remaining: Parts = {name: Fraction(amount) for name, amount in total.items() if amount > 0}
    unfinished = list(claims)
    while unfinished and any(remaining.values()):
        weight = sum(claim.queue.weight for claim in unfinished)
        if weight <= 0:
            return
        before = dict(remaining)
        left: list[Claim] = []
        parts = {name: amount / weight for name, amount in remaining.items()}
        for claim in unfinished:
            deserved = _next(claim, parts)
            for name in {**deserved, **claim.deserved}:
                change = deserved.get(name, Fraction(0)) - claim.deserved.get(name, Fraction(0))
                remaining[name] = max(Fraction(0), remaining.get(name, Fraction(0)) - change)
            stuck = deserved == claim.deserved
            claim.deserved = deserved
            if not stuck and not claim.is_covered:
                left.append(claim)
        unfinished = left
        if remaining == before:
            return


def _next(claim: Claim, parts: Parts) -> Parts:
    """What a queue deserves after one more round."""
    deserved: Parts = {}
    for name in {**claim.deserved, **parts, **claim.queue.guarantee}:
        amount = claim.deserved.get(name, Fraction(0)) + parts.get(name, Fraction(0)) * claim.queue.weight
        amount = min(amount, Fraction(claim.limit.get(name, 0)), Fraction(claim.request.get(name, 0)))
        amount = max(amount, Fraction(claim.queue.guarantee.get(name, 0)))
        if amount:
            deserved[name] = amount
    return deserved


def share(allocated: Amounts, deserved: Mapping[str, Fraction]) -> Fraction:
    """The largest part of its due that a queue holds of any resource; holding without a due counts as 1."""
    return max((_part(allocated.get(name, 0), due) for name, due in deserved.items()), default=Fraction(0))


def _part(held: int, due: Fraction) -> Fraction:
    if due:
        return held / due
    return Fraction(1 if held else 0)
