"""drf: exact dominant shares, the order of jobs, and whose pods may go."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from plugins.drf.plugin import DELTA, DrfPlugin, Shares
from tests.actions.rigs import conf, decide, order_of
from tests.framework.stage import Stage
from volsched.framework.registration import Registrar
from volsched.framework.rules import EventHandler, never
from volsched.testing.builders import ClusterBuilder, a_cluster


class Told(DrfPlugin):
    """The plugin, and its shares at hand."""

    shares: Shares

    def on_session_open(self, registrar: Registrar) -> None:
        super().on_session_open(registrar)
        self.shares = Shares(registrar.cluster)
        registrar.register(EventHandler(self.shares, for_each_pod=never))


class Desk:
    """One session with drf's shares."""

    def __init__(self, given: ClusterBuilder) -> None:
        self.plugin = Told({})
        self.stage = Stage(given, self.plugin.on_session_open)

    @property
    def shares(self) -> Shares:
        return self.plugin.shares

    def share(self, job: str) -> Fraction:
        return self.shares.order(self.stage.cluster.jobs[f"default/{job}"])

    def victims(self, task: str, *candidates: str) -> list[str]:
        """Whom of the candidates the task may take."""
        found = self.shares.preemptable(self.stage.task(task), [self.stage.task(name) for name in candidates])
        return [victim.name for victim in found]


def world(**running: list[Mapping[str, Any]]) -> ClusterBuilder:
    """Nine cores, 90 bytes of memory and 3 cards; running jobs by name, each a list of what its pods ask for."""
    given = a_cluster().node("n1", cpu=9, memory=90, gpu=3)
    for name, pods in running.items():
        given.group(name, phase="Running")
        for index, requests in enumerate(pods):
            given.pod(f"{name}-{index}", name, on="n1", **requests)
    return given


SHARES: dict[str, tuple[list[Mapping[str, Any]], Fraction]] = {
    "nothing": ([], Fraction(0)),
    "of one resource": ([{"cpu": 2}], Fraction(2, 9)),
    "the larger of two": ([{"cpu": 2, "memory": 30}], Fraction(1, 3)),
    "of several pods": ([{"cpu": 2}, {"cpu": 3}, {"memory": 1}], Fraction(5, 9)),
    "an extended resource": ([{"cpu": 1, "gpu": 1}], Fraction(1, 3)),
    "pods that ask for nothing": ([{}, {}], Fraction(2, 110)),
    "what no node has": ([{"npu": 5}], Fraction(1, 110)),
    "one byte": ([{"memory": 1}], Fraction(1, 90)),
}


@pytest.mark.parametrize("what", SHARES)
def test_a_share_is_the_largest_part_of_any_resource(what: str) -> None:
    pods, expected = SHARES[what]
    desk = Desk(world(job=pods))

    assert desk.share("job") == expected


def test_pod_slots_are_a_resource_as_any_other() -> None:
    given = a_cluster().node("n1", cpu=10, pods=2).group("j", phase="Running").pod("j-0", "j", on="n1", cpu=1)

    assert Desk(given).share("j") == Fraction(1, 2)


def test_pod_slots_follow_the_session_and_victims() -> None:
    desk = Desk(world(rich=[{}, {}, {}]).job("mine", 2))
    stage, statement = desk.stage, desk.stage.session.statement()

    assert desk.victims("mine-0", "rich-0", "rich-1", "rich-2") == ["rich-0", "rich-1"]
    assert statement.pipeline(stage.task("mine-1"), stage.node("n1")) is None
    assert desk.share("mine") == Fraction(1, 110)
    assert desk.victims("mine-0", "rich-0", "rich-1", "rich-2") == ["rich-0"]


