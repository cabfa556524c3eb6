"""Claims and volumes in the in-memory cluster, as Kubernetes' volume controller and provisioners treat them.

A claim without a class gets the default one. A claim of a class that binds immediately gets the smallest volume that
suits, else a new one; so does any claim whose volume is named, by it or by the volume. A claim of the input that is
Pending stays so. Others wait for the node of their first pod. A new volume takes of the storage that its driver reports
(CSIStorageCapacity), counts as a volume of its driver, and goes with its claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from volsched.model import api
from volsched.model.changes import Change, Deleted, Put
from volsched.model.plan import VolumeWrite
from volsched.model.selectors import NodeSelector
from volsched.model.storage import OLD_CLASS
from volsched.model.values.quantity import amount_of, format_amount
from volsched.model.volumes import (
    NO_PROVISIONER,
    WAITS,
    UnboundClaim,
    VolumeInfo,
    class_of,
    is_bound,
    largest,
    reached_from,
    size_of,
    topology_term,
)
from volsched.simulation.manifests import Inventory, completed

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class VolumeController:
    """The claims and volumes of a cluster, which it keeps. ``tell`` takes what changes of them."""

    def __init__(self, inventory: Inventory, notify: Callable[[Change], None]) -> None:
        self.claims: dict[str, api.PersistentVolumeClaim] = {}
        self.volumes = {found.key: found for found in inventory.of(api.PersistentVolume)}
        self._notify = notify
        self._classes = {found.key: found for found in inventory.of(api.StorageClass)}
        self._drivers = {found.key: found for found in inventory.of(api.CSIDriver)}
        self._capacities = {found.key: found for found in inventory.of(api.CSIStorageCapacity)}
        self._nodes = {found.key: found for found in inventory.of(api.Node)}
        self._csi_nodes = {found.key: found for found in inventory.of(api.CSINode)}
        self._default_class = _default_of(self._classes.values())
        self._open = _by_class(self.volumes.values())
        self._named = {_claim_of(found): found.key for found in self.volumes.values() if found.spec.claim_ref}
        self._unbound: dict[str, None] = {}
        self._made: dict[str, tuple[str, str, int]] = {}
        for found in inventory.of(api.PersistentVolumeClaim):
            if found.status.phase == "Pending":  # its controller has looked at it and could do nothing
                self.claims[found.key] = found
            else:
                self._keep(self._classed(found))

    def _keep(self, claim: api.PersistentVolumeClaim) -> None:
        self.claims[claim.key] = claim
        if not is_bound(claim):
            self._unbound[claim.key] = None

    def add(self, claim: api.PersistentVolumeClaim) -> None:
        """Make a claim, unless it is there."""
        if claim.key not in self.claims:
            self._keep(self._classed(claim))
            self._notify(Put(self.claims[claim.key]))

    def drop(self, claim: api.PersistentVolumeClaim) -> None:
        """Delete a claim, and the volume that was made for it unless its class keeps it."""
        meta = claim.metadata
        del self.claims[claim.key]
        self._unbound.pop(claim.key, None)
        self._notify(Deleted("PersistentVolumeClaim", meta.namespace, meta.name, meta.uid))
        made = self._made.pop(claim.spec.volume_name, None)
        if made is not None and self._classes[made[0]].reclaim_policy == "Delete":
            volume = self.volumes.pop(claim.spec.volume_name)
            self._notify(Deleted("PersistentVolume", "", volume.metadata.name, volume.metadata.uid))
            self._use_storage(*made[:2], -made[2])

    def settle(self) -> None:
        """Bind every claim that need not wait for a node."""
        for key in list(self._unbound):
            self._settle(self.claims[key])

    def carry_out(self, write: VolumeWrite) -> str:
        """Bind a claim as the scheduler wants, to an existing or a new volume. Return why it cannot be."""
        claim = self.claims.get(write.claim)
        if claim is None:
            return f'persistentvolumeclaim "{write.claim}" is gone'
        if claim.spec.volume_name:
            return ""
        if write.kind == "dynamic":
            return self._provision(claim, write.node)
        volume = self.volumes.get(write.volume)
        if volume is None:
            return f'persistentvolume "{write.volume}" is gone'
        self._bind(claim, volume)
        return ""

    # -- binding ------------------------------------------------------------------------------------------------------

    def _settle(self, claim: api.PersistentVolumeClaim) -> None:
        volume = self.volumes.get(claim.spec.volume_name or self._named.get(claim.key, ""))
        if claim.spec.volume_name:
            if volume is not None and (volume.spec.claim_ref is None or _claim_of(volume) == claim.key):
                self._bind(claim, volume)
            return
        wanted = UnboundClaim.of(claim.key, claim)
        if volume is not None and wanted.accepts_named(VolumeInfo.of(volume.key, volume)):
            self._bind(claim, volume)
            return
        found = self._classes.get(class_of(claim))
        if found is not None and found.volume_binding_mode == WAITS:
            return
        fitting = next((info for info in self._open.get(class_of(claim), ()) if wanted.accepts(info)), None)
        if fitting is not None:
            self._bind(claim, self.volumes[fitting.name])
        elif found is not None:
            self._provision(claim, self._some_node(found, size_of(claim)))

    def _bind(self, claim: api.PersistentVolumeClaim, volume: api.PersistentVolume) -> None:
        claim, volume = bound(claim, volume)
        shelf = self._open.get(class_of(volume), [])
        shelf[:] = [info for info in shelf if info.name != volume.key]
        self.claims[claim.key], self.volumes[volume.key] = claim, volume
        self._unbound.pop(claim.key, None)
        self._notify(Put(volume))
        self._notify(Put(claim))

    # -- making volumes -----------------------------------------------------------------------------------------------

    def _provision(self, claim: api.PersistentVolumeClaim, node: str | None) -> str:
        """Make a volume that is reached from a node, from all for an empty one. Return why it cannot be made."""
        found, size = self._classes.get(class_of(claim)), size_of(claim)
        if found is None or found.provisioner in ("", NO_PROVISIONER):
            return f'nobody makes volumes of the storage class "{class_of(claim)}"'
        if node is None or not self._has_storage(found, node, size):
            return f'failed to provision volume with StorageClass "{found.key}": not enough free storage'
        volume = provisioned(claim, found, self._reach(found.provisioner, node))
        self._use_storage(found.key, node, size)
        self._made[volume.key] = (found.key, node, size)
        self._bind(claim, volume)
        return ""

    def _some_node(self, found: api.StorageClass, size: int) -> str | None:
        """Return the node by which a volume is made that waits for none: the first suitable one, None without any.

        Empty if it does not depend on the node.
        """
        has_keys = any(self._keys(found.provisioner, node) for node in self._nodes)
        if not (found.allowed_topologies or self._is_tracked(found) or has_keys):
            return ""
        terms = tuple(topology_term(term) for term in found.allowed_topologies)
        allowed = NodeSelector(terms=terms) if terms else NodeSelector()
        names = (name for name in sorted(self._nodes) if allowed.matches(name, self._nodes[name].metadata.labels))
        return next((name for name in names if self._has_storage(found, name, size)), None)

    def _keys(self, driver: str, node: str) -> tuple[str, ...]:
        """Return the labels by which a driver states what a node reaches."""
        known = self._csi_nodes.get(node)
        drivers = known.spec.drivers if known is not None else ()
        return tuple(key for found in drivers if found.name == driver for key in found.topology_keys)

    def _reach(self, driver: str, node: str) -> api.VolumeNodeAffinity | None:
        labels = self._nodes[node].metadata.labels if node in self._nodes else {}
        keys = [key for key in self._keys(driver, node) if key in labels]
        wanted = tuple(api.LabelSelectorRequirement(key, "In", (labels[key],)) for key in keys)
        return api.VolumeNodeAffinity(api.NodeSelector((api.NodeSelectorTerm(wanted),))) if wanted else None

    # -- storage ------------------------------------------------------------------------------------------------------

    def _is_tracked(self, found: api.StorageClass) -> bool:
        driver = self._drivers.get(found.provisioner)
        return driver is not None and driver.spec.storage_capacity

    def _has_storage(self, found: api.StorageClass, node: str, size: int) -> bool:
        """True if a driver that reports its storage has enough of it for a node."""
        if not size or not self._is_tracked(found):
            return True
        pools = self._pools(node, lambda pool: pool.storage_class_name == found.key)
        return any(largest(pool) >= size for pool in pools)

    def _pools(self, node: str, counts: Callable[[api.CSIStorageCapacity], bool]) -> Iterator[api.CSIStorageCapacity]:
        labels = self._nodes[node].metadata.labels if node in self._nodes else {}
        for pool in self._capacities.values():
            if counts(pool) and any(selector.matches(node, labels) for selector in reached_from(pool)):
                yield pool

    def _use_storage(self, storage_class: str, node: str, size: int) -> None:
        """Take storage from the driver's report for a node, for each of its classes. Negative: give."""
        driver = self._classes[storage_class].provisioner
        classes = {found.key for found in self._classes.values() if found.provisioner == driver}
        for pool in list(self._pools(node, lambda pool: pool.storage_class_name in classes)):
            self._capacities[pool.key] = left = _less(pool, size)
            self._notify(Put(left))

    # -- classes ------------------------------------------------------------------------------------------------------

    def _classed(self, claim: api.PersistentVolumeClaim) -> api.PersistentVolumeClaim:
        """Give an unbound claim without a class the default one, as the API server does."""
        spec = claim.spec
        if spec.storage_class_name is not None or OLD_CLASS in claim.metadata.annotations or is_bound(claim):
            return claim
        spec = msgspec.structs.replace(spec, storage_class_name=self._default_class)
        return msgspec.structs.replace(claim, spec=spec)


