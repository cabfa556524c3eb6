"""What is asked of the callbacks of a session for one template, and in what order the answers are added up."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

from volsched.framework.columns.arrays import Floats
from volsched.framework.rules import NodeCallbacks, NodeOrder, Predicate
from volsched.model.cluster import Cluster
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodConstraints, PodRequest, PodTemplate


@dataclass(slots=True)
class Part:
    """One node order's share of a total: a vector that holds as long as the entry does, or a function to ask.

    ``place`` is where the order stands among those of the session, here and in other sessions.
    """

    place: int
    order: NodeOrder
    fixed: Floats | None


@dataclass(slots=True)
class Scoped:
    """A ``domain`` callback, and the version at which its answers were taken; ``place`` is among all callbacks."""

    place: int
    callback: Predicate | NodeOrder
    version: Hashable


class Question(NamedTuple):
    """A callback to ask about single nodes, and what it is given: ``pod``, None for the task; amounts or the node."""

    fn: Callable[[Any, Any], Any]
    pod: PodTemplate | PodRequest | PodConstraints | None
    of_amounts: bool

    @classmethod
    def of(cls, callback: Predicate | NodeOrder, task: TaskInfo) -> Question:
        """Return how a registered callback is asked about tasks of one template."""
        pod = None if callback.signature.pod == "task" else callback.pod(task)
        return cls(callback.fn, pod, callback.signature.node == "amounts")


def version_of(callback: Predicate | NodeOrder, task: TaskInfo, cluster: Cluster) -> Hashable:
    """Return what the answers of a ``domain`` callback about a task are as old as."""
    return callback.version(task) if callback.version is not None else cluster.clocks.standing


class Questions:
    """The callbacks that concern a template, those that are asked for each pod aside.

    ``checks`` and ``adds`` are what to ask about single nodes: predicates, and node orders or the vectors that stand
    for them. Where scores are kept by shape of node, the sum of the first ``leading`` of its lines comes first in the
    score of a node, then ``others``, in order: the number of another line, or a vector.
    """

    __slots__ = (
        "adds",
        "checks",
        "facts_predicates",
        "leading",
        "others",
        "parts",
        "row_predicates",
        "scoped",
        "static_predicates",
    )

    def __init__(self, callbacks: NodeCallbacks, task: TaskInfo, cluster: Cluster) -> None:
        predicates = [(place, p) for place, p in enumerate(callbacks.predicates) if p.speaks(task)]
        lasting = [(place, p) for place, p in predicates if p.scope not in ("static", "pod")]
        self.static_predicates = [(place, p) for place, p in predicates if p.scope == "static"]
        self.facts_predicates = [(place, p) for place, p in lasting if p.signature.node == "facts"]
        self.row_predicates = [(place, p) for place, p in lasting if p.signature.node != "facts"]
        orders = enumerate(callbacks.node_orders)
        self.parts = [Part(place, order, None) for place, order in orders if order.speaks(task)]
        every: list[Predicate | NodeOrder] = [*callbacks.predicates, *callbacks.node_orders]
        self.scoped = [
            Scoped(place, callback, version_of(callback, task, cluster))
            for place, callback in enumerate(every)
            if callback.scope == "domain" and callback.speaks(task)
        ]
        self.checks: list[Question] = []
        self.adds: list[tuple[Question, Floats | None]] = []
        self.leading = 0
        self.others: list[int | Floats] = []

    def renew(self, callbacks: NodeCallbacks) -> None:
        """Ask another session's functions, which stand in the same places."""
        predicates, orders = callbacks.predicates, callbacks.node_orders
        self.static_predicates = [(place, predicates[place]) for place, _ in self.static_predicates]
        self.facts_predicates = [(place, predicates[place]) for place, _ in self.facts_predicates]
        self.row_predicates = [(place, predicates[place]) for place, _ in self.row_predicates]
        for part in self.parts:
            part.order = orders[part.place]
        for scoped in self.scoped:
            of_order = scoped.place - len(predicates)
            scoped.callback = predicates[scoped.place] if of_order < 0 else orders[of_order]

    def gather(self, task: TaskInfo) -> None:
        """Lay out what is to be asked about single nodes; vectors that add nothing anywhere are left out."""
        self.checks = [Question.of(predicate, task) for _, predicate in self.row_predicates]
        counting = [part for part in self.parts if part.fixed is None or part.fixed.any()]
        self.adds = [(Question.of(part.order, task), part.fixed) for part in counting]

    def arrange(self) -> None:
        """Lay out the sum of the scores by shape and the vectors; without a score that is asked, of zeros."""
        lines = iter(range(len(self.adds)))
        summed: list[int | Floats] = [next(lines) if fixed is None else fixed for _, fixed in self.adds]
        if not any(isinstance(other, int) for other in summed):
            summed.insert(0, 0)
        self.leading = sum(1 for _ in takewhile(lambda other: isinstance(other, int), summed))
        self.others = summed[self.leading :]

    @property
    def scored(self) -> int:
        """How many node orders are asked about single nodes, of those that count anywhere."""
        return sum(fixed is None for _, fixed in self.adds)

    def asked(self) -> list[tuple[int, Predicate | NodeOrder]]:
        """What is asked about single nodes, each with its place among those of its sort."""
        orders = [(part.place, part.order) for part in self.parts if part.fixed is None]
        return [*self.row_predicates, *orders]

    @property
    def hold_in_steps(self) -> bool:
        """True if equal tasks may be placed in one step though a whole node is read: each such rule states that."""
        whole = (callback for _, callback in self.asked() if callback.signature.node == "node")
        return all(callback.key is not None and callback.for_each_pod is not None for callback in whole)

    def would_be_outdated(self, task: TaskInfo, cluster: Cluster) -> bool:
        """Return whether a ``domain`` callback has another version than when it was asked."""
        return any(scoped.version != version_of(scoped.callback, task, cluster) for scoped in self.scoped)

    def is_outdated(self, task: TaskInfo, cluster: Cluster) -> bool:
        """Whether a ``domain`` callback has another version than when it was asked; from now on it has not."""
        if all(scoped.version == version_of(scoped.callback, task, cluster) for scoped in self.scoped):
            return False
        for scoped in self.scoped:
            scoped.version = version_of(scoped.callback, task, cluster)
        return True

    def are_shown(self) -> set[str]:
        """What of nodes the ``domain`` callbacks are shown."""
        return {scoped.callback.signature.node for scoped in self.scoped}
