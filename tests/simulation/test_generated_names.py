"""Objects that state only how their names begin."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.clusters import Manifest, node, pending, placed, pod, result, stock
from volsched.simulation.documents import Document
from volsched.simulation.generated_names import named


def begun(beginning: Any, kind: str = "Pod", **meta: Any) -> Manifest:
    return {**pod("p"), "kind": kind, "metadata": {"generateName": beginning, **meta}}


def names(*manifests: Manifest) -> list[Any]:
    documents = named([Document("test", f"document {n}", raw) for n, raw in enumerate(manifests)])
    return [document.raw["metadata"].get("name") for document in documents]


def test_a_name_begins_as_it_was_stated_and_is_the_same_each_time() -> None:
    (name,) = names(begun("run-"))
    assert re.fullmatch(r"run-[bcdfghjklmnpqrstvwxz2456789]{5}", name)
    assert names(begun("run-")) == [name]


def test_equal_beginnings_have_different_names_whatever_stands_around_them() -> None:
    first, second = names(begun("run-"), begun("run-"))
    assert first != second
    assert names(node("n"), begun("run-"), pod("x"), begun("run-"))[1::2] == [first, second]


def test_kinds_and_namespaces_are_apart() -> None:
    made = names(begun("run-"), begun("run-", kind="Job"), begun("run-", namespace="team"))
    assert len(set(made)) == 3


def test_a_name_that_somebody_has_is_not_given_again() -> None:
    (taken,) = names(begun("run-"))
    assert names(begun("run-"), {**pod("p"), "metadata": {"name": taken}})[0] != taken


def test_a_name_goes_before_a_beginning_and_a_long_beginning_is_cut() -> None:
    assert names(begun("run-", name="mine")) == ["mine"]
    assert [len(name) for name in names(begun("x" * 100))] == [63]


@pytest.mark.parametrize("beginning", [None, "", 3, ["a"], {}])
def test_what_is_no_beginning_makes_no_name(beginning: Any) -> None:
    assert names(begun(beginning)) == [None]


def test_pods_of_such_names_are_scheduled() -> None:
    found = result(node("n1", cpu=1), begun("run-"), begun("run-"))
    first, second = sorted((*placed(found), *pending(found)))
    assert first != second
    assert len(placed(found)) == 1
    assert [item.metadata.name for item in stock(begun("run-")).objects] == names(begun("run-"))


META = st.dictionaries(
    st.sampled_from(["name", "generateName", "namespace", "labels"]),
    st.none() | st.integers() | st.sampled_from(["a-", "b-", "a-bbbbb", "", "\u00e9"]),
    max_size=3,
)


@given(st.lists(st.tuples(st.sampled_from(["Pod", "Job", None]), META | st.none() | st.integers()), max_size=8))
def test_whatever_is_stated_names_are_made_once_and_nothing_else_changes(given_: list[tuple[Any, Any]]) -> None:
    documents = [Document("t", "d", {"kind": kind, "metadata": meta}) for kind, meta in given_]
    made = named(documents)
    for before, after in zip(documents, made, strict=True):
        if before != after:
            assert {**before.raw["metadata"], "name": after.raw["metadata"]["name"]} == after.raw["metadata"]
    fresh = [
        (after.raw["kind"], str(after.raw["metadata"].get("namespace") or "default"), after.raw["metadata"]["name"])
        for before, after in zip(documents, made, strict=True)
        if before != after
    ]
    assert len(set(fresh)) == len(fresh)
