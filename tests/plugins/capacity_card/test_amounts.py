"""Annotations of queues, jobs and pods: exact amounts or errors with their field, never an exception."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.capacity_card.quotas.quota import quota_of
from plugins.capacity_card.requests.requests import (
    CARD_NAME,
    CARD_REQUEST,
    CardRequest,
    card_names_of,
    card_request_of,
    job_request_of,
)
from volsched.model.cards.amounts import names_in
from volsched.model.cards.names import CARD_QUOTA
from volsched.model.errors import FieldError
from volsched.model.values.quantity import MAX_AMOUNT

GPU = "nvidia.com/gpu"
A, H = "NVIDIA-A100", "NVIDIA-H100"
RESOURCES = {A: GPU, H: GPU, f"{A}/mps-80g*1/8": "nvidia.com/gpu.shared"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"NVIDIA-GTX-4090": 2}', {"NVIDIA-GTX-4090": 2000}),
        ("", {}),
        (" \n", {}),
        ("null", {}),
        ("{}", {}),
        ('{"NVIDIA-GTX-4090": 0}', {"NVIDIA-GTX-4090": 0}),
        ('{"A": 1, "A": 2}', {"A": 2000}),
        ('{" A ": 1}', {"A": 1000}),
        (
            '{\n  "NVIDIA-A100": 10,\n  "NVIDIA-H100": 5,\n  "NVIDIA-A100/mps-80g*1/8": 16\n}\n',
            {"NVIDIA-A100": 10_000, "NVIDIA-H100": 5000, "NVIDIA-A100/mps-80g*1/8": 16_000},
        ),
        ('{"A": 99999999999999999999999999}', {"A": MAX_AMOUNT // 1000 * 1000}),
    ],
)
def test_a_good_quota_is_read_whole(text: str, expected: dict[str, int]) -> None:
    quota = quota_of({CARD_QUOTA: text})

    assert (quota.cards, quota.errors) == (expected, ())


def test_a_queue_without_the_annotation_has_no_quotas() -> None:
    assert quota_of({}).cards == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"NVIDIA-GTX-4090": 2', "is not JSON at line 1 column"),
        ("2", "must be a JSON object of cards"),
        ('["NVIDIA-A100"]', 'must be a JSON object of cards, as {"NVIDIA-A100": 8}, not a list'),
        ('"NVIDIA-A100"', "must be a JSON object"),
        ("[" * 100_000, "is not JSON"),
        ("{'A': 1}", "is not JSON"),
    ],
)
def test_a_text_that_is_no_object_makes_all_quotas_zero(text: str, words: str) -> None:
    quota = quota_of({CARD_QUOTA: text})

    assert quota.cards == {}
    (error,) = quota.errors
    assert error.path == "metadata.annotations[volcano.sh/card.quota]"
    assert words in error.message


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("-1", "must not be negative (-1)"),
        ("1.5", "must be a whole number of cards, not 1.5"),
        ("2.0", "must be a whole number of cards, not 2.0"),
        ("1e3", "must be a whole number of cards, not 1000.0"),
        ('"2"', 'must be a whole number of cards, not "2"'),
        ("true", "must be a whole number of cards, not true"),
        ("null", "must be a whole number of cards, not null"),
        ("NaN", "must be a whole number of cards, not NaN"),
        ("-Infinity", "must be a whole number of cards, not -Infinity"),
        ("[1]", "must be a whole number of cards, not a list"),
        ('{"n": 1}', "must be a whole number of cards, not an object"),
        ("-" + "9" * 5000, "must not be negative (a very long number)"),
    ],
)
def test_a_bad_entry_is_zero_and_leaves_the_others(value: str, words: str) -> None:
    quota = quota_of({CARD_QUOTA: f'{{"A": {value}, "B": 2}}'})

    assert quota.cards == {"A": 0, "B": 2000}
    (error,) = quota.errors
    assert (error.path, error.message) == ('metadata.annotations[volcano.sh/card.quota]["A"]', words)


@pytest.mark.parametrize("name", ["", "A|B", "A\nB", "\ud800"])
def test_a_quota_is_of_one_card_with_a_name(name: str) -> None:
    quota = quota_of({CARD_QUOTA: json.dumps({name: 4, "B": 2})})

    assert quota.cards == {"B": 2000}
    assert len(quota.errors) == 1
    str(quota.errors[0]).encode()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (A, (A,)),
        (f"{A}|{H}", (A, H)),
        (f"{A} | {H}", (A, H)),
        (f"|{A}", (A,)),
        (f"{A}|", (A,)),
        (f"{A}|{A}|{H}|{A}", (A, H)),
        ("", ()),
        (" | ", ()),
    ],
)
def test_a_list_of_cards_is_trimmed_and_each_card_stands_once(text: str, names: tuple[str, ...]) -> None:
    assert card_names_of({CARD_NAME: text}) == names_in(text) == names


def test_a_pod_without_the_annotation_names_no_card() -> None:
    assert card_names_of({}) == ()


@pytest.mark.parametrize(
    ("text", "wants"),
    [
        ('{"NVIDIA-H200": 2}', {("NVIDIA-H200",): 2000}),
        ('{"A|B": 2, " A | B ": 1, "B|A": 4}', {("A", "B"): 3000, ("B", "A"): 4000}),
        ('{"A|A": 6}', {("A",): 6000}),
        ('{"A": 0, "B": 1}', {("B",): 1000}),
    ],
)
def test_a_job_says_what_it_wants_in_all(text: str, wants: dict[tuple[str, ...], int]) -> None:
    request = job_request_of({CARD_REQUEST: text})

    assert (request.lists, request.errors) == (wants, ())


@pytest.mark.parametrize(
    ("text", "wants"),
    [("{", {}), ("[]", {}), ('{"A": -1, "B": 2}', {("B",): 2000}), ('{"|": 1, "B": 2}', {("B",): 2000})],
)
def test_what_is_wrong_in_a_jobs_request_is_left_out_and_said(text: str, wants: dict[tuple[str, ...], int]) -> None:
    request = job_request_of({CARD_REQUEST: text})

    assert request.lists == wants
    (error,) = request.errors
    assert error.path.startswith("metadata.annotations[volcano.sh/card.request]")


@pytest.mark.parametrize(
    ("names", "request_", "expected"),
    [
        ((A,), {GPU: 2000}, CardRequest((A,), GPU, 2000, (A,))),
        ((A, H), {GPU: 1000}, CardRequest((A, H), GPU, 1000, (A, H))),
        (("Unknown", A), {GPU: 1000}, CardRequest(("Unknown", A), GPU, 1000, (A,))),
        ((A,), {GPU: 1000, "cpu": 4000, "rdma/ib": 8000}, CardRequest((A,), GPU, 1000, (A,))),
    ],
)
def test_a_pod_wants_what_it_asks_of_the_cards_resource(
    names: tuple[str, ...], request_: dict[str, int], expected: CardRequest
) -> None:
    assert card_request_of(names, request_, RESOURCES) == expected


@pytest.mark.parametrize(
    ("names", "request_", "message"),
    [
        (("Unknown",), {GPU: 1000}, "no resource name found for card <Unknown>"),
        (("Unknown", "Other"), {GPU: 1000}, "no resource name found for card <Unknown|Other>"),
        ((A,), {}, f"no resource <{GPU}> defined in requests/limits for card <{A}>"),
        (("Unknown", H), {"cpu": 1}, f"no resource <{GPU}> defined in requests/limits for card <{H}>"),
    ],
)
def test_a_wish_that_cannot_be_understood_says_why(
    names: tuple[str, ...], request_: dict[str, int], message: str
) -> None:
    with pytest.raises(FieldError) as raised:
        card_request_of(names, request_, RESOURCES)

    assert (raised.value.path, raised.value.message) == ("metadata.annotations[volcano.sh/card.name]", message)


def test_cards_of_different_resources_are_no_list() -> None:
    with pytest.raises(FieldError, match="must be of one resource") as raised:
        card_request_of((A, f"{A}/mps-80g*1/8"), {GPU: 1000}, RESOURCES)

    assert GPU in raised.value.message
    assert "nvidia.com/gpu.shared" in raised.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.text() | JSON.map(json.dumps))
def test_any_text_of_an_annotation_is_read_or_refused_in_words(text: str) -> None:
    quota, request = quota_of({CARD_QUOTA: text}), job_request_of({CARD_REQUEST: text})

    assert all(0 <= amount <= MAX_AMOUNT and amount % 1000 == 0 for amount in quota.cards.values())
    assert all(0 < amount <= MAX_AMOUNT * 4 for amount in request.lists.values())
    for error in (*quota.errors, *request.errors):
        assert str(error).isascii() or str(error).encode()
    assert all(names and all(names) for names in request.lists)


@given(
    st.dictionaries(st.text(st.characters(codec="ascii", exclude_characters="|")).map(str.strip), st.integers(0, 10**6))
)
def test_every_good_entry_counts_exactly(cards: dict[str, int]) -> None:
    quota = quota_of({CARD_QUOTA: json.dumps(cards)})

    expected = {name: amount * 1000 for name, amount in cards.items() if name and name.isprintable()}
    assert quota.cards == expected


@given(st.text())
def test_any_list_of_names_is_split(text: str) -> None:
    names = card_names_of({CARD_NAME: text})

    assert len(set(names)) == len(names)
    assert all(name == name.strip() and name and "|" not in name for name in names)
