"""Loading configurations: what is accepted, and that everything wrong is said with its key, its line and a way out."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from volsched.framework.config.arguments import Argument, ArgumentProblem, CheckFn, Schema
from volsched.framework.config.configuration import FORMER_SWITCHES, SWITCHES, UNUSED_SWITCHES
from volsched.framework.config.loading import (
    DEFAULT_CONFIGURATION,
    LONGEST_TEXT,
    MOST_PROBLEMS,
    ConfigurationError,
    Loaded,
    find_in_data,
    is_bare_configuration,
    is_of_another_program,
    load,
)
from volsched.model.errors import ConfigError


class Shelf:
    """A catalogue of a few names."""

    def __init__(self, known: Mapping[str, Schema], absent: Mapping[str, str]) -> None:
        self._known = known
        self.absent = absent

    def names(self) -> Sequence[str]:
        return list(self._known)

    def schema(self, name: str) -> Schema | None:
        if name == "broken":
            raise ConfigError("", "plugin broken of someone 1.0 cannot be loaded: ImportError: no")
        return self._known.get(name)

    def excluded_by(self, name: str) -> Sequence[str]:
        return {"proportion": ("binpack",)}.get(name, ())

    def undone_by(self, name: str) -> Sequence[str]:
        return ()

    def check(self, name: str) -> CheckFn | None:
        return {"binpack": judged}.get(name)


def judged(values: Mapping[str, Any]) -> Iterator[ArgumentProblem]:
    if values["binpack.weight"] > 100:
        yield ArgumentProblem("binpack.weight", "is large", "warning")
    if values["binpack.weight"] < 0 and not any(key.startswith("binpack.resources.") for key in values):
        yield ArgumentProblem("binpack.resources.*", "is needed with a weight below 0")


BINPACK = (
    Argument("binpack.weight", "int", 1, ""),
    Argument("binpack.resources.*", "int", 1, ""),
    Argument("binpack.old", "int", 1, "", unused="it is old"),
    Argument("binpack.older", "int", 1, "", unused="it is old"),
)
PLUGINS = Shelf(
    {
        "priority": (),
        "gang": (),
        "conformance": (),
        "overcommit": (),
        "predicates": (),
        "nodeorder": (),
        "binpack": BINPACK,
        "drf": (),
        "proportion": (),
    },
    {"mgpu": "is not in this version", "crossquota": "is not in this version"},
)
ACTIONS = Shelf(
    {
        "enqueue": (),
        "allocate": (Argument("cache", "bool", True, ""), Argument("workers", "int", 1, "", unused="there are none")),
        "backfill": (),
    },
    {"preempt": "is not in this version"},
)

GOOD = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
- plugins:
  - name: binpack
    arguments:
      binpack.weight: "10"
configurations:
- name: allocate
  arguments:
    cache: "false"
"""


def loaded(text: str) -> Loaded:
    return load(text, PLUGINS, ACTIONS)


