"""Names of one minor version ago: they still work, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module


def former(module: str, names: Mapping[str, tuple[str, str]]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a module for names that it no longer has.

    ``names`` gives where each is now, as ``package.module:name``, in the same module ``:name``, and what the warning
    tells to use instead.
    """

    def found(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        (place, _, attribute), instead = names[name][0].partition(":"), names[name][1]
        message = f"{module}.{name} ends with the next minor version; {instead}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(import_module(place or module), attribute)

    return found
