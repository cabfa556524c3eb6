"""Reads the rules of a pod from its object. Rules that are unreadable or too many become refusals."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, ParamSpec, TypeVar

from volsched.model import api
from volsched.model.annotations import too_long
from volsched.model.errors import FieldError, QuantityError
from volsched.model.pods import limits as pod_limits
from volsched.model.pods import requests
from volsched.model.pods.limits import PodLimits
from volsched.model.pods.placement_rules import (
    ANY_ADDRESS,
    INIT,
    MAIN,
    ContainerAmounts,
    HostPort,
    LegacyDisk,
    PodRules,
    PodTerm,
    SpreadConstraint,
    Toleration,
    WeightedNodeTerm,
    WeightedPodTerm,
    decimal,
)
from volsched.model.selectors import LabelSelector, NodeSelector, NodeTerm
from volsched.model.values.quantity import QuantityText, amount_of
from volsched.model.values.resources import Resources

RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_LAST_PORT: Final = 65535


def rules_of(
    pod: api.Pod,
    annotations: tuple[tuple[str, str], ...] = (),
    *,
    asks_by_annotation: bool = False,
    limits: PodLimits = pod_limits.DEFAULT,
) -> PodRules:
    """Parse all rules of a pod about its node. Rules that are unreadable or too many become refusals."""
    spec, metadata = pod.spec, pod.metadata
    too_much = pod_limits.exceeded(spec, limits)
    if too_much:
        spec = pod_limits.trimmed(spec)
    reader = _RuleReader(metadata.namespace, metadata.labels)
    asked = reader.read(_NOTHING_ASKED, requests.of_placed_pod if is_resized(pod) else requests.of_pod, pod)
    terms = _terms_of(spec, reader)
    has_few = pod_limits.count_containers(spec) <= limits.containers
    claims, ephemeral = _claims_of(pod)
    keys = label_keys(spec) if has_terms(spec) else ()
    return PodRules(
        request=asked.request.without("pods"),
        nonzero_cpu=asked.nonzero_cpu,
        nonzero_memory=asked.nonzero_memory,
        required_nodes=reader.read(None, _required_nodes, spec),
        preferred_nodes=_preferred_nodes(spec, reader),
        tolerations=_tolerations(spec, reader),
        host_ports=reader.read((), _host_ports, spec),
        claims=claims,
        ephemeral_claims=ephemeral,
        legacy_disks=tuple(sorted(set(_legacy_disks(spec.volumes)))),
        images=_images(spec) if has_few else (),
        containers=len(spec.containers) + len(spec.init_containers),
        container_amounts=container_amounts(spec) if has_few else (),
        has_resource_claims=bool(spec.resource_claims),
        features=features_of(spec),
        annotations=annotations,
        asks_by_annotation=asks_by_annotation,
        labels=tuple((key, metadata.labels[key]) for key in keys if key in metadata.labels),
        namespace=metadata.namespace if keys or has_terms(spec) or claims else "",
        **terms,
        refusals=(*too_long(annotations), *too_much, *reader.refusals),
    )


Value = TypeVar("Value")
Other = TypeVar("Other")
Arguments = ParamSpec("Arguments")

_NOTHING_ASKED: Final = requests.PodRequests(Resources.EMPTY, 0, 0)


class _RuleReader:
    """Collects what cannot be understood instead of stopping at the first fault."""

    __slots__ = ("labels", "namespace", "refusals")

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels
        self.refusals: list[FieldError] = []

    def read(
        self, otherwise: Other, part: Callable[Arguments, Value], *args: Arguments.args, **named: Arguments.kwargs
    ) -> Value | Other:
        """Return what the part gives, or the other value when it cannot be understood."""
        try:
            return part(*args, **named)
        except FieldError as error:
            self.refusals.append(error.detached())
            return otherwise

    def refuse(self, path: str, message: str) -> None:
        """Add a refusal."""
        self.refusals.append(FieldError(path, message))


def counting_parts(pod: api.Pod) -> tuple[Any, ...]:
    """Return the parts of a pod's spec that decide its node, without volumes that do not matter."""
    spec = pod.spec
    volumes = [volume for volume in spec.volumes if _counts(volume)] if spec.volumes else None
    return (
        spec.containers,
        spec.init_containers,
        spec.ephemeral_containers,
        spec.resources,
        spec.overhead,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.host_network,
        spec.host_users,
        volumes,
        bool(spec.resource_claims),
    )


