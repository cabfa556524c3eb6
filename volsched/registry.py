"""The registry of plugins and actions. It makes objects from a configuration.

Two sources, in this order: the project's own (``plugins.BUILDERS`` and ``actions.BUILDERS``), then the entry-point
groups ``volsched.plugins`` and ``volsched.actions``, through which an installed distribution adds its own without a
fork. A name of the project's own cannot be taken by another. A module is imported when a configuration names it.
Validators of objects (``plugins.VALIDATORS`` and the group ``volsched.validators``) are found the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Generic, TypeVar

import actions
import plugins
from volsched.dry_run import dry_run
from volsched.framework.annotation_types import TYPES, AnnotationTypes
from volsched.framework.boundary import culprit, home_of
from volsched.framework.config import entries, nested_arguments
from volsched.framework.config.arguments import Argument, CheckFn, Schema, describe
from volsched.framework.config.configuration import Configuration, PluginOption
from volsched.framework.config.entries import CatalogueEntry
from volsched.framework.config.loading import ConfigProblem, ConfigurationError, Loaded, load
from volsched.framework.plugin import Action, Plugin
from volsched.framework.reports import Report
from volsched.framework.validation import Fault, Validator
from volsched.model.annotations import AnnotationKeys, Declared
from volsched.model.errors import ConfigError, VolschedError
from volsched.scheduler import Profile

T = TypeVar("T")

_VOLCANO: Final = "belongs to Volcano and is not part of volsched"
_NOTHING: Final = f"{_VOLCANO}; nothing replaces it, leave it out"


def _replaced(by: str) -> str:
    return f"{_VOLCANO}; {by}"


ABSENT_PLUGINS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("cdp", "extender", "nodegroup", "numa-aware", "rescheduling", "tdm", "usage"), _NOTHING),
    "deviceshare": _replaced("for cards that containers share use mgpu"),
    "pdb": _replaced("use the argument respectDisruptionBudgets of the actions preempt and reclaim"),
    "reservation": _replaced("use the action reserve"),
    "resource-strategy-fit": _replaced("use binpack to fill nodes up, or nodeorder to spread"),
    "resourcequota": _replaced("nothing replaces it, leave it out: the API server keeps ResourceQuotas"),
    "task-topology": _replaced("nothing replaces it, leave it out: write podAffinity in the pods"),
}
"""Plugins of Volcano that are not here, by their names there, each with its replacement."""

ABSENT_ACTIONS: Final[Mapping[str, str]] = {
    "elect": _replaced("use reserve"),
    "gangpreempt": _replaced("use preempt, which evicts for whole gangs"),
    "gangreclaim": _replaced("use reclaim, which evicts for whole gangs"),
    "shuffle": _NOTHING,
}
"""The same of actions."""


class Registry(Generic[T]):
    """The plugins, or the actions, that can be used; a ``Catalogue`` for the loader."""

    def __init__(
        self,
        what: str,
        own: Mapping[str, CatalogueEntry[T]],
        group: str,
        method: str,
        absent: Mapping[str, str],
        nested: Mapping[str, str] | None = None,
    ) -> None:
        self.what = what
        self._own = own
        self.group = group
        self._method = method
        self._nested = nested or {}
        self.absent = {name: why for name, why in absent.items() if name not in own}
        self._factories: dict[str, Callable[..., T]] = {}

    def names(self) -> Sequence[str]:
        """Return all names, the project's own first."""
        return [*self._own, *sorted(set(self._added()) - set(self._own))]

    def schema(self, name: str) -> Schema | None:
        """Return the arguments that may stand under this name, nested ones included, as ``Catalogue.schema``."""
        own = self._schema(name)
        visiting = [inner for inner, outer in self._nested.items() if outer == name]
        return own if own is None else (*own, *(a for inner in visiting for a in self.own_schema(inner)))

    def own_schema(self, name: str) -> Schema:
        """Return the schema of a plugin or action that exists. Raises ConfigError if it is broken."""
        return self._schema(name) or ()

    def _schema(self, name: str) -> Schema | None:
        factory = self._factory(name)
        if factory is None:
            return None
        schema = entries.schema_of(factory)
        if not all(isinstance(argument, Argument) for argument in schema):
            raise ConfigError("", f"{self._origin(name)} has ARGUMENTS that are not a schema")
        return schema

    def check(self, name: str) -> CheckFn | None:
        """Return what judges the arguments of the one of this name together, None when nothing does."""
        factory = self._factory(name)
        return entries.check_of(factory) if factory is not None else None

    def excluded_by(self, name: str) -> tuple[str, ...]:
        """Return those that the one of this name cannot run together with."""
        factory = self._factory(name)
        return entries.excluded_by(factory) if factory is not None else ()

    def undone_by(self, name: str) -> tuple[str, ...]:
        """Return the names of plugins whose scores work against those of the one of this name."""
        factory = self._factory(name)
        return entries.undone_by(factory) if factory is not None else ()

    def load(self, name: str) -> Callable[..., T]:
        """Return what the entry of this name leads to. Raises ConfigError when there is none or it cannot be loaded."""
        factory = self._factory(name)
        if factory is None:
            raise ConfigError("", f"there is no {self.what} {name}")
        return factory

    def build(self, name: str, arguments: Mapping[str, Any]) -> T:
        """Make the one of this name."""
        factory = self.load(name)
        try:
            built = entries.build(f"{self.what} {name}", factory, arguments)
        except VolschedError:
            raise
        except Exception as error:
            if name in self._own:
                raise
            raise ConfigError("", f"{self._origin(name)} cannot be made: {_message_of(error)}") from error
        if not callable(getattr(built, self._method, None)):
            raise ConfigError("", f"{self._origin(name)} is no {self.what}: it has no method {self._method}")
        return built

    def _factory(self, name: str) -> Callable[..., T] | None:
        if name not in self._factories:
            factory = self._own[name].load() if name in self._own else self._load_added(name)
            if factory is None:
                return None
            self._factories[name] = factory
        return self._factories[name]

    def _load_added(self, name: str) -> Callable[..., T] | None:
        found = self._added().get(name, [])
        if not found:
            return None
        if len(found) > 1:
            offering = " and ".join(sorted(_distribution(point) for point in found))
            raise ConfigError("", f"{self.what} {name} is offered by {offering}; keep one of them installed")
        try:
            factory = found[0].load()
        except Exception as error:  # whatever another distribution does when it is imported
            raise ConfigError("", f"{self._origin(name)} cannot be loaded: {_message_of(error)}") from error
        if not callable(factory):
            raise ConfigError("", f"{self._origin(name)} is not callable")
        return factory  # type: ignore[no-any-return]  # what it makes is checked when it is made

    def _added(self) -> dict[str, list[EntryPoint]]:
        return _entry_points(self.group)

    def _origin(self, name: str) -> str:
        """Return which one is meant and who installed it."""
        if name in self._own:
            return f"{self.what} {name}"
        return f"{self.what} {name} of {_distribution(self._added()[name][0])}"