def problems(text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(ConfigurationError) as caught:
        loaded(text)
    return [(problem.line, problem.key, problem.message) for problem in caught.value.problems]


def test_a_configuration_is_read_with_its_switches_and_arguments() -> None:
    configuration = loaded(GOOD).configuration
    assert configuration.actions == ("enqueue", "allocate")
    (gang,), (binpack,) = configuration.tiers
    assert (gang.name, gang.allows("enablePreemptable"), gang.allows("enableJobReady")) == ("gang", False, True)
    assert binpack.arguments == {"binpack.weight": 10, "binpack.old": 1, "binpack.older": 1}
    assert configuration.action_arguments == {"allocate": {"cache": False, "workers": 1}, "enqueue": {}}


def test_the_built_in_configuration_is_one() -> None:
    assert loaded(DEFAULT_CONFIGURATION).configuration.actions == ("enqueue", "allocate", "backfill")


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_of_volcano_is_known_in_its_exact_spelling(switch: str) -> None:
    text = f"actions: allocate\ntiers: [{{plugins: [{{name: gang, {switch}: true}}]}}]"
    assert loaded(text).configuration.tiers[0][0].allows(switch)


def test_absent_and_empty_tiers_are_no_plugins() -> None:
    for tiers in ("", "tiers:", "tiers: []"):
        assert loaded(f"actions: allocate\n{tiers}").configuration.tiers == ()


def test_a_config_map_is_unpacked_and_its_lines_are_those_of_the_file() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  other.txt: hello\n  x.conf: |\n"
    text += "".join(f"    {line}\n" for line in GOOD.replace("gang", "gnag").splitlines())
    assert problems(text) == [(10, "tiers[0].plugins[0].name", 'there is no plugin "gnag"; did you mean gang?')]


def test_metrics_are_taken_in_their_right_form_and_said_to_have_no_effect() -> None:
    (warning,) = loaded(f"{GOOD}metrics: {{type: prometheus, address: http://p}}").warnings
    assert (warning.severity, warning.line, warning.key) == ("warning", 14, "metrics")
    assert "no effect" in warning.message
    assert problems(f"{GOOD}metrics: [1]") == [(14, "metrics", "must be a mapping, not a list")]
    assert problems(f"{GOOD}metrics: {{type: [1]}}") == [(14, "metrics.type", "must be a plain value")]


WRONG = [
    ("actions: [allocate]", 1, "actions", 'one text with commas between the names, as "enqueue, allocate", not a list'),
    ("actions: ' '", 1, "actions", "is empty"),
    ("actions:", 1, "actions", "not nothing"),
    ("tiers: []", 1, "actions", "is missing"),
    ("actions: allocate,", 1, "actions", "has an empty name"),
    ("actions: alocate", 1, "actions", 'there is no action "alocate"; did you mean allocate?'),
    ("actions: zzz", 1, "actions", 'there is no action "zzz"; there are enqueue, allocate, backfill'),
    ("actions: preempt", 1, "actions", "action preempt is not in this version"),
    ("tiers: []\naction: x", 2, "action", 'there is no "action" in a configuration; did you mean actions?'),
    ("actions: allocate\nactions: allocate", 2, "actions", "is said twice, first in line 1"),
    ("actions: allocate\n1: 2", 2, "1", 'there is no "1" in a configuration'),
    ("actions: allocate\n? [a]\n: 2", 2, "", "a key must be a text, not a list"),
    ("actions: allocate\ntiers: {}", 2, "tiers", "must be a list, not a mapping"),
    ("actions: allocate\ntiers:\n- gang", 3, "tiers[0]", "must be a mapping, not 'gang'"),
    ("actions: allocate\ntiers:\n- plugin: []", 3, "tiers[0].plugin", "did you mean plugins?"),
    ("actions: allocate\ntiers:\n- plugins:\n  - gang", 4, "tiers[0].plugins[0]", "must be a mapping, not 'gang'"),
    ("actions: allocate\ntiers:\n- plugins:\n  - {}", 4, "tiers[0].plugins[0].name", "is missing"),
    (
        "actions: allocate\ntiers:\n- plugins:\n  - name: 7",
        4,
        "tiers[0].plugins[0].name",
        "the name of a plugin, not 7",
    ),
    ("actions: allocate\ntiers:\n- plugins:\n  - name: gnag", 4, "tiers[0].plugins[0].name", "did you mean gang?"),
    ("actions: allocate\ntiers:\n- plugins:\n  - name: mgpu", 4, "tiers[0].plugins[0].name", "is not in this version"),
    ("actions: allocate\ntiers:\n- plugins:\n  - name: broken", 4, "tiers[0].plugins[0].name", "someone 1.0"),
    (
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enablePreemptible: true",
        5,
        "tiers[0].plugins[0].enablePreemptible",
        'no switch "enablePreemptible"; did you mean enablePreemptable?',
    ),
    (
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableJobReady: maybe",
        5,
        "tiers[0].plugins[0].enableJobReady",
        'must be true or false, not the text "maybe"',
    ),
    (
        "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments: {binpack.wieght: 1}",
        5,
        "tiers[0].plugins[0].arguments.binpack.wieght",
        "did you mean binpack.weight?",
    ),
    (
        "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments:\n      binpack.weight: ten",
        6,
        "tiers[0].plugins[0].arguments.binpack.weight",
        "must be a whole number",
    ),
    (
        "actions: allocate\ntiers:\n- plugins:\n  - {name: gang}\n  - {name: gang}",
        5,
        "tiers[0].plugins[1].name",
        "plugin gang is already in tiers[0].plugins[0]",
    ),
    (
        "actions: allocate\ntiers:\n- plugins: [{name: gang}]\n- plugins: [{name: gang}]",
        4,
        "tiers[1].plugins[0].name",
        "plugin gang is already in tiers[0].plugins[0]",
    ),
    (
        "actions: allocate\nconfigurations:\n- name: alocate",
        3,
        "configurations[0].name",
        "did you mean allocate?",
    ),
    (
        "actions: allocate\nconfigurations:\n- name: allocate\n- name: allocate",
        4,
        "configurations[1].name",
        "action allocate is configured twice",
    ),
    (
        "actions: allocate\nconfigurations:\n- name: allocate\n  arguments: {cache: 3}",
        4,
        "configurations[0].arguments.cache",
        "must be true or false, not 3",
    ),
    ("actions: allocate\ntiers: [", 2, "", "is not YAML"),
    ("actions: allocate\ntiers: " + "[" * 2000, 2, "", "is not YAML: more than 64 open brackets"),
    ("actions: !!python/object:os.system x", 1, "actions", "is not a plain value"),
    ("", 0, "", "is empty"),
    ("- actions", 1, "", "must be a mapping, not a list"),
    ("actions: allocate\n---\nactions: allocate", 2, "", "is not YAML"),
    ("\x00", 0, "", "is not YAML"),
    ("kind: ConfigMap\ndata: {a: b}", 2, "", "no key of data holds a scheduler configuration"),
    ("kind: ConfigMap", 1, "", "no key of data holds a scheduler configuration"),
]


@pytest.mark.parametrize(("text", "line", "key", "said"), WRONG)
def test_what_is_wrong_is_said_with_line_and_key(text: str, line: int, key: str, said: str) -> None:
    found = problems(text)
    assert any((at, path) == (line, key) and said in message for at, path, message in found), found


def test_a_text_that_would_take_long_to_read_is_not_read() -> None:
    long = f"actions: allocate\n{'#' * LONGEST_TEXT}"

    assert problems(long) == [(0, "", f"is longer than {LONGEST_TEXT} characters")]
    assert find_in_data({"any": long}) is None


def test_all_problems_are_reported_in_the_order_of_their_lines() -> None:
    text = (
        "zones: 1\nactions: enqueue, alocate\ntiers:\n- plugins:\n  - name: gnag\n  - name: gang\n    enableJob: true\n"
    )
    assert [line for line, _, _ in problems(text)] == [1, 2, 5, 7]


def test_arguments_are_judged_together_where_a_plugin_does_so() -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments:\n      binpack.weight: "

    (warning,) = loaded(f"{text}101").warnings
    with pytest.raises(ConfigurationError) as refused:
        loaded(f"{text}-1")

    key = "tiers[0].plugins[0].arguments.binpack"
    assert str(warning) == f"line 6: {key}.weight: is large"
    assert str(refused.value) == f"line 4: {key}.resources.*: is needed with a weight below 0"


def test_plugins_that_exclude_each_other_are_refused_in_whatever_tiers_they_stand() -> None:
    text = "actions: allocate\ntiers:\n- plugins: [{name: binpack}]\n- plugins: [{name: gang}, {name: proportion}]\n"

    with pytest.raises(ConfigurationError) as refused:
        loaded(text)

    said = "plugins proportion and binpack contradict each other; leave one of them out"
    assert str(refused.value) == f"line 4: tiers[1].plugins[1].name: {said}"
    assert loaded(text.replace("binpack", "drf")).configuration.tiers


def test_drf_with_hierarchy_and_proportion_contradict_each_other_in_one_tier_only() -> None:
    drf, proportion = "{name: drf, enableHierarchy: true}", "{name: proportion}"
    together = problems(f"actions: allocate\ntiers: [{{plugins: [{drf}, {proportion}]}}]")
    apart = loaded(f"actions: allocate\ntiers: [{{plugins: [{drf}]}}, {{plugins: [{proportion}]}}]")
    assert ["contradict each other" in message for _, _, message in together] == [True]
    assert len(apart.configuration.tiers) == 2


@pytest.mark.parametrize("plugin", ["drf", "proportion"])
def test_shares_over_a_hierarchy_are_taken_without_a_warning(plugin: str) -> None:
    loaded_ = loaded(f"actions: allocate\ntiers: [{{plugins: [{{name: {plugin}, enableHierarchy: true}}]}}]")

    assert not loaded_.warnings
    assert loaded_.configuration.tiers[0][0].allows("enableHierarchy")


# --- what Volcano reads and volsched has no use for -----------------------------------------------------------------


def plugins_of(*entries: str) -> str:
    return f"actions: allocate\ntiers: [{{plugins: [{', '.join(entries)}]}}]"


@pytest.mark.parametrize("value", ["true", "false"])
@pytest.mark.parametrize("switch", [*SWITCHES, *FORMER_SWITCHES])
def test_every_switch_of_volcano_is_accepted_and_named_where_it_has_no_effect(switch: str, value: str) -> None:
    found = loaded(plugins_of(f"{{name: gang, {switch}: {value}}}"))

    idle = switch in UNUSED_SWITCHES or switch in FORMER_SWITCHES
    assert [switch in warning.message for warning in found.warnings] == [True] * idle
    (gang,) = found.configuration.tiers[0]
    assert gang.switches == ({switch: value == "true"} if switch in SWITCHES else {})


def test_one_warning_names_everything_without_effect() -> None:
    text = plugins_of(
        "{name: gang, enabledVictim: true, enabledSubJobOrder: false}",
        "{name: binpack, enabledVictim: true, arguments: {binpack.old: 3, binpack.older: 4, binpack.weight: 2}}",
    )
    found = loaded(f"{text}\nconfigurations: [{{name: allocate, arguments: {{workers: 4}}}}]")

    (warning,) = found.warnings
    assert (warning.code, warning.line, warning.key) == ("NoEffect", 2, "tiers[0].plugins[0].enabledVictim")
    assert warning.message == (
        "without effect in volsched: switches: enabledVictim (no plugin of volsched registers what it switches); "
        "switches: enabledSubJobOrder (volsched orders no parts of jobs by themselves); "
        "plugin binpack: binpack.old, binpack.older (it is old); action allocate: workers (there are none)"
    )


def test_a_switch_without_a_value_counts_as_not_named() -> None:
    (gang,) = loaded(plugins_of("{name: gang, enableJobOrder: null, enabledVictim: }")).configuration.tiers[0]
    assert gang.allows("enableJobOrder")
    assert not loaded(plugins_of("{name: gang, enableJobOrder: null, enabledVictim: }")).warnings


def test_an_argument_without_effect_is_checked_all_the_same() -> None:
    ((_, key, message),) = problems(plugins_of("{name: binpack, arguments: {binpack.old: many}}"))
    assert key.endswith("arguments.binpack.old")
    assert "must be a whole number" in message


# --- suggestions are accepted ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mgpu", "MGPU", "m-gpu", "m_gpu"])
def test_what_is_absent_is_said_to_be_whichever_way_it_is_spelt(name: str) -> None:
    assert [message for _, _, message in problems(plugins_of(f"{{name: {name}}}"))] == [
        "plugin mgpu is not in this version"
    ]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (["{name: crossqota}"], "there are priority"),  # it would be crossquota, which is absent
        (["{name: gnag}"], "did you mean gang?"),
        (["{name: gnag}", "{name: gang}"], "there are priority"),  # it would stand twice
        (["{name: proportio}", "{name: gang}"], "did you mean proportion?"),
        (["{name: proportio}", "{name: binpack}"], "there are priority"),  # they contradict each other
        (["{name: binpak}", "{name: proportion}"], "there are priority"),
        (["{name: drff}", "{name: proportion}"], "did you mean drf?"),
    ],
)
def test_a_suggestion_is_one_that_would_be_accepted(entries: list[str], said: str) -> None:
    ((_, _, message),) = problems(plugins_of(*entries))
    assert said in message
    if "did you mean" in message:
        meant = message.partition("did you mean ")[2].rstrip("?")
        [first, *_] = loaded(plugins_of(f"{{name: {meant}}}", *entries[1:])).configuration.tiers[0]
        assert first.name == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{name: gang, enableJobOrdr: true}", "; did you mean enableJobOrder?"),
        ("{name: gang, enableJobOrdr: true, enableJobOrder: true}", 'no switch "enableJobOrdr"'),
        ("{name: binpack, arguments: {binpack.wieght: 1}}", "did you mean binpack.weight?"),
        ("{name: binpack, arguments: {binpack.wieght: 1, binpack.weight: 1}}", "no argument binpack.wieght"),
    ],
)
def test_what_is_there_already_is_no_suggestion(text: str, said: str) -> None:
    messages = [message for _, _, message in problems(plugins_of(text))]
    assert said in messages[0]
    assert "did you mean enableJobOrder?" not in messages[0] or "enableJobOrder:" not in text
    assert "did you mean binpack.weight?" not in messages[0] or "binpack.weight:" not in text


