"""How much a pod on a node would waste: free cards that no pod could use then.

In cards, of a node with ``G`` free cards (parts added up), ``F`` entirely free ones, ``C`` free CPU and ``M`` memory:

    waste = balance x max(0, G - C/c, G - M/m)              c, m: CPU and memory that pods want per card, less a margin
          + block x sum of D_n x (G - n x floor(F / n))     D_n: the part of the demand that comes in n whole cards
          + parts x sum of P_s x sum of l_i below s         P_s: the part in parts of size s; l_i: free of card i
    score = waste(before) - waste(after)
          - model x scarce(node) x cards of the pod         scarce: see ``scarcity``
          - 0.03 x G after - 0.00001 x cores after          the fullest of equal nodes

Cards that are devices are told apart, too. They are no amounts of a node, so where any node has such cards other
callbacks are asked (``by_devices``), which look at the node itself.

Every amount is an integer until it is weighed, and vectors are added in the order of the plain form, so both agree to
the bit. ``docs/plugins/fragmentation.md`` says why each term is there.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from plugins.fragmentation.arguments import Weights
from plugins.fragmentation.card_requests import CardRequests, PodCards
from plugins.fragmentation.claims import NOTHING
from plugins.fragmentation.demand import Demand, KnownDevices
from plugins.fragmentation.device_cards import State, free_in
from plugins.fragmentation.means import SHARES
from plugins.fragmentation.offers import MILLI, Offer
from volsched.framework.accounts.card_parts import WHOLE, CardParts, PartRequest
from volsched.framework.callbacks import AppliesFn, NodeOrderFn, NodeOrderVectorFn
from volsched.framework.columns.arrays import Floats, Rows
from volsched.framework.columns.views import NodeFacts, NodeTable
from volsched.framework.rules import NodeOrder, Rule
from volsched.model.cluster import Cluster
from volsched.model.nodes.columns import CPU, MEMORY
from volsched.model.nodes.node import NodeAmounts, NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.values.bounded import Bounded

BEST_FIT: Final = 0.03
BEST_FIT_CPU: Final = 0.00001 / MILLI
"""For each thousandth of a core."""
KEY: Final = "fragmentation"
_MOST_STATES: Final = 50_000
_MOST_TABLES: Final = 64


Ints = npt.NDArray[np.int64]


class Saved(NamedTuple):
    """What a pod takes out of blocks and rests, in 1/32 percent of a card: waste before it, less waste after it."""

    block: int
    parts: int


@dataclass(frozen=True, slots=True)
class _ScorePlan:
    """What a pod takes, laid out for vectors: by (before or after, column, node).

    ``columns`` are those of CPU, memory and cards, ``amounts`` what the pod takes of each, nothing before it is there.
    ``whole``: the places among the cards of those of which whole ones are wanted.
    """

    columns: Rows
    amounts: Ints
    units: Ints
    whole: tuple[int, ...]

    @classmethod
    def of(cls, card_request: PodCards) -> _ScorePlan:
        columns, units = _laid_out(tuple([offer for offer, _ in card_request.amounts]))
        taken = [card_request.cpu, card_request.memory, *[amount for _, amount in card_request.amounts]]
        amounts = np.array([[0] * len(taken), taken], dtype=np.int64)[:, :, np.newaxis]
        whole = tuple([n for n, (offer, amount) in enumerate(card_request.amounts) if offer.is_whole and amount])
        return cls(columns, amounts, units, whole)


@lru_cache(maxsize=16)
def _laid_out(offers: tuple[Offer, ...]) -> tuple[Rows, Ints]:
    """Return the columns of CPU, memory and cards, and the units of these, each in a line of its own."""
    columns = np.array([[column] for column in (CPU, MEMORY, *(offer.column for offer in offers))])
    return columns, np.array([offer.unit for offer in offers], dtype=np.int64).reshape(-1, 1)


class _OnDevices(NamedTuple):
    """Of cards that are devices: what is free of them, and after a pod, in thousandths; what it saves, in cards.

    ``served``: the columns of resources that the node leaves to its devices.
    """

    free: int = 0
    after: int = 0
    saved: float = 0.0
    served: tuple[int, ...] = ()


_NO_DEVICES: Final = _OnDevices()


@dataclass(slots=True)
class _ByState:
    """What a pod does to cards that are devices, by the number of their state; see ``_OnDevices``."""

    after: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    saved: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, more: list[_OnDevices]) -> None:
        """Know further states, in order of their numbers."""
        self.after = np.concatenate([self.after, np.array([found.after for found in more], dtype=np.int64)])
        self.saved = np.concatenate([self.saved, np.array([found.saved for found in more])])


class Score:
    """The callbacks of a session. What depends on the means is worked out once for each set of them."""

    def __init__(
        self,
        cluster: Cluster,
        weights: Weights,
        demand: Demand,
        card_requests: CardRequests,
        parts: CardParts,
        devices: KnownDevices,
    ) -> None:
        self._cluster = cluster
        self._weights = weights
        self._demand = demand
        self._card_requests = card_requests
        self._parts = parts
        self._devices = devices
        self._version = -1
        self._blocks: list[int] = [0]
        self._rests: list[int] = []
        self._in_blocks = 0
        self._losses = np.zeros(1, dtype=np.int64)
        self._cpu = self._memory = math.inf
        self._saved: Bounded[tuple[tuple[PartRequest, ...], tuple[int, ...]], Saved] = Bounded(_MOST_STATES)
        self._by_state: Bounded[tuple[PartRequest, ...], _ByState] = Bounded(_MOST_TABLES)

    def registered(self) -> Iterator[Rule]:
        """Return what is asked of nodes by their amounts, by their cards, and by what they say of themselves."""
        if self._devices.cards.is_any:
            yield self._device_rule(self.by_devices, self.shares_none, self.all_by_devices)
            yield self._device_rule(self.by_devices_and_cards, self.shares_cards)
            yield self._device_rule(self.by_model_of_task, self.may_take_cards, self.all_by_model_of_task)
            return
        yield self._rule(self.by_amounts, self.shares_none, self.all_by_amounts)
        yield self._rule(self.by_cards, self.shares_cards)
        yield self._rule(self.by_model, self.takes_cards, self.all_by_model)

    def _rule(self, fn: NodeOrderFn, applies: AppliesFn, vector: NodeOrderVectorFn | None = None) -> Rule:
        return NodeOrder(fn, vector=vector, applies_to=applies, key=self.key, version=self.version, within_session=True)

    def _device_rule(self, fn: NodeOrderFn, applies: AppliesFn, vector: NodeOrderVectorFn | None = None) -> Rule:
        return NodeOrder(
            fn, vector=vector, applies_to=applies, key=self.key_of_claims, version=self.version_with_devices
        )

    # -- what the framework asks --------------------------------------------------------------------------------------

    def key(self, task: TaskInfo) -> str:
        """Answers depend on the means alone, beside template and node."""
        return KEY

    def version(self, task: TaskInfo) -> int:
        """Change when any answer may have."""
        self._demand.refresh()
        return self._demand.version

    def key_of_claims(self, task: TaskInfo) -> Hashable:
        """Answers depend on what a pod's claims ask for, too."""
        return KEY, self._devices.claims.still_to_allocate(task)

    def version_with_devices(self, task: TaskInfo) -> Hashable:
        """Change when any answer may have; a change of devices of one node alone touches that."""
        return self.version(task), self._cluster.devices.version

    def shares_cards(self, template: PodTemplate) -> bool:
        """Whether pods of a template take parts of cards that are told apart."""
        self._demand.refresh()
        return bool(self._card_requests.of(template).parts)

    def shares_none(self, template: PodTemplate) -> bool:
        """Whether amounts tell all that pods of a template take; pods without cards are among them."""
        return not self.shares_cards(template)

    def takes_cards(self, template: PodTemplate) -> bool:
        """Whether pods of a template take any cards."""
        self._demand.refresh()
        return self._card_requests.of(template).cards > 0

    def may_take_cards(self, template: PodTemplate) -> bool:
        """Whether pods of a template may take any cards, by their claims perhaps."""
        return template.has_resource_claims or self.takes_cards(template)

    def by_amounts(self, template: PodTemplate, node: NodeAmounts) -> float:
        """Score a node of which amounts tell all."""
        self._keep_up()
        card_request = self._card_requests.of(template)
        return self._by_amounts(card_request, node, 0.0)

    def by_cards(self, template: PodTemplate, node: NodeInfo) -> float:
        """Score a node whose cards are told apart."""
        self._keep_up()
        card_request = self._card_requests.of(template)
        return self._by_amounts(card_request, node, self._cards_saved(card_request.parts, self._parts.free(node)))

    def by_model(self, template: PodTemplate, node: NodeFacts) -> float:
        """Take off what cards are worth to others who insist on them."""
        self._keep_up()
        return self._of_model(self._card_requests.of(template)) * self._scarce_on(node)

    def by_devices(self, task: TaskInfo, node: NodeInfo) -> float:
        """Score a node whose cards may be devices."""
        self._keep_up()
        card_request = self._request_of(task)
        return self._by_amounts(card_request, node, 0.0, self._on_devices(card_request, node))

    def by_devices_and_cards(self, task: TaskInfo, node: NodeInfo) -> float:
        """Score a node whose cards may be devices, for a pod that takes cards which are told apart otherwise."""
        self._keep_up()
        card_request = self._request_of(task)
        saved = self._cards_saved(card_request.parts, self._parts.free(node))
        return self._by_amounts(card_request, node, saved, self._on_devices(card_request, node))

    def by_model_of_task(self, task: TaskInfo, node: NodeFacts) -> float:
        """Take off what cards are worth to others who insist on them, of those that claims ask for, too."""
        self._keep_up()
        return self._of_model(self._request_of(task)) * self._scarce_on(node)

    # -- vector twins -------------------------------------------------------------------------------------------------

    def all_by_amounts(self, template: PodTemplate, nodes: NodeTable) -> Floats:
        """Answer as ``by_amounts``, for many nodes at once, in few operations: there are many templates."""
        self._keep_up()
        plan, columns, rows = _ScorePlan.of(self._card_requests.of(template)), nodes.columns, nodes.rows
        idle = columns.allocatable[plan.columns, rows] - columns.used[plan.columns, rows]
        both = idle - plan.amounts
        free = both[:, 2:] * plan.units // MILLI
        cards = (free[:, 0] if len(plan.units) == 1 else free.sum(axis=1)) / MILLI
        return self._scaled(self._weighed(plan, both, cards), both, cards)

    def all_by_devices(self, task: TaskInfo, nodes: NodeTable) -> Floats:
        """Answer as ``by_devices``, for many nodes at once."""
        self._keep_up()
        card_request, columns, rows = self._request_of(task), nodes.columns, nodes.rows
        plan, devices = _ScorePlan.of(card_request), self._devices.cards
        devices.refresh()
        both = columns.allocatable[plan.columns, rows] - columns.used[plan.columns, rows] - plan.amounts
        is_served = np.zeros(len(rows), dtype=np.bool_)
        for place, (offer, amount) in enumerate(card_request.amounts):
            left = columns.left_to_devices(offer.column, rows)
            both[:, 2 + place] *= ~left
            if amount:
                is_served |= left
        states = devices.numbers[rows]
        after, saved = self._by_states(card_request.devices, states)
        if is_served.any():
            after_served, saved_served = self._by_states(card_request.served, states)
            after, saved = np.where(is_served, after_served, after), np.where(is_served, saved_served, saved)
        free = (both[:, 2:] * plan.units // MILLI).sum(axis=1) + np.array([devices.free[rows], after])
        cards = free / MILLI
        return self._scaled(self._weighed(plan, both, cards) + saved, both, cards)

    def _weighed(self, plan: _ScorePlan, both: Ints, cards: Floats) -> Floats:
        """Weigh what a pod saves, by what is free before it and after it: columns of a plan, and cards in all."""
        lost = np.maximum(cards - np.minimum(both[:, 0] / self._cpu, both[:, 1] / self._memory), 0.0)
        score: Floats = self._weights.balance * (lost[0] - lost[1])
        for place in plan.whole:
            losses = self._losses.take(both[:, 2 + place] // MILLI, mode="clip")
            score = score + self._weights.block * ((losses[0] - losses[1]) / SHARES)
        return score

    def _scaled(self, score: Floats, both: Ints, cards: Floats) -> Floats:
        """Prefer the fullest of equal nodes, and count in points."""
        found: Floats = self._weights.scale * (score - BEST_FIT * cards[1] - BEST_FIT_CPU * both[1, 0])
        return found

    def _by_states(self, wanted: tuple[PartRequest, ...], states: Rows) -> tuple[Ints, Floats]:
        """Return what is free of cards that are devices after a pod, and what it saves, for nodes in these states."""
        table = self._by_state.recall(wanted)
        if table is None:
            table = self._by_state[wanted] = _ByState()
        unknown = self._devices.cards.states[len(table.after) :]
        if unknown:
            table.add([self._on_state(wanted, state) for state in unknown])
        return table.after[states], table.saved[states]

    def all_by_model(self, template: PodTemplate, nodes: NodeTable) -> Floats:
        """Answer as ``by_model``, for many nodes at once."""
        self._keep_up()
        return self._all_of_model(self._card_requests.of(template), nodes)

    def all_by_model_of_task(self, task: TaskInfo, nodes: NodeTable) -> Floats:
        """Answer as ``by_model_of_task``, for many nodes at once."""
        self._keep_up()
        return self._all_of_model(self._request_of(task), nodes)

    def _all_of_model(self, card_request: PodCards, nodes: NodeTable) -> Floats:
        scarce, rows = self._demand.scarce, nodes.rows
        found: Floats = self._of_model(card_request) * (scarce if rows is nodes.columns.all_rows else scarce[rows])
        return found

    # -- parts of the formula -----------------------------------------------------------------------------------------

    def _by_amounts(
        self,
        card_request: PodCards,
        node: NodeAmounts | NodeInfo,
        parts: float,
        devices: _OnDevices = _NO_DEVICES,
    ) -> float:
        """Score a node by its amounts; ``parts`` is what is saved on cards that are told apart, in cards."""
        allocatable, used, weights = node.allocatable, node.used, self._weights
        cpu, memory = allocatable[CPU] - used[CPU], allocatable[MEMORY] - used[MEMORY]
        free, after = devices.free, devices.after
        blocks = []
        for (column, unit, is_whole), amount in card_request.amounts:
            if column in devices.served:
                continue
            idle = allocatable[column] - used[column]
            free += idle * unit // MILLI
            after += (idle - amount) * unit // MILLI
            if is_whole and amount:
                blocks.append((self._block(idle) - self._block(idle - amount)) / SHARES)
        lost = self._unbalanced(free, cpu, memory) - self._unbalanced(
            after, cpu - card_request.cpu, memory - card_request.memory
        )
        score = weights.balance * lost
        for saved in blocks:
            score += weights.block * saved
        score += parts + devices.saved
        return weights.scale * (score - BEST_FIT * (after / MILLI) - BEST_FIT_CPU * (cpu - card_request.cpu))

    def _unbalanced(self, cards: int, cpu: int, memory: int) -> float:
        """Return the free cards that pods of mean size have no CPU or no memory for."""
        return max(cards / MILLI - min(cpu / self._cpu, memory / self._memory), 0.0)

    def _block(self, idle: int) -> int:
        """Return what of free whole cards (in thousandths) is in no block that pods want, in 1/32 of a card."""
        return self._blocks[min(max(idle // MILLI, 0), len(self._blocks) - 1)]

    def _request_of(self, task: TaskInfo) -> PodCards:
        """Return what a pod takes of cards, the devices left out that it has already."""
        template = task.template
        claimed = self._devices.claims.still_to_allocate(task) if template.has_resource_claims else NOTHING
        return self._card_requests.of(template, claimed)

    def _of_model(self, card_request: PodCards) -> float:
        return -self._weights.scale * self._weights.model * (card_request.cards / MILLI)

    def _scarce_on(self, node: NodeFacts) -> float:
        return float(self._demand.scarce[self._cluster.nodes[node.name].row])

    # -- cards that are told apart ------------------------------------------------------------------------------------

    def _on_devices(self, card_request: PodCards, node: NodeInfo) -> _OnDevices:
        """Return what a pod does to those cards of a node that are devices."""
        self._devices.cards.refresh()
        amounts, state = card_request.amounts, self._devices.cards.state(node)
        left = [(offer.column, amount) for offer, amount in amounts if node.leaves_to_devices(offer.column)]
        is_served = any(amount for _, amount in left)
        found = self._on_state(card_request.served if is_served else card_request.devices, state)
        return found._replace(served=tuple(column for column, _ in left))

    def _on_state(self, wanted: tuple[PartRequest, ...], state: State) -> _OnDevices:
        after = taken(state, wanted) if wanted else state
        return _OnDevices(free_in(state), free_in(after), self._cards_saved(wanted, state) if wanted else 0.0)

    def _cards_saved(self, wanted: tuple[PartRequest, ...], free: tuple[int, ...]) -> float:
        """Return what a pod takes out of blocks and rests, weighed, in cards."""
        saved, weights = self._saved_on(wanted, free), self._weights
        return (weights.block * saved.block + weights.parts * saved.parts) / (SHARES * WHOLE)

    def _saved_on(self, wanted: tuple[PartRequest, ...], free: tuple[int, ...]) -> Saved:
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
            self._losses = np.array(self._blocks)
            self._rests = means.part_losses()
            margin = self._weights.margin
            self._cpu, self._memory = margin * means.cpu, margin * means.memory
            self._in_blocks = means.in_blocks
            self._saved.clear()
            self._by_state.clear()


def taken(free: tuple[int, ...], wanted: tuple[PartRequest, ...]) -> tuple[int, ...]:
    """Return what is free of each card, ascending, after a pod: the tightest cards that have room, as mgpu packs."""
    left = list(free)
    for cards, percent in sorted(wanted, key=lambda one: (-one.percent, -one.cards)):
        fitting = [place for place, card in enumerate(left) if card >= percent][:cards]
        for place in fitting:
            left[place] -= percent
        left.sort()
    return tuple(left)
