"""The arguments of predicates: the checked rules, and the time limit of bindings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from volsched.plugin import Argument, ArgumentType
from volsched.plugin.devices import MOST_SECONDS


def _switch(key: str, rule: str) -> Argument:
    return Argument(f"predicate.{key}", "bool", True, f"Whether {rule} is checked.")


def _of_volcano(key: str, kind: ArgumentType, default: Any, why: str) -> Argument:
    return Argument(key, kind, default, f"Taken from Volcano; {why}.", unused=why)


_PROPORTIONAL = "no CPU and memory are kept beside free cards; the plugin crossquota limits what CPU pods may hold"
_SHARED_CARDS = "Volcano reads it no more; cards that containers share are the plugin mgpu"
_SCORE = "volumes are not scored"

OF_VOLCANO = (
    _of_volcano("predicate.CacheEnable", "bool", False, "answers are always kept"),
    _of_volcano("predicate.ProportionalEnable", "bool", False, _PROPORTIONAL),
    _of_volcano("predicate.resources", "names", (), _PROPORTIONAL),
    _of_volcano("predicate.resources.*", "float", 1.0, _PROPORTIONAL),
    _of_volcano("predicate.GPUSharingEnable", "bool", False, _SHARED_CARDS),
    _of_volcano("predicate.GPUNumberEnable", "bool", False, _SHARED_CARDS),
    _of_volcano("volumebinding.weight", "int", 1, _SCORE),
    _of_volcano("volumebinding.shape", "shape", (), _SCORE),
    _of_volcano(
        "dynamicresources.filterTimeoutSeconds",
        "int",
        10,
        "a search for devices has no time of its own; dynamicresources.selectorSecondsPerSession limits a session",
    ),
)
"""Arguments of Volcano's plugin without an effect here."""

BIND_TIMEOUT = "volumebinding.bindTimeoutSeconds"
DEVICE_TIMEOUT = "dynamicresources.bindingTimeoutSeconds"
"""kube-scheduler's `bindingTimeout` of DynamicResourcesArgs."""
SELECTOR_SECONDS = "dynamicresources.selectorSecondsPerSession"

ARGUMENTS: tuple[Argument, ...] = (
    _switch("NodeAffinityEnable", "node affinity (and the node selector)"),
    _switch("NodePortsEnable", "that host ports are free"),
    _switch("TaintTolerationEnable", "that taints are tolerated"),
    _switch("PodAffinityEnable", "pod affinity and anti-affinity"),
    _switch("NodeVolumeLimitsEnable", "how many volumes of each CSI driver a node takes"),
    _switch("VolumeZoneEnable", "the zone labels of old PersistentVolumes"),
    _switch("PodTopologySpreadEnable", "topology spreading"),
    _switch("VolumeBindingEnable", "where PersistentVolumeClaims are, or can be, bound"),
    _switch("DynamicResourceAllocationEnable", "ResourceClaims, and extended resources from devices"),
    Argument(BIND_TIMEOUT, "int", 600, "Seconds that a binding waits for its volumes.", minimum=1),
    Argument(DEVICE_TIMEOUT, "int", 600, "Seconds that binding conditions of devices have to come true.", minimum=1),
    Argument(
        SELECTOR_SECONDS,
        "float",
        MOST_SECONDS,
        "Seconds of CPU in a session for answers of CEL selectors that are not known yet; namespaces share them.",
        minimum=0.01,
    ),
    *OF_VOLCANO,
)


@dataclass(frozen=True, slots=True)
class PredicatesArguments:
    """The checked rules."""

    node_affinity: bool = True
    node_ports: bool = True
    taint_toleration: bool = True
    pod_affinity: bool = True
    node_volume_limits: bool = True
    volume_zone: bool = True
    pod_topology_spread: bool = True
    volume_binding: bool = True
    dynamic_resource_allocation: bool = True
    bind_within: int = 600
    """Seconds that a binding waits for its volumes."""
    devices_within: int = 600
    """Seconds that binding conditions of devices have to come true."""
    selector_seconds: float = MOST_SECONDS
    """Seconds of CPU in a session for answers of CEL selectors that are not known yet."""


def parse(arguments: Mapping[str, Any]) -> PredicatesArguments:
    """Read checked arguments."""
    values: dict[str, Any] = {
        "bind_within": arguments.get(BIND_TIMEOUT, 600),
        "devices_within": arguments.get(DEVICE_TIMEOUT, 600),
        "selector_seconds": arguments.get(SELECTOR_SECONDS, MOST_SECONDS),
    }
    for field in fields(PredicatesArguments):
        if field.name not in values:
            key = f"predicate.{field.name.title().replace('_', '')}Enable"
            values[field.name] = bool(arguments.get(key, True))
    return PredicatesArguments(**values)
