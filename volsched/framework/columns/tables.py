"""Amounts and properties of nodes as NumPy columns, for answers about many nodes at once.

The nodes' own lists are the truth; the columns copy changed rows when a vector is about to be read. Properties (labels,
taints and so on) become small integers per row, so nodes with equal values of a property have equal integers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from volsched.framework.columns.arrays import Rows
from volsched.model.nodes.node import NodeInfo
from volsched.model.values.resources import MAX_AMOUNT

if TYPE_CHECKING:
    from volsched.model.cluster import Cluster

Amounts = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]


class NodeColumns:
    """(resource x node) amounts in project units. The second index is ``NodeInfo.row``."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._layout = -1
        self._position = 0
        self._properties_position = 0
        self._settled = True
        self._width = 0
        self.allocatable: Amounts = np.zeros((0, 0), dtype=np.int64)
        self.used: Amounts = self.allocatable
        self.releasing: Amounts = self.allocatable
        self.pipelined: Amounts = self.allocatable
        self.all_rows: Rows = np.arange(0)

    def refresh(self) -> None:
        """Catch up with the cluster."""
        cluster = self.cluster
        changed = cluster.node_cache.usage_log.since(self._position)
        if changed is None or self._layout != cluster.generations.layout or self._width != len(cluster.columns):
            self._rebuild()
        elif changed:
            self._copy(changed)
        self._position = cluster.node_cache.usage_log.end
        self._properties_position = cluster.node_cache.properties_log.end
        self._settled = not cluster.node_cache.with_terminating_pods

    def refresh_allocatable(self) -> None:
        """Refresh the allocatable amounts, for callers that read only these. Used amounts may be older."""
        cluster = self.cluster
        offered = self._layout == cluster.generations.layout and self._width == len(cluster.columns)
        if not offered or self._properties_position != cluster.node_cache.properties_log.end:
            self.refresh()

    def _rebuild(self) -> None:
        nodes = self.cluster.rows
        width = len(self.cluster.columns)
        self.allocatable = _stack([node.allocatable for node in nodes], width)
        self.used = _stack([node.used for node in nodes], width)
        if self.cluster.node_cache.with_terminating_pods:
            self.releasing = _stack([node.releasing for node in nodes], width)
            self.pipelined = _stack([node.pipelined for node in nodes], width)
        else:
            self.releasing, self.pipelined = np.zeros_like(self.used), np.zeros_like(self.used)
        self.all_rows = np.arange(len(nodes))
        self._layout, self._width = self.cluster.generations.layout, width

    def _copy(self, changed: list[int]) -> None:
        """Copy rows. Allocatable amounts change only with properties.

        Nodes without terminating pods have no pipelined ones.
        """
        nodes = self.cluster.rows
        rows = np.array(changed)
        self.used[:, rows] = _stack([nodes[row].used for row in changed], self._width)
        if self._properties_position != self.cluster.node_cache.properties_log.end:
            self.allocatable[:, rows] = _stack([nodes[row].allocatable for row in changed], self._width)
        if self.cluster.node_cache.with_terminating_pods or not self._settled:
            self.releasing[:, rows] = _stack([nodes[row].releasing for row in changed], self._width)
            self.pipelined[:, rows] = _stack([nodes[row].pipelined for row in changed], self._width)

    def fits_idle(self, charge: tuple[tuple[int, int], ...], rows: Rows) -> npt.NDArray[np.bool_]:
        """Return the rows that have room for a charge, now and once pipelined tasks are placed."""
        fits = np.ones(len(rows), dtype=np.bool_)
        is_freed = bool(self.cluster.node_cache.with_terminating_pods)
        for column, amount in charge:
            idle = self.allocatable[column][rows] - self.used[column][rows]
            enough = idle >= amount
            if is_freed:
                enough &= idle + self.releasing[column][rows] - self.pipelined[column][rows] >= amount
            fits &= enough | self.left_to_devices(column, rows)
        return fits

    def may_fit(self, charge: tuple[tuple[int, int], ...]) -> npt.NDArray[np.bool_]:
        """Return the rows that have room for a charge now, or once terminating pods are gone."""
        rows = self.all_rows
        fits = np.ones(len(rows), dtype=np.bool_)
        for column, amount in charge:
            idle = self.allocatable[column] - self.used[column]
            enough = (idle >= amount) | (self.future_idle(column, rows) >= amount)
            fits &= enough | self.left_to_devices(column, rows)
            if not fits.any():
                break
        return fits

    def left_to_devices(self, column: int, rows: Rows) -> npt.NDArray[np.bool_] | np.bool_:
        """Return the rows that leave an extended resource to their devices."""
        if column not in self.cluster.columns.left_to_devices:
            return np.False_
        left: npt.NDArray[np.bool_] = self.allocatable[column][rows] == 0
        return left

    def future_idle(self, column: int, rows: Rows) -> Amounts:
        """Return the future free amount of one resource: idle + releasing - pipelined."""
        future: Amounts = self.allocatable[column][rows] - self.used[column][rows]
        if self.cluster.node_cache.with_terminating_pods:
            future += self.releasing[column][rows]
            future -= self.pipelined[column][rows]
        return future


