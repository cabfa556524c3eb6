"""The fields of a PodGroup that others have edited, and those that are ours.

A PodGroup that we make has an annotation with a digest of each field that we wrote last. A field that differs was
edited by others, and is ours again once they set it back. Digests take little room whatever is inherited.

A PodGroup without that annotation was made by Volcano's controllers, by an older version of ours, or for a Job. There
the API server's `metadata.managedFields` name the last writer of each field
(https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from volsched.controllers import grouping
from volsched.controllers.objects import ManagedEntry, ManagedMeta
from volsched.model import api

WRITTEN: Final = "volsched.io/last-written"
"""The annotation that has the digests of what we wrote."""

MANAGER: Final = "volsched"
"""Our name at the API server: the part before the slash in the User-Agent."""

MANAGERS: Final = (MANAGER, "vc-controller-manager")
"""Our controllers and Volcano's: we look after PodGroups that Volcano's made once they run no more."""

ANNOTATIONS: Final = "annotations"
LABELS: Final = "labels"
QUEUE: Final = "queue"
MIN_RESOURCES: Final = "minResources"
MINIMUM: Final = ("minMember", MIN_RESOURCES)
"""The minimum of a PodGroup, from the minimum that its workload states."""

Fields = dict[str, Any]
"""The fields that a PodGroup takes from pods and workload, without empty ones.

A field is its name in `spec`, or `annotations/` or `labels/` and a key.
"""


class Authorship(msgspec.Struct, frozen=True, weakref=True):
    """Fields that others wrote last, and annotations and labels that we wrote."""

    others: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()

    def may_write(self, field: str) -> bool:
        """True if we wrote a field last."""
        return field not in self.others


OURS: Final = Authorship()
"""The authorship of an object that only we have written."""


def fields_of(group: api.PodGroup) -> Fields:
    """Return what a PodGroup states of what it takes from pods and workload."""
    spec = group.spec
    found: Fields = {
        "minMember": spec.min_member,
        MIN_RESOURCES: spec.min_resources,
        QUEUE: spec.queue,
        "priorityClassName": spec.priority_class_name,
        "networkTopology": msgspec.to_builtins(spec.network_topology),
    }
    for of, texts in ((ANNOTATIONS, group.metadata.annotations), (LABELS, group.metadata.labels)):
        found |= {f"{of}/{key}": value for key, value in texts.items() if grouping.is_inherited(key)}
    return {name: value for name, value in found.items() if value or _is_text(name)}


def authorship_of(group: api.PodGroup) -> Authorship:
    """Return who wrote what of a PodGroup."""
    recorded = _recorded(group)
    if recorded is None:
        meta = group.metadata
        return _by_managers(group, meta.managed_fields if isinstance(meta, ManagedMeta) else ())
    now = _digests(fields_of(group))
    edited = {name for name in {*now, *recorded} if now.get(name) != recorded.get(name)}
    return Authorship(frozenset(edited), frozenset(name for name in recorded if _is_text(name)))


def written(fields: Fields, authors: Authorship = OURS, before: api.PodGroup | None = None) -> str:
    """Return the annotation of a PodGroup that has these fields once we have written it.

    For a field that others edited `before`, the annotation keeps its digest. If it had none, the field gets one that
    equals nothing that we wrote.
    """
    known = _recorded(before) if before is not None else {}
    others = authors.others & known.keys() if known is not None else authors.others
    kept = {name: (known or {}).get(name, "") for name in others}
    ours = {name: value for name, value in fields.items() if authors.may_write(name)}
    return msgspec.json.encode(_digests(ours) | kept, order="sorted").decode()


def _recorded(group: api.PodGroup) -> dict[str, str] | None:
    """Return the digest of each field that we wrote last, or None where no such annotation can be read."""
    try:
        return msgspec.json.decode(group.metadata.annotations.get(WRITTEN, ""), type=dict[str, str])
    except (msgspec.DecodeError, RecursionError):
        return None


def _digests(fields: Fields) -> dict[str, str]:
    return {name: _digest(value) for name, value in fields.items()}


def _digest(value: object) -> str:
    return hashlib.blake2s(msgspec.json.encode(value, order="sorted"), digest_size=6).hexdigest()


def _is_text(field: str) -> bool:
    """True if a field is an annotation or a label."""
    return "/" in field


def _by_managers(group: api.PodGroup, entries: Iterable[ManagedEntry]) -> Authorship:
    """Return the authors of fields by `managedFields`; of a field that two have written alike, we are the author.

    A queue, and a minimum, are always written by us: if there is none, others removed it.
    """
    ours: set[tuple[str, str]] = set()
    others: set[tuple[str, str]] = set()
    for entry in entries:
        (ours if entry.manager in MANAGERS else others).update(_paths(entry.fields_v1))
    edited = {_field(path) for path in others - ours}
    edited |= {QUEUE} if not group.spec.queue else set()
    edited |= {MIN_RESOURCES} if group.spec.min_resources is None else set()
    return Authorship(frozenset(edited), frozenset(_field(path) for path in ours if path[0] in (ANNOTATIONS, LABELS)))


def _field(path: tuple[str, str]) -> str:
    """Name a field: of a map in the spec, as `minResources`, all entries are one."""
    name, key = path
    return f"{name}/{key}" if name in (ANNOTATIONS, LABELS) else name


def _paths(fields: object) -> Iterator[tuple[str, str]]:
    """Yield the fields of the spec, and keys of annotations and labels, that an entry lists."""
    found, meta = _inside(fields, "f:spec"), _inside(fields, "f:metadata")
    parts = {key: value for key, value in meta.items() if key in (f"f:{ANNOTATIONS}", f"f:{LABELS}")}
    for name, inner in {**found, **parts}.items():
        if name.startswith("f:"):
            keys = [key for key in inner if key != "."] if isinstance(inner, Mapping) else []
            yield from ((name[2:], key.removeprefix("f:")) for key in keys or [""])


def _inside(fields: object, name: str) -> Mapping[str, Any]:
    found = fields.get(name) if isinstance(fields, Mapping) else None
    return found if isinstance(found, Mapping) else {}
