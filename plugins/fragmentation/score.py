"""What the framework asks of the formula (``waste``): the score of nodes for a pod.

Cards that are devices are distinguished. They are no amounts of a node, so where any node has such cards other
callbacks are asked (``by_devices``), which look at the node itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

import numpy as np

from plugins.fragmentation.arguments import Weights
from plugins.fragmentation.card_requests import CardRequests, PodCards
from plugins.fragmentation.claims import NOTHING
from plugins.fragmentation.cluster_cards import MILLI
from plugins.fragmentation.demand import Demand, KnownDevices
from plugins.fragmentation.device_waste import DeviceWaste
from plugins.fragmentation.waste import ScorePlan, Waste
from volsched.plugin import (
    AppliesFn,
    Cluster,
    Floats,
    NodeAmounts,
    NodeInfo,
    NodeOrder,
    NodeOrderFn,
    NodeOrderVectorFn,
    NodePropertiesView,
    NodeTable,
    PodTemplate,
    Rule,
    TaskInfo,
    never,
)
from volsched.plugin.cards import CardParts

KEY: Final = "fragmentation"


class Score:
    """The callbacks of a session: which pods, nodes and answers the formula is asked about."""

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
        self._demand = demand
        self._card_requests = card_requests
        self._parts = parts
        self._devices = devices
        self._waste = Waste(weights, demand)
        self._device_waste = DeviceWaste(devices.cards, self._waste)

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
        return NodeOrder(fn, vector=vector, applies_to=applies, key=self.key, version=self.version, for_each_pod=never)

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
        """Change when any answer may have. A change of devices of one node alone touches that."""
        return self.version(task), self._cluster.devices.version

    def shares_cards(self, template: PodTemplate) -> bool:
        """True if pods of a template take parts of cards that are distinguished."""
        self._demand.refresh()
        return bool(self._card_requests.of(template).parts)

    def shares_none(self, template: PodTemplate) -> bool:
        """True if amounts tell all that pods of a template take. Pods without cards are among them."""
        return not self.shares_cards(template)

    def takes_cards(self, template: PodTemplate) -> bool:
        """True if pods of a template take any cards."""
        self._demand.refresh()
        return self._card_requests.of(template).cards > 0

    def may_take_cards(self, template: PodTemplate) -> bool:
        """True if pods of a template may take any cards, by their claims perhaps."""
        return template.has_resource_claims or self.takes_cards(template)

    def by_amounts(self, template: PodTemplate, node: NodeAmounts) -> float:
        """Score a node of which amounts tell all."""
        self._waste.refresh()
        card_request = self._card_requests.of(template)
        return self._waste.by_amounts(card_request, node, 0.0)

    def by_cards(self, template: PodTemplate, node: NodeInfo) -> float:
        """Score a node whose cards are distinguished."""
        self._waste.refresh()
        card_request = self._card_requests.of(template)
        saved = self._waste.waste_saved(card_request.parts, self._parts.free(node))
        return self._waste.by_amounts(card_request, node, saved)

    def by_model(self, template: PodTemplate, node: NodePropertiesView) -> float:
        """Take off what cards are worth to others who insist on them."""
        self._waste.refresh()
        return self._waste.of_model(self._card_requests.of(template)) * self._scarce_on(node)

    def by_devices(self, task: TaskInfo, node: NodeInfo) -> float:
        """Score a node whose cards may be devices."""
        self._waste.refresh()
        card_request = self._request_of(task)
        return self._waste.by_amounts(card_request, node, 0.0, self._device_waste.of_node(card_request, node))

    def by_devices_and_cards(self, task: TaskInfo, node: NodeInfo) -> float:
        """Score a node whose cards may be devices, for a pod that takes cards which are distinguished otherwise."""
        self._waste.refresh()
        card_request = self._request_of(task)
        saved = self._waste.waste_saved(card_request.parts, self._parts.free(node))
        return self._waste.by_amounts(card_request, node, saved, self._device_waste.of_node(card_request, node))

    def by_model_of_task(self, task: TaskInfo, node: NodePropertiesView) -> float:
        """Take off what cards are worth to others who insist on them, of those that claims ask for, too."""
        self._waste.refresh()
        return self._waste.of_model(self._request_of(task)) * self._scarce_on(node)

    # -- vector twins -------------------------------------------------------------------------------------------------

    def all_by_amounts(self, template: PodTemplate, nodes: NodeTable) -> Floats:
        """Answer as ``by_amounts``, for many nodes at once, in few operations: there are many templates."""
        self._waste.refresh()
        plan, columns, rows = ScorePlan.of(self._card_requests.of(template)), nodes.columns, nodes.rows
        idle = columns.allocatable[plan.columns, rows] - columns.used[plan.columns, rows]
        both = idle - plan.amounts
        free = both[:, 2:] * plan.units // MILLI
        cards = (free[:, 0] if len(plan.units) == 1 else free.sum(axis=1)) / MILLI
        return self._waste.scaled(self._waste.weighed(plan, both, cards), both, cards)

    def all_by_devices(self, task: TaskInfo, nodes: NodeTable) -> Floats:
        """Answer as ``by_devices``, for many nodes at once."""
        self._waste.refresh()
        card_request, columns, rows = self._request_of(task), nodes.columns, nodes.rows
        plan, devices = ScorePlan.of(card_request), self._devices.cards
        devices.refresh()
        both = columns.allocatable[plan.columns, rows] - columns.used[plan.columns, rows] - plan.amounts
        is_served = np.zeros(len(rows), dtype=np.bool_)
        for place, (offer, amount) in enumerate(card_request.amounts):
            left = columns.left_to_devices(offer.column, rows)
            both[:, 2 + place] *= ~left
            if amount:
                is_served |= left
        states = devices.numbers[rows]
        after, saved = self._device_waste.of_states(card_request.devices, states)
        if is_served.any():
            after_served, saved_served = self._device_waste.of_states(card_request.served, states)
            after, saved = np.where(is_served, after_served, after), np.where(is_served, saved_served, saved)
        free = (both[:, 2:] * plan.units // MILLI).sum(axis=1) + np.array([devices.free[rows], after])
        cards = free / MILLI
        return self._waste.scaled(self._waste.weighed(plan, both, cards) + saved, both, cards)

    def all_by_model(self, template: PodTemplate, nodes: NodeTable) -> Floats:
        """Answer as ``by_model``, for many nodes at once."""
        self._waste.refresh()
        return self._all_of_model(self._card_requests.of(template), nodes)

    def all_by_model_of_task(self, task: TaskInfo, nodes: NodeTable) -> Floats:
        """Answer as ``by_model_of_task``, for many nodes at once."""
        self._waste.refresh()
        return self._all_of_model(self._request_of(task), nodes)

    def _all_of_model(self, card_request: PodCards, nodes: NodeTable) -> Floats:
        scarce, rows = self._demand.scarce, nodes.rows
        of_rows = scarce if rows is nodes.columns.all_rows else scarce[rows]
        found: Floats = self._waste.of_model(card_request) * of_rows
        return found

    def _request_of(self, task: TaskInfo) -> PodCards:
        """Return what a pod takes of cards, the devices left out that it has already."""
        template = task.template
        claimed = self._devices.claims.still_to_allocate(task) if template.has_resource_claims else NOTHING
        return self._card_requests.of(template, claimed)

    def _scarce_on(self, node: NodePropertiesView) -> float:
        return float(self._demand.scarce[self._cluster.nodes[node.name].row])
