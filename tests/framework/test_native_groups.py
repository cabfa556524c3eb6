"""Kubernetes' own gangs, decided by whole sessions: who starts, who waits, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from volsched.framework.config.loading import DEFAULT_CONFIGURATION, IN_KUBE_SCHEDULERS_PLACE
from volsched.framework.engine.fast import Engine, FastEngine
from volsched.framework.native.gangs import WAITS_FOR_GROUP
from volsched.model.api import native_groups as native
from volsched.model.changes import Change, Deleted, KindServed, Put
from volsched.model.cluster import Cluster
from volsched.model.plan import RecordEvent, WriteNativeStatus, WritePodCondition
from volsched.testing.builders import (
    ClusterBuilder,
    CycleDecision,
    Rig,
    a_cluster,
    a_group,
    a_member,
    a_native_group,
    a_pod,
    a_rig,
    put,
)
from volsched.testing.recount import faults

WITHOUT_GANG = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: predicates
"""
CONFIGURATIONS = (DEFAULT_CONFIGURATION, IN_KUBE_SCHEDULERS_PLACE, WITHOUT_GANG)
NOT_FEASIBLE = "0/1 placements are available, first placement status: pod group is unschedulable"
SERVED = KindServed(native.KIND, "scheduling.k8s.io/v1alpha2")


def a_room(cpu: Any = "4") -> ClusterBuilder:
    return a_cluster().node("n", cpu=cpu).queue("default")


def members(group: str, count: int, start: int = 0, **more: Any) -> list[Change]:
    more = {"cpu": 1, **more}
    return [put(a_member(f"{group}-{index}", group, **more)) for index in range(start, start + count)]


def rig_of(
    cluster: ClusterBuilder | None = None,
    configuration: str = IN_KUBE_SCHEDULERS_PLACE,
    engine: Callable[[Cluster], Engine] = FastEngine,
) -> Rig:
    rig = a_rig(cluster or a_room(), configuration, engine)
    rig.mirror.apply([SERVED])
    return rig


def conditions(decision: CycleDecision) -> list[tuple[str, str, str, str]]:
    """Of groups: name, status, reason and message of what is written."""
    found = [step for step in decision.steps if isinstance(step, WriteNativeStatus)]
    return [(s.name, c.status, c.reason, c.message) for s in found for c in s.conditions]


def said_of_pods(decision: CycleDecision) -> dict[str, tuple[str, str]]:
    found = [step for step in decision.steps if isinstance(step, WritePodCondition)]
    return {step.name: (step.reason, step.message) for step in found}


def about_groups(decision: CycleDecision) -> list[RecordEvent]:
    return [step for step in decision.steps if isinstance(step, RecordEvent) and step.kind == "PodGroup"]


def gone(name: str) -> Deleted:
    return Deleted("Pod", "default", name, f"pod-default-{name}")


# -- starting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_gang_starts_whole_whatever_is_configured(configuration: str) -> None:
    rig = rig_of(configuration=configuration)

    early = rig.cycle(put(a_native_group("g", 3)), *members("g", 2))
    assert early.bindings == {}
    assert (conditions(early), said_of_pods(early)) == ([], {})

    decision = rig.cycle(*members("g", 1, start=2))
    assert sorted(decision.bindings) == ["g-0", "g-1", "g-2"]
    assert conditions(decision) == [("g", "True", "Scheduled", "")]
    assert faults(rig.cluster) == []


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_gang_without_room_for_its_minimum_starts_not_at_all(configuration: str) -> None:
    rig = rig_of(a_room("2"), configuration)
    rig.cycle(put(a_native_group("g", 3)), *members("g", 3))
    decision = rig.cycle()

    assert rig.cluster.nodes["n"].used_of("cpu") == 0
    assert [task.node for task in rig.cluster.tasks.values()] == [None] * 3
    assert decision.bindings == {}


