"""Metadata, and what objects of many kinds share."""

import msgspec

from volsched.model.values.quantity import QuantityText

ResourceList = dict[str, QuantityText]
LimitList = dict[str, QuantityText | None]
"""Amounts that limit others. A null is an unreadable quantity here and not an absent one.

An absent amount would be no limit.
"""


class Record(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Base of all structs here: immutable, camelCase outside, absent fields at their defaults."""


class OwnerReference(Record, frozen=True):
    """Who an object belongs to."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class ObjectMeta(Record, frozen=True):
    """Who an object is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generate_name: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """Return the owner that manages this object."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ApiObject(Record, frozen=True):
    """An object with metadata."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone of what has no namespace."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class Condition(Record, frozen=True):
    """One condition in a status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: int = 0
    transition_id: str = msgspec.field(default="", name="transitionID")


class LabelSelectorRequirement(Record, frozen=True):
    """One expression of a label selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Record, frozen=True):
    """metav1.LabelSelector, not yet parsed (see `selectors`)."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorTerm(Record, frozen=True):
    """One alternative of a node selector: all its expressions and fields must hold."""

    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_fields: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelector(Record, frozen=True):
    """Alternatives, one of which must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class ResourceRequirements(Record, frozen=True):
    """The requests and limits of a container or a pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}
