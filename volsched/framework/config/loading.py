"""Reads the text of a configuration strictly: everything unknown is a problem with its key and line.

A scheduler that runs with half of a configuration is worse than one that refuses it. So all problems are collected, and
each of them refuses the whole. The form is Volcano's::

    actions: "enqueue, allocate, backfill"
    tiers:
    - plugins:
      - name: gang
        enablePreemptable: false
      - name: binpack
        arguments: {binpack.weight: 10}
    configurations:
    - name: allocate
      arguments: {}

Keys that Volcano reads and volsched has no use for are accepted, and one warning names all of them: arguments that are
``unused`` in their schema, switches of callbacks that nothing registers. ``metrics``, where Volcano names the source of
its usage plugin, is accepted in its right form (a mapping to plain values) without effect; a warning says so.

Plugins, actions and their schemas come from a ``PluginCatalogue``: the framework knows none.

The module is long and has one subject: each step of reading needs the key and the line of its problems.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import yaml

from volsched.framework.config.arguments import CheckFn, Place, Schema, Severity, check, describe, find, hint
from volsched.framework.config.configuration import (
    FORMER_SWITCHES,
    SWITCHES,
    UNUSED_SWITCHES,
    Configuration,
    PluginOption,
)
from volsched.model.errors import ConfigError, nearest, shortened
from volsched.model.values.json_text import MOST_LEVELS

DEFAULT_CONFIGURATION: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: predicates
  - name: nodeorder
  - name: binpack
"""
"""The configuration if none is given: the default of Volcano's Helm chart without its fair shares.

So a pod that fits on no node is told so, and not that its queue deserves no more.
"""

IN_KUBE_SCHEDULERS_PLACE: Final = """\
actions: "allocate, backfill, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: predicates
  - name: nodeorder
configurations:
- name: preempt
  arguments:
    leastImportantVictims: true
"""
"""The configuration if none is given and volsched answers to the name default-scheduler.

Pods are spread, and preempt by priority, as users of that scheduler expect.
"""

PREFERRED_KEYS: Final = ("volcano-scheduler.conf", "scheduler.conf")
"""Names under which a ConfigMap usually holds a configuration."""

MOST_PROBLEMS: Final = 100
LONGEST_TEXT: Final = 1 << 17
"""The most characters: three hundred times the default, read in some two seconds in the worst case.

A ConfigMap may hold eight times as much, and webhooks read it as well.
"""

_TOP_KEYS: Final = ("actions", "tiers", "configurations", "metrics")
_ENTRY_KEYS: Final = ("name", "arguments")
_MOST_PARTS: Final = 10_000
_OF_AN_OBJECT: Final = re.compile(r"^[^\w\n]*(kind|apiVersion)[^\w\n]*:", re.MULTILINE)
"""The limit for a check without reading: files of objects may be long."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong: ``key`` is its path, ``line`` counts from 1 (0: the text as a whole)."""

    code: str
    key: str
    line: int
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        where = [f"line {self.line}"] if self.line else []
        return ": ".join([*where, *([self.key] if self.key else []), self.message])


class ConfigurationError(ConfigError):
    """A configuration with everything that is wrong in it."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("", "\n".join(map(str, self.problems)))


class PluginCatalogue(Protocol):
    """The plugins, or the actions, that there are."""

    @property
    def absent(self) -> Mapping[str, str]:
        """Known names that cannot be used, with the reason and a replacement."""

    def names(self) -> Sequence[str]:
        """Return all names that can be used."""

    def schema(self, name: str) -> Schema | None:
        """Return the schema for a name, or None if there is none. Raises ConfigError if it is broken."""

    def check(self, name: str) -> CheckFn | None:
        """Return what judges the arguments of the one of this name together, None when nothing does."""

    def excluded_by(self, name: str) -> Sequence[str]:
        """Return the names of those that the one of this name cannot run together with."""

    def undone_by(self, name: str) -> Sequence[str]:
        """Return the names of those whose scores work against those of the one of this name."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that holds, and what is still worth saying about it."""

    configuration: Configuration
    warnings: tuple[ConfigProblem, ...] = ()