def test_what_is_said_of_a_gang_without_room() -> None:
    rig = rig_of(a_room("2"))

    decision = rig.cycle(put(a_native_group("g", 3)), *members("g", 3))

    [(name, status, reason, message)] = conditions(decision)
    assert (name, status, reason) == ("g", "False", "Unschedulable")
    assert message == f"{NOT_FEASIBLE}, No preemption victims found for incoming preemptor"
    said = said_of_pods(decision)
    assert [said[f"g-{index}"] for index in (0, 1)] == [("Unschedulable", WAITS_FOR_GROUP)] * 2
    assert said["g-2"][0] == "Unschedulable"
    assert said["g-2"][1].startswith("0/1 nodes are available: 1 Insufficient cpu")


def test_a_gang_starts_with_those_that_have_room_and_the_others_wait_by_themselves() -> None:
    rig = rig_of(a_room("3"))

    decision = rig.cycle(put(a_native_group("g", 2)), *members("g", 4))
    assert len(decision.bindings) == 3
    assert conditions(decision) == [("g", "True", "Scheduled", "")]
    assert [message[:20] for _, message in said_of_pods(decision).values()] == ["0/1 nodes are availa"]
    assert conditions(rig.cycle()) == []


def test_a_basic_group_is_no_gang() -> None:
    rig = rig_of(a_room("2"))

    decision = rig.cycle(put(a_native_group("g")), *members("g", 4))

    assert len(decision.bindings) == 2
    assert conditions(decision) == [("g", "True", "Scheduled", "")]


def test_of_two_gangs_that_need_all_the_room_the_one_with_the_first_pod_starts() -> None:
    for first, second in (("a", "b"), ("b", "a")):
        rig = rig_of()
        rig.cycle(put(a_native_group("a", 3)), put(a_native_group("b", 3)))
        pods = [put(a_member(f"{name}-{n}", name, cpu=1)) for n in range(3) for name in (first, second)]
        assert {name[0] for name in rig.cycle(*pods).bindings} == {first}


def test_pods_that_ask_for_nothing_start_with_their_gang() -> None:
    cluster = a_cluster().node("n", cpu="4", pods="2").queue("default")
    rig = rig_of(cluster)

    decision = rig.cycle(put(a_native_group("g", 3)), *members("g", 3, cpu=0))

    assert decision.bindings == {}


# -- who counts -------------------------------------------------------------------------------------------------------


def test_a_gated_member_is_waited_for() -> None:
    rig = rig_of()
    gate = {"schedulingGates": [{"name": "example.com/wait"}]}
    decision = rig.cycle(put(a_native_group("g", 3)), *members("g", 2), *members("g", 1, start=2, spec=gate))
    assert (decision.bindings, conditions(decision)) == ({}, [])

    assert len(rig.cycle(*members("g", 1, start=2, metadata={"resourceVersion": "2"})).bindings) == 3


def test_a_member_that_is_leaving_does_not_count() -> None:
    rig = rig_of()
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}

    decision = rig.cycle(put(a_native_group("g", 3)), *members("g", 2), *members("g", 1, start=2, metadata=leaving))

    assert decision.bindings == {}


def test_members_that_have_succeeded_count() -> None:
    rig = rig_of()

    decision = rig.cycle(
        put(a_native_group("g", 3)), *members("g", 2, phase="Succeeded", on="n"), *members("g", 1, start=2)
    )

    assert decision.bindings == {"g-2": "n"}


def test_a_member_of_another_scheduler_counts_once_somebody_has_bound_it() -> None:
    rig = rig_of()
    foreign = {"schedulerName": "other"}
    before = rig.cycle(put(a_native_group("g", 3)), *members("g", 2), *members("g", 1, start=2, spec=foreign))
    assert before.bindings == {}

    assert len(rig.cycle(*members("g", 1, start=2, spec=foreign, on="n")).bindings) == 2


def test_pods_of_several_of_our_names_are_refused_in_kube_schedulers_words() -> None:
    rig = rig_of()
    other = {"schedulerName": "volcano"}

    decision = rig.cycle(put(a_native_group("g", 2)), *members("g", 1), *members("g", 1, start=1, spec=other))

    words = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "volcano" and "volsched"'
    assert conditions(decision) == [("g", "False", "SchedulerError", words)]
    assert said_of_pods(decision) == dict.fromkeys(("g-0", "g-1"), ("SchedulerError", words))


