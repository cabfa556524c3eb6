"""A gang starts if some placement of its pods keeps all rules, also where its pods find no nodes one by one."""

from __future__ import annotations

from typing import Any

import pytest

from bench.opcodes import opcodes_of
from tests.actions.rigs import cycle, finished, order_of, rig
from volsched.framework.registration import Registrar
from volsched.framework.rules import EventHandler, Predicate
from volsched.model.plan import RecordEvent
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.verdict import Scope, Step, Verdict
from volsched.registry import load_profile
from volsched.testing.builders import (
    HOSTNAME,
    ClusterBuilder,
    CycleDecision,
    a_cluster,
    a_group,
    a_member,
    a_namespace,
    a_native_group,
    a_pod,
)

ALLOCATE = 'actions: "allocate"\ntiers:\n- plugins: [{name: priority}, {name: gang}]\n'
NODES = "- plugins: [{name: predicates}, {name: nodeorder}, {name: binpack}]\n"


def conf(**arguments: int) -> str:
    """A configuration with arguments of the search."""
    text = ALLOCATE + NODES
    if arguments:
        text += "configurations:\n- name: allocate\n  arguments:\n"
        text += "".join(f"    gang.{key}: {value}\n" for key, value in arguments.items())
    return text


def placed(decision: CycleDecision) -> dict[str, str]:
    return dict(decision.bindings)


def start(cluster: ClusterBuilder, **arguments: int) -> CycleDecision:
    return cycle(rig(cluster, conf(**arguments)))


def near(label: str, key: str, kind: str = "podAffinity") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"role": label}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def pinned(pool: str) -> dict[str, Any]:
    return {"nodeSelector": {"pool": pool}}


def two_nodes() -> ClusterBuilder:
    """Free pods come first, and like n1 better, which the last pod needs."""
    cluster = a_cluster().queue("default").node("n1", cpu=2, labels={"pool": "a"}).node("n2", cpu=2)
    cluster.group("g", minimum=2)
    return cluster.pod("free", "g", cpu=2).pod("late", "g", cpu=2, spec=pinned("a"))


def test_a_pod_that_can_go_to_many_nodes_leaves_the_only_node_of_another_one() -> None:
    decision = start(two_nodes())

    assert placed(decision) == {"free": "n2", "late": "n1"}
    assert decision.report.gang_searches == {("found",): 1}


def test_a_gang_is_searched_for_in_its_turn_before_later_jobs_take_its_room() -> None:
    cluster = two_nodes().group("later", minimum=1, created="2027-01-01T00:00:00Z").pod("p", "later", cpu=2)
    assert placed(start(cluster)) == {"free": "n2", "late": "n1"}


def test_without_steps_nothing_is_searched_for() -> None:
    decision = start(two_nodes(), searchSteps=0)

    assert placed(decision) == {}
    assert decision.report.gang_searches == {}
    assert start(two_nodes(), searchStepsPerSession=0).bindings == {}


def test_large_pods_go_before_small_ones() -> None:
    cluster = a_cluster().queue("default").node("n1", cpu=4).node("n2", cpu=3).group("g", minimum=3)
    cluster.pod("a-small", "g", cpu=2).pod("b-large", "g", cpu=4).pod("c-small", "g", cpu=1)

    assert placed(start(cluster)) == {"a-small": "n2", "b-large": "n1", "c-small": "n2"}


def test_a_chain_of_pods_moves_for_the_last_one() -> None:
    cluster = a_cluster().queue("default").group("g", minimum=4)
    for number in range(4):
        labels = {f"for{other}": "yes" for other in (number, number + 1) if other < 4}
        cluster.node(f"n{number}", cpu=1, labels=labels)
    for number in range(4):
        cluster.pod(f"p-{number}", "g", cpu=1, spec={"nodeSelector": {f"for{number}": "yes"}})
    cluster.add(a_pod("there", on="n3", cpu=0))

    decision = start(cluster)

    assert sorted(placed(decision)) == ["p-0", "p-1", "p-2", "p-3"]
    assert len(set(placed(decision).values())) == 4


