"""The minimum of a gang: its cheapest pods, as many as it needs, for each role if it has roles.

Cheapest is meant for each amount by itself: cpu, memory, cards of one list, cards of all lists together. Of each
amount those pods count that take least of it, so what comes out is no more than any pods take with which the gang can
start, and no job is kept out that could start. What all pods together take of cards beyond that counts for a list of
every card that they name. Which pods these are is not decided, and pods of equal amounts are the same, so nothing
depends on names or on the order in which pods came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from plugins.capacity_card.requests.charges import Charge
from plugins.capacity_card.requests.requests import RESOURCES, CardRequest, Dimension, Names
from volsched.plugin import JobInfo


@dataclass(frozen=True, slots=True)
class RolePods:
    """Pods of one role that want the same, and how many there are."""

    role: str
    charge: Charge
    card_request: CardRequest | None
    count: int


@dataclass(frozen=True, slots=True)
class Need:
    """How many pods a gang needs: of each role so many, and ``more`` of any."""

    roles: Mapping[str, int]
    more: int

    @property
    def count(self) -> int:
        """How many pods these are."""
        return sum(self.roles.values()) + self.more

    def can_be_had(self, pods: Counter[str]) -> bool:
        """True if there are enough pods, counted by role."""
        return pods.total() >= self.count and all(pods[role] >= least for role, least in self.roles.items())


def need_of(job: JobInfo, started: Counter[str]) -> Need:
    """Return what a gang needs beside the pods that it has started with, counted by role."""
    if not job.judges_roles:
        return Need({}, max(0, job.spec.min_available - started.total()))
    roles = {role: max(0, least - started[role]) for role, least in job.spec.min_roles.items()}
    return Need(roles, max(0, job.spec.min_available - started.total() - sum(roles.values())))


def cheapest(need: Need, kinds: Sequence[RolePods]) -> dict[Dimension, int]:
    """Return what the cheapest pods come to that a gang needs, without zeros."""
    if not need.count:
        return {}
    found: dict[Dimension, int] = {
        name: least(need, ((kind.role, kind.charge.resources.get(name, 0), kind.count) for kind in kinds))
        for name in RESOURCES
    }
    found.update(_cards(need, kinds))
    return {dimension: amount for dimension, amount in found.items() if amount}


def _cards(need: Need, kinds: Sequence[RolePods]) -> dict[Dimension, int]:
    """Return milli-cards by list: of each list what cannot be spared, and the rest of what all pods take of any."""
    lists = sorted({kind.card_request.names for kind in kinds if kind.card_request is not None})
    found: dict[Dimension, int] = {names: least(need, _of_lists(kinds, (names,))) for names in lists}
    if len(lists) < 2:
        return found
    rest = least(need, _of_lists(kinds, lists)) - sum(found.values())
    if rest:
        every_card = tuple(sorted({card for names in lists for card in names}))
        found[every_card] = found.get(every_card, 0) + rest
    return found


def _of_lists(kinds: Iterable[RolePods], lists: Sequence[Names]) -> Iterable[tuple[str, int, int]]:
    for kind in kinds:
        asked = kind.card_request
        yield (
            kind.role,
            asked.amount if asked is not None and asked.names in lists else 0,
            kind.count,
        )


def least(need: Need, pods: Iterable[tuple[str, int, int]]) -> int:
    """Return the least that the pods come to which a gang needs. Each entry is a role, an amount, and how many."""
    total, lacking, others = 0, dict(need.roles), list[tuple[int, int]]()
    for role, amount, count in sorted(pods, key=lambda entry: entry[1]):
        taken = min(count, lacking.get(role, 0))
        if taken:
            lacking[role] -= taken
            total += taken * amount
        others.append((amount, count - taken))
    more = need.more
    for amount, count in others:
        taken = min(count, more)
        more -= taken
        total += taken * amount
    return total