def test_from_137_on_pods_must_have_the_priority_of_their_group() -> None:
    rig = rig_of()

    decision = rig.cycle(
        put(a_native_group("g", 2, version="v1beta1", priority=2)), *members("g", 2, spec={"priority": 1})
    )

    words = "all pods in a single pod group should match the priority of the pod group, got: 1 and 2"
    assert conditions(decision) == [("g", "False", "SchedulerError", words)]
    assert rig_of().cycle(put(a_native_group("g", 2, priority=2)), *members("g", 2, spec={"priority": 1})).bindings


# -- groups that are late, missing, gone or made anew ------------------------------------------------------------------


def test_pods_wait_for_their_group_and_are_never_placed_alone() -> None:
    rig = rig_of()

    decision = rig.cycle(*members("g", 3))
    assert decision.bindings == {}
    assert {reason for reason, _ in said_of_pods(decision).values()} == {"PodGroupNotFound"}

    assert len(rig.cycle(put(a_native_group("g", 3))).bindings) == 3


def test_pods_are_told_when_nobody_serves_the_kind() -> None:
    rig = a_rig(a_room(), DEFAULT_CONFIGURATION)

    [message] = {message for _, message in said_of_pods(rig.cycle(*members("g", 3))).values()}

    assert message.endswith("the API server has no such kind, or none in a version that is understood")


def test_a_group_that_is_made_anew_is_followed_and_begins_with_a_clean_condition() -> None:
    rig = rig_of(a_room("2"))
    rig.cycle(put(a_native_group("g", 3)), *members("g", 3))
    rig.cycle(Deleted(native.KIND, "default", "g", "podgroup-default-g"))

    decision = rig.cycle(put(a_native_group("g", 2, metadata={"uid": "another"})))

    assert len(decision.bindings) == 2
    [write] = [step for step in decision.steps if isinstance(step, WriteNativeStatus)]
    assert (write.uid, [c.status for c in write.conditions]) == ("another", ["True"])


def test_true_never_goes_back() -> None:
    rig = rig_of()
    rig.cycle(put(a_native_group("g", 3)), *members("g", 3))
    rig.cycle(*members("g", 3, on="n"))
    rig.cycle(gone("g-0"), gone("g-1"))

    assert conditions(rig.cycle(*members("g", 2, start=3, cpu=9))) == []


def test_the_condition_is_read_back_after_a_restart() -> None:
    said = {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": ""}
    rig = rig_of(a_room("1"))

    decision = rig.cycle(put(a_native_group("g", 3, status={"conditions": [said]})), *members("g", 3))

    assert conditions(decision) == []


# -- what is said of groups that lack members --------------------------------------------------------------------------


def test_of_a_group_that_lacks_members_one_event_tells_and_no_condition() -> None:
    rig = rig_of()

    found = [rig.cycle(put(a_native_group("g", 9))), rig.cycle(*members("g", 1)), rig.cycle(*members("g", 2, start=1))]

    events = [(event.reason, event.api_version, event.name) for decision in found for event in about_groups(decision)]
    assert events == [("NotEnoughTasks", "scheduling.k8s.io/v1alpha2", "g")]
    assert [conditions(decision) for decision in found] == [[], [], []]
    assert [said_of_pods(decision) for decision in found] == [{}, {}, {}]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"schedulingPolicy": {"swarm": {}}}, "spec.schedulingPolicy: Object contains unknown field `swarm`"),
        ({"schedulingConstraints": {"near": []}}, "spec.schedulingConstraints: Object contains unknown field `near`"),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology: ",
        ),
        ({"elsewhere": 1}, "spec: Object contains unknown field `elsewhere`"),
    ],
)
def test_what_is_not_understood_refuses_the_group(spec: dict[str, Any], fault: str) -> None:
    rig = rig_of()

    decision = rig.cycle(put(a_native_group("g", 2, **spec)), *members("g", 2))

    assert decision.bindings == {}
    [(_, status, reason, message)] = conditions(decision)
    assert (status, reason) == ("False", "SchedulerError")
    assert message.startswith(fault)