def is_resized(pod: api.Pod) -> bool:
    """True if a pod is being resized on its node."""
    return bool(pod.spec.node_name) and requests.is_resizing(pod)


def reported_resources(status: api.PodStatus) -> tuple[Any, ...]:
    """Return all that a status states of resources."""
    containers = (*status.container_statuses, *status.init_container_statuses)
    return (
        [(item.name, item.resources, item.allocated_resources) for item in containers],
        (status.resources, status.allocated_resources),
        [(item.type, item.reason) for item in status.conditions if item.type == requests.RESIZE_PENDING],
        status.resize,
    )


def _counts(volume: api.Volume) -> bool:
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.image is not None
        or volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.iscsi is not None
        or volume.rbd is not None
    )


def is_claim(volume: api.Volume) -> bool:
    """True if a volume is a PersistentVolumeClaim, named or made for the pod."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


# --- nodes ----------------------------------------------------------------------------------------------------------


def _required_nodes(spec: api.PodSpec) -> NodeSelector | None:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    if required is None and not spec.node_selector:
        return None
    return NodeSelector.parse(
        required, spec.node_selector, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    )


def _preferred_nodes(spec: api.PodSpec, reader: _RuleReader) -> tuple[WeightedNodeTerm, ...]:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    path = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    terms = []
    for number, item in enumerate(affinity.preferred if affinity else ()):
        term = reader.read(NodeTerm(), NodeTerm.parse, item.preference, f"{path}[{number}].preference")
        if item.weight and not term.is_empty:
            terms.append(WeightedNodeTerm(item.weight, term))
    return tuple(terms)


def _tolerations(spec: api.PodSpec, reader: _RuleReader) -> tuple[Toleration, ...]:
    parsed = set()
    for number, item in enumerate(spec.tolerations):
        path = f"spec.tolerations[{number}]"
        operator = item.operator or "Equal"
        bound = 0
        if operator not in ("Equal", "Exists", "Gt", "Lt"):
            reader.refuse(f"{path}.operator", f"unknown operator {operator!r}, must be one of Equal, Exists, Gt, Lt")
            continue
        if operator in ("Gt", "Lt"):
            number_or_none = decimal(item.value)
            if number_or_none is None:
                reader.refuse(f"{path}.value", f"must be an integer for operator {operator}, not {item.value!r}")
                continue
            bound = number_or_none
        value = item.value if operator == "Equal" else ""
        parsed.add(Toleration(item.key, operator, value, item.effect, bound))
    return tuple(sorted(parsed))


def _host_ports(spec: api.PodSpec) -> tuple[HostPort, ...]:
    ports = set()
    for path, container in _long_running(spec):
        for number, item in enumerate(container.ports):
            port = item.host_port or (item.container_port if spec.host_network else 0)
            if port:
                ports.add(_host_port(item, port, f"{path}.ports[{number}]"))
    return tuple(sorted(ports))


def _host_port(item: api.ContainerPort, port: int, path: str) -> HostPort:
    """Read one port. The API server lets no other ports in, and they would conflict with no pod."""
    if not 0 < port <= _LAST_PORT:
        raise FieldError(f"{path}.{'hostPort' if item.host_port else 'containerPort'}", f"{port} is no port")
    protocol = item.protocol or "TCP"
    if protocol not in _PROTOCOLS:
        raise FieldError(f"{path}.protocol", f'"{protocol}" is not understood')
    return HostPort(item.host_ip or ANY_ADDRESS, protocol, port)


def _long_running(spec: api.PodSpec) -> Iterator[tuple[str, api.Container]]:
    """Yield the containers that run while the pod does, and where each is."""
    for number, container in enumerate(spec.containers):
        yield f"spec.containers[{number}]", container
    for number, container in enumerate(spec.init_containers):
        if container.is_sidecar:
            yield f"spec.initContainers[{number}]", container


def features_of(spec: api.PodSpec) -> frozenset[str]:
    """Return the features that a node must declare (KEP-5328, the set of Kubernetes 1.36)."""
    features = set()
    for container in (*spec.containers, *spec.init_containers):
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
            features.add(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        features.add(USER_NAMESPACES_HOST_NETWORK)
    return frozenset(features)


def _images(spec: api.PodSpec) -> tuple[str, ...]:
    names = [container.image for container in (*spec.init_containers, *spec.containers)]
    names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return tuple(_with_tag(name) for name in names)


def _with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


# --- other pods -----------------------------------------------------------------------------------------------------


def has_terms(spec: api.PodSpec) -> bool:
    """True if a pod has terms about other pods."""
    if spec.topology_spread_constraints:
        return True
    affinity = spec.affinity
    return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)


def label_keys(spec: api.PodSpec) -> tuple[str, ...]:
    """Return the keys of the pod's own labels that its affinity and spread terms read, sorted."""
    terms: list[api.PodAffinityTerm | api.TopologySpreadConstraint] = [*spec.topology_spread_constraints]
    affinity = spec.affinity or api.Affinity()
    for group in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if group is not None:
            terms += [*group.required, *(item.pod_affinity_term for item in group.preferred)]
    keys: set[str] = set()
    for term in terms:
        keys.update(term.match_label_keys)
        if isinstance(term, api.PodAffinityTerm):
            keys.update(term.mismatch_label_keys)
        if term.label_selector is not None:
            keys.update(term.label_selector.match_labels)
            keys.update(item.key for item in term.label_selector.match_expressions)
    return tuple(sorted(keys))


