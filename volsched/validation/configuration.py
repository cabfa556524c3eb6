"""Faults of a scheduler configuration, inside a ConfigMap or by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from volsched import registry
from volsched.framework.config.loading import (
    PREFERRED_KEYS,
    ConfigProblem,
    ConfigurationError,
    Loaded,
    find_in_data,
    is_of_another_program,
)
from volsched.framework.validation import ArgumentsOf, Fault, Faults, warning
from volsched.model import api
from volsched.model.errors import ConfigError
from volsched.model.queues.queue import ROOT

AMBIGUOUS = "Ambiguous"
CHANGED_EFFECT = "ChangedEffect"

_HIERARCHY = "enableHierarchy"
_CHANGED = (
    "the plugin proportion divides the cluster over the tree of queues, by spec.parent; this switch had no effect on "
    "it until now; leave it out to have all queues side by side as before"
)


def config_map_faults(found: api.ConfigMap, queues: Iterable[api.Queue] = ()) -> Faults:
    """Yield the faults of a ConfigMap's configuration; none if it holds none.

    A configuration that seems to belong to another program is only a warning. ``queues`` are those that it is for.
    """
    try:
        key = find_in_data(found.data)
    except ConfigError as error:
        yield Fault(error.path, AMBIGUOUS, error.message)
        return
    if key is None:
        return
    is_foreign = key not in PREFERRED_KEYS and is_of_another_program(found.data[key])
    for fault in configuration_faults(f"data[{key}]", found.data[key]):
        yield replace(fault, severity="warning") if is_foreign else fault
    yield from changed_effects(f"data[{key}]", found.data[key], queues)


def configuration_faults(inside: str, text: str) -> Faults:
    """Yield what is wrong with a configuration. `inside` is the field that the text is in, empty for a file."""
    try:
        problems = registry.load_profile(text)[1]
    except ConfigurationError as error:
        problems = error.problems
    for problem in problems:
        yield _fault(inside, problem)


def changed_effects(inside: str, text: str, queues: Iterable[api.Queue]) -> Faults:
    """Warn where a switch that had no effect in earlier versions has one on these queues."""
    below = next((queue for queue in queues if queue.spec.parent not in ("", ROOT)), None)
    loaded = _loaded(text) if below is not None else None
    if loaded is None or below is None:
        return
    options = (option for tier in loaded.configuration.tiers for option in tier)
    if any(option.name == "proportion" and option.allows(_HIERARCHY) for option in options):
        field = ".".join(part for part in (inside, f"plugin proportion: {_HIERARCHY}") if part)
        where = f"queue {below.metadata.name!r} is below {below.spec.parent!r}"
        yield warning(field, CHANGED_EFFECT, f"{_CHANGED} ({where})")


def arguments_in(texts: Iterable[str]) -> ArgumentsOf:
    """Return the arguments of a plugin in the first valid configuration of these."""
    held = [loaded.configuration for text in texts if (loaded := _loaded(text)) is not None]

    def arguments_of(plugin: str) -> Mapping[str, Any] | None:
        stated = (configuration.arguments_of(plugin) for configuration in held)
        return next((arguments for arguments in stated if arguments is not None), None)

    return arguments_of


def configurations_in(objects: Iterable[api.ApiObject]) -> Iterator[str]:
    """Yield the configurations that ConfigMaps hold."""
    for found in objects:
        if isinstance(found, api.ConfigMap):
            with suppress(ConfigError):
                key = find_in_data(found.data)
                if key is not None:
                    yield found.data[key]


def _loaded(text: str) -> Loaded | None:
    try:
        return registry.load_configuration(text)
    except ConfigError:
        return None


def _fault(inside: str, problem: ConfigProblem) -> Fault:
    field = ".".join(part for part in (inside, problem.key) if part)
    message = f"line {problem.line}: {problem.message}" if problem.line else problem.message
    return Fault(field, problem.code, message, problem.severity)
