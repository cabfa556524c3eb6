"""Registration of kube-scheduler's scores with Volcano's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from plugins.nodeorder import affinity, images, neighbours, spreading, taints, usage
from plugins.nodeorder.arguments import ARGUMENTS, NodeOrderWeights, parse
from volsched.plugin import Registrar

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

    def on_session_open(self, registrar: Registrar) -> None:
        """Register the scores that have a weight."""
        for rule in (usage, images, affinity, neighbours, taints, spreading):
            registrar.register(*rule.rules(registrar, self._weights))