def _terms_of(spec: api.PodSpec, reader: _RuleReader) -> dict[str, Any]:
    affinity = spec.affinity or api.Affinity()
    near, near_liked = _pod_terms(affinity.pod_affinity, "spec.affinity.podAffinity", reader)
    apart, apart_liked = _pod_terms(affinity.pod_anti_affinity, "spec.affinity.podAntiAffinity", reader)
    return {
        "affinity": near,
        "anti_affinity": apart,
        "preferred_affinity": near_liked,
        "preferred_anti_affinity": apart_liked,
        "spread": _spread(spec.topology_spread_constraints, reader),
    }


def _pod_terms(
    affinity: api.PodAffinity | None, path: str, reader: _RuleReader
) -> tuple[tuple[PodTerm, ...], tuple[WeightedPodTerm, ...]]:
    if affinity is None:
        return (), ()
    required, preferred = [], []
    for number, term in enumerate(affinity.required):
        where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{number}]"
        parsed = reader.read(None, _pod_term, term, where, reader.namespace, reader.labels)
        if parsed is not None:
            required.append(parsed)
    for number, item in enumerate(affinity.preferred):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{number}].podAffinityTerm"
        parsed = reader.read(None, _pod_term, item.pod_affinity_term, where, reader.namespace, reader.labels)
        if parsed is not None:
            preferred.append(WeightedPodTerm(item.weight, parsed))
    return tuple(required), tuple(preferred)


