"""What pods that wait say of themselves: in their conditions, whatever keeps them, and in their own Events.

Autoscalers make nodes for pods of reason Unschedulable, so that is said only where more nodes would help.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.rigs import conf, cycle, echo, no, quota, rig
from tests.plugins.capacity_card.clusters import Cards, cards
from tests.plugins.capacity_card.clusters import rig as rig_of_cards
from volsched.framework.registration import Registrar
from volsched.framework.rules import Allocatable
from volsched.model.changes import BindFailed, Deleted
from volsched.model.plan import RecordEvent, WriteGroupStatus, WritePodCondition
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_cluster

DEFAULT = conf("enqueue, allocate, backfill", "priority gang conformance", "overcommit predicates nodeorder binpack")
NO_ENQUEUE = conf("allocate, backfill", "priority gang", "predicates")
CLOSED = {"state": "Closed"}


def conditions(decision: CycleDecision) -> dict[str, tuple[str, str]]:
    """Reason and message of each pod's condition."""
    return {s.name: (s.reason, s.message) for s in decision.steps if isinstance(s, WritePodCondition)}


def reasons(decision: CycleDecision) -> dict[str, str]:
    return {name: reason for name, (reason, _) in conditions(decision).items()}


def told(decision: CycleDecision, kind: str = "Pod") -> list[tuple[str, str, str]]:
    return [(s.name, s.reason, s.message) for s in decision.steps if isinstance(s, RecordEvent) and s.kind == kind]


def closed(name: str) -> ClusterBuilder:
    made = a_cluster().queue(name)
    made.objects[0]["status"] = CLOSED
    return made


# --- whichever plugin and step refused ------------------------------------------------------------------------------


def a_group_that_is_too_large() -> ClusterBuilder:
    given = a_cluster().node("n1", cpu=4).group("g", minimum=2, phase="Pending", minResources={"cpu": "99"})
    return given.pod("g-0", "g", cpu=1).pod("g-1", "g", cpu=1)


def test_pods_of_a_group_that_is_not_admitted_tell_why_themselves() -> None:
    decision = cycle(rig(a_group_that_is_too_large(), DEFAULT))

    [(_, _, said)] = told(decision, "PodGroup")
    assert said.startswith("resource in cluster is overused: overused cpu")
    assert told(decision) == [("g-0", "Unschedulable", said), ("g-1", "Unschedulable", said)]
    assert conditions(decision) == dict.fromkeys(("g-0", "g-1"), ("NotAdmitted", said))


def test_a_pod_that_comes_while_its_group_waits_tells_why_too() -> None:
    on = rig(a_group_that_is_too_large(), DEFAULT)
    cycle(on)

    decision = cycle(on, *a_cluster().pod("g-2", "g", cpu=1).changes())

    assert [name for name, *_ in told(decision)] == ["g-2"]
    assert reasons(decision) == {"g-2": "NotAdmitted"}


@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
def test_pods_of_a_queue_that_is_closed_tell_so(phase: str) -> None:
    given = closed("q").node("n1").group("g", "q", phase=phase).pod("p", "g", cpu=1)

    decision = cycle(rig(given, DEFAULT))

    said = 'queue "q" is Closed: it takes nothing on until it is opened'
    assert told(decision) == [("p", "QueueClosed", said)]
    assert conditions(decision) == {"p": ("QueueClosed", said)}
    assert told(decision, "PodGroup") == [("g", "QueueClosed", said)]


def test_groups_of_a_closed_queue_tell_so_without_an_action_that_admits_them() -> None:
    given = closed("q").node("n1").group("g", "q", phase="Pending").pod("p", "g", cpu=1)
    on = rig(given, DEFAULT.replace("enqueue, ", ""))

    assert reasons(cycle(on)) == {"p": "QueueClosed"}
    assert reasons(cycle(on)) == {}
    assert cycle(on, *a_cluster().queue("q").changes()).bindings == {"p": "n1"}


