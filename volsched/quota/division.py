"""Divides the cluster over a tree of queues by weight, from the root down, each resource by itself.

What a queue claims is what those below it claim together, at most its capability. What it has is divided among the
queues right below it. Each gets ``weight x level`` of a resource, not less than it is guaranteed, and not more than it
asks for or is guaranteed. The level is where all is given out, or all have what they ask for. (As water finds one level
in vessels whose widths are the weights.)

Amounts that are asked for are integers in each resource's unit; what a queue deserves is an exact fraction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from volsched.model.queues.queue import ROOT
from volsched.quota.amounts import larger, room, total_of
from volsched.quota.tree import Tree

Amounts: TypeAlias = Mapping[str, int]
Parts: TypeAlias = Mapping[str, Fraction]


class Claim(NamedTuple):
    """What a queue brings into the division, in integers of each resource's unit.

    A resource that ``capability`` does not name is not limited by it. A weight below 0 counts as 0: such a queue gets
    what it is guaranteed.
    """

    weight: int
    request: Amounts
    guarantee: Amounts
    capability: Amounts

    def with_those_below(self, below: Sequence[Claim]) -> Claim:
        """Return the claim of a queue and of all below it together."""
        request = total_of((self.request, *(claim.request for claim in below)))
        guarantee = larger(self.guarantee, total_of(claim.guarantee for claim in below))
        return Claim(self.weight, self._capped(request), self._capped(guarantee), self.capability)

    def _capped(self, amounts: Amounts) -> dict[str, int]:
        return {name: min(amount, self.capability.get(name, amount)) for name, amount in amounts.items()}


class Vessel(NamedTuple):
    """One queue in the division of one resource: it gets from ``least`` to ``most``."""

    weight: int
    least: int
    most: int


def summed(tree: Tree, claims: Mapping[str, Claim]) -> dict[str, Claim]:
    """Return the claim of each queue with those below it. A queue without a claim of its own asks for nothing."""
    found: dict[str, Claim] = {}
    for name in reversed(tree.top_down()):
        found[name] = claims.get(name, _NOTHING).with_those_below([found[child] for child in tree.below(name)])
    return found


def divide(tree: Tree, claims: Mapping[str, Claim], total: Amounts) -> dict[str, Parts]:
    """Return what each queue deserves, without zeros. ``claims`` are those of ``summed``. The root has all there is."""
    root = claims[ROOT].capability
    found: dict[str, Parts] = {ROOT: {name: Fraction(min(n, root.get(name, n))) for name, n in total.items()}}
    for name in tree.top_down():
        below = tree.below(name)
        if below:
            found.update(zip(below, _divided(found[name], [claims[child] for child in below]), strict=True))
    return found


def _divided(amounts: Parts, claims: Sequence[Claim]) -> list[dict[str, Fraction]]:
    found: list[dict[str, Fraction]] = [{} for _ in claims]
    for name in {name: None for claim in claims for name in (*claim.request, *claim.guarantee)}:
        vessels = [_vessel(claim, name) for claim in claims]
        for parts, part in zip(found, fill(amounts.get(name, Fraction(0)), vessels), strict=True):
            if part:
                parts[name] = part
    return found


def _vessel(claim: Claim, name: str) -> Vessel:
    least = claim.guarantee.get(name, 0)
    return Vessel(max(claim.weight, 0), least, max(least, claim.request.get(name, 0)))


def fill(amount: Fraction, vessels: Sequence[Vessel]) -> list[Fraction]:
    """Return what each vessel gets of an amount. The least amounts count also where there is less than their sum."""
    if (
        sum(vessel.most for vessel in vessels if vessel.weight)
        + sum(vessel.least for vessel in vessels if not vessel.weight)
        <= amount
    ):
        return [Fraction(vessel.most if vessel.weight else vessel.least) for vessel in vessels]
    level = _level(amount - sum(vessel.least for vessel in vessels), vessels)
    return [min(max(level * vessel.weight, Fraction(vessel.least)), Fraction(vessel.most)) for vessel in vessels]


def _level(left: Fraction, vessels: Iterable[Vessel]) -> Fraction:
    """Return how high the level rises until nothing is left. There is less than all vessels hold."""
    level, width = Fraction(0), 0
    for at, wider in sorted(_bends(vessels)):
        step = (at - level) * width
        if left <= step:
            break
        left, level, width = left - step, at, width + wider
    return level + max(left, Fraction(0)) / width if width else level


def _bends(vessels: Iterable[Vessel]) -> Iterable[tuple[Fraction, int]]:
    """Yield the levels from which on a vessel fills, and does no longer, with the width that is gained there."""
    for weight, least, most in vessels:
        if weight and most > least:
            yield Fraction(least, weight), weight
            yield Fraction(most, weight), -weight


def limits_in(tree: Tree, claims: Mapping[str, Claim], total: Amounts) -> dict[str, dict[str, int]]:
    """Return what each queue may have: what the one above it may, less what those beside it are guaranteed.

    It is never above a queue's capability. ``claims`` are those of ``summed``.
    """
    found = {ROOT: room(total, {}, {}, claims[ROOT].capability)}
    for name in tree.top_down():
        kept = total_of(claims[child].guarantee for child in tree.below(name))
        for child in tree.below(name):
            found[child] = room(found[name], kept, claims[child].guarantee, claims[child].capability)
    return found


_NOTHING = Claim(1, {}, {}, {})
