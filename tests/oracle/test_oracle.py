"""The oracle judges worlds whose answers anybody can tell, so that it may be believed on others."""

from __future__ import annotations

from typing import Any

import pytest

from .oracle import Oracle, OracleError

Json = dict[str, Any]

pytestmark = pytest.mark.process


def node(name: str, *, zone: str = "z1", cpu: str = "4", **spec: Any) -> Json:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "10"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod(name: str = "new", *, on: str = "", cpu: str = "1", labels: Json | None = None, **spec: Any) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    base = {"containers": [container], **({"nodeName": on} if on else {})}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": base | spec}


def refusals(oracle: Oracle, **world: Any) -> dict[str, tuple[str, str]]:
    """Return by node which plugin refuses it and the first reason; feasible nodes are absent."""
    judgement = oracle.judge(world)
    assert judgement["prefilter"] is None
    names = {item["metadata"]["name"] for item in world["nodes"]}
    assert set(judgement["feasible"]) | set(judgement["refused"]) == names
    return {name: (refusal["plugin"], refusal["reasons"][0]) for name, refusal in judgement["refused"].items()}


def term(labels: Json, key: str = "kubernetes.io/hostname", **more: Any) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **more}


def required(kind: str, *terms: Json) -> Json:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def test_nodes_without_room_are_refused_with_the_reason(oracle: Oracle) -> None:
    world = {"nodes": [node("n1"), node("n2")], "pods": [pod("busy", on="n1", cpu="3500m")], "pod": pod()}

    judgement = oracle.judge(world)

    assert judgement["feasible"] == ["n2"]
    assert judgement["refused"] == {
        "n1": {"plugin": "NodeResourcesFit", "code": "Unschedulable", "reasons": ["Insufficient cpu"]}
    }


def test_limits_count_as_requests_as_the_api_server_would_have_it(oracle: Oracle) -> None:
    limited = pod()
    limited["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "5"}}

    assert refusals(oracle, nodes=[node("n1")], pod=limited) == {"n1": ("NodeResourcesFit", "Insufficient cpu")}


def test_init_containers_sidecars_and_overhead_count(oracle: Oracle) -> None:
    def with_init(cpu: str, **more: Any) -> Json:
        init = {"name": "init", "image": "none", "resources": {"requests": {"cpu": cpu}}, **more}
        return pod(cpu="1", initContainers=[init])

    assert refusals(oracle, nodes=[node("n1")], pod=with_init("4")) == {}
    assert refusals(oracle, nodes=[node("n1")], pod=with_init("4", restartPolicy="Always")) != {}
    assert refusals(oracle, nodes=[node("n1")], pod=pod(cpu="4")) == {}
    assert refusals(oracle, nodes=[node("n1")], pod=pod(cpu="4", overhead={"cpu": "1m"})) != {}


def test_only_pods_that_hold_room_count(oracle: Oracle) -> None:
    done = pod("done", on="n1", cpu="4") | {"status": {"phase": "Succeeded"}}
    pods = [done, pod("pending", cpu="4"), pod("elsewhere", on="gone", cpu="4")]

    assert refusals(oracle, nodes=[node("n1")], pods=pods, pod=pod(cpu="4")) == {}


def test_taints_cordons_and_node_affinity(oracle: Oracle) -> None:
    taint = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
    nodes = [
        node("plain"),
        node("tainted", taints=[taint]),
        node("cordoned", unschedulable=True),
        node("far", zone="z2"),
    ]
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    assert refusals(oracle, nodes=nodes, pod=pod(affinity=affinity)) == {
        "tainted": ("TaintToleration", "node(s) had untolerated taint(s)"),
        "cordoned": ("NodeUnschedulable", "node(s) were unschedulable"),
        "far": ("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"),
    }
    tolerant = pod(affinity=affinity, tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert "tainted" not in refusals(oracle, nodes=nodes, pod=tolerant)


def test_a_pod_that_names_nodes_by_field_leaves_the_others_unasked(oracle: Oracle) -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    judgement = oracle.judge({"nodes": [node("n1"), node("n2")], "pod": pod(affinity=affinity)})

    assert judgement["feasible"] == ["n2"]
    assert judgement["refused"]["n1"] == {
        "plugin": "NodeAffinity",
        "code": "UnschedulableAndUnresolvable",
        "reasons": ["node(s) didn't satisfy plugin(s) [NodeAffinity]"],
    }


def test_host_ports(oracle: Oracle) -> None:
    def listening(name: str, address: str, on: str = "") -> Json:
        made = pod(name, on=on)
        made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80, "hostIP": address}]
        return made

    world = {"nodes": [node("n1"), node("n2")], "pods": [listening("there", "10.0.0.1", on="n1")]}

    assert refusals(oracle, **world, pod=listening("new", "10.0.0.2")) == {}
    assert set(refusals(oracle, **world, pod=listening("new", ""))) == {"n1"}


