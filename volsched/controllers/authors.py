"""Which fields of a PodGroup others have written since we did, and which are ours.

The API server notes of each field who wrote its value last, in `metadata.managedFields`
(https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management). So a value that differs from what
volsched wrote has another author, whichever process of volsched wrote it, and nothing has to be kept beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from volsched.controllers.objects import ManagedEntry

MANAGER: Final = "volsched"
"""As whom the API server knows us: what stands before the slash in the User-Agent."""

MANAGERS: Final = (MANAGER, "vc-controller-manager")
"""Us, and Volcano's controllers: what they made of pods is looked after by us once they run no more."""

ANNOTATIONS: Final = "annotations"
LABELS: Final = "labels"


class Authorship(msgspec.Struct, frozen=True, weakref=True):
    """Fields that others wrote last, and annotations and labels that we wrote.

    A field is its name in `spec`, or `annotations/` or `labels/` and a key.
    """

    others: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()

    def may_write(self, field: str) -> bool:
        """Whether nobody else wrote a field last."""
        return field not in self.others

    def keys(self, of: str) -> Iterator[str]:
        """Yield the keys of annotations, or of labels, that we wrote."""
        start = f"{of}/"
        yield from (field.removeprefix(start) for field in self.ours if field.startswith(start))


OURS: Final = Authorship()
"""Of an object that nobody else has written to."""


def authorship_of(entries: Iterable[ManagedEntry]) -> Authorship:
    """Return who wrote what of a PodGroup; of a field that two have written alike, we are the author."""
    ours: set[tuple[str, str]] = set()
    others: set[tuple[str, str]] = set()
    for entry in entries:
        (ours if entry.manager in MANAGERS else others).update(_paths(entry.fields_v1))
    edited = frozenset(_field(path) for path in others - ours)
    return Authorship(edited, frozenset(_field(path) for path in ours if path[0] in (ANNOTATIONS, LABELS)))


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
