"""backfill: pods that ask for nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.actions.evictions import World, nominations
from tests.actions.rigs import (
    conf,
    cycle,
    decide,
    least_allocated_first,
    leaving,
    no,
    order_of,
    phases,
    rig,
)
from volsched.framework.config.loading import IN_KUBE_SCHEDULERS_PLACE
from volsched.framework.registration import Registrar
from volsched.framework.rules import EventHandler, SessionClose
from volsched.model.plan import RecordEvent, WritePodCondition
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import Verdict
from volsched.testing.builders import ClusterBuilder, a_cluster

BACKFILL = conf("backfill")
BUSY = {"volcano.sh/task-spec": "busy"}
BOTH = conf("allocate, backfill")


def world(**node: Any) -> ClusterBuilder:
    return a_cluster().node("n1", **node)


def test_pods_that_ask_for_nothing_go_where_the_predicates_let_them_though_nothing_is_free() -> None:
    given = world(cpu=1).pod("full", on="n1", cpu=1).node("n2", cpu=0, taints=[{"key": "k", "effect": "NoSchedule"}])

    assert decide(given.job("j", 2, 1), BACKFILL).bindings == {"j-0": "n1", "j-1": "n1"}


def test_slots_are_counted() -> None:
    decision = decide(world(pods=2).job("j", 3, 1), BACKFILL)

    assert order_of(decision) == ["j-0", "j-1"]
    assert decision.waiting["j-2"].startswith("0/1 nodes are available: 1 ")


def test_a_slot_that_is_being_freed_is_not_free() -> None:
    given = world(pods=1).add(leaving("old", "n1")).job("j")

    assert decide(given, BACKFILL).bindings == {}


def test_in_kube_schedulers_place_pods_that_come_at_once_are_spread_by_their_scores() -> None:
    given = a_cluster()
    for number in range(4):
        given.node(f"n{number}", cpu=8, memory="32Gi")
    for number in range(12):
        given.job(f"j{number}")

    nodes = Counter(decide(given, IN_KUBE_SCHEDULERS_PLACE).bindings.values())

    assert sorted(nodes.values()) == [3, 3, 3, 3]


def test_pods_that_ask_for_something_are_not_touched() -> None:
    assert decide(world().job("j", cpu=1), BACKFILL).bindings == {}


@pytest.mark.parametrize(
    ("configuration", "phase", "bound", "after"),
    [
        (BACKFILL, "Inqueue", True, "Inqueue"),
        (BACKFILL, "Pending", False, "Pending"),
        (BOTH, "Pending", True, "Inqueue"),  # allocate admits where no enqueue action does
        (conf("enqueue, backfill"), "Pending", True, "Inqueue"),
        (conf("backfill, enqueue"), "Pending", False, "Inqueue"),
    ],
)
def test_groups_have_to_be_admitted_where_an_action_admits(
    configuration: str, phase: str, bound: bool, after: str
) -> None:
    decision = decide(world().group("j", phase=phase).pod("j-0", "j"), configuration)

    assert (bool(decision.bindings), phases(decision)) == (bound, {"j": after})


def test_a_queue_is_drained_before_the_next_and_jobs_and_tasks_go_in_their_order() -> None:
    given = world().queue("q1").queue("q2")
    given.add({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9})
    for queue in ("q1", "q2"):
        given.group(f"{queue}a", queue).group(f"{queue}b", queue, priorityClassName="high")
        for job in "ab":
            for number in (1, 2):
                given.pod(f"{queue}-{job}-{number}", f"{queue}{job}", spec={"priority": number})

    order = order_of(decide(given, BACKFILL, least_allocated_first))

    assert order == ["q1-b-2", "q1-b-1", "q1-a-2", "q1-a-1", "q2-b-2", "q2-b-1", "q2-a-2", "q2-a-1"]


def gang(minimum: int, idle: int, busy: int, cpu: Any = 4) -> ClusterBuilder:
    """A gang of pods that ask for nothing and of pods that ask for 2 cores each."""
    given = world(cpu=cpu).group("g", minimum=minimum)
    for number in range(busy):
        given.pod(f"g-busy-{number}", "g", cpu=2)
    for number in range(idle):
        given.pod(f"g-idle-{number}", "g")
    return given


@pytest.mark.parametrize(
    ("minimum", "idle", "busy", "bound"),
    [
        (2, 2, 0, ["g-idle-0", "g-idle-1"]),
        (3, 2, 0, []),
        (3, 1, 2, ["g-busy-0", "g-busy-1", "g-idle-0"]),
        (4, 1, 3, []),  # room for two of three: nobody
        (3, 1, 3, ["g-busy-0", "g-busy-1", "g-idle-0"]),
        (1, 1, 3, ["g-busy-0", "g-busy-1", "g-idle-0"]),  # a minimum of one leaves them to backfill
    ],
)
@pytest.mark.parametrize("backfill", [True, False])
def test_idle_members_start_with_their_gang(
    minimum: int, idle: int, busy: int, bound: list[str], *, backfill: bool
) -> None:
    decision = decide(gang(minimum, idle, busy), BOTH if backfill else conf("allocate"))

    assert order_of(decision) == (bound if backfill or minimum > 1 else bound[:-1])


ON_HOST = [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]
NOWHERE = {"nodeSelector": {"zone": "nowhere"}}


@pytest.mark.parametrize("configuration", [BOTH, conf("allocate"), conf("allocate, preempt, backfill")])
@pytest.mark.parametrize(
    ("node", "spec"),
    [({"pods": 2}, {}), ({}, {"containers": ON_HOST}), ({}, NOWHERE)],
)
@pytest.mark.parametrize("roles", [{}, {"minTaskMember": {"": 3}}])
def test_a_gang_of_pods_that_ask_for_nothing_starts_completely_or_not_at_all(
    configuration: str, node: dict[str, Any], spec: dict[str, Any], roles: dict[str, Any]
) -> None:
    """Slots, host ports and selectors: two of three could go."""
    given = world(**node).group("g", minimum=3, **roles)
    for number in range(3):
        alike = number == 2 or "containers" in spec
        given.pod(f"g-{number}", "g", spec=spec if alike else {})
    decision = decide(given, configuration)

    assert (decision.bindings, decision.evictions) == ({}, [])
    assert "start together, " in decision.waiting["g-0"]


@pytest.mark.parametrize("minima", [{"a": 2}, {"a": 2, "b": 3}])
@pytest.mark.parametrize(("pods", "count"), [(6, 3), (2, 0)])
def test_idle_members_of_a_role_are_tried_though_no_node_takes_the_others_of_it(
    minima: dict[str, int], pods: int, count: int
) -> None:
    """Two roles' minima that are more than that of the gang are not judged."""
    given = world(pods=pods, cpu=4).group("g", minimum=3, minTaskMember=minima)
    role = {"volcano.sh/task-spec": "a"}
    given.pod("g-0", "g", annotations=role, cpu=2).pod("g-1", "g", annotations=role, cpu=3)
    given.pod("g-2", "g", annotations=role).pod("g-3", "g")

    assert sorted(decide(given, conf("allocate")).bindings) == ["g-0", "g-2", "g-3"][:count]


