"""A version that a cache was refreshed at."""

from __future__ import annotations

from volsched.model.values.seen import Seen


def test_each_other_version_differs_once() -> None:
    seen = Seen()

    assert [seen.differs(version) for version in (1, 1, 2, 2, 1)] == [True, False, True, False, True]


def test_what_is_known_from_the_start_does_not_differ() -> None:
    assert not Seen(3).differs(3)
    assert Seen().differs(0)
