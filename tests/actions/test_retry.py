"""A job that nothing can help is not tried again until something happens that could."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.actions.rigs import Tries, conf, cycle, echo, events, finished, gone, leaving, no, quota, rig
from tests.framework.typed import by_task
from volsched.framework.callbacks import Headroom
from volsched.framework.registration import Registrar
from volsched.framework.rules import Allocatable, EventHandler, Overused, Predicate, PrePredicate
from volsched.framework.session import Session
from volsched.model.changes import BindFailed, Change, Deleted
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Verdict
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, put

ALLOCATE = conf("allocate")


def world() -> ClusterBuilder:
    """One node of 4 cores: a running pod takes 2, a small job fits, a big gang does not."""
    given = a_cluster().node("n1", cpu=4).queue("q").group("run", phase="Running").pod("r", "run", on="n1", cpu=2)
    return given.job("big", 2, cpu=2).job("small", 1, cpu=1)


def started(given: ClusterBuilder | None = None, *registers: Callable[[Session], object]) -> tuple[Rig, Tries]:
    tries = Tries()
    on = rig(given or world(), ALLOCATE, tries, *registers)
    cycle(on)
    return on, tries


def test_a_hopeless_job_is_not_tried_again() -> None:
    on, tries = started()
    assert tries.take() == ["big-0", "big-1", "small-0"]

    reports = [cycle(on).report, cycle(on).report]

    assert tries.take() == []
    assert [report.job_attempts for report in reports] == [0, 0]
    assert cycle(on, *a_cluster().node("n2", cpu=1).changes()).report.job_attempts == 1


HELPED_BY: dict[str, Callable[[Rig], list[Change]]] = {
    "a node comes": lambda on: a_cluster().node("n2", cpu=1).changes(),
    "a node changes": lambda on: a_cluster().node("n1", cpu=3).changes(),
    "a pod finishes": lambda on: [finished(on, "r")],
    "a pod goes": lambda on: [gone(on, "r")],
    "a queue changes": lambda on: a_cluster().queue("q", weight=2).changes(),
    "its group changes": lambda on: a_cluster().group("big", minimum=1).changes(),
    "another group goes": lambda on: [api_gone("PodGroup", "small")],
    "a member comes": lambda on: a_cluster().pod("big-2", "big", cpu=1).changes(),
    "a member asks for less": lambda on: a_cluster().pod("big-1", "big", cpu=1).changes(),
    "a member's labels change": lambda on: a_cluster().pod("big-1", "big", cpu=2, labels={"a": "b"}).changes(),
}


def api_gone(kind: str, name: str) -> Change:
    return Deleted(kind, "default", name, "")


@pytest.mark.parametrize("what", HELPED_BY)
def test_it_is_tried_again_when_something_happened_that_could_help(what: str) -> None:
    on, tries = started()
    tries.take()

    cycle(on, *HELPED_BY[what](on))

    assert "big-0" in tries.take()
    cycle(on)
    assert tries.take() == []


NO_HELPED_BY: dict[str, Callable[[Rig], list[Change]]] = {
    "another pod comes": lambda on: a_cluster().pod("other", "run", cpu=1).changes(),
    "the bound pod starts": lambda on: a_cluster().pod("small-0", "small", on="n1", cpu=1).changes(),
    "a running pod is shown again": lambda on: a_cluster().pod("r", "run", on="n1", cpu=2).changes(),
    "a foreign pod takes room": lambda on: a_cluster().pod("x", on="n1", cpu=1, spec={"schedulerName": "o"}).changes(),
}


@pytest.mark.parametrize("what", NO_HELPED_BY)
def test_it_is_left_alone_when_nothing_that_happened_could_help(what: str) -> None:
    on, tries = started()
    tries.take()

    cycle(on, *NO_HELPED_BY[what](on))

    assert not [name for name in tries.take() if name.startswith("big")]


def test_why_there_is_no_room_is_told_anew_when_nodes_say_something_else() -> None:
    on = rig(world().job("huge", 1, cpu=9), ALLOCATE)
    assert cycle(on).waiting["huge-0"] == "0/1 nodes are available: 1 Insufficient cpu."

    taint = {"key": "repair", "value": "", "effect": "NoSchedule"}
    decision = cycle(on, *a_cluster().node("n1", cpu=4, taints=[taint]).changes())

    assert decision.waiting["huge-0"] == "0/1 nodes are available: 1 node(s) had untolerated taint {repair: }."


def test_relief_lets_the_job_in() -> None:
    on, _ = started()

    assert cycle(on).bindings == {}
    assert cycle(on, finished(on, "r")).bindings == {}, "one of two fits beside the small pod: the gang waits on"
    assert sorted(cycle(on, *a_cluster().node("n2", cpu=2).changes()).bindings) == ["big-0", "big-1"]


def test_the_rest_of_a_gang_that_runs_is_parked_too() -> None:
    on, tries = started(a_cluster().node("n1", cpu=2).job("j", 4, 2, cpu=1))
    assert tries.take() == ["j-0", "j-1", "j-2", "j-3"]

    cycle(on)

    assert tries.take() == []


def test_a_job_that_waits_for_room_being_freed_keeps_trying_for_it() -> None:
    """Its promise ends with the session; it has to be made again, or others would take the room."""
    on, tries = started(a_cluster().node("n1", cpu=2).add(leaving("old", "n1", cpu="2")).job("j", cpu=1))
    tries.take()

    cycle(on)

    assert tries.take() == ["j-0"]


def test_a_job_over_its_quota_is_parked_until_quota_is_free() -> None:
    given = a_cluster().node("n1", cpu=8).queue("q").group("run", "q", phase="Running")
    given.pod("r", "run", on="n1", cpu=2).job("j", 1, 1, "q", cpu=2)
    asked: list[str] = []

    def count(registrar: Registrar) -> None:
        registrar.register(Allocatable(lambda queue, task: asked.append(task.name)))

    on, _ = started(given, count, quota({"q": 3_000}))
    cycle(on)
    assert asked == ["j-0"]

    assert cycle(on, finished(on, "r")).bindings == {"j-0": "n1"}


def test_a_job_of_an_overused_queue_is_asked_about_in_every_session() -> None:
    """The queue may have its due back without anything of the job's having changed: only plugins know."""
    due = [True]
    overused: Callable[[Session], None] = lambda r: r.register(Overused(lambda q: no() if due[0] else None))  # noqa: E731
    on, tries = started(a_cluster().node("n1").job("j", cpu=1), overused)
    assert tries.take() == []

    due[0] = False

    assert cycle(on).bindings == {"j-0": "n1"}


