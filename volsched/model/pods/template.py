"""Task templates: what is equal between pods that are placed alike, kept once.

Feasibility and scores belong to a template, not to a pod. Two pods share one when everything that decides where they
may go is equal; names, uids and labels do not matter, except where a rule of the pod itself looks at them:

* its namespace, when it has affinity or spread terms or names PersistentVolumeClaims;
* those of its labels that its own affinity and spread terms look at (`labels`);
* its name, when it has an ephemeral volume (the claim is called `<pod>-<volume>`).

Whether other pods' terms match this pod depends on all its labels and is no business of the template. Nor is which
ResourceClaims it has (`TaskInfo.resource_claims`): what these ask for and were given decides, not what they are called.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import msgspec

from volsched.model import api
from volsched.model.api import Taint
from volsched.model.errors import FieldError, QuantityError
from volsched.model.pods import limits as pod_limits
from volsched.model.pods import requests
from volsched.model.pods.limits import PodLimits
from volsched.model.selectors import LabelSelector, NodeSelector, NodeTerm, int64
from volsched.model.values.quantity import QuantityText, amount_of
from volsched.model.values.resources import Resources

__all__ = [
    "ContainerAmounts",
    "HostPort",
    "LegacyDisk",
    "PodTemplate",
    "PodTerm",
    "SpreadConstraint",
    "Taint",
    "TemplateTable",
    "Toleration",
    "WeightedNodeTerm",
    "WeightedPodTerm",
]

LONGEST_REMEMBERED: Final = 1 << 14
"""Bytes of what a pod says by which its template is remembered. A pod that says more, which few do, is parsed each time
that it is seen; thousands of texts of a megabyte would not fit into memory until they are swept."""

RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"

INIT: Final = "initContainers"
MAIN: Final = "containers"
"""The field of a pod's spec that has the containers that are no init containers."""

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the value that Kubernetes uses, nothing listens here
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_LAST_PORT: Final = 65535


class HostPort(msgspec.Struct, frozen=True, gc=False, order=True):
    """A port of the node's own network that a pod takes; an empty address is 0.0.0.0, which meets every address."""

    ip: str
    protocol: str
    port: int

    def conflicts_with(self, other: "HostPort") -> bool:
        """Say whether both cannot be on one node."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip)


class Toleration(msgspec.Struct, frozen=True, gc=False, order=True):
    """A taint that a pod puts up with; an empty key or effect stands for any, `bound` is the number of Gt and Lt."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    bound: int = 0

    def tolerates(self, taint: Taint) -> bool:
        """Say whether the taint is put up with (core/v1 `Toleration.ToleratesTaint`; Gt and Lt are KEP-5471)."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        operator = self.operator
        if operator == "Equal":
            return self.value == taint.value
        if operator == "Exists":
            return True
        number = _decimal(taint.value)
        if number is None:
            return False
        return number > self.bound if operator == "Gt" else number < self.bound


class PodTerm(msgspec.Struct, frozen=True, gc=False):
    """Pods that are near to each other within a topology; `namespaces` names them, `namespace_selector` adds others."""

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None = None

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Say whether a pod with these labels in this namespace is meant."""
        if namespace not in self.namespaces:
            selector = self.namespace_selector
            if selector is None or not selector.matches(namespace_labels):
                return False
        return self.selector.matches(labels)


class WeightedPodTerm(msgspec.Struct, frozen=True, gc=False):
    """A pod term that earns points."""

    weight: int
    term: PodTerm


class WeightedNodeTerm(msgspec.Struct, frozen=True, gc=False):
    """A node term that earns points."""

    weight: int
    term: NodeTerm


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False):
    """How evenly pods are spread over a topology; `hard` is DoNotSchedule, otherwise it only counts in scores.

    `counts_self` is 1 when the pod matches its own selector. `min_domains` 1 demands nothing.
    """

    topology_key: str
    max_skew: int
    hard: bool
    selector: LabelSelector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False
    counts_self: int = 0

    def counts(self, labels: Mapping[str, str]) -> bool:
        """Say whether a pod of the same namespace counts; upstream's empty selector counts none, though it matches."""
        return not self.selector.is_empty and self.selector.matches(labels)


