"""Whether a pod with cards may go on a node, how good it is there, and which cards it gets.

The two predicates and the score change nothing. Cards are chosen when a session puts a pod on a node, and noted in the
account of the node; that account alone undoes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np

from plugins.mgpu.devices import CORE, CORE_OF_CARD, MGPU, MILLI, NATIVE_BURST_SHARE, NodeCardState, count_of, policy_of
from plugins.mgpu.placement import Best, CardPlacementSearch, ContainerRequest, alike
from plugins.mgpu.requests import LONGEST_NAME, long_names
from plugins.mgpu.requests import PodRequest as PodCardRequest
from plugins.mgpu.results import without_results, written
from plugins.mgpu.states import NO_PLACEMENT, NodeStates, score_of
from plugins.mgpu.usage import CardAccount, NodeCardUsage
from volsched.plugin import (
    EventHandler,
    Floats,
    Mask,
    NodeAmounts,
    NodeInfo,
    NodeOrder,
    NodePropertiesView,
    NodeTable,
    PodRequest,
    PodTemplate,
    Predicate,
    PrePredicate,
    Rule,
    Scope,
    Step,
    TaskInfo,
    TaskStatus,
    Verdict,
    never,
)

NAME: Final = MGPU
REASON: Final = "FailedScheduling"
BEST_SCORE: Final = 10.0


def _node_refusal(message: str, *, resolvable: bool) -> Verdict:
    return Verdict(Step.PREDICATE, NAME, Scope.NODE, REASON, f"mgpu: {message}", resolvable=resolvable)


NO_CARDS: Final = _node_refusal("node has no mgpu cards", resolvable=False)
NOT_NATIVE: Final = _node_refusal("multi-card needs native-burst-share on pod and node", resolvable=False)
OTHER_POLICY: Final = _node_refusal("compute policy mismatch", resolvable=False)
UNCLEAR: Final = _node_refusal("node card state unknown", resolvable=False)
NO_FIT: Final = _node_refusal("no card combination fits", resolvable=True)
GIVEN_UP: Final = _node_refusal("no card combination was found before the search was given up", resolvable=True)


@lru_cache(maxsize=64)
def invalid_request(code: str) -> Verdict:
    """Refuse a node for a pod that breaks a rule."""
    return _node_refusal(f"invalid request {code}", resolvable=False)


@lru_cache(maxsize=256)
def too_few_cards(wanted: int, cards: int) -> Verdict:
    """Refuse a node that has fewer cards than one container wants."""
    return _node_refusal(f"container wants {wanted} cards, node has {cards}", resolvable=False)


class MgpuRules:
    """The callbacks of a session.

    ``weight`` is what a node with the best of all placements scores; ``by_id`` has the ids of cards written where a
    node tells them.
    """

    def __init__(self, usage: NodeCardUsage, search: CardPlacementSearch, *, weight: int, by_id: bool) -> None:
        self._usage = usage
        self._requests = usage.requests
        self._search = search
        self._states = NodeStates(usage, search)
        self.weight = weight * BEST_SCORE
        self._by_id = by_id

    def registered(self) -> Iterator[Rule]:
        """Return what the plugin registers of them."""
        yield PrePredicate(self.invalid, applies_to=self.applies, for_each_pod=never)
        yield Predicate(self.suits, applies_to=self.applies)
        yield Predicate(
            self.fits, vector=self.fitting, applies_to=self.applies, key=self.key, version=unchanged, for_each_pod=never
        )
        if self.weight:
            yield NodeOrder(
                self.score,
                vector=self.scores,
                applies_to=self.applies,
                key=self.key,
                version=unchanged,
                for_each_pod=never,
            )
            yield NodeOrder(self.spare, vector=self.spares, applies_to=self.wants_none)
        yield EventHandler(self, for_each_pod=self.applies, in_steps=True)

    def applies(self, template: PodTemplate) -> bool:
        """True if pods of a template want cards."""
        return self._usage.follows(template)

    def key(self, task: TaskInfo) -> tuple[ContainerRequest, ...]:
        """Return what a pod wants of the cards of a node."""
        return self._requests.of(task.template).asks

    # -- filter ---------------------------------------------------------------------------------------------------

    def invalid(self, task: TaskInfo) -> Verdict | None:
        """Refuse a pod that admission should not have let in."""
        wanted = self._requests.of(task.template)
        return self._invalid(wanted.request, task) if wanted.wants else None

    def _invalid(self, request: PodCardRequest, task: TaskInfo) -> Verdict | None:
        names = task.spec.containers
        if not request.faults and all(len(names[place]) <= LONGEST_NAME for place, _ in request.asks):
            return None
        faults = [*request.faults, *long_names(task.template.container_amounts, names)]
        message = f"mgpu: invalid request {faults[0].code}: {faults[0].text(task.spec.containers)}"
        return Verdict(Step.INVALID, NAME, Scope.POD, REASON, message, resolvable=False)

    def suits(self, template: PodTemplate, node: NodePropertiesView) -> Verdict | None:
        """Compare the node's own properties with what the pod wants: any cards, policies, number of cards."""
        request = self._requests.of(template).request
        cards, policy = count_of(node.labels, node.allocatable_of(CORE)), policy_of(node.labels)
        if request.faults:
            return invalid_request(request.faults[0].code)
        if not cards:
            return NO_CARDS
        if request.is_multi and not request.policy == policy == NATIVE_BURST_SHARE:
            return NOT_NATIVE
        if not request.is_whole and request.policy != policy:
            return OTHER_POLICY
        return too_few_cards(request.most_cards, cards) if request.most_cards > cards else None

    def fits(self, template: PodTemplate, node: NodeInfo) -> Verdict | None:
        """Ask whether any combination of cards has room for all containers at once.

        Where by the node's sums the pod has to wait for others to leave, the cards are looked at as they will be.
        """
        account = self._usage.nodes.get(node.name)
        if account is None:
            return NO_CARDS
        if account.unclear:
            return UNCLEAR
        best = self._best(template, node, account)
        if best.points is not None:
            return None
        return GIVEN_UP if best.truncated else NO_FIT

    def _best(self, template: PodTemplate, node: NodeInfo, account: CardAccount) -> Best:
        wanted = self._requests.of(template).asks
        if node.terminating_pods and not node.fits_idle(self._usage.cluster.columns.request(template)):
            return self._search.best(alike(_state_after_leaving(account, node)), wanted)
        return self._states.best(account, wanted)

    def fitting(self, template: PodTemplate, nodes: NodeTable) -> Mask:
        """Answer as ``fits``, for many nodes at once."""
        found: Mask = self._fullness(template, nodes) > NO_PLACEMENT
        return found

    def _fullness(self, template: PodTemplate, nodes: NodeTable) -> Floats:
        """Return how good the best placement on each node is, from 0 to 1; ``NO_PLACEMENT`` without any."""
        rows, cluster = nodes.rows, self._usage.cluster
        found = self._states.scores(self._requests.of(template).asks, rows)
        freed = [node.row for node in cluster.node_cache.with_terminating_pods.values()]
        for place in np.isin(rows, freed).nonzero()[0].tolist() if freed else ():
            node = cluster.rows[rows[place]]
            account = self._usage.nodes.get(node.name)
            if account is not None and not account.unclear:
                found[place] = self._score(template, node, account)
        return found

    # -- score ----------------------------------------------------------------------------------------------------

    def score(self, template: PodTemplate, node: NodeInfo) -> float:
        """Score a node by the best placement there: from 0 to 10, times the weight."""
        account = self._usage.nodes.get(node.name)
        if account is None or account.unclear:
            return 0.0
        return self.weight * max(0.0, self._score(template, node, account))

    def _score(self, template: PodTemplate, node: NodeInfo, account: CardAccount) -> float:
        best, cards = self._best(template, node, account), account.cards
        return score_of(best, self._search.strategy, cards.count, cards.memory)

    def scores(self, template: PodTemplate, nodes: NodeTable) -> Floats:
        """Answer as ``score``, for many nodes at once."""
        found: Floats = self.weight * np.maximum(0.0, self._fullness(template, nodes))
        return found

    def wants_none(self, template: PodTemplate) -> bool:
        """True if pods of a template want no card, and there are some that they could stand in the way of."""
        return self._usage.cluster.columns.find(CORE) is not None and not self.applies(template)

    def spare(self, _: PodRequest, node: NodeAmounts) -> float:
        """Score a node for pods without cards: from 10 where no card is free, the fewer are the better."""
        return self.weight / (1.0 + max(0, node.idle_of(CORE)) / (CORE_OF_CARD * MILLI))

    def spares(self, _: PodRequest, nodes: NodeTable) -> Floats:
        """Answer as ``spare``, for many nodes at once."""
        column = self._usage.cluster.columns.place(CORE)
        idle = nodes.columns.allocatable[column][nodes.rows] - nodes.columns.used[column][nodes.rows]
        found: Floats = self.weight / (1.0 + np.maximum(0, idle) / (CORE_OF_CARD * MILLI))
        return found

    # -- allocate -------------------------------------------------------------------------------------------------

    def allocate(self, task: TaskInfo) -> Verdict | None:
        """Choose cards for a task that has just been put on a node, and write them into what its Binding carries.

        One that is only promised room gets cards as they will be once those that are leaving have gone. Of a step only
        the first pod was asked about before, and others may have other names of containers.
        """
        node, wanted = task.node, self._requests.of(task.template)
        if node is None or not wanted.wants:
            return None
        refusal = self._invalid(wanted.request, task)
        if refusal is not None:
            return refusal
        account = self._usage.nodes.get(node.name)
        if account is None:
            return NO_CARDS
        if task.uid in account.holdings or task.uid in account.unclear:
            return None
        is_promise = task.status is TaskStatus.PIPELINED
        state = _state_after_leaving(account, node) if is_promise else account.state
        placement = self._search.place(state, wanted.shapes)
        if placement.lists is None:
            return GIVEN_UP if placement.truncated else NO_FIT
        if not is_promise:
            ids = account.cards.ids if self._by_id else ()
            results = written(wanted.request.asks, placement.lists, task.spec.containers, ids)
            others = without_results(task.bind_annotations) if task.bind_annotations else {}
            task.bind_annotations = {**others, **results}
        self._usage.hold(task, node, placement.lists)
        return None

    def deallocate(self, task: TaskInfo) -> None:
        """Take back what was chosen, in the Binding and in the account of the node."""
        if task.status is TaskStatus.ALLOCATED and task.bind_annotations:
            task.bind_annotations = without_results(task.bind_annotations) or None
            self._usage.give_back(task)


def unchanged(_: TaskInfo) -> int:
    """State that answers about a node change with that node alone."""
    return 0


def _state_after_leaving(account: CardAccount, node: NodeInfo) -> NodeCardState:
    return account.state_without(uid for uid, task in node.tasks.items() if task.status is TaskStatus.RELEASING)
