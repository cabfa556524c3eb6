"""Small clusters in which somebody has to go, from reports about other schedulers, and variations of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.simulation.clusters import Manifest, result

INPUTS: Final = Path(__file__).with_name("evictions")
Change = Callable[[list[Manifest]], None]


def ended(name: str, *changes: Change, **settings: Any) -> Manifest:
    """How a cluster ends, after changes to its manifests."""
    manifests = list(yaml.safe_load_all((INPUTS / f"{name}.yaml").read_text(encoding="utf-8")))
    [configuration] = [item for item in manifests if item["kind"] == "ConfigMap"]
    others = [item for item in manifests if item is not configuration]
    for change in changes:
        change(others)
    [text] = configuration["data"].values()
    return result(*others, config=text, **settings)


def evicted(found: Manifest) -> list[str]:
    return [eviction["pod"].removeprefix("default/") for eviction in found["evictions"]]


def bound(found: Manifest) -> dict[str, str]:
    return {bind["pod"].removeprefix("default/"): bind["node"] for bind in found["binds"]}


def named(manifests: list[Manifest], name: str) -> Manifest:
    [item] = [each for each in manifests if each["metadata"]["name"] == name]
    return item


def sets(name: str, **fields: Any) -> Change:
    """Have a manifest state something else in its spec, or at its top where it has that there."""

    def change(manifests: list[Manifest]) -> None:
        item = named(manifests, name)
        for field, value in fields.items():
            (item if field in ("status", "metadata") else item["spec"])[field] = value

    return change


def adds(*more: Manifest) -> Change:
    return lambda manifests: manifests.extend(more)


def a_pod(name: str, node: str, *, cpu: str = "1", **spec: Any) -> Manifest:
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]
    spec = {"schedulerName": "volsched", "nodeName": node, "containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def a_node(name: str, pods: str = "110") -> Manifest:
    amounts = {"cpu": "1", "memory": "32Gi", "pods": pods}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts}}


# -- pods that do not run yet -----------------------------------------------------------------------------------------


def test_reclaim_takes_pods_whose_containers_have_not_started() -> None:
    found = ended("min-reclaim-bound-pending")

    assert (evicted(found), bound(found)) == (["l-0"], {"h-0": "n1"})


def test_of_such_pods_it_takes_as_few_as_needed() -> None:
    found = ended("r10-boundpending-reclaim")

    assert (len(evicted(found)), bound(found)) == (2, {"h-0": "n1"})


@pytest.mark.parametrize("waiting", ["l-0", "l-1", "l-2", "l-3"])
def test_of_pods_that_matter_as_much_those_go_first_that_do_not_run(waiting: str) -> None:
    others = [sets(f"l-{i}", status={"phase": "Running"}) for i in range(4) if f"l-{i}" != waiting]

    found = ended("r10-boundpending-reclaim", *others)

    assert evicted(found)[0] == waiting
    assert len(evicted(found)) == 2


def test_a_pod_that_does_not_run_and_matters_more_stays() -> None:
    others = [sets(f"l-{i}", status={"phase": "Running"}) for i in range(3)]
    matters = [sets("l3", priorityClassName="high"), sets("l-3", priority=100, priorityClassName="high")]

    assert "l-3" not in evicted(ended("r10-boundpending-reclaim", *others, *matters))


def test_a_pod_that_is_going_is_no_victim() -> None:
    going = {"name": "l-0", "annotations": {"scheduling.k8s.io/group-name": "l"}}
    going["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert evicted(ended("min-reclaim-bound-pending", sets("l-0", metadata=going), cycles=1)) == []


# -- disruption budgets -----------------------------------------------------------------------------------------------


def a_budget_for(name: str) -> Change:
    """Have a pod protected by a budget that allows no disruption."""

    def change(manifests: list[Manifest]) -> None:
        named(manifests, name)["metadata"]["labels"] = {"app": "kept"}
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
        status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}}
        manifests.append({**budget, "spec": spec, "status": status})

    return change


@pytest.mark.parametrize(
    "keeps", ["", "configurations: [{name: reclaim, arguments: {respectDisruptionBudgets: true}}]"]
)
@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
@pytest.mark.parametrize("phase", ["Running", "Pending"])
@pytest.mark.parametrize("kept", ["l-0", "l-1"])
def test_another_pod_goes_before_a_budget_breaks_where_the_queue_may_lose_one_only(
    kept: str, phase: str, plugin: str, keeps: str
) -> None:
    manifests = list(yaml.safe_load_all((INPUTS / "min-reclaim-elastic.yaml").read_text(encoding="utf-8")))[1:]
    for change in (sets("a", deserved={"cpu": "1"}), sets(kept, status={"phase": phase}), a_budget_for(kept)):
        change(manifests)
    config = f"""
