"""Dominant shares of queues in a tree, in the rescaled form of H-DRF (Bhattacharya et al., SoCC 2013; Volcano's hdrf).

The share of a queue without any below it is the largest part of any of the cluster's resources that it holds. Of a
queue above, those right below it are scaled to the least share over weight among them, times each one's weight, and
added resource by resource; the largest sum is the share. Queues that are saturated are left out of that: those that
have all they ask for, or ask only for resources that are used up. Where all below it are, so is the queue, and all
count.

What changed is computed again once, from the queue up, when it is next asked for. Shares are floating-point numbers:
exact fractions of many queues have ever larger denominators. Sums are rounded correctly whatever their order, and
shares that agree in nine digits count as equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import ClassVar, Final, NamedTuple, TypeAlias

from plugins.drf.asking import Asking
from plugins.drf.places import Places
from volsched.plugin import (
    ROOT,
    Cluster,
    QueueOrder,
    TaskInfo,
    accumulate,
)
from volsched.plugin.quota import (
    LeafQueues,
    PastUse,
    QueueUsageObserver,
    order_in_tree,
    place_over_time,
    request_with_slot,
)

Parts: TypeAlias = Mapping[str, float]
"""Parts of what the cluster has, by resource."""

_DIGITS: Final = 9


class State(NamedTuple):
    """Where a queue stands: its parts, rescaled, the largest of them, its weight, and whether it is saturated."""

    parts: Parts
    share: float
    weight: float
    is_saturated: bool

    @property
    def ratio(self) -> float:
        """The share over the weight, rounded so that rounding decides nothing."""
        return round(self.share / self.weight, _DIGITS)

    @classmethod
    def of(cls, parts: Parts, weight: float, *, is_saturated: bool) -> State:
        """Make one of its parts."""
        return cls(parts, max(parts.values(), default=0.0), weight, is_saturated)


class SiblingTotals(NamedTuple):
    """Totals of sibling queues: the least share over weight, and the sums of part x weight / share."""

    least: float
    parts: Parts

    @classmethod
    def of(cls, states: Iterable[State]) -> SiblingTotals:
        """Add up those that hold anything."""
        holding = [state for state in states if state.share > 0]
        least = min((state.share / state.weight for state in holding), default=math.inf)
        names = {name: None for state in holding for name in state.parts}
        sums = {n: math.fsum(s.parts.get(n, 0.0) * s.weight / s.share for s in holding) for n in names}
        return cls(least, sums)

    def rescaled(self, own: State | None = None) -> dict[str, float]:
        """Return the parts of the queue above, with one queue more if it holds anything."""
        least, parts = self.least, self.parts
        if own is not None and own.share > 0:
            factor = own.weight / own.share
            least = min(least, own.share / own.weight)
            parts = {n: parts.get(n, 0.0) + own.parts.get(n, 0.0) * factor for n in {**parts, **own.parts}}
        return {name: part * least for name, part in parts.items()}


def counted(states: Sequence[State]) -> Sequence[State]:
    """Return those of queues side by side that are not saturated. Where all are, all of them."""
    return [state for state in states if not state.is_saturated] or states


class TreeShares(LeafQueues):
    """The states of all queues; kept from one session to the next. ``refresh`` when a session opens.

    ``computed`` counts the states that were made.
    """

    name: ClassVar[str] = "drf"

    def __init__(self, cluster: Cluster, places: Places, usage: QueueUsageObserver, asking: Asking) -> None:
        self._cluster = cluster
        self._places = places
        self._usage = usage
        self._asking = asking
        self._states: dict[str, State] = {}
        self._made_from: object = None
        self.totals: Mapping[str, int] = {}
        """What the cluster has, by resource."""
        self._unlimited: frozenset[str] = frozenset()
        self._known: frozenset[str] = frozenset()
        self._used_up: frozenset[str] = frozenset()
        self.computed = 0

    def refresh(self) -> None:
        """Count again what changed between sessions."""
        self._usage.refresh()
        self._asking.refresh()
        cluster = self._cluster
        names = cluster.columns.names
        made_from = self._places.version, tuple(cluster.node_cache.totals), cluster.columns.left_to_devices
        if made_from != self._made_from:
            self._made_from = made_from
            self.totals = {names[c]: amount for c, amount in enumerate(cluster.node_cache.totals) if amount > 0}
            self._unlimited = frozenset(names[column] for column in cluster.columns.left_to_devices)
            self._known = self._unlimited | self.totals.keys()
            self._states.clear()

    # -- answers ------------------------------------------------------------------------------------------------------

    def state(self, queue: str) -> State:
        """Return where a queue stands now."""
        self._compute_again()
        return self._states[queue]

    def queue_order(self) -> QueueOrder:
        """Order by priority, then at the first level at which two differ: unsaturated, least share over weight.

        Equal ones go by age.
        """

        def place(level: str) -> tuple[bool, float]:
            state = self.state(level)
            return state.is_saturated, state.ratio

        return self._in_order(place)

    def past_order(self, past: PastUse) -> QueueOrder:
        """Order by priority, then at the first level at which two differ by the least use over time over weight."""
        return self._in_order(partial(self._place, past))

    def _in_order(self, place: Callable[[str], object]) -> QueueOrder:
        return order_in_tree(self._cluster.queues, self._places.way_down, place)

    def is_parent(self, queue: str) -> bool:
        """True if a queue has others below it, and so takes no work itself."""
        return bool(self.below(queue))

    def victims(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Candidates after whose move the task's side still has less than theirs, each counted as gone for the next.

        The sides are the queues right below the one where the ways up meet.
        """
        self._compute_again()
        moves = _Moves(self, self._states)
        chosen: list[TaskInfo] = []
        for victim in candidates:
            if task.job is None or victim.job is None or victim.job.queue not in self._cluster.queues:
                continue
            mine, theirs = task.job.queue, victim.job.queue
            if mine != theirs and moves.takes(task, self.apart(mine, theirs), victim, self.apart(theirs, mine)):
                chosen.append(victim)
        return chosen

    # -- over time ----------------------------------------------------------------------------------------------------

    def past_use(self, half_life: float) -> PastUse:
        """Return an account of what queues, with those below them, hold over time. ``half_life`` is in seconds."""
        usage, places, queues = self._usage, self._places, self._cluster.queues
        return PastUse(
            self._cluster,
            half_life,
            lambda queue: usage.allocated(queue.name),
            lambda name: [level for level in places.tree.way_down(name) if level in queues],
        )

    def _place(self, past: PastUse, level: str) -> float:
        return place_over_time(self._used(level, past), self.held(level), self.totals, self._places.weights[level])

    def _used(self, level: str, past: PastUse) -> Mapping[str, float]:
        """Return what a queue used; one without an object what the nearest queues below it did."""
        if level in self._cluster.queues:
            return past.used(level)
        found: dict[str, float] = {}
        below = list(self.below(level))
        for name in below:  # it grows meanwhile
            if name in self._cluster.queues:
                found.update({n: found.get(n, 0.0) + used for n, used in past.used(name).items()})
            else:
                below.extend(self.below(name))
        return found

    # -- what states are made of --------------------------------------------------------------------------------------

    def apart(self, queue: str, other: str) -> tuple[str, ...]:
        """Return the levels of a queue that are not levels of another one, the queue itself first."""
        return self._places.tree.apart(queue, other)

    def below(self, queue: str) -> tuple[str, ...]:
        """Return the queues right below one."""
        return self._places.tree.below(queue)

    def held(self, queue: str) -> Mapping[str, int]:
        """Return what a queue and those below it hold and were promised, pod slots too."""
        return self._usage.by(queue)

    def parts(self, held: Mapping[str, int]) -> Parts:
        """Return which parts of what the cluster has some amounts are."""
        return {name: held[name] / total for name, total in self.totals.items() if name in held}

    def _compute_again(self) -> None:
        """Make the states again of queues that changed, and of those above them, from below."""
        tree = self._places.tree
        changed, self._asking.changed = self._asking.changed, {}
        before, self._used_up = self._used_up, self._used_up_now()
        if not self._states:
            stale = set(tree.top_down())
        else:
            leaves = {name for name in changed if name in self._states}
            if before != self._used_up:
                leaves |= {name for name, state in self._states.items() if self._is_outdated(name, state)}
            stale = {level for name in leaves for level in tree.levels(name)}
        for name in sorted(stale - {ROOT}, key=lambda name: (-len(tree.levels(name)), name)):
            self._states[name] = self._made(name, [self._states[child] for child in tree.below(name)])
            self.computed += 1

    def _used_up_now(self) -> frozenset[str]:
        """Return the resources of which nothing is left; of what devices serve it is not known how much there is."""
        ledger, names = self._cluster.node_cache, self._cluster.columns.names
        amounts = zip(names, ledger.totals, ledger.total_used, strict=False)
        return frozenset(name for name, total, used in amounts if used >= total and name not in self._unlimited)

    def _is_outdated(self, name: str, state: State) -> bool:
        return not self.below(name) and state.is_saturated != self._is_saturated(name)

    def _made(self, name: str, below: Sequence[State]) -> State:
        weight = self._places.weights[name]
        if not below:
            return State.of(self.parts(self.held(name)), weight, is_saturated=self._is_saturated(name))
        is_saturated = all(state.is_saturated for state in below)
        return State.of(SiblingTotals.of(counted(below)).rescaled(), weight, is_saturated=is_saturated)

    def _is_saturated(self, queue: str) -> bool:
        """True if all waiting pods of a queue request something that is used up, or that no node has."""
        return not any(kind <= self._known and kind.isdisjoint(self._used_up) for kind in self._asking.kinds(queue))


