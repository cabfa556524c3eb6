"""Node classes by properties: a static callback is asked once for all nodes that agree in what it reads."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import numpy as np

from volsched.framework.answers import as_mask, as_scores
from volsched.framework.columns.arrays import Floats, Mask, Rows
from volsched.framework.columns.tables import Path
from volsched.framework.columns.views import NodePropertiesView
from volsched.framework.engine.nodes import AskedNodes
from volsched.framework.rules import NodeOrder, Predicate
from volsched.model.pods.task import TaskInfo

_BYTES: Final = 32 << 20
_FEWEST: Final = 32
"""Vectors that are kept however large they are."""
_MOST: Final = 4_096
"""The most vectors that are kept, however small they are."""


class StaticAnswers:
    """The answers of static callbacks, by row of the cluster. Results are shared: do not write into them."""

    def __init__(self, nodes: AskedNodes) -> None:
        self._nodes = nodes
        self._view = NodePropertiesView()
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
        end = self._nodes.cluster.node_cache.properties_log.end
        if self._position != end or self._is_full():
            self._position = end
            self.forget()

    def _is_full(self) -> bool:
        kept, vectors = len(self._masks) + 8 * len(self._scores), len(self._masks) + len(self._scores)
        return vectors > _MOST or (kept * len(self._nodes.cluster.rows) > _BYTES and vectors > _FEWEST)

    def mask(self, task: TaskInfo, place: int, predicate: Predicate) -> Mask:
        """Return a mask of the nodes that the predicate at this index admits."""
        pod = predicate.pod(task)
        found = self._masks.get((place, pod))
        if found is None:
            found = self._masks[place, pod] = self._ask_mask(pod, predicate)
        return found

    def _ask_mask(self, pod: Any, predicate: Predicate) -> Mask:
        if predicate.vector is not None:
            table = self._nodes.all()
            return as_mask(predicate, predicate.vector(pod, table), len(table.rows))
        answers, classes = self.by_class(predicate, pod)
        found: Mask = np.array([answer is None for answer in answers], dtype=np.bool_)[classes]
        return found

    def scores(self, task: TaskInfo, place: int, order: NodeOrder) -> Floats:
        """Return the scores of all nodes by the node order at this index."""
        pod = order.pod(task)
        found = self._scores.get((place, pod))
        if found is None:
            found = self._scores[place, pod] = self._ask_scores(pod, order)
        return found

    def _ask_scores(self, pod: Any, order: NodeOrder) -> Floats:
        if order.vector is not None:
            table = self._nodes.all()
            return as_scores(order, order.vector(pod, table), len(table.rows))
        answers, classes = self.by_class(order, pod)
        found: Floats = as_scores(order, answers, len(answers))[classes]
        return found

    def by_class(self, callback: Predicate | NodeOrder, pod: Any) -> tuple[list[Any], Rows]:
        """Return the answer for each class, and each row's class.

        The function is asked about one node of each class. If it reads further properties, the classes are made again.
        """
        rows = self._nodes.cluster.rows
        reads = self._reads.get(id(callback), ())
        while True:
            classes, firsts = self._nodes.properties.classes(reads)
            answers: list[Any] = []
            known = set(reads)
            for row in firsts:
                view = self._view.show(rows[row])
                answers.append(callback.fn(pod, view))
                self._nodes.callbacks_asked += 1
                if not view.reads <= known:
                    known |= view.reads
                    break
            else:
                self._reads[id(callback)] = reads
                return answers, classes
            reads = tuple(sorted(known))
