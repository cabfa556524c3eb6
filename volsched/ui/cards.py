"""The cards of all nodes. A node's are listed again after a change of it."""

from __future__ import annotations

from collections.abc import Iterable

from volsched.diagnose.card_states import CardBar, CardSums, FreeCards, with_states
from volsched.diagnose.cards import (
    STANDARD,
    CardNames,
    Device,
    NodeCards,
    by_model,
    cards_of_node,
    devices_of_claim,
    holders_of_claim,
    node_of_slice,
    pool_of_slice,
)
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put
from volsched.model.cluster import Cluster
from volsched.model.dra.api import ResourceClaim, ResourceSlice
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus


class LiveCards(Observer):
    """Call ``take`` with each change, before the mirror has it. ``all`` lists what there is as the mirror has it now.

    While ``is_hearing`` is False, moves are those of a session, which are taken back.
    """

    def __init__(self, cluster: Cluster, names: CardNames = STANDARD) -> None:
        self.is_hearing = True
        self._names = names
        self._cluster = cluster
        self._nodes: dict[str, api.Node] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._slices_of: dict[str, dict[str, ResourceSlice]] = {}
        self._node_of_pool: dict[tuple[str, str], str] = {}
        self._claims: dict[str, ResourceClaim] = {}
        self._claims_on: dict[Device, dict[str, list[str]]] = {}
        self._touched: set[str] = set()
        self._free = FreeCards()
        self._sums = CardSums()
        self._bars: tuple[CardBar, ...] = ()
        self._cards: dict[str, tuple[NodeCards, ...]] = {}
        self._all: tuple[NodeCards, ...] = ()
        cluster.observe(self)

    def all(self) -> tuple[NodeCards, ...]:
        """Return all cards, by model and node."""
        if self._touched:
            for name in self._touched:
                self._list_again(name)
            self._touched.clear()
            self._all = tuple(sorted((each for cards in self._cards.values() for each in cards), key=by_model))
            self._bars = self._sums.bars()
        return self._all

    def bars(self) -> tuple[CardBar, ...]:
        """Return the cards of each model by state, as of the last call of ``all``."""
        return self._bars

    def use_free(self, free_cards: FreeCards) -> None:
        """Take in the states of free cards."""
        self._touched.update(free_cards.differing(self._free))
        self._free = free_cards

    def use(self, names: CardNames) -> None:
        """Name cards in another way from now on."""
        self._names = names
        self._touched.update(self._nodes)

    def _list_again(self, name: str) -> None:
        slices = self._slices_of.get(name, {}).values()
        info = self._cluster.nodes.get(name)
        cards = cards_of_node(name, self._nodes.get(name), info, slices, self._holder_of, self._names)
        found = tuple(with_states(each, info, self._free) for each in cards)
        self._sums.put(name, found)
        if found:
            self._cards[name] = found
        else:
            self._cards.pop(name, None)

    def _holder_of(self, device: Device) -> str:
        return ", ".join(sorted({pod for pods in self._claims_on.get(device, {}).values() for pod in pods}))

    # -- objects ------------------------------------------------------------------------------------------------------

    def take(self, change: Change) -> None:
        """Take in a change of what offers cards, and of who holds devices."""
        match change:
            case Put(api.Node() as node):
                self._nodes[node.metadata.name] = node
                self._touched.add(node.metadata.name)
            case Put(ResourceSlice() as found):
                self._drop_slice(found.metadata.name)
                self._put_slice(found)
            case Put(ResourceClaim() as claim):
                self._drop_claim(claim.key)
                self._put_claim(claim)
            case Deleted("Node"):
                self._nodes.pop(change.name, None)
                self._touched.add(change.name)
            case Deleted("ResourceSlice"):
                self._drop_slice(change.name)
            case Deleted("ResourceClaim"):
                self._drop_claim(f"{change.namespace}/{change.name}")

    def _put_slice(self, found: ResourceSlice) -> None:
        node = node_of_slice(found)
        if node:
            self._slices[found.metadata.name] = found
            self._slices_of.setdefault(node, {})[found.metadata.name] = found
            self._node_of_pool[pool_of_slice(found)] = node
            self._touched.add(node)

    def _drop_slice(self, name: str) -> None:
        found = self._slices.pop(name, None)
        if found is not None:
            node = node_of_slice(found)
            self._slices_of[node].pop(name)
            self._touched.add(node)

    def _put_claim(self, claim: ResourceClaim) -> None:
        self._claims[claim.key] = claim
        for device in devices_of_claim(claim):
            self._claims_on.setdefault(device, {})[claim.key] = holders_of_claim(claim)
            self._touch_pool(device)

    def _drop_claim(self, key: str) -> None:
        claim = self._claims.pop(key, None)
        for device in devices_of_claim(claim) if claim is not None else ():
            on_it = self._claims_on.get(device, {})
            on_it.pop(key, None)
            if not on_it:
                self._claims_on.pop(device, None)
            self._touch_pool(device)

    def _touch_pool(self, device: Device) -> None:
        node = self._node_of_pool.get(device[:2])
        if node is not None:
            self._touched.add(node)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Hear that a pod left a node, or came to one."""
        if self.is_hearing:
            self._touch(each for each in (node_before, task.node) if each is not None)

    def node_changed(self, node: NodeInfo, before: NodeProperties | None) -> None:
        """Hear that a node offers something else."""
        self._touch((node,))

    def _touch(self, nodes: Iterable[NodeInfo]) -> None:
        self._touched.update(node.name for node in nodes)
