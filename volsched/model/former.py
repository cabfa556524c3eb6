"""Attributes of one minor version ago: they can still be read, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


def former_attributes(properties: type[Any]) -> Callable[[object, str], object]:
    """Return the ``__getattr__`` of a record whose attributes are now in its ``spec``."""
    moved = frozenset(properties.__annotations__)

    def found(record: object, name: str) -> object:
        kind = type(record).__name__
        if name not in moved:
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        message = f"{kind}.{name} ends with the next minor version; read {kind}.spec.{name}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(object.__getattribute__(record, "spec"), name)

    return found
