"""How much a pod on a node would waste: free cards that no pod could use then.

In cards, of a node with ``G`` free cards (parts added up), ``F`` entirely free ones, ``C`` free CPU and ``M`` memory:

    waste = balance x max(0, G - C/c, G - M/m)              c, m: CPU and memory per card that pods want, less a margin
          + block x sum of D_n x (G - n x floor(F / n))     D_n: the part of the demand that comes in n whole cards
          + parts x sum of P_s x sum of l_i below s         P_s: the part that comes in parts of size s; l_i: free of card i
    score = waste(before) - waste(after) - model x scarce(node) x cards of the pod - 0.03 x G after - 0.00001 x cores after

The last two find the fullest of equal nodes. See ``docs/plugins/fragmentation.md`` for where it comes from. Every amount
is an integer until it is weighed, and vectors are added in the order of the plain form, so both agree to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from plugins.fragmentation.arguments import Weights
from plugins.fragmentation.demand import Demand
from plugins.fragmentation.means import SHARES
from plugins.fragmentation.offers import MILLI
from plugins.fragmentation.wishes import Wish, Wishes
from volsched.framework.accounts.card_parts import WHOLE, CardParts, Wanted
from volsched.framework.columns.arrays import Floats
from volsched.framework.columns.views import NodeFacts, NodeTable
from volsched.model.cluster import Cluster
from volsched.model.columns import CPU, MEMORY, PODS
from volsched.model.node import NodeAmounts, NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.values.bounded import Bounded

BEST_FIT: Final = 0.03
BEST_FIT_CPU: Final = 0.00001
KEY: Final = "fragmentation"
_MOST_STATES: Final = 50_000


class Saved(NamedTuple):
    """What a pod takes out of blocks and rests, in 1/32 percent of a card: waste before it, less waste after it."""

    block: int
    parts: int


NOTHING_SAVED: Final = Saved(0, 0)


class Score:
    """The callbacks of a session. What depends on the means is worked out once for each set of them."""

    def __init__(self, cluster: Cluster, weights: Weights, demand: Demand, wishes: Wishes, parts: CardParts) -> None:
        self._cluster = cluster
        self._weights = weights
        self._demand = demand
        self._wishes = wishes
        self._parts = parts
        self._version = -1
        self._blocks: list[int] = [0]
        self._rests: list[int] = []
        self._in_blocks = 0
        self._saved: Bounded[tuple[tuple[Wanted, ...], tuple[int, ...]], Saved] = Bounded(_MOST_STATES)

    # -- what the framework asks --------------------------------------------------------------------------------------

    def version(self, task: TaskInfo) -> int:  # noqa: ARG002 - the means are the same for all
        """Change when any answer may have."""
        self._demand.refresh()
        return self._demand.version

    def shares_cards(self, template: PodTemplate) -> bool:
        """Whether pods of a template take parts of cards that are told apart."""
        self._demand.refresh()
        return bool(self._wishes.of(template).parts)

    def shares_none(self, template: PodTemplate) -> bool:
        """Whether amounts tell all that pods of a template take; pods without cards are among them."""
        return not self.shares_cards(template)

    def takes_cards(self, template: PodTemplate) -> bool:
        """Whether pods of a template take any cards."""
        self._demand.refresh()
        return self._wishes.of(template).cards > 0

    def by_amounts(self, template: PodTemplate, node: NodeAmounts) -> float:
        """Score a node of which amounts tell all."""
        self._keep_up()
        wish = self._wishes.of(template)
        return self._weigh(*self._amounts(wish, node), self._whole_cards(wish, node), 0)

    def by_cards(self, template: PodTemplate, node: NodeInfo) -> float:
        """Score a node whose cards are told apart."""
        self._keep_up()
        wish = self._wishes.of(template)
        saved = self._saved_on(wish.parts, self._parts.free(node))
        return self._weigh(*self._amounts(wish, node), saved.block, saved.parts)

    def by_model(self, template: PodTemplate, node: NodeFacts) -> float:
        """Take off what cards are worth to others who insist on them."""
        self._keep_up()
        return float(self._of_model(template) * self._demand.scarce[self._cluster.nodes[node.name].row])

    # -- vector twins -------------------------------------------------------------------------------------------------

    def all_by_amounts(self, template: PodTemplate, nodes: NodeTable) -> Floats:
        """Answer as ``by_amounts``, for many nodes at once."""
        self._keep_up()
        wish, columns, rows = self._wishes.of(template), nodes.columns, nodes.rows
        free = after = block = 0
        for (column, unit, is_whole), amount in wish.amounts:
            idle: Any = np.maximum(columns.allocatable[column][rows] - columns.used[column][rows], 0)
            left = np.maximum(idle - amount, 0) if amount else idle
            free = free + idle * unit // MILLI
            after = after + left * unit // MILLI
            if is_whole and amount:
                losses = np.array(self._blocks)
                most = len(losses) - 1
                block = block + losses[np.minimum(idle // MILLI, most)] - losses[np.minimum(left // MILLI, most)]
        cpu = columns.allocatable[CPU][rows] - columns.used[CPU][rows]
        memory = columns.allocatable[MEMORY][rows] - columns.used[MEMORY][rows]
        slots = columns.allocatable[PODS][rows] - columns.used[PODS][rows]
        before = free, np.where(slots >= 1, np.maximum(cpu, 0), 0), np.maximum(memory, 0)
        then = after, np.where(slots >= 2, np.maximum(cpu - wish.cpu, 0), 0), np.maximum(memory - wish.memory, 0)  # noqa: PLR2004
        found = self._weigh(before, then, WHOLE * block, 0, np.maximum)
        return found if isinstance(found, np.ndarray) else np.full(len(rows), found)

    def all_by_model(self, template: PodTemplate, nodes: NodeTable) -> Floats:
        """Answer as ``by_model``, for many nodes at once."""
        self._keep_up()
        found: Floats = self._of_model(template) * self._demand.scarce[nodes.rows]
        return found

    # -- parts of the formula -----------------------------------------------------------------------------------------

    def _amounts(self, wish: Wish, node: NodeAmounts | NodeInfo) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Return free cards (thousandths), CPU and memory of a node, before and after; without a pod slot no CPU."""
        allocatable, used = node.allocatable, node.used
        free = after = 0
        for (column, unit, _), amount in wish.amounts:
            idle = max(allocatable[column] - used[column], 0)
            free += idle * unit // MILLI
            after += max(idle - amount, 0) * unit // MILLI
        cpu, memory = allocatable[CPU] - used[CPU], allocatable[MEMORY] - used[MEMORY]
        slots = allocatable[PODS] - used[PODS]
        before = free, max(cpu, 0) if slots >= 1 else 0, max(memory, 0)
        then = after, max(cpu - wish.cpu, 0) if slots >= 2 else 0, max(memory - wish.memory, 0)  # noqa: PLR2004
        return before, then

    def _whole_cards(self, wish: Wish, node: NodeAmounts) -> int:
        """Return what a pod takes out of blocks of whole cards, in 1/32 percent of a card."""
        saved, losses = 0, self._blocks
        most = len(losses) - 1
        for (column, _, is_whole), amount in wish.amounts:
            if is_whole and amount:
                idle = max(node.allocatable[column] - node.used[column], 0)
                saved += losses[min(idle // MILLI, most)] - losses[min(max(idle - amount, 0) // MILLI, most)]
        return WHOLE * saved

    def _weigh(
        self,
        before: tuple[Any, Any, Any],
        after: tuple[Any, Any, Any],
        block: Any,
        parts: Any,
        larger: Callable[[Any, Any], Any] = max,
    ) -> Any:
        """Weigh what a node has before and after, and what is saved in blocks and parts; numbers, or arrays of them."""
        weights = self._weights
        cards, cpu, _ = after
        score = weights.balance * (self._unbalanced(*before, larger) - self._unbalanced(*after, larger))
        score = score + weights.block * (block / (SHARES * WHOLE))
        score = score + weights.parts * (parts / (SHARES * WHOLE))
        score = score - BEST_FIT * (cards / MILLI)
        score = score - BEST_FIT_CPU * (cpu / MILLI)
        return weights.scale * score

    def _unbalanced(self, cards: Any, cpu: Any, memory: Any, larger: Callable[[Any, Any], Any]) -> Any:
        """Return the free cards that pods of mean size have no CPU or no memory for."""
        means = self._demand.means
        if not means.is_known:
            return 0.0
        free = cards / MILLI
        by_cpu = free - cpu / (self._weights.margin * means.cpu)
        return larger(larger(by_cpu, free - memory / (self._weights.margin * means.memory)), 0.0)

    def _of_model(self, template: PodTemplate) -> float:
        return -self._weights.scale * self._weights.model * (self._wishes.of(template).cards / MILLI)

    # -- cards that are told apart ------------------------------------------------------------------------------------

    def _saved_on(self, wanted: tuple[Wanted, ...], free: tuple[int, ...]) -> Saved:
        """Return what a pod takes out of blocks and rests; the same for all nodes whose cards are as free."""
        found = self._saved.recall((wanted, free))
        if found is None:
            after = taken(free, wanted)
            block = self._block_loss(free) - self._block_loss(after)
            rests = sum(self._rests[card] for card in free) - sum(self._rests[card] for card in after)
            found = self._saved[wanted, free] = Saved(block, rests)
        return found

    def _block_loss(self, free: tuple[int, ...]) -> int:
        """Return what of some cards is in no block of whole ones, in 1/32 percent of a card."""
        whole = sum(1 for card in free if card >= WHOLE)
        in_rests = sum(free) - WHOLE * whole
        return self._in_blocks * in_rests + WHOLE * self._blocks[min(whole, len(self._blocks) - 1)]

    def _keep_up(self) -> None:
        """Work out anew what follows from the means when they are others."""
        demand = self._demand
        demand.refresh()
        if self._version != demand.version:
            self._version = demand.version
            means = demand.means
            self._blocks = means.block_losses(demand.richest.cards // MILLI)
            self._rests = means.part_losses()
            self._in_blocks = means.in_blocks
            self._saved.clear()


def taken(free: tuple[int, ...], wanted: tuple[Wanted, ...]) -> tuple[int, ...]:
    """Return what is free of each card, ascending, after a pod: the tightest cards that have room, as mgpu packs."""
    left = list(free)
    for cards, percent in sorted(wanted, key=lambda one: (-one.percent, -one.cards)):
        fitting = [place for place, card in enumerate(left) if card >= percent][:cards]
        for place in fitting:
            left[place] -= percent
        left.sort()
    return tuple(left)
