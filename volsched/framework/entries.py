"""How a plugin or an action is listed: where it is, imported only when a configuration names it.

What an entry leads to is a class (or any callable) that may have ``ARGUMENTS``, the schema of what it can be told. When
it has, it is called with the checked and complete arguments; when it has none, with nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

from volsched.framework.arguments import Schema, values_of
from volsched.framework.plugin import Action, Plugin

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One plugin or action: the module that holds it and its name there."""

    module: str
    attribute: str

    def load(self) -> Callable[..., T]:
        """Import the module and return what makes the plugin or action."""
        return cast("Callable[..., T]", getattr(importlib.import_module(self.module), self.attribute))


def schema_of(factory: Callable[..., object]) -> Schema:
    """Return what a plugin or action can be told."""
    return tuple(getattr(factory, "ARGUMENTS", ()))


def build(owner: str, factory: Callable[..., T], arguments: Mapping[str, Any]) -> T:
    """Make a plugin or action with these arguments."""
    schema = schema_of(factory)
    values = values_of(owner, schema, arguments)
    return factory(values) if schema else factory()


PluginEntry: TypeAlias = Entry[Plugin]
ActionEntry: TypeAlias = Entry[Action]
