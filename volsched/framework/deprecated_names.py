"""Names of one minor version ago: they still work, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType


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


def give_present_names(found: object, names: Mapping[str, str]) -> None:
    """Give an object of a plugin its methods by their present names, if it has them by former ones.

    ``names`` gives the former name by the present one.
    """
    for now, before in names.items():
        if hasattr(found, before) and not hasattr(found, now):
            message = f"{type(found).__name__}.{before} ends with the next minor version; it is {now}"
            warnings.warn(message, DeprecationWarning, stacklevel=3)
            setattr(found, now, getattr(found, before))


class _MovedModules:
    """Finds and loads modules under their former names (it is no ``Loader``: that import costs every start)."""

    def __init__(self, moved: Mapping[str, str]) -> None:
        self._moved = moved

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how a moved module is loaded, or None for any other one."""
        return ModuleSpec(name, self) if name in self._moved else None  # type: ignore[arg-type]  # it has all methods

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module that is there now, and warn."""
        now = self._moved[spec.name]
        names = "volsched.plugin and volsched.plugin.quota have its names"
        message = f"{spec.name} ends with the next minor version; it is {now}; {names}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        found = ModuleType(spec.name)
        found.__getattr__ = partial(getattr, import_module(now))  # type: ignore[method-assign]  # names are looked up there
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module only looks up names."""


def moved_modules(moved: Mapping[str, str]) -> None:
    """Have modules found under the names that they had: ``moved`` gives where each is now."""
    sys.meta_path.append(_MovedModules(moved))
