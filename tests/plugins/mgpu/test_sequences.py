"""Hundreds of pods come and go, and schedulers start anew: no card ever gives more than it has."""

from __future__ import annotations

import random

import pytest

from tests.plugins.mgpu.sequences import WANTS, KeepsBooks, Shift
from tests.properties.lives import Reader


@pytest.mark.slow(reason="hundreds of sessions")
@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_hundreds_of_random_arrivals_and_departures(policy: str) -> None:
    rng = random.Random(policy)  # noqa: S311 - any order will do
    shift = Shift(policy, [])
    reader = Reader(shift)
    books = KeepsBooks(shift, reader)

    for number in range(400):
        if number % 100 == 99:
            shift.story.append(("restart", 0, 0))
            reader = Reader(shift)
            books = KeepsBooks(shift, reader)
        elif len(shift.pods) < 4 or (len(shift.pods) < 14 and rng.random() < 0.5):
            shift.story.append(("arrive", rng.choice(WANTS), rng.choice([1, 1, 1, 2])))
        else:
            shift.story.append(("leave", rng.randrange(len(shift.pods)), 0))
        reader.hear(shift.changes())
        shift.shows = rng.random() < 0.9
        books.before()
        steps = reader.session()
        shift.carry_out(reader)
        books.after(steps)

    assert shift.bound > 80
