"""Kubelets of the in-memory cluster: the pods of each node, and refusals of pods that were bound to it.

After the kubelet's admission (pkg/kubelet/lifecycle/predicate.go): amounts, node affinity, host ports and NoExecute
taints are checked again, whatever the scheduler's configuration leaves out. Extended resources that the node lacks are
not, as devices may stand for them. ``kubelet_checks`` has the checks without amounts. The reasons are the kubelet's,
and so is the order: the first one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from volsched.mirror.reading import amounts
from volsched.model import api
from volsched.model.errors import FieldError
from volsched.model.pods import requests
from volsched.model.pods.placement_rules import HostPort, Toleration
from volsched.model.pods.rule_reading import rules_of
from volsched.model.selectors import NodeSelector
from volsched.model.values.resources import PODS, accumulate
from volsched.simulation.kubelet_checks import KubeletRefusal, first_refusals, last_refusals

FINISHED: Final = ("Succeeded", "Failed")


class _Kubelet:
    """The allocatable and the free amounts of one node."""

    def __init__(self, node: api.Node, pods: Iterable[api.Pod]) -> None:
        self.offered = amounts(node.status.allocatable, "status.allocatable", _reported_elsewhere)
        self.left = dict(self.offered)
        self.ports: dict[str, tuple[HostPort, ...]] = {}
        for pod in pods:
            self.put(pod)

    def put(self, pod: api.Pod) -> None:
        accumulate(self.left, _charge(pod), -1)
        ports = _ports(pod)
        if ports:
            self.ports[pod.key] = ports

    def take(self, pod: api.Pod) -> None:
        accumulate(self.left, _charge(pod), 1)
        self.ports.pop(pod.key, None)

    def lacking(self, pod: api.Pod) -> Iterator[KubeletRefusal]:
        for resource, amount in _charge(pod).items():
            most, left = self.offered.get(resource, 0), self.left.get(resource, 0)
            if amount > left and (most or "/" not in resource):
                message = f"requested: {amount}, used: {most - left}, capacity: {most}"
                yield KubeletRefusal(f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {message}")

    def has_ports_taken(self, pod: api.Pod) -> bool:
        taken = [port for ports in self.ports.values() for port in ports]
        return bool(taken) and any(port.conflicts_with(other) for port in _ports(pod) for other in taken)


class Kubelets:
    """Follows pods on nodes, and counts a node on the first question about it.

    Amounts are in the project's units (see ``quantity``).
    """

    def __init__(self, nodes: Iterable[api.Node]) -> None:
        self._nodes = {node.metadata.name: node for node in nodes}
        self._pods: dict[str, dict[str, api.Pod]] = {}
        self._node_of: dict[str, str] = {}
        self._counted: dict[str, _Kubelet] = {}

    def on_change(self, pod: api.Pod) -> None:
        """Follow a pod as it is now: it holds its request while it is on a node and has not finished."""
        node = pod.spec.node_name if pod.status.phase not in FINISHED else ""
        if node == self._node_of.get(pod.key, ""):
            return
        self.lost(pod)
        if node:
            self._node_of[pod.key] = node
            self._pods.setdefault(node, {})[pod.key] = pod
            if node in self._counted:
                self._counted[node].put(pod)

    def lost(self, pod: api.Pod) -> None:
        """Follow a pod that is gone."""
        node = self._node_of.pop(pod.key, "")
        known = self._pods[node].pop(pod.key) if node else None
        if known is not None and node in self._counted:
            self._counted[node].take(known)

    def is_new(self, pod: api.Pod) -> bool:
        """True if the kubelet of a pod's node has not seen it yet."""
        return pod.spec.node_name in self._nodes and pod.key not in self._node_of

    def has_room(self, node: str, pod: api.Pod) -> bool:
        """True if a node has all amounts and host ports of a pod free."""
        if node not in self._nodes:
            return False
        kubelet = self._kubelet(node)
        has_amounts = all(kubelet.left.get(resource, 0) >= amount for resource, amount in _charge(pod).items())
        return has_amounts and not kubelet.has_ports_taken(pod)

    def refusal(self, node: str, pod: api.Pod) -> KubeletRefusal | None:
        """Return why the kubelet of a node refuses a pod that was bound there, or None when it starts the pod."""
        known = self._nodes.get(node)
        return next(self._refusals(known, pod), None) if known is not None else None

    def _kubelet(self, node: str) -> _Kubelet:
        if node not in self._counted:
            self._counted[node] = _Kubelet(self._nodes[node], self._pods.get(node, {}).values())
        return self._counted[node]

    def _refusals(self, node: api.Node, pod: api.Pod) -> Iterator[KubeletRefusal]:
        yield from first_refusals(pod, node)
        kubelet = self._kubelet(node.metadata.name)
        yield from kubelet.lacking(pod)
        if not _is_wanted(pod.spec, node):
            yield _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
        if kubelet.has_ports_taken(pod):
            yield _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
        taint = not_tolerated(pod.spec, node)
        if taint is not None:
            yield _predicate("TaintToleration", f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}")
        yield from last_refusals(pod, node)


def _predicate(name: str, message: str) -> KubeletRefusal:
    return KubeletRefusal(name, f"Predicate {name} failed: {message}")


def _reported_elsewhere(field: str, message: str) -> None:
    """Skip an unreadable amount: the mirror reports it, and counts 0, too."""


def _charge(pod: api.Pod) -> Mapping[str, int]:
    """Return the amounts of a pod on its node, as the scheduler counts them. An unreadable pod takes its slot."""
    count = requests.of_placed_pod if pod.spec.node_name else requests.of_pod
    try:
        return {**count(pod).request, PODS: 1}
    except FieldError:
        return {PODS: 1}


def _ports(pod: api.Pod) -> tuple[HostPort, ...]:
    spec = pod.spec
    if not any(container.ports for container in (*spec.containers, *spec.init_containers)):
        return ()
    return rules_of(pod).host_ports


def _is_wanted(spec: api.PodSpec, node: api.Node) -> bool:
    nodes = spec.affinity.node_affinity if spec.affinity is not None else None
    if not spec.node_selector and (nodes is None or nodes.required is None):
        return True
    try:
        selector = NodeSelector.parse(nodes.required if nodes is not None else None, spec.node_selector)
    except FieldError:
        return False
    return selector.matches(node.metadata.name, node.metadata.labels)


def not_tolerated(spec: api.PodSpec, node: api.Node) -> api.Taint | None:
    """Return a taint of a node for which a pod would be taken off it, or None when there is none."""
    executing = [taint for taint in node.spec.taints if taint.effect == "NoExecute"]
    if not executing:
        return None
    tolerations = [Toleration(t.key, t.operator or "Equal", t.value, t.effect) for t in spec.tolerations]
    return next((t for t in executing if not any(known.tolerates(t) for known in tolerations)), None)
