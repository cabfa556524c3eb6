"""PersistentVolumes that could still be bound: by class, and found by the node that reaches them.

A local volume names its node by a label; with one such volume or more on every node, looking through all of them for
each node would be what takes the time. So volumes whose affinity demands values of a label are kept under these.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

import numpy as np

from volsched.model.volumes import UnboundClaim, VolumeInfo, label_of
from volsched.plugin import Mask, NodeInfo, PropertyColumns, Storage, selector_mask
from volsched.plugin.objects import api


class _Shelf:
    """Volumes in order, sorted on the first look."""

    def __init__(self) -> None:
        self._volumes: dict[str, VolumeInfo] = {}
        self._sorted: list[VolumeInfo] | None = None

    def put(self, volume: VolumeInfo) -> None:
        self._volumes[volume.name] = volume
        self._sorted = None

    def take(self, name: str) -> None:
        del self._volumes[name]
        self._sorted = None

    def __iter__(self) -> Iterator[VolumeInfo]:
        if self._sorted is None:
            self._sorted = sorted(self._volumes.values(), key=lambda volume: volume.order)
        return iter(self._sorted)


class _Fitting:
    """The volumes of a class that suit claims of one shape: by label, and the others."""

    def __init__(self, unbound: UnboundClaim, volumes: Iterable[VolumeInfo]) -> None:
        self._unbound = unbound
        self.counts: dict[str, dict[str, int]] = {}
        self.others: dict[str, VolumeInfo] = {}
        for volume in volumes:
            self.follow(volume, 1)

    def follow(self, volume: VolumeInfo, by: int) -> None:
        """Follow a volume that came (1) or went (-1)."""
        if not self._unbound.accepts(volume):
            return
        label = volume.only_label
        if label is None:
            if by > 0:
                self.others[volume.name] = volume
            else:
                del self.others[volume.name]
            return
        counts = self.counts.setdefault(label[0], {})
        for value in label[1]:
            left = counts.get(value, 0) + by
            if left:
                counts[value] = left
            else:
                del counts[value]

    def reach(self, taken: Iterable[VolumeInfo], properties: PropertyColumns) -> Mask:
        """Mark the rows of nodes that reach any of them but those that are taken."""
        gone: dict[tuple[str, str], int] = {}
        names_missing = set()
        for volume in taken:
            names_missing.add(volume.name)
            if volume.only_label is not None and self._unbound.accepts(volume):
                key, values = volume.only_label
                for value in values:
                    gone[key, value] = gone.get((key, value), 0) + 1
        mask = _mask_of((v for v in self.others.values() if v.name not in names_missing), properties)
        for key, counts in self.counts.items():
            path = ("label", key)
            names = properties.names(path)
            found = np.zeros(len(names) + 1, dtype=np.bool_)
            left = [value for value in counts if counts[value] > gone.get((key, value), 0)] if gone else counts
            found[[names[value] for value in left if value in names]] = True
            mask |= found[properties.ids(path)]
        return mask


class _Class:
    """The open volumes of one storage class."""

    SHAPES = 64

    def __init__(self) -> None:
        self.volumes: dict[str, VolumeInfo] = {}
        self._anywhere = _Shelf()
        self._by_label: dict[str, dict[str, _Shelf]] = {}
        self._fitting: dict[Hashable, _Fitting] = {}

    def put(self, volume: VolumeInfo) -> None:
        """Take a volume in."""
        self.volumes[volume.name] = volume
        for shelf in self._shelves_of(volume):
            shelf.put(volume)
        for fitting in self._fitting.values():
            fitting.follow(volume, 1)

    def take(self, volume: VolumeInfo) -> None:
        """Let a volume go."""
        del self.volumes[volume.name]
        for shelf in self._shelves_of(volume):
            shelf.take(volume.name)
        for fitting in self._fitting.values():
            fitting.follow(volume, -1)

    def _shelves_of(self, volume: VolumeInfo) -> list[_Shelf]:
        label = label_of(volume.affinity)
        if label is None:
            return [self._anywhere]
        values = self._by_label.setdefault(label[0], {})
        return [values.setdefault(value, _Shelf()) for value in label[1]]

    def reach(self, unbound: UnboundClaim, taken: Iterable[str], properties: PropertyColumns) -> Mask:
        """Mark the rows of nodes that reach an open and suitable volume."""
        shape = unbound.shape
        fitting = self._fitting.get(shape)
        if fitting is None:
            if len(self._fitting) >= self.SHAPES:
                self._fitting.clear()
            fitting = self._fitting[shape] = _Fitting(unbound, self.volumes.values())
        return fitting.reach([self.volumes[name] for name in taken if name in self.volumes], properties)

    def near(self, node: NodeInfo) -> list[_Shelf]:
        """Return the shelves with volumes that the node may reach."""
        found = [self._anywhere]
        for key, values in self._by_label.items():
            shelf = values.get(node.labels.get(key, ""))
            if shelf is not None:
                found.append(shelf)
        return found


def _mask_of(volumes: Iterable[VolumeInfo], properties: PropertyColumns) -> Mask:
    mask = np.zeros(len(properties.cluster.rows), dtype=np.bool_)
    for volume in volumes:
        if volume.affinity is None:
            mask[:] = True
            break
        mask |= selector_mask(volume.affinity, properties)
    return mask


class OpenVolumes:
    """All volumes that are not bound, following storage from the first question on."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._seen = -1
        self._volumes: dict[str, VolumeInfo] = {}
        self._classes: dict[str, _Class] = {}
        self._named: dict[str, dict[str, VolumeInfo]] = {}
        self._claim_of: dict[str, str] = {}

    def refresh(self) -> None:
        """Catch up with storage."""
        storage = self._storage
        if self._seen == storage.version:
            return
        changes = storage.since(self._seen) if self._seen >= 0 else None
        self._seen = storage.version
        names: Iterable[str]
        if changes is None:
            names = {**dict.fromkeys(self._volumes), **dict.fromkeys(storage.volumes)}
        else:
            names = dict.fromkeys(key for kind, key in changes if kind == "PersistentVolume")
        for name in names:
            self._drop(name)
            found = storage.volumes.get(name)
            if found is not None:
                self._put(name, found)

    def _put(self, name: str, found: api.PersistentVolume) -> None:
        reference, phase = found.spec.claim_ref, found.status.phase
        if found.metadata.deletion_timestamp is not None or (reference is None and phase not in ("Available", "")):
            return
        volume = self._volumes[name] = VolumeInfo.of(name, found)
        if reference is not None:
            key = self._claim_of[name] = f"{reference.namespace}/{reference.name}"
            self._named.setdefault(key, {})[name] = volume
            return
        self._classes.setdefault(volume.storage_class, _Class()).put(volume)

    def _drop(self, name: str) -> None:
        volume = self._volumes.pop(name, None)
        if volume is None:
            return
        key = self._claim_of.pop(name, None)
        if key is not None:
            del self._named[key][name]
            if not self._named[key]:
                del self._named[key]
            return
        self._classes[volume.storage_class].take(volume)

    def get(self, name: str) -> VolumeInfo | None:
        """Return a volume that is not bound."""
        return self._volumes.get(name)

    def named(self, unbound: UnboundClaim) -> list[VolumeInfo]:
        """Return the volumes whose user, or an earlier attempt of ours, named this claim."""
        claim = self._storage.claims[unbound.key]
        found = []
        for name, volume in sorted(self._named.get(unbound.key, {}).items()):
            reference = self._storage.volumes[name].spec.claim_ref
            if reference is not None and reference.uid in ("", claim.metadata.uid):
                found.append(volume)
        return [v for v in found if v.storage_class == unbound.storage_class and unbound.accepts_named(v)]

    def any_of(self, storage_class: str) -> bool:
        """Return whether a class has any open volume."""
        group = self._classes.get(storage_class)
        return group is not None and bool(group.volumes)

    def reach(self, unbound: UnboundClaim, taken: Iterable[str], properties: PropertyColumns) -> Mask:
        """Mark the rows of nodes for which ``smallest`` finds a volume."""
        group = self._classes.get(unbound.storage_class)
        return (
            np.zeros(len(properties.cluster.rows), dtype=np.bool_)
            if group is None
            else group.reach(unbound, taken, properties)
        )

    def smallest(self, unbound: UnboundClaim, node: NodeInfo, taken: Mapping[str, object]) -> VolumeInfo | None:
        """Return the smallest open volume that will do on a node and that is not taken."""
        group = self._classes.get(unbound.storage_class)
        best: VolumeInfo | None = None
        for shelf in group.near(node) if group is not None else ():
            for volume in shelf:
                if best is not None and volume.order >= best.order:
                    break
                if volume.name not in taken and unbound.accepts(volume) and volume.reaches(node):
                    best = volume
                    break
        return best