def load(text: str, plugins: PluginCatalogue, actions: PluginCatalogue) -> Loaded:
    """Return the configuration in a text, a bare file or a ConfigMap manifest. Raises ConfigurationError.

    Arguments are checked and complete, with defaults.
    """
    problems = _ConfigProblems()
    try:
        root = _root(text, problems)
        if _is_config_map(root):
            root = _inside_config_map(root, problems)
        configuration = _ConfigReader(problems, plugins, actions).read(root)
    except _TooMany:
        raise ConfigurationError(problems.errors) from None
    if problems.errors:
        raise ConfigurationError(problems.errors)
    return Loaded(configuration, tuple(problems.warnings))


def plain(text: str) -> Any:
    """Return a configuration as plain values, from a bare file or a ConfigMap manifest, without checks.

    Everything that ``load`` accepts has plain values; ConfigurationError for a text that is no YAML.
    """
    problems = _ConfigProblems()
    try:
        root = _root(text, problems)
        if _is_config_map(root):
            root = _inside_config_map(root, problems)
    except _TooMany:
        raise ConfigurationError(problems.errors) from None
    return _plain(root, _ConfigLoader(""), count(1))


def find_in_data(data: Mapping[str, str]) -> str | None:
    """Return the key of a ConfigMap's data that holds a scheduler configuration, or None if there is none.

    A key with a usual name holds one; any other key does if its text has ``actions`` or ``tiers`` at the top. Of
    several, the one that ends in ``.conf`` counts; if that leaves a choice, ConfigError.
    """
    for name in PREFERRED_KEYS:
        if name in data:
            return name
    found = [key for key in sorted(data) if looks_like_configuration(data[key])]
    found = [key for key in found if key.endswith(".conf")] or found
    if len(found) > 1:
        raise ConfigError("data", f"{', '.join(found)} all hold a scheduler configuration; name the one that counts "
                                  f"{PREFERRED_KEYS[0]}")  # fmt: skip
    return found[0] if found else None


def looks_like_configuration(text: str) -> bool:
    """True if a text is a mapping with ``actions`` or ``tiers`` at the top, whatever else may be wrong."""
    root = _root_with_names(text)
    return root is not None and any(name in ("actions", "tiers") for name, _ in _plain_entries(root))


def is_of_another_program(text: str) -> bool:
    """True if a text that looks like a configuration belongs to a program with keys of the same names."""
    root = _root_with_names(text)
    return root is not None and not _is_of_scheduler(root)


def _root_with_names(text: str) -> yaml.Node | None:
    """Return the root of a text that may have actions or tiers, or None for others and if it cannot be read."""
    if len(text) > LONGEST_TEXT or ("actions" not in text and "tiers" not in text):
        return None
    try:
        return _root(text, _ConfigProblems())
    except _TooMany:
        return None


def _is_of_scheduler(root: yaml.Node) -> bool:
    """True if this mapping can only be a scheduler's configuration."""
    top = dict(_plain_entries(root))
    tiers = _plain_items(top["tiers"]) if "tiers" in top else ()
    has_plugins = any(key == "plugins" for tier in tiers for key, _ in _plain_entries(tier))
    return is_of_scheduler(top, maps_actions=isinstance(top.get("actions"), yaml.MappingNode), has_plugins=has_plugins)


def is_of_scheduler(names: Collection[str], *, maps_actions: bool, has_plugins: bool) -> bool:
    """True if a mapping with these names is a configuration of a scheduler, whatever may be wrong with it.

    It has actions and tiers, or one of them in the form of a scheduler's, or one of them without unknown names.
    ``actions`` that are a mapping belong to another program.
    """
    if {"actions", "tiers"} <= set(names):
        return True
    if maps_actions:
        return False
    return has_plugins or (not set(names).isdisjoint(("actions", "tiers")) and set(names) <= set(_TOP_KEYS))


def is_bare_configuration(text: str, *, among_others: bool = False) -> bool:
    """True if a text is one mapping that is no Kubernetes object, so it can only be a configuration.

    A file that was found ``among_others`` may be anything, so it has to look like one.
    """
    if _OF_AN_OBJECT.search(text):
        return False
    try:
        root = _root(text, _ConfigProblems())
    except _TooMany:
        return False
    if not isinstance(root, yaml.MappingNode):
        return False
    names = {name for name, _ in _plain_entries(root)}
    return not names & {"kind", "apiVersion"} and (not among_others or _is_of_scheduler(root))


