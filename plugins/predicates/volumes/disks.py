"""Disks that pods name themselves (gce, aws, iscsi, rbd): most must not be on a node twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.pods.exclusive import Exclusive
from plugins.predicates.verdicts import node_refusal
from volsched.model.pods.placement_rules import LegacyDisk
from volsched.plugin import PodTemplate, Predicate, Registrar, Rule, Verdict

IN_USE = node_refusal("node(s) had no available disk")

DiskKey = tuple[str, str]
"""Kind and identity."""


class LegacyDisks(Exclusive[DiskKey, LegacyDisk]):
    """VolumeRestrictions: no pod on the node uses a disk in a way that excludes the pod."""

    REFUSAL: ClassVar[Verdict] = IN_USE

    def wanted(self, template: PodTemplate) -> Iterable[tuple[DiskKey, LegacyDisk]]:
        """Return the disks that pods of this template name."""
        return (((disk.kind, disk.identity), disk) for disk in template.legacy_disks)


def rules(registrar: Registrar, _: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes where a disk is in use; nothing turns this off."""
    disks = registrar.account("predicates.disks", LegacyDisks)
    yield Predicate(disks.are_free, vector=disks.free_rows, applies_to=disks.follows)
