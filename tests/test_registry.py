"""The registries: own plugins and actions, those of other distributions, and names that are known and absent."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import actions
import plugins
from volsched import registry
from volsched.cli import volsched
from volsched.framework.config.arguments import Argument
from volsched.framework.config.loading import DEFAULT_CONFIGURATION, ConfigurationError
from volsched.framework.registration import Registrar
from volsched.framework.rules import Predicate
from volsched.framework.validation import Faults, Surroundings, warning
from volsched.model import api
from volsched.model.errors import ConfigError
from volsched.registry import ABSENT_ACTIONS, ABSENT_PLUGINS, Registry
from volsched.validation.objects import problems_of


def text(*names: str, action: str = "allocate") -> str:
    listed = "".join(f"  - name: {name}\n" for name in names)
    return f"actions: {action}\ntiers:\n- plugins:\n{listed}"


def said(configuration: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        registry.load_profile(configuration)
    return str(caught.value)


IDLE = ("crossquota", "mgpu")
"""Plugins that do nothing without arguments, and say so."""


@pytest.mark.parametrize("name", plugins.BUILDERS)
def test_every_own_plugin_can_be_made_from_its_defaults(name: str) -> None:
    profile, warnings = registry.load_profile(text(name))
    along = [guest for guest, host in plugins.ALSO_UNDER.items() if host == name and guest in plugins.COMES_ALONG]
    assert [plugin.name for _, plugin in profile.plugins[0]] == [name, *along]
    assert bool(warnings) == (name in IDLE)


@pytest.mark.parametrize("name", actions.BUILDERS)
def test_every_own_action_can_be_made(name: str) -> None:
    profile, _ = registry.load_profile(text("gang", action=name))
    assert [action.name for action in profile.actions] == [name]


def test_the_built_in_configuration_can_be_built() -> None:
    profile, _ = registry.load_profile(DEFAULT_CONFIGURATION)
    names = [[option.name for option, _ in tier] for tier in profile.plugins]
    assert names == [
        ["priority", "gang", "conformance"],
        ["overcommit", "predicates", "nodeorder", "binpack"],
    ]


@pytest.mark.parametrize("name", sorted(set(ABSENT_PLUGINS) - set(plugins.BUILDERS)))
def test_a_plugin_of_a_later_version_or_of_volcano_is_known_and_refused(name: str) -> None:
    assert f"plugin {name} {ABSENT_PLUGINS[name]}" in said(text(name))


@pytest.mark.parametrize("name", sorted(set(ABSENT_ACTIONS) - set(actions.BUILDERS)))
def test_an_action_of_a_later_version_or_of_volcano_is_known_and_refused(name: str) -> None:
    assert f"action {name} {ABSENT_ACTIONS[name]}" in said(text("gang", action=name))


# --- other distributions --------------------------------------------------------------------------------------------


class Quiet:
    """A plugin of somebody else."""

    name = "quiet"
    ARGUMENTS = (Argument("volume", "int", 1, "How loud."),)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.volume = arguments["volume"]

    def on_session_open(self, registrar: object) -> None:
        """Say nothing."""


class Stubborn:
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("not today")


class Unaskable:
    """Registers a predicate that cannot be asked, as it takes three arguments."""

    name = "unaskable"

    def on_session_open(self, registrar: Registrar) -> None:
        registrar.register(Predicate(lambda task, node, more: None))  # type: ignore[arg-type,misc]  # wanted


class Failing:
    """Fails in every session."""

    name = "failing"

    def on_session_open(self, registrar: Registrar) -> None:
        raise RuntimeError("not today")


def no_plugin() -> object:
    return object()


NOT_CALLABLE = 3


def added(monkeypatch: pytest.MonkeyPatch, **points: str | list[str]) -> None:
    """Let distributions ``acme 1.0``, ``acme 2.0``... offer plugins, and validators, under these names."""
    found: dict[str, list[Any]] = {}
    for name, values in points.items():
        for number, value in enumerate([values] if isinstance(values, str) else values, start=1):
            point = EntryPoint(name, value, "volsched.plugins")
            dist = SimpleNamespace(name="acme", version=f"{number}.0")
            found.setdefault(name, []).append(SimpleNamespace(name=name, load=point.load, dist=dist))
    monkeypatch.setattr(registry, "_entry_points", lambda _: found)
    fresh: Registry[Any] = Registry("plugin", plugins.BUILDERS, "volsched.plugins", "on_session_open", ABSENT_PLUGINS)
    monkeypatch.setattr(registry, "PLUGINS", fresh)
    judges: Registry[Any] = Registry("validator", plugins.VALIDATORS, "volsched.validators", "__call__", {})
    monkeypatch.setattr(registry, "VALIDATORS", judges)


def test_an_installed_distribution_adds_a_plugin_with_its_own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, quiet=f"{__name__}:Quiet")
    profile, _ = registry.load_profile(text("quiet") + "    arguments: {volume: '4'}\n")
    ((_, plugin),) = profile.plugins[0]
    assert isinstance(plugin, Quiet)
    assert plugin.volume == 4
    assert "volume of plugin quiet must be a whole number" in said(text("quiet") + "    arguments: {volume: loud}\n")
    assert registry.PLUGINS.names()[-1] == "quiet"


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("volsched.nowhere:X", "plugin odd of acme 1.0 cannot be loaded: ModuleNotFoundError: No module named"),
        (f"{__name__}:Missing", "plugin odd of acme 1.0 cannot be loaded: AttributeError"),
        (f"{__name__}:Stubborn", "plugin odd of acme 1.0 cannot be made: RuntimeError: not today"),
        (f"{__name__}:no_plugin", "plugin odd of acme 1.0 is no plugin: it has no method on_session_open"),
        (f"{__name__}:NOT_CALLABLE", "plugin odd of acme 1.0 is not callable"),
    ],
)
def test_a_fault_of_another_distribution_names_it(monkeypatch: pytest.MonkeyPatch, value: str, fault: str) -> None:
    added(monkeypatch, odd=value)
    assert fault in said(text("odd"))


def test_a_callback_that_cannot_be_asked_refuses_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, unaskable=f"{__name__}:Unaskable")
    assert "plugin unaskable: Unaskable.on_session_open.<locals>.<lambda> is called with 2 arguments" in said(
        text("unaskable")
    )


def test_what_a_plugin_fails_with_is_told_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, failing=f"{__name__}:Failing")
    profile, _ = registry.load_profile(text("failing"))
    assert isinstance(profile.plugins[0][0][1], Failing)


def test_a_broken_distribution_disturbs_nobody_who_does_not_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, odd="volsched.nowhere:X")
    profile, _ = registry.load_profile(text("gang"))
    assert profile.plugins[0][0][1].name == "gang"


def test_two_distributions_that_offer_one_name_are_both_named(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, quiet=[f"{__name__}:Quiet", f"{__name__}:Quiet"])
    assert "plugin quiet is offered by acme 1.0 and acme 2.0; keep one of them installed" in said(text("quiet"))


def test_a_name_of_the_project_cannot_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, gang=f"{__name__}:Quiet")
    profile, _ = registry.load_profile(text("gang"))
    assert not isinstance(profile.plugins[0][0][1], Quiet)


# --- validators -----------------------------------------------------------------------------------------------------


def grumble(found: api.ApiObject, beside: Surroundings) -> Faults:
    """Say something about every Node."""
    if isinstance(found, api.Node):
        yield warning("metadata.name", "Ugly", f"is one of {len(beside.of(api.Node))} ugly names")


def test_the_project_has_validators_of_its_plugins_alone() -> None:
    assert set(plugins.VALIDATORS) <= {*plugins.BUILDERS, *ABSENT_PLUGINS}
    assert len(registry.validators()) >= len(plugins.VALIDATORS) > 0


def test_an_installed_distribution_says_what_is_wrong_with_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, grumble=f"{__name__}:grumble")
    nodes = [api.Node(metadata=api.ObjectMeta(name=name)) for name in ("a", "b")]
    found = list(problems_of(nodes, lambda node: node.key))
    assert [str(problem) for problem in found] == [f"{n}: metadata.name: is one of 2 ugly names" for n in "ab"]


def test_a_broken_validator_is_named_and_never_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    added(monkeypatch, odd="volsched.nowhere:X")
    with pytest.raises(ConfigError, match=r"validator odd of acme 1.0 cannot be loaded: ModuleNotFoundError"):
        registry.validators()
    answer = CliRunner().invoke(volsched, ["validate", "-f", "-"], input="{apiVersion: v1, kind: Node}")
    assert answer.exit_code == 2
    assert "error: validator odd of acme 1.0 cannot be loaded" in answer.stderr