# --- the text -------------------------------------------------------------------------------------------------------


class _TooMany(Exception):  # noqa: N818 - stops the reading, is no error of its own
    """Reading on would only list more problems."""


@dataclass(slots=True)
class _ConfigProblems:
    """The problems so far. ``shift`` is added to lines: the line of the file at which the text begins."""

    errors: list[ConfigProblem] = field(default_factory=list)
    warnings: list[ConfigProblem] = field(default_factory=list)
    shift: int = 0

    def add(self, code: str, key: str, line: int, message: str) -> None:
        self.errors.append(ConfigProblem(code, key, line + self.shift if line else 0, message))
        if len(self.errors) >= MOST_PROBLEMS:
            raise _TooMany

    def at(self, code: str, key: str, node: yaml.Node, message: str) -> None:
        self.add(code, key, _line(node), message)

    def warn(self, code: str, key: str, node: yaml.Node, message: str) -> None:
        self.warnings.append(ConfigProblem(code, key, _line(node) + self.shift, message, "warning"))

    def stop(self, code: str, line: int, message: str) -> _TooMany:
        """Add a problem after which nothing more can be read."""
        self.errors.append(ConfigProblem(code, "", line + self.shift if line else 0, message))
        return _TooMany()


class _ConfigLoader(yaml.SafeLoader):
    """YAML without dates (they stay texts), and without deep brackets.

    The work of PyYAML's scanner grows with the square of the number of open brackets.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class
        first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def fetch_flow_collection_start(self, TokenClass: type[yaml.Token]) -> None:  # noqa: N803 - as in the base class
        """Open a bracket, or refuse it."""
        if self.flow_level >= MOST_LEVELS:
            raise yaml.scanner.ScannerError(
                problem=f"more than {MOST_LEVELS} open brackets", problem_mark=self.get_mark()
            )
        super().fetch_flow_collection_start(TokenClass)


def _root(text: str, problems: _ConfigProblems) -> yaml.Node:
    if len(text) > LONGEST_TEXT:
        raise problems.stop("TooLong", 0, f"is longer than {LONGEST_TEXT} characters")
    try:
        root = yaml.compose(text, Loader=_ConfigLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = shortened(str(error.problem or error.context), 200)
        raise problems.stop("NotYaml", mark.line + 1 if mark else 0, f"is not YAML: {message}") from None
    except Exception as error:  # PyYAML's scanner and reader fail in many ways on odd characters and deep nesting
        message = shortened(str(error).splitlines()[0] if str(error) else type(error).__name__, 200)
        raise problems.stop("NotYaml", 0, f"is not YAML: {message}") from None
    if root is None:
        raise problems.stop("Empty", 0, "is empty; a configuration has actions and tiers")
    return root


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _plain_entries(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    """Yield the entries of a mapping whose keys are plain, without judging it."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield str(key.value), value


def _is_config_map(root: yaml.Node) -> bool:
    return any(name == "kind" and value.value == "ConfigMap" for name, value in _plain_entries(root))


def _inside_config_map(root: yaml.Node, problems: _ConfigProblems) -> yaml.Node:
    data = next((value for name, value in _plain_entries(root) if name == "data"), None)
    entries = _plain_entries(data) if data is not None else ()
    texts = {name: node for name, node in entries if isinstance(node.value, str)}
    try:
        key = find_in_data({name: node.value for name, node in texts.items()})
    except ConfigError as error:
        raise problems.stop("Ambiguous", _line(root), str(error)) from None
    if key is None:
        wanted = f"no key of data holds a scheduler configuration; name it {PREFERRED_KEYS[0]}"
        raise problems.stop("NoConfiguration", _line(data or root), wanted)
    node = texts[key]
    if isinstance(node, yaml.ScalarNode) and node.style == "|":
        problems.shift = _line(node)
    return _root(node.value, problems)


# --- its meaning ----------------------------------------------------------------------------------------------------