actions: "allocate, reclaim"
tiers:
- plugins: [{{name: gang, enableReclaimable: false}}, {{name: {plugin}}}, {{name: predicates}}]
{keeps}
"""

    assert evicted(result(*manifests, config=config)) == [{"l-0": "l-1", "l-1": "l-0"}[kept]]


@pytest.mark.parametrize("kept", ["l", "z"])
def test_another_member_goes_before_a_budget_breaks_where_a_gang_may_lose_one_only(kept: str) -> None:
    manifests = list(yaml.safe_load_all((INPUTS / "min-best-effort-preempts.yaml").read_text(encoding="utf-8")))[1:]
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    member = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    other = a_pod("z", "n1", priority=0)
    manifests += [{**group, "spec": {"minMember": 1}}, other]
    named(manifests, "l")["spec"]["schedulerName"] = "volsched"
    named(manifests, "n1")["status"]["allocatable"]["pods"] = "2"
    for name in ("l", "z"):
        named(manifests, name)["metadata"].update(member)
    a_budget_for(kept)(manifests)
    config = """
actions: "allocate, backfill, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}]
"""

    assert evicted(result(*manifests, config=config, **AS_KUBE_SCHEDULER)) == [{"l": "z", "z": "l"}[kept]]


# -- pods that ask for nothing ----------------------------------------------------------------------------------------

AS_KUBE_SCHEDULER: Final = {"scheduler_names": ("default-scheduler", "volsched")}
PORT: Final = [{"containerPort": 80, "hostPort": 80}]
APART: Final = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "l"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def roomy(manifests: list[Manifest]) -> None:
    named(manifests, "n1")["status"]["allocatable"]["pods"] = "10"


def same_port(manifests: list[Manifest]) -> None:
    for name in ("l", "h"):
        named(manifests, name)["spec"]["containers"][0]["ports"] = PORT


def apart(manifests: list[Manifest]) -> None:
    named(manifests, "l")["metadata"]["labels"] = {"app": "l"}
    named(manifests, "h")["spec"]["affinity"] = APART


LACKS: Final[dict[str, tuple[Change, ...]]] = {
    "a slot": (),
    "a host port": (roomy, same_port),
    "distance": (roomy, apart),
}


@pytest.mark.parametrize("what", LACKS)
def test_a_pod_that_asks_for_nothing_preempts_one_that_asks_for_something(what: str) -> None:
    found = ended("min-best-effort-preempts", *LACKS[what], **AS_KUBE_SCHEDULER)

    assert (evicted(found), bound(found)) == (["l"], {"h": "n1"})


def test_it_takes_one_slot_and_no_more() -> None:
    found = ended("r11-podslots-cpu-besteffort", **AS_KUBE_SCHEDULER)

    assert (len(evicted(found)), bound(found)) == (1, {"h-0": "n1"})


def test_it_takes_nobody_who_matters_as_much() -> None:
    found = ended("min-best-effort-preempts", sets("l", priority=100, priorityClassName="high"), **AS_KUBE_SCHEDULER)

    assert (evicted(found), bound(found)) == ([], {})


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_it_takes_nobody_where_no_action_would_place_it(action: str) -> None:
    manifests = list(yaml.safe_load_all((INPUTS / "min-best-effort-preempts.yaml").read_text(encoding="utf-8")))
    config = f"""