def test_pods_that_tolerate_leave_nodes_without_taints_to_others() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    cluster = a_cluster().queue("default").node("n1", cpu=2).node("n2", cpu=2, taints=[taint]).group("g", minimum=2)
    cluster.pod("any", "g", cpu=2, spec={"tolerations": [{"operator": "Exists"}]}).pod("plain", "g", cpu=2)

    assert placed(start(cluster)) == {"any": "n2", "plain": "n1"}


def test_pods_with_a_host_port_are_kept_apart() -> None:
    def with_port(cpu: int) -> dict[str, Any]:
        ports = [{"containerPort": 80, "hostPort": 80}]
        asked = {"requests": {"cpu": str(cpu)}}
        return {"containers": [{"name": "main", "image": "none", "resources": asked, "ports": ports}]}

    cluster = a_cluster().queue("default").node("n1", cpu=3, labels={"pool": "a"}).node("n2", cpu=2)
    cluster.group("g", minimum=3).pod("a", "g", spec=with_port(1)).pod("b", "g", spec=with_port(1) | pinned("a"))
    cluster.pod("c", "g", cpu=2, spec=pinned("a"))

    assert placed(start(cluster)) == {"a": "n2", "b": "n1", "c": "n1"}


def test_a_role_that_wants_to_be_near_another_one_may_come_first_in_order() -> None:
    cluster = a_cluster().queue("default").node("n1", cpu=1, labels={"rack": "r1"})
    cluster.node("n2", cpu=2, labels={"rack": "r2"}).group("g", minimum=2)
    cluster.pod("ps-0", "g", cpu=1, spec=near("worker", "rack")).pod("worker-0", "g", cpu=1, labels={"role": "worker"})

    assert placed(start(cluster)) == {"ps-0": "n2", "worker-0": "n2"}


def test_racks_are_tried_in_turn_for_pods_that_want_to_be_in_one() -> None:
    cluster = a_cluster().queue("default").group("g", minimum=3)
    for rack, cpus in {"r1": (2, 2), "r2": (2, 2), "r3": (2, 2, 2)}.items():
        for number, cpu in enumerate(cpus):
            cluster.node(f"{rack}-{number}", cpu=cpu, labels={"rack": rack})
    for number in range(3):
        cluster.pod(f"w-{number}", "g", cpu=2, labels={"role": "w"}, spec=near("w", "rack"))

    assert set(placed(start(cluster)).values()) == {"r3-0", "r3-1", "r3-2"}


def test_a_gang_that_runs_in_part_is_completed() -> None:
    cluster = two_nodes().node("n3", cpu=2).group("g", minimum=3, phase="Running").pod("there", "g", on="n3", cpu=2)

    assert placed(start(cluster)) == {"free": "n2", "late": "n1"}


def test_a_native_group_is_searched_for_in_one_domain_after_the_other() -> None:
    rack = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    cluster = a_cluster().queue("default").add(a_native_group("g", 2, **rack))
    for name, cpu in {"a": 1, "b": 2}.items():
        cluster.node(f"{name}1", cpu=cpu, labels={"rack": name, "pool": "x"}).node(
            f"{name}2", cpu=cpu, labels={"rack": name}
        )
    cluster.add(a_member("free", "g", cpu=2)).add(a_member("late", "g", cpu=2, spec=pinned("x")))

    assert placed(start(cluster)) == {"free": "b2", "late": "b1"}


def test_each_role_gets_its_minimum_and_others_stand_in_for_pods_that_fit_nowhere() -> None:
    cluster = a_cluster().queue("default").node("n1", cpu=2, labels={"pool": "a"}).node("n2", cpu=2)
    cluster.group("g", minimum=2, minTaskMember={"w": 1})
    for name, role, spec in (("v-a-0", "v", {}), ("w-a-0", "w", pinned("a")), ("v-a-1", "v", pinned("none"))):
        cluster.pod(name, "g", cpu=2, spec=spec, annotations={"volcano.sh/task-spec": role})

    assert placed(start(cluster)) == {"v-a-0": "n2", "w-a-0": "n1"}


# -- what does not fit ------------------------------------------------------------------------------------------------


