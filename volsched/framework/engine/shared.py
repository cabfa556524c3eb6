"""State that entries of an engine share: the callbacks of the session, and answers for several templates."""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakValueDictionary

from volsched.framework.engine.amount_classes import AmountClasses, ClassScores
from volsched.framework.engine.nodes import AskedNodes
from volsched.framework.engine.property_classes import StaticAnswers
from volsched.framework.rules import NodeCallbacks, NodeOrder, Predicate
from volsched.model.cluster import Cluster
from volsched.model.pods.template import PodTemplate


class SharedAnswers:
    """The answers of one engine that are no single entry's. ``session`` numbers the sessions that it was opened for."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes = AskedNodes(cluster)
        self.node_classes = AmountClasses(cluster)
        self.static = StaticAnswers(self.nodes)
        self.callbacks = NodeCallbacks()
        self.session = 0
        self._class_scores: WeakValueDictionary[Hashable, ClassScores] = WeakValueDictionary()

    def open(self, callbacks: NodeCallbacks) -> None:
        """Ask these callbacks from now on."""
        self.callbacks = callbacks
        self.session += 1
        self.static.open()
        self.nodes.columns.refresh_allocatable()
        self.node_classes.refresh()

    def forget(self) -> None:
        """Start with nothing."""
        self._class_scores = WeakValueDictionary()
        self.static.forget()

    def class_scores(self, template: PodTemplate, asked: list[tuple[int, Predicate | NodeOrder]]) -> ClassScores:
        """Return the scores by class that templates with equal requests share, if callbacks read no more of a pod."""
        key = (template.amounts, *[(place, isinstance(callback, NodeOrder)) for place, callback in asked])
        found = self._class_scores.get(key)
        if found is None:
            found = self._class_scores[key] = ClassScores(sum(isinstance(callback, NodeOrder) for _, callback in asked))
        return found
