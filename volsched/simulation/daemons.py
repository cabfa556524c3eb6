"""Room on nodes for the pods of DaemonSets, which are there before anybody schedules another pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from volsched.controllers.grouping import request_of
from volsched.mirror.reading import amounts
from volsched.model import api
from volsched.model.values.resources import PODS, accumulate


class Room:
    """What is left of each node beside the pods that are on it."""

    def __init__(self, nodes: Iterable[api.Node], pods: Iterable[api.Pod]) -> None:
        self._left = {node.metadata.name: _allocatable(node) for node in nodes}
        for pod in pods:
            if pod.spec.node_name in self._left and pod.status.phase not in ("Succeeded", "Failed"):
                accumulate(self._left[pod.spec.node_name], _charge(pod.spec), -1)

    def take(self, node: str, spec: api.PodSpec) -> bool:
        """Put a pod on a node; False when the node has no room for it."""
        left, charge = self._left[node], _charge(spec)
        if any(left.get(resource, 0) < amount for resource, amount in charge.items()):
            return False
        accumulate(left, charge, -1)
        return True


def _allocatable(node: api.Node) -> dict[str, int]:
    return amounts(node.status.allocatable, "status.allocatable", _told_elsewhere)


def _told_elsewhere(field: str, message: str) -> None:
    """Pass over an amount that cannot be read: the mirror tells of it, and counts 0, too."""


def _charge(spec: api.PodSpec) -> Mapping[str, int]:
    return {**request_of(spec), PODS: 1}
