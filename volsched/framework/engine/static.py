"""The answers of callbacks of scope ``static``, asked once for all nodes that are equal in what was read.

An answer in which the template's amounts were not read is given to all templates that differ in nothing else: a team's
jobs ask for the same models and zones in many sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

import numpy as np

from volsched.framework.answers import as_mask, as_scores
from volsched.framework.columns.arrays import Floats, Mask, Rows
from volsched.framework.columns.columns import Path
from volsched.framework.columns.views import ConstraintReader, NodeFacts
from volsched.framework.engine.nodes import AskedNodes
from volsched.framework.rules import NodeOrder, Predicate
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate

Answers = TypeVar("Answers", Mask, Floats)

_BYTES: Final = 32 << 20
_FEWEST: Final = 32
"""So many vectors are kept however large they are."""
_MOST: Final = 4_096
"""So many are kept however small they are: each has a key that states all that a template states."""


class StaticAnswers:
    """The answers of static callbacks, by node. What is returned is shared: nobody may write into it."""

    def __init__(self, nodes: AskedNodes) -> None:
        self._nodes = nodes
        self._view = NodeFacts()
        self._reads: dict[int, tuple[Path, ...]] = {}
        self._masks: dict[Hashable, Mask] = {}
        self._scores: dict[Hashable, Floats] = {}
        self._position = 0

    def forget(self) -> None:
        """Ask everything again."""
        self._masks.clear()
        self._scores.clear()

    def open(self) -> None:
        """Forget by which callbacks what was read: those of another session are other functions."""
        self._reads.clear()

    def refresh(self) -> None:
        """Forget the answers when nodes' own properties have changed."""
        end = self._nodes.cluster.node_ledger.facts_log.end
        if self._position != end or self._is_full():
            self._position = end
            self.forget()

    def _is_full(self) -> bool:
        kept, vectors = len(self._masks) + 8 * len(self._scores), len(self._masks) + len(self._scores)
        return vectors > _MOST or (kept * len(self._nodes.cluster.rows) > _BYTES and vectors > _FEWEST)

    def mask(self, task: TaskInfo, place: int, predicate: Predicate, constraints: Hashable) -> Mask:
        """Which nodes the predicate in this place lets pass."""
        return _kept(self._masks, place, constraints, task, lambda template: self._ask_mask(template, predicate))

    def _ask_mask(self, template: PodTemplate, predicate: Predicate) -> Mask:
        if predicate.vector is not None:
            table = self._nodes.all()
            return as_mask(predicate, predicate.vector(template, table), len(table.rows))
        answers, classes = self.by_class(predicate, template)
        found: Mask = np.array([answer is None for answer in answers], dtype=np.bool_)[classes]
        return found

    def scores(self, task: TaskInfo, place: int, order: NodeOrder, constraints: Hashable) -> Floats:
        """What the node order in this place gives all nodes."""
        return _kept(self._scores, place, constraints, task, lambda template: self._ask_scores(template, order))

    def _ask_scores(self, template: PodTemplate, order: NodeOrder) -> Floats:
        if order.vector is not None:
            table = self._nodes.all()
            return as_scores(order, order.vector(template, table), len(table.rows))
        answers, classes = self.by_class(order, template)
        found: Floats = as_scores(order, answers, len(answers))[classes]
        return found

    def by_class(self, callback: Predicate | NodeOrder, template: PodTemplate) -> tuple[list[Any], Rows]:
        """Ask once per class of nodes; the classes are found by watching what the function reads.

        The answer for each class, and each row's class.
        """
        rows = self._nodes.cluster.rows
        reads = self._reads.get(id(callback), ())
        while True:
            classes, firsts = self._nodes.facts.classes(reads)
            answers: list[Any] = []
            known = set(reads)
            for row in firsts:
                view = self._view.show(rows[row])
                answers.append(callback.fn(template, view))
                self._nodes.callbacks_asked += 1
                if not view.reads <= known:
                    known |= view.reads
                    break
            else:
                self._reads[id(callback)] = reads
                return answers, classes
            reads = tuple(sorted(known))


def _kept(
    known: dict[Hashable, Answers],
    place: int,
    constraints: Hashable,
    task: TaskInfo,
    ask: Callable[[PodTemplate], Answers],
) -> Answers:
    """The answers of a callback for templates of equal constraints, asked for once unless it reads amounts."""
    found = known.get((place, constraints))
    if found is None:
        reader = ConstraintReader(task.template)
        found = ask(reader.shown)
        if not reader.read_more:
            known[place, constraints] = found
    return found