def _stack(amounts: list[list[int]], width: int) -> Amounts:
    if not amounts:
        return np.zeros((width, 0), dtype=np.int64)
    try:
        return np.ascontiguousarray(np.array(amounts, dtype=np.int64).T)
    except OverflowError:
        bounded = [[max(-MAX_AMOUNT, min(MAX_AMOUNT, value)) for value in row] for row in amounts]
        return np.ascontiguousarray(np.array(bounded, dtype=np.int64).T)


Path = tuple[str, str]
"""One property of a node: ``("label", "zone")``, ``("taints", "")``, ``("allocatable", "cpu")``."""

_READERS: dict[str, Callable[[NodeInfo, str], Hashable]] = {
    "name": lambda node, _: node.name,
    "label": lambda node, key: node.labels.get(key),
    "labels": lambda node, _: tuple(sorted(node.labels.items())),
    "annotation": lambda node, key: node.annotations.get(key),
    "annotations": lambda node, _: tuple(sorted(node.annotations.items())),
    "taints": lambda node, _: node.taints,
    "unschedulable": lambda node, _: node.unschedulable,
    "images": lambda node, _: tuple(sorted(node.images.items())),
    "features": lambda node, _: node.features,
    "terminating": lambda node, _: node.terminating,
    "quarantined": lambda node, _: node.quarantined,
    "allocatable": lambda node, name: node.allocatable_of(name),
    "capacity": lambda node, name: node.capacity_of(name),
}


class ChangedNodes:
    """Tells which nodes changed their own properties."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._layout = -1
        self._position = 0

    def take(self) -> list[int] | None:
        """Return the rows that changed since this was last asked, each once, or None when all may have."""
        log, layout = self._cluster.node_cache.properties_log, self._cluster.generations.layout
        changed = log.since(self._position) if self._layout == layout else None
        self._position, self._layout = log.end, layout
        return changed


_MOST_FACTS: Final = 2_048
_FACT_BYTES: Final = 32 << 20
"""The most columns of properties, and bytes of them, before all are made again: pods may ask for any label."""

_BYTES_OF_A_FACT: Final = 8
"""The bytes of one node in one column, or in the classes of one set of them."""


class PropertyColumns:
    """Interned properties per row, made on the first request, and classes of nodes that agree in some of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._changes = ChangedNodes(cluster)
        self.version = 0
        self._ids: dict[Path, Ids] = {}
        self._names: dict[Path, dict[Hashable, int]] = {}
        self._classes: dict[tuple[Path, ...], tuple[npt.NDArray[np.intp], list[int]]] = {}

    def refresh(self) -> None:
        """Catch up with nodes whose properties changed."""
        changed = self._changes.take()
        if changed is None or self._has_too_many:
            self._ids.clear()
            self._names.clear()
            self._classes.clear()
            self.version += 1
        elif changed:
            for path, ids in self._ids.items():
                for row in changed:
                    ids[row] = self._intern(path, self.cluster.rows[row])
            self._classes.clear()
            self.version += 1

    @property
    def _has_too_many(self) -> bool:
        count = max(len(self._ids), len(self._classes))
        return count > _MOST_FACTS or count * len(self.cluster.rows) * _BYTES_OF_A_FACT > _FACT_BYTES

    def _intern(self, path: Path, node: NodeInfo) -> int:
        names = self._names[path]
        return names.setdefault(_READERS[path[0]](node, path[1]), len(names))

    def ids(self, path: Path) -> Ids:
        """For each row a small integer that stands for what the node states about ``path``."""
        found = self._ids.get(path)
        if found is None:
            reader, name = _READERS[path[0]], path[1]
            values = [reader(node, name) for node in self.cluster.rows]
            names = self._names[path] = {value: number for number, value in enumerate(dict.fromkeys(values))}
            found = self._ids[path] = np.fromiter(map(names.__getitem__, values), np.int32, len(values))
        return found

    def names(self, path: Path) -> dict[Hashable, int]:
        """Return the integers of ``ids(path)`` by value (an absent label is None)."""
        self.ids(path)
        return self._names[path]

    def classes(self, paths: tuple[Path, ...]) -> tuple[npt.NDArray[np.intp], list[int]]:
        """Return the class of each row, and one row of each class; rows of one class agree in all ``paths``."""
        found = self._classes.get(paths)
        if found is None:
            found = self._classes[paths] = self._classify(paths)
        return found

    def _classify(self, paths: tuple[Path, ...]) -> tuple[npt.NDArray[np.intp], list[int]]:
        count = len(self.cluster.rows)
        inverse: npt.NDArray[np.intp] = np.zeros(count, dtype=np.intp)
        if not count:
            return inverse, []
        for path in paths:
            joint = inverse * np.intp(len(self.names(path)) + 1) + self.ids(path)
            _, inverse = np.unique(joint, return_inverse=True)
        _, first = np.unique(inverse, return_index=True)
        return inverse, [int(row) for row in first]
