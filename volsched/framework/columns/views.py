"""The views of pods and nodes that callbacks get. They record which properties a callback reads.

So an answer is shared by all pods and nodes that agree in these properties; see ``signature``.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any

from volsched.framework.columns.arrays import Rows
from volsched.framework.deprecated_names import former
from volsched.model.api import Taint
from volsched.model.errors import no_attribute
from volsched.model.former import renamed_attributes
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.template import PodTemplate

if TYPE_CHECKING:
    from volsched.framework.columns.tables import NodeColumns, Path, PropertyColumns


class NodeTable:
    """Many nodes at once, for vector twins.

    ``columns`` has amounts by (resource column, row), ``properties`` the nodes' properties as small integers by row,
    and ``rows`` the rows to answer for, in this order. Used amounts may be old for a callback that reads
    ``NodePropertiesView``.
    """

    __slots__ = ("columns", "properties", "rows")

    def __init__(self, columns: NodeColumns, properties: PropertyColumns, rows: Rows) -> None:
        self.columns = columns
        self.properties = properties
        self.rows = rows

    if not TYPE_CHECKING:  # a type checker finds the former names itself
        __getattr__ = renamed_attributes({"facts": "properties"})


class _Recorded(Mapping[str, str]):
    """A mapping of a node that notes which keys were looked up."""

    __slots__ = ("_all", "_kind", "_reads", "_values")

    def __init__(self, kind: str, whole: str, reads: set[Path]) -> None:
        self._kind = kind
        self._all = whole
        self._reads = reads
        self._values: Mapping[str, str] = {}

    def show(self, values: Mapping[str, str]) -> None:
        """Stand for these values from now on."""
        self._values = values

    def get(self, key: str, default: Any = None) -> Any:
        """As ``dict.get``."""
        self._reads.add((self._kind, key))
        return self._values.get(key, default)

    def __getitem__(self, key: str) -> str:
        self._reads.add((self._kind, key))
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        self._reads.add((self._kind, str(key)))
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def keys(self) -> KeysView[str]:
        """As ``dict.keys``."""
        return self._whole().keys()

    def items(self) -> ItemsView[str, str]:
        """As ``dict.items``."""
        return self._whole().items()

    def values(self) -> ValuesView[str]:
        """As ``dict.values``."""
        return self._whole().values()

    def _whole(self) -> Mapping[str, str]:
        self._reads.add((self._all, ""))
        return self._values


class NodePropertiesView:
    """The properties of a node: labels, annotations, taints, images, features, allocatable amounts.

    It records which of them are read, so that nodes with equal values share the answer.
    """

    __slots__ = ("_annotations", "_labels", "_node", "reads")

    def __init__(self) -> None:
        self.reads: set[Path] = set()
        self._labels = _Recorded("label", "labels", self.reads)
        self._annotations = _Recorded("annotation", "annotations", self.reads)
        self._node: NodeInfo

    def show(self, node: NodeInfo) -> NodePropertiesView:
        """Stand for ``node`` from now on."""
        self._node = node
        self.reads.clear()
        self._labels.show(node.labels)
        self._annotations.show(node.annotations)
        return self

    @property
    def name(self) -> str:
        """As ``NodeInfo.name``; reading it makes every node a class of its own."""
        self.reads.add(("name", ""))
        return self._node.name

    @property
    def labels(self) -> Mapping[str, str]:
        """As ``NodeInfo.labels``."""
        return self._labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """As ``NodeInfo.annotations``."""
        return self._annotations

    @property
    def taints(self) -> tuple[Taint, ...]:
        """As ``NodeInfo.taints``."""
        self.reads.add(("taints", ""))
        return self._node.taints

    @property
    def unschedulable(self) -> bool:
        """As ``NodeInfo.unschedulable``."""
        self.reads.add(("unschedulable", ""))
        return self._node.unschedulable

    @property
    def terminating(self) -> bool:
        """As ``NodeInfo.terminating``."""
        self.reads.add(("terminating", ""))
        return self._node.terminating

    @property
    def quarantined(self) -> bool:
        """As ``NodeInfo.quarantined``."""
        self.reads.add(("quarantined", ""))
        return self._node.quarantined

    @property
    def images(self) -> Mapping[str, int]:
        """As ``NodeInfo.images``."""
        self.reads.add(("images", ""))
        return self._node.images

    @property
    def features(self) -> frozenset[str]:
        """As ``NodeInfo.features``."""
        self.reads.add(("features", ""))
        return self._node.features

    def allocatable_of(self, resource: str) -> int:
        """As ``NodeInfo.allocatable_of``."""
        self.reads.add(("allocatable", resource))
        return self._node.allocatable_of(resource)

    def capacity_of(self, resource: str) -> int:
        """As ``NodeInfo.capacity_of``."""
        self.reads.add(("capacity", resource))
        return self._node.capacity_of(resource)

    if not TYPE_CHECKING:  # a type checker finds the mistake itself

        def __getattr__(self, name: str) -> object:
            raise no_attribute(
                "NodePropertiesView",
                name,
                dir(NodePropertiesView),
                "a callback that reads more annotates its node as NodeAmounts (what is offered and used) or as "
                "NodeInfo (everything)",
            )


def node_view(view: str, node: NodeInfo) -> Any:
    """Return what a callback is shown of a node: ``properties``, ``amounts``, or the ``node`` itself."""
    if view == "node":
        return node
    return node.amounts if view == "amounts" else NodePropertiesView().show(node)


def template_view(template: PodTemplate, view: str) -> Any:
    """Return the view of equal pods for a callback: their ``template``, or the part of it that it names."""
    if view == "template":
        return template
    return template.amounts if view == "request" else template.constraints


if not TYPE_CHECKING:  # a type checker knows the present names alone
    __getattr__ = former(__name__, {"NodeFacts": (":NodePropertiesView", "it is NodePropertiesView")})
