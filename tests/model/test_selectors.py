from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.model import api
from volsched.model.errors import FieldError
from volsched.model.selectors import EVERYTHING, NOTHING, LabelSelector, NodeSelector, NodeTerm, int64


def expression(key: str, operator: str, *values: str) -> api.LabelSelectorRequirement:
    return api.LabelSelectorRequirement(key, operator, values)


def selector(*expressions: api.LabelSelectorRequirement, **labels: str) -> LabelSelector:
    return LabelSelector.parse(api.LabelSelector(labels, expressions))


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert LabelSelector.parse(None) is NOTHING
    assert not NOTHING.matches({})
    assert selector() == EVERYTHING
    assert EVERYTHING.matches({})
    assert EVERYTHING.matches({"a": "b"})
    assert EVERYTHING.is_empty
    assert not NOTHING.is_empty


@pytest.mark.parametrize(
    ("operator", "values", "absent", "one", "two"),
    [
        ("In", ("1",), False, True, False),
        ("In", ("1", "2"), False, True, True),
        ("NotIn", ("1",), True, False, True),
        ("NotIn", ("1", "2"), True, False, False),
        ("Exists", (), False, True, True),
        ("DoesNotExist", (), True, False, False),
    ],
)
def test_label_operators(operator: str, values: tuple[str, ...], absent: bool, one: bool, two: bool) -> None:
    found = selector(expression("k", operator, *values))

    assert [found.matches(labels) for labels in ({}, {"k": "1"}, {"k": "2"})] == [absent, one, two]


def test_all_conditions_must_hold() -> None:
    found = selector(expression("tier", "In", "web", "db"), expression("old", "DoesNotExist"), app="x")

    assert found.matches({"app": "x", "tier": "db"})
    assert not found.matches({"app": "y", "tier": "db"})
    assert not found.matches({"app": "x", "tier": "cache"})
    assert not found.matches({"app": "x", "tier": "db", "old": ""})


def test_equal_selectors_are_equal_however_they_are_written() -> None:
    one = selector(expression("b", "In", "2", "1", "2"), expression("a", "In", "x"))
    other = selector(expression("b", "In", "1", "2"), a="x")

    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == "a=x, b In (1, 2)"
    assert list(one.keys()) == ["a", "b"]
    assert (str(EVERYTHING), str(NOTHING)) == ("<everything>", "<nothing>")


def test_contradicting_conditions_match_nothing() -> None:
    assert not selector(expression("a", "In", "y"), a="x").matches({"a": "x"})


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        (expression("k", "Near", "1"), "labelSelector.matchExpressions[1].operator"),
        (expression("k", "Gt", "1"), "labelSelector.matchExpressions[1].operator"),
        (expression("k", ""), "labelSelector.matchExpressions[1].operator"),
        (expression("k", "In"), "labelSelector.matchExpressions[1].values"),
        (expression("k", "Exists", "1"), "labelSelector.matchExpressions[1].values"),
    ],
)
def test_what_is_not_understood_is_named(bad: api.LabelSelectorRequirement, path: str) -> None:
    with pytest.raises(FieldError) as caught:
        selector(expression("a", "Exists"), bad)

    assert caught.value.path == path


class TestLabelKeys:
    labels: ClassVar = {"hash": "abc", "app": "x"}

    def test_own_values_are_merged_in(self) -> None:
        found = selector(app="x").with_label_keys(self.labels, ["hash"], ["zone", "app"])

        assert found == selector(expression("app", "NotIn", "x"), app="x", hash="abc")

    def test_doing_it_twice_changes_nothing(self) -> None:
        once = selector(app="x").with_label_keys(self.labels, ["hash"], ["app"])

        assert once.with_label_keys(self.labels, ["hash"], ["app"]) == once

    def test_what_was_merged_at_admission_outlives_a_change_of_labels(self) -> None:
        once = selector(app="x").with_label_keys(self.labels, ["hash"])

        assert once.with_label_keys({"hash": "other"}, ["hash"]) == once

    def test_a_selector_that_matches_nothing_stays_so(self) -> None:
        assert NOTHING.with_label_keys(self.labels, ["hash"]) is NOTHING