def near(app: str) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_a_pod_that_wants_to_be_near_another_is_tried_again_when_that_one_was_placed() -> None:
    given = a_cluster().node("n1").node("n2").job("follower", cpu=1, spec=near("leader"))
    on, _ = started(given)

    leader = a_cluster().job("leader", cpu=1, labels={"app": "leader"})
    assert list(cycle(on, *leader.changes()).bindings) == ["leader-0"]

    assert list(cycle(on).bindings) == ["follower-0"]


def test_what_was_written_and_comes_back_from_the_watch_wakes_nobody() -> None:
    given = a_cluster().node("n1", cpu=2).job("big", 2, cpu=2)
    tries = Tries()
    on = rig(given, ALLOCATE, tries)
    decision = cycle(on)
    assert {type(step).__name__ for step in decision.steps} == {"WriteGroupStatus", "WritePodCondition", "RecordEvent"}
    tries.take()

    for _ in range(3):
        decision = cycle(on, *echo(on, given, decision))
        assert (decision.steps, tries.take()) == ([], [])


def test_a_pod_whose_binding_failed_is_tried_again_and_its_gang_with_it() -> None:
    on, tries = started(a_cluster().node("n1", cpu=2).job("j", 2, cpu=1))
    tries.take()

    decision = cycle(on, BindFailed("pod-default-j-0", "n1", "conflict", on.clock.now() + 5))
    assert tries.take() == []
    assert decision.waiting == {"j-0": 'binding to node "n1" failed: conflict'}

    on.clock.time += 5
    assert cycle(on).bindings == {"j-0": "n1"}


def test_a_promised_pod_whose_binding_failed_waits_for_its_back_off_as_others_do() -> None:
    given = a_cluster().node("n1", cpu=2).job("j", cpu=1)
    given.objects[-1]["status"]["nominatedNodeName"] = "n1"
    on, _ = started(given)

    assert cycle(on, BindFailed("pod-default-j-0", "n1", "conflict", on.clock.now() + 5)).bindings == {}
    assert cycle(on, put(given.objects[-1])).bindings == {}
    on.clock.time += 5
    assert cycle(on).bindings == {"j-0": "n1"}