def test_anti_affinity_works_both_ways(oracle: Oracle) -> None:
    nodes = [node("n1"), node("n2")]
    shy = pod("shy", on="n1", labels={"app": "db"}, affinity=required("podAntiAffinity", term({"app": "web"})))

    assert set(refusals(oracle, nodes=nodes, pods=[shy], pod=pod(labels={"app": "web"}))) == {"n1"}
    new = pod(affinity=required("podAntiAffinity", term({"app": "db"})))
    assert set(refusals(oracle, nodes=nodes, pods=[shy], pod=new)) == {"n1"}


def test_affinity_follows_the_labels_of_namespaces(oracle: Oracle) -> None:
    friend = pod("friend", on="n2", labels={"app": "db"})
    friend["metadata"]["namespace"] = "other"
    selecting = term({"app": "db"}, namespaceSelector={"matchLabels": {"team": "a"}})
    world = {
        "nodes": [node("n1"), node("n2")],
        "pods": [friend],
        "pod": pod(affinity=required("podAffinity", selecting)),
    }

    labelled = {"metadata": {"name": "other", "labels": {"team": "a"}}}
    assert set(refusals(oracle, **world, namespaces=[labelled])) == {"n1"}
    assert set(refusals(oracle, **world, namespaces=[{"metadata": {"name": "other"}}])) == {"n1", "n2"}


def test_label_keys_are_merged_into_selectors(oracle: Oracle) -> None:
    nodes = [node("n1"), node("n2")]
    pods = [pod("old", on="n1", labels={"app": "web", "version": "1"})]
    by_version = term({"app": "web"}, matchLabelKeys=["version"])
    other_versions = term({"app": "web"}, mismatchLabelKeys=["version"])

    def refused(version: str, wanted: Json) -> set[str]:
        new = pod(labels={"app": "web", "version": version}, affinity=required("podAntiAffinity", wanted))
        return set(refusals(oracle, nodes=nodes, pods=pods, pod=new))

    assert (refused("1", by_version), refused("2", by_version)) == ({"n1"}, set())
    assert (refused("1", other_versions), refused("2", other_versions)) == (set(), {"n1"})


@pytest.mark.parametrize(("keys", "refused"), [([], {"n1"}), (["version"], set())])
def test_spread_over_zones(oracle: Oracle, keys: list[str], refused: set[str]) -> None:
    constraint = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    constraint |= {"labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": keys}
    new = pod(labels={"app": "web", "version": "2"}, topologySpreadConstraints=[constraint])
    pods = [pod("old", on="n1", labels={"app": "web", "version": "1"})]

    assert set(refusals(oracle, nodes=[node("n1"), node("n2", zone="z2")], pods=pods, pod=new)) == refused


def claim(name: str, *, volume: str = "", storage_class: str = "late", mode: str = "ReadWriteOnce") -> Json:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": storage_class}
    metadata: Json = {"name": name}
    if volume:
        spec["volumeName"] = volume
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Bound" if volume else "Pending"}}


def volume_in(zone: str, *, claimed_by: str = "") -> Json:
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "d", "volumeHandle": "h"},
        "storageClassName": "late",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    if claimed_by:
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claimed_by}
    return {"metadata": {"name": "volume"}, "spec": spec, "status": {"phase": "Bound" if claimed_by else "Available"}}