class _ConfigReader:
    """Reads one configuration; every method returns what could be understood and notes the rest."""

    def __init__(self, problems: _ConfigProblems, plugins: PluginCatalogue, actions: PluginCatalogue) -> None:
        self._problems = problems
        self._plugins = plugins
        self._actions = actions
        self._constructor = _ConfigLoader("")
        self._unused: list[_Unused] = []
        self._listed: Collection[str] = ()

    def read(self, root: yaml.Node) -> Configuration:
        """Return the configuration, as far as it was understood."""
        top = self._entries(root, "")
        self._known_only(top, "", _TOP_KEYS, "a configuration")
        actions = self._action_names(root, top)
        tiers = self._tiers(top)
        given = self._action_arguments(top)
        self._metrics(top)
        self._warn_of_unused()
        return Configuration(actions, tiers, self._with_defaults(actions, given))

    # -- actions

    def _action_names(self, root: yaml.Node, top: _Entries) -> tuple[str, ...]:
        if "actions" not in top:
            self._problems.at("NoActions", "actions", root, 'is missing; it lists what a session does, as "allocate"')
            return ()
        node = top["actions"][1]
        text = self._text(node, "actions", 'one text with commas between the names, as "enqueue, allocate"')
        if text is None:
            return ()
        names = [name.strip() for name in text.split(",")]
        if not any(names):
            self._problems.at("NoActions", "actions", node, 'is empty; it lists what a session does, as "allocate"')
            return ()
        if not all(names):
            self._problems.at("EmptyName", "actions", node, "has an empty name between two commas or at an end")
        return tuple(name for name in names if name and self._action_schema(name, "actions", node) is not None)

    def _action_schema(self, name: str, key: str, node: yaml.Node) -> Schema | None:
        return self._schema("action", self._actions, name, key, node, ())

    def _action_arguments(self, top: _Entries) -> dict[str, Mapping[str, Any]]:
        given: dict[str, Mapping[str, Any]] = {}
        if "configurations" not in top:
            return given
        for key, item in self._items(top["configurations"][1], "configurations"):
            entries = self._entries(item, key)
            self._known_only(entries, key, _ENTRY_KEYS, "an action's configuration")
            name = self._name_of(entries, key, item, "action")
            if name is None:
                continue
            at = entries["name"][1]
            if name in given:
                self._problems.at("Duplicate", f"{key}.name", at, f"action {name} is configured twice")
            schema = self._action_schema(name, f"{key}.name", at)
            if schema is not None:
                given[name] = self._arguments(f"action {name}", schema, self._actions.check(name), entries, key)
        return given

    def _with_defaults(self, actions: Sequence[str], given: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        complete = dict(given)
        for name in actions:
            if name not in complete:
                complete[name] = check(f"action {name}", self._actions.schema(name) or (), {}).values
        return complete

    # -- tiers

    def _tiers(self, top: _Entries) -> tuple[tuple[PluginOption, ...], ...]:
        if "tiers" not in top:
            return ()
        seen: dict[str, tuple[str, yaml.Node]] = {}
        tiers = []
        self._listed = frozenset(_plugin_names(top["tiers"][1]))
        for key, tier in self._items(top["tiers"][1], "tiers"):
            entries = self._entries(tier, key)
            self._known_only(entries, key, ("plugins",), "a tier")
            if "plugins" in entries:
                tiers.append(self._tier(entries["plugins"][1], key, seen))
        self._exclusions([option.name for tier in tiers for option in tier], seen)
        return tuple(tiers)

    def _exclusions(self, names: Sequence[str], seen: Mapping[str, tuple[str, yaml.Node]]) -> None:
        """Refuse plugins that do the same work in different ways, and warn of scores against each other."""
        for name in names:
            for other in self._plugins.excluded_by(name):
                if other in seen:
                    message = f"plugins {name} and {other} contradict each other; leave one of them out"
                    self._problems.at("Contradiction", *seen[name], message)
            for other in self._plugins.undone_by(name):
                if other in seen:
                    message = (
                        f"the scores of plugin {other} work against those of {name}; leave it out, or weight it low"
                    )
                    self._problems.warn("Contradiction", *seen[other], message)

    def _tier(self, node: yaml.Node, key: str, seen: dict[str, tuple[str, yaml.Node]]) -> tuple[PluginOption, ...]:
        options = []
        hierarchy: tuple[str, yaml.Node] | None = None
        proportion = False
        for path, item in self._items(node, f"{key}.plugins"):
            entries = self._entries(item, path)
            name = self._name_of(entries, path, item, "plugin")
            switches = self._switches(entries, path)
            if name is None:
                continue
            at = entries["name"][1]
            if name in seen:
                first = seen[name][0].removesuffix(".name")
                self._problems.at("Duplicate", f"{path}.name", at, f"plugin {name} is already in {first}")
            seen.setdefault(name, (f"{path}.name", at))
            if name == "drf" and switches.get("enableHierarchy"):
                hierarchy = f"{path}.enableHierarchy", entries["enableHierarchy"][0]
            proportion = proportion or name == "proportion"
            schema = self._schema("plugin", self._plugins, name, f"{path}.name", at, self._listed)
            if schema is not None:
                arguments = self._arguments(f"plugin {name}", schema, self._plugins.check(name), entries, path)
                options.append(PluginOption(name, switches, arguments, self._given(entries)))
        if hierarchy is not None and proportion:
            message = "drf with enableHierarchy and proportion contradict each other in one tier; leave one of them out"
            self._problems.at("Contradiction", *hierarchy, message)
        return tuple(options)

    def _switches(self, entries: _Entries, path: str) -> dict[str, bool]:
        """Return the switches of a plugin; one without a value counts as absent, as in Volcano."""
        switches = {}
        for name, (key, node) in entries.items():
            if name in _ENTRY_KEYS or self._reports_unknown_switch(name, entries, path) or _is_null(node):
                continue
            value = self._value(node, f"{path}.{name}")
            on = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else value
            if not isinstance(on, bool):
                self._problems.at("WrongType", f"{path}.{name}", node, f"must be true or false, not {describe(value)}")
                continue
            if name in SWITCHES:
                switches[name] = on
            why = UNUSED_SWITCHES.get(name) or FORMER_SWITCHES.get(name)
            if why is not None:
                self._note_unused("switches", name, f"{path}.{name}", key, why)
        return switches

    def _reports_unknown_switch(self, name: str, entries: _Entries, path: str) -> bool:
        """Report a switch that does not exist; True if it was reported."""
        if name in SWITCHES or name in FORMER_SWITCHES:
            return False
        known = [word for word in (*_ENTRY_KEYS, *SWITCHES) if word not in entries]
        message = f"a plugin has no switch {_named(name)}{hint(name, known)}"
        self._problems.at("UnknownSwitch", f"{path}.{name}", entries[name][0], message)
        return True

    def _metrics(self, top: _Entries) -> None:
        if "metrics" not in top:
            return
        key, node = top["metrics"]
        for name, (_, value) in self._entries(node, "metrics").items():
            if not isinstance(value, yaml.ScalarNode):
                self._problems.at("WrongType", f"metrics.{name}", value, "must be a plain value")
        message = "is for Volcano's usage plugin, which is not in this version; it has no effect"
        self._problems.warn("NoEffect", "metrics", key, message)

    # -- parts that plugins and actions share

    def _note_unused(self, owner: str, name: str, path: str, node: yaml.Node, why: str) -> None:
        self._unused.append(_Unused(owner, name, why, path, node))

    def _warn_of_unused(self) -> None:
        """Name in one warning all keys that Volcano reads and volsched does not, each once."""
        if not self._unused:
            return
        grouped: dict[tuple[str, str], dict[str, None]] = {}
        for unused in self._unused:
            grouped.setdefault((unused.owner, unused.why), {})[unused.name] = None
        parts = [f"{owner}: {', '.join(names)} ({why})" for (owner, why), names in grouped.items()]
        first = self._unused[0]
        self._problems.warn("NoEffect", first.path, first.node, f"without effect in volsched: {'; '.join(parts)}")

    def _schema(
        self, what: str, catalogue: PluginCatalogue, name: str, key: str, node: yaml.Node, listed: Collection[str]
    ) -> Schema | None:
        """Return the schema of a plugin or an action; those ``listed`` beside it are no suggestion for another."""
        try:
            schema = catalogue.schema(name)
        except ConfigError as error:
            self._problems.at("Broken", key, node, error.message)
            return None
        if schema is not None:
            return schema
        if (absent := _spelt_like(name, catalogue.absent)) is not None:
            self._problems.at("NotInThisVersion", key, node, f"{what} {absent} {catalogue.absent[absent]}")
            return None
        meant = _suggestion(name, catalogue, listed)
        message = f"did you mean {meant}?" if meant else f"there are {', '.join(catalogue.names())}"
        self._problems.at(f"Unknown{what.capitalize()}", key, node, f"there is no {what} {_named(name)}; {message}")
        return None

    def _arguments(
        self, owner: str, schema: Schema, together: CheckFn | None, entries: _Entries, path: str
    ) -> Mapping[str, Any]:
        nodes: _Entries = {}
        key = f"{path}.arguments"
        if "arguments" in entries and not _is_null(entries["arguments"][1]):
            nodes = self._entries(entries["arguments"][1], key)
        unreadable = _UnreadableValue()
        given = {name: self._value(node, f"{key}.{name}", unreadable) for name, (_, node) in nodes.items()}
        readable = {name: value for name, value in given.items() if value is not unreadable}
        checked = check(owner, schema, readable, together)
        for problem in checked.problems:
            add = self._problems.warn if problem.severity == "warning" else self._problems.at
            at = _node_at(nodes[problem.key], problem.at) if problem.key in nodes else entries["name"][1]
            add("Argument", f"{key}.{problem.path}", at, problem.message)
        for name in given:
            argument = find(schema, name)
            if argument is not None and argument.unused:
                self._note_unused(owner, name, f"{key}.{name}", nodes[name][0], argument.unused)
        return checked.values

    def _given(self, entries: _Entries) -> frozenset[str]:
        node = entries["arguments"][1] if "arguments" in entries else None
        return frozenset(name for name, _ in _plain_entries(node)) if node is not None else frozenset()

    def _name_of(self, entries: _Entries, path: str, item: yaml.Node, what: str) -> str | None:
        if "name" not in entries:
            if isinstance(item, yaml.MappingNode):
                self._problems.at("NoName", f"{path}.name", item, f"is missing; it says which {what} is meant")
            return None
        return self._text(entries["name"][1], f"{path}.name", f"the name of {_article(what)} {what}")

    def _known_only(self, entries: _Entries, path: str, known: Sequence[str], what: str) -> None:
        for name, (key, _) in entries.items():
            if name not in known:
                free = [word for word in known if word not in entries]
                message = f"there is no {_named(name)} in {what}{hint(name, free)}"
                self._problems.at("UnknownKey", _joined(path, name), key, message)

    # -- YAML

    def _entries(self, node: yaml.Node, path: str) -> _Entries:
        """Return the entries of a mapping with the node of each key and value. The first of two equal keys counts."""
        if not isinstance(node, yaml.MappingNode):
            self._problems.at("WrongType", path, node, f"must be a mapping, not {_shape(node)}")
            return {}
        entries: _Entries = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if not isinstance(name, str):
                self._problems.at("WrongType", path, key, f"a key must be a text, not {_shape(key)}")
            elif name in entries:
                first = _line(entries[name][0]) + self._problems.shift
                self._problems.at("Duplicate", _joined(path, name), key, f"is said twice, first in line {first}")
            else:
                entries[name] = key, value
        return entries

    def _items(self, node: yaml.Node, path: str) -> list[tuple[str, yaml.Node]]:
        """Return the items of a list with their paths; nothing for a null."""
        if _is_null(node):
            return []
        if not isinstance(node, yaml.SequenceNode):
            self._problems.at("WrongType", path, node, f"must be a list, not {_shape(node)}")
            return []
        return [(f"{path}[{number}]", item) for number, item in zip(count(), node.value, strict=False)]

    def _text(self, node: yaml.Node, path: str, wanted: str) -> str | None:
        value = self._value(node, path)
        if isinstance(value, str):
            return value
        if value is not None or _is_null(node):
            self._problems.at("WrongType", path, node, f"must be {wanted}, not {describe(value)}")
        return None

    def _value(self, node: yaml.Node, path: str, otherwise: object = None) -> Any:
        """Return the plain value of a node. ``otherwise`` with a problem when it is none."""
        try:
            return _plain(node, self._constructor, count(1), _MOST_PARTS)
        except _SaidTwice as twice:
            first = _line(twice.first) + self._problems.shift
            self._problems.at(
                "Duplicate", f"{path}: {twice.again.value}", twice.again, f"is said twice, first in line {first}"
            )
            return otherwise
        except Exception as error:  # PyYAML's constructors fail in many ways on an odd tag
            message = "is too large" if isinstance(error, RecursionError) else "is not a plain value"
            self._problems.at("WrongType", path, node, message)
            return otherwise


def _plain(node: yaml.Node, constructor: _ConfigLoader, parts: Iterator[int], most: float = math.inf) -> Any:
    """Return the plain value of a node of at most so many parts. ``_SaidTwice`` where a mapping has a key twice."""
    if next(parts) > most:
        raise RecursionError
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, constructor, parts, most) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, yaml.Node] = {}
        for key, _ in node.value:
            if seen.setdefault(str(key.value), key) is not key:
                raise _SaidTwice(seen[str(key.value)], key)
        return {str(key.value): _plain(value, constructor, parts, most) for key, value in node.value}
    return constructor.construct_object(node)


