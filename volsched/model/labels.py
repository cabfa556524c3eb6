"""Bounds for the labels, owners and finalizers that are kept of objects.

The API server bounds neither the number of labels of an object nor that of owners and finalizers. A tenant may write a
megabyte of them into a pod that has a node already, which counts whatever it weighs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from volsched.model import api

MOST_LABELS: Final = 8192
"""Characters of the labels of one object that are looked at, keys and values together. An ordinary pod has 500."""

TOO_MANY: Final = f"have more than {MOST_LABELS} characters"
FIRST: Final = "the first ones by name are looked at, no others"

_LONGEST: Final = 253 + 1 + 63 + 63
"""Characters of a label, by the API server's rules."""

_FEW: Final = MOST_LABELS // _LONGEST
"""A number of labels that is never too long."""

_WITHOUT: Final = frozenset(
    {
        "CSIStorageCapacity",
        "NativeWorkload",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "ResourceClaim",
        "ResourceClaimTemplate",
    }
)
"""Kinds of whose labels none is read."""


def kept(labels: dict[str, str]) -> dict[str, str]:
    """Return the labels of an object that are read: all, or the first ones by key of too many."""
    if len(labels) <= _FEW or _fitting(labels) == len(labels):
        return labels
    return {key: labels[key] for key in islice(sorted(labels), _fitting(labels))}


def are_too_many(labels: dict[str, str]) -> bool:
    """True if an object has more labels than are looked at."""
    return len(kept(labels)) < len(labels)


def trim(kind: str, found: api.ApiObject) -> None:
    """Drop labels, owners and finalizers that are not read from the metadata of an object without other users.

    Of too many labels one more is kept than is read, to show that there were too many. Those of nodes, namespaces and
    queues all stay: tenants do not write them, and node-feature-discovery alone may write 8192.
    """
    meta = found.metadata
    if kind in _WITHOUT:
        meta.labels.clear()
    elif meta.namespace and len(meta.labels) > _FEW:
        for key in sorted(meta.labels)[_fitting(meta.labels) + 1 :]:
            del meta.labels[key]
    if len(meta.owner_references) > 1:
        owners = tuple(owner for owner in meta.owner_references if owner.controller)
        msgspec.structs.force_setattr(meta, "owner_references", owners)
    if meta.finalizers and not (kind == "ResourceClaim" and is_without_devices(found)):
        msgspec.structs.force_setattr(meta, "finalizers", ())


def is_without_devices(claim: Any) -> bool:
    """True if a ResourceClaim is not allocated: its allocation writes all finalizers again beside ours."""
    return claim.status.allocation is None


def _fitting(labels: Mapping[str, str]) -> int:
    """Return how many of the labels, in the order of their keys, fit."""
    left = MOST_LABELS
    for number, key in enumerate(sorted(labels)):
        left -= len(key) + len(labels[key])
        if left < 0:
            return number
    return len(labels)