def crowded() -> ClusterBuilder:
    """Both pinned pods need n1, where there is room for one."""
    cluster = a_cluster().queue("default").node("n1", cpu=2, labels={"pool": "a"}).node("n2", cpu=2).node("n3", cpu=2)
    cluster.group("g", minimum=3).pod("a-free", "g", cpu=2)
    return cluster.pod("b", "g", cpu=2, spec=pinned("a")).pod("c", "g", cpu=2, spec=pinned("a"))


def test_a_gang_that_amounts_rule_out_costs_no_step_and_waits() -> None:
    on = rig(crowded(), conf(searchSteps=1))

    decision = cycle(on)

    assert decision.report.gang_searches == {("impossible",): 1}
    assert cycle(on).report.gang_searches == {}
    shortage = on.cluster.jobs["default/g"].shortage
    assert shortage == 'at most 2 of 3 could start; pods "b", "c" need n1, where 1 of them fit'
    assert shortage not in decision.waiting["a-free"]


def test_a_gang_with_a_pod_that_fits_on_no_node_is_not_searched_for() -> None:
    cluster = two_nodes().group("h", minimum=2).pod("nowhere", "h", cpu=1, spec=pinned("x")).pod("some", "h", cpu=1)
    decision = start(cluster)
    assert decision.report.gang_searches == {("found",): 1, ("impossible",): 1}


def test_a_gang_of_equal_pods_is_as_good_one_by_one() -> None:
    cluster = a_cluster().queue("default").node("n1", cpu=2).job("j", 3, 3, cpu=1)

    decision = start(cluster)

    assert decision.report.gang_searches == {("impossible",): 1}


def hard(cluster: ClusterBuilder, name: str, namespace: str = "default") -> ClusterBuilder:
    """A gang of which amounts do not tell that it fits nowhere: three pods that keep apart, and two nodes."""
    spec = near(name, HOSTNAME, "podAntiAffinity")
    meta = {"namespace": namespace}
    cluster.add(a_group(name, minimum=3, metadata=meta))
    for number in range(3):
        asked = {"cpu": f"{100 + number}m"}
        cluster.add(
            a_pod(
                f"{name}-{number}",
                name,
                labels={"role": name},
                spec=spec,
                metadata={**meta, "labels": {"role": name}, "annotations": {"scheduling.k8s.io/group-name": name}},
                **asked,
            )
        )
    return cluster


def test_a_search_that_used_up_its_steps_says_so_and_is_made_again_after_a_change_that_could_help() -> None:
    cluster = a_cluster().queue("default").node("n1", cpu=4).node("n2", cpu=4).pod("there", on="n1", cpu=1)
    on = rig(hard(cluster, "g"), conf(searchSteps=3))

    decision = cycle(on)

    assert decision.report.gang_searches == {("exhausted",): 1}
    assert "no placement for all of it was found in 3 steps (gang.searchSteps)" in decision.waiting["g-0"]
    assert cycle(on).report.gang_searches == {}
    assert cycle(on, finished(on, "there")).report.gang_searches == {("exhausted",): 1}


def test_everything_is_tried_for_a_small_gang_before_it_is_called_impossible() -> None:
    cluster = a_cluster().queue("default").node("n1", cpu=4).node("n2", cpu=4)

    assert start(hard(cluster, "g")).report.gang_searches == {("impossible",): 1}


def test_without_nodes_no_gang_starts() -> None:
    cluster = a_cluster().queue("default").group("g", minimum=2).pod("a", "g", cpu=1, spec=near("b", "rack"))

    assert placed(start(cluster.pod("b", "g", cpu=2, labels={"role": "b"}))) == {}


@pytest.mark.parametrize("arguments", [{}, {"searchSteps": 3}], ids=["impossible", "exhausted"])
def test_gangs_that_cannot_start_cost_a_session_nothing_in_which_nothing_changes(arguments: dict[str, int]) -> None:
    cluster = a_cluster().queue("default").node("n1", cpu=4).node("n2", cpu=4)
    for number in range(60):
        hard(cluster, f"hard-{number}")
    searching, not_searching = (rig(cluster, conf(**each)) for each in (arguments, {"searchSteps": 0}))
    assert cycle(searching).report.gang_searches
    while cycle(searching).report.is_unfinished:
        pass
    for _ in range(2):
        cycle(not_searching)

    searched, not_searched = (opcodes_of(each.scheduler.cycle).total() for each in (searching, not_searching))

    assert searched <= 1.01 * not_searched


