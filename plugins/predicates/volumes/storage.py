"""All rules about volumes as one predicate, so that pods without any cost one comparison."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.verdicts import node_refusal
from plugins.predicates.volumes import zones
from plugins.predicates.volumes.binding import VolumeBinding
from plugins.predicates.volumes.claims import ONE_POD, keys_of, refusal
from plugins.predicates.volumes.limits import VolumeLimits
from plugins.predicates.volumes.uses import ClaimUses
from volsched.plugin import (
    EventHandler,
    Mask,
    NodeInfo,
    NodeTable,
    PodTemplate,
    Predicate,
    PrePredicate,
    Registrar,
    Rule,
    Storage,
    TaskInfo,
    Verdict,
)

IN_USE = node_refusal(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


class ClaimRules:
    """ReadWriteOncePod, volume limits, binding and zones; each of the last three may be off."""

    def __init__(
        self,
        storage: Storage,
        uses: ClaimUses,
        limits: VolumeLimits | None,
        binding: VolumeBinding | None,
        has_zones: bool,
    ) -> None:
        self._storage = storage
        self._uses = uses
        self._limits = limits
        self._binding = binding
        self._has_zones = has_zones

    def refuse_pod(self, task: TaskInfo) -> Verdict | None:
        """Refuse a pod whose claims are not ready for it."""
        return refusal(self._storage, task) if self._binding is not None else None

    @staticmethod
    def applies(template: PodTemplate) -> bool:
        """True if pods of a template have any claim."""
        return bool(template.claims)

    def key(self, task: TaskInfo) -> tuple[int, ...] | None:
        """Return a key that adds nothing to the template, or None when it has no claims."""
        return () if task.template.claims else None

    def version(self, _: TaskInfo) -> tuple[object, ...]:
        """Return the version: answers change with storage, with the uses of claims, and with volumes of placed pods."""
        return self._storage.version, self._uses.version, self._binding.stamp() if self._binding is not None else None

    def refuse(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """Ask about one node."""
        if not task.template.claims:
            return None
        if self._in_use(task):
            return IN_USE
        found = self._limits.refuse(task, node) if self._limits is not None else None
        if found is None and self._binding is not None:
            found = self._binding.refuse(task, node)
        if found is None and self._has_zones:
            found = zones.refusal(self._zones(task), node)
        return found

    def admit_rows(self, task: TaskInfo, nodes: NodeTable) -> Mask:
        """Answer as ``refuse``, for many nodes at once."""
        if self._in_use(task):
            return np.zeros(len(nodes.rows), dtype=np.bool_)
        mask = np.ones(len(nodes.rows), dtype=np.bool_)
        if self._limits is not None:
            mask &= self._limits.admit_rows(task, nodes)
        if self._binding is not None:
            mask &= self._binding.admit_rows(task, nodes)
        demanded = self._zones(task) if self._has_zones else ()
        if demanded:
            known = nodes.columns.cluster.rows
            for place in np.flatnonzero(mask):
                mask[place] = zones.refusal(demanded, known[nodes.rows[place]]) is None
        return mask

    def _in_use(self, task: TaskInfo) -> bool:
        """True if another pod uses a ReadWriteOncePod claim of a task (VolumeRestrictions)."""
        template = task.template
        return any(
            key in self._uses.nodes and self._is_for_one(key) and self._uses.others(key, task)
            for name, key in zip(template.claims, keys_of(template), strict=True)
            if name not in template.ephemeral_claims
        )

    def _is_for_one(self, key: str) -> bool:
        claim = self._storage.claims.get(key)
        return claim is not None and ONE_POD in claim.spec.access_modes

    def _zones(self, task: TaskInfo) -> zones.Zones:
        found: zones.Zones = ()
        for name, key in zip(task.template.claims, keys_of(task.template), strict=True):
            claim = self._storage.claims.get(key)
            volume = self._storage.volumes.get(claim.spec.volume_name) if claim is not None else None
            if volume is not None and volume.metadata.labels and name not in task.template.ephemeral_claims:
                found += zones.zones_of(volume)
        return found


def rules(registrar: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse pods and nodes by PersistentVolumeClaims, and bind those that wait for a node."""
    uses = registrar.account("predicates.uses", ClaimUses)
    limits = registrar.account("predicates.limits", lambda cluster: VolumeLimits(cluster, uses))
    binding = registrar.account("predicates.binding", lambda cluster: VolumeBinding(cluster, wanted.bind_within))
    found = ClaimRules(
        registrar.cluster.storage,
        uses,
        limits if wanted.node_volume_limits else None,
        binding if wanted.volume_binding else None,
        wanted.volume_zone,
    )
    yield PrePredicate(found.refuse_pod, applies_to=found.applies)
    yield Predicate(
        found.refuse, vector=found.admit_rows, applies_to=found.applies, key=found.key, version=found.version
    )
    if wanted.volume_binding:
        yield EventHandler(binding, for_each_pod=found.applies)
