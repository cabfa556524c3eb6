"""Attributes of a session of one minor version ago: still there, with a warning."""

from __future__ import annotations

from operator import attrgetter

import pytest

from tests.framework.stage import Stage
from volsched.model.plan import RecordEvent
from volsched.testing.builders import a_cluster


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("bounds", "boundary.bounds"),
        ("clocks", "generations"),
        ("faults", "boundary.faults"),
        ("modules", "boundary.modules"),
        ("over", "boundary.over"),
        ("gave_way", "boundary.gave_way"),
        ("hints", "stats.hints"),
        ("job_attempts", "stats.job_attempts"),
        ("victim_searches", "stats.victim_searches"),
        ("victims", "stats.victims"),
        ("gang_searches", "stats.gang_searches"),
        ("is_unfinished", "stats.is_unfinished"),
        ("whole", "events.whole"),
    ],
)
def test_what_moved_into_a_part_of_the_session_can_be_read_where_it_was(former: str, now: str) -> None:
    session = Stage(a_cluster()).session

    with pytest.warns(DeprecationWarning, match=rf"Session\.{former} ends .* read Session\.{now}") as warned:
        found = getattr(session, former)

    assert found is attrgetter(now)(session)
    assert warned[0].filename == __file__


def test_an_event_can_be_recorded_by_the_old_name_of_the_method() -> None:
    session, event = Stage(a_cluster()).session, RecordEvent("Node", "v1", "", "n", "", "Normal", "Reason", "message")

    with pytest.warns(DeprecationWarning, match=r"Session\.tell ends"):
        session.tell(event)  # type: ignore[attr-defined]

    assert session.events.recorded == [event]


def test_a_session_that_has_ended_tells_where_plugins_keep_data() -> None:
    session = Stage(a_cluster()).session
    session.release()

    with pytest.raises(AttributeError, match=r"no attribute 'cluster'; .* account \(registrar\.account\)"):
        session.cluster  # noqa: B018


@pytest.mark.parametrize(
    ("former", "now"), [("is_due", "is_within_deserved"), ("reclaimable_by_due", "reclaimable_by_share")]
)
def test_questions_about_deserved_shares_can_be_asked_by_their_old_names(former: str, now: str) -> None:
    session = Stage(a_cluster()).session

    for asked in (session, session.rules):
        with pytest.warns(DeprecationWarning, match=rf"{type(asked).__name__}\.{former} ends"):
            assert getattr(asked, former) == getattr(asked, now)