# -- jobs that wait for the same --------------------------------------------------------------------------------------


class Slots:
    """A queue may hold so many pods: a plugin that says how many more, and in which words it refuses."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.words = "no slot"
        self.asked: list[str] = []

    def __call__(self, registrar: Registrar) -> None:
        registrar.register(Allocatable(headroom=self.headroom, refused=self.tried), PrePredicate(self.tried))

    def left(self, queue: QueueInfo) -> int:
        return self.most - queue.placed

    def tried(self, task: TaskInfo, _: Verdict | None = None) -> None:
        self.asked.append(task.name)

    def headroom(self, queue: QueueInfo, template: PodTemplate) -> Headroom:
        return Headroom(self.left(queue), no(self.words) if self.left(queue) < 1 else None)

    def take(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


def with_slots(most: int, *sizes: int) -> tuple[Rig, Slots]:
    """Room for all, and a queue that lets in so many of some gangs; pod "r" of another queue can free room."""
    given = a_cluster().node("n1", cpu=99).queue("q").queue("other").group("run", "other", phase="Running")
    given.pod("r", "run", on="n1", cpu=2)
    for number, size in enumerate(sizes):
        given.job(f"j{number}", size, size, "q", cpu=1)
    slots = Slots(most)
    on = rig(given, ALLOCATE, slots)
    cycle(on)
    slots.take()
    return on, slots


def test_while_a_queue_has_no_more_than_before_its_jobs_are_not_asked_one_by_one() -> None:
    on, slots = with_slots(0, 1, 1, 1)

    cycle(on, finished(on, "r"))
    assert slots.take() == [], "room on nodes does not help them"

    slots.most = 2
    decision = cycle(on, *a_cluster().node("n2").changes())
    assert sorted(decision.bindings) == ["j0-0", "j1-0"]


def test_a_gang_that_took_all_that_its_queue_had_and_needs_more_waits_for_the_queue() -> None:
    on, slots = with_slots(2, 3, 4)

    cycle(on, finished(on, "r"))
    assert slots.take() == []

    slots.most = 3
    assert sorted(cycle(on, *a_cluster().node("n2").changes()).bindings) == ["j0-0", "j0-1", "j0-2"]


def test_a_gang_that_nodes_had_no_room_for_is_not_said_to_wait_for_its_queue() -> None:
    given = a_cluster().node("n1", cpu=2).queue("q").job("j", 4, 4, "q", cpu=1)
    slots = Slots(3)
    on = rig(given, ALLOCATE, slots)
    cycle(on)
    slots.take()

    cycle(on, *a_cluster().node("n2", cpu=1).changes())

    assert "j-0" in slots.take()


def test_a_job_that_was_refused_although_its_queue_had_room_for_it_is_tried_at_every_relief() -> None:
    given = a_cluster().node("n1", cpu=9).queue("q").job("j", 1, 1, "q", cpu=1)
    given.group("run", phase="Running").pod("r", "run", on="n1", cpu=1)
    charges = [no("beyond the quota of its card")]
    handler = type("Charges", (), {"allocate": lambda _, task: charges[0], "deallocate": lambda _, task: None})()
    on = rig(given, ALLOCATE, Slots(5), lambda registrar: registrar.register(EventHandler(handler)))
    assert cycle(on).waiting == {"j-0": "beyond the quota of its card"}

    charges[0] = None

    assert cycle(on, finished(on, "r")).bindings == {"j-0": "n1"}


def test_other_words_of_a_queue_are_told() -> None:
    on, slots = with_slots(0, 1, 1)
    slots.words = "still no slot"

    decision = cycle(on, finished(on, "r"))

    assert decision.waiting == {"j0-0": "still no slot", "j1-0": "still no slot"}


def test_jobs_that_wait_for_quota_are_told_when_their_queue_is_closed() -> None:
    on, _ = with_slots(0, 1)

    closed = a_cluster().queue("q")
    closed.objects[0]["status"] = {"state": "Closed"}
    decision = cycle(on, *closed.changes())

    assert [reason for name, reason, _ in events(decision) if name == "PodGroup/j0"] == ["QueueClosed"]


def test_a_queue_that_goes_leaves_none_of_its_jobs_behind() -> None:
    on, slots = with_slots(0, 1)
    cycle(on, Deleted("Queue", "", "q", ""))
    slots.most = 1

    assert cycle(on, *a_cluster().queue("q").changes()).bindings == {"j0-0": "n1"}


def test_of_jobs_that_wait_for_the_same_the_one_that_changed_is_tried() -> None:
    given = a_cluster().node("n1", cpu=2).job("a", 1, cpu=9).job("b", 1, cpu=9).job("c", 1, cpu=9)
    on, tries = started(given)
    assert tries.take() == ["a-0", "b-0", "c-0"]

    cycle(on, *a_cluster().pod("b-0", "b", cpu=8).changes())
    assert tries.take() == ["b-0"]

    assert sorted(cycle(on, *a_cluster().node("n2", cpu=18).changes()).bindings) == ["a-0", "b-0"]


def test_a_job_that_moves_to_another_queue_leaves_those_that_wait_in_the_first() -> None:
    on, _ = with_slots(0, 1, 1)

    decision = cycle(on, *a_cluster().group("j1", "q2", minimum=1).queue("q2").changes())

    assert decision.bindings == {}, "the limit holds for that queue, too"
    assert on.cluster.jobs["default/j1"].equivalents is not on.cluster.jobs["default/j0"].equivalents


def test_a_plugin_that_tells_equal_pods_apart_is_asked_about_each() -> None:
    open_to = set[str]()

    def admits(registrar: Registrar) -> None:
        registrar.register(
            Predicate(
                by_task(lambda task, node: None if task.name in open_to else no()),
                key=lambda task: task.name in open_to,
                version=lambda task: 0,
            )
        )

    given = a_cluster().node("n1", cpu=4).job("a", 1, cpu=1).job("b", 1, cpu=1)
    given.group("run", phase="Running").pod("r", "run", on="n1", cpu=1)
    on, _ = started(given, admits)

    open_to.add("b-0")

    assert cycle(on, finished(on, "r")).bindings == {"b-0": "n1"}


def test_another_configuration_looks_at_all_jobs_again() -> None:
    on, slots = with_slots(0, 1, 1)
    slots.most = 9

    on.scheduler.reconfigure(on.scheduler.profile)

    assert sorted(cycle(on).bindings) == ["j0-0", "j1-0"]


# -- within one session -----------------------------------------------------------------------------------------------


def test_a_pod_that_is_equal_to_one_that_no_node_takes_is_told_the_same() -> None:
    looked_at: list[str] = []
    given = a_cluster().node("n1", cpu=4)
    for name in ("a", "b", "c"):
        given.job(name, 2, 2, cpu=9)
    on = rig(given, ALLOCATE)
    places = on.scheduler.engine.places
    on.scheduler.engine.places = lambda tasks: looked_at.append(tasks[0].name) or places(tasks)  # type: ignore[method-assign, func-returns-value]

    decision = cycle(on)

    assert looked_at == ["a-0"]
    assert {decision.waiting[f"{name}-0"] for name in ("a", "b", "c")} == {
        "0/1 nodes are available: 1 Insufficient cpu."
    }
    assert 'gang of PodGroup "default/c" waits' in decision.waiting["c-1"]


def test_it_is_told_what_is_so_now_when_a_node_was_filled_in_between() -> None:
    given = a_cluster().node("n1", cpu=4, memory="3Gi")
    given.job("a", cpu=9, memory="2Gi").job("b", cpu=1, memory="2Gi").job("c", cpu=9, memory="2Gi")

    decision = cycle(rig(given, ALLOCATE))

    assert decision.waiting == {
        "a-0": "0/1 nodes are available: 1 Insufficient cpu.",
        "c-0": "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
    }


def test_a_pod_that_a_plugin_refuses_for_its_own_sake_speaks_for_no_other() -> None:
    def refuse_a(registrar: Registrar) -> None:
        registrar.register(Predicate(lambda task, node: no() if task.name == "a-0" else None))

    decision = cycle(rig(a_cluster().node("n1", cpu=4).job("a", cpu=1).job("b", cpu=1), ALLOCATE, refuse_a))

    assert decision.bindings == {"b-0": "n1"}