def test_absent_members_may_be_null() -> None:
    rig = rig_of()
    nothing = {"podGroupTemplateRef": None, "schedulingConstraints": None, "resourceClaims": None}

    assert len(rig.cycle(put(a_native_group("g", 2, **nothing)), *members("g", 2)).bindings) == 2


# -- beside Volcano's --------------------------------------------------------------------------------------------------


def test_a_native_and_a_volcano_group_of_one_name_are_two() -> None:
    rig = rig_of()

    decision = rig.cycle(
        put(a_native_group("g", 2)),
        put(a_group("g", minimum=2)),
        *members("g", 2),
        put(a_pod("v-0", "g", cpu=1)),
        put(a_pod("v-1", "g", cpu=1)),
    )

    assert sorted(decision.bindings) == ["g-0", "g-1", "v-0", "v-1"]
    rig.cycle(Deleted("PodGroup", "default", "g", "podgroup-default-g"))
    assert rig.cluster.jobs["default/group/g"].spec.has_group
    assert not rig.cluster.jobs["default/g"].spec.has_group


def test_schedulinggroup_decides_whatever_the_annotation_says() -> None:
    rig = rig_of()

    decision = rig.cycle(
        put(a_native_group("g", 2)),
        put(a_group("v", minimum=1)),
        put(a_member("p", "g", cpu=1, annotations={"scheduling.k8s.io/group-name": "v"})),
    )

    assert decision.bindings == {}


def test_a_volcano_group_that_was_made_for_members_counts_nothing() -> None:
    cluster = a_cluster().node("n", cpu="8").queue("default", capability={"cpu": "4"})
    rig = rig_of(cluster, DEFAULT_CONFIGURATION)
    note = {"scheduling.k8s.io/group-name": "podgroup-1"}
    left_over = a_group("podgroup-1", minimum=1, phase="Pending", minResources={"cpu": "3"})

    decision = rig.cycle(put(left_over), put(a_native_group("g", 2)), *members("g", 2, cpu=2, annotations=note))

    assert len(decision.bindings) == 2
    assert rig.cluster.jobs["default/podgroup-1"].phase == "Pending"
    assert rig.cluster.jobs["default/podgroup-1"].blocked
    rig.cycle(gone("g-0"), gone("g-1"))
    assert not rig.cluster.jobs["default/podgroup-1"].blocked


def test_a_volcano_group_that_somebody_is_in_after_all_counts() -> None:
    rig = rig_of()
    note = {"scheduling.k8s.io/group-name": "v"}
    rig.cycle(put(a_group("v", minimum=1)), put(a_native_group("g", 9)), *members("g", 1, annotations=note))

    assert rig.cycle(put(a_pod("p", "v", cpu=1))).bindings == {"p": "n"}


# -- queues ------------------------------------------------------------------------------------------------------------

QUEUE = "scheduling.volcano.sh/queue-name"


def queue_of(*changes: Change) -> str:
    rig = rig_of()
    rig.cycle(*changes)
    return rig.cluster.jobs["default/group/g"].queue


def a_workload(queue: str) -> Put:
    meta = {"name": "w", "namespace": "default", "uid": "w", "annotations": {QUEUE: queue}}
    return put({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "metadata": meta})


def a_space(queue: str) -> Put:
    return put(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "annotations": {QUEUE: queue}}}
    )


REF = {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}}


def test_the_first_that_names_a_queue_decides() -> None:
    of_pods = members("g", 2, annotations={QUEUE: "p"})
    group, named = put(a_native_group("g", 9, **REF)), put(a_native_group("g", 9, annotations={QUEUE: "g"}, **REF))

    assert queue_of(named, a_workload("w"), *of_pods, a_space("n")) == "g"
    assert queue_of(group, a_workload("w"), *of_pods, a_space("n")) == "w"
    assert queue_of(group, *of_pods, a_space("n")) == "p"
    assert queue_of(group, a_space("n")) == "n"
    assert queue_of(group) == "default"


