"""Volumes of the cluster as predicates read them: plain look-up tables that the mirror keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from volsched.model import api


@dataclass(slots=True)
class Storage:
    """Claims by ``namespace/name``, everything else by name.

    ``version`` changes with every change of any of them. ``assumed`` holds the volume (or, for a claim that a
    provisioner must serve, an empty name) that a task placed by us is about to take: claim key -> (volume, node).
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
