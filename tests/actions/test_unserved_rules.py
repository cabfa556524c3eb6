"""A job that states a hard rule which volsched cannot keep waits: whatever is configured, whoever acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.actions.rigs import GANG, conf, cycle, events, rig
from tests.actions.test_queue_permissions import Wilful
from volsched.framework.engine.fast import Engine
from volsched.framework.session import Session
from volsched.model.cluster import Cluster
from volsched.model.plan import Bind, WriteGroupStatus, WritePodCondition
from volsched.testing.builders import ClusterBuilder, a_cluster, a_group, a_queue, a_rig, puts
from volsched.testing.contract import ENGINES

ALL = "enqueue, allocate, preempt, reclaim, backfill"
ACTIONS = [ALL, "allocate, backfill", "backfill", "reserve, allocate"]
TIERS = [(GANG, "predicates nodeorder"), (GANG, "predicates network-topology-aware"), ("predicates",)]

HARD = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
RULES: list[tuple[dict[str, Any], str, str]] = [
    (HARD, "NetworkTopologyUnknown", "spec.networkTopology is hard"),
    ({"networkTopology": {"highestTierAllowed": 2}}, "NetworkTopologyUnknown", "spec.networkTopology has no mode"),
    ({"networkTopology": {}}, "NetworkTopologyUnknown", "spec.networkTopology has no mode, which means hard"),
    ({"networkTopology": {"mode": "odd"}}, "NetworkTopologyUnknown", "neither hard nor soft, which counts as hard"),
    (
        {"subGroupPolicy": [{"name": "a"}, {"name": "b", **HARD}]},
        "NetworkTopologyUnknown",
        "spec.subGroupPolicy[1].networkTopology is hard",
    ),
    ({"subGroupPolicy": [{"subGroupSize": 2}]}, "SubGroupsUnknown", "spec.subGroupPolicy[0] has a subGroupSize"),
    ({"subGroupPolicy": [{"minSubGroups": 1}]}, "SubGroupsUnknown", "spec.subGroupPolicy[0] has a subGroupSize or min"),
]
KEPT: list[dict[str, Any]] = [
    {"networkTopology": {"mode": "soft", "highestTierAllowed": 1}},
    {"subGroupPolicy": [{"name": "a", "networkTopology": {"mode": "soft"}, "matchLabelKeys": ["replica"]}]},
    {"subGroupPolicy": [{"name": "as the CRD of Volcano completes it", "subGroupSize": 1, "minSubGroups": 0}]},
]


def work(given: ClusterBuilder, rule: dict[str, Any], *, phase: str = "Pending", **pod: Any) -> ClusterBuilder:
    given.add(a_group("j", "q", 1, phase, **rule))
    return given.pod("j-0", "j", **{"cpu": 1, **pod})


def scene() -> ClusterBuilder:
    return a_cluster().node("n1", cpu=4).queue("q")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("tiers", TIERS, ids=str)
@pytest.mark.parametrize(("rule", "reason", "said"), RULES)
def test_it_waits_in_every_configuration(
    rule: dict[str, Any], reason: str, said: str, tiers: tuple[str, ...], actions: str,
    engine: Callable[[Cluster], Engine],
) -> None:  # fmt: skip
    given = work(scene(), rule, phase="Inqueue", cpu=0 if actions == "backfill" else 1)

    on = a_rig(given, conf(actions, *tiers), engine)
    decision = cycle(on)

    assert decision.bindings == {}
    assert said in decision.waiting["j-0"]
    assert on.cluster.jobs["default/j"].phase == "Pending"
    assert {told for _, told, _ in events(decision)} == {reason}


def test_it_is_told_on_the_podgroup_on_the_pod_and_in_both_conditions() -> None:
    on = a_rig(work(scene(), HARD), conf(ALL))
    words = (
        'PodGroup "default/j": spec.networkTopology is hard, and volsched knows no HyperNodes, so its pods wait; leave '
        "the field out, or set mode: soft, which has no effect"
    )

    decision = cycle(on)

    assert sorted(events(decision)) == [
        ("Pod/j-0", "NetworkTopologyUnknown", words),
        ("PodGroup/j", "NetworkTopologyUnknown", words),
    ]
    [status] = [step for step in decision.steps if isinstance(step, WriteGroupStatus)]
    assert [(c.type, c.reason, c.message) for c in status.conditions] == [("Unschedulable", "InvalidField", words)]
    [condition] = [step for step in decision.steps if isinstance(step, WritePodCondition)]
    assert (condition.reason, condition.message) == ("InvalidField", words)
    assert cycle(on).steps == []


@pytest.mark.parametrize("rule", KEPT)
def test_what_is_a_wish_or_states_no_rule_keeps_nobody_waiting(rule: dict[str, Any]) -> None:
    assert cycle(a_rig(work(scene(), rule), conf(ALL))).bindings == {"j-0": "n1"}


def test_one_without_pods_is_not_admitted_and_reserves_nothing() -> None:
    asks = {"minResources": {"cpu": "4"}}
    given = scene().add(a_group("hoard", "q", 1, "Inqueue", **HARD, **asks))
    given.add(a_group("mine", "q", 1, "Pending", **asks)).pod("mine-0", "mine", cpu=4)
    on = a_rig(given, conf(ALL, GANG, "overcommit proportion predicates"))

    assert cycle(on).bindings == {"mine-0": "n1"}
    assert on.cluster.jobs["default/hoard"].phase == "Pending"


@pytest.mark.parametrize("rule", [{}, HARD])
def test_nobody_is_evicted_for_it(rule: dict[str, Any]) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high", "uid": "high"}}
    given = a_cluster().node("n1", cpu=1).queue("q").add({**high, "value": 1000})
    given.add(a_group("runs", "q", 0, "Running")).pod("runs-0", "runs", "n1", cpu=1)
    work(given, {**rule, "priorityClassName": "high"}, phase="Inqueue", spec={"priority": 1000})

    decision = cycle(a_rig(given, conf(ALL)))

    assert decision.evictions == ([] if rule else ["runs-0"])


def test_it_is_placed_once_the_rule_is_gone_and_waits_again_with_it() -> None:
    on = a_rig(work(scene(), HARD), conf(ALL))
    assert cycle(on).bindings == {}

    soft = a_group("j", "q", 1, "Pending", networkTopology={"mode": "soft"})
    assert cycle(on, *puts(soft)).bindings == {"j-0": "n1"}

    late = a_cluster().pod("j-1", "j", cpu=1).objects[0]
    decision = cycle(on, *puts(a_group("j", "q", 1, "Running", **HARD), late))
    assert decision.bindings == {}
    assert "spec.networkTopology is hard" in decision.waiting["j-1"]


def test_an_action_of_somebody_elses_cannot_place_it_either() -> None:
    on = rig(work(scene(), HARD), conf("allocate"))
    session = Session(on.cluster, on.scheduler.profile.configuration, on.scheduler.engine, on.scheduler._accounts,
                      on.recorder.execute)  # fmt: skip
    session.opened()

    Wilful().execute(session)
    session.close()

    assert [step.name for step in on.recorder.steps if isinstance(step, Bind)] == []


def test_a_queue_that_wants_node_groups_is_told_once_that_it_has_none() -> None:
    near = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g1"]}}
    on = a_rig(work(a_cluster().node("n1").add(a_queue("q", affinity=near)), {}), conf(ALL))

    decision = cycle(on)

    assert decision.bindings == {"j-0": "n1"}
    said = "volsched knows no node groups; give the pods a nodeSelector or a node affinity; it has no effect"
    told = [(reason, message) for about, reason, message in events(decision) if about == "Queue/q"]
    assert told == [("InvalidField", f"spec.affinity.nodeGroupAffinity: {said}")]
    assert [reason for _, reason, _ in events(cycle(on, *puts(a_queue("q", affinity=near))))] == []


def test_a_podgroup_with_a_revocable_zone_is_told_that_there_are_none() -> None:
    given = scene().add(a_group("j", "q", 1, "Pending", annotations={"volcano.sh/revocable-zone": "*"}))

    told = events(cycle(a_rig(given.pod("j-0", "j", cpu=1), conf(ALL))))

    [said] = [message for about, reason, message in told if (about, reason) == ("PodGroup/j", "InvalidField")]
    assert said.startswith("metadata.annotations[volcano.sh/revocable-zone]: volsched knows no revocable zones")