LATE = {
    "metadata": {"name": "late"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
AT_ONCE = {"metadata": {"name": "at-once"}, "provisioner": "example.com/p", "volumeBindingMode": "Immediate"}
USING_DATA = pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
ZONES = [node("n1"), node("n2", zone="z2")]


def test_a_bound_volume_decides_the_zone(oracle: Oracle) -> None:
    volumes = {"pvs": [volume_in("z2", claimed_by="data")], "pvcs": [claim("data", volume="volume")]}

    assert refusals(oracle, nodes=ZONES, **volumes, storageClasses=[LATE], pod=USING_DATA) == {
        "n1": ("VolumeBinding", "node(s) didn't match PersistentVolume's node affinity")
    }


def test_a_claim_that_waits_for_its_first_consumer_takes_a_volume_that_is_there(oracle: Oracle) -> None:
    world = {"nodes": ZONES, "pvcs": [claim("data")], "storageClasses": [LATE], "pod": USING_DATA}

    assert refusals(oracle, **world, pvs=[volume_in("z1")]) == {
        "n2": ("VolumeBinding", "node(s) didn't find available persistent volumes to bind")
    }
    assert set(refusals(oracle, **world)) == {"n1", "n2"}
    provisioned = world | {"storageClasses": [LATE | {"provisioner": "example.com/p"}]}
    assert refusals(oracle, **provisioned) == {}


def test_claims_refuse_the_pod_before_any_node_is_asked(oracle: Oracle) -> None:
    missing = oracle.judge({"nodes": ZONES, "pod": USING_DATA})
    unbound = oracle.judge(
        {
            "nodes": ZONES,
            "pod": USING_DATA,
            "pvcs": [claim("data", storage_class="at-once")],
            "storageClasses": [AT_ONCE],
        }
    )

    assert missing["prefilter"] == {
        "plugin": "VolumeRestrictions",
        "code": "UnschedulableAndUnresolvable",
        "reasons": ['persistentvolumeclaim "data" not found'],
    }
    assert unbound["prefilter"] == {
        "plugin": "VolumeBinding",
        "code": "UnschedulableAndUnresolvable",
        "reasons": ["pod has unbound immediate PersistentVolumeClaims"],
    }
    assert (missing["feasible"], missing["refused"], missing["scores"]) == ([], {}, {})


def test_a_claim_for_one_pod_is_not_shared(oracle: Oracle) -> None:
    volumes = {
        "pvs": [volume_in("z1", claimed_by="data")],
        "pvcs": [claim("data", volume="volume", mode="ReadWriteOncePod")],
    }
    first = pod("first", on="n1", volumes=USING_DATA["spec"]["volumes"])

    refused = refusals(oracle, nodes=[node("n1")], **volumes, storageClasses=[LATE], pods=[first], pod=USING_DATA)

    assert refused["n1"][0] == "VolumeRestrictions"


def test_worlds_leave_nothing_behind(oracle: Oracle) -> None:
    with_volume = {"nodes": ZONES, "pvcs": [claim("data")], "storageClasses": [LATE], "pod": USING_DATA}
    with_volume["pvs"] = [volume_in("z1")]
    without = {key: value for key, value in with_volume.items() if key != "pvs"}

    assert [judgement["feasible"] for judgement in oracle.judge_many([with_volume, without] * 3)] == [["n1"], []] * 3


def test_scores_are_those_of_the_default_profile(oracle: Oracle) -> None:
    preferred = {"weight": 5, "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    fast = node("n1")
    fast["metadata"]["labels"]["fast"] = "yes"
    nodes = [fast, node("n2")]

    scores = oracle.judge({"nodes": nodes, "pods": [pod("busy", on="n1")], "pod": pod(affinity=affinity)})["scores"]

    assert scores["n1"]["NodeAffinity"] == {"raw": 5, "normalized": 100, "weight": 2}
    assert scores["n2"]["NodeAffinity"] == {"raw": 0, "normalized": 0, "weight": 2}
    assert scores["n1"]["NodeResourcesFit"]["raw"] < scores["n2"]["NodeResourcesFit"]["raw"]
    assert scores["n1"]["TaintToleration"] == {"raw": 0, "normalized": 100, "weight": 3}
    assert "InterPodAffinity" not in scores["n1"]


def test_pods_of_a_service_are_spread_by_default(oracle: Oracle) -> None:
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}
    world = {
        "nodes": ZONES,
        "pods": [pod("old", on="n1", labels={"app": "web"})],
        "pod": pod(labels={"app": "web"}),
        "services": [service],
    }

    scores = oracle.judge(world)["scores"]

    assert scores["n1"]["PodTopologySpread"]["normalized"] < scores["n2"]["PodTopologySpread"]["normalized"]


@pytest.mark.parametrize(
    ("world", "message"),
    [
        ({"nodes": []}, "it has no pod"),
        ({"pod": pod(schedulingGate=[])}, 'unknown field "pod.spec.schedulingGate"'),
        ({"pod": pod(cpu="a lot")}, "quantities must match"),
    ],
)
def test_what_is_no_world_is_an_error_and_the_next_is_judged(oracle: Oracle, world: Json, message: str) -> None:
    good = {"nodes": [node("n1")], "pod": pod()}

    with pytest.raises(OracleError, match=f"world 1: .*{message}"):
        oracle.judge_many([good, world, good])

    assert oracle.judge(good)["feasible"] == ["n1"]


def test_it_judges_more_worlds_in_one_go_than_its_pipes_hold(oracle: Oracle) -> None:
    nodes = [node(f"n{index}", zone=f"z{index % 3}") for index in range(10)]
    pods = [pod(f"p{index}", on=f"n{index % 10}") for index in range(20)]
    worlds = [{"nodes": nodes, "pods": pods, "pod": pod(cpu=f"{index}m")} for index in range(1, 301)]

    judgements = oracle.judge_many(worlds)

    assert [len(judgement["feasible"]) for judgement in judgements] == [10] * 300
