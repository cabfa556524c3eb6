"""enqueue: which PodGroups are admitted, and in which order they are asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.actions.rigs import conf, cycle, decide, events, least_allocated_first, no, phases, rig
from volsched.framework.callbacks import PERMIT, Ballot, Vote
from volsched.framework.registration import Registrar
from volsched.framework.rules import JobEnqueueable, JobEnqueued, PrePredicate, QueueOrder
from volsched.model.changes import Deleted
from volsched.model.errors import ConfigError
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import Step
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster

ENQUEUE = conf("enqueue", "priority gang", "overcommit")
PLAIN = conf("enqueue", "priority")


def needs(cpu: Any) -> dict[str, Any]:
    return {"minResources": {"cpu": str(cpu)}}


class Votes:
    """A plugin that rejects some jobs, notes who was asked and who was admitted."""

    def __init__(self, *rejected: str) -> None:
        self.rejected = rejected
        self.asked: list[str] = []
        self.admitted: list[str] = []

    def __call__(self, registrar: Registrar) -> None:
        registrar.register(JobEnqueueable(self._vote))
        registrar.register(JobEnqueued(lambda job: self.admitted.append(job.name)))

    def _vote(self, job: JobInfo) -> Ballot:
        self.asked.append(job.name)
        return Ballot(Vote.REJECT, no("not now", Step.ENQUEUE)) if job.name in self.rejected else PERMIT


@pytest.mark.parametrize(
    ("phase", "after"),
    [("", "Inqueue"), ("Pending", "Inqueue"), ("Inqueue", "Inqueue"), ("Unknown", "Pending"), ("Running", "Pending")],
)
def test_groups_that_nobody_has_admitted_are_and_others_are_not_asked(phase: str, after: str) -> None:
    votes = Votes()
    decision = decide(a_cluster().group("g", phase=phase, **needs(1)), PLAIN, votes)

    assert phases(decision) == {"g": after}
    assert votes.asked == (["g"] if after == "Inqueue" and phase != "Inqueue" else [])


def test_a_group_without_a_minimum_of_resources_is_admitted_unasked() -> None:
    votes = Votes("g")

    decision = decide(a_cluster().group("g", phase="Pending"), PLAIN, votes)

    assert (phases(decision), votes.asked, votes.admitted) == ({"g": "Inqueue"}, [], ["g"])


def test_a_minimum_as_volcanos_job_controller_writes_it_is_admitted_for_what_pods_can_ask_for() -> None:
    written = {"cpu": "2", "requests.cpu": "2", "limits.cpu": "4", "pods": "2", "count/pods": "2"}
    quota = conf("enqueue", "priority gang", "overcommit proportion")
    world = a_cluster().node("n1", cpu=4).group("fits", phase="Pending", minResources=written)
    world.group("does-not", phase="Pending", minResources=written | {"cpu": "3"})

    assert phases(decide(world, quota)) == {"fits": "Inqueue", "does-not": "Pending"}


@pytest.mark.parametrize("voting", ["overcommit", "proportion"])
def test_pods_that_come_gated_leave_what_was_reserved_for_them_to_others(voting: str) -> None:
    on = rig(a_cluster().node("n1", cpu=4), conf("enqueue", "priority gang", voting))
    first = (
        a_cluster().group("first", minimum=2, phase="Inqueue", **needs(4)).group("next", phase="Pending", **needs(4))
    )
    gated = {"schedulingGates": [{"name": "wait"}]}

    before = phases(cycle(on, *first.changes()))
    cycle(on, *a_cluster().pod("p-0", "first", cpu=2, spec=gated).pod("p-1", "first", cpu=2, spec=gated).changes())

    assert (before["next"], phases(cycle(on))["next"]) == ("Pending", "Inqueue")


def test_a_reject_holds_nobody_else_up_and_is_not_asked_again_in_the_session() -> None:
    votes = Votes("a")
    world = a_cluster()
    for name in "abc":
        world.group(name, phase="Pending", **needs(1))

    decision = decide(world, PLAIN, votes)

    assert phases(decision) == {"a": "Pending", "b": "Inqueue", "c": "Inqueue"}
    assert (votes.asked, votes.admitted) == (["a", "b", "c"], ["b", "c"])


def test_pods_need_not_exist_and_are_not_looked_at() -> None:
    """A controller makes them once the group is Inqueue; whether there are enough is asked later."""
    world = (
        a_cluster().group("none", minimum=3, phase="Pending").group("few", minimum=3, phase="Pending").pod("p", "few")
    )

    assert phases(decide(world, ENQUEUE)) == {"none": "Inqueue", "few": "Inqueue"}


def test_the_best_job_of_the_best_queue_is_asked_first_and_queues_take_turns() -> None:
    votes = Votes()
    world = a_cluster().queue("q1").queue("q2")
    for queue in ("q1", "q2"):
        for number in (1, 2):
            world.group(f"{queue}-{number}", queue, phase="Pending", priorityClassName=f"c{number}", **needs(1))
    world.add({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c2"}, "value": 2})
    turns = {"q1": 0, "q2": 0}

    def count(job: JobInfo) -> None:
        turns[job.queue] += 1

    decide(
        world,
        PLAIN,
        votes,
        lambda r: r.register(QueueOrder(lambda queue: turns.get(queue.name, 0))),
        lambda r: r.register(JobEnqueued(count)),
    )

    assert votes.asked == ["q1-2", "q2-2", "q1-1", "q2-1"]


def test_without_an_order_of_queues_the_oldest_is_drained_first() -> None:
    votes = Votes()
    world = a_cluster().queue("b").queue("a")
    for name in ("a1", "b1", "a2", "b2"):
        world.group(name, name[0], phase="Pending", created="2026-01-01T00:00:00Z", **needs(1))

    decide(world, PLAIN, votes, least_allocated_first)

    assert votes.asked == ["b1", "b2", "a1", "a2"]


def test_a_group_of_a_queue_that_is_not_there_waits_and_is_told() -> None:
    decision = decide(a_cluster().group("g", "nowhere", phase="Pending").pod("p", "g"), ENQUEUE)

    assert phases(decision) == {"g": "Pending"}
    assert ("PodGroup/g", "Unschedulable", 'queue "nowhere" of PodGroup "default/g" does not exist') in events(decision)


@pytest.mark.parametrize(
    ("state", "after"), [("Open", "Inqueue"), ("", "Inqueue"), ("Closed", "Pending"), ("Closing", "Pending")]
)
def test_a_closed_queue_admits_nobody(state: str, after: str) -> None:
    world = a_cluster().group("g", "q", phase="Pending")
    world.add(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "q", "uid": "q"},
            "status": {"state": state},
        }
    )

    decision = decide(world, ENQUEUE)

    assert phases(decision) == {"g": after}
    told = [reason for what, reason, _ in events(decision) if what == "PodGroup/g"]
    assert told == ([] if after == "Inqueue" else ["QueueClosed"])


def of_cpu(*cores: int) -> ClusterBuilder:
    world = a_cluster()
    for number, cpu in enumerate(cores):
        world.node(f"n{number}", cpu=cpu)
    return world


@pytest.mark.parametrize(
    ("factor", "minimum", "admitted"),
    [
        (1.2, None, True),
        (1.2, "2", True),
        (1.2, "7200m", True),
        (1.2, "7201m", False),
        (1.2, "20", False),
        (0.8, "7200m", True),  # below 1 counts as 1.2
        (1.0, "6", True),
        (1.0, "6001m", False),
        (2, "12", True),
    ],
)
def test_overcommit_admits_somewhat_more_than_the_cluster_has(
    factor: float, minimum: str | None, admitted: bool
) -> None:
    configuration = ENQUEUE + f"\n    arguments: {{overcommit-factor: {factor}}}"
    world = of_cpu(2, 4).group("g", phase="Pending", **(needs(minimum) if minimum else {}))

    assert phases(decide(world, configuration)) == {"g": "Inqueue" if admitted else "Pending"}


@pytest.mark.parametrize(
    ("arguments", "cpu", "memory", "admitted"),
    [
        ("overcommit-factor.cpu: 2", "8", "8Gi", True),
        ("overcommit-factor.cpu: 2", "8001m", "8Gi", False),
        ("overcommit-factor.cpu: 2", "8", "10Gi", False),  # memory has 1.2
        ("overcommit-factor: 3, overcommit-factor.cpu: 2", "8", "24Gi", True),
        ("overcommit-factor: 3, overcommit-factor.cpu: 0.5", "4800m", "1Gi", True),
        ("overcommit-factor: 3, overcommit-factor.cpu: 0.5", "4801m", "1Gi", False),
    ],
)
def test_a_resource_may_have_a_factor_of_its_own(arguments: str, cpu: str, memory: str, admitted: bool) -> None:
    """4 cores and 8Gi."""
    world = a_cluster().node("n0", cpu=4, memory="8Gi")
    world.group("g", phase="Pending", minResources={"cpu": cpu, "memory": memory})

    found = phases(decide(world, f"{ENQUEUE}\n    arguments: {{{arguments}}}"))

    assert found == {"g": "Inqueue" if admitted else "Pending"}


def test_what_was_admitted_before_and_in_this_session_counts_and_what_holds_room_counts_once() -> None:
    """10 cores, factor 1.2: 12. Running holds 2 of its 3, so 1 more is reserved; Inqueue reserves 4; 5 are left."""
    world = of_cpu(10).group("run", minimum=1, phase="Running", **needs(3)).pod("r", "run", on="n0", cpu=2)
    world.pod("s", "run", cpu=1).group("in", phase="Inqueue", **needs(4)).group("idle", phase="Completed", **needs(50))
    for number, cpu in enumerate((3, 3, 2)):
        world.group(f"g{number}", phase="Pending", **needs(cpu))

    decision = decide(world, ENQUEUE)

    assert {name: phase for name, phase in phases(decision).items() if name[0] == "g"} == {
        "g0": "Inqueue",
        "g1": "Pending",
        "g2": "Inqueue",
    }
    assert [message for what, _, message in events(decision) if what == "PodGroup/g1"] == [
        "resource in cluster is overused: overused cpu (cpu: requested 3, used and admitted 10, limit 12)"
    ]


def test_a_group_that_was_refused_is_not_asked_again_until_something_helps() -> None:
    votes = Votes("g")
    on = rig(of_cpu(1).group("g", phase="Pending", **needs(1)), PLAIN, votes)

    cycle(on)
    cycle(on)
    assert votes.asked == ["g"]

    cycle(on, *of_cpu(2).changes())
    assert votes.asked == ["g", "g"]

    votes.rejected = ()
    decision = cycle(on, *a_cluster().queue("new").changes())
    assert (votes.asked, phases(decision)) == (["g"] * 3, {"g": "Inqueue"})


def test_admission_takes_the_refusal_back() -> None:
    votes = Votes("g")
    on = rig(of_cpu(1).group("g", phase="Pending", **needs(1)), PLAIN, votes)
    cycle(on)
    job = on.cluster.jobs["default/g"]
    assert job.refusal is not None

    votes.rejected = ()
    cycle(on, *of_cpu(2).changes())

    assert on.cluster.jobs["default/g"].refusal is None


# -- what counts of a group's minimum ---------------------------------------------------------------------------------

GATED = {"schedulingGates": [{"name": "example.com/never"}]}
NOWHERE = {"nodeSelector": {"zone": "nowhere"}}
ALL = conf("enqueue, allocate", "priority gang", "overcommit predicates")


def phase_of(decision: Any, name: str) -> str:
    found = dict(phases(decision))
    return str(found[name])


@pytest.mark.parametrize("spec", [{}, GATED, NOWHERE, {"schedulerName": "other"}])
@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
def test_a_group_counts_at_most_what_its_pods_request_whatever_it_states(phase: str, spec: dict[str, Any]) -> None:
    given = of_cpu(10).group("hog", phase=phase, **needs(12)).pod("hog-0", "hog", cpu="100m", spec=spec)
    given.group("g", phase="Pending", created="2026-01-02T00:00:00Z", **needs(11))

    assert phase_of(decide(given, ENQUEUE), "g") == "Inqueue"


def test_gated_pods_count_nothing_however_many_they_are() -> None:
    given = of_cpu(10).group("hog", minimum=2, phase="Inqueue", **needs(12))
    given.pod("hog-0", "hog", cpu=6, spec=GATED).pod("hog-1", "hog", cpu=6, spec=GATED)
    given.group("g", phase="Pending", **needs(12))

    assert phase_of(decide(given, ENQUEUE), "g") == "Inqueue"


def test_a_pod_that_is_deleted_and_stays_for_a_finalizer_counts_nothing() -> None:
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/stays"]}
    given = of_cpu(10).group("hog", phase="Inqueue", **needs(12)).pod("hog-0", "hog", cpu=8, metadata=leaving)
    given.group("g", phase="Pending", **needs(12))

    assert phase_of(decide(given, ENQUEUE), "g") == "Inqueue"


@pytest.mark.parametrize(("cpu", "admitted"), [(4, "Inqueue"), (5, "Pending")])
def test_missing_members_count_as_the_largest_that_is_there(cpu: int, admitted: str) -> None:
    """Of four members two are there, of 1 and 2 cores: 1 + 2 + 2 * 2 = 7 beside 12 of 10 that may be admitted."""
    given = of_cpu(10).group("in", minimum=4, phase="Inqueue", **needs(12))
    given.pod("in-0", "in", cpu=1).pod("in-1", "in", cpu=2).group("g", phase="Pending", **needs(cpu + 1))

    assert phase_of(decide(given, ENQUEUE), "g") == admitted


def test_a_running_group_reserves_no_more_than_its_other_pods_request() -> None:
    given = of_cpu(10).group("run", phase="Running", **needs(12)).pod("run-0", "run", on="n0", cpu=1)
    given.group("g", phase="Pending", **needs(11))

    assert phase_of(decide(given, ENQUEUE), "g") == "Inqueue"


def test_others_are_asked_again_when_pods_come_that_request_less() -> None:
    given = of_cpu(10).group("in", phase="Inqueue", **needs(12)).group("g", phase="Pending", **needs(11))
    on = rig(given, ENQUEUE)
    assert phase_of(cycle(on), "g") == "Pending"

    assert phase_of(cycle(on, *a_cluster().pod("in-0", "in", cpu=1).changes()[-1:]), "g") == "Inqueue"


# -- whose room is kept -----------------------------------------------------------------------------------------------


def told_of_release(decision: Any) -> list[str]:
    found = [c for s in decision.steps for c in getattr(s, "conditions", ()) if c.type == "ReservationReleased"]
    return [condition.message for condition in found]


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([{"cpu": 8, "spec": NOWHERE}], "no node could take 1 of its pods if all others left"),
        ([{"cpu": 12}], "no node could take 1 of its pods if all others left"),
        ([{"cpu": 3}, {"cpu": 3}, {"cpu": 3, "spec": NOWHERE}], "no node could take 1 of its pods if all others left"),
        ([{"cpu": 6}, {"cpu": 6}], "2 of its pods would have to run at once, and 1 fit on all nodes without others"),
        ([{"cpu": 6}, {"cpu": 5}], "it needs 11 cpu, and all nodes have 10"),
    ],
)
def test_no_room_is_kept_for_a_gang_that_could_not_be_placed_if_all_others_left(
    members: list[dict[str, Any]], why: str
) -> None:
    given = of_cpu(10).group("hog", minimum=len(members), phase="Pending", **needs(12))
    for number, pod in enumerate(members):
        given.pod(f"hog-{number}", "hog", **pod)
    given.group("g", phase="Pending", created="2026-01-02T00:00:00Z", **needs(12))
    on = rig(given, ALL)

    first = cycle(on)
    assert phase_of(first, "g") == "Pending"
    assert told_of_release(first) == [f"no room is kept for it: {why}"]
    assert [what for what, reason, _ in events(first) if reason == "ReservationReleased"] == ["PodGroup/hog"]

    second = cycle(on)
    assert (phase_of(second, "g"), phase_of(second, "hog")) == ("Inqueue", "Inqueue")
    assert told_of_release(second) == []


def a_gang_over_which_a_plugin_fails(fails: list[bool]) -> Rig:
    """A gang whose room was released, as no node has its label, and a plugin that fails over it from now on."""

    def fail(task: TaskInfo) -> None:
        if fails[0] and task.name == "hog-0":
            raise ZeroDivisionError

    given = of_cpu(10).group("hog", phase="Inqueue", **needs(12)).pod("hog-0", "hog", cpu=8, spec=NOWHERE)
    on = rig(given, ALL, lambda registrar: registrar.register(PrePredicate(fail)))
    on.scheduler._bounds = replace(on.scheduler._bounds, contains_faults=True)
    cycle(on)
    assert on.cluster.jobs["default/hog"].release_reason
    fails[0] = True
    return on


def test_no_room_is_kept_for_a_gang_that_fits_nowhere_while_it_is_paused() -> None:
    on = a_gang_over_which_a_plugin_fails([False])
    paused = cycle(on, *a_cluster().node("small", cpu=1).changes())
    assert "ZeroDivisionError" in paused.waiting["hog-0"]

    admitted = cycle(on, *a_cluster().group("g", phase="Pending", **needs(12)).changes())

    assert phase_of(admitted, "g") == "Inqueue"
    assert on.cluster.jobs["default/hog"].release_reason
    assert "ReservationReleased" not in [reason for _, reason, _ in (*events(paused), *events(admitted))]


def test_a_paused_gang_is_judged_again_after_its_pause() -> None:
    fails = [False]
    on = a_gang_over_which_a_plugin_fails(fails)
    busy = a_cluster().node("fits", cpu=8, labels=NOWHERE["nodeSelector"]).pod("other", on="fits", cpu=8)
    cycle(on, *busy.changes())
    assert on.cluster.jobs["default/hog"].release_reason
    fails[0] = False
    on.clock.time += 1

    cycle(on)
    assert on.cluster.jobs["default/hog"].release_reason == ""


def test_room_is_kept_for_a_gang_that_waits_for_room_only() -> None:
    given = of_cpu(10).pod("runs", on="n0", cpu=9).group("large", phase="Inqueue", **needs(8))
    given.pod("large-0", "large", cpu=8).group("g", phase="Pending", **needs(1))
    on = rig(given, ALL)

    assert told_of_release(cycle(on)) == []
    assert phase_of(cycle(on), "g") == "Pending"


def test_what_could_be_placed_again_counts_again() -> None:
    given = of_cpu(10).group("in", phase="Inqueue", **needs(8)).pod("in-0", "in", cpu=8, spec=NOWHERE)
    on = rig(given.group("g", phase="Pending", **needs(12)), ALL)
    cycle(on)
    assert phase_of(cycle(on), "g") == "Inqueue"

    there = a_cluster().node("n1", cpu=10, labels={"zone": "nowhere"}).pod("full", on="n1", cpu=9)
    later = cycle(on, *there.changes(), *a_cluster().group("h", phase="Pending", **needs(5)).changes()[-1:])

    assert told_of_release(later) == []
    assert on.cluster.jobs["default/in"].keeps_room
    assert phase_of(cycle(on), "h") == "Pending"


def test_nothing_is_kept_when_the_nodes_are_gone() -> None:
    given = a_cluster().node("n0", cpu=10).node("n1", cpu=10).group("in", minimum=2, phase="Inqueue", **needs(18))
    given.pod("full-0", on="n0", cpu=9).pod("full-1", on="n1", cpu=9)
    given.pod("in-0", "in", cpu=9).pod("in-1", "in", cpu=9)
    on = rig(given.group("g", phase="Pending", **needs(3)), ALL)
    assert phase_of(cycle(on), "g") == "Pending"

    gone = cycle(on, Deleted("Node", "", "n1", "node-n1"))

    assert told_of_release(gone) == [
        "no room is kept for it: 2 of its pods would have to run at once, and 1 fit on all nodes without others"
    ]
    assert phase_of(cycle(on), "g") == "Inqueue"


def test_pods_beyond_the_minimum_that_no_node_takes_count_nothing() -> None:
    given = of_cpu(10).group("run", phase="Running", **needs(12)).pod("run-0", "run", on="n0", cpu=1)
    given.pod("run-1", "run", cpu=11).group("g", phase="Pending", **needs(11))
    on = rig(given, ALL)
    assert phase_of(cycle(on), "g") == "Pending"

    assert phase_of(cycle(on), "g") == "Inqueue"


def test_a_gang_larger_than_its_queue_may_ever_hold_keeps_no_room() -> None:
    given = a_cluster().node("n0", cpu=10).queue("q", capability={"cpu": "4"})
    given.group("in", "q", phase="Inqueue", **needs(6)).pod("in-0", "in", cpu=6)
    on = rig(given, conf("enqueue, allocate", "priority gang", "capacity predicates"))

    assert told_of_release(cycle(on)) == ['no room is kept for it: it needs 6 cpu, and queue "q" may hold 4']


def test_a_gang_that_was_not_tried_yet_keeps_no_room_that_it_could_never_use() -> None:
    """Sessions end before all jobs of a crowd are tried. Here no action tries any."""
    given = of_cpu(10).group("hog", minimum=3, phase="Inqueue", **needs(18))
    for number in range(3):
        given.pod(f"hog-{number}", "hog", cpu=6)
    on = rig(given.group("g", phase="Pending", **needs(1)), conf("enqueue", "priority gang", "overcommit predicates"))
    assert phase_of(cycle(on), "g") == "Pending"

    assert phase_of(cycle(on), "g") == "Inqueue"


def test_members_that_their_queue_may_never_hold_do_not_count_where_others_are_enough() -> None:
    given = a_cluster().node("n0", cpu=10).queue("q", capability={"cpu": "4"})
    given.group("run", "q", phase="Running", min_member=1).pod("run-0", "run", on="n0", cpu=4)
    given.group("in", "q", phase="Inqueue", min_member=1).pod("in-0", "in", cpu=6).pod("in-1", "in", cpu=1)
    on = rig(given, conf("enqueue, allocate", "priority gang", "capacity predicates"))

    assert told_of_release(cycle(on)) == []


# -- for how long room is kept ----------------------------------------------------------------------------------------

AT = 1_767_225_600.0


def keeping(timeout: str, actions: str = "enqueue, allocate") -> str:
    asked = f"\nconfigurations:\n- name: enqueue\n  arguments: {{reservationTimeout: {timeout}}}"
    return conf(actions, "priority gang", "overcommit predicates") + asked


def a_large_group_that_waits(**group: Any) -> ClusterBuilder:
    given = of_cpu(10).group("runs", phase="Running").pod("runs-0", "runs", on="n0", cpu=9)
    given.group("large", phase="Inqueue", **needs(8), **group).pod("large-0", "large", cpu=8)
    return given.group("g", phase="Pending", created="2026-01-02T00:00:00Z", **needs(1))


def types_of(on: Any, name: str) -> list[str]:
    return [condition.type for condition in on.cluster.jobs[f"default/{name}"].conditions]


def stated(at: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": at}]}}


def test_after_the_reservation_timeout_nothing_is_kept_and_the_gang_stays_admitted() -> None:
    on = rig(a_large_group_that_waits(), keeping("10m"))
    assert phase_of(cycle(on), "g") == "Pending"
    assert "Admitted" in types_of(on, "large")
    assert on.scheduler.wake_at() == AT + 600

    on.clock.time = AT + 599
    assert told_of_release(cycle(on)) == []
    on.clock.time = AT + 600
    over = cycle(on)

    said = "no room is kept for it: it was admitted more than 600s ago and has not started"
    assert (told_of_release(over), phase_of(over, "g")) == ([said], "Pending")
    assert ("PodGroup/large", "ReservationReleased", said) in events(over)
    later = cycle(on)
    assert (phase_of(later, "g"), phase_of(later, "large")) == ("Inqueue", "Inqueue")
    assert on.scheduler.wake_at() == AT + 1200, "when the time of g is over"


@pytest.mark.parametrize("timeout", ["0s", "0"])
def test_without_a_reservation_timeout_room_is_kept_for_ever_and_no_time_is_stated(timeout: str) -> None:
    on = rig(a_large_group_that_waits(**stated("2020-01-01T00:00:00Z")), keeping(timeout))
    cycle(on)
    on.clock.time = AT + 1e9

    assert phase_of(cycle(on), "g") == "Pending"
    assert types_of(on, "large") == ["Unschedulable"]


@pytest.mark.parametrize(
    ("at", "left"),
    [
        ("2025-12-31T23:55:00Z", 300),
        ("2026-01-01T00:00:00Z", 600),
        ("2036-01-01T00:00:00Z", 600),  # a tenant who may write the time does not hold room for ever
        ("soon", 600),
    ],
)
def test_the_time_of_admission_outlives_the_scheduler(at: str, left: float) -> None:
    on = rig(a_large_group_that_waits(**stated(at)), keeping("10m"))
    cycle(on)

    assert on.scheduler.wake_at() == AT + left


def test_the_time_of_admission_goes_when_the_gang_starts() -> None:
    on = rig(a_large_group_that_waits(), keeping("10m"))
    cycle(on)
    on.clock.time = AT + 60

    cycle(on, *a_cluster().node("n1", cpu=8).changes())

    assert types_of(on, "large") == ["Scheduled"]
    assert on.scheduler.wake_at() == AT + 660, "when the time of g is over"


def test_a_gang_that_starts_at_once_states_no_admission() -> None:
    given = of_cpu(10).group("g", phase="Pending", **needs(1)).pod("g-0", "g", cpu=1)
    on = rig(given, keeping("10m"))
    cycle(on)

    assert types_of(on, "g") == ["Scheduled"]


def test_an_admitted_group_without_pods_keeps_room_no_longer_than_others() -> None:
    given = of_cpu(10).group("none", minimum=2, phase="Inqueue", **needs(12)).group("g", phase="Pending", **needs(1))
    on = rig(given, keeping("90s", "enqueue"))
    assert phase_of(cycle(on), "g") == "Pending"
    on.clock.time = AT + 90
    cycle(on)

    assert phase_of(cycle(on), "g") == "Inqueue"


def test_a_reservation_timeout_that_is_no_duration_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"reservationTimeout: .* must be a duration as 1h30m or 90s, or 0, not the text"
    ):
        rig(a_cluster(), keeping("soon"))


def test_room_is_kept_from_the_admission_on_and_not_from_one_that_a_status_states_of_before() -> None:
    stated = {"type": "Admitted", "status": "True", "reason": "Admitted", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    given = (
        a_cluster().node("n1", cpu=4).queue("q").group("held", "q", phase="Running").pod("held", "held", on="n1", cpu=4)
    )
    given.group("job", "q", phase="Pending", minResources={"cpu": "2"}, status={"conditions": [stated]})
    given.pod("job-0", "job", cpu=2)
    text = conf("enqueue, allocate", "priority gang", "overcommit predicates")
    text = text.replace("name: overcommit", "name: overcommit\n    arguments: {overcommit-factor: 2}")
    on = rig(given, text + "\nconfigurations:\n- name: enqueue\n  arguments: {reservationTimeout: 10m}")

    assert phases(cycle(on))["job"] == "Inqueue"
    assert on.cluster.jobs["default/job"].release_reason == ""
    on.clock.time += 600
    cycle(on)
    assert "admitted more than 600s ago" in on.cluster.jobs["default/job"].release_reason
