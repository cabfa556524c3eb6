"""Registration of kube-scheduler's scores with Volcano's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from plugins.nodeorder.affinity import NodeAffinityScore
from plugins.nodeorder.arguments import ARGUMENTS, NodeOrderWeights, parse
from plugins.nodeorder.images import ImageLocality
from plugins.nodeorder.neighbours import PodAffinityScore
from plugins.nodeorder.spreading import SpreadingScore
from plugins.nodeorder.taints import SoftTaints, TaintTolerationScore
from plugins.nodeorder.usage import UsageScore
from volsched.framework.callbacks import ANY_RUN
from volsched.framework.engine.domains import domains_of
from volsched.framework.session import Session

__all__ = ["ARGUMENTS", "NodeOrderPlugin", "build"]

NAME = "nodeorder"


def build(arguments: Mapping[str, Any]) -> NodeOrderPlugin:
    """Make the plugin from checked arguments."""
    return NodeOrderPlugin(parse(arguments))


class NodeOrderPlugin:
    """Score nodes as Kubernetes does."""

    name: ClassVar[str] = NAME

    def __init__(self, weights: NodeOrderWeights) -> None:
        self._weights = weights

    def on_session_open(self, session: Session) -> None:
        """Register the scores that have a weight."""
        weights = self._weights
        usage = session.account("nodeorder.usage", lambda cluster: UsageScore(weights, cluster.columns))
        if usage.counts:
            session.add_node_order_fn(NAME, usage.score, vector=usage.scores)
        if weights.imagelocality:
            images = session.account("nodeorder.images", lambda cluster: ImageLocality(cluster, weights.imagelocality))
            session.add_node_order_fn(NAME, images.score, vector=images.scores, applies=images.applies)
        if weights.nodeaffinity:
            affinity = NodeAffinityScore(weights.nodeaffinity)
            session.add_node_order_fn(
                NAME,
                affinity.score,
                vector=affinity.scores,
                applies=affinity.applies,
            )
        if weights.podaffinity:
            near = PodAffinityScore(weights.podaffinity, domains_of(session))
            session.add_batch_node_order_fn(NAME, near.score_all, uniform=near.uniform, vector=near.scores)
        if weights.tainttoleration:
            taints = TaintTolerationScore(weights.tainttoleration, session.account("nodeorder.taints", SoftTaints))
            session.add_batch_node_order_fn(NAME, taints.score_all, uniform=taints.uniform, vector=taints.scores)
        if weights.podtopologyspread:
            spread = SpreadingScore(weights.podtopologyspread, domains_of(session))
            session.add_batch_node_order_fn(NAME, spread.score_all, uniform=spread.uniform, vector=spread.scores)
        session.add_run_fn(NAME, lambda _, task: 0 if task.template.minds_pods else ANY_RUN)
