"""Use over time: the integral is exact whenever it is looked at, and a new leader goes on from what a status says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.mirror.reading import past_of
from volsched.model import api
from volsched.model.cluster import Cluster
from volsched.model.plan import WriteQueueStatus
from volsched.model.queues.queue import QueuePast, QueueProperties
from volsched.quota.past_use import PastUse
from volsched.testing.builders import Rig, a_cluster, a_rig

HALF_LIFE = 100.0
CARD = "nvidia.com/gpu"
DECAY = """
actions: "allocate"
tiers:
- plugins: [{name: drf, arguments: {usage.halfLife: 1h}}, {name: predicates}]
"""


class Board:
    """A cluster of one queue, that holds what it is told to."""

    def __init__(self, past: QueuePast | None = None) -> None:
        self.cluster = Cluster()
        self.cluster.queue_cache.put_queue(QueueProperties("q"), past)
        self.held: dict[str, int] = {}
        self.past = PastUse(self.cluster, HALF_LIFE, lambda _: self.held)

    def hold(self, cards: int, now: float) -> None:
        """Open a session, change what is held, and close it."""
        self.past.settle(now)
        self.held = {CARD: cards} if cards else {}
        self.cluster.generations.queue_tree += 1
        self.past.settle(now)

    def used(self, now: float) -> float:
        self.past.settle(now)
        return self.past.used("q").get(CARD, 0.0)


def by_hand(steps: list[tuple[float, int]], now: float) -> float:
    """Integrate held x 2^(-age / half-life) in closed form, step by step."""
    total, rate = 0.0, math.log(2) / HALF_LIFE
    for (begin, cards), (end, _) in zip(steps, [*steps[1:], (now, 0)], strict=True):
        total += cards / rate * (2 ** (-(now - end) / HALF_LIFE) - 2 ** (-(now - begin) / HALF_LIFE))
    return total


@given(
    st.lists(st.tuples(st.floats(0.1, 500), st.integers(0, 8)), min_size=1, max_size=8),
    st.lists(st.floats(0.1, 50), max_size=5),
)
def test_it_is_the_integral_however_often_it_is_looked_at(changes: list[tuple[float, int]], looks: list[float]) -> None:
    board, now, steps = Board(), 0.0, [(0.0, 0)]
    board.hold(0, now)
    for after, cards in changes:
        now += after
        board.hold(cards, now)
        steps.append((now, cards))
    for after in looks:
        now += after
        board.used(now)
    assert board.used(now + 1) == pytest.approx(by_hand(steps, now + 1), abs=1e-3)


def test_who_always_held_the_same_has_that_as_mean() -> None:
    board = Board()
    board.hold(5, 0.0)
    board.past.settle(20 * HALF_LIFE)
    assert board.past.mean("q")[CARD] == pytest.approx(5, rel=1e-4)


def test_a_new_leader_goes_on_from_the_status() -> None:
    first = Board()
    first.hold(3, 0.0)
    first.used(50.0)
    second = Board(first.past.word("q"))
    second.held = {CARD: 3}
    assert second.used(120.0) == pytest.approx(first.used(120.0), rel=1e-4)


@pytest.mark.parametrize("text", ["nan", "inf", "-5", "1e300", "much", ""])
def test_a_status_with_nonsense_counts_for_nothing(text: str) -> None:
    found = past_of(api.QueueUsage("2026-01-01T00:00:00Z", {CARD: text}))
    assert found is not None
    assert found.used == {}


def test_a_status_without_a_time_counts_for_nothing() -> None:
    assert past_of(api.QueueUsage("soon", {CARD: "1"})) is None


def test_a_time_ahead_of_the_clock_is_now() -> None:
    board = Board(QueuePast(1e12, {CARD: 7.0}))
    assert board.used(1000.0) == 7.0


def rig() -> Rig:
    cluster = a_cluster().node("n", cpu=4)
    cluster.queue("a").queue("b")
    for name in ("a", "b"):
        cluster.job(f"{name}1", queue=name, cpu=2)
    return a_rig(cluster, DECAY)


def words(steps: list[object]) -> dict[str, QueuePast]:
    return {step.name: step.past for step in steps if isinstance(step, WriteQueueStatus) and step.past is not None}


def test_a_word_is_written_once_a_minute_and_none_when_nothing_changes() -> None:
    it = rig()
    assert set(words(list(it.cycle().steps))) == {"a", "b"}
    for _ in range(10):
        it.clock.time += 30
        assert words(list(it.cycle().steps)) == {}
