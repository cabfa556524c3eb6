"""The nodes and the cards of all nodes. A node's are listed again after a change of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

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
from volsched.diagnose.nodes import CardOwner, NodeState, owner_of, state_of_node
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put
from volsched.model.cluster import Cluster
from volsched.model.dra.api import ResourceClaim, ResourceSlice
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus

_MOST_VALUES: Final = 500
"""A label with more values is that of single nodes, and makes no groups."""


class LiveCards(Observer):
    """Call ``take`` with each change, before the mirror has it. ``all`` and ``nodes`` list what the mirror has now.

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
        self._states: dict[str, NodeState] = {}
        self._all_states: tuple[NodeState, ...] = ()
        self._owners: dict[str, CardOwner] = {}
        self._promised: dict[str, list[str]] = {}
        self._namespaces = Counter[str]()
        self._values: dict[str, Counter[str]] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        cluster.observe(self)

    def all(self) -> tuple[NodeCards, ...]:
        """Return all cards, by model and node."""
        self._catch_up()
        return self._all

    def nodes(self) -> tuple[NodeState, ...]:
        """Return all nodes, by name. A node that has not changed is the same object as before."""
        self._catch_up()
        return self._all_states

    def node(self, name: str) -> api.Node | None:
        """Return the object of a node."""
        return self._nodes.get(name)

    @property
    def namespaces(self) -> frozenset[str]:
        """Return the namespaces of pods on cards."""
        return frozenset(self._namespaces)

    @property
    def group_labels(self) -> tuple[str, ...]:
        """Return the labels of nodes by which nodes can be grouped: several nodes share a value of each."""
        nodes = len(self._nodes)
        found = (name for name, values in self._values.items() if len(values) <= _MOST_VALUES)
        return tuple(sorted(name for name in found if len(self._values[name]) < nodes))

    def _catch_up(self) -> None:
        self._note_promises()
        if self._touched:
            for name in self._touched:
                self._list_again(name)
            self._touched.clear()
            self._all = tuple(sorted((each for cards in self._cards.values() for each in cards), key=by_model))
            self._all_states = tuple(self._states[name] for name in sorted(self._states))
            self._bars = self._sums.bars()

    def _note_promises(self) -> None:
        """Touch the nodes whose promises have changed."""
        promised: dict[str, list[str]] = {}
        for task in self._cluster.nominated.values():
            promised.setdefault(task.nominated, []).append(task.key)
        before, self._promised = self._promised, promised
        for name in before.keys() | promised.keys():
            if name in self._nodes and sorted(before.get(name, ())) != sorted(promised.get(name, ())):
                self._touched.add(name)

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
        node, info = self._nodes.get(name), self._cluster.nodes.get(name)
        cards = cards_of_node(name, node, info, slices, self._holder_of, self._names)
        found = tuple(with_states(each, info, self._free) for each in cards)
        self._sums.put(name, found)
        if not found:
            self._cards.pop(name, None)
        elif found != self._cards.get(name):
            self._cards[name] = found
        self._list_state_again(name, node, info)

    def _list_state_again(self, name: str, node: api.Node | None, info: NodeInfo | None) -> None:
        before = self._states.get(name)
        after = None
        if node is not None:
            promised = self._promised.get(name, ())
            after = state_of_node(node, info, self._cards.get(name, ()), self._owner_of, promised)
        if after == before:
            return
        self._namespaces -= Counter(_namespaces_on(before))
        self._namespaces += Counter(_namespaces_on(after))
        if after is not None:
            self._states[name] = after
        else:
            self._states.pop(name, None)

    def _owner_of(self, job: JobInfo) -> CardOwner:
        """Return the owner of a job's cards: one object for all of its cards."""
        found = owner_of(job)
        if self._owners.get(job.key) != found:
            self._owners[job.key] = found
        return self._owners[job.key]

    def _holder_of(self, device: Device) -> str:
        return ", ".join(sorted({pod for pods in self._claims_on.get(device, {}).values() for pod in pods}))

    # -- objects ------------------------------------------------------------------------------------------------------

    def take(self, change: Change) -> None:
        """Take in a change of what offers cards, and of who holds devices."""
        match change:
            case Put(api.Node() as node):
                self._nodes[node.metadata.name] = node
                self._count_labels(node.metadata.name, node.metadata.labels)
                self._touched.add(node.metadata.name)
            case Put(ResourceSlice() as found):
                self._drop_slice(found.metadata.name)
                self._put_slice(found)
            case Put(ResourceClaim() as claim):
                self._drop_claim(claim.key)
                self._put_claim(claim)
            case Deleted("Node"):
                self._nodes.pop(change.name, None)
                self._count_labels(change.name, {})
                self._touched.add(change.name)
            case Deleted("ResourceSlice"):
                self._drop_slice(change.name)
            case Deleted("ResourceClaim"):
                self._drop_claim(f"{change.namespace}/{change.name}")

    def _count_labels(self, name: str, labels: Mapping[str, str]) -> None:
        before = self._labels.get(name, {})
        if before == labels:
            return
        for label, value in before.items():
            self._values[label] -= Counter((value,))
            if not self._values[label]:
                del self._values[label]
        for label, value in labels.items():
            self._values.setdefault(label, Counter())[value] += 1
        if labels:
            self._labels[name] = labels
        else:
            self._labels.pop(name, None)

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

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Hear that a job has another queue or workload, or is gone."""
        if not self.is_hearing or job.key not in self._owners:
            return
        if gone:
            del self._owners[job.key]
        elif self._owners[job.key] != owner_of(job):
            self._touch(task.node for task in job.tasks.values() if task.node is not None)

    def _touch(self, nodes: Iterable[NodeInfo]) -> None:
        self._touched.update(node.name for node in nodes)


def _namespaces_on(state: NodeState | None) -> set[str]:
    """Return the namespaces that the cards of a node name."""
    cells = (cell for cards in state.cards for cell in cards.cells if cell.holder) if state is not None else ()
    found = {pod.partition("/")[0] for cell in cells for pod in cell.holder.split(", ")}
    return found | {pod.partition("/")[0] for pod in (state.promised if state is not None else ())}
