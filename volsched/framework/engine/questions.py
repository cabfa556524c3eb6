"""The questions to the callbacks of a session for one template, and the order of their sums."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any, NamedTuple

from volsched.framework.columns.arrays import Floats
from volsched.framework.rules import NodeCallbacks, NodeOrder, Predicate
from volsched.model.cluster import Cluster
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodConstraints, PodRequest, PodTemplate


@dataclass(slots=True)
class Part:
    """One node order's part of a total: a vector that holds as long as the entry, or a function.

    ``place`` is the index of the order in the session, and in other sessions.
    """

    place: int
    order: NodeOrder
    fixed: Floats | None


@dataclass(slots=True)
class Scoped:
    """A ``domain`` callback, and the version at which its answers were taken. ``place`` is among all callbacks."""

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
    return callback.version(task) if callback.version is not None else cluster.generations.move


class Questions:
    """The callbacks that apply to a template, except those that are asked for each pod.

    ``checks`` and ``adds`` are the questions about single nodes: predicates, and node orders or their vectors. Those
    that read amounts have one answer for a class of nodes: ``class_checks`` and ``class_adds``, of which each has a
    line in the table of classes. ``whole`` are the predicates that read a whole node. The score of a node begins with
    the sum of the first ``leading`` lines of its class; then follow ``others``, in order: the number of another line, a
    vector, or a node order that reads a whole node. ``amounts_decide`` is True if no question is about a whole node.
    """

    __slots__ = (
        "adds",
        "amounts_decide",
        "checks",
        "class_adds",
        "class_checks",
        "leading",
        "others",
        "parts",
        "property_predicates",
        "row_predicates",
        "scoped",
        "static_predicates",
        "whole",
    )

    def __init__(self, callbacks: NodeCallbacks, task: TaskInfo, cluster: Cluster) -> None:
        predicates = [(place, p) for place, p in enumerate(callbacks.predicates) if p.applies_to_task(task)]
        lasting = [(place, p) for place, p in predicates if p.scope not in ("static", "pod")]
        self.static_predicates = [(place, p) for place, p in predicates if p.scope == "static"]
        self.property_predicates = [(place, p) for place, p in lasting if p.signature.node == "properties"]
        self.row_predicates = [(place, p) for place, p in lasting if p.signature.node != "properties"]
        orders = enumerate(callbacks.node_orders)
        self.parts = [Part(place, order, None) for place, order in orders if order.applies_to_task(task)]
        every: list[Predicate | NodeOrder] = [*callbacks.predicates, *callbacks.node_orders]
        self.scoped = [
            Scoped(place, callback, version_of(callback, task, cluster))
            for place, callback in enumerate(every)
            if callback.scope == "domain" and callback.applies_to_task(task)
        ]
        self.checks: list[Question] = []
        self.adds: list[tuple[Question, Floats | None]] = []
        self.class_checks: list[Question] = []
        self.class_adds: list[Question] = []
        self.leading = 0
        self.others: list[int | Floats | NodeOrder] = []
        self.whole: list[Predicate] = []
        self.amounts_decide = True

    def renew(self, callbacks: NodeCallbacks) -> None:
        """Ask another session's functions, which stand in the same places."""
        predicates, orders = callbacks.predicates, callbacks.node_orders
        self.static_predicates = [(place, predicates[place]) for place, _ in self.static_predicates]
        self.property_predicates = [(place, predicates[place]) for place, _ in self.property_predicates]
        self.row_predicates = [(place, predicates[place]) for place, _ in self.row_predicates]
        for part in self.parts:
            part.order = orders[part.place]
        for scoped in self.scoped:
            of_order = scoped.place - len(predicates)
            scoped.callback = predicates[scoped.place] if of_order < 0 else orders[of_order]

    def gather(self, task: TaskInfo) -> None:
        """Prepare the questions about single nodes. Vectors of zeros are left out."""
        self.checks = [Question.of(predicate, task) for _, predicate in self.row_predicates]
        counting = [part for part in self.parts if part.fixed is None or part.fixed.any()]
        self.adds = [(Question.of(part.order, task), part.fixed) for part in counting]
        self.class_checks = [question for question in self.checks if question.of_amounts]
        self.class_adds = [question for question, fixed in self.adds if fixed is None and question.of_amounts]
        self.whole = [predicate for _, predicate in self.row_predicates if not predicate.reads_amounts]
        self.amounts_decide = all(callback.reads_amounts for _, callback in self.asked())
        self._arrange(counting)

    def _arrange(self, counting: Iterable[Part]) -> None:
        """Prepare the sum of scores by class, vectors and other scores. Zeros if no score is asked."""
        lines = count()
        summed: list[int | Floats | NodeOrder] = [
            part.fixed if part.fixed is not None else next(lines) if question.of_amounts else part.order
            for part, (question, _) in zip(counting, self.adds, strict=True)
        ]
        if not any(isinstance(other, int) for other in summed):
            summed.insert(0, 0)
        self.leading = sum(1 for _ in takewhile(lambda other: isinstance(other, int), summed))
        self.others = summed[self.leading :]

    def asked(self) -> list[tuple[int, Predicate | NodeOrder]]:
        """Return the questions about single nodes, each with its index among those of its sort."""
        orders = [(part.place, part.order) for part in self.parts if part.fixed is None]
        return [*self.row_predicates, *orders]

    def asked_of_classes(self) -> list[tuple[int, Predicate | NodeOrder]]:
        """Return those of them that have one answer for a class of nodes."""
        return [(place, callback) for place, callback in self.asked() if callback.reads_amounts]

    @property
    def hold_in_steps(self) -> bool:
        """True if equal tasks may be placed in one step though a whole node is read: each such rule states that."""
        whole = (callback for _, callback in self.asked() if not callback.reads_amounts)
        return all(callback.key is not None and callback.for_each_pod is not None for callback in whole)

    def would_be_outdated(self, task: TaskInfo, cluster: Cluster) -> bool:
        """Return whether a ``domain`` callback has another version than when it was asked."""
        return any(scoped.version != version_of(scoped.callback, task, cluster) for scoped in self.scoped)

    def is_outdated(self, task: TaskInfo, cluster: Cluster) -> bool:
        """True if a ``domain`` callback has a new version since the last call."""
        if all(scoped.version == version_of(scoped.callback, task, cluster) for scoped in self.scoped):
            return False
        for scoped in self.scoped:
            scoped.version = version_of(scoped.callback, task, cluster)
        return True

    def node_views(self) -> set[str]:
        """Return the views of nodes that the ``domain`` callbacks read."""
        return {scoped.callback.signature.node for scoped in self.scoped}