def test_a_queue_that_is_gone_is_told_once_on_the_group_and_on_each_pod() -> None:
    decision = cycle(rig(a_cluster().group("g", "nowhere", minimum=2).pod("a", "g").pod("b", "g"), DEFAULT))

    said = 'queue "nowhere" of PodGroup "default/g" does not exist'
    assert told(decision, "PodGroup") == [("g", "Unschedulable", said)]
    assert told(decision) == [("a", "Unschedulable", said), ("b", "Unschedulable", said)]
    assert reasons(decision) == {"a": "QueueNotFound", "b": "QueueNotFound"}


def test_a_pod_that_lacked_room_says_so_no_longer_when_its_queue_is_closed_and_again_when_it_is_open() -> None:
    given = a_cluster().node("n1", cpu=1).queue("q").job("j", queue="q", cpu=2)
    on = rig(given, DEFAULT)
    assert reasons(cycle(on)) == {"j-0": "Unschedulable"}

    assert reasons(cycle(on, *closed("q").changes())) == {"j-0": "QueueClosed"}
    assert reasons(cycle(on)) == {}
    assert reasons(cycle(on, *a_cluster().queue("q").changes())) == {"j-0": "Unschedulable"}


def test_a_queue_that_is_closed_again_is_told_again_also_of_pods_that_want_nothing() -> None:
    on = rig(
        a_cluster().node("n1", taints=[{"key": "x", "effect": "NoSchedule"}]).queue("q").job("j", queue="q"), DEFAULT
    )
    reopened = a_cluster().queue("q").changes()
    cycle(on)

    for _ in range(2):
        decision = cycle(on, *closed("q").changes())
        assert reasons(decision) == {"j-0": "QueueClosed"}
        assert [reason for _, reason, _ in told(decision, "PodGroup")] == ["QueueClosed"]
        assert reasons(cycle(on, *reopened)) == {"j-0": "Unschedulable"}


def test_while_a_queue_may_still_come_nothing_is_told_of_its_groups() -> None:
    on = rig(a_cluster().node("n1").job("j", 2, queue="late", cpu=1), DEFAULT)
    on.scheduler._orphan_grace = 2.0

    assert told(cycle(on), "PodGroup") == []
    on.clock.time += 2.5
    assert [message for _, _, message in told(cycle(on), "PodGroup")] == [
        'queue "late" of PodGroup "default/j" does not exist'
    ]


def test_an_incomplete_gang_is_no_cause_for_nodes() -> None:
    given = a_cluster().node("n1").group("g", minimum=3).pod("p", "g", cpu=1)

    decision = cycle(rig(given, DEFAULT))

    assert reasons(decision) == {"p": "GangIncomplete"}
    assert [reason for _, reason, _ in told(decision)] == ["NotEnoughTasks"]


def test_a_pod_without_its_podgroup_and_one_whose_fields_are_wrong_say_so() -> None:
    given = a_cluster().node("n1").pod("orphan", "nobody-made-it", cpu=1)
    given.job("odd", spec={"tolerations": [{"key": "a", "operator": "Near"}]}, cpu=1)

    assert reasons(cycle(rig(given, DEFAULT))) == {"orphan": "PodGroupNotFound", "odd-0": "InvalidField"}


def test_a_claim_that_somebody_has_to_make_is_no_cause_for_nodes() -> None:
    volume = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    devices = {"resourceClaims": [{"name": "d", "resourceClaimName": "cards"}]}
    given = a_cluster().node("n1").job("v", spec=volume, cpu=1).job("d", spec=devices, cpu=1)

    decision = cycle(rig(given, DEFAULT))

    assert conditions(decision) == {
        "v-0": ("ClaimNotReady", 'persistentvolumeclaim "data" not found'),
        "d-0": ("ClaimNotReady", 'waiting for resourceclaim "cards": it does not exist'),
    }


def a_claim(device_class: str) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": device_class}}
    meta = {"name": "cards", "namespace": "default", "uid": "claim"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": {"requests": [request]}},
    }


def test_a_class_of_devices_that_no_driver_has_brought_is_one_as_its_nodes_are_lacking() -> None:
    devices = {"resourceClaims": [{"name": "d", "resourceClaimName": "cards"}]}
    given = a_cluster().node("n1").add(a_claim("gpu.example.com")).job("d", spec=devices, cpu=1)

    assert reasons(cycle(rig(given, DEFAULT))) == {"d-0": "Unschedulable"}


