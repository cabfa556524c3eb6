"""What nodes and pods with a node say of cards, however odd."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.mgpu.devices import CARD_IDS, NODE_TYPE, POLICY, Cards, cards_of
from plugins.mgpu.placement import ContainerRequest
from plugins.mgpu.requests import ContainerAsk
from plugins.mgpu.results import INDEX, lists_of, written
from volsched.model.errors import FieldError

texts = st.one_of(st.text(max_size=10), st.from_regex(r"[0-9,]{0,8}", fullmatch=True))
few = st.dictionaries(st.sampled_from([f"{INDEX}a", f"{INDEX}b", f"{INDEX}0", f"{INDEX}1"]), texts)


@given(few, st.integers(1, 4), st.integers(1, 3))
def test_lists_that_are_read_are_as_many_different_cards_of_the_node(
    annotations: dict[str, str], count: int, wanted: int
) -> None:
    asks = (ContainerAsk(0, ContainerRequest(wanted, 10, 256)), ContainerAsk(1, ContainerRequest(1, 10, 256)))
    try:
        found = lists_of(asks, ("a", "b"), annotations, Cards(count, 1024))
    except FieldError:
        return
    for cards, ask in zip(found, asks, strict=True):
        assert len(cards) == ask.ask.cards
        assert list(cards) == sorted(set(cards))
        assert all(0 <= card < count for card in cards)


def test_any_order_is_read() -> None:
    asks = (ContainerAsk(0, ContainerRequest(3, 10, 256)),)

    assert lists_of(asks, ("a",), {f"{INDEX}a": "2,0,1"}, Cards(3, 1024)) == ((0, 1, 2),)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, unique=True).map(sorted), min_size=1, max_size=3), st.booleans()
)
def test_what_is_written_is_read_back(chosen: list[list[int]], by_id: bool) -> None:
    names, ids = ("a", "b", "c"), ("GPU-a", "GPU-b", "GPU-c", "GPU-d")
    lists = tuple(map(tuple, chosen))
    asks = tuple(ContainerAsk(place, ContainerRequest(len(cards), 10, 256)) for place, cards in enumerate(lists))

    annotations = written(asks, lists, names, ids if by_id else ())

    assert lists_of(asks, names, annotations, Cards(4, 1024, ids=ids)) == lists


@given(
    st.dictionaries(st.sampled_from([POLICY, NODE_TYPE]), st.text(max_size=8)),
    st.dictionaries(st.just(CARD_IDS), st.one_of(st.text(max_size=12), st.just("a,b"), st.just("GPU-1,GPU-2"))),
    st.integers(0, 10**7),
    st.integers(0, 2**62),
)
def test_whatever_a_node_says_of_itself_is_understood(
    labels: dict[str, str], annotations: dict[str, str], core: int, memory: int
) -> None:
    cards = cards_of(labels, annotations, core, memory)

    assert cards.count * 100_000 <= core
    assert cards.count * cards.memory * 1000 <= memory
    assert len(cards.ids) in (0, cards.count)
    assert len(cards.idle.cards) == cards.count


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("GPU-6f1a,GPU-7b2c", ("GPU-6f1a", "GPU-7b2c")),
        (" GPU-6f1a , GPU-7b2c ", ("GPU-6f1a", "GPU-7b2c")),
        ("GPU-6f1a", ()),
        ("GPU-6f1a,GPU-6f1a", ()),
        ("1,0", ()),
        ("GPU a,b", ()),
        ("", ()),
    ],
)
def test_ids_of_cards(text: str, ids: tuple[str, ...]) -> None:
    found = cards_of({}, {CARD_IDS: text}, 200_000, 2_000_000)

    assert found.ids == ids
    assert bool(found.warnings) == (not ids)
