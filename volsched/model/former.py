"""Attributes of one minor version ago: they can still be read, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any


def former_attributes(
    properties: type[Any], renamed: Mapping[str, str] = MappingProxyType({})
) -> Callable[[object, str], object]:
    """Return the ``__getattr__`` of a record whose attributes are now in its ``spec``, or are ``renamed``."""
    moved = {name: f"spec.{name}" for name in properties.__annotations__}
    return renamed_attributes({**moved, **renamed})


def renamed_attributes(names: Mapping[str, str], hint: str = "") -> Callable[[object, str], object]:
    """Return the ``__getattr__`` of a class for names that it no longer has.

    ``names`` gives the present ones. ``hint`` ends the message of the error for other names.
    """

    def found(record: object, name: str) -> object:
        kind = type(record).__name__
        if name not in names:
            raise AttributeError(f"{kind!r} object has no attribute {name!r}{hint}")
        message = f"{kind}.{name} ends with the next minor version; read {kind}.{names[name]}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        present: object = record
        for part in names[name].split("."):
            present = getattr(present, part)
        return present

    return found