@cache
def _entry_points(group: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, []).append(point)
    return found


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown distribution"


def _message_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


PLUGINS: Final[Registry[Plugin]] = Registry(
    "plugin", plugins.BUILDERS, "volsched.plugins", "on_session_open", ABSENT_PLUGINS, plugins.ALSO_UNDER
)
ACTIONS: Final[Registry[Action]] = Registry("action", actions.BUILDERS, "volsched.actions", "execute", ABSENT_ACTIONS)
VALIDATORS: Final[Registry[Iterable[Fault]]] = Registry(
    "validator", plugins.VALIDATORS, "volsched.validators", "__call__", {}
)


_REGISTRIES: Final[tuple[Registry[Any], ...]] = (PLUGINS, ACTIONS, VALIDATORS)


def validators() -> Sequence[Validator]:
    """Return what each plugin checks of objects, used or not. Raises ConfigError when one cannot be loaded."""
    return [VALIDATORS.load(name) for name in VALIDATORS.names()]


def load_configuration(text: str) -> Loaded:
    """Return the configuration that a text states. ConfigurationError has everything that is wrong in it."""
    loaded = load(text, PLUGINS, ACTIONS)
    configuration = loaded.configuration
    for inner, outer in plugins.ALSO_UNDER.items():
        along = inner in plugins.COMES_ALONG
        configuration = nested_arguments.settle(configuration, inner, outer, PLUGINS.own_schema(inner), along=along)
    return Loaded(configuration, (*loaded.warnings, *_silences(configuration)))


