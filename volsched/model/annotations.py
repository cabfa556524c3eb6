"""Annotations that are kept of objects: only those that the core or a plugin reads.

A user may write 256 KiB of annotations into an object, so others are dropped from memory. The core lists what it reads
(`mirror.kept`), and plugins and actions declare what they read (`framework.plugin`). Reading an undeclared annotation
fails: the wrong answer would be that it is absent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import intern
from types import FrameType
from typing import Any, Final

import msgspec

from volsched.model import api, labels
from volsched.model.errors import FieldError, VolschedError, shortened

EVERY: Final = "*"
"""Ends a key that stands for all that begin like it."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which kubectl keeps what was applied."""

LONGEST: Final = 4096
"""Characters of one annotation of a pod that are looked at: an author may write 256 KiB, and plugins remember it."""

DECLARATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": ("POD_ANNOTATIONS", "TASK_ANNOTATIONS"),
    "PodGroup": ("GROUP_ANNOTATIONS",),
    "NativePodGroup": ("GROUP_ANNOTATIONS",),
    "Queue": ("QUEUE_ANNOTATIONS",),
    "Node": ("NODE_ANNOTATIONS",),
}
"""The attributes of a class by which a plugin or action declares annotations by kind; see `framework.plugin`."""

Declared = Mapping[str, Iterable[str]]
"""The declarations of a plugin or action: keys by the attribute that lists them."""

_OURS: Final = ("volsched.model", "volsched.mirror", "volsched.framework")
"""Where an annotation is read for a plugin: the plugin is who called these."""


def bounded(annotations: dict[str, str]) -> dict[str, str]:
    """Return the annotations of a pod, long ones cut. One more character is kept than is read, as a mark."""
    if not annotations or max(map(len, annotations.values())) <= LONGEST:
        return annotations
    return {key: text[: LONGEST + 1] for key, text in annotations.items()}


def too_long(annotations: Iterable[tuple[str, str]]) -> tuple[FieldError, ...]:
    """Return an error for each annotation that was cut."""
    return tuple(
        FieldError(f"metadata.annotations[{key}]", f"has more than {LONGEST} characters")
        for key, text in annotations
        if len(text) > LONGEST
    )


class UndeclaredAnnotationError(VolschedError):
    """An annotation was read that no installed plugin has declared, so that it was not kept."""


class AnnotationKeys:
    """The annotations that are kept of one kind. ``declared_as`` are the attributes of plugins that declare more."""

    __slots__ = ("_empty", "_exact", "_families", "declared_as")

    def __init__(self, keys: Iterable[str] = (), declared_as: str = "") -> None:
        listed = tuple(keys)
        self.declared_as = declared_as
        self._exact = frozenset(key for key in listed if not key.endswith(EVERY))
        self._families = tuple(sorted(key[: -len(EVERY)] for key in listed if key.endswith(EVERY)))
        self._empty = Annotations((), self)

    def become(self, other: AnnotationKeys) -> None:
        """Keep the annotations of another one, also for users of this one."""
        self._exact, self._families, self.declared_as = other._exact, other._families, other.declared_as

    def includes(self, other: AnnotationKeys) -> bool:
        """True if this keeps everything that another one keeps."""
        return other._exact <= self._exact and set(other._families) <= set(self._families)

    def with_those_of(self, other: AnnotationKeys) -> AnnotationKeys:
        """Return what keeps more: what another one keeps as well."""
        families = (f"{start}{EVERY}" for start in (*self._families, *other._families))
        return AnnotationKeys((*self._exact, *other._exact, *families), self.declared_as)

    def covers(self, key: str) -> bool:
        """True if an annotation is kept."""
        return key in self._exact or key.startswith(self._families)

    def of(self, annotations: Mapping[str, str]) -> Mapping[str, str]:
        """Return those annotations of an object that are kept, one copy of each text in memory."""
        if not annotations:
            return self._empty
        kept = [(key, intern(text)) for key, text in annotations.items() if self.covers(key)]
        return Annotations(kept, self) if kept else self._empty

    def drop_others(self, annotations: dict[str, str]) -> None:
        """Drop annotations that are not kept from an object that has no other user."""
        for key in [key for key in annotations if not self.covers(key)]:
            del annotations[key]


class Annotations(dict[str, str]):
    """Kept annotations of one object. Asking for one that is never kept raises UndeclaredAnnotationError."""

    __slots__ = ("_keys",)

    def __init__(self, items: Iterable[tuple[str, str]], keys: AnnotationKeys) -> None:
        super().__init__(items)
        self._keys = keys

    def get(self, key: str, default: Any = None) -> Any:
        """As ``dict.get``."""
        found = super().get(key)
        if found is None:
            self._check(key)
            return default
        return found

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or self._is_absent(key)

    def __missing__(self, key: str) -> str:
        self._check(key)
        raise KeyError(key)

    def _is_absent(self, key: object) -> bool:
        self._check(str(key))
        return False

    def _check(self, key: str) -> None:
        if not self._keys.covers(key):
            raise UndeclaredAnnotationError(_message(key, self._keys.declared_as))


def _message(key: str, declared_as: str) -> str:
    who, shown = _reader(), shortened(key)
    if not declared_as:
        return f'{who} reads the annotation "{shown}", which is not kept of objects of this kind'
    return f'{who} reads the annotation "{shown}" without declaring it; add it to {declared_as} of its class'


def _reader() -> str:
    """Return which module reads: the innermost one that is not the model's or the framework's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(_OURS):
            return module
        frame = frame.f_back
    return "the core"


@dataclass(frozen=True, slots=True)
class KeptAnnotations:
    """The annotations that are kept, by kind; of other kinds none are."""

    kinds: dict[str, AnnotationKeys]

    def of_kind(self, kind: str) -> AnnotationKeys:
        """Return the annotations that are kept of a kind."""
        return self.kinds.get(kind, _NONE)

    def includes(self, other: KeptAnnotations) -> bool:
        """True if this keeps everything that another one keeps."""
        return all(self.of_kind(kind).includes(keys) for kind, keys in other.kinds.items())

    def grow(self, other: KeptAnnotations) -> None:
        """Keep the annotations of another one as well, also for users of this one."""
        for kind, keys in other.kinds.items():
            known = self.kinds.setdefault(kind, keys)
            known.become(known.with_those_of(keys))

    def trim(self, kind: str, found: api.ApiObject) -> None:
        """Drop annotations of a kind that are not kept from the metadata of a newly decoded object."""
        labels.trim(kind, found)
        annotations = found.metadata.annotations
        if annotations:
            self.of_kind(kind).drop_others(annotations)
            if kind == "Pod":
                msgspec.structs.force_setattr(found.metadata, "annotations", bounded(annotations))


_NONE: Final = AnnotationKeys()
