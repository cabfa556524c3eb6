"""allocate: gangs whole or not at all, turns between queues, roles, nominations and promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from actions.attempt import Attempt
from tests.actions.rigs import (
    GANG,
    NODES,
    Tries,
    conf,
    cycle,
    decide,
    events,
    gone,
    least_allocated_first,
    leaving,
    no,
    order_of,
    phases,
    quota,
    rig,
)
from volsched.framework.registration import Registrar
from volsched.framework.rules import EventHandler, Overused, SessionClose
from volsched.mirror.settings import MirrorSettings
from volsched.model.job import JobInfo, JobProperties
from volsched.model.pods.task import PodProperties, TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import TaskStatus
from volsched.model.verdict import ConditionReason, Verdict
from volsched.testing.builders import ClusterBuilder, a_cluster

ALLOCATE = conf("allocate")
BOTH = conf("enqueue, allocate")
ALONE = conf("allocate", "priority", NODES)
ROLE = "volcano.sh/task-spec"


def world(cpu: Any = 4) -> ClusterBuilder:
    return a_cluster().node("n1", cpu=cpu)


def role(name: str, where: str | None = None) -> dict[str, Any]:
    """A pod's role, and the node that it must go on."""
    spec = {"nodeSelector": {"kubernetes.io/hostname": where}} if where else {}
    return {"annotations": {ROLE: name} if name else {}, "spec": spec}


# -- gangs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tasks", "minimum", "room", "bound"),
    [
        (3, 3, 3, 3),
        (3, 3, 2, 0),
        (3, 3, 0, 0),
        (5, 2, 1, 0),
        (5, 2, 2, 2),
        (5, 2, 4, 4),
        (5, 2, 9, 5),
        (3, 1, 2, 2),
        (3, 0, 2, 2),
        (2, 3, 9, 0),  # fewer pods than it starts with
    ],
)
def test_a_gang_gets_its_minimum_or_nothing_and_then_what_there_is(
    tasks: int, minimum: int, room: int, bound: int
) -> None:
    decision = decide(world(room).job("j", tasks, minimum, cpu=1), ALLOCATE)

    assert order_of(decision) == [f"j-{number}" for number in range(bound)]


def test_members_that_hold_room_already_count_towards_the_minimum() -> None:
    given = world(3).group("j", minimum=3).pod("j-0", "j", on="n1", cpu=1)
    given.pod("j-1", "j", cpu=1).pod("j-2", "j", cpu=1)

    assert order_of(decide(given, ALLOCATE)) == ["j-1", "j-2"]


def test_a_gang_that_does_not_fit_leaves_the_room_to_the_next() -> None:
    given = world(4).job("big", 5, cpu=1).job("small", 4, cpu=1)

    assert order_of(decide(given, ALLOCATE)) == ["small-0", "small-1", "small-2", "small-3"]


def test_a_gang_may_be_spread_over_nodes() -> None:
    decision = decide(world(2).node("n2", cpu=2).job("j", 4, cpu=1), ALLOCATE)

    assert sorted(decision.bindings.values()) == ["n1", "n1", "n2", "n2"]


def test_a_gang_that_has_its_minimum_stands_behind_those_that_have_not() -> None:
    given = world(3).job("a", 3, 1, cpu=1).job("b", 1, cpu=1).job("c", 1, cpu=1)

    assert order_of(decide(given, ALLOCATE)) == ["a-0", "b-0", "c-0"]


def test_priority_goes_before_age_and_tasks_go_by_theirs() -> None:
    given = world(3)
    given.add({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9})
    given.group("old").pod("old-0", "old", cpu=1)
    given.group("new", priorityClassName="high")
    for number, priority in enumerate((1, 7, 5)):
        given.pod(f"new-{number}", "new", cpu=1, spec={"priority": priority})

    assert order_of(decide(given, ALLOCATE)) == ["new-1", "new-2", "new-0"]


def test_a_job_with_too_few_pods_is_not_looked_at_and_says_so() -> None:
    tries = Tries()
    decision = decide(world().job("j", 2, 3, cpu=1), ALLOCATE, tries)

    assert tries.names == []
    assert ("PodGroup/j", "NotEnoughTasks", 'PodGroup "default/j" has 2 of the 3 pods that it starts with') in events(
        decision
    )