class _SaidTwice(Exception):  # noqa: N818 - as ``_TooMany``
    """A mapping inside a value has a key twice."""

    def __init__(self, first: yaml.Node, again: yaml.Node) -> None:
        super().__init__()
        self.first = first
        self.again = again


class _UnreadableValue:
    """Stands for a value with a problem."""


class _Unused(NamedTuple):
    """A key that Volcano reads and volsched does not: its kind, name, reason and place."""

    owner: str
    name: str
    why: str
    path: str
    node: yaml.Node


_Entries: TypeAlias = dict[str, tuple[yaml.Node, yaml.Node]]


def _plugin_names(tiers: yaml.Node) -> Iterator[str]:
    """Yield the names of all plugins of the tiers, without judging them."""
    for tier in _plain_items(tiers):
        for key, listed in _plain_entries(tier):
            for plugin in _plain_items(listed) if key == "plugins" else ():
                yield from (value.value for key, value in _plain_entries(plugin) if _is_name(key, value))


def _is_name(key: str, value: yaml.Node) -> bool:
    return key == "name" and isinstance(value, yaml.ScalarNode)


def _plain_items(node: yaml.Node) -> Sequence[yaml.Node]:
    """Return the items of a list without judging it."""
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _spelt_like(name: str, absent: Iterable[str]) -> str | None:
    """Return the absent name that is meant, whichever way its words are set apart."""
    return next((other for other in absent if _run_together(other) == _run_together(name)), None)


