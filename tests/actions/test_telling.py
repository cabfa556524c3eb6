"""What is written and told at the end of a cycle: once, and only of what waits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.rigs import conf, cycle, echo, finished, rig
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import BindFailed, Deleted
from volsched.model.plan import Bind, RecordEvent, WriteGroupStatus, WritePodCondition
from volsched.testing.builders import ClusterBuilder, a_cluster

DEFAULT = conf("enqueue, allocate, backfill", "priority gang conformance", "overcommit predicates nodeorder binpack")

EVICTING = conf(
    "enqueue, allocate, preempt, reclaim, backfill", "priority gang conformance", "drf predicates proportion nodeorder"
)
both = pytest.mark.parametrize("configuration", [DEFAULT, EVICTING], ids=["default", "evicting"])


def world() -> ClusterBuilder:
    """Something of everything: what runs, what fits, what waits for room, its gang, its queue, or behind a gate."""
    given = a_cluster().node("n1", cpu=4, pods=6).queue("q")
    given.group("run", phase="Running").pod("run-0", "run", on="n1", cpu=1)
    given.job("fits", 2, cpu=1).job("gang", 3, cpu=2).job("lost", queue="nowhere", cpu=1)
    given.group("rejected", phase="Pending", minResources={"cpu": "99"}).pod("rejected-0", "rejected", cpu=1)
    given.group("gated").pod("gated-0", "gated", cpu=1, spec={"schedulingGates": [{"name": "g"}]})
    given.pod("orphan", "no-such-group", cpu=1).job("idle", 2)
    given.group("astray").pod("astray-0", "astray", cpu=1, spec={"nodeSelector": {"zone": "nowhere"}})
    return given


def settle(given: ClusterBuilder, configuration: str = DEFAULT) -> tuple[Any, list[list[str]]]:
    """Run cycles with what the watch shows in between; the kinds of steps of each."""
    on = rig(given, configuration)
    kinds: list[list[str]] = []
    changes: list[Any] = []
    for _ in range(6):
        decision = cycle(on, *changes)
        kinds.append(sorted(type(step).__name__ for step in decision.steps))
        changes = echo(on, given, decision)
    return on, kinds


@both
def test_a_cluster_in_which_nothing_happens_comes_to_rest(configuration: str) -> None:
    _, kinds = settle(world(), configuration)

    assert kinds[0].count("Bind") == 4
    assert kinds[-3:] == [[], [], []]
    assert sum(kind.count("Bind") for kind in kinds) == 4


@both
def test_nothing_is_told_twice(configuration: str) -> None:
    given = world()
    on = rig(given, configuration)
    told: list[Any] = []
    changes: list[Any] = []
    for _ in range(5):
        decision = cycle(on, *changes)
        told += [(s.kind, s.name, s.reason, s.message) for s in decision.steps if isinstance(s, RecordEvent)]
        told += [(s.name, s.message) for s in decision.steps if isinstance(s, WritePodCondition)]
        changes = echo(on, given, decision)

    assert len(told) == len(set(told))


def test_what_is_refused_again_for_the_same_reason_is_not_told_again_when_something_else_happens() -> None:
    given = a_cluster().node("n1", cpu=4).pod("p", cpu=1, spec={"nodeSelector": {"a": "b"}})
    on = rig(given, EVICTING, settings=MirrorSettings(plain_pods=True))
    cycle(on, *echo(on, given, cycle(on)))

    for number in range(3):  # each makes room, so the pod is tried anew
        other = a_cluster().pod(f"other-{number}", on="n1", cpu=1).changes()[-1:]
        steps = [*cycle(on, *other).steps, *cycle(on, finished(on, f"other-{number}")).steps]

        assert [step for step in steps if getattr(step, "name", "") == "p"] == []
        assert on.scheduler.mirror.cluster.tasks["pod-default-p"].refusal is not None


def test_a_pod_that_is_tried_in_every_session_is_not_told_again_in_those_that_seek_no_victims() -> None:
    """Where another pod's placement could help, a job is not left out; victims are sought after changes alone."""
    given = a_cluster().node("n1", cpu=4, labels={"zone": "a"}).group("g")
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    given.pod("g-0", "g", cpu=8, spec={"topologySpreadConstraints": [spread]})
    on = rig(given, EVICTING)
    first = cycle(on)
    decision = cycle(on, *echo(on, given, first))
    assert "preemption: " in decision.waiting["g-0"]

    for _ in range(3):
        idle = cycle(on)
        assert (idle.steps, idle.waiting["g-0"]) == ([], decision.waiting["g-0"])


