"""The rules that decide whether a pod may go on a node.

The order is kube-scheduler's: of several reasons against a node, the one that it would name is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from plugins.predicates import invalid, node_properties
from plugins.predicates.arguments import ARGUMENTS, PredicatesArguments, parse
from plugins.predicates.devices import predicate as devices
from plugins.predicates.pods import neighbours, ports, slots, spreading
from plugins.predicates.volumes import disks, storage
from volsched.plugin import Registrar, Rule

__all__ = ["ARGUMENTS", "PredicatesPlugin", "build"]

RulesOf: TypeAlias = Callable[[Registrar, PredicatesArguments], Iterator[Rule]]

RULES: Final[tuple[RulesOf, ...]] = (
    invalid.rules,
    node_properties.rules,
    ports.rules,
    slots.rules,
    disks.rules,
    storage.rules,
    devices.rules,
    spreading.rules,
    neighbours.rules,
)


def build(arguments: Mapping[str, Any]) -> PredicatesPlugin:
    """Make the plugin from checked arguments."""
    return PredicatesPlugin(parse(arguments))


class PredicatesPlugin:
    """Everything that Kubernetes demands of a node before a pod may run there."""

    name: ClassVar[str] = "predicates"

    def __init__(self, arguments: PredicatesArguments) -> None:
        self._arguments = arguments

    @property
    def serves_devices(self) -> bool:
        """True if it gives out devices for extended resources that a DeviceClass stands for."""
        return self._arguments.dynamic_resource_allocation

    def on_session_open(self, registrar: Registrar) -> None:
        """Register the rules that are checked."""
        for rules in RULES:
            registrar.register(*rules(registrar, self._arguments))