def term(*expressions: api.LabelSelectorRequirement, fields: Any = ()) -> NodeTerm:
    return NodeTerm.parse(api.NodeSelectorTerm(expressions, tuple(fields)))


@pytest.mark.parametrize(
    ("operator", "bound", "value", "matches"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "4", True),
        ("Lt", "5", "+4", True),
        ("Lt", "5", "-9223372036854775808", True),
        ("Lt", "5", "-9223372036854775809", False),
        ("Gt", "5", "6.0", False),
        ("Gt", "5", " 6", False),
        ("Gt", "5", "6_0", False),
        ("Gt", "5", "٦", False),
        ("Gt", "5", "", False),
    ],
)
def test_numbers_compare_as_64_bit_integers(operator: str, bound: str, value: str, matches: bool) -> None:
    found = term(expression("k", operator, bound))

    assert found.matches("n", {"k": value}) is matches
    assert not found.matches("n", {})


def test_a_node_may_be_meant_by_its_name() -> None:
    found = term(fields=[expression("metadata.name", "In", "n1")])

    assert found.matches("n1", {})
    assert not found.matches("n2", {})
    assert term(fields=[expression("metadata.name", "NotIn", "n1")]).matches("n2", {})
    assert not term(fields=[expression("metadata.name", "NotIn", "n1")]).matches("n1", {})


def test_a_term_without_conditions_matches_no_node() -> None:
    assert not term().matches("n1", {})
    assert str(term()) == "<nothing>"


def test_a_term_reads_well() -> None:
    found = term(
        expression("a", "Gt", "3"),
        expression("b", "Exists"),
        fields=[expression("metadata.name", "In", "n1"), expression("metadata.name", "NotIn", "n2")],
    )

    assert str(found) == "a Gt 3, b Exists, name=n1, name!=n2"


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        ({"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["x"]}]}, "matchExpressions[0].values"),
        ({"matchExpressions": [{"key": "k", "operator": "Lt", "values": ["1", "2"]}]}, "matchExpressions[0].values"),
        ({"matchExpressions": [{"key": "k", "operator": "Like"}]}, "matchExpressions[0].operator"),
        ({"matchFields": [{"key": "k", "operator": "In", "values": ["n"]}]}, "matchFields[0].key"),
        ({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}, "matchFields[0].operator"),
        (
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
            "matchFields[0].values",
        ),
    ],
)
def test_a_bad_node_term_is_named(bad: dict[str, Any], path: str) -> None:
    parsed = api.decode_as(
        api.Pod,
        {
            "spec": {
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}, bad]}}
                }
            }
        },
    )
    affinity = parsed.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None

    with pytest.raises(FieldError) as caught:
        NodeSelector.parse(affinity.node_affinity.required, path="required")

    assert caught.value.path == f"required.nodeSelectorTerms[1].{path}"


def test_a_node_selector_needs_all_labels_and_one_term() -> None:
    terms = api.NodeSelector(
        (
            api.NodeSelectorTerm((expression("zone", "In", "a"),)),
            api.NodeSelectorTerm((expression("zone", "In", "b"), expression("gpu", "Exists"))),
        )
    )
    found = NodeSelector.parse(terms, {"disk": "ssd"})

    assert found.matches("n", {"disk": "ssd", "zone": "a"})
    assert found.matches("n", {"disk": "ssd", "zone": "b", "gpu": ""})
    assert not found.matches("n", {"disk": "ssd", "zone": "b"})
    assert not found.matches("n", {"zone": "a"})
    assert set(found.keys()) == {"disk", "zone", "gpu"}


def test_a_required_affinity_without_terms_matches_no_node() -> None:
    assert not NodeSelector.parse(api.NodeSelector()).matches("n", {})
    assert NodeSelector.parse(None).matches("n", {})
    assert NodeSelector.parse(None).is_empty


@given(st.integers(min_value=-(2**64), max_value=2**64))
def test_integers_outside_64_bits_are_none(number: int) -> None:
    assert int64(str(number)) == (number if -(2**63) <= number < 2**63 else None)


@given(st.text(max_size=30))
def test_int64_never_raises(text: str) -> None:
    assert int64(text) is None or int(text) == int64(text)