@both
def test_who_waits_is_told_why_and_who_was_bound_is_told_nothing(configuration: str) -> None:
    decision = cycle(rig(world(), configuration))

    told = {s.name for s in decision.steps if isinstance(s, RecordEvent | WritePodCondition)}
    bound = {s.name for s in decision.steps if isinstance(s, Bind)}

    assert bound == {"fits-0", "fits-1", "idle-0", "idle-1"}
    assert not told & (bound | {"run-0", "gated-0"})
    assert {"gang-0", "gang-2", "lost-0", "rejected-0", "orphan", "lost", "rejected"} <= told


def test_every_pod_that_waits_without_a_gate_has_a_condition_that_says_why() -> None:
    decision = cycle(rig(world(), DEFAULT))
    conditions = {s.name: s.message for s in decision.steps if isinstance(s, WritePodCondition)}

    waiting = {name for name, why in decision.waiting.items() if not why.startswith("scheduling is gated")}

    assert set(conditions) == waiting
    assert conditions == {name: decision.waiting[name] for name in waiting}


def test_a_binding_that_failed_is_told_on_the_pod() -> None:
    on = rig(a_cluster().node("n1").job("j", cpu=1), DEFAULT)
    cycle(on)

    decision = cycle(on, BindFailed("pod-default-j-0", "n1", "admission webhook said no", on.clock.now() + 60))

    message = 'binding to node "n1" failed: admission webhook said no'
    conditions = [(s.name, s.message) for s in decision.steps if isinstance(s, WritePodCondition)]
    assert conditions == [("j-0", message)]
    events = [
        (s.kind, s.name, s.reason, s.message) for s in decision.steps if isinstance(s, RecordEvent) and s.kind == "Pod"
    ]
    assert events == [("Pod", "j-0", "FailedScheduling", message)]
    assert [s for s in cycle(on).steps if isinstance(s, RecordEvent | WritePodCondition)] == []


@pytest.mark.parametrize("late", [False, True])
def test_a_refusal_that_changed_is_told_anew(late: bool) -> None:
    on = rig(a_cluster().node("n1", cpu=1).job("j", cpu=2), DEFAULT)
    first = cycle(on)
    if late:
        cycle(on)

    second = cycle(on, *a_cluster().node("n2", cpu=1).changes())

    messages = [[s.message for s in decision.steps if isinstance(s, WritePodCondition)] for decision in (first, second)]
    assert messages == [
        ["0/1 nodes are available: 1 Insufficient cpu."],
        ["0/2 nodes are available: 2 Insufficient cpu."],
    ]


def test_the_status_of_a_group_follows_its_pods() -> None:
    given = a_cluster().node("n1").job("j", 2, cpu=1)
    on = rig(given, DEFAULT)
    written: list[tuple[str, int, int]] = []
    changes: list[Any] = []
    for number in range(5):
        decision = cycle(on, *changes)
        written += [(s.phase, s.running, s.succeeded) for s in decision.steps if isinstance(s, WriteGroupStatus)]
        changes = echo(on, given, decision)
        if number in (1, 2):
            changes.append(finished(on, f"j-{number - 1}"))

    assert written == [("Inqueue", 0, 0), ("Running", 2, 0), ("Running", 1, 1), ("Completed", 0, 2)]


def test_a_quantity_that_cannot_be_read_or_is_negative_is_told_on_its_object() -> None:
    given = a_cluster().node("n1", cpu="lots").queue("q", capability={"cpu": "?", "deviceclass/gpu": -1})

    told = {(s.kind, s.name, s.message) for s in cycle(rig(given, DEFAULT)).steps if isinstance(s, RecordEvent)}

    assert told == {
        ("Node", "n1", "status.allocatable[cpu]: 'lots' is not a quantity; it counts as 0"),
        ("Node", "n1", "status.capacity[cpu]: 'lots' is not a quantity; it counts as 0"),
        ("Queue", "q", "spec.capability[cpu]: '?' is not a quantity; it counts as 0"),
        ("Queue", "q", "spec.capability[deviceclass/gpu]: -1 is negative; it counts as 0"),
    }


def test_a_queue_that_goes_and_comes_back_is_told_and_helps() -> None:
    on = rig(a_cluster().node("n1", cpu=1).queue("q").job("j", queue="q", cpu=2), DEFAULT)
    cycle(on)

    lost = cycle(on, Deleted("Queue", "", "q", "queue--q"))
    job = on.cluster.jobs["default/j"]
    assert job.refusal is not None
    assert 'queue "q" of PodGroup "default/j" does not exist' in {
        s.message for s in lost.steps if isinstance(s, RecordEvent)
    }

    cycle(on, *a_cluster().queue("q").changes())
    assert on.cluster.jobs["default/j"].refusal is None
    assert cycle(on, *a_cluster().node("n1", cpu=2).changes()).bindings == {"j-0": "n1"}
