"""The annotation by which a queue says who may use it: what it means, and that nothing else counts as a permission."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from volsched.model.errors import FieldError
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES, AllowedNamespaces, allowed_in, parse

SPACES = st.sampled_from(["vision", "language", "a", "default", "x" * 63, "team-1"])
KEYS = st.sampled_from(["team", "tier", "example.com/team"])
VALUES = st.sampled_from(["ml", "dev", "", "Blue_1"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)


def lets_in(text: str, namespace: str = "other", **labels: str) -> bool:
    return parse(text).lets_in(namespace, labels)


# -- what it means ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["vision,language", " vision , language\n", '["vision", "language"]'])
def test_names_are_a_list(text: str) -> None:
    found = parse(text)

    assert found.names == {"vision", "language"}
    assert found.lets_in("vision", None)
    assert not found.lets_in("visio", {"team": "vision"})
    assert found.who == "namespaces language, vision"


@pytest.mark.parametrize("text", ["team=ml", "team==ml", " team = ml ", '{"matchLabels": {"team": "ml"}}'])
def test_labels_are_conditions_that_all_hold(text: str) -> None:
    assert lets_in(text, team="ml")
    assert lets_in(text, team="ml", tier="dev")
    assert not lets_in(text, team="mlx")
    assert not lets_in(text)
    assert parse(text).who == "namespaces with labels team=ml"


def test_several_conditions_hold_together() -> None:
    assert lets_in("team=ml, tier!=dev", team="ml")
    assert not lets_in("team=ml, tier!=dev", team="ml", tier="dev")
    assert not lets_in("team=ml, tier!=dev", tier="prod")


def test_a_selector_in_json_has_all_that_selectors_have() -> None:
    selector = {
        "matchExpressions": [
            {"key": "team", "operator": "In", "values": ["ml", "vision"]},
            {"key": "example.com/suspended", "operator": "DoesNotExist"},
        ]
    }

    found = parse(json.dumps(selector))

    assert found.lets_in("x", {"team": "vision"})
    assert not found.lets_in("x", {"team": "vision", "example.com/suspended": ""})
    assert not found.lets_in("x", {"team": "language"})


def test_a_namespace_that_nobody_knows_has_no_labels_to_be_let_in_by() -> None:
    """Not even where a label must be absent."""
    assert not parse("suspended!=yes").lets_in("new", None)
    assert parse("suspended!=yes").lets_in("new", {})


def test_without_the_annotation_there_is_no_rule() -> None:
    assert allowed_in({"other": "x"}) is None


def test_many_names_are_told_shortly() -> None:
    found = parse(",".join(f"team-{number:02}" for number in range(14)))

    assert found.who.startswith("namespaces team-00, team-01, ")
    assert found.who.endswith(" and 4 more")


# -- what is no permission --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "names no namespace; leave the annotation out"),
        (" \n", "names no namespace"),
        ("[]", "names no namespace"),
        ("{}", "is a selector without conditions; leave the annotation out"),
        ('{"matchLabels": {}}', "is a selector without conditions"),
        ("*", "'*' is no name of a namespace"),
        ("vision,", "'' is no name of a namespace"),
        ("vision,,language", "'' is no name of a namespace"),
        ("Vision", "'Vision' is no name of a namespace"),
        ("vision language", "'vision language' is no name of a namespace"),
        ("x" * 64, "is no name of a namespace"),
        ('"vision"', "is no name of a namespace"),
        ("vision, team=ml", "'vision' stands among labels and is no key=value; names and labels do not mix"),
        ("team in (ml)", "is no name of a namespace"),
        ("=ml", "'' is no key of a label"),
        ("team=m l", "'m l' is no value of a label"),
        ("te am=ml", "'te am' is no key of a label"),
        ("/team=ml", "'/team' is no key of a label"),
        ("-x/team=ml", "is no key of a label"),
        ('["vision"', "is no JSON of a list of names"),
        ('["vision", 5]', "is no JSON of a list of names"),
        ('[["vision"]]', "is no JSON of a list of names"),
        ('{"matchLabel": {"team": "ml"}}', "unknown field `matchLabel`"),
        ('{"matchLabels": {"team": 5}}', "is no JSON of a label selector"),
        ('{"matchLabels": null}', "is no JSON of a label selector"),
        ('{"matchLabels": {"te am": "x"}}', "'te am' is no key of a label"),
        ('{"matchExpressions": [{"key": "team", "operator": "in", "values": ["ml"]}]}', "unknown operator 'in'"),
        ('{"matchExpressions": [{"key": "team", "operator": "In"}]}', "must not be empty for operator In"),
        ('{"matchExpressions": [{"key": "team", "operator": "Exists", "values": ["x"]}]}', "must be empty"),
        ('{"matchExpressions": [{"key": "team", "operator": "Gt", "values": ["1"]}]}', "unknown operator 'Gt'"),
        ('{"matchExpressions": [{"key": "team"}]}', "is no JSON of a label selector"),
        ("[" * 5_000, "is no JSON of a list of names"),
        ('{"matchLabels": ' * 5_000, "is no JSON of a label selector"),
    ],
)
def test_what_cannot_be_read_lets_in_nobody_and_says_why(text: str, problem: str) -> None:
    with pytest.raises(FieldError, match="annotations") as refused:
        parse(text)
    found = allowed_in({ALLOWED_NAMESPACES: text})

    assert problem in refused.value.message
    assert found is not None
    assert problem in found.problem
    assert not found.lets_in("vision", {"team": "ml"})
    assert found.who == "nobody"


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | KEYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["matchLabels", "matchExpressions", "key", "operator", "values"]), inner)
    ),
    max_leaves=8,
)
TEXTS = (
    st.text(max_size=40)
    | st.text('ab-,=!{}[]":/ \n', max_size=30)
    | JUNK.map(json.dumps)
    | st.text(st.characters(categories=["Cs", "L"]), max_size=5).map(lambda text: f'["{text}"]')
)


@given(TEXTS, SPACES, LABELS)
@example('["\ud800"]', "a", {})
@example('{"matchLabels": {"team": "\ud800"}}', "a", {})
@example("٣", "a", {})
def test_any_text_is_read_or_lets_in_nobody(text: str, namespace: str, labels: dict[str, str]) -> None:
    found = allowed_in({ALLOWED_NAMESPACES: text})

    assert found is not None
    if found.problem:
        assert (found.lets_in(namespace, labels), len(found.problem)) == (False, min(len(found.problem), 300))
    elif found.names:
        assert found.lets_in(namespace, labels) == (namespace in found.names)
        assert all(name in text for name in found.names), "nobody is let in who is not named"
    else:
        assert any(key in text for key in list(found.selector.keys())), "labels are asked for that are named"
    assert found.who


@given(st.lists(SPACES, min_size=1, max_size=4), SPACES, st.booleans())
def test_a_list_lets_in_whom_it_names_and_nobody_else(names: list[str], namespace: str, as_json: bool) -> None:
    found = parse(json.dumps(names) if as_json else ", ".join(names))

    assert found == AllowedNamespaces(names=frozenset(names))
    assert found.lets_in(namespace, None) == (namespace in names)


@given(st.dictionaries(KEYS, VALUES, min_size=1), LABELS, st.booleans())
def test_labels_let_in_whoever_has_them_all(wanted: dict[str, str], labels: dict[str, str], as_json: bool) -> None:
    text = json.dumps({"matchLabels": wanted}) if as_json else ",".join(f"{k}={v}" for k, v in wanted.items())

    assert parse(text).lets_in("x", labels) == all(labels.get(key) == value for key, value in wanted.items())