@pytest.mark.slow(reason="texts of five thousand parts, and one that would grow without end")
def test_texts_that_grow_when_read_are_stopped() -> None:
    nest = "actions: allocate\na0: &a0 [x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    assert problems(f"{nest}tiers: [{{plugins: [{{name: gang, enableJobReady: *a11}}]}}]")
    assert problems("actions: " + "[" * 5000)
    many = ", ".join(["{name: gang}"] * 5000)
    assert len(problems(f"actions: allocate\ntiers: [{{plugins: [{many}]}}]")) == MOST_PROBLEMS
    assert problems("actions: &a [*a]")


def test_a_merge_key_is_no_key() -> None:
    found = problems("actions: allocate\ntiers:\n- plugins:\n  - <<: {name: gang}\n    name: binpack")
    assert found[0][:2] == (4, "tiers[0].plugins[0].<<")


CURATOR = "actions:\n  1:\n    action: delete_indices\n    options: {ignore_empty_list: true}\n"
"""The actions of another program, as ConfigMaps hold them."""


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("actions: allocate\ntiers: []\nother: 1", True),
        ("actions: {1: allocate}\ntiers: []", True),
        ("actions: allocate", True),
        ("actions: [allocate]\nconfigurations: []", True),
        ("tiers: 1", True),
        ("action: allocate\ntiers: [{plugins: [{name: gang}]}]", True),
        (CURATOR, False),
        ("actions: save\nport: 80", False),
        ("tiers: [gold, silver]\nprices: {gold: 1}", False),
        ("tierz: []", False),
        ("- actions", False),
    ],
)
def test_keys_of_other_programs_make_no_configuration(text: str, looks: bool) -> None:
    assert is_bare_configuration(text, among_others=True) is looks
    assert find_in_data({"some.yaml": text}) is None or is_of_another_program(text) is not looks