def test_a_refused_binding_is_no_cause_for_nodes() -> None:
    on = rig(a_cluster().node("n1").job("j", cpu=1), DEFAULT)
    cycle(on)

    assert reasons(cycle(on, BindFailed("pod-default-j-0", "n1", "no", on.clock.now() + 60))) == {
        "j-0": "SchedulerError"
    }


def test_pods_behind_the_gate_of_their_queue_keep_the_condition_of_the_api_server() -> None:
    gate = {"schedulingGates": [{"name": "scheduling.volcano.sh/queue-allocation-gate"}]}
    given = a_cluster().node("n1").queue("q").job("j", queue="q", cpu=1, spec=gate)

    decision = cycle(rig(given, NO_ENQUEUE, quota({"q": 0})))

    assert (reasons(decision), [name for name, *_ in told(decision)]) == ({}, ["j-0"])


# --- gangs ----------------------------------------------------------------------------------------------------------


def test_all_members_of_a_gang_that_lacks_room_call_for_nodes_also_those_that_could_be_placed() -> None:
    decision = cycle(rig(a_cluster().node("n1", cpu=4).job("g", 3, cpu=2), DEFAULT))

    assert reasons(decision) == {f"g-{number}": "Unschedulable" for number in range(3)}


def test_no_member_of_a_gang_calls_for_nodes_that_has_room_and_waits_for_quota() -> None:
    given = a_cluster().node("n1", cpu=64).queue("q").job("g", 3, queue="q", cpu=2)

    decision = cycle(rig(given, NO_ENQUEUE, quota({"q": 4000})))

    assert reasons(decision) == {f"g-{number}": "QuotaExceeded" for number in range(3)}
    assert conditions(decision)["g-0"][1].endswith("2 could now; the others: quota of q")


def blocked(*names: str) -> Any:
    """A quota that keeps these pods out."""

    def register(registrar: Registrar) -> None:
        registrar.register(Allocatable(lambda _, task: no("quota of q") if task.name in names else None))

    return register


def mixed(minimum: int) -> ClusterBuilder:
    """Three members, of which one could be placed and one is too large for any node."""
    given = a_cluster().node("n1", cpu=4).queue("q").group("g", "q", minimum)
    return given.pod("a", "g", cpu=1).pod("b", "g", cpu=1).pod("c", "g", cpu=64)


def test_a_gang_that_lacks_both_room_and_quota_calls_for_no_nodes() -> None:
    decision = cycle(rig(mixed(3), NO_ENQUEUE, blocked("a")))

    assert reasons(decision) == dict.fromkeys("abc", "QuotaExceeded")
    said = "0/1 nodes are available: 1 Insufficient cpu; its gang waits for another, too: quota of q"
    assert conditions(decision)["c"][1] == said


def test_a_gang_that_could_start_without_those_above_the_quota_calls_for_nodes() -> None:
    given = mixed(2).pod("d", "g", cpu=64)
    given.objects[-1], given.objects[-2] = given.objects[-2], given.objects[-1]

    decision = cycle(rig(given, NO_ENQUEUE, blocked("a", "b")))

    assert reasons(decision) == {"a": "QuotaExceeded", "b": "QuotaExceeded", "c": "Unschedulable", "d": "Unschedulable"}


def test_a_role_whose_first_pod_waits_for_a_claim_calls_for_no_nodes() -> None:
    given = a_cluster().node("n1").group("g", minimum=2)
    volume = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    for name in ("g-0", "g-1", "g-2"):
        given.pod(name, "g", annotations={"volcano.sh/task-spec": "worker"}, cpu=1, spec=volume)

    assert set(reasons(cycle(rig(given, NO_ENQUEUE))).values()) == {"ClaimNotReady"}


def test_a_gang_with_members_behind_gates_calls_for_no_nodes() -> None:
    given = a_cluster().node("n1").group("g", minimum=3).pod("a", "g", cpu=1).pod("b", "g", cpu=1)
    given.pod("c", "g", cpu=1, spec={"schedulingGates": [{"name": "x"}]})

    assert reasons(cycle(rig(given, NO_ENQUEUE))) == {"a": "GangIncomplete", "b": "GangIncomplete"}


