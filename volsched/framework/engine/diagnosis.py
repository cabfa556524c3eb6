"""Counts why nodes refuse a task, by message of the predicates.

Of nodes with the same message one is asked: a static predicate once for each class of nodes, and a predicate that
numbers its messages (``wordings``) once for each number.
"""

from __future__ import annotations

import numpy as np

from volsched.framework.answers import as_mask, ask_predicate, checked_refusal
from volsched.framework.callbacks import WordingsFn
from volsched.framework.columns.arrays import Mask, Rows
from volsched.framework.engine.nodes import AskedNodes
from volsched.framework.engine.property_classes import StaticAnswers
from volsched.framework.rules import NodeCallbacks, Predicate
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import DETAILED, NodeRefusals


class Diagnosis:
    """Counts refusals, with the columns and cached properties of nodes that an engine has."""

    def __init__(self, nodes: AskedNodes, static: StaticAnswers) -> None:
        self._nodes = nodes
        self._static = static

    def count(self, callbacks: NodeCallbacks, task: TaskInfo) -> NodeRefusals:
        """Return the counted refusals. A node counts once for each of its reasons."""
        self._nodes.properties.refresh()
        self._nodes.columns.refresh()
        found = NodeRefusals()
        undecided = np.ones(len(self._nodes.cluster.rows), dtype=np.bool_)
        self._static.refresh()
        for place, predicate in enumerate(callbacks.predicates):
            if not predicate.applies_to_task(task):
                continue
            if predicate.scope != "static":
                self._count_by_row(task, predicate, undecided, found)
                continue
            refused = undecided & ~self._static.mask(task, place, predicate)
            if refused.any():
                self._count_by_class(task, predicate, refused, found)
                undecided &= ~refused
        rows = np.flatnonzero(undecided)
        for column, amount in self._nodes.cluster.columns.request(task.template):
            lacks = self._nodes.columns.future_idle(column, rows) < amount
            short = int(np.count_nonzero(lacks & ~self._nodes.columns.left_to_devices(column, rows)))
            if short:
                for name in self._nodes.cluster.columns.names_of(task.template, column):
                    found.add(f"Insufficient {name}", short)
        return found

    def _count_by_class(self, task: TaskInfo, predicate: Predicate, refused: Mask, found: NodeRefusals) -> None:
        """Count a static predicate's refusals: one message for each class, or for all if it answers by vector."""
        if predicate.vector is not None:
            verdict = ask_predicate(predicate, task, self._nodes.cluster.rows[int(refused.argmax())])
            message, plugin = ("", predicate.plugin) if verdict is None else (verdict.message, verdict.plugin)
            found.add(message, int(np.count_nonzero(refused)), plugin)
            return
        answers, classes = self._static.by_class(predicate, predicate.pod(task))
        for answer, count in zip(answers, np.bincount(classes[refused], minlength=len(answers)), strict=True):
            verdict = checked_refusal(predicate, answer)
            if verdict is not None and count:
                found.add(verdict.message, int(count), verdict.plugin)

    def _count_by_row(self, task: TaskInfo, predicate: Predicate, undecided: Mask, found: NodeRefusals) -> None:
        rows = np.flatnonzero(undecided)
        if predicate.vector is not None:
            rows = rows[~as_mask(predicate, predicate.vector(predicate.pod(task), self._nodes.table(rows)), len(rows))]
        if predicate.vector is not None and predicate.wordings is not None and len(rows):
            rows = self._count_by_wording(task, predicate, predicate.wordings, rows, undecided, found)
        nodes = self._nodes.cluster.rows
        for row in rows:
            verdict = ask_predicate(predicate, task, nodes[row])
            if verdict is not None:
                found.add_verdict(verdict, nodes[row].name)
                undecided[row] = False

    def _count_by_wording(
        self,
        task: TaskInfo,
        predicate: Predicate,
        wordings: WordingsFn,
        rows: Rows,
        undecided: Mask,
        found: NodeRefusals,
    ) -> Rows:
        """Count refusals that many rows share. Return the other rows, each with a message of its own."""
        numbers = wordings(predicate.pod(task), self._nodes.table(rows))
        _, first, of_row, counts = np.unique(numbers, return_index=True, return_inverse=True, return_counts=True)
        for place, count in zip(first, counts, strict=True):
            verdict = ask_predicate(predicate, task, self._nodes.cluster.rows[rows[place]])
            if count > DETAILED and verdict is not None:
                found.add(verdict.message, int(count), verdict.plugin)
        detailed = counts[of_row] > DETAILED
        undecided[rows[detailed]] = False
        return rows[~detailed]