def _run_together(name: str) -> str:
    return name.replace("-", "").replace("_", "").casefold()


def _suggestion(name: str, catalogue: PluginCatalogue, listed: Collection[str]) -> str | None:
    """Return the nearest name, if it would be accepted beside those listed."""
    meant = nearest(name, catalogue.names())
    if meant is None or meant in listed or _contradicts(meant, catalogue, listed):
        return None
    return meant


def _contradicts(name: str, catalogue: PluginCatalogue, listed: Collection[str]) -> bool:
    excluded = _excluded_by(name, catalogue)
    return any(other in excluded or name in _excluded_by(other, catalogue) for other in listed)


def _excluded_by(name: str, catalogue: PluginCatalogue) -> Sequence[str]:
    try:
        return catalogue.excluded_by(name)
    except ConfigError:  # it is broken, and reported as that
        return ()


def _node_at(entry: tuple[yaml.Node, yaml.Node], at: Place) -> yaml.Node:
    """Return the YAML node at a path inside an entry's value; the entry's key for an empty path."""
    found, node = entry
    for part in at:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = node = node.value[part]
        elif isinstance(node, yaml.MappingNode):
            named = [(key, value) for key, value in node.value if key.value == part]
            found, node = named[-1] if named else (found, found)
    return found


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _shape(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "nothing" if _is_null(node) else f"{shortened(repr(str(node.value)), 40)}"


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _named(name: str) -> str:
    return f'"{shortened(name, 60)}"'


def _article(word: str) -> str:
    return "an" if word[:1] in "aeiou" else "a"