def _default_of(classes: Iterable[api.StorageClass]) -> str | None:
    """Return the default class: the newest that is one, of equal ones the first name, or None when there is none."""
    defaults = sorted((c for c in classes if c.metadata.annotations.get(DEFAULT_CLASS) == "true"), key=lambda c: c.key)
    newest = max(defaults, key=lambda found: found.metadata.creation_timestamp or "", default=None)
    return newest.key if newest is not None else None


def _by_class(volumes: Iterable[api.PersistentVolume]) -> dict[str, list[VolumeInfo]]:
    """Return the volumes that any claim may have, by class, the smallest first."""
    found: dict[str, list[VolumeInfo]] = {}
    for volume in volumes:
        is_open = volume.spec.claim_ref is None and volume.status.phase in ("", "Available")
        if is_open and volume.metadata.deletion_timestamp is None:
            found.setdefault(class_of(volume), []).append(VolumeInfo.of(volume.key, volume))
    return {name: sorted(infos, key=lambda info: info.order) for name, infos in found.items()}


def _claim_of(volume: api.PersistentVolume) -> str:
    reference = volume.spec.claim_ref
    return f"{reference.namespace}/{reference.name}" if reference is not None else ""


def _less(pool: api.CSIStorageCapacity, size: int) -> api.CSIStorageCapacity:
    """Return a pool with less storage, and no volume in it larger than what is left."""
    if pool.capacity is None:
        return pool
    left = max(0, amount_of("storage", pool.capacity) - size)
    most = pool.maximum_volume_size
    if most is not None and amount_of("storage", most) > left:
        most = format_amount("storage", left)
    return msgspec.structs.replace(pool, capacity=format_amount("storage", left), maximum_volume_size=most)


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


def provisioned(
    claim: api.PersistentVolumeClaim, storage_class: api.StorageClass, reach: api.VolumeNodeAffinity | None
) -> api.PersistentVolume:
    """Return the volume that a CSI provisioner makes for a claim, of its driver."""
    spec, name = claim.spec, f"pvc-{claim.metadata.uid}"
    made = api.PersistentVolume(
        metadata=api.ObjectMeta(name=name),
        spec=api.PersistentVolumeSpec(
            capacity=spec.resources.requests,
            access_modes=spec.access_modes,
            volume_mode=spec.volume_mode,
            volume_attributes_class_name=spec.volume_attributes_class_name,
            storage_class_name=storage_class.key,
            node_affinity=reach,
            csi=api.CSIPersistentVolumeSource(storage_class.provisioner, name),
        ),
    )
    return completed(made)
