"""Asks callbacks about nodes: one after the other, or many at once by vector twins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from volsched.framework.answers import as_mask, as_scores
from volsched.framework.columns.arrays import Floats, Mask, Rows
from volsched.framework.columns.tables import NodeColumns, PropertyColumns
from volsched.framework.columns.views import NodeTable, node_view
from volsched.framework.rules import BatchNodeOrder, NodeOrder, Predicate
from volsched.model.cluster import Cluster
from volsched.model.pods.task import TaskInfo


class AskedNodes:
    """The columns of nodes, and counters of questions.

    ``callbacks_asked`` counts calls of plain functions, ``rows_scored`` nodes or classes about which callbacks were
    asked, ``sweeps`` how often an entry looked through all nodes.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.columns = NodeColumns(cluster)
        self.properties = PropertyColumns(cluster)
        self.callbacks_asked = 0
        self.rows_scored = 0
        self.sweeps = 0

    def table(self, rows: Rows) -> NodeTable:
        """Some nodes, for vector twins."""
        return NodeTable(self.columns, self.properties, rows)

    def all(self) -> NodeTable:
        """Return all nodes, for vector twins."""
        return self.table(self.columns.all_rows)

    def passed(self, pod: Any, predicate: Predicate, rows: Rows, undecided: Mask) -> Mask:
        """Return a mask of the rows that a predicate admits; only undecided rows are asked with the plain function."""
        if predicate.vector is not None:
            return as_mask(predicate, predicate.vector(pod, self.table(rows)), len(rows))
        nodes, fn, view = self.cluster.rows, predicate.fn, predicate.signature.node
        asked = rows[undecided].tolist()
        self.callbacks_asked += len(asked)
        passed = undecided.copy()
        passed[undecided] = [fn(pod, node_view(view, nodes[row])) is None for row in asked]
        return passed

    def scores(self, pod: Any, order: NodeOrder, rows: Rows) -> Floats:
        """Return the scores of a node order for some rows."""
        if order.vector is not None:
            return as_scores(order, order.vector(pod, self.table(rows)), len(rows))
        nodes, fn, view = self.cluster.rows, order.fn, order.signature.node
        self.callbacks_asked += len(rows)
        return as_scores(order, [fn(pod, node_view(view, nodes[row])) for row in rows.tolist()], len(rows))

    def batch_scores(self, task: TaskInfo, batch: BatchNodeOrder, rows: Rows) -> Floats:
        """Return the scores of a batch order for some rows."""
        if batch.vector is not None:
            return batch.vector(task, self.table(rows))
        nodes = self.cluster.rows
        return np.array(batch.fn(task, [nodes[row] for row in rows]), dtype=np.float64)

    def with_scores(self, totals: Floats, task: TaskInfo, batches: Sequence[BatchNodeOrder], rows: Rows) -> Floats:
        """Totals with what some batch orders give these rows added, in order."""
        for batch in batches:
            totals = totals + self.batch_scores(task, batch, rows)
        return totals

    def being_freed(self) -> list[int]:
        """Return the rows with terminating or pipelined pods: there more than amounts decides."""
        return [node.row for node in self.cluster.node_cache.with_terminating_pods.values()]

    def asked_of_each(self, task: TaskInfo, predicates: Sequence[Predicate], rows: Rows) -> Rows:
        """Return the rows that predicates let pass which have to be asked for this very task."""
        for predicate in predicates:
            if not predicate.applies(task):
                continue
            if predicate.vector is not None:
                self.columns.refresh()
                rows = rows[as_mask(predicate, predicate.vector(predicate.pod(task), self.table(rows)), len(rows))]
            else:
                nodes = self.cluster.rows
                rows = rows[[predicate.ask(task, nodes[row]) is None for row in rows]]
        return rows
