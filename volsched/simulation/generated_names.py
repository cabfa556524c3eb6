"""Names for objects with `metadata.generateName`, which the API server completes.

It draws five letters. Here they follow from the object's kind, namespace, prefix and number among equal ones, so that
two runs agree.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from volsched.simulation.documents import Document

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5
_LONGEST_BEGINNING: Final = 63 - _SUFFIX
"""Letters that are kept of a beginning. All three are those of Kubernetes (apiserver, storage/names)."""

_Alike = tuple[str, str, str]
"""Kind, namespace, and a name or how it begins."""


def named(documents: Sequence[Document]) -> list[Document]:
    """Return the documents, with a unique name for those that only have a prefix."""
    taken = {_alike(document, "name") for document in documents}
    numbers: Counter[_Alike] = Counter()
    return [_named(document, taken, numbers) for document in documents]


def _named(document: Document, taken: set[_Alike | None], numbers: Counter[_Alike]) -> Document:
    alike = _alike(document, "generateName")
    if alike is None or _alike(document, "name") is not None:
        return document
    kind, namespace, _ = alike
    while (made := (kind, namespace, _name(alike, numbers[alike]))) in taken:
        numbers[alike] += 1
    taken.add(made)
    return replace(document, raw={**document.raw, "metadata": {**document.raw["metadata"], "name": made[2]}})


def _alike(document: Document, field: str) -> _Alike | None:
    """Return what an object is known by, by one of two fields, or None when it does not state it."""
    metadata = document.raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    text = metadata.get(field)
    if not isinstance(text, str) or not text:
        return None
    return _word(document.raw.get("kind")), _word(metadata.get("namespace") or "default"), text


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _name(alike: _Alike, number: int) -> str:
    digest = hashlib.sha256("/".join((*alike, str(number))).encode("utf-8", "replace")).digest()
    suffix = "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:_SUFFIX])
    return f"{alike[2][:_LONGEST_BEGINNING]}{suffix}"
