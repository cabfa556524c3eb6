"""Which cards are chosen: known cases, and equality with going through all choices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.mgpu.devices import FreeCard, NodeCardState
from plugins.mgpu.placement import CardPlacementSearch, ContainerRequest, alike, charged
from plugins.mgpu.scoring import Strategy
from tests.examples import at_least
from tests.plugins.mgpu import exhaustive
from tests.plugins.mgpu.cards import T4, M, asks, shown, state

FOUR = "80/12288/1, 50/8192/2, idle, 20/4096/3"
PACK, SPREAD = Strategy(packs=True), Strategy(packs=False)


def found(
    search: CardPlacementSearch, cards: NodeCardState, wanted: tuple[ContainerRequest, ...]
) -> tuple[str | None, float | None]:
    """The lists and the score."""
    best = search.best(alike(cards), tuple(sorted(wanted)))
    placement = search.place(cards, wanted)
    assert not best.truncated
    assert not placement.truncated
    score = search.strategy.score(best.points, len(cards.cards), cards.memory) if best.points is not None else None
    return shown(placement.lists), score


@pytest.mark.parametrize(
    ("cards", "memory", "wanted", "weight", "packed", "spread", "score", "spread_score"),
    [
        pytest.param("2 idle", T4, "30/4096", 20, "0", "0", 0.038397, None, id="A01"),
        pytest.param("70/11013/1, idle", T4, "30/4096", 20, "0", "1", 0.153589, 0.923205, id="A02"),
        pytest.param("40/15360/1, 90/8192/1", M, "20/2048", 20, "1", "0", 0.202813, 0.820937, id="A03"),
        pytest.param("40/15360/1, 90/8192/1", M, "20/2048", 50, "0", "1", 0.233789, 0.788867, id="A05"),
        pytest.param("20/15360/1, idle", M, "30/1024", 20, "1", "1", None, None, id="A07 core is short"),
        pytest.param("80/1024/1, idle", M, "30/2048", 20, "1", "1", None, None, id="A08 memory is short"),
        pytest.param("2 idle", M, "50/1024 50/1024 50/1024", 20, "0 ; 0 ; 1", "0 ; 0 ; 1", 0.132812, None, id="A09"),
        pytest.param("idle", M, "50/1024 50/1024 50/1024", 20, None, None, None, None, id="A10"),
        pytest.param("2 idle", M, "50/4096 full1", 20, "0 ; 1", "0 ; 1", None, None, id="A12"),
        pytest.param("3 idle", M, "full2 50/4096", 20, "0,1 ; 2", "0,1 ; 2", None, None, id="A14"),
        pytest.param(FOUR, M, "2x25/2048", 20, "0,1", "0,2", 0.289, 0.7485, id="A16"),
        pytest.param("2 idle", M, "2x50/4096", 20, "0,1", "0,1", None, None, id="A25"),
        pytest.param("idle", M, " ".join(["12/1024"] * 8), 20, *[" ; ".join("0" * 8)] * 2, None, None, id="A27 eight"),
        pytest.param("idle", M, " ".join(["12/1024"] * 9), 20, None, None, None, None, id="A27 nine"),
        pytest.param("50/2048/1", M, "50/2048", 20, "0", "0", None, None, id="A29 all of it"),
        pytest.param("50/2048/1", M, "50/2049", 20, None, None, None, None, id="A29 one MiB more"),
        pytest.param("8 idle", M, "25/4096 25/4096", 20, "0 ; 0", "0 ; 1", 0.03125, 0.984375, id="A31"),
        pytest.param("idle, 60/12288/1", M, "30/4096", 20, "1", "0", None, None, id="A33"),
        pytest.param("40/14336/1, 40/14336/1", M, "30/1024 30/1024", 20, "0 ; 1", "0 ; 1", None, None, id="A34"),
        pytest.param("60/8192/1, 60/8192/1", M, "full1", 20, None, None, None, None, id="F18 the sum is enough"),
        pytest.param("2 idle", M, "30/1024", 0, "0", "0", 0.5 / 256, None, id="G08 memory only"),
        pytest.param("2 idle", M, "30/1024", 100, "0", "0", 0.045, None, id="G08 core only"),
    ],
)  # fmt: skip
def test_known_placements(
    cards: str, memory: int, wanted: str, weight: int, packed: str | None, spread: str | None,
    score: float | None, spread_score: float | None,
) -> None:  # fmt: skip
    pack, spreading = CardPlacementSearch(Strategy(True, weight)), CardPlacementSearch(Strategy(False, weight))

    lists, value = found(pack, state(cards, memory), asks(wanted))
    spread_lists, spread_value = found(spreading, state(cards, memory), asks(wanted))

    assert (lists, spread_lists) == (packed, spread)
    if score is not None:
        assert value == pytest.approx(score, abs=1e-6)
    if spread_score is not None:
        assert spread_value == pytest.approx(spread_score, abs=1e-6)


def test_a_full_node_of_cards_that_are_used_whole_scores_one() -> None:
    assert found(CardPlacementSearch(PACK), state("2 idle"), asks("full2"))[1] == 1.0
    assert found(CardPlacementSearch(PACK), state("50/2048/1", 4096), asks("50/2048"))[1] == 1.0


def test_instances_are_limited_per_unit_and_not_per_pod() -> None:
    two = CardPlacementSearch(Strategy(most_instances=2))

    assert found(two, state("3 idle"), asks("10/256 10/256 10/256"))[0] == "0 ; 0 ; 1"
    assert found(two, state("98/15000/2, idle"), asks("10/256"))[0] == "1"
    assert found(two, state("98/15000/2"), asks("10/256"))[0] is None


def test_a_card_without_memory_gives_itself_whole_and_nothing_else() -> None:
    assert found(CardPlacementSearch(PACK), state("2 idle", 0), asks("full1")) == ("0", 0.5 * 0.2)
    assert found(CardPlacementSearch(PACK), state("2 idle", 0), asks("10/256"))[0] is None


def test_a_card_that_has_less_than_it_gave_away_takes_nothing() -> None:
    assert found(CardPlacementSearch(PACK), state("-20/-1024/3, 50/1024/1"), asks("10/256"))[0] == "1"


def test_memory_that_is_no_memory_of_a_card_is_counted_exactly() -> None:
    """Beyond 64 bits the points are Python's own integers."""
    huge = 15_109_000_000

    one_mib_apart = NodeCardState(huge, (FreeCard(60, huge - 256, 1), FreeCard(60, huge - 257, 1)))

    assert found(CardPlacementSearch(PACK), one_mib_apart, asks("10/256"))[0] == "1"
    assert found(CardPlacementSearch(SPREAD), one_mib_apart, asks("10/256"))[0] == "0"
    assert (
        found(CardPlacementSearch(SPREAD), NodeCardState(huge, (FreeCard(100, huge),) * 3), asks("30/256 2x30/257"))[0]
        == "0 ; 1,2"
    )


