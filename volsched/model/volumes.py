"""PersistentVolumes and claims as objects: sizes, classes, matching volumes, and the nodes that reach a volume.

The plugin ``predicates`` decides by this, and a simulation binds by it as Kubernetes' volume controller does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from volsched.model import api
from volsched.model.errors import FieldError
from volsched.model.nodes.node import NodeInfo
from volsched.model.selectors import EVERYTHING, IN, NOTHING, LabelSelector, NodeSelector, NodeTerm, Requirement
from volsched.model.storage import BIND_COMPLETED, OLD_CLASS
from volsched.model.values.quantity import amount_of

NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAITS = "WaitForFirstConsumer"
UNREACHABLE = NodeSelector(terms=())

BETWEEN_ZONES = "__"
"""The separator of values in a volume's label."""

PRESENT_ZONE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONE_LABELS = frozenset(PRESENT_ZONE_LABELS)
"""Labels of zones and regions on PersistentVolumes. ``PRESENT_ZONE_LABELS`` has the present name of each."""


def class_of(found: api.PersistentVolumeClaim | api.PersistentVolume) -> str:
    """Return the storage class of a claim or volume, "" for none."""
    return found.metadata.annotations.get(OLD_CLASS, found.spec.storage_class_name or "")


def is_bound(claim: api.PersistentVolumeClaim) -> bool:
    """True if a claim has its volume. Phase Bound is written after the annotation, so either will do (*ours*)."""
    complete = BIND_COMPLETED in claim.metadata.annotations or claim.status.phase == "Bound"
    return bool(claim.spec.volume_name) and complete


def size_of(claim: api.PersistentVolumeClaim) -> int:
    """Return the bytes that a claim asks for."""
    return amount_of("storage", claim.spec.resources.requests.get("storage", 0))


@dataclass(frozen=True, slots=True)
class VolumeInfo:
    """The data of a PersistentVolume that may still be bound."""

    name: str
    capacity: int
    storage_class: str
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    labels: Mapping[str, str]
    affinity: NodeSelector | None
    only_label: tuple[str, tuple[str, ...]] | None
    """The label, and its values, that state exactly which nodes reach it; None when they do not state just that."""

    @classmethod
    def of(cls, name: str, found: api.PersistentVolume) -> VolumeInfo:
        """Read a volume. An affinity that cannot be understood reaches no node."""
        affinity = affinity_of(found)
        return cls(
            name,
            amount_of("storage", found.spec.capacity.get("storage", 0)),
            class_of(found),
            found.spec.volume_mode,
            found.spec.volume_attributes_class_name or "",
            frozenset(found.spec.access_modes),
            found.metadata.labels,
            affinity,
            _only_label_of(affinity),
        )

    @property
    def order(self) -> tuple[int, str]:
        """Smaller volumes first."""
        return self.capacity, self.name

    def reaches(self, node: NodeInfo) -> bool:
        """Return whether it can be used on a node."""
        return self.affinity is None or self.affinity.matches(node.name, node.labels)


@dataclass(frozen=True, slots=True)
class UnboundClaim:
    """The requirements of an unbound claim."""

    key: str
    size: int
    storage_class: str
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: LabelSelector

    @classmethod
    def of(cls, key: str, claim: api.PersistentVolumeClaim) -> UnboundClaim:
        """Read a claim. A selector that cannot be understood matches nothing."""
        spec = claim.spec
        try:
            selector = EVERYTHING if spec.selector is None else LabelSelector.parse(spec.selector)
        except FieldError:
            selector = NOTHING
        return cls(
            key,
            size_of(claim),
            class_of(claim),
            spec.volume_mode,
            spec.volume_attributes_class_name or "",
            frozenset(spec.access_modes),
            selector,
        )

    @property
    def shape(self) -> Hashable:
        """Its requirements without its name."""
        return self.size, self.mode, self.attributes_class, self.access_modes, self.selector

    def accepts_named(self, volume: VolumeInfo) -> bool:
        """Return whether a volume that names this claim will do."""
        return (
            volume.capacity >= self.size
            and volume.mode == self.mode
            and volume.attributes_class == self.attributes_class
        )

    def accepts(self, volume: VolumeInfo) -> bool:
        """True if a volume that is reserved for no claim fits this one."""
        return (
            self.accepts_named(volume)
            and self.access_modes <= volume.access_modes
            and self.selector.matches(volume.labels)
        )


def affinity_of(volume: api.PersistentVolume) -> NodeSelector | None:
    """Return the nodes from which a volume can be reached, or None for all."""
    required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    if required is None:
        return None
    try:
        return NodeSelector.parse(required)
    except FieldError:
        return UNREACHABLE


def label_of(affinity: NodeSelector | None) -> tuple[str, tuple[str, ...]] | None:
    """Return the first label, and its values, one of which every node that can reach a volume must have."""
    if affinity is None or affinity.terms is None or len(affinity.terms) != 1:
        return None
    wanted = next((r for r in affinity.terms[0].labels if r.operator == IN), None)
    return None if wanted is None else (wanted.key, wanted.values)


def _only_label_of(affinity: NodeSelector | None) -> tuple[str, tuple[str, ...]] | None:
    label = label_of(affinity)
    if label is None or affinity is None or affinity.terms is None or affinity.labels:
        return None
    term = affinity.terms[0]
    return label if len(term.labels) == 1 and not term.names and not term.not_names else None


def topology_term(term: api.TopologySelectorTerm) -> NodeTerm:
    """Return a term of a class' topologies as one about nodes."""
    return NodeTerm(labels=tuple(Requirement(e.key, IN, e.values) for e in term.match_label_expressions))


def largest(capacity: api.CSIStorageCapacity) -> int:
    """Return the bytes that a volume there may have at most. -1 when nothing is known."""
    limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return -1 if limit is None else amount_of("storage", limit)


def reached_from(capacity: api.CSIStorageCapacity) -> Iterator[NodeSelector]:
    """Yield a selector of the nodes that reach a pool, or nothing when none does."""
    if capacity.node_topology is None:
        return
    try:
        selector = LabelSelector.parse(capacity.node_topology)
    except FieldError:
        return
    if not selector.matches_nothing:
        yield NodeSelector(selector.equal, (NodeTerm(selector.requirements),) if selector.requirements else None)
