"""Rules about what nodes say of themselves, host ports and pod slots."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.predicates.plugin import ARGUMENTS, build
from tests.plugins.clusters import HOST, ZONE, Lab
from volsched.framework.config.arguments import values_of
from volsched.model.status import TaskStatus
from volsched.model.verdict import Step

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def lab(**arguments: Any) -> Lab:
    return Lab(build(values_of("plugin predicates", ARGUMENTS, arguments)))


def node_affinity(*terms: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expressions(*items: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in items]}


def test_cordoned_node_takes_only_pods_that_tolerate_the_cordon() -> None:
    world = lab()
    world.node("n1", unschedulable=True)
    key = "node.kubernetes.io/unschedulable"
    tolerant = {"tolerations": [{"key": key, "operator": "Exists", "effect": "NoSchedule"}]}
    wrong = {"tolerations": [{"key": key, "operator": "Exists", "effect": "NoExecute"}]}

    assert world.reasons(world.pod("a")) == {"n1": "node(s) were unschedulable"}
    assert world.feasible(world.pod("b", spec=tolerant)) == {"n1"}
    assert world.feasible(world.pod("c", spec=wrong)) == set()


def test_node_that_is_being_deleted_takes_nobody() -> None:
    world = lab()
    world.node("n1", terminating=True)

    assert world.reasons(world.pod("a")) == {"n1": "node(s) were being deleted"}


@pytest.mark.parametrize(
    ("taint", "toleration", "passes"),
    [
        pytest.param(("k", "v", "NoSchedule"), {"key": "k", "value": "v"}, True, id="equal is the default"),
        pytest.param(("k", "v", "NoSchedule"), {"key": "k", "value": "w"}, False, id="another value"),
        pytest.param(("k", "v", "NoExecute"), {"key": "k", "operator": "Exists"}, True, id="any value"),
        pytest.param(("k", "v", "NoExecute"), {"operator": "Exists"}, True, id="anything"),
        pytest.param(("k", "v", "NoExecute"), {"key": "k", "value": "v", "effect": "NoSchedule"}, False, id="effect"),
        pytest.param(("k", "v", "PreferNoSchedule"), {"key": "other"}, True, id="soft taints keep nobody away"),
        pytest.param(("k", "5", "NoSchedule"), {"key": "k", "operator": "Gt", "value": "4"}, True, id="greater"),
        pytest.param(("k", "4", "NoSchedule"), {"key": "k", "operator": "Gt", "value": "4"}, False, id="not greater"),
    ],
)
def test_taints(taint: tuple[str, str, str], toleration: dict[str, str], passes: bool) -> None:
    world = lab()
    world.node("n1", taints=[taint])
    task = world.pod("p", spec={"tolerations": [toleration]})

    expected = {} if passes else {"n1": f"node(s) had untolerated taint {{{taint[0]}: {taint[1]}}}"}
    assert world.reasons(task) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {"n1", "n3"}, id="node selector"),
        pytest.param({"nodeSelector": {"disk": "ssd", "cores": "8"}}, {"n1"}, id="all labels"),
        pytest.param(node_affinity(expressions(("disk", "In", ["ssd", "hdd"]))), {"n1", "n2", "n3"}, id="In"),
        pytest.param(node_affinity(expressions(("disk", "NotIn", ["ssd"]))), {"n2", "n4"}, id="NotIn and absent"),
        pytest.param(node_affinity(expressions(("disk", "Exists", []))), {"n1", "n2", "n3"}, id="Exists"),
        pytest.param(node_affinity(expressions(("disk", "DoesNotExist", []))), {"n4"}, id="DoesNotExist"),
        pytest.param(node_affinity(expressions(("cores", "Gt", ["4"]))), {"n1"}, id="Gt"),
        pytest.param(node_affinity(expressions(("cores", "Lt", ["8"]))), {"n2"}, id="Lt, and what is no number"),
        pytest.param(
            node_affinity(expressions(("disk", "In", ["hdd"])), expressions(("cores", "In", ["8"]))),
            {"n1", "n2"},
            id="terms are alternatives",
        ),
        pytest.param(
            node_affinity(expressions(("disk", "In", ["ssd"]), ("cores", "In", ["many"]))), {"n3"}, id="all of a term"
        ),
        pytest.param(node_affinity({}), set(), id="an empty term matches nothing"),
        pytest.param(
            node_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n4"]}]}),
            {"n4"},
            id="by name",
        ),
        pytest.param(
            node_affinity({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n4"]}]}),
            {"n1", "n2", "n3"},
            id="not by name",
        ),
        pytest.param(
            {"nodeSelector": {"disk": "ssd"}, **node_affinity(expressions(("cores", "In", ["8", "4"])))},
            {"n1"},
            id="selector and affinity",
        ),
    ],
)
def test_node_affinity(spec: dict[str, Any], expected: set[str]) -> None:
    world = lab()
    world.node("n1", labels={"disk": "ssd", "cores": "8"})
    world.node("n2", labels={"disk": "hdd", "cores": "4"})
    world.node("n3", labels={"disk": "ssd", "cores": "many"})
    world.node("n4")
    task = world.pod("p", spec=spec)

    assert world.feasible(task) == expected
    assert set(world.reasons(task).values()) <= {"node(s) didn't match Pod's node affinity/selector"}
    world.check_twins(task)


def test_features_must_be_declared() -> None:
    world = lab()
    world.node("n1")
    world.node("n2", features=["UserNamespacesHostNetworkSupport"])
    task = world.pod("p", spec={"hostNetwork": True, "hostUsers": False})

    assert world.reasons(task) == {"n1": "node(s) didn't match Pod's required features"}


def port(number: int, ip: str = "", protocol: str = "TCP") -> dict[str, Any]:
    return {"containerPort": 1, "hostPort": number, "hostIP": ip, "protocol": protocol}


@pytest.mark.parametrize(
    ("taken", "wanted", "free"),
    [
        pytest.param(port(80), port(80), False, id="the same"),
        pytest.param(port(80), port(81), True, id="another number"),
        pytest.param(port(80), port(80, protocol="UDP"), True, id="another protocol"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.2"), True, id="another address"),
        pytest.param(port(80, "10.0.0.1"), port(80), False, id="all addresses wanted"),
        pytest.param(port(80, "0.0.0.0"), port(80, "10.0.0.2"), False, id="all addresses taken"),  # noqa: S104
    ],
)
def test_host_ports(taken: dict[str, Any], wanted: dict[str, Any], free: bool) -> None:
    world = lab()
    world.node("n1")
    world.pod("there", on="n1", ports=[taken])
    task = world.pod("p", ports=[wanted])

    expected = {} if free else {"n1": "node(s) didn't have free ports for the requested pod ports"}
    assert world.reasons(task) == expected
    world.check_twins(task)


def test_ports_follow_moves_and_come_free_when_their_pod_has_ended() -> None:
    world = lab()
    world.node("n1")
    world.node("n2")
    task = world.pod("p", ports=[port(80)])
    assert world.feasible(task) == {"n1", "n2"}
    there = world.pod("there", on="n1", ports=[port(80), port(443)])
    for status, free in (
        (TaskStatus.ALLOCATED, {"n2"}),
        (TaskStatus.PIPELINED, {"n2"}),
        (TaskStatus.RELEASING, {"n2"}),
        (TaskStatus.SUCCEEDED, {"n1", "n2"}),
    ):
        world.move(there, status, "n1")
        assert world.feasible(task) == free
        world.check_twins(task)
    world.move(there, TaskStatus.RUNNING, "n2")
    assert world.feasible(task) == {"n1"}
    world.cluster.remove_task(there)
    assert world.feasible(task) == {"n1", "n2"}


def test_pod_slots_count_every_pod_on_the_node() -> None:
    world = lab()
    world.node("n1", pods=2)
    task = world.pod("p")
    world.pod("a", on="n1")
    assert world.feasible(task) == {"n1"}
    world.pod("b", on="n1", status=TaskStatus.PIPELINED)

    assert world.reasons(task) == {"n1": "Too many pods"}
    world.check_twins(task)


def test_what_cannot_be_understood_refuses_the_pod() -> None:
    world = lab()
    odd = world.pod("odd", spec={"tolerations": [{"key": "a", "operator": "Sometimes"}]})

    verdict = world.session.rules.pre_refusal(odd)

    assert verdict is not None
    assert verdict.step is Step.INVALID
    assert "spec.tolerations[0].operator" in verdict.message
    assert world.session.rules.pre_refusal(world.pod("fine")) is None


def test_resource_claims_are_refused_by_name() -> None:
    world = lab()
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "big-one"}]}

    verdict = world.session.rules.pre_refusal(world.pod("p", spec=spec))

    assert verdict is not None
    assert "big-one" in verdict.message


@pytest.mark.parametrize(
    ("key", "spec", "labels"),
    [
        ("NodeAffinityEnable", {"nodeSelector": {"disk": "ssd"}}, {}),
        ("TaintTolerationEnable", {}, {}),
        ("PodTopologySpreadEnable", {"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": 1}]}, {}),
        (
            "PodAffinityEnable",
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": {}}]}}},
            {},
        ),
    ],
)
def test_rules_can_be_switched_off(key: str, spec: dict[str, Any], labels: dict[str, str]) -> None:
    taints = [("a", "", "NoSchedule")] if key.startswith("Taint") else []
    for enabled in (True, False):
        world = lab(**{f"predicate.{key}": enabled})
        world.node("n1", labels=labels, taints=taints)
        world.pod("other", on="n1", ns="elsewhere")
        spec = {**spec, "nodeSelector": spec.get("nodeSelector", {})}
        affinity = spec.get("affinity", {}).get("podAffinity", {}).get(REQUIRED, [])
        for term in affinity:
            term["namespaces"] = ["nowhere"]
        assert bool(world.feasible(world.pod("p", spec=spec))) is not enabled


def test_the_proportional_predicate_is_taken_and_has_no_effect() -> None:
    world = lab(
        **{"predicate.ProportionalEnable": True, "predicate.resources": GPU, f"predicate.resources.{GPU}.cpu": 4}
    )
    world.node("n1")
    assert world.feasible(world.pod("p")) == {"n1"}


GPU = "nvidia.com/gpu"
