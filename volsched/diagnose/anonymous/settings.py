"""The scheduler's configuration under other names: actions, plugins, switches and arguments stay, and numbers.

It is written anew, so comments are gone. Resources, drivers, labels and cards in arguments get their other names.
Patterns of resources become the names, as they are then, of those resources that they are found in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
import yaml

from volsched.diagnose.anonymous.names import Names
from volsched.diagnose.anonymous.notes import UNREADABLE
from volsched.framework.config.arguments import Argument, NameType, Schema, find
from volsched.framework.config.loading import plain
from volsched.framework.resource_patterns import DeviceNames
from volsched.model import api
from volsched.model.values.duration import seconds_of
from volsched.registry import ACTIONS, PLUGINS

Json: TypeAlias = Any
_AMOUNTS: Final = ("bool", "int", "float", "quantity", "percentage", "duration")
_NUMBER: Final = re.compile(r"\s*[+-]?[0-9.]+\s*", re.ASCII)
_NO_RESOURCE: Final = "^-$"
"""A pattern that is found in the name of no resource."""


class Settings:
    """Gives configurations other names. ``other_selector`` does so for selectors of labels."""

    def __init__(self, names: Names, other_selector: Callable[[api.LabelSelector], api.LabelSelector]) -> None:
        self._names = names
        self._other_selector = other_selector

    def other(self, text: str) -> str:
        """Return the replaced text of a configuration that can be loaded, once all resources have been met."""
        given = plain(text)
        found = {
            "actions": given.get("actions"),
            "tiers": [
                {**tier, "plugins": [self._entry(each, PLUGINS.schema) for each in tier.get("plugins") or ()]}
                for tier in given.get("tiers") or ()
            ],
            "configurations": [self._entry(each, ACTIONS.schema) for each in given.get("configurations") or ()],
        }
        return yaml.safe_dump({name: value for name, value in found.items() if value}, sort_keys=False)

    def _entry(self, entry: Mapping[str, Json], schema_of: Callable[[str], Schema | None]) -> Json:
        """Return a plugin or an action with its arguments. Its name has to stay, or it could not be loaded."""
        if not entry.get("arguments"):
            return entry
        schema = schema_of(entry["name"]) or ()
        return {**entry, "arguments": dict(self._arguments(schema, entry["arguments"]))}

    def _arguments(self, schema: Schema, given: Mapping[str, Json]) -> Iterable[tuple[str, Json]]:
        for key, value in given.items():
            argument = find(schema, key)
            if argument is not None and argument.is_prefix:
                start = argument.key[:-1]
                yield start + self._names.resource(key.removeprefix(start)), self._value(argument, value)
            elif argument is not None:
                yield key, self._value(argument, value)

    def _value(self, argument: Argument, value: Json) -> Json:
        if argument.type == "names":
            return [self._named(argument.holds[0])(name) for name in argument.parse(value)]
        if argument.type == "mappings":
            return [self._mapping(argument, entry) for entry in value]
        if argument.type == "selector":
            return msgspec.to_builtins(self._other_selector(api.convert(api.as_json(value), api.LabelSelector)))
        if isinstance(value, str):
            return self._text(argument, value)
        return _numbers(value)

    def _named(self, type_: NameType) -> Callable[[str], str]:
        """Return what gives texts of a type other names."""
        names = self._names
        others: Mapping[NameType, Callable[[str], str]] = {
            "resource": names.resource,
            "resource pattern": self._pattern,
            "domain": names.domain,
            "label": names.key,
            "card": names.card,
        }
        return others[type_]

    def _pattern(self, pattern: str) -> str:
        """Return a pattern that matches the other names of the resources that this one matches."""
        devices = DeviceNames([pattern])
        if devices.faults:
            return "("  # which is none either
        found = sorted(self._names.resource(name) for name in list(self._names.resources) if devices.include(name))
        return f"^({'|'.join(map(re.escape, found))})$" if found else _NO_RESOURCE

    def _mapping(self, argument: Argument, entry: Mapping[str, Json]) -> Json:
        types = dict(zip(argument.fields, argument.holds, strict=False))
        return {
            name: self._named(types[name])(text) if name in types else self._names.name(text)
            for name, text in entry.items()
        }

    def _text(self, argument: Argument, text: str) -> str:
        try:
            argument.parse(text)
        except ValueError:
            return UNREADABLE
        if argument.type in _AMOUNTS or argument.choices or seconds_of(text) is not None:
            return text
        return self._names.name(text)


def _numbers(value: Json) -> Json:
    """Return plain values whose texts are numbers."""
    if isinstance(value, Mapping):
        return {key: _numbers(each) for key, each in value.items() if key in ("utilization", "score")}
    if isinstance(value, list | tuple):
        return [_numbers(each) for each in value]
    return value if not isinstance(value, str) or _NUMBER.fullmatch(value) else UNREADABLE