def test_a_gang_that_waits_says_for_what() -> None:
    decision = decide(world(2).job("j", 3, cpu=1), ALLOCATE)

    full = "0/1 nodes are available: 1 Insufficient cpu."
    waits = (
        f'gang of PodGroup "default/j" waits: 3 of its 3 pods have to start together, 2 could now; the others: {full}'
    )
    assert decision.waiting == {"j-0": waits, "j-1": waits, "j-2": full}


# -- who is looked at -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configuration", "phase", "bound", "after"),
    [
        (ALLOCATE, "Inqueue", True, "Inqueue"),
        (ALLOCATE, "Pending", True, "Inqueue"),  # nobody else will admit it
        (ALLOCATE, "", True, "Inqueue"),
        (ALLOCATE, "Running", True, "Pending"),
        (BOTH, "Pending", True, "Inqueue"),
        (conf("allocate, enqueue"), "Pending", False, "Inqueue"),  # admitted too late for this session
        (conf("allocate, enqueue"), "Inqueue", True, "Inqueue"),
    ],
)
def test_groups_have_to_be_admitted_where_an_action_admits(
    configuration: str, phase: str, bound: bool, after: str
) -> None:
    decision = decide(world().group("j", phase=phase).pod("j-0", "j", cpu=1), configuration)

    assert (decision.bindings, phases(decision)) == ({"j-0": "n1"} if bound else {}, {"j": after})


def test_a_job_without_waiting_tasks_stays_as_it_is_and_blocks_nobody() -> None:
    given = world().group("done", phase="Pending").pod("p", "done", on="n1", cpu=1).job("j", cpu=1)

    assert order_of(decide(given, ALLOCATE)) == ["j-0"]


def test_a_group_that_is_rejected_keeps_its_pods_waiting() -> None:
    given = world().group("j", phase="Pending", minResources={"cpu": "50"}).pod("j-0", "j", cpu=1)
    decision = decide(given, conf("enqueue, allocate", GANG, "overcommit predicates"))

    assert (decision.bindings, phases(decision)) == ({}, {"j": "Pending"})
    assert decision.waiting["j-0"].startswith("resource in cluster is overused")


def test_a_plain_pod_is_a_job_of_one_and_needs_no_admission() -> None:
    on = rig(world().pod("p", cpu=1), BOTH, settings=MirrorSettings(plain_pods=True))
    assert cycle(on).bindings == {"p": "n1"}

    waits = cycle(rig(world().pod("p", cpu=1), BOTH))
    assert waits.bindings == {}
    assert waits.waiting["p"].startswith("a PodGroup for this pod does not exist")


@pytest.mark.parametrize(
    "pod",
    [
        {"spec": {"schedulingGates": [{"name": "g"}]}, "cpu": 1},
        {"spec": {"schedulerName": "other"}, "cpu": 1},
        {},  # best effort: backfill's
    ],
)
def test_pods_that_are_not_to_be_placed_here_are_not_tried(pod: dict[str, Any]) -> None:
    tries = Tries()
    decision = decide(world().group("j", minimum=0).pod("p", "j", **pod), ALLOCATE, tries)

    assert (decision.bindings, tries.names) == ({}, [])


def test_a_group_without_a_queue_waits_and_says_so() -> None:
    decision = decide(world().job("j", queue="nowhere", cpu=1), ALLOCATE)

    assert decision.waiting == {"j-0": 'queue "nowhere" of PodGroup "default/j" does not exist'}


# -- turns ------------------------------------------------------------------------------------------------------------


def two_queues(tasks: int = 3, minimum: int = 1, cpu: int = 6) -> ClusterBuilder:
    given = world(cpu).queue("q1").queue("q2")
    return given.job("a", tasks, minimum, "q1", cpu=1).job("b", tasks, minimum, "q2", cpu=1)


def test_queues_take_turns_task_by_task_once_gangs_have_their_minimum() -> None:
    assert order_of(decide(two_queues(), ALLOCATE, least_allocated_first)) == ["a-0", "b-0", "a-1", "b-1", "a-2", "b-2"]


def test_a_gang_takes_its_minimum_in_one_turn() -> None:
    order = order_of(decide(two_queues(tasks=4, minimum=2, cpu=8), ALLOCATE, least_allocated_first))

    assert order == ["a-0", "a-1", "b-0", "b-1", "a-2", "b-2", "a-3", "b-3"]


def test_without_an_order_of_queues_the_oldest_goes_on() -> None:
    assert order_of(decide(two_queues(cpu=4), ALLOCATE)) == ["a-0", "a-1", "a-2", "b-0"]


