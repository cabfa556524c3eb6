"""Claims and nodes: where bound volumes can be reached, and where the others could be bound or made.

Per node:

* a bound claim's volume must be reachable;
* a claim for which a node was selected before can only be served there;
* other delayed claims get the smallest open volume that will do, the smallest claim first, no volume twice; a volume
  that names the claim comes before all others, also where it cannot be reached;
* what is left must be provisionable: by a class with a provisioner whose topologies include the node, and whose driver,
  if it reports capacity, has enough where the node reaches it.

What a placed pod is about to take is noted as assumed, and taken back with the pod.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from plugins.predicates.verdicts import node_refusal, pod_refusal
from plugins.predicates.volumes.claims import is_delayed, keys_of
from plugins.predicates.volumes.predicate import OpenVolumes
from volsched.model.storage import SELECTED_NODE
from volsched.model.volumes import (
    NO_PROVISIONER,
    UnboundClaim,
    VolumeInfo,
    affinity_of,
    is_bound,
    largest,
    reached_from,
    topology_term,
)
from volsched.plugin import (
    ON_NODE,
    Cluster,
    Mask,
    NodeInfo,
    NodeSelector,
    NodeTable,
    Observer,
    PodTemplate,
    PropertyColumns,
    TaskInfo,
    TaskStatus,
    Verdict,
    VolumeWrite,
    keep,
    selector_mask,
    selects,
)
from volsched.plugin.objects import api

UNREACHED = node_refusal("node(s) didn't match PersistentVolume's node affinity", resolvable=False)
NO_VOLUME = node_refusal("node(s) didn't find available persistent volumes to bind", resolvable=False)
NO_SPACE = node_refusal("node(s) did not have enough free storage", resolvable=False)
LOST_VOLUME = node_refusal(
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", resolvable=False
)
EVERYWHERE = NodeSelector()
PLACED_NOW = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


@dataclass(slots=True)
class _Provision:
    """Where a claim's volume could be made: in these topologies, and where there is room."""

    topologies: NodeSelector | None
    """None: nowhere."""
    rooms: tuple[NodeSelector, ...] | None
    """None: room is not looked at."""


@dataclass(slots=True)
class _VolumeNeeds:
    """The needs of a template's claims, at ``version`` of the storage."""

    template: PodTemplate
    version: tuple[int, int]
    lost: bool = False
    bound: list[NodeSelector] = field(default_factory=list)
    selected: list[tuple[str, str]] = field(default_factory=list)
    """Claims for which a node was selected, and the node."""
    assumed: list[tuple[str, VolumeInfo]] = field(default_factory=list)
    """Claims that another pod placed by us is about to bind to a volume."""
    unbound: list[tuple[UnboundClaim, VolumeInfo | None]] = field(default_factory=list)
    """Claims for which there is nothing yet but perhaps a volume that names them."""


