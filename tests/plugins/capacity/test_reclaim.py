"""Who may take room from whom."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.rigs import conf
from tests.plugins.capacity.desk import Desk, a_world, tree_conf
from volsched.testing.builders import ClusterBuilder, a_cluster, a_rig

MAY: dict[str, tuple[dict[str, Any], int, bool]] = {
    # what: (the queue, how many tasks of a core, whether it may take room from others for them)
    "below its due": ({"held": 3, "deserved": {"cpu": "4"}}, 1, True),
    "with them at its due": ({"held": 2, "deserved": {"cpu": "4"}}, 2, True),
    "with them above its due": ({"held": 3, "deserved": {"cpu": "4"}}, 2, False),
    "without a due": ({}, 1, False),
    "with a due of something else": ({"deserved": {"memory": "4Gi"}}, 1, False),
    "with a guarantee": ({"guarantee": {"resource": {"cpu": "1"}}}, 1, True),
    "above what it may have": ({"held": 3, "deserved": {"cpu": "9"}, "capability": {"cpu": "3"}}, 1, False),
}


@pytest.mark.parametrize("what", MAY)
def test_a_queue_takes_room_from_others_up_to_its_due(what: str) -> None:
    spec, tasks, expected = MAY[what]
    desk = Desk(a_world(**spec))

    assert desk.may_preempt("q", *[f"more-{index}" for index in range(tasks)]) is expected


def test_a_closed_queue_takes_none() -> None:
    given = a_world(deserved={"cpu": "4"})
    next(item for item in given.objects if item["metadata"]["name"] == "q")["status"] = {"state": "Closed"}

    assert Desk(given).may_preempt("q", "more-0") is False


def test_one_resource_below_its_due_is_enough() -> None:
    given = a_world(held=3, cpu=2, deserved={"cpu": "4", "memory": "4Gi"})
    desk = Desk(given.job("both", 1, queue="q", cpu=1, memory="1Gi"))

    assert desk.may_preempt("q", "both-0") is True
    assert desk.may_preempt("q", "more-0") is False


def test_all_resources_have_to_stay_within_what_it_may_have() -> None:
    given = a_world(held=3, deserved={"memory": "4Gi"}, capability={"cpu": "3"})
    given.job("both", 1, queue="q", cpu=1, memory="1Gi").job("memory", 1, queue="q", memory="1Gi")
    desk = Desk(given)

    assert desk.may_preempt("q", "both-0") is False
    assert desk.may_preempt("q", "memory-0") is True


def reclaimed(*, held: int = 4, asks: dict[str, str] | None = None, **spec: Any) -> int:
    """How many of the pods of q, of a core and a GiB, a task of r may take."""
    given = a_cluster().node("n1", cpu=10, memory="10Gi").queue("q", **spec).queue("r", deserved={"cpu": "9"})
    given.group("run", "q", phase="Running").group("try", "r").pod("try-0", "try", **(asks or {"cpu": "1"}))
    for index in range(held):
        given.pod(f"run-{index}", "run", on="n1", cpu=1, memory="1Gi")
    return len(Desk(given).victims("try-0", *[f"run-{index}" for index in range(held)]))


RECLAIMED: dict[str, tuple[dict[str, Any], int]] = {
    "all of a queue without a due": ({}, 4),
    "down to its due": ({"deserved": {"cpu": "3"}}, 1),
    "the last may take it below": ({"deserved": {"cpu": "2500m"}}, 2),
    "nobody of a queue at its due": ({"deserved": {"cpu": "4"}}, 0),
    "above its due of one resource": ({"deserved": {"cpu": "4", "memory": "3Gi"}}, 1),
    "all where the due is of something else": ({"deserved": {"example.com/x": "1"}}, 4),
    "no memory deserved says nothing of memory": ({"deserved": {"cpu": "4", "memory": "0"}}, 0),
    "nobody below a guarantee": ({"guarantee": {"resource": {"cpu": "3"}}}, 1),
    "nor of something that the pod does not have": ({"guarantee": {"resource": {"example.com/x": "1"}}}, 0),
    "a guarantee of devices is another matter": ({"guarantee": {"resource": {"deviceclass/x": "1"}}}, 4),
    "slots that are guaranteed": ({"guarantee": {"resource": {"pods": "2"}}}, 2),
    "nobody for what they do not have": ({"asks": {"example.com/x": "1"}}, 0),
}


@pytest.mark.parametrize("what", RECLAIMED)
def test_pods_that_may_go(what: str) -> None:
    keywords, expected = RECLAIMED[what]

    assert reclaimed(**keywords) == expected


def test_none_of_a_device_deserved_is_a_due_of_it() -> None:
    given = a_cluster().node("n1", cpu=10, **{"example.com/gpu": 4})
    given.queue("q", deserved={"cpu": "9", "example.com/gpu": "0"}).queue("r", deserved={"cpu": "9"})
    given.group("run", "q", phase="Running").pod("run-0", "run", on="n1", cpu=1, **{"example.com/gpu": 1})
    given.pod("run-1", "run", on="n1", cpu=1).job("try", 1, queue="r", cpu=1)

    assert Desk(given).victims("try-0", "run-0", "run-1") == ["run-0"]


def test_the_least_important_pods_go_first_where_not_all_may() -> None:
    given = a_world(held=3, deserved={"cpu": "2"})
    for item, stamp in zip((o for o in given.objects if o["kind"] == "Pod"), range(2, 60), strict=False):
        item["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{stamp:02}Z"

    assert Desk(given).victims("other-0", "run-0", "run-1", "run-2") == ["run-2"]


# -- a hierarchy ------------------------------------------------------------------------------------------------------


def a_tree(**specs: dict[str, Any]) -> ClusterBuilder:
    """root > x > x1, x2 and root > y > y1; two pods of x1 and of y1 run, one of each leaf wants in."""
    given = a_cluster().node("n1", cpu=10, memory="10Gi")
    for name, parent in (("x", "root"), ("y", "root"), ("x1", "x"), ("x2", "x"), ("y1", "y")):
        given.queue(name, parent=parent, **specs.get(name, {}))
    for name in ("x1", "y1"):
        given.group(f"run-{name}", name, phase="Running")
        for index in range(2):
            given.pod(f"run-{name}-{index}", f"run-{name}", on="n1", cpu=1)
    for name in ("x1", "x2", "y1"):
        given.job(f"try-{name}", 1, queue=name, cpu=1)
    return given


ALL = ("run-x1-0", "run-x1-1", "run-y1-0", "run-y1-1")


def test_a_queue_above_that_is_below_its_due_lets_one_below_it_reclaim() -> None:
    given = a_tree(x={"deserved": {"cpu": "4"}})

    assert Desk(given, tree=True).may_preempt("x2", "try-x2-0") is False
    assert Desk(given, ancestors=1).may_preempt("x2", "try-x2-0") is True
    assert Desk(given, ancestors=1).may_preempt("y1", "try-y1-0") is False


def test_how_far_above_is_said() -> None:
    given = a_tree(x={"deserved": {"cpu": "4"}}).queue("deep", parent="x2").job("try-deep", 1, queue="deep", cpu=1)

    assert Desk(given, ancestors=1).may_preempt("deep", "try-deep-0") is False
    assert Desk(given, ancestors=2).may_preempt("deep", "try-deep-0") is True


def test_a_pod_stays_when_the_queue_above_its_own_is_not_above_its_due() -> None:
    given = a_tree(y={"deserved": {"cpu": "2"}}, x2={"deserved": {"cpu": "1"}})

    assert Desk(given, tree=True).victims("try-x2-0", *ALL) == list(ALL)
    assert Desk(given, ancestors=1).victims("try-x2-0", *ALL) == ["run-x1-0", "run-x1-1"]


def test_queues_below_the_same_one_do_not_take_from_each_other_what_neither_deserves() -> None:
    given = a_tree(x={"deserved": {"cpu": "9"}})

    assert Desk(given, tree=True).victims("try-x2-0", *ALL[:2]) == ["run-x1-0", "run-x1-1"]
    assert Desk(given, ancestors=1).victims("try-x2-0", *ALL[:2]) == []
    assert Desk(given, ancestors=1).victims("try-y1-0", *ALL[:2]) == []
    assert Desk(a_tree(), ancestors=1).victims("try-y1-0", *ALL[:2]) == ["run-x1-0", "run-x1-1"]


def test_a_queue_above_keeps_its_guarantee_unless_it_is_above_both() -> None:
    given = a_tree(x={"guarantee": {"resource": {"cpu": "1"}}}, x2={"deserved": {"cpu": "1"}})

    assert len(Desk(given, tree=True).victims("try-y1-0", *ALL[:2])) == 1
    assert len(Desk(given, tree=True).victims("try-x2-0", *ALL[:2])) == 2


def test_the_nearest_in_the_hierarchy_go_first() -> None:
    desk = Desk(a_tree(), tree=True)
    listed = [desk.stage.task(name) for name in ("run-y1-0", "run-x1-0")]

    near = [task.name for task in desk.session.rules.in_order_of_victims(desk.stage.task("try-x2-0"), listed)]

    assert near == ["run-x1-0", "run-y1-0"]


RECLAIM = ("reclaim", "gang predicates capacity")


def test_nobody_is_evicted_for_a_pod_that_a_queue_above_could_not_have_even_then() -> None:
    given = a_cluster().node("n1", cpu=4).queue("x", capability={"cpu": "2"}).queue("y")
    given.queue("x1", parent="x").queue("x2", parent="x", deserved={"cpu": "2"})
    given.group("mine", "x1", phase="Running", minimum=0).group("theirs", "y", phase="Running", minimum=0)
    given.pod("mine-0", "mine", on="n1", cpu=2).pod("theirs-0", "theirs", on="n1", cpu=2)
    given.job("try", 1, queue="x2", cpu=2)

    decision = a_rig(given, tree_conf(*RECLAIM)).cycle()

    assert decision.evictions == ["mine-0"]
    sheltered = ClusterBuilder([*given.objects])
    sheltered.objects = [o for o in given.objects if o["metadata"]["name"] != "x1"]
    sheltered.queue("x1", parent="x", reclaimable=False)
    assert a_rig(sheltered, tree_conf(*RECLAIM)).cycle().evictions == []
    assert a_rig(sheltered, conf(*RECLAIM)).cycle().evictions == ["theirs-0"]


# -- beyond the minimum of a job --------------------------------------------------------------------------------------

DUE: dict[str, tuple[dict[str, Any], bool]] = {
    "below its due": ({"held": 3, "deserved": {"cpu": "4"}}, True),
    "above its due with the pod": ({"held": 4, "deserved": {"cpu": "4"}}, False),
    "of one resource above it": ({"held": 3, "deserved": {"cpu": "4", "memory": "512Mi"}}, False),
    "what it does not say it deserves is not compared": ({"deserved": {"cpu": "4"}}, True),
    "nor are cpu and memory of 0": ({"deserved": {"cpu": "4", "memory": "0"}}, True),
    "without a due": ({}, False),
    "with a guarantee": ({"guarantee": {"resource": {"cpu": "1"}}}, True),
}


@pytest.mark.parametrize("what", DUE)
def test_a_queue_goes_on_while_it_holds_no_more_than_its_due_with_the_pod(what: str) -> None:
    spec, expected = DUE[what]
    given = a_world(**spec).job("both", 1, queue="q", cpu=1, memory="1Gi")

    assert Desk(given).is_within_deserved("q", "both-0") is expected


BY_DUE: dict[str, tuple[dict[str, Any], int]] = {
    "all of a queue without a due": ({}, 4),
    "down to its due": ({"deserved": {"cpu": "3"}}, 1),
    "the last may not take it below": ({"deserved": {"cpu": "2500m"}}, 1),
    "nor of another resource": ({"deserved": {"cpu": "2", "memory": "3Gi"}}, 1),
    "nobody of a queue at its due": ({"deserved": {"cpu": "4"}}, 0),
    "nobody below a guarantee": ({"guarantee": {"resource": {"cpu": "3"}}}, 1),
}


@pytest.mark.parametrize("what", BY_DUE)
def test_pods_that_may_go_beyond_the_minimum(what: str) -> None:
    spec, expected = BY_DUE[what]
    given = a_cluster().node("n1", cpu=10, memory="10Gi").queue("q", **spec).queue("r", deserved={"cpu": "9"})
    given.group("run", "q", phase="Running").job("try", 1, queue="r", cpu=1)
    names = [f"run-{index}" for index in range(4)]
    for name in names:
        given.pod(name, "run", on="n1", cpu=1, memory="1Gi")

    assert len(Desk(given).victims_by_share("try-0", *names)) == expected


def test_the_queue_above_must_keep_its_due_too() -> None:
    given = a_tree(y={"deserved": {"cpu": "2"}}, x2={"deserved": {"cpu": "1"}})

    assert Desk(given, tree=True).victims("try-x2-0", *ALL) == [*ALL]
    assert Desk(given, tree=True).victims_by_share("try-x2-0", *ALL) == ["run-x1-0", "run-x1-1"]


def test_the_queue_above_must_not_come_to_hold_more_than_its_due() -> None:
    given = a_tree(x={"deserved": {"cpu": "2"}}, x2={"deserved": {"cpu": "1"}})

    assert Desk(given, tree=True).is_within_deserved("x2", "try-x2-0") is True
    assert Desk(given, tree=True).victims_by_share("try-x2-0", *ALL) == ["run-x1-0", "run-x1-1"]