def test_data_of_a_config_map_has_one_configuration_or_says_which_are_meant() -> None:
    assert find_in_data({"volcano-scheduler.conf": "?", "x.conf": GOOD}) == "volcano-scheduler.conf"
    assert find_in_data({"nginx.conf": "server {}", "b": GOOD}) == "b"
    assert find_in_data({"a": GOOD, "b.conf": GOOD}) == "b.conf"
    assert find_in_data({"a": "hello"}) is None
    with pytest.raises(ConfigError, match=r"a.conf, b.conf all hold"):
        find_in_data({"a.conf": GOOD, "b.conf": GOOD})


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (GOOD, True),
        ("action: x", True),
        ("kind: Pod", False),
        ('{"apiVersion": "v1"}', False),
        ('{\n\n  "kind" : "Pod"}', False),
        ("---\n- kind: Pod", False),
        ("[]", False),
        ("a", False),
    ],
)
def test_a_mapping_that_is_no_object_can_only_be_a_configuration(text: str, is_one: bool) -> None:
    assert is_bare_configuration(text) is is_one


# --- whatever is written, it is accepted or refused ----------------------------------------------------------------

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["gang", "allocate", "plugins", "true", "10", "2001-01-01", "enqueue,", "name"]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid configuration in which some values are replaced, left out, doubled or given another key."""
    tree = copy.deepcopy(yaml.safe_load(GOOD))
    for _ in range(draw(st.integers(1, 4))):
        choices = places(tree)[1:]
        if not choices:
            break
        *way, last = draw(st.sampled_from(choices))
        parent = tree
        for step in way:
            parent = parent[step]
        change = draw(st.sampled_from(["replace", "remove", "double", "rename"]))
        if change == "replace":
            parent[last] = draw(VALUES)
        elif change == "remove":
            del parent[last]
        elif change == "double" and isinstance(parent, list):
            parent.insert(last, copy.deepcopy(parent[last]))
        elif change == "rename" and isinstance(parent, dict):
            parent[draw(st.text(max_size=6))] = parent.pop(last)
    return yaml.safe_dump(tree, allow_unicode=True)


def accepted_or_refused(text: str) -> None:
    try:
        configuration = loaded(text).configuration
    except ConfigurationError as error:
        if not error.problems or not all(problem.message for problem in error.problems):
            raise AssertionError("refused without a reason") from error
        return
    assert configuration.actions
    assert all(name in PLUGINS.names() for tier in configuration.tiers for name in [option.name for option in tier])


@given(mutated())
def test_any_mutation_of_a_valid_configuration_is_accepted_or_refused_with_reasons(text: str) -> None:
    accepted_or_refused(text)


@given(st.integers(0, len(GOOD)), st.integers(0, 12), st.text(max_size=6))
def test_any_edit_of_the_text_is_accepted_or_refused_with_reasons(at: int, cut: int, put: str) -> None:
    accepted_or_refused(GOOD[:at] + put + GOOD[at + cut :])


@given(st.text(alphabet=st.sampled_from(list("actions:tierplug-[]{}&*!|>'\"\n\t ,#%?0x\\u")), max_size=60))
def test_any_text_is_accepted_or_refused_with_reasons(text: str) -> None:
    accepted_or_refused(text)
    accepted_or_refused(f"actions: allocate\n{text}")
