"""What claims and volumes are once they are bound, and the volumes that a provisioner makes."""

from __future__ import annotations

import msgspec

from volsched.model import api
from volsched.simulation.manifests import Inventory, completed


def bound(
    claim: api.PersistentVolumeClaim, volume: api.PersistentVolume
) -> tuple[api.PersistentVolumeClaim, api.PersistentVolume]:
    """Return a claim and a volume that are bound to each other."""
    meta, phase = claim.metadata, api.VolumePhase("Bound")
    reference = api.ObjectReference("PersistentVolumeClaim", meta.namespace, meta.name, meta.uid)
    claim_spec = msgspec.structs.replace(claim.spec, volume_name=volume.metadata.name)
    volume_spec = msgspec.structs.replace(volume.spec, claim_ref=reference)
    return (
        msgspec.structs.replace(claim, spec=claim_spec, status=phase),
        msgspec.structs.replace(volume, spec=volume_spec, status=phase),
    )


def provisioned(inventory: Inventory, claim: api.PersistentVolumeClaim, node: str) -> api.PersistentVolume:
    """Return the volume that a CSI provisioner makes: reachable where the driver's topology is that of the node."""
    spec = claim.spec
    made = api.PersistentVolume(
        metadata=api.ObjectMeta(name=f"pvc-{claim.metadata.uid}"),
        spec=api.PersistentVolumeSpec(
            capacity=spec.resources.requests,
            access_modes=spec.access_modes,
            volume_mode=spec.volume_mode,
            storage_class_name=spec.storage_class_name or "",
            node_affinity=_reach(inventory, spec.storage_class_name or "", node),
        ),
    )
    return completed(made)


def _reach(inventory: Inventory, storage_class: str, node: str) -> api.VolumeNodeAffinity | None:
    provisioner = next((c.provisioner for c in inventory.of(api.StorageClass) if c.key == storage_class), "")
    labels = next((n.metadata.labels for n in inventory.of(api.Node) if n.key == node), {})
    keys = [
        key
        for found in inventory.of(api.CSINode)
        for driver in found.spec.drivers
        if found.key == node and driver.name == provisioner
        for key in driver.topology_keys
    ]
    wanted = tuple(api.LabelSelectorRequirement(key, "In", (labels[key],)) for key in keys if key in labels)
    return api.VolumeNodeAffinity(api.NodeSelector((api.NodeSelectorTerm(wanted),))) if wanted else None
