"""Volumes of the cluster as predicates read them: plain look-up tables that the mirror keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from volsched.model import api

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
CLAIM_ANNOTATIONS: Final[tuple[str, ...]] = (SELECTED_NODE, BIND_COMPLETED, OLD_CLASS)
"""The annotations of claims and volumes that are read."""


@dataclass(slots=True)
class Storage:
    """Claims by ``namespace/name``, everything else by name.

    ``version`` grows with every change of any of them; ``since`` returns the changes. ``assumed`` holds the volume (or,
    for a claim that a provisioner must serve, an empty name) that a task placed by us is about to take: claim key ->
    (volume, node).
    """

    claims: dict[str, api.PersistentVolumeClaim] = field(default_factory=dict)
    volumes: dict[str, api.PersistentVolume] = field(default_factory=dict)
    classes: dict[str, api.StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, api.CSINode] = field(default_factory=dict)
    csi_drivers: dict[str, api.CSIDriver] = field(default_factory=dict)
    capacities: dict[str, api.CSIStorageCapacity] = field(default_factory=dict)
    attachments: dict[str, api.VolumeAttachment] = field(default_factory=dict)
    assumed: dict[str, tuple[str, str]] = field(default_factory=dict)
    version: int = 0
    _changes: list[tuple[str, str]] = field(default_factory=list)

    KEPT: ClassVar[int] = 1 << 16

    def since(self, version: int) -> Sequence[tuple[str, str]] | None:
        """Return kind and key of what changed since a version, in order, or None when that was forgotten."""
        behind = self.version - version
        return None if behind > len(self._changes) else self._changes[len(self._changes) - behind :]

    def put(self, found: api.ApiObject) -> bool:
        """Keep an object of one of these kinds; False for any other kind."""
        table = self._table(type(found).__name__)
        if table is None:
            return False
        meta = found.metadata
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        table[key] = found
        self._note(type(found).__name__, key)
        return True

    def drop(self, kind: str, namespace: str, name: str) -> bool:
        """Forget an object; False for a kind that is not kept here."""
        table = self._table(kind)
        if table is None:
            return False
        key = f"{namespace}/{name}" if namespace else name
        table.pop(key, None)
        self._note(kind, key)
        return True

    def _note(self, kind: str, key: str) -> None:
        self.version += 1
        self._changes.append((kind, key))
        if len(self._changes) > self.KEPT:
            del self._changes[: self.KEPT // 2]

    def _table(self, kind: str) -> dict[str, Any] | None:
        tables: dict[str, dict[str, Any]] = {
            "PersistentVolumeClaim": self.claims,
            "PersistentVolume": self.volumes,
            "StorageClass": self.classes,
            "CSINode": self.csi_nodes,
            "CSIDriver": self.csi_drivers,
            "CSIStorageCapacity": self.capacities,
            "VolumeAttachment": self.attachments,
        }
        return tables.get(kind)