class LegacyDisk(msgspec.Struct, frozen=True, gc=False, order=True):
    """A disk named in the pod itself: gce, aws, iscsi or rbd (VolumeRestrictions)."""

    kind: str
    identity: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()

    def conflicts_with(self, other: "LegacyDisk") -> bool:
        """Say whether both cannot be used on one node."""
        if self.kind != other.kind or self.identity != other.identity:
            return False
        if self.kind == "rbd" and not set(self.monitors) & set(other.monitors):
            return False
        return self.kind == "aws" or not (self.read_only and other.read_only)


class ContainerAmounts(msgspec.Struct, frozen=True, gc=False):
    """What one container asks for of extended resources: (name, thousandths) pairs by name, zeros and less included.

    What is limited counts, else what is requested; `differing` names the resources where both are there and not equal,
    which the API server refuses. Amounts that cannot be read are left out: they are among the template's `refusals`.
    `kind` is the field of the pod's spec that has the container, `place` its place there; a `sidecar` is an init
    container that goes on running.
    """

    kind: str
    place: int
    amounts: tuple[tuple[str, int], ...] = ()
    differing: tuple[str, ...] = ()
    sidecar: bool = False


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


class _Rules(msgspec.Struct, frozen=True):
    """All that a template says; equal rules are one template. The names are those of PodTemplate."""

    request: Resources = Resources.EMPTY
    nonzero_cpu: int = 0
    nonzero_memory: int = 0
    required_nodes: NodeSelector | None = None
    preferred_nodes: tuple[WeightedNodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_affinity: tuple[WeightedPodTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedPodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    claims: tuple[str, ...] = ()
    ephemeral_claims: tuple[str, ...] = ()
    legacy_disks: tuple[LegacyDisk, ...] = ()
    images: tuple[str, ...] = ()
    containers: int = 0
    container_amounts: tuple[ContainerAmounts, ...] = ()
    has_resource_claims: bool = False
    features: frozenset[str] = frozenset()
    refusals: tuple[FieldError, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    asks_by_annotation: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = ""


class PodTemplate:
    """What decides where a pod may go. One object for all equal pods: compare with `is`.

    `id` is a small number that no other template of the table ever has.
    `request` does not include the pod's own slot. `best_effort`: it is empty, the pod asks for no devices either, by
    claims or by annotations (`asks_by_annotation`), and all of it is understood.
    `claims` are the names of PersistentVolumeClaims in `namespace_of_terms`, those of ephemeral volumes included;
    `ephemeral_claims` are the latter alone (their owner must be the pod).
    `containers` counts containers and init containers; `images` are their images, then those of image volumes.
    `has_resource_claims`: which ones, each task says itself.
    `container_amounts` has every container of a pod of which any asks for extended resources, and is empty otherwise;
    the names of the containers are with the task.
    `features` must all be among the node's declared features.
    `refusals` are parts of the pod that cannot be understood: such a pod must not be placed.
    `namespace_of_terms` is the pod's namespace where its own terms or claims need it, and empty otherwise.
    """

    __slots__ = (
        "affinity",
        "annotations",
        "anti_affinity",
        "best_effort",
        "claims",
        "container_amounts",
        "containers",
        "ephemeral_claims",
        "features",
        "has_resource_claims",
        "host_ports",
        "id",
        "images",
        "legacy_disks",
        "namespace_of_terms",
        "nonzero_cpu",
        "nonzero_memory",
        "preferred_affinity",
        "preferred_anti_affinity",
        "preferred_nodes",
        "refusals",
        "request",
        "required_nodes",
        "rules",
        "spread",
        "tolerations",
    )

    def __init__(self, number: int, rules: _Rules | None = None) -> None:
        rules = rules or _Rules()
        self.id = number
        self.rules = rules
        self.request: Resources = rules.request
        self.best_effort: bool = not (
            rules.request or rules.has_resource_claims or rules.asks_by_annotation or rules.refusals
        )
        self.nonzero_cpu: int = rules.nonzero_cpu
        self.nonzero_memory: int = rules.nonzero_memory
        self.required_nodes: NodeSelector | None = rules.required_nodes
        self.preferred_nodes: tuple[WeightedNodeTerm, ...] = rules.preferred_nodes
        self.tolerations: tuple[Toleration, ...] = rules.tolerations
        self.host_ports: tuple[HostPort, ...] = rules.host_ports
        self.affinity: tuple[PodTerm, ...] = rules.affinity
        self.anti_affinity: tuple[PodTerm, ...] = rules.anti_affinity
        self.preferred_affinity: tuple[WeightedPodTerm, ...] = rules.preferred_affinity
        self.preferred_anti_affinity: tuple[WeightedPodTerm, ...] = rules.preferred_anti_affinity
        self.spread: tuple[SpreadConstraint, ...] = rules.spread
        self.claims: tuple[str, ...] = rules.claims
        self.ephemeral_claims: tuple[str, ...] = rules.ephemeral_claims
        self.legacy_disks: tuple[LegacyDisk, ...] = rules.legacy_disks
        self.images: tuple[str, ...] = rules.images
        self.containers: int = rules.containers
        self.container_amounts: tuple[ContainerAmounts, ...] = rules.container_amounts
        self.has_resource_claims: bool = rules.has_resource_claims
        self.features: frozenset[str] = rules.features
        self.refusals: tuple[FieldError, ...] = rules.refusals
        self.annotations: Mapping[str, str] = dict(rules.annotations)
        self.namespace_of_terms: str = rules.namespace

    @property
    def constraints(self) -> Hashable:
        """All that it says but how much it asks for: equal for templates that differ in amounts alone."""
        return msgspec.structs.replace(
            self.rules, request=Resources.EMPTY, nonzero_cpu=0, nonzero_memory=0, container_amounts=()
        )

    @property
    def depends_on_pods(self) -> bool:
        """Whether it matters to the pod where others are."""
        near = self.affinity or self.anti_affinity or self.preferred_affinity or self.preferred_anti_affinity
        return bool(near or self.spread)

    if not TYPE_CHECKING:  # a type checker finds the mistake itself

        def __getattr__(self, name: str) -> object:
            raise AttributeError(
                f"PodTemplate has no {name}: it is what equal pods share; a callback that reads the name, labels, job "
                "or queue of a pod annotates it as TaskInfo, and says by a key which pods share its answers"
            )

    def tolerates(self, taint: Taint) -> bool:
        """Say whether one of the tolerations covers the taint."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

    def __repr__(self) -> str:
        return f"<Template {self.id} {self.request.human()}>"


class TemplateTable:
    """The templates of one cluster.

    `keep_annotation` says which annotations of a pod decide where it goes, by key, and `asking` are those by which it
    asks for something, unless they are blank; see `keep`. `limits` are how much a pod may say.
    """

    __slots__ = (
        "_asking",
        "_by_bytes",
        "_by_rules",
        "_encoder",
        "_keep",
        "_kept",
        "_keys_of_terms",
        "_limits",
        "_next",
    )

    def __init__(
        self,
        keep_annotation: Callable[[str], bool] = lambda _: False,
        asking: Collection[str] = (),
        limits: PodLimits = pod_limits.DEFAULT,
    ) -> None:
        self._limits = limits
        self._keep = keep_annotation
        self._asking = asking
        self._kept: dict[str, bool] = {}
        self._by_bytes: dict[bytes, PodTemplate] = {}
        self._by_rules: dict[_Rules, PodTemplate] = {}
        self._keys_of_terms: dict[bytes, tuple[str, ...]] = {}
        self._encoder = msgspec.json.Encoder()
        self._next = 0

    def __len__(self) -> int:
        return len(self._by_rules)

    def __iter__(self) -> Iterator[PodTemplate]:
        return iter(self._by_rules.values())

    @property
    def remembered(self) -> int:
        """How many entries are kept until the next sweep, beside the templates."""
        return len(self._by_bytes) + len(self._kept) + len(self._keys_of_terms)

    def keep(self, keep_annotation: Callable[[str], bool], asking: Collection[str] = ()) -> None:
        """Keep other annotations from now on. Templates made before say what they said: see `again`."""
        self._keep = keep_annotation
        self._asking = asking
        self._kept.clear()
        self._by_bytes.clear()

    def again(self, template: PodTemplate, annotations: Mapping[str, str]) -> PodTemplate:
        """Return the template of a pod that has this one, with those of the pod's annotations that are kept now."""
        kept = self._annotations(annotations)
        asks = self._asks(kept)
        if (kept, asks) == (template.rules.annotations, template.rules.asks_by_annotation):
            return template
        return self._of_rules(msgspec.structs.replace(template.rules, annotations=kept, asks_by_annotation=asks))

    def intern(self, pod: api.Pod, placed_as: PodTemplate | None = None) -> PodTemplate:
        """Return the template of this pod, made when no pod like it was seen before.

        A pod that was placed goes on counting by the annotations of the template that it was `placed_as`: whoever may
        edit it may change them, and what it uses does not change with them.

        Most pods are found by the bytes of the parts of their spec that count, without parsing them again. A pod that
        is being resized on its node has a template of its own, with the larger request.
        """
        annotations = self._annotations(pod.metadata.annotations) if placed_as is None else placed_as.rules.annotations
        resized = _reported(pod.status) if _is_resized(pod) else None
        key = self._encoder.encode((_counting_parts(pod), annotations, self._identity(pod), resized))
        template = self._by_bytes.get(key)
        if template is None:
            rules = rules_of(pod, annotations, asks_by_annotation=self._asks(annotations), limits=self._limits)
            template = self._of_rules(rules)
            if len(key) <= LONGEST_REMEMBERED:
                self._by_bytes[key] = template
        return template

    def sweep(self, live: Collection[int]) -> list[PodTemplate]:
        """Forget the templates whose ids are not among the live ones and return them; ids are not used again.

        Of the texts by which one was found the latest is kept. What else is remembered, of which users decide how much
        there is, is found out again where it is still needed.
        """
        dead = [template for template in self._by_rules.values() if template.id not in live]
        for template in dead:
            del self._by_rules[template.rules]
        texts = {template.id: text for text, template in self._by_bytes.items() if template.id in live}
        self._by_bytes = {texts[template.id]: template for template in self if template.id in texts}
        self._kept.clear()
        self._keys_of_terms.clear()
        return dead

    def _of_rules(self, rules: _Rules) -> PodTemplate:
        template = self._by_rules.get(rules)
        if template is None:
            template = self._by_rules[rules] = PodTemplate(self._next, rules)
            self._next += 1
        return template

    def _annotations(self, annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        kept = self._kept
        chosen = []
        for key, value in annotations.items():
            keep = kept.get(key)
            if keep is None:
                if len(kept) > 10_000:
                    kept.clear()
                keep = kept[key] = self._keep(key)
            if keep:
                chosen.append((key, value))
        if len(chosen) > 1:
            chosen.sort()
        return tuple(chosen)

    def _asks(self, kept: Iterable[tuple[str, str]]) -> bool:
        return any(key in self._asking and value.strip() for key, value in kept)

    def _identity(self, pod: api.Pod) -> Any:
        """Return what the template needs of the pod's identity: namespace, labels, name, each only where it counts."""
        spec, metadata = pod.spec, pod.metadata
        labels: Any = None
        if _has_terms(spec):
            terms = self._encoder.encode((spec.affinity, spec.topology_spread_constraints))
            keys = self._keys_of_terms.get(terms)
            if keys is None:
                keys = _label_keys(spec)
                if len(terms) <= LONGEST_REMEMBERED:
                    self._keys_of_terms[terms] = keys
            labels = [metadata.labels.get(key) for key in keys]
        if labels is None and not any(map(_is_claim, spec.volumes)):
            return None
        ephemeral = any(volume.ephemeral is not None for volume in spec.volumes)
        return metadata.namespace, labels, metadata.name if ephemeral else None


def rules_of(
    pod: api.Pod,
    annotations: tuple[tuple[str, str], ...] = (),
    *,
    asks_by_annotation: bool = False,
    limits: PodLimits = pod_limits.DEFAULT,
) -> _Rules:
    """Parse everything of a pod that decides where it goes; what cannot be understood, or is too much, is a refusal."""
    spec, metadata = pod.spec, pod.metadata
    too_much = pod_limits.exceeded(spec, limits)
    if too_much:
        spec = pod_limits.trimmed(spec)
    reader = _Reader(metadata.namespace, metadata.labels)
    asked = reader.read(_NOTHING_ASKED, requests.of_placed_pod if _is_resized(pod) else requests.of_pod, pod)
    terms = _terms_of(spec, reader)
    claims, ephemeral = _claims_of(pod)
    keys = _label_keys(spec) if _has_terms(spec) else ()
    return _Rules(
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
        images=_images(spec),
        containers=len(spec.containers) + len(spec.init_containers),
        container_amounts=container_amounts(spec),
        has_resource_claims=bool(spec.resource_claims),
        features=_features(spec),
        annotations=annotations,
        asks_by_annotation=asks_by_annotation,
        labels=tuple((key, metadata.labels[key]) for key in keys if key in metadata.labels),
        namespace=metadata.namespace if keys or _has_terms(spec) or claims else "",
        **terms,
        refusals=(*too_much, *reader.refusals),
    )


Value = TypeVar("Value")
Other = TypeVar("Other")
Arguments = ParamSpec("Arguments")

_NOTHING_ASKED: Final = requests.PodRequests(Resources.EMPTY, 0, 0)


class _Reader:
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


def _counting_parts(pod: api.Pod) -> tuple[Any, ...]:
    """Return the parts of a pod's spec that decide where it goes, volumes of no interest left out."""
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


def _is_resized(pod: api.Pod) -> bool:
    return bool(pod.spec.node_name) and requests.is_resizing(pod)


def _reported(status: api.PodStatus) -> tuple[Any, ...]:
    """Return all that a status says of resources."""
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


def _is_claim(volume: api.Volume) -> bool:
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


def _preferred_nodes(spec: api.PodSpec, reader: _Reader) -> tuple[WeightedNodeTerm, ...]:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    path = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    terms = []
    for number, item in enumerate(affinity.preferred if affinity else ()):
        term = reader.read(NodeTerm(), NodeTerm.parse, item.preference, f"{path}[{number}].preference")
        if item.weight and not term.is_empty:
            terms.append(WeightedNodeTerm(item.weight, term))
    return tuple(terms)


def _tolerations(spec: api.PodSpec, reader: _Reader) -> tuple[Toleration, ...]:
    parsed = set()
    for number, item in enumerate(spec.tolerations):
        path = f"spec.tolerations[{number}]"
        operator = item.operator or "Equal"
        bound = 0
        if operator not in ("Equal", "Exists", "Gt", "Lt"):
            reader.refuse(f"{path}.operator", f"unknown operator {operator!r}, must be one of Equal, Exists, Gt, Lt")
            continue
        if operator in ("Gt", "Lt"):
            number_or_none = _decimal(item.value)
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
    """Read one port; the API server lets nothing else in, and another one would never be in anybody's way."""
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


def _features(spec: api.PodSpec) -> frozenset[str]:
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


def _has_terms(spec: api.PodSpec) -> bool:
    if spec.topology_spread_constraints:
        return True
    affinity = spec.affinity
    return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)


def _label_keys(spec: api.PodSpec) -> tuple[str, ...]:
    """Return the keys of the pod's own labels that its affinity and spread terms look at, sorted."""
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


def _terms_of(spec: api.PodSpec, reader: _Reader) -> dict[str, Any]:
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
    affinity: api.PodAffinity | None, path: str, reader: _Reader
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


def _spread(constraints: Iterable[api.TopologySpreadConstraint], reader: _Reader) -> tuple[SpreadConstraint, ...]:
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


def _decimal(text: str) -> int | None:
    """Return a number in its plain decimal form, as taints and tolerations are compared: no plus, no leading zero."""
    number = int64(text)
    return number if number is not None and str(number) == text else None
