"""Entries of plugins and actions: the module of each is imported only when a configuration names it.

An entry leads to a class or a function that makes the plugin or action. The schema of its arguments is its own
``ARGUMENTS``, or that of its module. With a schema, it is called with the checked and complete arguments, else without
arguments. A ``check_arguments`` beside it checks values together.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from volsched.framework.config.arguments import CheckFn, Schema, values_of
from volsched.model.annotations import DECLARATIONS, Declared

if TYPE_CHECKING:
    from volsched.framework.annotation_types import AnnotationTypes

T = TypeVar("T")


@dataclass(frozen=True)
class CatalogueEntry(Generic[T]):
    """One plugin or action: the module that holds it and its name there."""

    module: str
    attribute: str

    def load(self) -> Callable[..., T]:
        """Import the module and return what makes the plugin or action."""
        return cast("Callable[..., T]", getattr(importlib.import_module(self.module), self.attribute))


def schema_of(factory: Callable[..., object]) -> Schema:
    """Return the schema of a plugin or action."""
    return tuple(_beside(factory, "ARGUMENTS") or ())


def check_of(factory: Callable[..., object]) -> CheckFn | None:
    """Return what judges a plugin's or action's arguments together, None when nothing does."""
    found: CheckFn | None = _beside(factory, "check_arguments")
    return found


def excluded_by(factory: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of plugins that a plugin cannot run together with."""
    return tuple(_beside(factory, "EXCLUDES") or ())


def undone_by(factory: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of plugins whose scores work against those of a plugin."""
    return tuple(_beside(factory, "UNDONE_BY") or ())


def declared_annotations(factory: object) -> Declared:
    """Return the annotations that a plugin or action declares: it itself, its module, or a class of its module."""
    return {
        attribute: _annotations(factory, attribute)
        for attribute in dict.fromkeys(each for names in DECLARATIONS.values() for each in names)
    }


def _annotations(factory: object, attribute: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for each in _declaring(factory) for key in _keys(getattr(each, attribute, ()))))


def _declaring(factory: object) -> Sequence[object]:
    """Return the places for declarations of annotations: the factory, its module, and the classes of its module."""
    name = factory.__module__ if hasattr(factory, "__name__") else type(factory).__module__
    module = sys.modules.get(name)
    classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name]
    return factory, module, *classes


def result_annotations(factory: Callable[..., object]) -> tuple[str, ...]:
    """Return the annotations that a plugin writes on pods with their Binding."""
    return _annotations(factory, "RESULT_ANNOTATIONS")


def annotation_types(factory: Callable[..., object]) -> AnnotationTypes:
    """Return how a plugin or action has its annotations read."""
    found: AnnotationTypes = {}
    for each in _declaring(factory):
        found |= getattr(each, "ANNOTATION_TYPES", {})
    return found


def _keys(listed: str | Iterable[str]) -> Iterable[str]:
    return (listed,) if isinstance(listed, str) else listed


def _beside(factory: Callable[..., object], name: str) -> Any:
    """Return what the factory, or else its module, has under a name."""
    module = sys.modules.get(getattr(factory, "__module__", ""))
    own = getattr(factory, name, None)
    return getattr(module, name, None) if own is None else own


def build(owner: str, factory: Callable[..., T], arguments: Mapping[str, Any]) -> T:
    """Make a plugin or action with these arguments."""
    schema = schema_of(factory)
    values = values_of(owner, schema, arguments, check_of(factory))
    return factory(values) if any(not argument.unused for argument in schema) else factory()