def test_a_queue_that_has_its_due_gets_nothing_more_in_this_action() -> None:
    asked: list[str] = []

    def overused(registrar: Registrar) -> None:
        def judge(queue: Any) -> Verdict | None:
            asked.append(queue.name)
            return no("has its due") if queue.allocated.get("cpu", 0) >= 2_000 else None

        registrar.register(Overused(judge))

    decision = decide(two_queues().job("c", queue="q1", cpu=1), ALLOCATE, overused)

    assert order_of(decision) == ["a-0", "c-0", "b-0", "b-1"]
    assert decision.cluster.jobs["default/a"].refusal == no("has its due")
    assert asked == ["q1", "q1", "q1", "q2", "q2", "q2"]


def test_a_task_that_its_queue_may_not_take_on_is_passed_over() -> None:
    given = world(8).group("j", minimum=0).pod("j-w-0", "j", cpu=3).pod("j-w-1", "j", cpu=2).pod("j-w-2", "j", cpu=1)

    decision = decide(given, ALLOCATE, quota({"default": 3_500}))

    assert order_of(decision) == ["j-w-0"]
    assert decision.waiting == {"j-w-1": "quota of default", "j-w-2": "quota of default"}
    assert order_of(decide(given, ALLOCATE, quota({"default": 2_500}))) == ["j-w-1"]


def test_a_gang_over_its_queues_quota_gets_nothing_and_the_queue_keeps_it() -> None:
    given = world(8).queue("q").job("big", 3, 3, "q", cpu=1).job("fits", 2, 2, "q", cpu=1)

    decision = decide(given, ALLOCATE, quota({"q": 2_000}))

    assert order_of(decision) == ["fits-0", "fits-1"]
    assert decision.waiting["big-2"] == "quota of q"


def test_a_placement_that_a_handler_refuses_counts_as_none() -> None:
    class Cards:
        def allocate(self, task: TaskInfo) -> Verdict | None:
            return no("no card left") if task.name == "j-1" else None

        def deallocate(self, task: TaskInfo) -> None:
            pass

    given = world(8).job("j", 3, 3, cpu=1).job("k", 1, cpu=1)
    decision = decide(given, ALLOCATE, lambda r: r.register(EventHandler(Cards())))

    assert order_of(decision) == ["k-0"]
    assert decision.waiting["j-1"] == "no card left"
    assert decision.waiting["j-0"].endswith("1 could now; the others: no card left")


# -- without the gang plugin ------------------------------------------------------------------------------------------


def test_without_gangs_every_task_is_placed_by_itself() -> None:
    assert order_of(decide(world(2).job("j", 3, 3, cpu=1), ALONE)) == ["j-0", "j-1"]


@pytest.mark.parametrize("minimum", [0, 1, 2])
def test_without_gangs_a_task_that_fits_nowhere_stops_no_other(minimum: int) -> None:
    """Rule C ends the turn; the job goes back in line with the tasks that are left."""
    given = world(4).group("j", minimum=minimum).pod("j-w-0", "j", cpu=9).pod("j-w-1", "j", cpu=1)

    assert order_of(decide(given, ALONE)) == ["j-w-1"]


# -- roles ------------------------------------------------------------------------------------------------------------


def test_a_role_that_no_node_takes_is_not_tried_again_in_the_session() -> None:
    tries = Tries()
    given = world(8).group("j", minimum=1)
    for number in range(3):
        given.pod(f"j-m-{number}", "j", cpu=1, **role("master", "nowhere"))
    given.pod("j-w-3", "j", cpu=1, **role("worker"))

    decision = decide(given, ALLOCATE, tries)

    assert (order_of(decision), tries.names) == (["j-w-3"], ["j-m-0", "j-w-3"])
    assert decision.waiting["j-m-0"].startswith("0/1 nodes are available: ")
    assert decision.waiting["j-m-2"] == 'no node takes a task of role "master" of PodGroup "default/j"'


def test_tasks_without_a_role_never_share_their_fate() -> None:
    tries = Tries()
    given = world(8).group("j", minimum=1)
    for number in range(3):
        given.pod(f"j-m-{number}", "j", cpu=1, **role("", "nowhere"))

    decide(given, ALLOCATE, tries)

    assert tries.names == ["j-m-0", "j-m-1", "j-m-2"]


def test_another_job_may_have_a_role_of_that_name() -> None:
    given = world(8).group("j", minimum=0).pod("j-0", "j", cpu=9, **role("worker"))
    given.group("k", minimum=0).pod("k-0", "k", cpu=1, **role("worker"))

    assert order_of(decide(given, ALLOCATE)) == ["k-0"]


