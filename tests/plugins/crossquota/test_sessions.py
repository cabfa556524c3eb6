"""Whole sessions with crossquota: what is bound, what is told, what is shown, and how much is asked."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.crossquota.budget import NodeBudgets
from tests.plugins.crossquota.worlds import ANN, GPU, NAMES, PART, STRATEGY, configuration, gpu_node, node, rig
from volsched.framework.engine.fast import FastEngine
from volsched.model.changes import Deleted
from volsched.model.plan import RecordEvent
from volsched.registry import load_profile
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_cluster, put
from volsched.testing.contract import ENGINES
from volsched.testing.recount import faults, leftovers

with_engines = pytest.mark.parametrize("engine", ENGINES)
LEAST = {STRATEGY: "least-allocated"}


def gpu_nodes(*names: str, **amounts: Any) -> ClusterBuilder:
    cluster = a_cluster()
    for name in names:
        cluster.add(gpu_node(name, **amounts))
    return cluster


@with_engines
def test_r14_a_pod_lands_where_the_quota_has_room(engine: Any) -> None:
    cluster = gpu_nodes("g1", "g2").pod("before", on="g1", cpu=4).job("etl", cpu=2)

    assert rig(cluster, engine, **{"quota.cpu": 4}).cycle().bindings == {"etl-0": "g2"}


@with_engines
def test_one_session_does_not_go_above_the_quota(engine: Any) -> None:
    cluster = gpu_nodes("g1", "g2").job("etl", tasks=7, minimum=1, cpu=2)
    found = rig(cluster, engine, **{"quota.cpu": 6})

    decision = found.cycle()

    assert sorted(decision.bindings.values()) == ["g1"] * 3 + ["g2"] * 3
    assert decision.waiting["etl-6"] == (
        "0/2 nodes are available: 2 cpu quota exceeded (g1: cpu required 2, used 6, quota 6; "
        "g2: cpu required 2, used 6, quota 6)."
    )
    assert (faults(found.cluster), leftovers(found.cluster)) == ([], [])


@with_engines
def test_a_gang_that_does_not_fit_leaves_no_trace(engine: Any) -> None:
    found = rig(gpu_nodes("g1").job("gang", tasks=3, cpu=2), engine, **{"quota.cpu": 4})
    assert found.cycle().bindings == {}

    found.mirror.apply(put_job("small", cpu=4))

    assert found.cycle().bindings == {"small-0": "g1"}
    assert (faults(found.cluster), leftovers(found.cluster)) == ([], [])


def put_job(name: str, tasks: int = 1, **pod: Any) -> list[Any]:
    return a_cluster().job(name, tasks, **pod).changes()


@with_engines
@pytest.mark.parametrize(
    ("annotations", "nodes"),
    [({}, {"g1"}), (LEAST, {"g1", "g2"}), ({STRATEGY: "Least-Allocated"}, {"g1"})],
)
def test_pods_choose_to_be_packed_or_spread(engine: Any, annotations: dict[str, str], nodes: set[str]) -> None:
    cluster = gpu_nodes("g1", "g2").job("etl", tasks=2, cpu=2, annotations=annotations)

    assert set(rig(cluster, engine, **{"quota.cpu": 8}).cycle().bindings.values()) == nodes


@with_engines
def test_equal_pods_with_other_annotations_or_labels_share_no_answer(engine: Any) -> None:
    cluster = gpu_nodes("g1", "g2").pod("before", on="g1", labels={"team": "etl"}, cpu=2)
    cluster.job("a", cpu=2, labels={"team": "etl"}).job("b", cpu=2, labels={"team": "etl"}, annotations=LEAST)
    cluster.job("c", tasks=6, cpu=8, labels={"team": "web"})
    found = rig(cluster, engine, **{"quota.cpu": 6, "label-selector": {"matchLabels": {"team": "etl"}}})

    bindings = found.cycle().bindings

    assert (bindings["a-0"], bindings["b-0"]) == ("g1", "g2")
    assert len(bindings) == 8


@with_engines
def test_pods_that_differ_in_labels_alone_share_no_answer(engine: Any) -> None:
    cluster = gpu_nodes("g1").job("a", tasks=2, minimum=1, cpu=2, labels={"team": "etl"})
    cluster.job("b", tasks=2, minimum=1, cpu=2, labels={"team": "web"})
    found = rig(cluster, engine, **{"quota.cpu": 2, "label-selector": {"matchLabels": {"team": "etl"}}})

    assert found.cycle().bindings == {"a-0": "g1", "b-0": "g1", "b-1": "g1"}


@with_engines
def test_a_node_that_changes_is_asked_again(engine: Any) -> None:
    found = rig(gpu_nodes("g1").job("etl", cpu=4), engine, **{"quota.cpu": 2})
    assert found.cycle().bindings == {}

    assert found.cycle(put(gpu_node("g1", {f"{ANN}cpu": "4"}))).bindings == {"etl-0": "g1"}


@with_engines
def test_room_that_a_pod_leaves_is_found(engine: Any) -> None:
    found = rig(gpu_nodes("g1").pod("before", on="g1", cpu=2).job("etl", cpu=2), engine, **{"quota.cpu": 2})
    assert found.cycle().bindings == {}

    assert found.cycle(Deleted("Pod", "default", "before", "pod-default-before")).bindings == {"etl-0": "g1"}


@with_engines
def test_pods_in_backfill_are_counted_and_refused_too(engine: Any) -> None:
    cluster = gpu_nodes("g1").job("idle", tasks=2, minimum=1)

    decision = rig(cluster, engine, **{"quota-resources": "pods", "quota.pods": 1}).cycle()

    assert decision.bindings == {"idle-0": "g1"}


@with_engines
def test_a_more_important_cpu_pod_makes_room_within_the_quota(engine: Any) -> None:
    cluster = gpu_nodes("g1").add(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    )
    cluster.group("low", minimum=0, phase="Running").pod("low-0", "low", on="g1", cpu=4)
    cluster.group("high", priorityClassName="high").pod("high-0", "high", cpu=4, spec={"priority": 100})
    found = rig(cluster, engine, "allocate, preempt", **{"quota.cpu": 4})

    decision = found.cycle()

    assert (decision.evictions, decision.bindings) == (["low-0"], {})
    gone = Deleted("Pod", "default", "low-0", "pod-default-low-0")
    assert found.cycle(gone).bindings == {"high-0": "g1"}


def test_nobody_is_evicted_for_a_pod_above_the_quota_alone() -> None:
    cluster = gpu_nodes("g1").add(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    )
    cluster.group("low", minimum=0, phase="Running").pod("low-0", "low", on="g1", cpu=4)
    cluster.group("high", priorityClassName="high").pod("high-0", "high", cpu=5, spec={"priority": 100})

    assert rig(cluster, FastEngine, "allocate, preempt", **{"quota.cpu": 4}).cycle().evictions == []


def test_another_configuration_counts_anew() -> None:
    found = rig(gpu_nodes("g1").pod("before", on="g1", cpu=2).job("etl", cpu=2), **{"quota.cpu": 2})
    assert found.cycle().bindings == {}

    found.scheduler.reconfigure(load_profile(configuration(**{"quota.cpu": 4}))[0])

    assert found.cycle().bindings == {"etl-0": "g1"}


# --- what is told ---------------------------------------------------------------------------------------------------


def told(decision: CycleDecision) -> list[tuple[str, str, str]]:
    return [(s.name, s.reason, s.message) for s in decision.steps if isinstance(s, RecordEvent) and s.kind == "Node"]


def test_annotations_that_cannot_be_read_are_told_on_the_node_once() -> None:
    found = rig(a_cluster().add(gpu_node("g1", {f"{ANN}cpu": "six", f"{PART}memory": "150"})), **{"quota.cpu": 4})

    first, again = told(found.cycle()), told(found.cycle())

    assert [(name, reason) for name, reason, _ in first] == [("g1", "InvalidCrossQuota")] * 2
    assert first[0][2].endswith('not the text "six"; the quota of cpu is 4 (argument quota.cpu)')
    assert again == []


def test_another_fault_is_told_again_and_a_cure_is_not() -> None:
    found = rig(a_cluster().add(gpu_node("g1", {f"{ANN}cpu": "six"})))
    found.cycle()

    assert len(told(found.cycle(put(gpu_node("g1", {f"{ANN}cpu": "seven"}))))) == 1
    assert told(found.cycle(put(gpu_node("g1", {f"{ANN}cpu": "7"})))) == []
    assert len(told(found.cycle(put(gpu_node("g1", {f"{ANN}memory": "7"}))))) == 1


def test_annotations_of_other_nodes_are_nobodys_business() -> None:
    assert told(rig(a_cluster().add(node("n1", {f"{ANN}cpu": "six"}))).cycle()) == []


# --- what is shown --------------------------------------------------------------------------------------------------


def numbers(decision: CycleDecision) -> dict[str, dict[tuple[str, ...], float]]:
    prefix, series = "volsched_crossquota_", decision.report.series
    return {each.name.removeprefix(prefix): dict(found) for each, found in series if each.name.startswith(prefix)}


def test_quota_used_refusals_and_faults_are_shown() -> None:
    cluster = a_cluster().add(gpu_node("g1", {f"{ANN}memory": "8Gi"})).add(gpu_node("g2", {f"{ANN}cpu": "x"}))
    cluster.add(node("plain", cpu=1)).pod("before", on="g1", cpu="1500m", memory="1Gi").job("etl", cpu=4)
    found = numbers(rig(cluster, **{NAMES: f"{GPU},[", "quota.cpu": 2}).cycle())

    assert found == {
        "quota": {
            ("g1", "cpu"): 2.0,
            ("g1", "memory"): 8.0 * 2**30,
            ("g2", "cpu"): 2.0,
            ("g2", "memory"): 256.0 * 2**30,
        },
        "used": {("g1", "cpu"): 1.5, ("g1", "memory"): 2.0**30, ("g2", "cpu"): 0.0, ("g2", "memory"): 0.0},
        "refusals": {("cpu",): found["refusals"][("cpu",)], ("memory",): 0},
        "faults": {("pattern",): 1, ("annotation",): 1},
    }
    assert found["refusals"][("cpu",)] >= 2


def test_numbers_follow_changes_and_stay_the_same_object_without() -> None:
    found = rig(gpu_nodes("g1", "g2").job("etl", cpu=2))
    first = found.cycle()
    assert numbers(first)["used"][("g1", "cpu")] == 2
    quiet = [numbers for series, numbers in found.cycle().report.series if series.name.endswith("used")]

    assert quiet[0] is next(n for s, n in first.report.series if s.name.endswith("used"))
    gone = found.cycle(Deleted("Node", "", "g2", ""))
    assert set(numbers(gone)["quota"]) == {("g1", "cpu"), ("g1", "memory")}
    assert set(numbers(first)["quota"]) == {(name, r) for name in ("g1", "g2") for r in ("cpu", "memory")}


# --- how much is asked ----------------------------------------------------------------------------------------------


def asked(nodes: int) -> tuple[int, int]:
    """Callbacks asked and rows scored for the later of two equal backlogs."""
    found: Rig = rig(gpu_nodes(*(f"g{number:04}" for number in range(nodes))), **{"quota.cpu": 8})
    engine = found.scheduler.engine
    assert isinstance(engine, FastEngine)
    found.cycle(*put_job("one", tasks=40, cpu=2))
    callbacks, rows = engine.nodes.callbacks_asked, engine.nodes.rows_scored
    assert len(found.cycle(*put_job("two", tasks=40, cpu=2)).bindings) == 40
    return engine.nodes.callbacks_asked - callbacks, engine.nodes.rows_scored - rows


def test_a_placement_asks_no_more_on_a_larger_cluster() -> None:
    assert asked(50) == asked(400)


def explanations(nodes: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Refusals that were put in words for a pod that no node takes, and the words."""
    cluster = gpu_nodes(*(f"g{number:04}" for number in range(nodes))).job("etl", cpu=2)
    found, worded, refusal = rig(cluster, **{"quota.cpu": 1}), [], NodeBudgets._refusal
    monkeypatch.setattr(NodeBudgets, "_refusal", lambda *given: worded.append(given) or refusal(*given))  # type: ignore[func-returns-value]
    waiting = found.cycle().waiting["etl-0"]
    monkeypatch.undo()
    return len(worded), waiting


def test_an_explanation_costs_no_more_on_a_larger_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    few, of_few = explanations(50, monkeypatch)
    many, of_many = explanations(400, monkeypatch)

    assert few == many
    assert of_few == "0/50 nodes are available: 50 cpu quota exceeded."
    assert of_many == "0/400 nodes are available: 400 cpu quota exceeded."


@with_engines
def test_words_and_numbers_of_every_group_of_nodes(engine: Any) -> None:
    cluster = gpu_nodes("g1", "g2", "g3", "g4").add(gpu_node("h1", {f"{ANN}cpu": "9"})).add(node("plain", cpu=1))
    decision = rig(cluster.job("etl", cpu=8, memory="8Gi"), engine, **{"quota.cpu": 4, "quota.memory": "4Gi"}).cycle()

    assert decision.waiting["etl-0"] == (
        "0/6 nodes are available: 4 cpu quota exceeded; memory quota exceeded, 1 Insufficient cpu, "
        "1 memory quota exceeded (h1: memory required 8Gi, used 0, quota 4Gi)."
    )