def _silences(configuration: Configuration) -> Iterator[ConfigProblem]:
    """Return which arguments were left out that should be stated one way or the other."""
    for option in (option for tier in configuration.tiers for option in tier):
        for argument in PLUGINS.own_schema(option.name):
            if argument.expected and argument.key not in option.given:
                message = f"is not given and counts as {describe(argument.default)}: {argument.help}"
                yield ConfigProblem("NotGiven", f"plugin {option.name}: {argument.key}", 0, message, "warning")


def build(configuration: Configuration) -> Profile:
    """Make the plugins of every tier and the actions, in order.

    Raises ConfigError when one of another distribution fails, or registers a callback that cannot be asked.
    """
    dry_run(make(configuration))
    return make(configuration)


def reports_in(configuration: Configuration) -> Sequence[Report]:
    """Return the reports of a configuration's plugins over an empty cluster, for example the names of cards."""
    return dry_run(make(configuration))


def make(configuration: Configuration) -> Profile:
    """Make the plugins and actions of a configuration that `build` has accepted before."""
    given = configuration.action_arguments
    return Profile(
        configuration,
        tuple(ACTIONS.build(name, given.get(name, {})) for name in configuration.actions),
        tuple(tuple((option, _plugin(option)) for option in tier) for tier in configuration.tiers),
    )


@cache
def installed_annotations() -> tuple[Declared, ...]:
    """Return what annotations each plugin and action declares, configured or not.

    One that cannot be loaded declares none; a configuration that names it is refused, with the reason.
    """
    return tuple(map(entries.declared_annotations, _installed()))


@cache
def result_annotations() -> AnnotationKeys:
    """Return the annotations that plugins write on pods with their Binding: a pod that is made again has none."""
    return AnnotationKeys(key for factory in _installed() for key in entries.result_annotations(factory))


@cache
def annotation_types() -> AnnotationTypes:
    """Return how annotations of plugins and actions are read, configured or not; ConfigError over a wrong type."""
    found: AnnotationTypes = {}
    for factory in _installed():
        found |= entries.annotation_types(factory)
    for key, given in found.items():
        for type_ in (given,) if isinstance(given, str) else given:
            if type_ not in TYPES:
                raise ConfigError("", f"ANNOTATION_TYPES has {key} of the type {type_}; there are {', '.join(TYPES)}")
    return found


def _installed() -> Iterator[Callable[..., object]]:
    """Yield all plugins and actions that can be loaded."""
    for registry in (PLUGINS, ACTIONS):
        for name in registry.names():
            with suppress(ConfigError):
                yield registry.load(name)


def added_by(error: BaseException) -> str:
    """Return the plugin, action or validator of another distribution that an error is from, and that distribution."""
    homes = {
        f"{registry.what} {point.name} of {_distribution(point)}": home_of(point.module)
        for registry in _REGISTRIES
        for point in entry_points(group=registry.group)
    }
    found = culprit(error, homes)  # of an answer that is none, the name alone
    return next((whose for whose in homes if whose == found or whose.startswith(f"plugin {found} of ")), "")


def load_profile(text: str) -> tuple[Profile, tuple[ConfigProblem, ...]]:
    """Load a configuration and make everything that it names; with it, what is worth a warning."""
    loaded = load_configuration(text)
    try:
        return build(loaded.configuration), loaded.warnings
    except ConfigurationError:
        raise
    except ConfigError as error:
        raise ConfigurationError([ConfigProblem("Argument", error.path, 0, error.message)]) from error


def _plugin(option: PluginOption) -> Plugin:
    return PLUGINS.build(option.name, option.arguments)
