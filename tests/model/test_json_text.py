"""JSON of any depth is decoded, and nothing that was cut away is taken for what somebody wrote."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.errors import FieldError, ObjectError
from volsched.model.values.json_text import MOST_LEVELS, cut, decode

TEXTS = st.text('ab"\\[]{}:,é\n', max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
HOSTILE_LEVELS = 10_000
"""As many as the API server takes."""


def nested(levels: int, *, kind: str = "[") -> str:
    """A value of so many lists, or objects, inside one another."""
    opening, closing = ("[", "]") if kind == "[" else ('{"a":', "}")
    return opening * levels + ("1" if kind == "{" else "") + closing * levels


def with_depth(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


@given(VALUES)
def test_a_text_of_usual_depth_is_not_cut(value: Any) -> None:
    text = json.dumps(value).encode()
    assert cut(text) == text
    assert decode(text) == value


@given(VALUES, VALUES)
def test_what_is_beside_a_deep_value_stays(before: Any, after: Any) -> None:
    text = f'{{"before": {json.dumps(before)}, "deep": {nested(HOSTILE_LEVELS)}, "after": {json.dumps(after)}}}'

    found = decode(text)

    assert (found["before"], found["after"]) == (before, after)


@pytest.mark.parametrize("kind", ["[", "{"])
def test_objects_that_the_api_server_takes_are_decoded(kind: str) -> None:
    policy = f'{{"name": "s", "deep": {nested(9_000, kind=kind)}}}'
    text = f'{{"metadata": {{"name": "a"}}, "spec": {{"queue": "q", "subGroupPolicy": [{policy}]}}}}'

    group = api.decode_text(api.PodGroup, text.encode())

    assert (group.key, group.spec.queue, group.spec.sub_group_policy[0].name) == ("a", "q", "s")


def test_a_field_that_is_read_and_nested_too_deep_is_refused_and_not_cut_silently() -> None:
    text = f'{{"devices": {{"config": [{{"opaque": {{"driver": "d", "parameters": {nested(2_000)}}}}}]}}}}'

    with pytest.raises(FieldError, match="spec: is nested deeper than 64 levels"):
        dra.parsed(decode(text), dra.ResourceClaimSpec)


@pytest.mark.parametrize("levels", [MOST_LEVELS - 1, MOST_LEVELS, 2 * MOST_LEVELS, 900])
def test_one_limit_holds_for_what_is_looked_at_whether_a_decoder_could_read_it_or_not(levels: int) -> None:
    raw = {"metadata": {"name": "a", "namespace": "n"}, "spec": with_depth(1, levels)}
    if levels + 1 > MOST_LEVELS:
        with pytest.raises(ObjectError, match="is nested deeper than 64 levels"):
            api.decode_as(Odd, raw)
    else:
        assert api.decode_as(Odd, raw).spec == raw["spec"]


class Odd(api.ApiObject, frozen=True):
    spec: Any = None


def test_an_unreadable_text_is_an_error_of_its_object() -> None:
    for text in (b"", b"{", b"[]", b'{"metadata": 5}', b"\xff", b'{"metadata": {"name": "\xff"}}'):
        with pytest.raises(ObjectError):
            api.decode_text(api.Pod, text)


def test_nulls_of_an_answer_count_as_absent() -> None:
    assert api.decode_text(api.PodGroup, b'{"metadata": {"name": "a", "labels": null}, "spec": null}').key == "a"


def test_texts_with_brackets_and_escapes_are_no_levels() -> None:
    text = json.dumps({"a": "[" * 5_000, "b": '\\"[{' * 100, "c": [1]}).encode()
    assert cut(text) == text


def test_a_broken_text_is_told_as_such() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(nested(5_000)[:-1])


@pytest.mark.parametrize("text", ['{"a": "' + "[" * 4_000, '"' + "[" * 4_000, nested(4_000)[:-9] + '"'])
def test_what_is_malformed_and_deep_is_refused_as_what_is_malformed(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(text)


def test_an_object_of_another_type_in_malformed_json_is_no_json() -> None:
    with pytest.raises(ObjectError, match="is not JSON"):
        api.decode_text(api.Pod, b'{"spec": 5, "status": oops}')
