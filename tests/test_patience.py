"""Waiting: the condition is looked at once more when the time is over, and looking takes little of the time."""

from __future__ import annotations

import time

import pytest

from tools import patience
from tools.patience import looks


class Clock:
    """A clock that goes on while somebody sleeps or looks."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(patience, "time", found)
    return found


def test_the_last_look_is_when_the_time_is_over(clock: Clock) -> None:
    seen = [clock.now for _ in looks(2.0)]

    assert seen[0] == 0.0
    assert seen[-1] >= 2.0
    assert all(moment < 2.0 for moment in seen[:-1])


def test_pauses_grow_to_a_quarter_of_a_second(clock: Clock) -> None:
    for _ in looks(10.0):
        pass

    *pauses, last = clock.slept
    assert (pauses[0], pauses[-1], last) == (0.02, 0.25, 0.0)
    assert pauses == sorted(pauses)


@pytest.mark.parametrize(("takes", "pause"), [(0.5, 2.0), (3.0, 4.0)])
def test_after_a_look_that_takes_long_the_pause_is_longer(clock: Clock, takes: float, pause: float) -> None:
    for _ in looks(30.0):
        clock.now += takes

    assert clock.slept[0] == pause


def test_a_time_of_nothing_is_one_look(clock: Clock) -> None:
    assert [None for _ in looks(0.0)] == [None]


def test_it_ends_by_itself_on_a_real_clock() -> None:
    began = time.monotonic()

    assert sum(1 for _ in looks(0.1)) > 1
    assert time.monotonic() - began >= 0.1