LETTERS = {"p": TaskStatus.PENDING, "r": TaskStatus.RUNNING, "s": TaskStatus.SUCCEEDED, "f": TaskStatus.FAILED}


def attempt(tasks: str, minimum: int, minima: Mapping[str, int], failed: str) -> Attempt:
    """Tasks as ``role:status`` words, for example ``a:p a:r b:p``; roles that failed on all nodes."""
    job = JobInfo("default", "j")
    job.spec = JobProperties(min_available=minimum, min_roles=minima)
    for number, word in enumerate(tasks.split()):
        name, _, letter = word.rpartition(":")
        task = TaskInfo(str(number), "default", f"t{number}", PodTemplate(0))
        task.spec, task.status = PodProperties(role=name), LETTERS[letter]
        job.add_member(task)
    return Attempt(job, [], dict.fromkeys(failed.split(","), ConditionReason.UNSCHEDULABLE))


@pytest.mark.parametrize(
    ("tasks", "minimum", "minima", "failed", "goes_on"),
    [
        # as many as there are tasks: one that fits nowhere is one too many
        ("a:p a:p", 2, {}, "a", False),
        ("a:p b:p", 2, {"a": 1, "b": 1}, "a", False),
        ("a:r b:p", 2, {"a": 1, "b": 1}, "b", False),
        # no minima of roles: others may do
        ("a:p b:p c:p", 2, {}, "a", True),
        (":p :p :p", 2, {}, "", True),
        ("a:p a:p a:p", 1, {}, "a", True),
        # minima that the job's minimum covers: a failed role must have its own already
        ("a:p a:p b:p b:p", 2, {"a": 1, "b": 1}, "a", False),
        ("a:r a:p b:p b:p", 2, {"a": 1, "b": 1}, "a", True),
        ("a:s a:p b:p b:p", 2, {"a": 1, "b": 1}, "a", True),
        ("a:f a:p b:p b:p", 2, {"a": 1, "b": 1}, "a", False),
        ("a:r a:p b:p b:p", 3, {"a": 2, "b": 1}, "a", False),
        ("a:p a:p b:p b:p", 2, {"a": 2, "b": 0}, "b", True),  # a role without a minimum may fail
        ("a:p a:p b:p b:p", 2, {"a": 2, "b": 0}, "a", False),
        ("a:p a:p b:p c:p", 2, {"a": 2}, "c", True),  # as may one that nobody names
        ("a:r a:p b:p b:p", 2, {"a": 1, "b": 1}, "a,b", False),
        # minima above the job's: can ready and waiting tasks of roles that did not fail still be enough?
        ("a:p a:p b:p b:p", 2, {"a": 2, "b": 2}, "a", True),
        ("a:p a:p a:p b:p", 2, {"a": 2, "b": 2}, "a", False),
        ("a:r a:p a:p b:p", 2, {"a": 2, "b": 2}, "a", True),
        ("a:r a:p b:p b:p", 3, {"a": 2, "b": 2}, "a", True),
        ("a:r a:p b:p b:p", 3, {"a": 2, "b": 2}, "a,b", False),
    ],
)
def test_rule_c_says_whether_a_gang_can_still_start(
    tasks: str, minimum: int, minima: Mapping[str, int], failed: str, goes_on: bool
) -> None:
    assert attempt(tasks, minimum, minima, failed).can_still_start() is goes_on


@pytest.mark.parametrize(
    ("minimum", "minima", "bound"),
    [
        (2, {"master": 1, "worker": 1}, []),  # no master anywhere: nothing
        (2, {"master": 0, "worker": 2}, ["j-w-2", "j-w-3"]),
        (2, {}, ["j-w-2", "j-w-3"]),
        (3, {"master": 1, "worker": 1}, []),
        (1, {"master": 1, "worker": 1}, ["j-w-2", "j-w-3"]),  # the minima ask for more than the job: they do not count
    ],
)
def test_a_role_that_fails_stops_its_gang_when_the_gang_needs_it(
    minimum: int, minima: dict[str, int], bound: list[str]
) -> None:
    given = world(8).group("j", minimum=minimum, minTaskMember=minima)
    for number in range(2):
        given.pod(f"j-m-{number}", "j", cpu=1, **role("master", "nowhere"))
    for number in (2, 3):
        given.pod(f"j-w-{number}", "j", cpu=1, **role("worker"))

    assert order_of(decide(given, ALLOCATE)) == bound


