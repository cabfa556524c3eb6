"""The fast engine: finds nodes for a task, with answers that equal tasks share.

An entry has the total score of each node for one template, or minus infinity if the node refuses it. Of equal scores
the first row wins, which is the first name. Questions about one task alone are asked beside the entries. The engine
also tells why nodes refuse a task.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Protocol

import numpy as np

from volsched.framework.callbacks import KeyFn
from volsched.framework.columns.arrays import Floats, Rows
from volsched.framework.engine.diagnosis import Diagnosis
from volsched.framework.engine.entries import Entries
from volsched.framework.engine.entry import Entry, could_go
from volsched.framework.engine.plain import (
    Ranked,
    chosen_first,
    is_shared_in_queue,
    kind_keys,
    kind_of,
    refused_from_afar,
    scores_of,
)
from volsched.framework.rules import BatchNodeOrder, NodeCallbacks, Predicate
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import NodeRefusals


class Engine(Protocol):
    """Answers about tasks and nodes; the fast one and the naive one agree bit for bit."""

    cluster: Cluster

    def open(self, callbacks: NodeCallbacks) -> None:
        """Use these callbacks from now on."""

    def new_instance(self) -> Engine:
        """Return an empty engine of the same kind, for use after a callback failed in this one."""

    def best(self, task: TaskInfo) -> NodeInfo | None:
        """Return the best node with room now; else the best that will have room, or None when no node will do."""

    def later(self, task: TaskInfo) -> NodeInfo | None:
        """Return the best node that has no room now and will have it once others have left."""

    def places(self, tasks: Sequence[TaskInfo]) -> Iterator[NodeInfo]:
        """Yield the best node with room now for each of some equal tasks of one job.

        It ends where more than the nodes' amounts decides, at the latest before a task without room. The caller puts
        each task on its node before it asks for the next one, and changes nothing else meanwhile.
        """

    def admits(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if the task may go on this node, now or once it has room."""

    def refused_from_afar(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if a rule that reads more than the pod and the node refuses the task on this node."""

    def kind(self, task: TaskInfo) -> Hashable:
        """Return the key of tasks that can go to the same nodes, as far as pods share answers."""

    def is_shared_in_queue(self, task: TaskInfo) -> bool:
        """True if all equal pods of the task's queue have the same key."""

    def no_node_fits(self, task: TaskInfo) -> bool:
        """True if no node has room, now or later, for any task of this key, as far as the engine knows."""

    def choices(self, task: TaskInfo) -> list[NodeInfo]:
        """Return the nodes where the task can go now, best first. The first is the best node, if any has room now."""

    def ranked(self, task: TaskInfo) -> Ranked:
        """Return the nodes where the task could go if others left, best first: eviction can change their refusals."""

    def hopeful(self, task: TaskInfo) -> Iterator[NodeInfo]:
        """Yield the nodes where the task could go without other pods and temporary refusals, by name.

        They are found one after the other: a caller that needs a few pays only for these.
        """

    def refusals(self, task: TaskInfo) -> NodeRefusals:
        """Return the counted reasons why nodes refuse the task."""

    def scores(self, task: TaskInfo) -> dict[str, dict[str, float]]:
        """Return the scores of each plugin for each candidate node of the task."""


class FastEngine:
    """The engine of ``volsched run`` and ``simulate``. ``nodes`` counts what it asks."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.callbacks = NodeCallbacks()
        self.entries = Entries(cluster)
        self.nodes = self.entries.shared.nodes
        self._diagnosis = Diagnosis(self.nodes, self.entries.shared.static)
        self._pod_predicates: list[Predicate] = []
        self._with_care = False
        self._kind_keys: tuple[KeyFn, ...] = ()

    def new_instance(self) -> Engine:
        """Return an engine of the same kind that knows nothing yet."""
        return type(self)(self.cluster)

    def open(self, callbacks: NodeCallbacks) -> None:
        """Use these callbacks. Answers of the last session stay if the rules are the same."""
        self.callbacks = callbacks
        self.entries.open(callbacks)
        self._pod_predicates = [p for p in callbacks.predicates if p.scope == "pod"]
        pod_orders = any(order.scope == "pod" for order in callbacks.node_orders)
        self._with_care = bool(self._pod_predicates or pod_orders or callbacks.best_nodes)
        self._kind_keys = kind_keys(callbacks)

    def _entry(self, task: TaskInfo) -> Entry:
        return self.entries.of(task)

    # -- the best node ------------------------------------------------------------------------------------------------

    def best(self, task: TaskInfo) -> NodeInfo | None:
        """Return the best node with room now; else the best that will have room, or None when no node will do."""
        return next(self.places((task,)), None) or self.later(task)

    def later(self, task: TaskInfo) -> NodeInfo | None:
        """Return the best node that has no room now and will have it once others have left."""
        entry = self._entry(task)
        rows = self.nodes.asked_of_each(task, self._pod_predicates, entry.future_rows())
        return self._best_of(task, entry, rows, self._batches(task))

    def places(self, tasks: Sequence[TaskInfo]) -> Iterator[NodeInfo]:
        """Yield the best node with room now for some equal tasks, for more than one if amounts alone decide."""
        first = tasks[0]
        entry, batches = self._entry(first), self._batches(first)
        if self._with_care or batches:
            rows = self.nodes.asked_of_each(first, self._pod_predicates, entry.scores.possible())
            node = self._best_of(first, entry, rows, batches, known=not self._with_care)
            if node is not None:
                yield node
            return
        row = entry.scores.first_best()
        if row < 0:
            return
        if len(tasks) == 1 or not (entry.questions.amounts_decide or entry.questions.hold_in_steps):
            yield self.cluster.rows[row]
        elif entry.questions.amounts_decide:
            yield from self._places_by_amounts(tasks, entry)
        else:
            yield from self._places_by_nodes(tasks, entry, row)

    def _places_by_amounts(self, tasks: Sequence[TaskInfo], entry: Entry) -> Iterator[NodeInfo]:
        """Yield the best node for each of some tasks, as long as no other node changes."""
        log, scores, position = self.cluster.node_cache.usage_log, entry.scores, entry.position
        labels = tasks[0].spec.labels
        node: NodeInfo | None = None
        for task in tasks:
            if task.spec.labels is not labels and task.spec.labels != labels and not self._is_alike(task, entry):
                return
            if node is None:
                row = scores.first_best()
                if row < 0:
                    return
                node, top = self.cluster.rows[row], scores.top
            yield node
            position += 1
            if log.end != position:
                return
            total = entry.total_of(row)
            if total >= top:  # none of the other nodes has changed, so this one is the best still
                top = total
            else:
                entry.position = position
                scores.put(row, total)
                node = None

    def _places_by_nodes(self, tasks: Sequence[TaskInfo], entry: Entry, row: int) -> Iterator[NodeInfo]:
        """The best node for each of some tasks, as long as what else is read of nodes changes on that node alone."""
        top, labels = entry.scores.top, tasks[0].spec.labels
        for place, task in enumerate(tasks):
            if place:
                if not self.entries.is_of(entry, task) or (task.spec.labels != labels and self._batches(task)):
                    return
                total = entry.total_of_changed(row, task)
                if total is None:
                    return
                if total >= top:  # none of the other nodes has changed, so this one is the best still
                    top = total
                else:
                    entry.note(row, total)
                    row, top = entry.scores.first_best(), entry.scores.top
                    if row < 0:
                        return
            yield self.cluster.rows[row]

    def _is_alike(self, task: TaskInfo, entry: Entry) -> bool:
        """True if an entry's answers hold for a task of its template with other labels."""
        return self.entries.is_of(entry, task) and not self._batches(task)

    def _best_of(
        self, task: TaskInfo, entry: Entry, rows: Rows, batches: Sequence[BatchNodeOrder], known: bool = False
    ) -> NodeInfo | None:
        """Return the best node of some rows. With ``known``, only batch scores are added to the totals."""
        if not len(rows):
            return None
        if len(rows) == 1:
            return self.cluster.rows[int(rows[0])]
        totals = self._totals(task, entry, rows, batches, known=known)
        if self.callbacks.best_nodes:
            named = {self.cluster.rows[int(row)].name: float(total) for row, total in zip(rows, totals, strict=True)}
            for choose in self.callbacks.best_nodes:
                chosen = choose(task, named)
                if chosen is not None and chosen in named:
                    return self.cluster.nodes[chosen]
        return self.cluster.rows[int(rows[int(totals.argmax())])]

    def _totals(
        self, task: TaskInfo, entry: Entry, rows: Rows, batches: Sequence[BatchNodeOrder], *, known: bool = False
    ) -> Floats:
        totals = entry.scores.total[rows] if known else entry.sums(rows)
        self.nodes.columns.refresh()
        return self.nodes.with_scores(totals, task, batches, rows)

    def _batches(self, task: TaskInfo) -> list[BatchNodeOrder]:
        """Return the batch orders whose scores differ between nodes for this task."""
        return [b for b in self.callbacks.batch_orders if b.uniform is None or b.uniform(task) is None]

    # -- other questions ----------------------------------------------------------------------------------------------

    def admits(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if the task may go on this node, now or once it has room."""
        if not node.fits_future(self.cluster.columns.request(task.template)):
            return False
        predicates = self.callbacks.predicates
        return all(predicate.ask(task, node) is None for predicate in predicates if predicate.applies(task))

    def choices(self, task: TaskInfo) -> list[NodeInfo]:
        """Nodes where the task can go now, best first."""
        entry = self._entry(task)
        rows = self.nodes.asked_of_each(task, self._pod_predicates, entry.scores.possible())
        if len(rows) < 2:
            return [self.cluster.rows[row] for row in rows.tolist()]
        totals = self._totals(task, entry, rows, self._batches(task), known=not self._with_care)
        order, nodes = np.argsort(-totals, kind="stable"), self.cluster.rows
        found = [nodes[row] for row in rows[order].tolist()]
        return chosen_first(self.callbacks, task, found, totals[order].tolist())

    def refused_from_afar(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if a rule that reads more than the pod and the node refuses the task on this node."""
        return refused_from_afar(self.callbacks, task, node)

    def ranked(self, task: TaskInfo) -> Ranked:
        """Return the nodes where the task could go if others left, best first; ties by name."""
        entry = self._entry(task)
        rows, nodes = entry.rows_if_others_left(self._pod_predicates), self.cluster.rows
        totals = self._totals(task, entry, rows, self._batches(task))
        order = np.argsort(-totals, kind="stable")
        return [(nodes[row], total) for row, total in zip(rows[order].tolist(), totals[order].tolist(), strict=True)]

    def hopeful(self, task: TaskInfo) -> Iterator[NodeInfo]:
        """Yield the nodes where the task could go without other pods and temporary refusals, by name."""
        self.entries.refresh()
        predicates, static, columns = self.callbacks.predicates, self.entries.shared.static, self.nodes.columns
        columns.refresh_allocatable()
        self.nodes.properties.refresh()
        static.refresh()
        mask = np.ones(len(self.cluster.rows), dtype=np.bool_)
        for column, amount in self.cluster.columns.request(task.template):
            mask &= (columns.allocatable[column] >= amount) | columns.left_to_devices(column, columns.all_rows)
        asked: list[Predicate] = []
        for place, predicate in enumerate(predicates):
            if predicate.is_temporary or not predicate.applies_to_task(task):
                continue
            if predicate.scope == "static":
                mask &= static.mask(task, place, predicate)
            else:
                asked.append(predicate)
        nodes = self.cluster.rows
        return (nodes[row] for row in np.flatnonzero(mask).tolist() if could_go(task, nodes[row], asked))

    def kind(self, task: TaskInfo) -> Hashable:
        """Return the key of tasks that can go to the same nodes, as far as pods share answers."""
        return kind_of(self._kind_keys, task)

    def is_shared_in_queue(self, task: TaskInfo) -> bool:
        """True if all equal pods of the task's queue have the same key."""
        return is_shared_in_queue(self.callbacks, task)

    def no_node_fits(self, task: TaskInfo) -> bool:
        """True if no node has room, now or later, for any task of this key; cheap after the first call.

        If there are more keys than entries, which one tenant can cause, only amounts and properties of nodes are
        checked.
        """
        return not (self.entries.knows(task) or self._may_fit(task)) or self._is_full_for(task)

    def _is_full_for(self, task: TaskInfo) -> bool:
        entry = self._entry(task)
        return entry.scores.first_best() < 0 and not len(entry.future_rows())

    def _may_fit(self, task: TaskInfo) -> bool:
        """True if any node has the amounts, now or later, and its properties admit the task."""
        columns, static = self.nodes.columns, self.entries.shared.static
        columns.refresh()
        mask = columns.may_fit(self.cluster.columns.request(task.template)[::-1])
        if not mask.any():
            return False
        self.nodes.properties.refresh()
        static.refresh()
        for place, predicate in enumerate(self.callbacks.predicates):
            if predicate.scope == "static" and predicate.applies_to_task(task):
                mask = mask & static.mask(task, place, predicate)
        return bool(mask.any())

    def refusals(self, task: TaskInfo) -> NodeRefusals:
        """Return the counted reasons why nodes refuse the task. A node counts once for each of its reasons."""
        entry, queue = self._entry(task), task.queue
        state = (entry.position, entry.properties_position, [scoped.version for scoped in entry.questions.scoped])
        if entry.explained is None or entry.explained[0] != state or self._pod_predicates:
            entry.explained = (state, {})
        known = entry.explained[1]
        if queue not in known:
            known[queue] = self._diagnosis.count(self.callbacks, task)
        return known[queue]

    def scores(self, task: TaskInfo) -> dict[str, dict[str, float]]:
        """Return the scores of each plugin for each candidate node of the task."""
        return scores_of(self.cluster, self.callbacks, task)
