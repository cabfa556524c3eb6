"""The naive engine: every callback asked about every node for every task, nothing kept, nothing reused.

It is the oracle of the fast engine: same input, same placements, bit for bit. Small and obviously right is its only
virtue.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from volsched.framework.answers import as_scores
from volsched.framework.engine.plain import (
    Ranked,
    candidates_of,
    choices_of,
    hopeful_of,
    is_shared_in_queue,
    kind_keys,
    kind_of,
    lasting,
    ranked_of,
    refusal_of,
    refusals_of,
    refused_from_afar,
    scores_of,
)
from volsched.framework.rules import NodeCallbacks
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import NodeRefusals


class NaiveEngine:
    """An ``Engine`` without memory."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.callbacks = NodeCallbacks()

    def new_instance(self) -> NaiveEngine:
        """Return an engine of the same kind that knows nothing yet."""
        return type(self)(self.cluster)

    def open(self, callbacks: NodeCallbacks) -> None:
        """Use these callbacks from now on."""
        self.callbacks = callbacks

    def best(self, task: TaskInfo) -> NodeInfo | None:
        """Return the candidate with the highest score; of equals the first in order of names."""
        return self._best_of(task, candidates_of(self.cluster, self.callbacks, task))

    def later(self, task: TaskInfo) -> NodeInfo | None:
        """Return the best candidate where none has room now."""
        nodes = candidates_of(self.cluster, self.callbacks, task)
        return None if nodes and self._has_room(task, nodes[0]) else self._best_of(task, nodes)

    def places(self, tasks: Sequence[TaskInfo]) -> Iterator[NodeInfo]:
        """Yield the best node with room for the first task: every task is asked about by itself."""
        nodes = candidates_of(self.cluster, self.callbacks, tasks[0])
        node = self._best_of(tasks[0], nodes) if nodes and self._has_room(tasks[0], nodes[0]) else None
        if node is not None:
            yield node

    def _has_room(self, task: TaskInfo, node: NodeInfo) -> bool:
        return node.fits_idle(self.cluster.columns.request(task.template))

    def _best_of(self, task: TaskInfo, nodes: list[NodeInfo]) -> NodeInfo | None:
        if len(nodes) < 2:
            return nodes[0] if nodes else None
        totals = self._totals(task, nodes)
        named = {node.name: total for node, total in zip(nodes, totals, strict=True)}
        for choose in self.callbacks.best_nodes:
            chosen = choose(task, named)
            if chosen is not None and chosen in named:
                return self.cluster.nodes[chosen]
        return nodes[totals.index(max(totals))]

    def _totals(self, task: TaskInfo, nodes: list[NodeInfo]) -> list[float]:
        totals = [0.0] * len(nodes)
        for order in self.callbacks.node_orders:
            if order.applies(task):
                scores = as_scores(order, [order.ask(task, node) for node in nodes], len(nodes)).tolist()
                totals = [total + score for total, score in zip(totals, scores, strict=True)]
        for batch in self.callbacks.batch_orders:
            if batch.uniform is None or batch.uniform(task) is None:
                answers = batch.fn(task, nodes)
                totals = [total + float(score) for total, score in zip(totals, answers, strict=True)]
        return totals

    def admits(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if the task may go on this node, now or once it has room."""
        return refusal_of(self.cluster, self.callbacks, task, node) == (None, [])

    def refused_from_afar(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if a rule that reads more than the pod and the node refuses the task on this node."""
        return refused_from_afar(self.callbacks, task, node)

    def kind(self, task: TaskInfo) -> Hashable:
        """Return the key of tasks that can go to the same nodes, as far as pods share answers."""
        return kind_of(kind_keys(self.callbacks), task)

    def is_shared_in_queue(self, task: TaskInfo) -> bool:
        """True if all equal pods of the task's queue have the same key."""
        return is_shared_in_queue(self.callbacks, task)

    def no_node_fits(self, task: TaskInfo) -> bool:
        """True if no node has room, now or later, for any task of this key, as far as the engine knows."""
        return not candidates_of(self.cluster, self.callbacks, task)

    def choices(self, task: TaskInfo) -> list[NodeInfo]:
        """Nodes where the task can go now, best first."""
        return choices_of(self.cluster, self.callbacks, task, self._totals)

    def ranked(self, task: TaskInfo) -> Ranked:
        """Nodes where the task could go if others left, best first."""
        return ranked_of(self.cluster, self.callbacks, task, self._totals)

    def hopeful(self, task: TaskInfo) -> Iterator[NodeInfo]:
        """Yield the nodes where the task could go without other pods and temporary refusals, by name."""
        return hopeful_of(self.cluster, lasting(self.callbacks.predicates), task)

    def refusals(self, task: TaskInfo) -> NodeRefusals:
        """Return the counted reasons why nodes refuse the task."""
        return refusals_of(self.cluster, self.callbacks, task)

    def scores(self, task: TaskInfo) -> dict[str, dict[str, float]]:
        """Return each plugin's score of each candidate."""
        return scores_of(self.cluster, self.callbacks, task)
