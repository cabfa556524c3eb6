"""The limit of volumes of a CSI driver on a node.

    volumes of pods on the node + attachments to it of other volumes + volumes that the pod would add  <=  limit

A volume that a pod on the node uses already is not added. Without a CSINode, or a count in it, there is no limit. An
unbound claim counts as a volume of its own, of the driver that its class names.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np
import numpy.typing as npt

from plugins.predicates.verdicts import node_refusal
from plugins.predicates.volumes.claims import keys_of
from plugins.predicates.volumes.uses import ClaimUses
from volsched.model.volumes import class_of
from volsched.plugin import Cluster, Mask, NodeInfo, NodeTable, TaskInfo, Verdict

TOO_MANY = node_refusal("node(s) exceed max volume count")

Amounts = npt.NDArray[np.int64]
Identity = tuple[str, str]
"""Driver and handle."""


class Mounts:
    """The different volumes of one kind (of pods, or of attachments) on each node, with their users."""

    def __init__(self) -> None:
        self._users: dict[tuple[str, str], dict[str, set[str]]] = {}
        self.nodes: dict[Identity, set[str]] = {}

    def of(self, node: str, driver: str) -> Mapping[str, Set[str]]:
        """Return the volumes of a driver on a node."""
        return self._users.get((node, driver), {})

    def put(self, node: str, identity: Identity, user: str) -> None:
        """Note that ``user`` has a volume on a node."""
        driver, handle = identity
        self._users.setdefault((node, driver), {}).setdefault(handle, set()).add(user)
        self.nodes.setdefault(identity, set()).add(node)

    def take(self, node: str, identity: Identity, user: str) -> None:
        """Note that it has not any more."""
        driver, handle = identity
        handles = self._users[node, driver]
        handles[handle].discard(user)
        if not handles[handle]:
            del handles[handle]
            self.nodes[identity].discard(node)
            if not self.nodes[identity]:
                del self.nodes[identity]
            if not handles:
                del self._users[node, driver]


class VolumeLimits:
    """Keeps, for each driver, how many volumes each node has, and follows claims, volumes and attachments."""

    def __init__(self, cluster: Cluster, uses: ClaimUses) -> None:
        self._cluster = cluster
        self._storage = cluster.storage
        self._uses = uses
        self._seen = -1

    # -- the rule -------------------------------------------------------------------------------------------------

    def refuse(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """NodeVolumeLimits: ask about one node."""
        csi_node = self._storage.csi_nodes.get(node.name)
        if csi_node is None:
            return None
        limits = {d.name: d.allocatable.count for d in csi_node.spec.drivers if d.allocatable is not None}
        self._refresh()
        for driver, handles in self._wanted(task).items():
            limit = limits.get(driver)
            if limit is None:
                continue
            mounted = self._mounts.of(node.name, driver)
            new = sum(1 for handle in handles if handle not in mounted)
            if new and self._counts.get(driver, {}).get(node.name, 0) + new > limit:
                return TOO_MANY
        return None

    def admit_rows(self, task: TaskInfo, nodes: NodeTable) -> Mask:
        """Answer as ``refuse``, for many nodes at once."""
        known = self._cluster.nodes
        count = len(self._cluster.rows)
        admitted = np.ones(count, dtype=np.bool_)
        if not self._storage.csi_nodes:
            return admitted[nodes.rows]
        self._refresh()
        for driver, handles in self._wanted(task).items():
            new: Amounts = np.full(count, len(handles), dtype=np.int64)
            for handle in handles:
                for name in self._mounts.nodes.get((driver, handle), ()):
                    new[known[name].row] -= 1
            present: Amounts = np.zeros(count, dtype=np.int64)
            for name, volumes in self._counts.get(driver, {}).items():
                if name in known:
                    present[known[name].row] = volumes
            admitted &= (new == 0) | (present + new <= self._limits_of(driver))
        found: Mask = admitted[nodes.rows]
        return found

    def _wanted(self, task: TaskInfo) -> dict[str, set[str]]:
        wanted: dict[str, set[str]] = {}
        for key in keys_of(task.template):
            identity = self._identify(key)
            if identity is not None:
                wanted.setdefault(identity[0], set()).add(identity[1])
        return wanted

    def _limits_of(self, driver: str) -> Amounts:
        """Return the limit of each row. A very large number where there is none."""
        cluster = self._cluster
        known = self._limits.get(driver)
        if known is None or known[0] != (cluster.generations.layout, self._csi_version):
            limits: Amounts = np.full(len(cluster.rows), np.iinfo(np.int64).max, dtype=np.int64)
            for name, csi_node in self._storage.csi_nodes.items():
                if name in cluster.nodes:
                    for item in csi_node.spec.drivers:
                        if item.name == driver and item.allocatable is not None and item.allocatable.count is not None:
                            limits[cluster.nodes[name].row] = item.allocatable.count
            known = self._limits[driver] = (cluster.generations.layout, self._csi_version), limits
        return known[1]

    # -- following storage and pods -------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Refresh: first pods, with the former state of their claims, then the present state of these."""
        news = self._uses.news
        if self._seen == self._storage.version and news is not None and not news:
            return
        changes = self._storage.since(self._seen)
        self._seen, self._uses.news = self._storage.version, []
        if news is None or changes is None or any(kind == "StorageClass" for kind, _ in changes):
            self._start_afresh()
            return
        for key, node in dict.fromkeys(news):
            self._renew_use(key, node)
        for kind, key in dict.fromkeys(changes):
            if kind == "PersistentVolumeClaim":
                self._renew_claim(key)
            elif kind == "PersistentVolume":
                for claim in tuple(self._claims_of.get(key, ())):
                    self._renew_claim(claim)
                for attachment in tuple(self._attachments_of.get(key, ())):
                    self._renew_attachment(attachment)
            elif kind == "VolumeAttachment":
                self._renew_attachment(key)
            elif kind == "CSINode":
                self._csi_version += 1

    def _start_afresh(self) -> None:
        self._claims: dict[str, tuple[str, Identity | None]] = {}
        self._claims_of: dict[str, set[str]] = {}
        self._mounts = Mounts()
        self._attachments: dict[str, tuple[str, str, Identity | None]] = {}
        self._attachments_of: dict[str, set[str]] = {}
        self._attached = Mounts()
        self._counts: dict[str, dict[str, int]] = {}
        self._limits: dict[str, tuple[tuple[int, int], Amounts]] = {}
        self._csi_version = self._storage.version
        for key, nodes in self._uses.nodes.items():
            for node in nodes:
                self._renew_use(key, node)
        for attachment in self._storage.attachments:
            self._renew_attachment(attachment)

    def _identify(self, key: str) -> Identity | None:
        """Return the volume behind a claim, or None for one that no CSI driver attaches."""
        claim = self._storage.claims.get(key)
        if claim is None:
            return None
        volume = self._storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            csi = volume.spec.csi
            return (csi.driver, csi.volume_handle) if csi is not None and csi.driver and csi.volume_handle else None
        found = self._storage.classes.get(class_of(claim))
        return (found.provisioner, f"claim {key}") if found is not None and found.provisioner else None

    def _renew_use(self, key: str, node: str) -> None:
        """Follow that pods with a claim came to a node, or left it."""
        identity = self._learn(key)
        if identity is not None:
            if node in self._uses.nodes.get(key, {}):
                self._mounts.put(node, identity, key)
            elif (
                node in self._mounts.nodes.get(identity, ()) and key in self._mounts.of(node, identity[0])[identity[1]]
            ):
                self._mounts.take(node, identity, key)
            self._recount(node, identity[0])
        if key not in self._uses.nodes:
            self._unlearn(key)

    def _renew_claim(self, key: str) -> None:
        """Follow that a used claim may have another volume now."""
        if key not in self._claims:
            return
        _, before = self._claims[key]
        self._unlearn(key)
        now = self._learn(key)
        if before == now:
            return
        for node in self._uses.nodes.get(key, {}):
            if before is not None:
                self._mounts.take(node, before, key)
                self._recount(node, before[0])
            if now is not None:
                self._mounts.put(node, now, key)
                self._recount(node, now[0])

    def _learn(self, key: str) -> Identity | None:
        known = self._claims.get(key)
        if known is None:
            claim = self._storage.claims.get(key)
            volume = claim.spec.volume_name if claim is not None else ""
            known = self._claims[key] = volume, self._identify(key)
            self._claims_of.setdefault(volume, set()).add(key)
        return known[1]

    def _unlearn(self, key: str) -> None:
        volume, _ = self._claims.pop(key)
        _discard(self._claims_of, volume, key)

    def _renew_attachment(self, key: str) -> None:
        known = self._attachments.pop(key, None)
        if known is not None:
            volume, node, identity = known
            _discard(self._attachments_of, volume, key)
            if identity is not None:
                self._attached.take(node, identity, key)
                self._recount(node, identity[0])
        found = self._storage.attachments.get(key)
        name = found.spec.source.persistent_volume_name if found is not None else None
        if found is None or not name or not found.spec.attacher:
            return
        csi = self._storage.volumes[name].spec.csi if name in self._storage.volumes else None
        identity = (found.spec.attacher, csi.volume_handle) if csi is not None else None
        self._attachments[key] = name, found.spec.node_name, identity
        self._attachments_of.setdefault(name, set()).add(key)
        if identity is not None:
            self._attached.put(found.spec.node_name, identity, key)
            self._recount(found.spec.node_name, identity[0])

    def _recount(self, node: str, driver: str) -> None:
        mounted = self._mounts.of(node, driver)
        total = len(mounted) + sum(1 for handle in self._attached.of(node, driver) if handle not in mounted)
        counts = self._counts.setdefault(driver, {})
        if total:
            counts[node] = total
        else:
            counts.pop(node, None)


def _discard(sets: dict[str, set[str]], key: str, member: str) -> None:
    members = sets.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del sets[key]
