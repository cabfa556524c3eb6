"""Schemas of arguments: what counts as a value, and what is said of what does not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.framework.config.arguments import Argument, check, values_of
from volsched.model.errors import ConfigError
from volsched.model.selectors import EVERYTHING, LabelSelector

SCHEMA = (
    Argument("on", "bool", False, "A switch."),
    Argument("count", "int", 3, "A number.", minimum=0, maximum=10),
    Argument("share", "float", 0.5, "A part.", maximum=1),
    Argument("mode", "str", "spread", "A mode.", choices=("spread", "pack")),
    Argument("resources", "names", (), "Names."),
    Argument("resources.*", "int", 1, "A weight each."),
    Argument("pairs", "mappings", (), "Pairs.", fields=("from", "to")),
)


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("on", True, True),
        ("on", "true", True),
        ("on", "False", False),
        ("count", 7, 7),
        ("count", "7", 7),
        ("count", " 7 ", 7),
        ("share", 1, 1.0),
        ("share", "0.25", 0.25),
        ("share", "1e-2", 0.01),
        ("mode", "pack", "pack"),
        ("resources", "a, b,,c", ("a", "b", "c")),
        ("resources", ["a", "b"], ("a", "b")),
        ("resources.nvidia.com/gpu", "5", 5),
        ("pairs", [{"from": "a", "to": "b"}, {"to": "c"}], ({"from": "a", "to": "b"}, {"to": "c"})),
        ("pairs", [], ()),
    ],
)
def test_a_value_counts_in_its_type_or_as_a_text_that_is_one(key: str, given: Any, value: Any) -> None:
    assert values_of("plugin x", SCHEMA, {key: given})[key] == value


def test_what_is_not_given_has_its_default_and_a_family_has_none() -> None:
    assert values_of("plugin x", SCHEMA, {}) == {
        "on": False,
        "count": 3,
        "share": 0.5,
        "mode": "spread",
        "resources": (),
        "pairs": (),
    }


def test_what_was_checked_once_passes_again_unchanged() -> None:
    given = {"resources": "a,b", "resources.a": 4, "share": 1, "pairs": [{"from": "a"}]}
    once = values_of("plugin x", SCHEMA, given)
    assert values_of("plugin x", SCHEMA, once) == once


@pytest.mark.parametrize(
    ("key", "given", "said"),
    [
        ("on", "yes", 'on of plugin x must be true or false, not the text "yes"'),
        ("on", 1, "on of plugin x must be true or false, not 1"),
        ("count", True, "count of plugin x must be a whole number, not true"),
        ("count", 1.5, "count of plugin x must be a whole number, not 1.5"),
        ("count", "1_0", 'count of plugin x must be a whole number, not the text "1_0"'),
        ("count", None, "count of plugin x must be a whole number, not nothing"),
        ("count", 10**400, "count of plugin x must be a whole number, not a very large number"),
        ("count", 11, "count of plugin x must be from 0 to 10, not 11"),
        ("share", 2, "share of plugin x must be at most 1, not 2"),
        ("share", "nan", 'share of plugin x must be a number, not the text "nan"'),
        ("share", float("inf"), "share of plugin x must be a number, not inf"),
        ("mode", "spraed", 'one of spread, pack, not the text "spraed"; did you mean spread?'),
        ("mode", {}, "mode of plugin x must be a text, not a mapping"),
        ("resources", [1], "a list of names, or one text with commas between them, not a list"),
        ("resources.a", "x", 'resources.a of plugin x must be a whole number, not the text "x"'),
        ("cuont", 1, "plugin x has no argument cuont; did you mean count?"),
        ("zzz", 1, "plugin x has no argument zzz; it has on, count, share, mode, resources, resources.*"),
        ("resources.", 1, "plugin x has no argument resources.; put a name behind it"),
        ("resourecs.nvidia.com/gpu", 1, "no argument resourecs.nvidia.com/gpu; did you mean resources.nvidia.com/gpu?"),
        ("Resources.a", 1, "plugin x has no argument Resources.a; did you mean resources.a?"),
        ("resourcs", "a", "plugin x has no argument resourcs; did you mean resources?"),
        ("zzz.a", 1, "plugin x has no argument zzz.a; it has on, count, share, mode, resources, resources.*"),
    ],
)
def test_anything_else_is_a_problem_that_names_the_key(key: str, given: Any, said: str) -> None:
    checked = check("plugin x", SCHEMA, {key: given})
    (problem,) = checked.problems
    assert problem.key == key
    assert said in problem.message
    assert key not in checked.values or checked.values[key] in (False, 3, 0.5, "spread", ())


def test_every_problem_is_found_and_the_good_values_are_kept() -> None:
    checked = check("plugin x", SCHEMA, {"on": "?", "count": 4, "share": []})
    assert [problem.key for problem in checked.problems] == ["on", "share"]
    assert checked.values["count"] == 4


def test_a_plugin_that_is_built_by_hand_hears_of_the_first_problem() -> None:
    with pytest.raises(ConfigError, match=r"arguments\.count"):
        values_of("plugin x", SCHEMA, {"count": "many"})


def test_a_plugin_without_arguments_says_so() -> None:
    (problem,) = check("plugin gang", (), {"size": 1}).problems
    assert problem.message == "plugin gang takes no arguments, not even size"


def test_a_bare_number_does_not_count_when_it_is_quoted() -> None:
    schema = (Argument("weight", "float", 1.0, "A number.", lenient=True, bare=True),)

    quoted = check("plugin x", schema, {"weight": "2.0"})

    assert check("plugin x", schema, {"weight": 2}).values == {"weight": 2.0}
    assert quoted.values == {"weight": 1.0}
    assert [(problem.severity, problem.message) for problem in quoted.problems] == [
        ("warning", 'weight of plugin x must be a number, not the text "2.0"; it counts as not given')
    ]


AMOUNTS = (
    Argument("quota.*", "quantity", None, "An amount each.", lenient=True),
    Argument("part.*", "percentage", None, "A part each."),
    Argument("after", "duration", 60.0, "How long."),
    Argument("who", "selector", EVERYTHING, "Whom it concerns."),
    Argument("curve", "shape", (), "How much is best."),
)


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("quota.cpu", 32, "32"),
        ("quota.cpu", 1.5, "1.5"),
        ("quota.cpu", " 500m ", "500m"),
        ("quota.cpu", "0", "0"),
        ("part.cpu", 50, Fraction(50)),
        ("part.cpu", 32.3, Fraction(323, 10)),
        ("part.cpu", " 60 ", Fraction(60)),
        ("part.cpu", "100", Fraction(100)),
        ("after", "1m30s", 90.0),
        ("after", "0", 0.0),
        ("after", 15, 15.0),
        ("who", {}, EVERYTHING),
        ("who", {"matchLabels": {"a": "b"}}, LabelSelector.of({"a": "b"})),
        ("curve", [], ()),
        ("curve", [{"utilization": 0, "score": "10"}, {"score": 0, "utilization": 100}], ((0, 10), (100, 0))),
    ],
)
def test_amounts_parts_durations_and_selectors_come_out_exact(key: str, given: Any, value: Any) -> None:
    once = values_of("plugin x", AMOUNTS, {key: given})

    assert once[key] == value
    assert values_of("plugin x", AMOUNTS, once) == once


@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        "0:10",
        [1],
        [[0, 10]],
        [{"utilization": 0}],
        [{"utilization": 0, "score": 0, "more": 1}],
        [{"utilization": 101, "score": 0}],
        [{"utilization": 0, "score": 11}],
        [{"utilization": -1, "score": True}],
    ],
)
def test_a_shape_is_a_list_of_points(given: Any) -> None:
    with pytest.raises(ConfigError, match="must be a list of points, each with a utilization from 0 to 100 and"):
        values_of("plugin x", AMOUNTS, {"curve": given})


@pytest.mark.parametrize("given", [True, None, "", "six", "-1", -1, float("nan"), float("inf"), "1 Gi", [], {}])
def test_what_is_lenient_is_warned_of_and_left_out(given: Any) -> None:
    checked = check("plugin x", AMOUNTS, {"quota.cpu": given})

    assert "quota.cpu" not in checked.values
    (problem,) = checked.problems
    assert problem.severity == "warning"
    assert problem.message.startswith("quota.cpu of plugin x must be a quantity that is not negative, as 500m, 32 or ")
    assert problem.message.endswith("; it counts as not given")


@pytest.mark.parametrize(
    "given", [0, "0", 100.1, "101", -1, "50%", "", "5_0", "1e999", True, None, float("nan"), "\u0665"]
)
def test_a_part_is_above_nothing_and_at_most_the_whole(given: Any) -> None:
    with pytest.raises(ConfigError, match="must be a number above 0 and at most 100, without %, not"):
        values_of("plugin x", AMOUNTS, {"part.cpu": given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a=b", 'must be a mapping with matchLabels, matchExpressions or both, not the text "a=b"'),
        ({"matchlabels": {}}, "has no key matchlabels; did you mean matchLabels?"),
        ({"matchLabels": {"a": True}}, "is no selector: matchLabels[a]: Expected `str`, got `bool`"),
        ({"matchLabels": {"": "b"}}, "the key of a label must not be empty"),
        (
            {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]},
            "is no selector: matchExpressions[0].operator: unknown operator 'in'",
        ),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "matchExpressions[0].values: must not be empty"),
    ],
)
def test_a_selector_that_cannot_be_understood_says_where(given: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        values_of("plugin x", AMOUNTS, {"who": given})

    assert said in refused.value.message


KEYS = ("matchLabels", "matchExpressions", "key", "operator", "values", "x")
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
)


@given(ANYTHING)
def test_any_value_is_read_or_refused_with_a_message(value: Any) -> None:
    for key in ("quota.cpu", "part.cpu", "who"):
        checked = check("plugin x", AMOUNTS, {key: value})

        assert (key in checked.values and checked.values[key] is not EVERYTHING) or checked.problems or value == {}
        assert all(problem.message.startswith(f"{key} of plugin x ") for problem in checked.problems)


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({"from": "a"}, "pairs", "must be a list of mappings with from, to, not a mapping"),
        (["a"], "pairs[0]", 'must be a mapping, not the text "a"'),
        ([{}, {"form": "a"}], "pairs[1].form", "is no field of an entry; did you mean from?"),
        ([{"xyz": "a"}], "pairs[0].xyz", "is no field of an entry; there are from, to"),
        ([{"to": 3}], "pairs[0].to", "must be a text, not 3; put it into quotes"),
        ([{"to": ["a"]}], "pairs[0].to", "must be a text, not a list"),
    ],
)
def test_what_is_wrong_inside_a_list_of_mappings_is_told_with_its_place(given: Any, path: str, words: str) -> None:
    [problem] = check("plugin x", SCHEMA, {"pairs": given}).problems

    assert (problem.key, problem.path) == ("pairs", path)
    assert problem.message == f"{path} of plugin x {words}"
    with pytest.raises(ConfigError, match="pairs"):
        values_of("plugin x", SCHEMA, {"pairs": given})
