"""What each queue deserves: the cluster shared out by weight among queues that ask for something.

The rule is Volcano's proportion plugin's. In each round every queue gets its weight's part of what remains, bounded by
what it may have and by what it asks for, and never less than it is guaranteed; then the rest is shared out again.

There the rounds end when next to nothing remains. Here the first round is followed by what endless rounds come to: each
resource rises at the speed of the weights in all queues that can take more of it, until there is none left. Amounts are
exact fractions, so that no rounding decides who is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from volsched.framework.accounts.quotas import of_nodes
from volsched.model.queues.queue import QueueInfo

Amounts = Mapping[str, int]
Parts = dict[str, Fraction]


@dataclass(slots=True)
class Claim:
    """One queue's claim: what it asks for, what it may have, and what it deserves of that."""

    queue: QueueInfo
    request: Amounts
    limit: Mapping[str, int]
    deserved: Parts = field(default_factory=dict)

    def most(self, name: str) -> int:
        """The most that it can deserve of a resource beyond its guarantee."""
        return min(self.limit.get(name, 0), self.request.get(name, 0))


def share_out(claims: Iterable[Claim], total: Amounts) -> None:
    """Fill every claim's ``deserved``."""
    sharing = list(claims)
    weight = sum(claim.queue.weight for claim in sharing)
    there = {name: amount for name, amount in total.items() if amount > 0}
    if weight <= 0 or not there:
        return
    parts = {name: Fraction(amount, weight) for name, amount in there.items()}
    for claim in sharing:
        claim.deserved = _first_part(claim, parts)
    for name, amount in there.items():
        left = amount - sum(claim.deserved.get(name, Fraction(0)) for claim in sharing)
        _fill_up(name, Fraction(left), sharing)


def _first_part(claim: Claim, parts: Mapping[str, Fraction]) -> Parts:
    """What a queue deserves after the first round."""
    deserved: Parts = {}
    guarantee = of_nodes(claim.queue.guarantee)
    for name in {**parts, **guarantee}:
        amount = min(parts.get(name, Fraction(0)) * claim.queue.weight, Fraction(claim.most(name)))
        amount = max(amount, Fraction(guarantee.get(name, 0)))
        if amount:
            deserved[name] = amount
    return deserved


def _fill_up(name: str, left: Fraction, claims: Sequence[Claim]) -> None:
    """Let what is left of a resource rise, at the speed of the weights, in the queues that can take more of it."""
    room = {
        place: claim.most(name) - claim.deserved.get(name, Fraction(0))
        for place, claim in enumerate(claims)
        if claim.queue.weight > 0
    }
    full_at = sorted((amount / claims[place].queue.weight, place) for place, amount in room.items() if amount > 0)
    weight = sum(claims[place].queue.weight for _, place in full_at)
    level = Fraction(0)
    for full, place in full_at:
        if (full - level) * weight >= left:
            level += max(left, Fraction(0)) / weight
            break
        left -= (full - level) * weight
        weight -= claims[place].queue.weight
        level = full
    for _, place in full_at:
        claim = claims[place]
        more = min(room[place], level * claim.queue.weight)
        if more:
            claim.deserved[name] = claim.deserved.get(name, Fraction(0)) + more