def test_pods_that_name_different_queues_refuse_their_group() -> None:
    rig = rig_of()

    decision = rig.cycle(
        put(a_native_group("g", 2)),
        *members("g", 1, annotations={QUEUE: "a"}),
        *members("g", 1, start=1, annotations={QUEUE: "b"}),
    )

    assert [line for line in conditions(decision) if "different queues" in line[3] or "does not exist" in line[3]]


def test_a_group_that_waits_moves_when_its_annotation_changes() -> None:
    cluster = a_room().queue("a").queue("b")
    rig = rig_of(cluster, DEFAULT_CONFIGURATION)
    rig.cycle(put(a_native_group("g", 2, annotations={QUEUE: "a"})), *members("g", 1))
    assert "cpu" not in rig.cluster.queues["a"].allocated

    rig.cycle(put(a_native_group("g", 2, annotations={QUEUE: "b"})), *members("g", 1, start=1))

    assert "cpu" not in rig.cluster.queues["a"].allocated
    assert rig.cluster.queues["b"].allocated["cpu"] == 2_000
    assert faults(rig.cluster) == []


PLUGIN_QUOTAS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: {plugin}
"""


@pytest.mark.parametrize("plugin", ["capacity", "proportion", "capacity-card"])
def test_a_queue_that_has_too_little_left_admits_no_group(plugin: str) -> None:
    cluster = a_cluster().node("n", cpu="8").queue("default", capability={"cpu": "2"})
    rig = rig_of(cluster, PLUGIN_QUOTAS.format(plugin=plugin))

    decision = rig.cycle(put(a_native_group("g", 3)), *members("g", 3))
    assert decision.bindings == {}
    [(_, status, reason, message)] = conditions(decision)
    assert (status, reason) == ("False", "Unschedulable")
    assert "default" in message

    assert len(rig.cycle(put(a_native_group("small", 2)), *members("small", 2)).bindings) == 2


def test_a_group_with_a_member_on_a_node_was_admitted() -> None:
    cluster = a_cluster().node("n", cpu="8").queue("default", capability={"cpu": "3"})
    rig = rig_of(cluster, PLUGIN_QUOTAS.format(plugin="capacity"))

    decision = rig.cycle(put(a_native_group("g", 3)), *members("g", 2, on="n"), *members("g", 1, start=2))

    assert decision.bindings == {"g-2": "n"}


@pytest.mark.parametrize("plugin", ["capacity", "proportion", "capacity-card"])
def test_what_a_group_holds_counts_once(plugin: str) -> None:
    cluster = a_cluster().node("n", cpu="8").queue("default", capability={"cpu": "4"})
    rig = rig_of(cluster, PLUGIN_QUOTAS.format(plugin=plugin))
    rig.cycle(put(a_native_group("a", 2)), *members("a", 2))
    rig.cycle(*members("a", 2, on="n"))

    assert len(rig.cycle(put(a_native_group("b", 2)), *members("b", 2)).bindings) == 2
    assert rig.cycle(put(a_native_group("c", 1)), *members("c", 1)).bindings == {}


def test_a_finished_group_is_admitted_again_when_a_pod_comes() -> None:
    cluster = a_cluster().node("n", cpu="8").queue("default", capability={"cpu": "1"})
    rig = rig_of(cluster, PLUGIN_QUOTAS.format(plugin="capacity"))
    rig.cycle(put(a_native_group("g", 2)), *members("g", 2, phase="Succeeded", on="n"))
    assert rig.cluster.jobs["default/group/g"].phase == "Completed"

    assert rig.cycle(*members("g", 1, start=2, cpu=2)).bindings == {}
    assert rig.cycle(*members("g", 1, start=3)).bindings == {"g-3": "n"}
