"""What predicates can be told: which rules are checked, and how long bindings may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from volsched.framework.config.arguments import Argument
from volsched.framework.dra.selectors import MOST_SECONDS
from volsched.model.errors import ConfigError


def _switch(key: str, rule: str) -> Argument:
    return Argument(f"predicate.{key}", "bool", True, f"Whether {rule} is checked.")


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
    Argument("predicate.CacheEnable", "bool", False, "Taken from Volcano; answers are always kept here."),
    Argument("predicate.ProportionalEnable", "bool", False, "Taken from Volcano; not supported, must be false."),
    Argument("predicate.resources", "names", (), "Taken from Volcano; belongs to predicate.ProportionalEnable."),
    Argument("predicate.resources.*", "float", 1.0, "Taken from Volcano; belongs to predicate.ProportionalEnable."),
    Argument(BIND_TIMEOUT, "int", 600, "Seconds that a binding waits for its volumes.", minimum=1),
    Argument(DEVICE_TIMEOUT, "int", 600, "Seconds that binding conditions of devices have to come true.", minimum=1),
    Argument(
        SELECTOR_SECONDS,
        "float",
        MOST_SECONDS,
        "Seconds of CPU in a session for answers of CEL selectors that are not known yet; namespaces share them.",
        minimum=0.01,
    ),
    Argument("volumebinding.weight", "int", 1, "Taken from Volcano; its score needs an alpha feature."),
)


@dataclass(frozen=True, slots=True)
class PredicatesArguments:
    """Which rules are checked."""

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
    if arguments.get("predicate.ProportionalEnable", False):
        message = "is not supported: leave it out or set it to false"
        raise ConfigError("arguments.predicate.ProportionalEnable", f"predicate.ProportionalEnable {message}")
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