@pytest.mark.parametrize(
    ("action", "slots", "count"), [("preempt", 4, 1), ("preempt", 3, 2), ("reclaim", 4, 1), ("reclaim", 3, 2)]
)
def test_an_idle_member_takes_a_free_slot_and_else_preempts_as_others_do(action: str, slots: int, count: int) -> None:
    """Slots are part of what queues deserve, too."""
    world = World()
    world.node("n1", cpu=4, memory="4Gi", pods=slots).queue("q").queue("p").runs("low", 2, queue="q", cpu=2)
    world.member("low-idle", "low", "low", on="n1")
    world.group("g", "q" if action == "preempt" else "p", 2, priorityClassName="high")
    world.member("g-0", "g", "high", cpu=2).member("g-1", "g", "high")

    decision = decide(world, conf(f"allocate, {action}", "priority gang conformance proportion", "predicates"))

    assert len(decision.evictions) == count
    assert nominations(decision) == {"g-0": "n1", "g-1": "n1"}


def test_a_group_that_becomes_a_gang_leaves_nobody_to_backfill() -> None:
    on = rig(world(pods=2).group("g", minimum=1).pod("full", on="n1"), BOTH)
    cycle(on, *a_cluster().group("g", minimum=2).pod("g-0", "g").pod("g-1", "g").changes())

    assert on.cluster.jobs["default/g"].pending_best_effort == 0
    assert cycle(on, *a_cluster().group("g", minimum=1).changes()).bindings == {"g-0": "n1"}


def test_an_idle_member_of_a_job_that_waits_for_another_role_takes_its_place_in_the_session_only() -> None:
    seen: list[TaskStatus] = []

    def look(registrar: Registrar) -> None:
        tasks = registrar.cluster.tasks.values()
        registrar.register(SessionClose(lambda: seen.extend(t.status for t in tasks if t.name == "g-idle-0")))

    given = world().group("g", minimum=1, minTaskMember={"busy": 1}).pod("g-idle-0", "g")
    decision = cycle(rig(given.pod("g-busy-0", "g", annotations=BUSY, cpu=999), BOTH, look))

    assert (decision.bindings, seen) == ({}, [TaskStatus.ALLOCATED])
    assert decision.waiting["g-idle-0"] == ('gang of PodGroup "default/g" waits: 1 of its pods have to start together')


def test_an_idle_member_is_bound_when_its_job_becomes_ready_after_it() -> None:
    given = world().group("g", minimum=1, minTaskMember={"busy": 1}).pod("g-idle-0", "g")
    decision = decide(given.pod("g-busy-0", "g", annotations=BUSY, cpu=2), conf("backfill, allocate"))

    assert sorted(order_of(decision)) == ["g-busy-0", "g-idle-0"]
    told = [s for s in decision.steps if isinstance(s, RecordEvent) and s.kind == "Pod"]
    assert told == [], "what it waited for in between is nobody's business"
    assert not any(isinstance(step, WritePodCondition) for step in decision.steps)


def test_a_placement_that_a_handler_refuses_is_not_tried_again_in_the_session() -> None:
    heard: list[str] = []

    class Slots:
        def allocate(self, task: TaskInfo) -> Verdict | None:
            heard.append(task.name)
            return no("no slot") if task.name == "j-0" else None

        def deallocate(self, task: TaskInfo) -> None:
            pass

    decision = decide(world().job("j", 2, 1), BACKFILL, lambda r: r.register(EventHandler(Slots())))

    assert (decision.bindings, heard) == ({"j-1": "n1"}, ["j-0", "j-1"])
    assert decision.waiting == {"j-0": "no slot"}


@pytest.mark.parametrize("spec", [{"schedulingGates": [{"name": "g"}]}, {"schedulerName": "other"}])
def test_pods_that_are_not_to_be_placed_are_not(spec: dict[str, Any]) -> None:
    assert decide(world().group("j", minimum=0).pod("p", "j", spec=spec), BACKFILL).bindings == {}
