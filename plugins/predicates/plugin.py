"""Registration of the rules that decide whether a pod may go on a node.

The order is kube-scheduler's: of several reasons against a node, the one that it would name is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from plugins.predicates import invalid, nodes
from plugins.predicates.devices.devices import DeviceRules
from plugins.predicates.pods import slots
from plugins.predicates.pods.neighbours import Neighbours
from plugins.predicates.pods.ports import HostPorts
from plugins.predicates.pods.spreading import Spreading
from plugins.predicates.volumes.binding import VolumeBinding
from plugins.predicates.volumes.disks import LegacyDisks
from plugins.predicates.volumes.limits import VolumeLimits
from plugins.predicates.volumes.storage import ClaimRules
from plugins.predicates.volumes.uses import ClaimUses
from volsched.framework.callbacks import ANY_RUN
from volsched.framework.config.arguments import Argument
from volsched.framework.dra.selectors import MOST_SECONDS
from volsched.framework.engine.domains import domains_of
from volsched.framework.session import Session
from volsched.model.errors import ConfigError
from volsched.model.pods.task import TaskInfo

NAME = "predicates"


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


def build(arguments: Mapping[str, Any]) -> PredicatesPlugin:
    """Make the plugin from checked arguments."""
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
    return PredicatesPlugin(PredicatesArguments(**values))


class PredicatesPlugin:
    """Everything that Kubernetes demands of a node before a pod may run there."""

    name: ClassVar[str] = NAME

    def __init__(self, arguments: PredicatesArguments) -> None:
        self._arguments = arguments

    @property
    def serves_devices(self) -> bool:
        """Whether it gives out devices for extended resources that a DeviceClass stands for."""
        return self._arguments.dynamic_resource_allocation

    def on_session_open(self, session: Session) -> None:
        """Register the rules."""
        wanted = self._arguments
        session.add_pre_predicate_fn(NAME, invalid.refusal)
        if not wanted.dynamic_resource_allocation:
            session.add_pre_predicate_fn(NAME, invalid.refuse_claims)
        session.add_predicate_fn(NAME, nodes.is_schedulable)
        if wanted.taint_toleration:
            session.add_predicate_fn(NAME, nodes.tolerates_taints)
        if wanted.node_affinity:
            session.add_predicate_fn(
                NAME,
                nodes.matches_node_affinity,
                vector=nodes.node_affinity_rows,
                applies=nodes.has_node_terms,
            )
        session.add_predicate_fn(NAME, nodes.declares_features, applies=nodes.needs_features)
        if wanted.node_ports:
            ports = session.account("predicates.ports", HostPorts)
            session.add_predicate_fn(NAME, ports.are_free, vector=ports.free_rows, applies=ports.follows)
        session.add_predicate_fn(NAME, slots.has_slot, vector=slots.slot_rows)
        disks = session.account("predicates.disks", LegacyDisks)
        session.add_predicate_fn(NAME, disks.are_free, vector=disks.free_rows, applies=disks.follows)
        self._register_claims(session)
        if wanted.dynamic_resource_allocation:
            devices = _register_devices(session, wanted)
            session.add_run_fn(NAME, lambda _, task: 0 if _is_special(task) or devices.concern(task) else ANY_RUN)
        else:
            session.add_run_fn(NAME, lambda _, task: 0 if _is_special(task) or task.resource_claims else ANY_RUN)
        domains = domains_of(session)
        if wanted.pod_topology_spread:
            spreading = Spreading(domains)
            session.add_predicate_fn(
                NAME,
                spreading.refuse,
                vector=spreading.admit_rows,
                applies=spreading.applies,
                key=spreading.key,
                version=spreading.version,
            )
        if wanted.pod_affinity:
            neighbours = Neighbours(domains)
            session.add_predicate_fn(
                NAME,
                neighbours.refuse,
                vector=neighbours.admit_rows,
                key=neighbours.key,
                version=neighbours.version,
            )

    def _register_claims(self, session: Session) -> None:
        wanted = self._arguments
        uses = session.account("predicates.uses", ClaimUses)
        limits = session.account("predicates.limits", lambda cluster: VolumeLimits(cluster, uses))
        binding = session.account("predicates.binding", lambda cluster: VolumeBinding(cluster, wanted.bind_within))
        rules = ClaimRules(
            session.cluster.storage,
            uses,
            limits if wanted.node_volume_limits else None,
            binding if wanted.volume_binding else None,
            wanted.volume_zone,
        )
        session.add_pre_predicate_fn(NAME, rules.refuse_pod)
        session.add_predicate_fn(
            NAME,
            rules.refuse,
            vector=rules.admit_rows,
            applies=rules.applies,
            key=rules.key,
            version=rules.version,
        )
        if wanted.volume_binding:
            session.add_event_handler(NAME, binding)


def _is_special(task: TaskInfo) -> bool:
    """Whether a pod is refused, or it matters where others are, or it has volumes: each is looked at by itself."""
    template = task.template
    return bool(template.refusals or template.claims or template.minds_pods)


def _register_devices(session: Session, wanted: PredicatesArguments) -> DeviceRules:
    within, seconds = wanted.devices_within, wanted.selector_seconds
    rules = session.account("predicates.devices", lambda cluster: DeviceRules(cluster, within, seconds))
    rules.open(session)
    session.add_wake_fn(NAME, rules.wake_at)
    session.add_pre_predicate_fn(NAME, rules.refuse_pod)
    session.add_predicate_fn(NAME, rules.refuse, applies=rules.applies, key=rules.key, version=rules.version)
    session.add_node_order_fn(NAME, rules.score, applies=rules.applies, key=rules.preference_key, version=rules.version)
    session.add_event_handler(NAME, rules, first=True)
    session.add_close_fn(NAME, lambda: rules.release_useless(session))
    return rules
