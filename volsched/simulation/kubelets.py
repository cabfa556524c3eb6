"""Kubelets of the in-memory cluster: what is on each node, and which pod one refuses that was bound to its node.

After the kubelet's admission (pkg/kubelet/lifecycle/predicate.go): amounts, node affinity and host ports are looked at
again, and taints that execute, whatever the scheduler's configuration leaves out. Extended resources that the node does
not know are not. The reasons are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from volsched.controllers.grouping import request_of
from volsched.mirror.reading import amounts
from volsched.model import api
from volsched.model.errors import FieldError
from volsched.model.pods.rule_reading import rules_of
from volsched.model.pods.rules import HostPort, Toleration
from volsched.model.selectors import NodeSelector
from volsched.model.values.resources import PODS, accumulate

FINISHED: Final = ("Succeeded", "Failed")


class KubeletRefusal(NamedTuple):
    """Why a kubelet refuses a pod, as it writes it into the pod's status."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Held:
    """What a pod has on its node."""

    node: str
    charge: Mapping[str, int]
    ports: tuple[HostPort, ...]


class Kubelets:
    """Follows which pods are on which nodes. Amounts are in the project's units (see ``quantity``)."""

    def __init__(self, nodes: Iterable[api.Node]) -> None:
        self._nodes = {node.metadata.name: node for node in nodes}
        self._offered = {name: _allocatable(node) for name, node in self._nodes.items()}
        self._left = {name: dict(offered) for name, offered in self._offered.items()}
        self._held: dict[str, _Held] = {}
        self._ports: dict[str, dict[str, tuple[HostPort, ...]]] = {}

    def saw(self, pod: api.Pod) -> None:
        """Follow a pod as it is now: it holds what it asks for while it is on a node and has not finished."""
        node = pod.spec.node_name if pod.status.phase not in FINISHED else ""
        held = self._held.get(pod.key)
        if node == (held.node if held is not None else ""):
            return
        self.lost(pod)
        if node in self._left:
            self._held[pod.key] = held = _Held(node, _charge(pod.spec), _ports(pod))
            accumulate(self._left[node], held.charge, -1)
            if held.ports:
                self._ports.setdefault(node, {})[pod.key] = held.ports

    def lost(self, pod: api.Pod) -> None:
        """Follow a pod that is gone."""
        held = self._held.pop(pod.key, None)
        if held is not None:
            accumulate(self._left[held.node], held.charge, 1)
            self._ports.get(held.node, {}).pop(pod.key, None)

    def has_room(self, node: str, spec: api.PodSpec) -> bool:
        """Whether a node has all that a pod asks for beside what is on it."""
        left = self._left.get(node, {})
        return all(left.get(resource, 0) >= amount for resource, amount in _charge(spec).items())

    def refusal(self, node: str, pod: api.Pod) -> KubeletRefusal | None:
        """Return why the kubelet of a node refuses a pod that was bound there; None when it starts the pod."""
        known = self._nodes.get(node)
        return next(self._refusals(known, pod), None) if known is not None else None

    def _refusals(self, node: api.Node, pod: api.Pod) -> Iterator[KubeletRefusal]:
        yield from self._lacking(node.metadata.name, pod.spec)
        if not _is_wanted(pod.spec, node):
            yield _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
        if self._ports_taken(node.metadata.name, pod):
            yield _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
        taint = not_tolerated(pod.spec, node)
        if taint is not None:
            yield _predicate("TaintToleration", f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}")

    def _lacking(self, node: str, spec: api.PodSpec) -> Iterator[KubeletRefusal]:
        left, offered = self._left[node], self._offered[node]
        for resource, amount in _charge(spec).items():
            if amount > left.get(resource, 0) and not ("/" in resource and resource not in offered):
                most = offered.get(resource, 0)
                message = (
                    f"Node didn't have enough resource: {resource}, requested: {amount}, "
                    f"used: {most - left.get(resource, 0)}, capacity: {most}"
                )
                yield KubeletRefusal(f"OutOf{resource}", message)

    def _ports_taken(self, node: str, pod: api.Pod) -> bool:
        taken = [port for ports in self._ports.get(node, {}).values() for port in ports]
        return bool(taken) and any(port.conflicts_with(other) for port in _ports(pod) for other in taken)


def _predicate(name: str, message: str) -> KubeletRefusal:
    return KubeletRefusal(name, f"Predicate {name} failed: {message}")


def _allocatable(node: api.Node) -> dict[str, int]:
    return amounts(node.status.allocatable, "status.allocatable", _told_elsewhere)


def _told_elsewhere(field: str, message: str) -> None:
    """Pass over an amount that cannot be read: the mirror tells of it, and counts 0, too."""


def _charge(spec: api.PodSpec) -> Mapping[str, int]:
    return {**request_of(spec), PODS: 1}


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
    """Return a taint of a node for which a pod would be taken off it; None when there is none."""
    executing = [taint for taint in node.spec.taints if taint.effect == "NoExecute"]
    if not executing:
        return None
    tolerations = [Toleration(t.key, t.operator or "Equal", t.value, t.effect) for t in spec.tolerations]
    return next((t for t in executing if not any(known.tolerates(t) for known in tolerations)), None)
