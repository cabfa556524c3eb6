"""The used amounts of the cards of each node, by pod.

Every pod that has a node holds its cards there: bound and not started, running, being deleted, also bound by another
scheduler. So do pods that a session has placed, or promised room to. Holdings are keyed by the uid of the pod, since a
pod that is made again has the name of the one before. What a pod holds is in its annotations, or in those that its
Binding is carrying, so these sums are the same after a restart.

Users who may edit a pod may change these annotations while it runs, and its containers go on using what they were
given. So what the API server showed first of a pod on its node counts until the pod has left it (node and annotations
are one write, the Binding): a *changed result* is reported and counted apart. Only a restart forgets that; the
ValidatingAdmissionPolicy of the component `card-results` keeps others from writing these annotations at all.

Where the annotations of a pod cannot be read, it is not known which cards it uses. Its node is then *unclear* and
gets no more pods with cards until that pod is gone or annotated: to guess would be to give the same memory away twice.

What is taken is kept exactly, also when it is more than a node (still) has; only what is free ends at zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from plugins.mgpu.devices import CORE, CORE_OF_CARD, MEMORY, Cards, FreeCard, NodeCardState, cards_of
from plugins.mgpu.placement import ContainerRequest, Lists, alike
from plugins.mgpu.requests import MIN_MEMORY, PodRequest, read, wants_cards
from plugins.mgpu.results import lists_of, only_results
from volsched.plugin import (
    ON_NODE,
    Cluster,
    FieldError,
    NodeInfo,
    NodeProperties,
    Observer,
    PodTemplate,
    TaskInfo,
    TaskStatus,
    keep,
    shortened,
)


class PodHolding(NamedTuple):
    """The cards that the containers of one pod have."""

    asks: tuple[ContainerRequest, ...]
    lists: Lists


class CardAllocation(NamedTuple):
    """What a pod was given on a node: what it asked for, and the annotations that state the cards of each container."""

    node: str
    request: PodRequest
    containers: Sequence[str]
    results: Mapping[str, str]

    def lists(self, cards: Cards) -> Lists:
        """Return the cards of each container. Raises FieldError when they cannot be told of a node with these cards."""
        return lists_of(self.request.asks, self.containers, self.results, cards)


@dataclass(slots=True)
class CardAccount:
    """The cards of one node, the holdings of pods by uid, and the reasons for pods with unknown holdings.

    ``changed`` are the pods whose annotations name other cards by now than they were given, with what they state.

    A node without cards has an account when something is wrong with it.
    ``used`` is what is taken of each card, by however much that is more than it has. ``number`` is that of the state
    of the cards (``NodeStates``), None after a change.
    """

    cards: Cards
    holdings: dict[str, PodHolding] = field(default_factory=dict)
    unclear: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    used: list[FreeCard] = field(init=False)
    number: int | None = None
    _state: NodeCardState | None = None
    _alike: NodeCardState | None = None

    def __post_init__(self) -> None:
        self.used = [FreeCard(0, 0)] * self.cards.count

    @property
    def state(self) -> NodeCardState:
        """Return what is free of each card."""
        if self._state is None:
            self._state = self._free(self.used) if self.holdings else self.cards.idle
        return self._state

    @property
    def alike(self) -> NodeCardState:
        """Return a key that is equal for accounts whose cards differ in their numbers alone."""
        if self._alike is None:
            self._alike = alike(self.state)
        return self._alike

    @property
    def overdrawn(self) -> list[int]:
        """Cards of which more is taken than there is."""
        return [
            index for index, used in enumerate(self.used) if used.core > CORE_OF_CARD or used.memory > self.cards.memory
        ]

    def state_without(self, uids: Iterable[str]) -> NodeCardState:
        """Return what will be free of each card once these pods have gone."""
        used = self.used
        for uid in uids:
            if uid in self.holdings:
                used = self._plus(used, self.holdings[uid], -1)
        return self._free(used)

    def hold(self, uid: str, holding: PodHolding) -> None:
        """Note what a pod holds."""
        self.release(uid)
        self.holdings[uid] = holding
        self._use(holding, 1)

    def release(self, uid: str) -> bool:
        """Give back what a pod holds, exactly. Return whether it was known at all."""
        was_unclear = self.unclear.pop(uid, None) is not None
        self.changed.pop(uid, None)
        holding = self.holdings.pop(uid, None)
        if holding is not None:
            self._use(holding, -1)
        return was_unclear or holding is not None

    def _use(self, holding: PodHolding, by: int) -> None:
        self.used = self._plus(self.used, holding, by)
        self._alike = None
        self.number = None
        if self._state is not None:
            cards = list(self._state.cards)
            for index in chain.from_iterable(holding.lists):
                cards[index] = self._left_by(self.used[index])
            self._state = NodeCardState(self.cards.memory, tuple(cards))

    def _plus(self, used: list[FreeCard], holding: PodHolding, by: int) -> list[FreeCard]:
        after = list(used)
        for ask, cards in zip(holding.asks, holding.lists, strict=True):
            memory = self.cards.memory if ask.is_whole else ask.memory
            for index in cards:
                core, taken, instances = after[index]
                after[index] = FreeCard(core + by * ask.core, taken + by * memory, instances + by)
        return after

    def _free(self, used: list[FreeCard]) -> NodeCardState:
        return NodeCardState(self.cards.memory, tuple(map(self._left_by, used)))

    def _left_by(self, used: FreeCard) -> FreeCard:
        """Return what is free of a card of which this is used."""
        core, memory, instances = used
        return FreeCard(max(0, CORE_OF_CARD - core), max(0, self.cards.memory - memory), instances)


class TemplateRequest(NamedTuple):
    """What was read of a template.

    ``shapes`` are what the containers want, in their order; ``asks`` the same, sorted. ``wants`` is True if any
    container names core or memory of cards.
    """

    template: PodTemplate
    request: PodRequest
    shapes: tuple[ContainerRequest, ...]
    asks: tuple[ContainerRequest, ...]
    wants: bool


class Requests:
    """The requests of templates, each read once."""

    def __init__(self, min_memory: int = MIN_MEMORY) -> None:
        self._min_memory = min_memory
        self._known: dict[int, TemplateRequest] = {}

    def of(self, template: PodTemplate) -> TemplateRequest:
        """Return what the pods of a template want."""
        found = self._known.get(template.id)
        if found is None or found.template is not template:
            amounts = template.container_amounts
            request = read(amounts, template.annotations, self._min_memory)
            shapes = request.shapes
            known = TemplateRequest(template, request, shapes, tuple(sorted(shapes)), wants_cards(amounts))
            found = keep(self._known, template, known)
        return found


class NodeCardUsage(Observer):
    """The accounts of all nodes with cards; they follow every move of a pod that wants cards.

    ``changed`` and ``renumbered`` are the names of nodes whose accounts changed: since the last session, and since
    ``NodeStates`` looked. ``version`` grows with each change of an account.
    """

    def __init__(self, cluster: Cluster, requests: Requests) -> None:
        self.cluster = cluster
        self.requests = requests
        self.nodes: dict[str, CardAccount] = {}
        self.changed: dict[str, None] = {}
        self.renumbered: set[str] = set()
        self.version = 0
        self._allocations: dict[str, CardAllocation] = {}
        self._left: set[str] = set()
        for node in cluster.rows:
            self._open(node)

    # -- following the cluster ------------------------------------------------------------------------------------

    def follows(self, template: PodTemplate) -> bool:
        """Return whether pods of this template want cards."""
        return self.requests.of(template).wants

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Follow one task. Cards of one that a session places are noted when they have been chosen."""
        was = node_before if node_before is not None and ON_NODE[before] else None
        now = task.node if task.node is not None and ON_NODE[task.status] else None
        if was is now:
            return
        if was is not None:
            self._release(task, was)
        if now is not None and task.status not in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED):
            self._take(task, now)

    def task_annotated(self, task: TaskInfo) -> None:
        """The annotations of a task with a node changed: read its cards again."""
        if task.node is not None and ON_NODE[task.status]:
            self._take(task, task.node)

    def node_changed(self, node: NodeInfo, before: NodeProperties | None) -> None:
        """Begin a node's account again when it offers other cards, from the pods that are there."""
        known = self.nodes.get(node.name)
        if (known.cards if known is not None else Cards()) != _cards_of(node):
            self._open(node)

    def node_removed(self, node: NodeInfo) -> None:
        """Close the account of a node."""
        if self.nodes.pop(node.name, None) is not None:
            self._mark(node)

    # -- accounts -------------------------------------------------------------------------------------------------

    def take_changed(self) -> dict[str, None]:
        """Return the nodes whose account changed since this was last called. Forget what pods had that have left."""
        changed, self.changed = self.changed, {}
        for uid in self._left:
            task, given = self.cluster.tasks.get(uid), self._allocations.get(uid)
            if given is not None and not _is_on(task, given.node):
                del self._allocations[uid]
        self._left.clear()
        return changed

    def hold(self, task: TaskInfo, node: NodeInfo, lists: Lists) -> None:
        """Note the cards that were chosen for a task."""
        self.nodes[node.name].hold(task.uid, PodHolding(self.requests.of(task.template).shapes, lists))
        self._note(node)

    def give_back(self, task: TaskInfo) -> None:
        """Forget the cards that were chosen for a task."""
        if task.node is not None:
            self._release(task, task.node)

    def _open(self, node: NodeInfo) -> None:
        cards = _cards_of(node)
        self._mark(node)
        if cards == Cards():
            self.nodes.pop(node.name, None)
            return
        self.nodes[node.name] = CardAccount(cards)
        for task in node.tasks.values():
            if self.follows(task.template):
                self._take(task, node)

    def _take(self, task: TaskInfo, node: NodeInfo) -> None:
        """Note what a pod with a node holds, by its annotations."""
        account = self.nodes.get(node.name)
        if account is None or not account.cards.count:
            return
        shown = CardAllocation(
            node.name, self.requests.of(task.template).request, task.spec.containers, only_results(results_of(task))
        )
        account.release(task.uid)
        given = self._allocations.get(task.uid)
        if given is not None and given.node == node.name and self._hold(task, account, given):
            self._compare(task, account, shown)
        else:
            self._believe(task, account, shown)
        self._note(node)

    def _believe(self, task: TaskInfo, account: CardAccount, shown: CardAllocation) -> None:
        """Take the annotations of a pod as its cards. What the API server showed first stays."""
        try:
            if not shown.request.is_clear:
                fault = next(fault for fault in shown.request.faults if fault.vague)
                raise FieldError(fault.field, f"{fault.code} {fault.text(task.spec.containers)}")
            lists = shown.lists(account.cards)
        except FieldError as error:
            account.unclear[task.uid] = f'pod "{task.key}": {error}'
        else:
            account.hold(task.uid, PodHolding(shown.request.shapes, lists))
            if not task.bind_annotations:
                self._allocations[task.uid] = shown

    def _hold(self, task: TaskInfo, account: CardAccount, given: CardAllocation) -> bool:
        """Note what a pod was given; False when the node has other cards now, so that it means nothing."""
        try:
            lists = given.lists(account.cards)
        except FieldError:
            return False
        account.hold(task.uid, PodHolding(given.request.shapes, lists))
        return True

    def _compare(self, task: TaskInfo, account: CardAccount, shown: CardAllocation) -> None:
        """Note it when a pod shows something else than it holds by what it was given."""
        try:
            is_same = PodHolding(shown.request.shapes, shown.lists(account.cards)) == account.holdings[task.uid]
        except FieldError:
            is_same = False
        if not is_same:
            text = ", ".join(f"{key}={shortened(text, 40)!r}" for key, text in sorted(shown.results.items()))
            account.changed[task.uid] = text or "no result"

    def _release(self, task: TaskInfo, node: NodeInfo) -> None:
        if task.uid in self._allocations:
            self._left.add(task.uid)
        account = self.nodes.get(node.name)
        if account is not None and account.release(task.uid):
            self._note(node)

    def _note(self, node: NodeInfo) -> None:
        self._mark(node)
        self.cluster.node_cache.touch(node)

    def _mark(self, node: NodeInfo) -> None:
        self.changed[node.name] = None
        self.renumbered.add(node.name)
        self.version += 1


def results_of(task: TaskInfo) -> Mapping[str, str]:
    """Return the annotations of a pod with a node, with those that its Binding still carries."""
    return {**task.spec.annotations, **task.bind_annotations} if task.bind_annotations else task.spec.annotations


def _is_on(task: TaskInfo | None, node: str) -> bool:
    return task is not None and task.node is not None and task.node.name == node and ON_NODE[task.status]


def _cards_of(node: NodeInfo) -> Cards:
    return cards_of(node.labels, node.annotations, node.allocatable_of(CORE), node.allocatable_of(MEMORY))