# -- namespaces share the steps of a session --------------------------------------------------------------------------


def test_hard_gangs_of_one_namespace_do_not_delay_those_of_another() -> None:
    cluster = a_cluster().queue("default").add(a_namespace("many")).add(a_namespace("few"))
    cluster.node("n1", cpu=3, labels={"pool": "a"}).node("n2", cpu=3)
    for number in range(1_000):
        hard(cluster, f"hard-{number}", "many")
    meta = {"namespace": "few"}
    notes = {"scheduling.k8s.io/group-name": "g"}
    cluster.add(a_group("g", minimum=2, metadata=meta, created="2027-01-01T00:00:00Z"))
    for name, spec in (("free", {}), ("late", pinned("a"))):
        cluster.add(a_pod(name, "g", spec=spec, metadata={**meta, "annotations": notes}, cpu=2))
    on = rig(cluster, conf(searchSteps=60, searchStepsPerSession=300))

    decision = cycle(on)

    found = decision.report.gang_searches
    assert set(placed(decision)) == {"few/free", "few/late"} or set(placed(decision)) == {"free", "late"}
    assert found[("found",)] == 1
    assert found[("skipped",)] > 900
    assert decision.report.is_unfinished


def test_gangs_that_were_put_off_are_searched_for_in_the_sessions_that_follow() -> None:
    cluster = a_cluster().queue("default").node("n1", cpu=4).node("n2", cpu=2)
    for number in range(5):
        hard(cluster, f"hard-{number}")
    on = rig(cluster, conf(searchSteps=20, searchStepsPerSession=40))
    outcomes: dict[tuple[str, ...], int] = {}
    sessions = 0
    while True:
        decision = cycle(on)
        sessions += 1
        for outcome, count in decision.report.gang_searches.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + count
        if not decision.report.is_unfinished:
            break

    assert outcomes[("exhausted",)] == 5
    assert 2 <= sessions <= 4
    assert cycle(on).report.gang_searches == {}


@pytest.mark.parametrize("key", ["gang.searchSteps", "gang.searchStepsPerSession"])
def test_steps_are_not_negative(key: str) -> None:
    with pytest.raises(Exception, match=key):
        load_profile(f"{conf()}configurations:\n- name: allocate\n  arguments: {{{key}: -1}}\n")


def test_rules_of_plugins_hold_in_a_search() -> None:
    asked: list[str] = []

    def keeps_off(_: PodTemplate, node: Any) -> Verdict | None:
        asked.append(node.name)
        return None if node.name != "n2" else Verdict(Step.PREDICATE, "test", Scope.NODE, "Off", "n2 is off")

    cluster = two_nodes().node("n3", cpu=2)

    assert placed(cycle(rig(cluster, conf(), lambda r: r.register(Predicate(keeps_off))))) == {
        "free": "n3",
        "late": "n1",
    }
    assert asked


def test_what_plugins_tell_of_trials_is_not_told() -> None:
    def tells(registrar: Registrar) -> None:
        session = registrar.session

        class Talker:
            def allocate(self, task: TaskInfo) -> Verdict | None:
                session.record_event(
                    RecordEvent("Pod", "v1", "default", task.name, task.uid, "Normal", "Tried", task.name)
                )
                return None

            def deallocate(self, task: TaskInfo) -> None:
                pass

        registrar.register(EventHandler(Talker()))

    decision = cycle(rig(two_nodes(), conf(), tells))

    told = [step.name for step in decision.steps if isinstance(step, RecordEvent) and step.reason == "Tried"]
    assert placed(decision) == {"free": "n2", "late": "n1"}
    assert told == ["free"]  # one by one; what the search placed is told by its binding


def test_order_is_that_of_the_first_placement_found() -> None:
    assert sorted(order_of(start(two_nodes()))) == ["free", "late"]
