"""Texts of manifests: a key that is given twice is told with its place, and the last value counts."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from volsched.simulation import yaml_texts
from volsched.simulation.documents import InputError, documents_in
from volsched.simulation.manifests import read_inventory
from volsched.simulation.yaml_texts import parsed


def read(text: str) -> tuple[Any, list[tuple[str, int]]]:
    ((value, twice),) = parsed(text)
    return value, [(found.field, found.line) for found in twice]


@pytest.mark.parametrize(
    ("text", "value", "twice"),
    [
        ("a: 1\nb: 2\n", {"a": 1, "b": 2}, []),
        ("a: 1\na: 2\n", {"a": 2}, [("a", 2)]),
        ("a: 1\na: 2\na: 3\n", {"a": 3}, [("a", 2), ("a", 3)]),
        ("a: {b: [{c: 1, c: 2}]}\n", {"a": {"b": [{"c": 2}]}}, [("a.b[0].c", 1)]),
        ("x: {a.b/c: 1,\n a.b/c: 2}\n", {"x": {"a.b/c": 2}}, [("x[a.b/c]", 2)]),
        ("b: {d: 1, d: 2}\na: 1\na: 2\n", {"a": 2, "b": {"d": 2}}, [("a", 3), ("b.d", 1)]),
        ('{"a": 1, "a": 2}', {"a": 2}, [("a", 0)]),
        ('{"a": {"b": 1, "c": 0, "b": 2}, "d": [{}, {"e": 1, "e": {}}]}', None, [("a.b", 0), ("d[1].e", 0)]),
        ('{"a": {"b": 1, "b": 2}, "a": {"c": 1}}', {"a": {"c": 1}}, [("a", 0)]),
    ],
)
def test_a_key_that_is_given_twice_is_told_with_its_place(text: str, value: Any, twice: list[tuple[str, int]]) -> None:
    found = read(text)
    assert found[1] == twice
    assert value is None or found[0] == value


@pytest.mark.parametrize(
    "text",
    [
        "base: &b {k: 1}\nmine: {<<: *b, k: 2}\n",
        "x: {y: {z: &z {<<: &b {k: 1}, k: 2}}}\nw: {<<: *z, k: 3}\n",
        "a: &a {k: 1}\nb: &b {k: 2}\nc: {<<: [*a, *b]}\n",
    ],
)
def test_a_key_that_overrides_a_merged_one_is_not_given_twice(text: str) -> None:
    assert read(text)[1] == []


def test_a_mapping_with_many_names_is_told_of_once() -> None:
    assert read("a: &a {k: 1, k: 2}\nb: *a\nc: [*a]\n")[1] == [("a.k", 1)]


def test_each_item_of_a_list_has_its_own() -> None:
    text = (
        "apiVersion: v1\nkind: List\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n"
        "- {apiVersion: v1, kind: Namespace, metadata: {name: x, name: b}}\n"
    )
    stock = read_inventory(documents_in("test", text))
    assert [str(doubt) for doubt in stock.doubts] == [
        "test: document 1, item 1: Namespace/a: kind: is given twice, again in line 3; the last value counts",
        "test: document 1, item 2: Namespace/b: metadata.name: is given twice, again in line 6; the last value counts",
    ]
    assert [found.metadata.name for found in stock.objects] == ["a", "b"]


TEXTS = st.text("ab1 :-{\u00e9\u4e2d", max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_what_has_no_key_twice_is_read_as_it_is(value: Any) -> None:
    for text in (json.dumps(value), yaml.safe_dump(value, allow_unicode=True)):
        found = list(parsed(text))
        assert [each.twice for each in found] == [()]
        assert found[0].value == value


@given(VALUES, VALUES, st.text("abc", min_size=1, max_size=3))
def test_of_two_values_the_last_counts_in_both_notations(first: Any, last: Any, key: str) -> None:
    name, before, after = (json.dumps(part) for part in (key, first, last))
    text = f"{{{name}: {before}, {name}: {after}}}"
    for written in (text, f"# as YAML\n{text}"):
        value, twice = read(written)
        assert value == {key: last}
        assert (key, 2 if written != text else 0) in twice


@given(st.text(alphabet=st.sampled_from(list("abk:-[]{}&*!<|>'\"\n ,#?")), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        documents = list(parsed(text))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return
    assert all(found.line >= 0 and found.field for document in documents for found in document.twice)


# --- documents of JSON, one after the other ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1}{"a": 2}', [{"a": 1}, {"a": 2}]),
        ('{\n\t"a": 1\n}\n{\n\t"a": 2\n}\n', [{"a": 1}, {"a": 2}]),
        ('{"a": 1}\n{"a": 2}\n{"a": 3}', [{"a": 1}, {"a": 2}, {"a": 3}]),
        ('---\n{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ('{"a": 1}\n---\n{"a": 2}{"a": 3}\n---\na: 4\n---\na: 5\n', [{"a": n} for n in range(1, 6)]),
        ('{"a": 1}\n---\n{a: 2}\n', [{"a": 1}, {"a": 2}]),
        ('{"a": "---"} # JSON in YAML\n', [{"a": "---"}]),
        ('[{"a": 1}][]', [[{"a": 1}], []]),
        ('{a: 1}\n---\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
    ],
)
def test_documents_of_json_need_nothing_between_them(text: str, values: list[Any]) -> None:
    assert [found.value for found in parsed(text)] == values


def test_what_is_given_twice_behind_json_has_its_line_in_the_whole_text() -> None:
    *_, last = parsed('{"a": 1}\n{"a": 2}\n---\nb: 1\nb: 2\n')

    assert [(found.field, found.line) for found in last.twice] == [("b", 5)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1}\n{"a": ', "cannot be read: Expecting value: line 2"),
        ('{"a": 1}\n{"a": 2}\n}', "line 3: is not YAML"),
        ('{"a": 1, ]}', "line 1: is not YAML"),
    ],
)
def test_broken_json_is_told_with_its_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        documents_in("test", text)


@pytest.mark.parametrize("number", ["3.0", "-3.0", "0.0", "3.25", "1.0e+20"])
def test_a_number_without_a_fraction_is_a_whole_one(number: str) -> None:
    for text in (f"a: {number}", f'{{"a": {number}}}'):
        [found] = parsed(text)
        assert found.value["a"] == float(number)
        assert isinstance(found.value["a"], int) is (number.endswith(".0"))


TEN = ", ".join(["*{0}"] * 10)
MERGED = "- &{1} {{<<: [" + TEN + "]}}\n"
LISTED = "- &{1} [" + TEN + "]\n"


@pytest.mark.parametrize("level", [LISTED, MERGED], ids=["lists", "merged"])
def test_aliases_that_make_far_more_than_is_written_are_refused_before_it_is_made(level: str) -> None:
    letters = "abcdefghijklmnop"
    text = "- &a {k: v}\n" + "".join(level.format(*pair) for pair in itertools.pairwise(letters))
    with pytest.raises(yaml.YAMLError, match="aliases that make far more"):
        list(parsed(text))


@pytest.mark.parametrize("alias", ["[*a]", "{k: *a}", '{"k":*a}', "[x,*a]", "{*a : x}", "- *a", "? *a"])
@pytest.mark.parametrize("anchor", ["- &a", "-  ! &a", "- [&a", "- {x: &a", '- {"x":&a', "- [x,&a", "- {&a"])
def test_every_way_to_write_an_alias_is_counted(anchor: str, alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[yaml.Node] = []
    monkeypatch.setattr(yaml_texts, "_check_aliases", counted.append)
    closed = {"[": "]", "{": "}"}.get(anchor.partition("&")[0].strip('- x:,"')[:1], "")
    text = f"{anchor} b{closed}\n- {alias}\n"

    assert list(yaml.compose_all(text, yaml.SafeLoader))
    with suppress(yaml.YAMLError):  # not every one can be a key
        list(parsed(text))
    assert counted


def test_signs_in_scripts_and_times_are_no_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting takes as long as half of reading, and much of what charts write has such signs."""
    monkeypatch.setattr(yaml_texts, "_check_aliases", None)
    text = "schedule: '*/5 * * * *'\ncommand: |\n  a && b & c\n  ls *.yaml **/x\nimage: a*b&c\n"

    [document] = parsed(text)

    assert document.value == yaml.safe_load(text)


