"""All rules of a pod about its node, as values: pods with equal rules share one template (``template``)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from volsched.model.api import Taint
from volsched.model.errors import FieldError
from volsched.model.selectors import LabelSelector, NodeSelector, NodeTerm, int64
from volsched.model.values.resources import Resources

INIT: Final = "initContainers"
MAIN: Final = "containers"
"""The field of a pod's spec that has the containers that are no init containers."""

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the value that Kubernetes uses, nothing listens here


class HostPort(msgspec.Struct, frozen=True, gc=False, order=True):
    """A port of the node's own network that a pod takes; an empty address is 0.0.0.0, which meets every address."""

    ip: str
    protocol: str
    port: int

    def conflicts_with(self, other: "HostPort") -> bool:
        """Return whether both cannot be on one node."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip)


class Toleration(msgspec.Struct, frozen=True, gc=False, order=True):
    """A taint that a pod tolerates; an empty key or effect stands for any, `bound` is the number of Gt and Lt."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    bound: int = 0

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the taint is put up with (core/v1 `Toleration.ToleratesTaint`; Gt and Lt are KEP-5471)."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        operator = self.operator
        if operator == "Equal":
            return self.value == taint.value
        if operator == "Exists":
            return True
        number = decimal(taint.value)
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
        """Return whether a pod with these labels in this namespace is meant."""
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
    """A rule to spread pods over a topology. `hard` is DoNotSchedule, otherwise it only counts in scores.

    `counts_self` is 1 if the pod matches its own selector. `min_domains` 1 demands nothing.
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
        """True if a pod of the same namespace counts. Upstream's empty selector counts none, though it matches."""
        return not self.selector.is_empty and self.selector.matches(labels)


class LegacyDisk(msgspec.Struct, frozen=True, gc=False, order=True):
    """A disk named in the pod itself: gce, aws, iscsi or rbd (VolumeRestrictions)."""

    kind: str
    identity: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()

    def conflicts_with(self, other: "LegacyDisk") -> bool:
        """Return whether both cannot be used on one node."""
        if self.kind != other.kind or self.identity != other.identity:
            return False
        if self.kind == "rbd" and not set(self.monitors) & set(other.monitors):
            return False
        return self.kind == "aws" or not (self.read_only and other.read_only)


class ContainerAmounts(msgspec.Struct, frozen=True, gc=False):
    """The extended resources of one container: (name, thousandths) pairs by name, zeros and less included.

    Limits count, else requests; `differing` names the resources where both are there and not equal, which the API
    server refuses. Amounts that cannot be read are left out: they are among the template's `refusals`. `kind` is the
    field of the pod's spec that has the container, `place` its index there; a `sidecar` is an init container that goes
    on running.
    """

    kind: str
    place: int
    amounts: tuple[tuple[str, int], ...] = ()
    differing: tuple[str, ...] = ()
    sidecar: bool = False


class PodRules(msgspec.Struct, frozen=True):
    """All that a template states. Equal rules are one template. The names are those of PodTemplate."""

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


def decimal(text: str) -> int | None:
    """Return a number in its plain decimal form, as taints and tolerations are compared: no plus, no leading zero."""
    number = int64(text)
    return number if number is not None and str(number) == text else None
