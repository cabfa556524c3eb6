"""Zone and region labels of PersistentVolumes, from before volumes had a node affinity.

A node that has any such label must have one of the values that the volume's label names (joined by ``__``); the
beta names of the labels are met by the present ones.
"""

from __future__ import annotations

from plugins.predicates.verdicts import node_refusal
from volsched.model.volumes import BETWEEN_ZONES, PRESENT_ZONE_LABELS
from volsched.plugin import NodeInfo, Verdict
from volsched.plugin.objects import api

NO_ZONE = node_refusal("node(s) had no available volume zone", resolvable=False)

Zones = tuple[tuple[str, frozenset[str]], ...]
"""A label and its values, one of which a node must have."""


def zones_of(volume: api.PersistentVolume) -> Zones:
    """Return what the labels of a volume demand."""
    labels = volume.metadata.labels
    found = []
    for key in PRESENT_ZONE_LABELS:
        values = [value.strip() for value in labels[key].split(BETWEEN_ZONES)] if key in labels else []
        if values and all(values):
            found.append((key, frozenset(values)))
    return tuple(found)


def refusal(zones: Zones, node: NodeInfo) -> Verdict | None:
    """Return why a node is in none of a volume's zones (VolumeZone), or None if it is in one."""
    labels = node.labels
    if not zones or not any(key in labels for key in PRESENT_ZONE_LABELS):
        return None
    for key, values in zones:
        value = labels.get(key)
        if value is None:
            value = labels.get(PRESENT_ZONE_LABELS[key])
        if value not in values:
            return NO_ZONE
    return None
