"""Host ports: no two pods on a node take the same port and protocol of overlapping addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.pods.exclusive import Exclusive
from plugins.predicates.verdicts import node_refusal
from volsched.model.pods.placement_rules import HostPort
from volsched.plugin import PodTemplate, Predicate, Registrar, Rule, Verdict

NO_FREE_PORT = node_refusal("node(s) didn't have free ports for the requested pod ports")

PortKey = tuple[str, int]
"""Protocol and number."""


class HostPorts(Exclusive[PortKey, HostPort]):
    """NodePorts: every port that a pod wants must be free on the node."""

    REFUSAL: ClassVar[Verdict] = NO_FREE_PORT

    def wanted(self, template: PodTemplate) -> Iterable[tuple[PortKey, HostPort]]:
        """Return the ports that pods of this template take."""
        return (((port.protocol, port.port), port) for port in template.host_ports)


def rules(registrar: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes where a port is taken."""
    if wanted.node_ports:
        ports = registrar.account("predicates.ports", HostPorts)
        yield Predicate(ports.are_free, vector=ports.free_rows, applies_to=ports.follows)