def test_shares_follow_the_session_and_come_back() -> None:
    desk = Desk(world(run=[{"cpu": 3}]).job("wait", 3, cpu=1))
    stage, node = desk.stage, desk.stage.node("n1")
    statement = stage.session.statement()

    assert statement.allocate(stage.task("wait-0"), node) is None
    assert desk.share("wait") == Fraction(1, 9)
    assert statement.pipeline(stage.task("wait-1"), node) is None
    assert desk.share("wait") == Fraction(2, 9)
    statement.evict(stage.task("run-0"), "test")
    assert desk.share("run") == Fraction(0)
    statement.discard()

    assert (desk.share("wait"), desk.share("run")) == (Fraction(0), Fraction(1, 3))


def test_the_job_with_the_smaller_share_goes_first() -> None:
    given = world(a=[{"cpu": 2}], b=[{"cpu": 1}], c=[{"memory": 5}])
    for name in "abc":
        given.pod(f"{name}-more", name, cpu=1)

    assert order_of(decide(given, conf("allocate", "drf", "predicates"))) == ["c-more", "b-more", "a-more"]


def test_jobs_take_turns_as_their_shares_grow() -> None:
    given = a_cluster().node("n1", cpu=6)
    given.job("a", 3, 1, cpu=1).job("b", 3, 1, cpu=1)

    found = order_of(decide(given, conf("allocate", "drf", "predicates")))

    assert found == ["a-0", "b-0", "a-1", "b-1", "a-2", "b-2"]


VICTIMS: dict[str, tuple[dict[str, list[Mapping[str, Any]]], Mapping[str, Any], list[str]]] = {
    # what: (what runs, what the job "mine" asks for, who may go)
    "a job that keeps more": ({"rich": [{"cpu": 1}] * 4}, {"cpu": 1}, ["rich-0", "rich-1", "rich-2"]),
    "down to equality": ({"rich": [{"cpu": 1}] * 2}, {"cpu": 1}, ["rich-0"]),
    "nobody of a job that would keep less": ({"poor": [{"cpu": 1}]}, {"cpu": 1}, []),
    "one's own job counts with what it holds": (
        {"mine": [{"cpu": 2}], "rich": [{"cpu": 1}] * 4},
        {"cpu": 1},
        ["rich-0"],
    ),
    "each by its own dominant resource": ({"rich": [{"gpu": 1}] * 2}, {"cpu": 3}, ["rich-0"]),
    "a small pod behind a large one": ({"rich": [{"cpu": 3}, {"cpu": 1}, {"cpu": 1}]}, {"cpu": 2}, ["rich-0"]),
    "several jobs, each by itself": (
        {"one": [{"cpu": 1}] * 2, "two": [{"cpu": 1}] * 3},
        {"cpu": 1},
        ["one-0", "two-0", "two-1"],
    ),
}


@pytest.mark.parametrize("what", VICTIMS)
def test_pods_may_go_whose_job_keeps_as_much_as_the_preemptors_would_have(what: str) -> None:
    running, asks, expected = VICTIMS[what]
    given = world(**running)
    if "mine" not in running:
        given.group("mine", phase="Inqueue")
    given.pod("mine-new", "mine", **asks)
    names = [f"{name}-{index}" for name, pods in running.items() if name != "mine" for index in range(len(pods))]

    assert Desk(given).victims("mine-new", *names) == expected


@pytest.mark.parametrize(("less", "expected"), [(0, True), (1, True), (2, False)])
def test_shares_that_differ_by_a_millionth_count_as_equal(less: int, expected: bool) -> None:
    given = a_cluster().node("n1", memory=1_000_000, pods=1_000_000).group("run", phase="Running")
    given.pod("run-0", "run", on="n1", memory=500).pod("run-1", "run", on="n1", memory=1_000 - less)
    given.job("mine", 1, memory=1_000)

    assert Fraction(1, 1_000_000) == DELTA
    assert Desk(given).victims("mine-0", "run-0") == (["run-0"] if expected else [])


def test_pods_that_belong_to_no_job_are_left_alone() -> None:
    given = world().pod("foreign", on="n1", cpu=4, spec={"schedulerName": "other"}).job("mine", 1, cpu=1)

    assert Desk(given).victims("mine-0", "foreign") == []
