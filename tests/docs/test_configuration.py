"""docs/configuration.md says what the code takes, no more and no less; every example on every page holds."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.docs.pages import DOCS, PAGES, ROOT, Block, blocks, codes, headings, rows, section
from volsched.cli import volsched
from volsched.cli.inputs.volcano_flags import is_unused
from volsched.controllers.grouping import GROUP_MIN_MEMBER, QUEUE_NAME
from volsched.framework.config.arguments import Argument
from volsched.framework.config.configuration import FORMER_SWITCHES, SWITCHES, UNUSED_SWITCHES
from volsched.framework.config.loading import DEFAULT_CONFIGURATION, IN_KUBE_SCHEDULERS_PLACE, ConfigurationError
from volsched.mirror.reading import GROUP_NAME, PREEMPTABLE, ROLE, TASK_PRIORITY
from volsched.model.unserved import NUMA_POLICY, REVOCABLE_ZONE
from volsched.model.waiting_time import WAITING_TIMES
from volsched.registry import ACTIONS, PLUGINS, load_configuration, load_profile
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import read_inventory
from volsched.validation.volcano_keys import NOT_READ

PAGE = DOCS / "configuration.md"


def options_of(verb: str) -> list[click.Option]:
    command = volsched.get_command(click.Context(volsched), verb)
    assert command is not None
    return [param for param in command.params if isinstance(param, click.Option) and "--help" not in param.opts]


YAML = [block for page in PAGES for block in blocks(page) if "yaml" in block.words]


def plugin_headings() -> list[str]:
    listed = headings(PAGE)
    begin, end = listed.index((2, "Plugins")), listed.index((2, "Switches"))
    return [text for _, text in listed[begin + 1 : end]]


# --- plugins, actions, switches -------------------------------------------------------------------------------------


def test_every_plugin_has_its_section_and_every_section_its_plugin() -> None:
    assert sorted(plugin_headings()) == sorted(PLUGINS.names())


@pytest.mark.parametrize("name", PLUGINS.names())
def test_arguments_of_a_plugin_are_documented_with_type_and_default(name: str) -> None:
    schema = PLUGINS.schema(name)
    assert schema is not None
    documented = {next(codes(cells[0])): tuple(cells[1:3]) for cells in rows(section(PAGE, name))}

    assert documented == {argument.key: (type_of(argument), default_of(argument)) for argument in schema}
    if not schema:
        assert "No arguments." in " ".join(section(PAGE, name))


def type_of(argument: Argument) -> str:
    bounds = f", at least {argument.minimum:g}" if argument.minimum is not None else ""
    return f"{argument.type}{bounds}"


def default_of(argument: Argument) -> str:
    if argument.default in (None, ()) or argument.is_prefix:
        return "none"
    if isinstance(argument.default, tuple):
        return f"`{', '.join(argument.default)}`"
    return f"`{str(argument.default).lower() if isinstance(argument.default, bool) else argument.default}`"


def test_every_action_is_documented() -> None:
    listed = rows(section(PAGE, "Actions"))
    documented = [next(codes(cells[0])) for cells in listed if len(cells) == 2]
    arguments = {(next(codes(c[0])), next(codes(c[1]))): (c[2], c[3]) for c in listed if len(c) == 5}

    assert sorted(documented) == sorted(ACTIONS.names())
    assert arguments == {
        (name, argument.key): (type_of(argument), default_of(argument))
        for name in ACTIONS.names()
        for argument in ACTIONS.schema(name) or ()
    }


def test_every_switch_is_documented_with_its_default() -> None:
    documented = {next(codes(name)): next(codes(default)) == "true" for name, default, _ in switches()}

    assert documented == SWITCHES


def test_switches_that_gate_nothing_are_said_to_gate_nothing() -> None:
    source = "".join((ROOT / f"volsched/framework/{name}.py").read_text() for name in ("rules", "registration"))

    for name, _, effect in switches():
        used = f'"{next(codes(name))}"' in source
        assert used == (not effect.startswith("nothing in this version")), name


def switches() -> list[list[str]]:
    return rows(section(PAGE, "Switches"))


def test_what_is_known_and_absent_is_listed_with_what_replaces_it() -> None:
    replaced = {
        name: (set(codes(instead)), instead)
        for absent, instead in rows(section(PAGE, "Coming from Volcano"))
        for name in codes(absent)
    }
    absent = {**PLUGINS.absent, **ACTIONS.absent}
    known = {*PLUGINS.names(), *ACTIONS.names()}

    assert replaced.keys() == absent.keys()
    for name, (instead, words) in replaced.items():
        assert known.isdisjoint({name})
        assert (words.startswith("none")) == ("nothing replaces it" in absent[name]), name
        for word in instead:
            assert word in absent[name], name
        assert bool(instead & known) == (not words.startswith("none")), name


@pytest.mark.parametrize("name", PLUGINS.names())
def test_arguments_without_effect_are_said_to_have_none(name: str) -> None:
    effects = {next(codes(cells[0])): cells[3] for cells in rows(section(PAGE, name))}
    for argument in PLUGINS.own_schema(name):
        if argument.key != "predicate.MGPUMaxContainersNumPolicyValid":  # nothing reads it in Volcano either
            assert effects[argument.key].startswith("none") == bool(argument.unused), argument.key


def test_arguments_of_actions_without_effect_are_said_to_have_none() -> None:
    effects = {(c[0], c[1]): c[4] for c in rows(section(PAGE, "Actions")) if len(c) == 5}
    for name in ACTIONS.names():
        for argument in ACTIONS.schema(name) or ():
            said = effects[f"`{name}`", f"`{argument.key}`"].startswith("none")
            assert said == bool(argument.unused), argument.key


def test_switches_that_let_nothing_count_are_those_that_are_warned_about() -> None:
    assert {next(codes(name)) for name, _, effect in switches() if effect.startswith("nothing")} == set(UNUSED_SWITCHES)
    former = " ".join(section(PAGE, "Switches"))
    assert all(f"`{name}`" in former for name in FORMER_SWITCHES)


WARNED_ABOUT = {*NOT_READ, NUMA_POLICY, REVOCABLE_ZONE}


def test_annotations_that_are_warned_about_are_those_of_the_code() -> None:
    listed = {
        key: here for keys, _, here in rows(section(PAGE, "Annotations and labels of Volcano")) for key in codes(keys)
    }
    assert {key for key, here in listed.items() if here.startswith("warned about")} == WARNED_ABOUT
    assert all(here.startswith(("read", "warned about", "ignored")) for here in listed.values())
    for key in (GROUP_NAME, ROLE, TASK_PRIORITY, PREEMPTABLE, QUEUE_NAME, GROUP_MIN_MEMBER, *WAITING_TIMES):
        assert listed[key].startswith("read"), key


# --- flags ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["run", "controllers", "certificates"])
def test_every_flag_is_documented_with_its_default(verb: str) -> None:
    documented = {next(codes(cells[0])): cells[2] for cells in rows(flags(verb))}
    shown = [option for option in options_of(verb) if not option.hidden]

    assert list(documented) == [option.opts[0] for option in shown]
    for option in shown:
        expected = default_shown(option)
        if expected is not None:
            assert documented[option.opts[0]] == expected, option.opts[0]


def default_shown(option: click.Option) -> str | None:
    """What the table must say; None where the default is a sentence."""
    default: Any = option.default
    if isinstance(option.show_default, str) or option.opts[0] == "--cache-dump-dir":
        return None
    if default in ("", None, ()):
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, tuple):
        default = ", ".join(default)
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


@pytest.mark.parametrize("verb", ["run", "controllers"])
def test_flags_without_effect_are_those_of_the_code(verb: str) -> None:
    text = " ".join(line for line in flags(verb) if not line.startswith("|"))
    listed = re.findall(r"`(--?[a-z][\w-]*)`", re.split("nothing +to switch here", text)[1].partition(".")[0])

    assert sorted(listed) == sorted(option.opts[0] for option in options_of(verb) if is_unused(option))


@pytest.mark.parametrize("verb", ["run", "controllers"])
def test_flags_out_of_sight_are_said_to_have_an_effect_or_none(verb: str) -> None:
    text = " ".join(flags("run"))

    for option in options_of(verb):
        if option.hidden and not is_unused(option):
            assert f"`{option.opts[0]}`" in text


def flags(verb: str = "run") -> list[str]:
    return section(PAGE, f"Flags of `volsched {verb}`")


# --- examples -------------------------------------------------------------------------------------------------------


ELSEWHERE = {"wrong", "needs=racks", "file=kustomization.yaml"}
"""Words of blocks that other tests try."""


@pytest.mark.parametrize("block", [b for b in YAML if not ELSEWHERE & set(b.words)], ids=str)
def test_examples_of_yaml_hold(block: Block, tmp_path: Path) -> None:
    documents = [document for document in yaml.safe_load_all(block.text) if document]
    if "actions" in documents[0] or documents[0].get("kind") == "ConfigMap":
        _, warnings = load_profile(block.text)
        assert not warnings
    else:
        (tmp_path / "example.yaml").write_text(block.text)
        read_inventory(read_documents((str(tmp_path / "example.yaml"),)))


def test_examples_that_are_wrong_on_purpose_are_refused_as_the_page_says() -> None:
    seen = 0
    for page in PAGES:
        for block, after in pairwise([*blocks(page), Block(page, 0, (), "")]):
            if {"yaml", "wrong"} <= set(block.words):
                assert "problems" in after.words, f"{block}: what it is refused for should follow"
                with pytest.raises(ConfigurationError) as refused:
                    load_profile(block.text)
                assert str(refused.value) == after.text.strip(), str(block)
                seen += 1
    assert seen


def test_configuration_in_kube_schedulers_place_is_shown() -> None:
    (block,) = [block for block in blocks(PAGE) if block.word("built-in") == "default-scheduler"]

    assert load_configuration(block.text) == load_configuration(IN_KUBE_SCHEDULERS_PLACE)


def test_first_example_is_the_built_in_one_but_for_the_arguments_of_binpack() -> None:
    first = load_configuration(next(block for block in blocks(PAGE)).text).configuration
    built_in = load_configuration(DEFAULT_CONFIGURATION).configuration

    assert first.actions == built_in.actions
    assert [[(o.name, o.switches) for o in tier] for tier in first.tiers] == [
        [(o.name, o.switches) for o in tier] for tier in built_in.tiers
    ]