def _pod_term(term: api.PodAffinityTerm, path: str, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    if not term.topology_key:
        raise FieldError(f"{path}.topologyKey", "must not be empty")
    selector = LabelSelector.parse(term.label_selector, f"{path}.labelSelector")
    selector = selector.with_label_keys(labels, term.match_label_keys, term.mismatch_label_keys)
    if term.namespace_selector is None:
        return PodTerm(term.topology_key, selector, frozenset(term.namespaces or (namespace,)))
    others = LabelSelector.parse(term.namespace_selector, f"{path}.namespaceSelector")
    return PodTerm(term.topology_key, selector, frozenset(term.namespaces), others)


def _spread(constraints: Iterable[api.TopologySpreadConstraint], reader: _RuleReader) -> tuple[SpreadConstraint, ...]:
    parsed = []
    for number, item in enumerate(constraints):
        path = f"spec.topologySpreadConstraints[{number}]"
        constraint = reader.read(None, _spread_constraint, item, path, reader.labels)
        if constraint is not None:
            parsed.append(constraint)
    return tuple(parsed)


def _spread_constraint(item: api.TopologySpreadConstraint, path: str, labels: Mapping[str, str]) -> SpreadConstraint:
    if not item.topology_key:
        raise FieldError(f"{path}.topologyKey", "must not be empty")
    if item.max_skew < 1:
        raise FieldError(f"{path}.maxSkew", f"must be at least 1, not {item.max_skew}")
    if item.min_domains is not None and item.min_domains < 1:
        raise FieldError(f"{path}.minDomains", f"must be at least 1, not {item.min_domains}")
    hard = _choice(item.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway"), f"{path}.whenUnsatisfiable")
    nodes = _choice(item.node_affinity_policy or "Honor", ("Honor", "Ignore"), f"{path}.nodeAffinityPolicy")
    taints = _choice(item.node_taints_policy or "Ignore", ("Honor", "Ignore"), f"{path}.nodeTaintsPolicy")
    selector = LabelSelector.parse(item.label_selector, f"{path}.labelSelector")
    selector = selector.with_label_keys(labels, item.match_label_keys)
    return SpreadConstraint(
        topology_key=item.topology_key,
        max_skew=item.max_skew,
        hard=hard == "DoNotSchedule",
        selector=selector,
        min_domains=item.min_domains or 1,
        honor_affinity=nodes == "Honor",
        honor_taints=taints == "Honor",
        counts_self=int(selector.matches(labels)),
    )


def _choice(value: str, choices: tuple[str, ...], path: str) -> str:
    if value not in choices:
        raise FieldError(path, f"unknown value {value!r}, must be one of {', '.join(choices)}")
    return value


# --- volumes --------------------------------------------------------------------------------------------------------


def _claims_of(pod: api.Pod) -> tuple[tuple[str, ...], tuple[str, ...]]:
    named, made = set(), set()
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            named.add(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            made.add(f"{pod.metadata.name}-{volume.name}")
    return tuple(sorted(named | made)), tuple(sorted(made))


def _legacy_disks(volumes: Iterable[api.Volume]) -> Iterator[LegacyDisk]:
    for volume in volumes:
        if volume.gce_persistent_disk is not None:
            yield LegacyDisk("gce", volume.gce_persistent_disk.pd_name, volume.gce_persistent_disk.read_only)
        if volume.aws_elastic_block_store is not None:
            yield LegacyDisk("aws", volume.aws_elastic_block_store.volume_id)
        if volume.iscsi is not None:
            yield LegacyDisk("iscsi", volume.iscsi.iqn, volume.iscsi.read_only)
        if volume.rbd is not None:
            image = volume.rbd
            identity = f"{image.pool or 'rbd'}/{image.image}"
            yield LegacyDisk("rbd", identity, image.read_only, tuple(sorted(set(image.monitors))))


# --- containers ------------------------------------------------------------------------------------------------------


def container_amounts(spec: api.PodSpec) -> tuple[ContainerAmounts, ...]:
    """Return what each container asks for of extended resources; nothing when none asks for any."""
    found = tuple(
        _amounts_of(kind, place, item)
        for kind, containers in (
            (MAIN, spec.containers),
            (INIT, spec.init_containers),
            ("ephemeralContainers", spec.ephemeral_containers),
        )
        for place, item in enumerate(containers)
    )
    return found if any(item.amounts for item in found) else ()


def _amounts_of(kind: str, place: int, item: api.Container) -> ContainerAmounts:
    requested, limited = _extended(item.resources.requests), _extended(item.resources.limits)
    return ContainerAmounts(
        kind,
        place,
        tuple(sorted({**requested, **limited}.items())),
        tuple(sorted(name for name, amount in limited.items() if requested.get(name, amount) != amount)),
        kind == INIT and item.is_sidecar,
    )


def _extended(listed: Mapping[str, QuantityText]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, text in listed.items():
        if "/" in name:
            with suppress(QuantityError):
                found[name] = amount_of(name, text)
    return found