actions: "allocate, {action}"
tiers:
- plugins: [{{name: priority}}, {{name: conformance}}, {{name: predicates}}]
"""

    found = result(*manifests[1:], config=config, **AS_KUBE_SCHEDULER)

    assert (evicted(found), found["pipelined"]) == ([], [])
    assert "being deleted" not in found["pending"][0]["message"]


@pytest.mark.parametrize("actions", ["allocate, backfill, preempt", "allocate, preempt, backfill"])
def test_it_takes_nobody_while_there_is_room_whatever_action_comes_first(actions: str) -> None:
    manifests = list(yaml.safe_load_all((INPUTS / "min-best-effort-preempts.yaml").read_text(encoding="utf-8")))
    config = f"""
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: conformance}}]
- plugins: [{{name: predicates}}]
"""

    found = result(*manifests[1:], a_node("z"), config=config, **AS_KUBE_SCHEDULER)

    assert (evicted(found), bound(found)) == ([], {"h": "z"})


# -- beyond the minimum -----------------------------------------------------------------------------------------------


def held(found: Manifest) -> dict[str, str]:
    """How many cores or cards the queues hold, those that hold any."""
    sums = {name: queue["allocated"] for name, queue in found["queues"].items()}
    return {name: next(iter(amounts.values())) for name, amounts in sums.items() if amounts and name != "root"}


@pytest.mark.parametrize("what", ["capacity", "proportion", "card", "card-cpu"])
def test_a_deployment_gets_all_that_its_queue_deserves(what: str) -> None:
    found = ended(f"r02-elastic-{what}")

    assert held(found) == {"a": "4", "b": "4"}
    assert evicted(found) == ["x-7", "x-6", "x-5", "x-4"]
    assert found["settled"]


def test_pods_of_one_group_get_all_that_their_queue_deserves() -> None:
    found = ended("min-reclaim-elastic")

    assert (sorted(evicted(found)), bound(found)) == (["l-0", "l-1"], {"h-0": "n1", "h-1": "n1"})


def test_the_tour_of_capacity_holds_for_one_deployment() -> None:
    found = ended("r02-tour-one-deployment")

    assert {name: found["queues"][name]["allocated"]["cpu"] for name in ("vision", "speech")} == {
        "vision": "4",
        "speech": "2",
    }
    assert found["settled"]


def test_it_stops_where_the_next_pod_would_take_the_queue_above_its_due() -> None:
    found = ended("min-reclaim-elastic", sets("b", deserved={"cpu": "1500m"}))

    assert (len(evicted(found)), len(bound(found))) == (1, 1)


def test_it_stops_where_one_of_several_resources_would_be_above_the_due() -> None:
    def want_memory(manifests: list[Manifest]) -> None:
        for name in ("h-0", "h-1"):
            named(manifests, name)["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"

    found = ended("min-reclaim-elastic", want_memory, sets("b", deserved={"cpu": "2", "memory": "1Gi"}))

    assert (len(evicted(found)), len(bound(found))) == (1, 1)


def test_it_brings_no_queue_below_its_due() -> None:
    found = ended("min-reclaim-elastic", sets("a", deserved={"cpu": "1"}))

    assert (len(evicted(found)), len(bound(found))) == (1, 1)
    assert found["settled"]


def test_it_breaks_no_gang_that_a_plugin_of_another_tier_protects() -> None:
    manifests = list(yaml.safe_load_all((INPUTS / "min-reclaim-elastic.yaml").read_text(encoding="utf-8")))
    config = """
actions: "allocate, reclaim"
tiers:
- plugins: [{name: gang}]
- plugins: [{name: capacity}, {name: predicates}]
"""

    found = result(*manifests[1:], config=config)

    assert len(evicted(found)) == 1  # what the job starts with: a tier that protects all leaves that to the next one


# -- promises ---------------------------------------------------------------------------------------------------------


def test_a_member_of_a_gang_that_fits_in_part_is_not_told_that_pods_are_leaving() -> None:
    found = ended("min-nominated-without-eviction")

    told = {entry["pod"]: entry["message"] for entry in found["pending"]}
    assert "waits: 2 of its 2 pods have to start together, 1 could now" in told["default/g-0"]
    assert not any("being deleted" in message for message in told.values())


# -- pods that come again ---------------------------------------------------------------------------------------------

DAEMON: Final = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
PINNED: Final = sets("static-n1", metadata={"name": "static-n1", "ownerReferences": [DAEMON]})


def test_a_mirror_pod_is_no_victim() -> None:
    found = ended("min-mirror-victim")

    assert (evicted(found), bound(found)) == ([], {})


def test_a_pod_of_a_daemon_set_goes_where_nothing_else_helps() -> None:
    assert evicted(ended("min-mirror-victim", PINNED)) == ["static-n1"]


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_another_pod_goes_before_it_even_if_that_matters_more(node: str) -> None:
    def two_cores(manifests: list[Manifest]) -> None:
        named(manifests, "n1")["status"]["allocatable"]["cpu"] = "2" if node == "n1" else "1"

    other = a_pod("z", node, priority=50)

    found = ended("min-mirror-victim", PINNED, two_cores, adds(a_node("n2"), other), adds(*_fill(node)))

    assert evicted(found) == ["z"]


@pytest.mark.parametrize("pinned", ["l-0", "l-1"])
def test_another_pod_goes_before_it_where_the_queue_may_lose_one_only(pinned: str) -> None:
    group = {"scheduling.k8s.io/group-name": f"l{pinned[-1]}"}
    pins = sets(pinned, metadata={"name": pinned, "annotations": group, "ownerReferences": [DAEMON]})

    found = ended("min-reclaim-elastic", pins, sets("a", deserved={"cpu": "1"}))

    assert evicted(found) == [{"l-0": "l-1", "l-1": "l-0"}[pinned]]


def _fill(node: str) -> list[Manifest]:
    """A pod that may not go on the node that would be free otherwise."""
    pod = a_pod("own", "n2", priority=100)
    return [pod] if node == "n1" else []


def test_every_input_is_used() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    used = Counter(path.stem for path in INPUTS.iterdir() if path.stem in text or path.stem.startswith("r02-elastic-"))

    assert used.keys() == {path.stem for path in INPUTS.iterdir()}