# --- what it costs --------------------------------------------------------------------------------------------------


def test_a_gang_of_thousands_is_told_once_and_then_nothing_is_written() -> None:
    given = a_cluster().node("n1", cpu=4).queue("q").group("g", "q", 3000, phase="Pending", minResources={"cpu": "9k"})
    for number in range(3000):
        given.pod(f"g-{number}", "g", cpu=3)
    on = rig(given, DEFAULT)

    first = cycle(on)
    second = cycle(on, *echo(on, given, first))
    third = cycle(on)

    assert (len(conditions(first)), len(told(first))) == (3000, 10)
    assert (second.steps, third.steps) == ([], [])
    late = cycle(on, *a_cluster().pod("g-3000", "g", cpu=3).changes())
    assert (list(conditions(late)), told(late)) == (["g-3000"], [])


# --- the condition of a PodGroup that has no pods yet ---------------------------------------------------------------


def group_conditions(on: Rig, name: str = "g") -> list[tuple[str, str]]:
    return [(c.type, c.reason) for c in on.cluster.jobs[f"default/{name}"].conditions]


def test_a_group_without_pods_says_why_it_waits_and_no_longer_once_it_is_admitted() -> None:
    on = rig(closed("q").node("n1").group("g", "q", phase="Pending"), DEFAULT)

    written = [s for s in cycle(on).steps if isinstance(s, WriteGroupStatus)]
    assert [(c.type, c.status, c.reason, c.message) for c in written[0].conditions] == [
        ("Unschedulable", "True", "QueueClosed", 'queue "q" is Closed: it takes nothing on until it is opened')
    ]
    assert cycle(on).steps == []
    cycle(on, *a_cluster().queue("q").changes())
    assert group_conditions(on) == []


def test_a_queue_that_is_gone_is_the_condition_of_its_group() -> None:
    on = rig(a_cluster().queue("q").node("n1").group("g", "q", phase="Pending"), DEFAULT)
    cycle(on)
    assert group_conditions(on) == []

    cycle(on, Deleted("Queue", "", "q", "queue--q"))

    assert group_conditions(on) == [("Unschedulable", "QueueNotFound")]


# --- what a quota would forbid if there were nodes ------------------------------------------------------------------


def with_cards(quota_of_q: int) -> Cards:
    """A node of one card, and a queue that may hold so many."""
    return cards().cards("n1", "NVIDIA-A100", 1).quota("q", {"NVIDIA-A100": quota_of_q})


def test_of_pods_without_room_only_as_many_call_for_nodes_as_their_queue_would_take_on() -> None:
    given = with_cards(8).gang("web", 10, card="NVIDIA-A100", each=2)
    on = rig_of_cards(given)

    first = on.cycle()

    assert [name for name, reason in reasons(first).items() if reason == "Unschedulable"] == [
        f"web-{number}" for number in range(4)
    ]
    reason, message = conditions(first)["web-4"]
    assert reason == "QuotaExceeded"
    assert message.endswith('Insufficient nvidia.com/gpu; and queue "q" may take on 4 such pods only')
    assert on.cycle().steps == []


@pytest.mark.parametrize(("quota_of_q", "reason"), [(6, "QuotaExceeded"), (8, "Unschedulable")])
def test_a_gang_without_room_calls_for_nodes_if_its_queue_would_take_on_all_of_it(quota_of_q: int, reason: str) -> None:
    given = with_cards(quota_of_q).gang("g", 4, card="NVIDIA-A100", each=2, minimum=4)

    decision = rig_of_cards(given).cycle()

    assert reasons(decision) == {f"g-{number}": reason for number in range(4)}


def test_a_gang_that_quota_forbids_calls_for_nodes_once_the_quota_is_raised() -> None:
    given = with_cards(6).gang("g", 4, card="NVIDIA-A100", each=2, minimum=4)
    on = rig_of_cards(given)
    assert set(reasons(on.cycle()).values()) == {"QuotaExceeded"}

    assert set(reasons(on.cycle(*cards().quota("q", {"NVIDIA-A100": 8}).changes())).values()) == {"Unschedulable"}