class VolumeBinding(Observer):
    """The rule, and what placed pods are about to take. A binding waits ``bind_within`` seconds for its volumes."""

    def __init__(self, cluster: Cluster, bind_within: float = 600.0) -> None:
        self._cluster = cluster
        self._storage = cluster.storage
        self._bind_within = bind_within
        self._seen = cluster.storage.version
        self._open = OpenVolumes(cluster.storage)
        self._needs: dict[int, _VolumeNeeds] = {}
        self._provisions: dict[str, tuple[int, _Provision]] = {}
        self._holders: dict[str, dict[str, str]] = {}
        self._taken: dict[str, str] = {}
        self.version = 0

    # -- the rule -------------------------------------------------------------------------------------------------

    def refuse(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """VolumeBinding: ask about one node."""
        found = self._find(self._needs_of(task), node)
        return found if isinstance(found, Verdict) else None

    def admit_rows(self, task: TaskInfo, nodes: NodeTable) -> Mask:
        """Answer as ``refuse``, for many nodes at once."""
        needs = self._needs_of(task)
        properties, rows, cluster = nodes.properties, nodes.rows, self._cluster
        mask = np.full(len(cluster.rows), not needs.lost, dtype=np.bool_)
        for selector in needs.bound:
            mask &= selector_mask(selector, properties)
        for _, volume in needs.assumed:
            if volume.affinity is not None:
                mask &= selector_mask(volume.affinity, properties)
        if needs.selected or not self._can_be_seen_apart(needs):
            places = np.flatnonzero(mask[rows])
            if needs.selected:
                only = cluster.nodes.get(needs.selected[0][1])
                places = places[rows[places] == (only.row if only is not None else -1)]
            result = np.zeros(len(rows), dtype=np.bool_)
            for place in places:
                result[place] = not isinstance(self._find(needs, cluster.rows[rows[place]]), Verdict)
            return result
        for unbound, _ in needs.unbound:
            served = self._provision_mask(unbound, properties)
            if self._open.any_of(unbound.storage_class):
                served = served | self._open.reach(unbound, self._taken, properties)
            mask &= served
        found: Mask = mask[rows]
        return found

    def _can_be_seen_apart(self, needs: _VolumeNeeds) -> bool:
        """True if no volume names a claim, and at most one claim may get any of the open ones."""
        if any(named is not None for _, named in needs.unbound):
            return False
        return sum(1 for unbound, _ in needs.unbound if self._open.any_of(unbound.storage_class)) <= 1

    def _provision_mask(self, unbound: UnboundClaim, properties: PropertyColumns) -> Mask:
        provision = self._provision_of(unbound)
        room = np.zeros(len(properties.cluster.rows), dtype=np.bool_)
        if provision.topologies is None:
            return room
        mask = selector_mask(provision.topologies, properties)
        if provision.rooms is None:
            return mask
        for selector in provision.rooms:
            room |= selector_mask(selector, properties)
        return mask & room

    def _find(self, needs: _VolumeNeeds, node: NodeInfo) -> Verdict | list[VolumeWrite]:
        """Return the writes that give a pod its volumes on a node, or why there are none."""
        if needs.lost:
            return LOST_VOLUME
        if any(not selects(selector, node) for selector in needs.bound):
            return UNREACHED
        writes: list[VolumeWrite] = []
        for key, volume in needs.assumed:
            if not volume.reaches(node):
                return NO_VOLUME
            writes.append(VolumeWrite("static", key, volume.name, node.name, self._bind_within))
        rest: list[UnboundClaim] = []
        for key, name in needs.selected:
            if name != node.name:
                return NO_VOLUME
            rest.append(UnboundClaim.of(key, self._storage.claims[key]))
        taken = dict(self._taken)
        for unbound, named in needs.unbound:
            if named is not None and named.name not in taken:
                best = named if named.reaches(node) else None
            else:
                best = self._open.smallest(unbound, node, taken)
            if best is None:
                rest.append(unbound)
            else:
                taken[best.name] = unbound.key
                writes.append(VolumeWrite("static", unbound.key, best.name, node.name, self._bind_within))
        for unbound in rest:
            refusal = self._refuse_provision(unbound, node)
            if refusal is not None:
                return refusal
            writes.append(VolumeWrite("dynamic", unbound.key, "", node.name, self._bind_within))
        return writes

    def _refuse_provision(self, unbound: UnboundClaim, node: NodeInfo) -> Verdict | None:
        provision = self._provision_of(unbound)
        if provision.topologies is None or not selects(provision.topologies, node):
            return NO_VOLUME
        if provision.rooms is not None and not any(selects(room, node) for room in provision.rooms):
            return NO_SPACE
        return None

    # -- what a template needs ------------------------------------------------------------------------------------

    def stamp(self) -> tuple[int, int]:
        """Return what answers depend on besides nodes: storage, and what placed pods take of it."""
        self._refresh()
        return self._storage.version, self.version

    def _needs_of(self, task: TaskInfo) -> _VolumeNeeds:
        template = task.template
        stamp = self.stamp()
        found = self._needs.get(template.id)
        if found is None or found.template is not template or found.version != stamp:
            found = keep(self._needs, template, _VolumeNeeds(template, stamp))
            for key in keys_of(template):
                self._sort(key, found)
            found.unbound.sort(key=lambda item: (item[0].size, item[0].key))
        return found

    def _sort(self, key: str, needs: _VolumeNeeds) -> None:
        """Find out what one claim needs."""
        storage = self._storage
        claim = storage.claims.get(key)
        if claim is None:
            needs.lost = True
        elif is_bound(claim):
            volume = storage.volumes.get(claim.spec.volume_name)
            if volume is None:
                needs.lost = True
            else:
                affinity = affinity_of(volume)
                if affinity is not None:
                    needs.bound.append(affinity)
        elif not is_delayed(claim, storage):
            needs.lost = True
        else:
            self._sort_delayed(key, claim, needs)

    def _sort_delayed(self, key: str, claim: api.PersistentVolumeClaim, needs: _VolumeNeeds) -> None:
        assumed_volume, assumed_node = self._storage.assumed.get(key, ("", ""))
        unbound = UnboundClaim.of(key, claim)
        if assumed_volume:
            volume = self._open.get(assumed_volume)
            if volume is not None:
                needs.assumed.append((key, volume))
                return
        node = claim.metadata.annotations.get(SELECTED_NODE) or assumed_node
        if node:
            needs.selected.append((key, node))
        else:
            named = next((v for v in self._open.named(unbound) if v.name not in self._taken), None)
            needs.unbound.append((unbound, named))

    def _provision_of(self, unbound: UnboundClaim) -> _Provision:
        known = self._provisions.get(unbound.key)
        if known is None or known[0] != self._storage.version:
            if len(self._provisions) > 10_000:
                self._provisions.clear()
            known = self._provisions[unbound.key] = self._storage.version, self._make_provision(unbound)
        return known[1]

    def _make_provision(self, unbound: UnboundClaim) -> _Provision:
        storage = self._storage
        found = storage.classes.get(unbound.storage_class)
        if found is None or found.provisioner in ("", NO_PROVISIONER):
            return _Provision(None, None)
        topologies = EVERYWHERE
        if found.allowed_topologies:
            topologies = NodeSelector(terms=tuple(topology_term(term) for term in found.allowed_topologies))
        driver = storage.csi_drivers.get(found.provisioner)
        if driver is None or not driver.spec.storage_capacity or not unbound.size:
            return _Provision(topologies, None)
        rooms = []
        for capacity in storage.capacities.values():
            if capacity.storage_class_name == unbound.storage_class and largest(capacity) >= unbound.size:
                rooms += list(reached_from(capacity))
        return _Provision(topologies, tuple(rooms))

    # -- what placed pods take ------------------------------------------------------------------------------------

    def allocate(self, task: TaskInfo) -> Verdict | None:
        """Note the volumes of a newly placed pod. One that comes back from an eviction is not refused."""
        if not task.template.claims or task.node is None:
            return None
        found = self._find(self._needs_of(task), task.node)
        if isinstance(found, Verdict):
            if task.status not in PLACED_NOW:
                return None
            return pod_refusal(f'volumes of pod "{task.key}" on node "{task.node.name}": {found.message}')
        task.bind_volumes = tuple(found)
        for write in found:
            holders = self._holders.setdefault(write.claim, {})
            holders[task.uid] = self._storage.claims[write.claim].metadata.uid
            self._storage.assumed[write.claim] = (write.volume, write.node)
            if write.volume:
                self._taken[write.volume] = write.claim
            self.version += 1
        return None

    def deallocate(self, task: TaskInfo) -> None:
        """Take that back."""
        for write in task.bind_volumes:
            holders = self._holders.get(write.claim)
            if holders is not None and holders.pop(task.uid, None) is not None and not holders:
                self._forget(write.claim)
        task.bind_volumes = ()

    def follows(self, template: PodTemplate) -> bool:
        """Return whether pods of this template have claims."""
        return bool(template.claims)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Take back the volumes of a pod that has no node any more (its binding failed, or it is gone)."""
        if task.bind_volumes and not ON_NODE[task.status]:
            self.deallocate(task)

    def _forget(self, key: str) -> None:
        self._holders.pop(key, None)
        volume, _ = self._storage.assumed.pop(key, ("", ""))
        if volume:
            self._taken.pop(volume, None)
        self.version += 1

    def _refresh(self) -> None:
        """Let go of what came true, or what it was about is gone."""
        storage = self._storage
        self._open.refresh()
        if self._seen == storage.version:
            return
        changes = storage.since(self._seen)
        self._seen = storage.version
        keys = [key for kind, key in changes if kind == "PersistentVolumeClaim"] if changes is not None else None
        for key in list(self._holders) if keys is None else [key for key in keys if key in self._holders]:
            claim = storage.claims.get(key)
            if claim is None or is_bound(claim) or claim.metadata.uid not in self._holders[key].values():
                self._forget(key)
