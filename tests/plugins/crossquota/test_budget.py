"""Which nodes and pods are meant, what counts as used, and whom the quota refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plugins.crossquota.plugin import ARGUMENTS, build
from tests.plugins.clusters import Lab
from tests.plugins.crossquota.worlds import ANN, GPU, NAMES, RESOURCES
from volsched.framework.config.arguments import values_of
from volsched.model.nodes.node import NodeProperties
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import Shortfall

GI = 1 << 30
SELECTOR = {"matchLabels": {"quota-controlled": "true"}}


def lab(**arguments: Any) -> Lab:
    values = values_of("plugin crossquota", ARGUMENTS, {NAMES: GPU, RESOURCES: "cpu,memory", **arguments})
    return Lab(build(values))


def admitted(world: Lab, task: TaskInfo) -> set[str]:
    world.check_twins(task)
    return world.feasible(task)


def used(world: Lab, name: str = "g1") -> list[int]:
    """What the plugin counts as used on a node."""
    budgets = world.accounts.get("crossquota", lambda _: pytest.fail("no session was opened"))
    return list(budgets.of(world.cluster.nodes[name]).used)


# --- classification -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "offered", "is_gpu"),
    [
        (GPU, {GPU: 4}, True),  # C01
        (GPU, {}, False),  # C02
        (f"{GPU},amd.com/gpu", {"intel.com/gpu": 1}, False),  # C03
        (GPU, {GPU: 0}, False),  # C04
        (r".*\.com/gpu", {"amd.com/gpu": 1}, True),  # C15
        (GPU, {"nvidia.com/gpu.shared": 1}, True),
        ("^nvidia.com/gpu$", {"nvidia.com/gpu.shared": 1}, False),
        ("hugepages", {"hugepages-2Mi": "2Mi"}, True),
    ],
)
def test_a_node_that_offers_a_matching_resource_is_a_gpu_node(
    names: str, offered: dict[str, Any], is_gpu: bool
) -> None:
    world = lab(**{NAMES: names, "quota.cpu": 0})
    world.node("g1", **offered)

    assert admitted(world, world.pod("p", cpu=1)) == (set() if is_gpu else {"g1"})


def test_a_node_whose_device_plugin_restarts_stays_a_gpu_node() -> None:
    world = lab(**{"quota.cpu": 0})
    world.node("g1", **{GPU: 0})
    properties = NodeProperties("g1", capacity={GPU: 4000})
    world.cluster.node_cache.put([(properties, {"cpu": 8000})])

    assert admitted(world, world.pod("p", cpu=1)) == set()


@pytest.mark.parametrize(
    ("pod", "is_cpu"),
    [
        ({"cpu": 1, "memory": "1Gi"}, True),  # C07
        ({GPU: 0}, True),  # C08
        ({GPU: 1}, False),  # C09
        ({GPU: "10m"}, True),
        ({GPU: "11m"}, False),
        ({"nvidia.com/gpumem": 3000}, False),  # C11
        ({"nvidia.com/mig-1g.5gb": 1}, True),
        ({}, True),
    ],
)
def test_a_pod_that_asks_for_no_matching_resource_is_a_cpu_pod(pod: dict[str, Any], is_cpu: bool) -> None:
    world = lab(**{"quota.cpu": 1})
    world.node("g1", **{GPU: 4})
    world.pod("before", on="g1", cpu=2)

    assert admitted(world, world.pod("p", **pod)) == (set() if is_cpu else {"g1"})


def containers(**requests: Any) -> list[dict[str, Any]]:
    return [{"name": "c", "resources": {"requests": requests, "limits": requests}}]


@pytest.mark.parametrize(
    "spec",
    [
        {"initContainers": containers(**{GPU: 1})},
        {"initContainers": [{**containers(**{GPU: 1})[0], "restartPolicy": "Always"}]},
        {"containers": containers(cpu=1) + containers(**{GPU: 1})},
    ],
)
def test_an_accelerator_for_any_container_makes_a_gpu_pod(spec: dict[str, Any]) -> None:
    world = lab(**{"quota.cpu": 0})
    world.node("g1", **{GPU: 4})

    assert admitted(world, world.pod("p", spec=spec, cpu=1)) == {"g1"}


@pytest.mark.parametrize("exempt", [False, True])
def test_pods_with_resource_claims_are_cpu_pods_unless_exempt(exempt: bool) -> None:
    world = lab(**{"quota.cpu": 0, "exempt-resource-claims": exempt})
    world.node("g1", **{GPU: 4})
    spec = {"resourceClaims": [{"name": "card", "resourceClaimName": "mine"}]}

    assert admitted(world, world.pod("p", spec=spec, cpu=1)) == ({"g1"} if exempt else set())


def test_without_patterns_nothing_is_refused() -> None:
    world = lab(**{NAMES: "", "quota.cpu": 0})
    world.node("g1", **{GPU: 4})

    assert admitted(world, world.pod("p", cpu=1)) == {"g1"}


# --- usage ----------------------------------------------------------------------------------------------------------


def test_u01_only_cpu_pods_that_the_selector_matches_count() -> None:
    world = lab(**{"label-selector": SELECTOR})
    world.node("g1", 64, "256Gi", **{GPU: 8})
    yes, no = {"quota-controlled": "true"}, {"quota-controlled": "false"}
    world.pod("a", "g1", TaskStatus.ALLOCATED, labels=yes, cpu=4, memory="8Gi")
    world.pod("b", "g1", TaskStatus.ALLOCATED, labels=no, cpu=2, memory="4Gi")
    world.pod("c", "g1", TaskStatus.ALLOCATED, labels=yes, cpu=2, memory="4Gi")
    world.pod("d", labels=yes, cpu=4, memory="8Gi")
    world.pod("e", "g1", TaskStatus.ALLOCATED, labels=yes, cpu=4, memory="8Gi", **{GPU: 1})
    world.open_session()

    assert used(world) == [6000, 12 * GI]


@pytest.mark.parametrize("status", list(TaskStatus))
def test_u02_a_pod_counts_from_its_choice_of_node_until_it_is_gone(status: TaskStatus) -> None:
    world = lab()
    world.node("g1", **{GPU: 8})
    task = world.pod("p", cpu=1)
    world.open_session()
    world.move(task, status, "g1")
    counts = status not in (TaskStatus.PENDING, TaskStatus.SUCCEEDED, TaskStatus.FAILED)

    assert used(world) == ([1000, 0] if counts else [0, 0])
    world.reopen()
    world.accounts.drop()
    world.open_session()
    assert used(world) == ([1000, 0] if counts else [0, 0])


def test_u09_overhead_and_init_containers_count() -> None:
    world = lab(**{RESOURCES: "cpu,pods"})
    world.node("g1", **{GPU: 8})
    world.pod("p", on="g1", spec={"overhead": {"cpu": "250m"}}, cpu=1)
    world.pod("q", on="g1", spec={"initContainers": containers(cpu=3)}, cpu=1)
    world.open_session()

    assert used(world) == [1250 + 3000, 2]


def test_a_pod_of_another_label_counts_under_its_new_one() -> None:
    world = lab(**{"label-selector": SELECTOR})
    world.node("g1", **{GPU: 8})
    task = world.pod("p", on="g1", labels={"quota-controlled": "true"}, cpu=1)
    world.open_session()

    before, task.spec = task.spec, msgspec.structs.replace(task.spec, labels={})
    world.cluster.relabel(task, before)

    assert used(world) == [0, 0]


def test_a_node_that_becomes_a_gpu_node_knows_who_is_there() -> None:
    world = lab(**{"quota.cpu": 2})
    world.node("n1")
    world.pod("p", on="n1", cpu=2)
    task = world.pod("q", cpu=1)
    assert admitted(world, task) == {"n1"}

    world.node("n1", **{GPU: 4})

    assert admitted(world, task) == set()
    assert used(world, "n1") == [2000, 0]


def test_what_is_gone_is_forgotten() -> None:
    world = lab()
    world.node("g1", **{GPU: 8})
    task = world.pod("p", on="g1", cpu=1)
    world.open_session()
    world.cluster.remove_task(task)
    world.cluster.node_cache.remove("g1")
    world.node("g1", **{GPU: 8})

    assert used(world) == [0, 0]


# --- the predicate --------------------------------------------------------------------------------------------------


def refusal(world: Lab, task: TaskInfo, name: str = "g1") -> Any:
    (predicate,) = world.session.rules.nodes.predicates
    world.check_twins(task)
    return predicate.ask(task, world.cluster.nodes[name])


def holding(cpu: Any, memory: Any, quota: dict[str, Any]) -> Lab:
    world = lab(**{f"quota.{name}": amount for name, amount in quota.items()})
    world.node("g1", 128, "512Gi", **{GPU: 8})
    world.node("c1", 128, "512Gi")
    world.pod("before", on="g1", cpu=cpu, memory=memory)
    return world


SMALL = {"cpu": 4, "memory": "8Gi"}


def test_r01_the_seeds_example() -> None:
    world = holding(28, "50Gi", {"cpu": 32, "memory": "64Gi"})

    verdict = refusal(world, world.pod("p", cpu=6, memory="10Gi"))

    assert verdict.message == "cpu quota exceeded"
    assert verdict.shortfalls == (Shortfall("cpu", 6000, 28000, 32000),)
    assert verdict.numbers_of("g1") == "g1: cpu required 6, used 28, quota 32"
    assert verdict.resolvable


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        ({"cpu": 3, "memory": "1Gi"}, "cpu quota exceeded"),  # R02
        ({"cpu": 1, "memory": "6Gi"}, "memory quota exceeded"),  # R03
        ({"cpu": 1, "memory": "2Gi"}, None),  # R04
        ({"cpu": 2, "memory": "4Gi"}, None),  # equal passes
        ({"cpu": "2001m", "memory": "4Gi"}, "cpu quota exceeded"),
        ({"cpu": 1, "memory": "1Gi", GPU: 1}, None),  # R05
        ({"cpu": 5, "memory": "9Gi"}, "cpu quota exceeded; memory quota exceeded"),  # R08
    ],
)
def test_used_and_required_together_stay_within_the_quota(pod: dict[str, Any], message: str | None) -> None:
    world = holding(2, "4Gi", SMALL)
    task = world.pod("p", **pod)

    verdict = refusal(world, task)

    assert (verdict.message if verdict else None) == message
    assert refusal(world, task, "c1") is None  # R06


def test_r16_gpu_pods_are_free() -> None:
    world = holding(4, "8Gi", SMALL)

    assert refusal(world, world.pod("p", cpu=60, **{GPU: 1})) is None


def test_d14_a_node_above_its_quota_takes_no_cpu_pod_at_all() -> None:
    world = holding(5, "1Gi", SMALL)

    assert refusal(world, world.pod("p")).message == "cpu quota exceeded"
    assert refusal(world, world.pod("q", memory="1Gi")).message == "cpu quota exceeded"


def test_d11_a_quota_of_nothing_takes_those_that_ask_for_nothing() -> None:
    world = lab(**{"quota.cpu": 0})
    world.node("g1", **{GPU: 8})

    assert refusal(world, world.pod("p", memory="1Gi")) is None
    assert refusal(world, world.pod("q", cpu="1m")).message == "cpu quota exceeded"


def test_eviction_is_no_hope_for_what_is_above_the_quota_alone() -> None:
    world = holding(1, "1Gi", SMALL)

    assert not refusal(world, world.pod("p", cpu=5)).resolvable


def test_pods_are_a_resource_of_which_each_pod_takes_one() -> None:
    world = lab(**{RESOURCES: "pods", "quota.pods": 1})
    world.node("g1", **{GPU: 8})
    assert refusal(world, world.pod("p")) is None
    world.pod("before", on="g1")

    assert refusal(world, world.pod("q")).message == "pods quota exceeded"


# --- label selector -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ({}, {"a": "b"}, True),  # L01
        (
            {"matchLabels": {"env": "production", "team": "backend"}},
            {"env": "production", "team": "backend", "x": "y"},
            True,
        ),  # L02
        ({"matchLabels": {"env": "production", "team": "backend"}}, {"env": "production"}, False),
        (
            {"matchExpressions": [{"key": "environment", "operator": "In", "values": ["production", "staging"]}]},
            {"environment": "production"},
            True,
        ),  # L04
        (
            {"matchExpressions": [{"key": "environment", "operator": "In", "values": ["production", "staging"]}]},
            {"environment": "development"},
            False,
        ),
        ({"matchExpressions": [{"key": "quota-enabled", "operator": "Exists"}]}, {"quota-enabled": ""}, True),  # L06
        ({"matchExpressions": [{"key": "quota-enabled", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]}, {"free": "1"}, False),
        ({"matchExpressions": [{"key": "free", "operator": "NotIn", "values": ["1"]}]}, {"free": "2"}, True),
    ],
)
def test_quotas_are_for_pods_that_the_selector_matches(selector: Any, labels: dict[str, str], matches: bool) -> None:
    world = lab(**{"label-selector": selector, "quota.cpu": 0})
    world.node("g1", **{GPU: 8})

    assert (refusal(world, world.pod("p", labels=labels, cpu=1)) is not None) == matches


def test_q23_a_node_that_grows_has_a_larger_quota() -> None:
    world = lab(**{"quota-percentage.cpu": 50})
    world.node("g1", 8, **{GPU: 8})
    task = world.pod("p", cpu=6)
    assert refusal(world, task) is not None

    world.node("g1", 16, **{GPU: 8})

    assert refusal(world, task) is None


def test_an_annotation_that_comes_later_counts() -> None:
    world = lab()
    world.node("g1", 8, **{GPU: 8})
    task = world.pod("p", cpu=6)
    assert refusal(world, task) is None

    properties = NodeProperties("g1", annotations={f"{ANN}cpu": "4"})
    world.cluster.node_cache.put([(properties, {"cpu": 8000, GPU: 8000})])

    assert refusal(world, task) is not None