@pytest.mark.parametrize("before", ["", "\n", "---\n", " \n\n", "# a word\n", '{"x": 1}\n---\n'])
def test_a_document_whose_lines_all_begin_further_in_is_read(before: str) -> None:
    *_, document = parsed(f"{before}  a: 1\n  b: 2\n  b: 3\n")

    assert document.value == {"a": 1, "b": 3}
    assert [found.line for found in document.twice] == [before.count("\n") + 3]


def test_anchors_aliases_and_merge_keys_are_read_as_written() -> None:
    """As charts and hand-written manifests have them."""
    text = """
      shared: &common {labels: &labels {app: web, tier: front}, resources: &amounts {requests: {cpu: 100m}}}
      items:
      - &base
        kind: Pod
        metadata: {name: a, labels: *labels}
        spec: &spec {containers: [{name: main, resources: *amounts}]}
      - <<: *base
        metadata: {name: b, labels: {<<: *labels, extra: "1"}}
      - <<: [*base, *common]
        metadata: {name: c}
        spec: {<<: *spec, schedulerName: volsched}
    """

    [document] = parsed(text)

    assert document.value == yaml.safe_load(text)
    assert document.twice == ()
    assert document.value["items"][1]["metadata"]["labels"] == {"app": "web", "tier": "front", "extra": "1"}


def test_aliases_that_repeat_what_is_written_some_times_are_read() -> None:
    written = ", ".join(f"k{number}: {number}" for number in range(500))
    text = f"- &a {{{written}}}\n" + "- *a\n" * 50
    [document] = parsed(text)
    assert [len(each) for each in document.value] == [500] * 51
    assert list(parsed("&a [*a]"))


@pytest.mark.parametrize(
    "text", ["a: " + "[" * 100_000, "- " * 5_000 + "a", "? " * 5_000 + "a"], ids=["flow", "block", "keys"]
)
def test_a_document_that_is_nested_very_deep_is_refused_and_ends_no_process(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="nested deeper than 500 levels"):
        list(parsed(text))
    assert list(parsed("[" * 400 + "]" * 400 + "\n---\n" + "- " * 400 + "a\n"))


def test_a_number_that_python_does_not_write_is_refused() -> None:
    with pytest.raises(yaml.YAMLError, match="too many digits"):
        list(parsed("a: 0x" + "f" * 10_000))
    assert next(parsed("a: 0xff")).value == {"a": 255}