def workers_and_a_master(cpu: int) -> ClusterBuilder:
    given = world(3).group("j", minimum=3, minTaskMember={"master": 1, "worker": 2})
    for number in range(3):
        given.pod(f"j-w-{number}", "j", cpu=1, **role("worker"))
    return given.pod("j-z-9", "j", cpu=cpu, **role("master"))


def test_a_gang_needs_every_roles_minimum_and_not_only_the_sum() -> None:
    started = decide(workers_and_a_master(1), ALLOCATE).bindings
    assert set(started) == {"j-w-0", "j-w-1", "j-z-9"}, "three workers fit and are three, and one gives way"
    assert decide(workers_and_a_master(2), ALLOCATE).bindings == {}, "there is no room for the master beside two"
    given = workers_and_a_master(1).node("n2", cpu=1)
    assert order_of(decide(given, ALLOCATE)) == ["j-w-0", "j-w-1", "j-w-2", "j-z-9"]


# -- nominated nodes --------------------------------------------------------------------------------------------------


def nominated(name: str, **rest: Any) -> ClusterBuilder:
    given = a_cluster().node("n1", cpu=2).node("n2", cpu=8)
    for node, pod in rest.items():
        given.add(leaving(f"leaving-{node}", node, cpu=str(pod)))
    given.job("j", cpu=1)
    given.objects[-1]["status"]["nominatedNodeName"] = name
    return given


@pytest.mark.parametrize(
    ("given", "placed"),
    [
        (nominated("n1"), {"j-0": "n1"}),  # though n2 has more room
        (nominated(""), {"j-0": "n2"}),
        (nominated("elsewhere"), {"j-0": "n2"}),
        (nominated("n1", n1=2), {"j-0": "n2"}),  # the promised node has no room yet, another has
        (nominated("n1", n1=2, n2=8), {}),
    ],
)
def test_a_task_goes_where_it_was_promised_room_when_that_is_there(
    given: ClusterBuilder, placed: dict[str, str]
) -> None:
    assert decide(given, ALLOCATE).bindings == placed


def test_a_nominated_node_that_refuses_now_is_none() -> None:
    given = nominated("n1")
    given.objects[0]["spec"] = {"unschedulable": True}

    assert decide(given, ALLOCATE).bindings == {"j-0": "n2"}


# -- room that is being freed -----------------------------------------------------------------------------------------


def pipelined(registrar: Registrar, seen: list[str]) -> None:
    tasks = registrar.cluster.tasks.values()
    registrar.register(
        SessionClose(lambda: seen.extend(sorted(t.name for t in tasks if t.status is TaskStatus.PIPELINED)))
    )


def test_a_gang_that_only_waits_for_room_being_freed_keeps_it_in_the_session() -> None:
    seen: list[str] = []
    given = world(4).add(leaving("old", "n1", cpu="3")).job("gang", 2, cpu=2).job("later", 1, cpu=2)

    on = rig(given, ALLOCATE, lambda s: pipelined(s, seen))
    decision = cycle(on)

    assert (decision.bindings, seen) == ({}, ["gang-0", "gang-1"])
    message = 'pod "default/gang-0" can go to node "n1" once pods that are being deleted there are gone'
    assert decision.waiting["gang-0"] == message
    assert decision.waiting["later-0"] == "0/1 nodes are available: 1 Insufficient cpu."

    decision = cycle(on, gone(on, "old"))
    assert order_of(decision) == ["gang-0", "gang-1"]


def test_a_gang_that_not_even_freed_room_makes_ready_keeps_nothing() -> None:
    seen: list[str] = []
    given = world(4).add(leaving("old", "n1", cpu="3")).job("gang", 3, cpu=2).job("later", 1, cpu=1)

    decision = decide(given, ALLOCATE, lambda s: pipelined(s, seen))

    assert (decision.bindings, seen) == ({"later-0": "n1"}, [])


def test_a_gang_that_has_its_minimum_is_bound_and_the_rest_of_it_is_promised_room() -> None:
    seen: list[str] = []
    given = world(4).add(leaving("old", "n1", cpu="2")).job("gang", 4, 2, cpu=1)

    decision = decide(given, ALLOCATE, lambda s: pipelined(s, seen))

    assert (order_of(decision), seen) == (["gang-0", "gang-1"], ["gang-2", "gang-3"])


def test_room_now_is_taken_before_room_later() -> None:
    given = world(4).add(leaving("old", "n1", cpu="4")).node("n2", cpu=1).job("j", 1, cpu=1)

    assert decide(given, ALLOCATE).bindings == {"j-0": "n2"}
