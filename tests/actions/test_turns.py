"""One namespace with thousands of jobs does not keep another from its first decision, and gets no other order by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.actions.rigs import Tries, conf, cycle, rig
from volsched.framework import admission_reservations
from volsched.framework.boundary import GIVE_WAY_SECONDS, TURN_SECONDS
from volsched.testing.builders import ClusterBuilder, Rig, SteadyClock, a_cluster, a_group, a_pod

PLAIN = conf("enqueue, allocate, backfill", "priority gang", "predicates")
TICK = 0.001
"""Seconds of CPU that a look at the clock takes, of which there are a few for each job."""

MANY = 1500
SOON = int(TURN_SECONDS / TICK)
"""Jobs that are tried at most before namespaces take turns."""


class TickingClock(SteadyClock):
    """CPU time that goes on with each look at it."""

    def __init__(self) -> None:
        super().__init__()
        self.used = 0.0

    def cpu(self) -> float:
        """Return the seconds so far."""
        self.used += TICK
        return self.used


def crowded(queue: str = "shared", *, least: bool = False, best_effort: bool = False) -> ClusterBuilder:
    """A queue full of hopeless gangs of one namespace, and one job of another, which is the youngest.

    ``least``: that one is the least important as well. ``best_effort``: no pod asks for anything, and no node is open.
    """
    found = a_cluster().node("n1", cpu=4).queue("shared").queue("zone")
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "least"}, "value": -5}
    found = found.add(kind)
    wanted = {} if best_effort else {"cpu": 9}
    spec = {"nodeSelector": {"a": "b"}}
    for number in range(MANY):
        created = f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"
        meta = {"metadata": {"namespace": "evil"}, "created": created}
        found = found.add(a_group(f"e{number}", "shared", **meta))
        found = found.add(a_pod(f"e{number}-0", f"e{number}", spec=spec, **meta, **wanted))
    meta = {"metadata": {"namespace": "honest"}, "created": "2026-01-01T01:00:00Z"}
    found = found.add(a_group("h", queue, **meta, priorityClassName="least" if least else ""))
    of_pod = {"priority": -5} if least else {}
    return found.add(a_pod("h-0", "h", spec=of_pod, **meta, **({} if best_effort else {"cpu": 1})))


def ticking(cluster: ClusterBuilder, tries: Tries, configuration: str = PLAIN) -> Rig:
    on = rig(cluster, configuration, tries)
    on.clock = on.scheduler._clock = TickingClock()
    return on


@pytest.mark.parametrize("queue", ["shared", "zone"])
@pytest.mark.parametrize("best_effort", [False, True])
def test_the_first_decision_of_another_namespace_comes_within_a_slice(queue: str, *, best_effort: bool) -> None:
    tries = Tries()
    decision = cycle(ticking(crowded(queue, best_effort=best_effort), tries))

    assert decision.bindings == {"honest/h-0": "n1"}
    assert tries.names.index("h-0") < SOON
    assert len(set(tries.names)) == MANY + 1


def test_a_short_session_keeps_the_order_of_ages() -> None:
    tries = Tries()
    cycle(rig(crowded(), PLAIN, tries))
    assert tries.names[-1] == "h-0"


def test_a_more_important_job_goes_first_whatever_its_namespace_has_had() -> None:
    tries = Tries()
    cluster = crowded(least=True)
    cycle(ticking(cluster, tries))
    assert tries.names[-1] == "h-0"


@pytest.mark.parametrize("most", [200, 2000])
def test_a_session_without_time_for_all_jobs_judges_reservations_nevertheless(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among a crowd of which a session tries a few, a gang that can never start keeps no room from the next job."""
    monkeypatch.setattr(admission_reservations, "MOST_AFTER_END", most)
    given = crowded().group("hog", "zone", minimum=9, phase="Inqueue", minResources={"cpu": "5"})
    for number in range(9):
        given.pod(f"hog-{number}", "hog", cpu=3)
    configuration = conf("enqueue, allocate", "priority gang", "overcommit predicates")
    on = ticking(given, Tries(), configuration)
    on.scheduler._bounds = replace(on.scheduler._bounds, news=lambda: True)

    sessions = [cycle(on) for _ in range(1 + MANY // most)]

    assert all(session.report.gave_way for session in sessions)
    assert on.cluster.jobs["default/hog"].release_reason


def test_a_session_gives_way_to_what_has_come_once_and_the_next_goes_on() -> None:
    tries = Tries()
    on = ticking(crowded(), tries)
    news = [True]
    on.scheduler._bounds = replace(on.scheduler._bounds, news=lambda: bool(news))

    first = cycle(on)
    tried = len(tries.take())
    news.clear()
    second = cycle(on)

    assert (first.report.gave_way, first.report.over) == (True, "")
    assert tried < GIVE_WAY_SECONDS / TICK
    assert (second.report.gave_way, second.report.over) == (False, "")
    assert tried + len(tries.names) >= MANY