def test_a_node_of_more_cards_than_an_integer_has_bits() -> None:
    assert found(CardPlacementSearch(SPREAD), state("70 idle"), asks("10/256 2x10/256"))[0] == "0 ; 1,2"
    assert found(CardPlacementSearch(PACK), state("69 idle, 50/8192/1"), asks("10/256"))[0] == "69"


# -- equality with going through all choices ---------------------------------------------------------------------------

MEMORY = 4096
amounts = st.tuples(st.sampled_from([5, 20, 25, 33, 50, 75, 99]), st.sampled_from([256, 512, 1000, 1024, 2048, 4096]))
some_asks = st.one_of(
    amounts.map(lambda a: ContainerRequest(1, *a)),
    st.tuples(st.integers(1, 3), amounts).map(lambda both: ContainerRequest(both[0], *both[1])),
    st.integers(1, 3).map(lambda k: ContainerRequest(k, 100)),
)
some_cards = st.one_of(
    st.just(FreeCard(100, MEMORY)),
    st.builds(
        FreeCard,
        st.sampled_from([0, 20, 25, 40, 50, 66, 75, 80]),
        st.sampled_from([0, 256, 512, 1024, 2048, 3072, 3840]),
        st.integers(1, 3),
    ),
)
strategies = st.builds(Strategy, st.booleans(), st.sampled_from([0, 20, 50, 100]), st.sampled_from([2, 3, 16]))


