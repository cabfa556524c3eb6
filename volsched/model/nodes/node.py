"""A node: its allocatable amounts, its used amounts, and its tasks.

Amounts are exact Python integers in lists that are indexed by the cluster's resource columns; they are the truth. NumPy
columns over all nodes (``volsched.framework.columns.tables``) follow them where a whole vector is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volsched.model.api import Taint
from volsched.model.errors import no_attribute

if TYPE_CHECKING:
    from volsched.model.nodes.columns import ResourceColumns
    from volsched.model.pods.task import TaskInfo


@dataclass(frozen=True, slots=True)
class NodeProperties:
    """The properties of a node, apart from its used amounts; replaced as a whole when the Node changes.

    ``quarantined``: a pod runs there that cannot be read, so the free amounts are not known.
    """

    name: str
    uid: str = ""
    labels: Mapping[str, str] = None  # type: ignore[assignment]  # replaced in __post_init__
    annotations: Mapping[str, str] = None  # type: ignore[assignment]  # replaced in __post_init__
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    capacity: Mapping[str, int] = None  # type: ignore[assignment]  # replaced in __post_init__
    images: Mapping[str, int] = None  # type: ignore[assignment]  # replaced in __post_init__
    features: frozenset[str] = frozenset()
    terminating: bool = False
    quarantined: bool = False

    def __post_init__(self) -> None:
        for name in ("labels", "annotations", "capacity", "images"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})


class NodeAmounts:
    """The allocatable and used amounts of a node: all that a score by amounts needs.

    Amounts are in project units (cpu in thousandths of a core, memory in bytes, others in thousandths). The lists are
    those of the node, by the cluster's resource columns; only the cluster changes them.
    """

    __slots__ = ("_columns", "allocatable", "pipelined", "releasing", "used")

    def __init__(self, node: NodeInfo, columns: ResourceColumns) -> None:
        self._columns = columns
        self.allocatable = node.allocatable
        self.used = node.used
        self.releasing = node.releasing
        self.pipelined = node.pipelined

    def allocatable_of(self, resource: str) -> int:
        """Return the allocatable amount of a resource, 0 if the node has none."""
        return self._at(self.allocatable, resource)

    def used_of(self, resource: str) -> int:
        """Return the amount of a resource that pods hold, terminating pods included."""
        return self._at(self.used, resource)

    def idle_of(self, resource: str) -> int:
        """Return the amount that is free now; below zero if the node shrank under its pods."""
        return self._at(self.allocatable, resource) - self._at(self.used, resource)

    def _at(self, amounts: list[int], resource: str) -> int:
        column = self._columns.find(resource)
        return 0 if column is None else amounts[column]

    if not TYPE_CHECKING:  # a type checker finds the mistake itself

        def __getattr__(self, name: str) -> object:
            raise no_attribute(
                "NodeAmounts",
                name,
                dir(NodeAmounts),
                "a callback that reads more annotates its node as NodePropertiesView (labels, taints, what it "
                "offers) or as NodeInfo (everything)",
            )


class NodeInfo:
    """A node and the tasks on it.

    ``row`` is the node's place among all nodes in order of their names; the first of several best nodes is therefore
    the one whose name comes first. ``used`` includes what is releasing; ``pipelined`` is promised to tasks that wait.
    ``terminating_pods`` counts tasks whose room is being freed, and those that were promised it.
    ``offer`` is a number that nodes share which have the same to give. ``amounts`` is a view of the lists alone.
    """

    __slots__ = (
        "_columns",
        "allocatable",
        "amounts",
        "name",
        "offer",
        "pipelined",
        "releasing",
        "row",
        "spec",
        "tasks",
        "terminating_pods",
        "used",
    )

    def __init__(self, spec: NodeProperties, columns: ResourceColumns) -> None:
        self.spec = spec
        self.name = spec.name
        self.row = -1
        self._columns = columns
        size = len(columns)
        self.allocatable = [0] * size
        self.offer = -1
        self.used = [0] * size
        self.releasing = [0] * size
        self.pipelined = [0] * size
        self.amounts = NodeAmounts(self, columns)
        self.terminating_pods = 0
        self.tasks: dict[str, TaskInfo] = {}

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the node's labels."""
        return self.spec.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the node's annotations."""
        return self.spec.annotations

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Return the node's taints."""
        return self.spec.taints

    @property
    def unschedulable(self) -> bool:
        """True if the node is cordoned."""
        return self.spec.unschedulable

    @property
    def images(self) -> Mapping[str, int]:
        """Bytes of each image that the node already has, by name."""
        return self.spec.images

    @property
    def features(self) -> frozenset[str]:
        """Features that the kubelet declares."""
        return self.spec.features

    @property
    def terminating(self) -> bool:
        """True if the Node object is being deleted."""
        return self.spec.terminating

    @property
    def quarantined(self) -> bool:
        """True if a pod runs there that cannot be read."""
        return self.spec.quarantined

    def capacity_of(self, resource: str) -> int:
        """Return the machine's whole amount of a resource, 0 when it has none."""
        return self.spec.capacity.get(resource, 0)

    def allocatable_of(self, resource: str) -> int:
        """Return the allocatable amount of a resource, 0 if the node has none."""
        return self._at(self.allocatable, resource)

    def used_of(self, resource: str) -> int:
        """Return the amount of a resource that pods hold, terminating pods included."""
        return self._at(self.used, resource)

    def idle_of(self, resource: str) -> int:
        """Return the amount that is free now; below zero if the node shrank under its pods."""
        return self._at(self.allocatable, resource) - self._at(self.used, resource)

    def _at(self, amounts: list[int], resource: str) -> int:
        column = self._columns.find(resource)
        return 0 if column is None else amounts[column]

    def fits_idle(self, charge: tuple[tuple[int, int], ...]) -> bool:
        """True if every requested amount is free now."""
        allocatable, used = self.allocatable, self.used
        for column, amount in charge:
            if allocatable[column] - used[column] < amount and not self.leaves_to_devices(column):
                return False
        return True

    def fits_future(self, charge: tuple[tuple[int, int], ...]) -> bool:
        """True if every requested amount is free once terminating pods are gone."""
        allocatable, used, releasing, pipelined = self.allocatable, self.used, self.releasing, self.pipelined
        return all(
            allocatable[c] - used[c] + releasing[c] - pipelined[c] >= amount or self.leaves_to_devices(c)
            for c, amount in charge
        )

    def leaves_to_devices(self, column: int) -> bool:
        """True if an extended resource comes from the node's devices, as the node itself offers none (KEP 5004)."""
        return column in self._columns.left_to_devices and not self.allocatable[column]

    def __repr__(self) -> str:
        return f"<Node {self.name}>"
