"""What proportion answers: order, overused, allocatable, preemptive, admission, and from whom may be reclaimed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from plugins.proportion.plugin import LEAVE_DESERVED, ProportionPlugin
from plugins.proportion.quotas import NAME, ProportionQuotas
from tests.actions.rigs import conf, decide, phases
from tests.framework.stage import Stage
from tests.plugins.admission import ADMISSION, a_job_to_admit
from volsched.framework.callbacks import Vote
from volsched.model.verdict import Scope
from volsched.testing.builders import ClusterBuilder, a_cluster


class Desk:
    """One session with proportion alone."""

    def __init__(self, given: ClusterBuilder, *, leaves_deserved: bool = False) -> None:
        self.plugin = ProportionPlugin({LEAVE_DESERVED: leaves_deserved})
        self.stage = Stage(given, self.plugin.on_session_open)

    @property
    def shares(self) -> ProportionQuotas:
        """The quotas of the session."""
        found: Any = self.stage.session.account(f"{NAME}.quotas", unknown)
        assert isinstance(found, ProportionQuotas)
        return found

    def queue(self, name: str) -> Any:
        return self.stage.queue(name)


def unknown(_: object) -> None:
    """Nobody has quotas."""


def world(held: int = 0, asks: int = 20, **spec: Any) -> ClusterBuilder:
    """Ten cores. Queues q and r of equal weight want more than there is; q holds some already."""
    given = a_cluster().node("n1", cpu=10, memory="10Gi").queue("q", **spec).queue("r")
    given.group("run", "q", phase="Running").job("more", asks, queue="q", cpu=1).job("other", 20, queue="r", cpu=1)
    for index in range(held):
        given.pod(f"run-{index}", "run", on="n1", cpu=1)
    return given


@pytest.mark.parametrize(("held", "expected"), [(0, False), (4, False), (5, True), (6, True)])
def test_a_queue_is_overused_once_it_holds_its_due(held: int, expected: bool) -> None:
    desk = Desk(world(held))

    verdict = desk.shares.overused(desk.queue("q"))

    assert (verdict is not None) is expected
    if verdict is not None:
        assert verdict.message == f'queue "q" holds all that it deserves (cpu: {held} of 5)'
        assert (verdict.reason, verdict.scope) == ("QueueOverused", Scope.QUEUE)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"weight": 0}, "nothing, with a weight of 0"),
        ({"capability": {"example.com/x": 0}}, None),
    ],
)
def test_a_queue_that_deserves_nothing_is_told_why(spec: dict[str, Any], why: str | None) -> None:
    desk = Desk(world(**spec))

    verdict = desk.shares.overused(desk.queue("q"))

    assert (verdict.message if verdict else None) == (why and f'queue "q" holds all that it deserves ({why})')


def test_in_a_cluster_without_nodes_nothing_is_deserved_and_that_is_said() -> None:
    desk = Desk(a_cluster().queue("q").job("more", 1, queue="q", cpu=1))

    verdict = desk.shares.overused(desk.queue("q"))

    assert verdict is not None
    assert "nothing: there is none of what it asks for, or it may have none" in verdict.message


def test_a_queue_is_not_overused_while_it_lacks_one_of_its_resources() -> None:
    given = world(5).job("memory", 1, queue="q", memory="2Gi")
    desk = Desk(given)

    assert desk.shares.overused(desk.queue("q")) is None


@pytest.mark.parametrize(("held", "cpu", "expected"), [(4, "1", True), (4, "1001m", False), (5, "1m", False)])
def test_a_queue_takes_on_no_more_than_it_deserves_to_the_thousandth_of_a_core(
    held: int, cpu: str, expected: bool
) -> None:
    desk = Desk(world(held).job("try", 1, queue="q", cpu=cpu))

    refusal = desk.shares.refusal(desk.queue("q"), desk.stage.task("try-0").template)

    assert (refusal is None) is expected
    if refusal is not None:
        assert refusal.reason == "InsufficientQueueShare"
        assert refusal.message.startswith('queue "q" deserves no more: cpu: requested ')
        assert f"used {held}, limit 5" in refusal.message


def test_a_resource_that_the_task_does_not_ask_for_is_not_looked_at() -> None:
    desk = Desk(world(6).job("memory", 1, queue="q", memory="1Gi"))

    assert desk.shares.refusal(desk.queue("q"), desk.stage.task("memory-0").template) is None


def test_a_third_of_ten_cores_is_not_rounded_up() -> None:
    given = a_cluster().node("n1", cpu=10)
    for name in "abc":
        given.queue(name).job(f"fill-{name}", 10, queue=name, cpu=1)
    given.job("below", 1, queue="a", cpu="3333m").job("above", 1, queue="a", cpu="3334m")
    desk = Desk(given)

    assert desk.shares.refusal(desk.queue("a"), desk.stage.task("below-0").template) is None
    assert desk.shares.refusal(desk.queue("a"), desk.stage.task("above-0").template) is not None


def test_what_is_promised_in_this_session_counts_and_no_longer_when_it_is_taken_back() -> None:
    desk = Desk(world(3))
    stage, queue = desk.stage, desk.queue("q")
    statement = stage.session.statement()
    before = desk.shares.queue_order().key(queue)

    assert statement.pipeline(stage.task("more-0"), stage.node("n1")) is None
    assert desk.shares.queue_order().key(queue) == (0, Fraction(4, 5))
    assert statement.allocate(stage.task("more-1"), stage.node("n1")) is None
    assert desk.shares.queue_order().key(queue) == (0, Fraction(5, 5))
    assert desk.shares.overused(queue) is not None
    statement.discard()

    assert desk.shares.queue_order().key(queue) == before == (0, Fraction(3, 5))


def test_what_is_evicted_is_held_no_longer() -> None:
    desk = Desk(world(5))
    statement = desk.stage.session.statement()

    statement.evict(desk.stage.task("run-0"), "test")

    assert desk.shares.queue_order().key(desk.queue("q")) == (0, Fraction(4, 5))
    statement.discard()
    assert desk.shares.queue_order().key(desk.queue("q")) == (0, Fraction(1))


def test_priority_goes_before_share() -> None:
    given = world(5).queue("low", priority=-1).queue("high", priority=7)
    desk = Desk(given)
    names = ["q", "r", "low", "high"]

    ordered = sorted(names, key=lambda name: desk.shares.queue_order().key(desk.queue(name)))

    assert ordered == ["high", "r", "q", "low"]


@pytest.mark.parametrize(
    ("held", "tasks", "state", "expected"),
    [(3, 1, "Open", True), (3, 2, "Open", True), (3, 3, "Open", False), (5, 1, "Open", False), (3, 1, "Closed", False)],
)
def test_a_queue_may_take_room_from_others_up_to_its_due_while_it_is_open(
    held: int, tasks: int, state: str, expected: bool
) -> None:
    given = world(held)
    next(o for o in given.objects if o["kind"] == "Queue")["status"] = {"state": state}
    desk = Desk(given)
    wanted = [desk.stage.task(f"more-{index}") for index in range(tasks)]

    assert desk.shares.may_preempt(desk.queue("q"), wanted) is expected


# -- admission --------------------------------------------------------------------------------------------------------


def admission(least: dict[str, str] | None, **more: Any) -> Any:
    """The vote on a job."""
    desk = Desk(a_job_to_admit(least, **more))
    return desk.shares.vote(desk.stage.cluster.jobs["default/new"])


@pytest.mark.parametrize("what", ADMISSION)
def test_a_job_is_admitted_when_its_minimum_fits_into_what_its_queue_may_have(what: str) -> None:
    keywords, expected = ADMISSION[what]
    ballot = admission(**keywords)

    assert (ballot.vote is Vote.PERMIT) is expected
    if not expected:
        assert ballot.verdict.message.startswith("queue resource quota insufficient: insufficient ")
        assert 'queue "q"' in ballot.verdict.message


def test_a_refused_job_says_all_that_is_short_with_figures() -> None:
    ballot = admission({"cpu": "3", "memory": "11Gi"}, admitted=2)

    assert ballot.verdict.message == (
        "queue resource quota insufficient: insufficient cpu, insufficient memory "
        '(queue "q": cpu: requested 3, used 2, limit 4; memory: requested 11Gi, used 0, limit 10Gi)'
    )


def test_what_others_are_guaranteed_is_not_admitted_to() -> None:
    given = a_cluster().node("n1", cpu=10).queue("q").queue("r", guarantee={"resource": {"cpu": "8"}})
    given.group("new", "q", phase="Pending", minResources={"cpu": "3"})
    given.group("small", "q", phase="Pending", minResources={"cpu": "2"})

    assert phases(decide(given, conf("enqueue", "proportion"))) == {"new": "Pending", "small": "Inqueue"}


def test_jobs_admitted_in_one_session_count_for_the_next_of_it() -> None:
    given = a_cluster().node("n1", cpu=10).queue("q", capability={"cpu": "5"})
    for index in range(3):
        stamp = f"2026-01-01T00:00:0{index}Z"
        given.group(f"g{index}", "q", phase="Pending", created=stamp, minResources={"cpu": "2"})

    found = phases(decide(given, conf("enqueue", "proportion")))

    assert found == {"g0": "Inqueue", "g1": "Inqueue", "g2": "Pending"}


def test_a_cluster_that_shrinks_below_what_is_held_denies_and_does_not_fail() -> None:
    given = world(10)
    given.objects = [o for o in given.objects if o["kind"] != "Node"]
    given.node("n1", cpu=3)
    desk = Desk(given)

    assert desk.shares.overused(desk.queue("q")) is not None
    assert desk.shares.refusal(desk.queue("q"), desk.stage.task("more-0").template) is not None
    assert desk.shares.queue_order().key(desk.queue("q")) == (0, Fraction(20, 3))


def test_pod_slots_count_for_the_order_of_queues() -> None:
    given = a_cluster().node("n1", cpu=10, pods=8).queue("q").queue("r").group("run", "q", phase="Running")
    given.pod("run-0", "run", on="n1").pod("run-1", "run", on="n1").job("more", 20, queue="q", cpu=1)
    given.job("other", 20, queue="r", cpu=1)
    desk = Desk(given)

    orders = desk.shares.queue_order().key(desk.queue("q")), desk.shares.queue_order().key(desk.queue("r"))

    assert orders == ((0, Fraction(2, 4)), (0, Fraction(0)))


def test_pod_slots_refuse_nobody_and_are_in_no_message() -> None:
    given = a_cluster().node("n1", cpu=10, pods=2).queue("q").queue("r").group("run", "q", phase="Running")
    given.pod("run-0", "run", on="n1", cpu=1).job("more", 20, queue="q", cpu=1).job("other", 20, queue="r", cpu=1)
    desk = Desk(given)

    assert desk.shares.refusal(desk.queue("q"), desk.stage.task("more-0").template) is None
    assert desk.shares.overused(desk.queue("q")) is None


@pytest.mark.parametrize(("held", "expected"), [(0, True), (5, True), (25, False)])
def test_a_task_that_asks_for_nothing_may_reclaim_while_its_queue_lacks_some_of_its_due(
    held: int, expected: bool
) -> None:
    given = a_cluster().node("n1", cpu=10, pods=50).queue("q").queue("r").group("run", "q", phase="Running")
    given.job("more", 20, queue="q", cpu=1).job("idle", 1, queue="q").job("other", 40, queue="r", cpu=1)
    for index in range(held):
        given.pod(f"run-{index}", "run", on="n1", cpu=1)
    desk = Desk(given)

    assert desk.shares.may_preempt(desk.queue("q"), [desk.stage.task("idle-0")]) is expected


# -- reclaiming -------------------------------------------------------------------------------------------------------


def reclaimable(
    held: int,
    *,
    asks: dict[str, str] | None = None,
    victims: int | None = None,
    cpu: str = "1",
    leaves_deserved: bool = False,
) -> int:
    """How many of the pods of q the task of r may take."""
    given = a_cluster().node("n1", cpu=10, memory="10Gi").queue("q").queue("r").group("run", "q", phase="Running")
    given.job("more", 20, queue="q", cpu=1)
    for index in range(held):
        given.pod(f"run-{index}", "run", on="n1", cpu=cpu)
    given.job("try", 1, queue="r", **({"cpu": "1"} if asks is None else asks)).job("fill", 20, queue="r", cpu=1)
    desk = Desk(given, leaves_deserved=leaves_deserved)
    names = [f"run-{index}" for index in range(held if victims is None else victims)]
    chosen = desk.shares.reclaimable(desk.stage.task("try-0"), [desk.stage.task(name) for name in names])
    assert [task.name for task in chosen] == names[: len(chosen)]
    return len(chosen)


RECLAIMABLE: dict[str, tuple[dict[str, Any], int]] = {
    "nobody of a queue below its due": ({"held": 4}, 0),
    "nobody of a queue at its due": ({"held": 5}, 0),
    "as many as bring it down to its due": ({"held": 8}, 3),
    "the last may take it below, as with Volcano": ({"held": 4, "cpu": "1600m"}, 1),
    "or not, where that is said": ({"held": 4, "cpu": "1600m", "leaves_deserved": True}, 0),
    "down to its due": ({"held": 8, "leaves_deserved": True}, 3),
    "nobody for what the queue does not hold": ({"held": 8, "asks": {"memory": "1Gi"}}, 0),
    "whoever asks for nothing may take from whom is above": ({"held": 8, "asks": {}}, 3),
}


@pytest.mark.parametrize("what", RECLAIMABLE)
def test_from_a_queue_above_its_due_may_be_reclaimed(what: str) -> None:
    keywords, expected = RECLAIMABLE[what]

    assert reclaimable(**keywords) == expected


def test_a_queue_with_more_than_its_part_of_the_pod_slots_is_above_its_due() -> None:
    given = a_cluster().node("n1", cpu=100, pods=6).queue("q").queue("r").group("run", "q", phase="Running")
    for index in range(5):
        given.pod(f"run-{index}", "run", on="n1", cpu=1)
    given.job("try", 4, queue="r", cpu=1)
    desk = Desk(given)
    names = [f"run-{index}" for index in range(5)]

    chosen = desk.shares.reclaimable(desk.stage.task("try-0"), [desk.stage.task(name) for name in names])

    assert [task.name for task in chosen] == ["run-0", "run-1"]


def test_without_weights_nobody_deserves_anything() -> None:
    given = world(2, weight=0)
    next(o for o in given.objects if o["metadata"]["name"] == "r")["spec"]["weight"] = 0
    desk = Desk(given)

    assert desk.shares.overused(desk.queue("q")) is not None
    assert desk.shares.refusal(desk.queue("r"), desk.stage.task("other-0").template) is not None