@pytest.mark.slow(reason="a thousand random choices, each gone through in full")
@at_least(1_000)
@given(st.lists(some_cards, min_size=1, max_size=5), st.lists(some_asks, min_size=1, max_size=4), strategies)
def test_the_search_finds_what_going_through_all_choices_finds(
    cards: list[FreeCard], wanted: list[ContainerRequest], strategy: Strategy
) -> None:
    node = NodeCardState(MEMORY, tuple(cards))
    expected = exhaustive.best(
        node,
        wanted,
        packs=strategy.packs,
        weight_of_core=strategy.weight_of_core,
        most_instances=strategy.most_instances,
    )
    search = CardPlacementSearch(strategy)

    best = search.best(alike(node), tuple(sorted(wanted)))
    placement = search.place(node, tuple(wanted))

    assert not best.truncated
    assert placement.lists == (expected[1] if expected else None)
    if expected is None:
        assert best.points is None
    else:
        score = strategy.score(best.points or 0, len(cards), MEMORY)
        assert score == pytest.approx(float(expected[0] if strategy.packs else 1 - expected[0]), abs=1e-12)


@given(st.lists(some_cards, min_size=1, max_size=8), st.lists(some_asks, min_size=1, max_size=6), strategies)
def test_a_search_that_is_given_up_says_so_and_overdraws_no_card(
    cards: list[FreeCard], wanted: list[ContainerRequest], strategy: Strategy
) -> None:
    node, search = NodeCardState(MEMORY, tuple(cards)), CardPlacementSearch(strategy, limit=0)
    exact = CardPlacementSearch(strategy).best(alike(node), tuple(sorted(wanted)))

    best = search.best(alike(node), tuple(sorted(wanted)))
    placement = search.place(node, tuple(wanted))

    assert best.truncated == placement.truncated
    assert best.truncated or (best.points, exact.points) == (None, None)
    if placement.lists is not None:
        after = charged(node, wanted, placement.lists)
        assert all(len(set(chosen)) == ask.cards for ask, chosen in zip(wanted, placement.lists, strict=True))
        assert all(c.core >= 0 and c.memory >= 0 and c.instances <= max(16, 3) for c in after.cards)
        assert exact.points is not None


# -- what is searched once ---------------------------------------------------------------------------------------------


def test_nodes_with_cards_in_equal_states_share_one_search() -> None:
    search = CardPlacementSearch(PACK)
    one, other = state("70/11013/1, idle", T4), state("idle, 70/11013/1", T4)

    for _ in range(1000):
        search.best(alike(one), asks("30/4096"))
        search.best(alike(other), asks("30/4096"))

    assert search.searches == 1


def test_truncations_are_counted() -> None:
    search = CardPlacementSearch(PACK, limit=0)

    search.best(alike(state("2 idle")), asks("30/4096"))

    assert (search.searches, search.truncations) == (1, 1)


def test_sixteen_distinct_containers_of_eight_cards_are_beyond_the_limit_and_placed_all_the_same() -> None:
    wanted = tuple(ContainerRequest(8, 3 + number % 3, 256 + number) for number in range(16))

    placement = CardPlacementSearch(SPREAD).place(state("16 idle"), wanted)

    assert placement.truncated
    assert placement.lists is not None