class _Moves:
    """What stands when victims of one task go, one after the other."""

    def __init__(self, shares: TreeShares, states: Mapping[str, State]) -> None:
        self._shares = shares
        self._before = states
        self._now: dict[str, State] = {}
        self._left: dict[str, dict[str, int]] = {}
        self._others: dict[tuple[str, str], SiblingTotals] = {}

    def takes(self, task: TaskInfo, mine: Sequence[str], victim: TaskInfo, theirs: Sequence[str]) -> bool:
        """Have a victim go if the last of a task's levels still has less than the last of the victim's then."""
        if not mine or not theirs:
            return False
        taken, left = self._held(mine[0]), self._held(theirs[0])
        accumulate(taken, request_with_slot(task), 1)
        accumulate(left, request_with_slot(victim), -1)
        states = self._after(theirs, left)
        if self._after(mine, taken)[-1].ratio >= states[-1].ratio:
            return False
        self._left[theirs[0]] = left
        self._now.update(zip(theirs, states, strict=True))
        self._others.clear()
        return True

    def _held(self, queue: str) -> dict[str, int]:
        return dict(self._left.get(queue, self._shares.held(queue)))

    def _after(self, way: Sequence[str], held: Mapping[str, int]) -> list[State]:
        """Return the states of a queue that holds other amounts, and of those above it.

        The queues on the way count among those beside them: one that loses a pod asks for it again.
        """
        states = [self._with(way[0], self._shares.parts(held))]
        for queue, above in pairwise(way):
            states.append(self._with(above, self._beside(above, queue).rescaled(states[-1])))
        return states

    def _with(self, queue: str, parts: Parts) -> State:
        known = self._state(queue)
        return State.of(parts, known.weight, is_saturated=known.is_saturated)

    def _state(self, queue: str) -> State:
        return self._now.get(queue) or self._before[queue]

    def _beside(self, above: str, queue: str) -> SiblingTotals:
        """Return the queues right below one, without one of them."""
        found = self._others.get((above, queue))
        if found is None:
            below = {name: self._state(name) for name in self._shares.below(above)}
            all_are = all(state.is_saturated for state in below.values())
            found = SiblingTotals.of(
                s for name, s in below.items() if name != queue and (all_are or not s.is_saturated)
            )
            self._others[above, queue] = found
        return found
