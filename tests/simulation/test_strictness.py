"""A simulation is as strict as a cluster in every cycle: volumes, budgets, kubelets, what the API server fills in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.calls import call, text_of
from tests.simulation.clusters import (
    Manifest,
    meta,
    node,
    pending,
    placed,
    pod,
    result,
    simulation,
    volcano_job,
    workload,
)

STORAGE = "storage.k8s.io/v1"
PREEMPTING = """\
actions: "enqueue, allocate, preempt"
configurations: [{name: preempt, arguments: {respectDisruptionBudgets: %s}}]
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}]
- plugins: [{name: predicates}]
"""
LATE = {"volumeBindingMode": "WaitForFirstConsumer"}


def storage_class(name: str = "fast", driver: str = "csi.example", **more: Any) -> Manifest:
    annotations = more.pop("annotations", {})
    metadata = meta(name, annotations=annotations)
    return {"apiVersion": STORAGE, "kind": "StorageClass", "metadata": metadata, "provisioner": driver, **more}


def csi_node(name: str, count: int | None = None, keys: tuple[str, ...] = ()) -> Manifest:
    driver: Manifest = {"name": "csi.example", "nodeID": name, "topologyKeys": list(keys)}
    if count is not None:
        driver["allocatable"] = {"count": count}
    return {"apiVersion": STORAGE, "kind": "CSINode", "metadata": meta(name), "spec": {"drivers": [driver]}}


def claim(name: str, size: str = "1Gi", **spec: Any) -> Manifest:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta(name), "spec": asked}


def volume(name: str, size: str = "1Gi", **spec: Any) -> Manifest:
    offered = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta(name), "spec": offered}


def user(name: str, of: str | None = None, **more: Any) -> Manifest:
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": of or name}}], **more)


# --- limits of volumes ----------------------------------------------------------------------------------------------


def test_a_volume_that_was_made_counts_as_one_of_its_driver_in_later_cycles() -> None:
    world = [node("n1"), csi_node("n1", 1), storage_class(**LATE), claim("a", storageClassName="fast")]

    found = simulation(*world, claim("b", storageClassName="fast"), user("a"))
    assert [bind.name for _, bind in found.api_server.history.binds] == ["a"]
    made = found.api_server.volumes[found.api_server.claims["default/a"].spec.volume_name]
    assert made.spec.csi is not None
    assert (made.spec.csi.driver, made.spec.csi.volume_handle) == ("csi.example", made.metadata.name)

    again = result(*world, claim("b", storageClassName="fast"), user("a"), workload_later())
    assert placed(again) == {"a": "n1"}
    assert "exceed max volume count" in pending(again)["b-0-0"]["message"]


def workload_later() -> Manifest:
    """Return a Volcano Job whose pod comes in the second cycle, once it is admitted, and uses the claim b."""
    job = volcano_job("x", {"worker": 1})
    job["metadata"]["name"] = "b"
    job["spec"]["tasks"][0]["name"] = "0"
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "b"}}]
    job["spec"]["tasks"][0]["template"]["spec"]["volumes"] = volumes
    return job


# --- claims that wait for no node -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "asked"),
    [
        ([storage_class()], {"storageClassName": "fast"}),
        ([storage_class(annotations={"storageclass.kubernetes.io/is-default-class": "true"})], {}),
        ([storage_class(annotations={"storageclass.kubernetes.io/is-default-class": "true"}, **LATE)], {}),
        ([volume("v")], {"storageClassName": ""}),
        ([volume("v")], {"storageClassName": "", "volumeName": "v"}),
        ([volume("v", claimRef={"namespace": "default", "name": "p"})], {"storageClassName": ""}),
    ],
)
def test_a_claim_that_need_not_wait_is_bound_as_on_a_cluster(world: list[Manifest], asked: Manifest) -> None:
    assert placed(result(node("n1"), *world, claim("p", **asked), user("p"))) == {"p": "n1"}


@pytest.mark.parametrize(
    ("world", "asked"),
    [
        ([storage_class()], {}),  # none is the default
        ([storage_class("fast", "kubernetes.io/no-provisioner")], {"storageClassName": "fast"}),
        ([volume("v", "512Mi")], {"storageClassName": ""}),
        ([volume("v", claimRef={"namespace": "default", "name": "another"})], {"storageClassName": ""}),
        ([volume("v", storageClassName="other")], {"storageClassName": ""}),
        ([volume("v", claimRef={"namespace": "other", "name": "p"})], {"storageClassName": "", "volumeName": "v"}),
    ],
)
def test_a_claim_for_which_nothing_will_do_keeps_its_pod_waiting(world: list[Manifest], asked: Manifest) -> None:
    found = result(node("n1"), *world, claim("p", **asked), user("p"))

    assert placed(found) == {}
    assert "unbound immediate PersistentVolumeClaims" in pending(found)["p"]["message"]


def test_a_claim_that_states_that_it_is_pending_stays_so() -> None:
    stuck = {**claim("p", storageClassName="fast"), "status": {"phase": "Pending"}}

    assert placed(result(node("n1"), storage_class(), stuck, user("p"))) == {}


def test_two_claims_do_not_share_a_volume_and_the_smaller_one_is_taken_first() -> None:
    world = [node("n1"), volume("large", "9Gi"), volume("small", "1Gi")]
    claims = [claim(name, storageClassName="") for name in ("a", "b", "c")]

    found = simulation(*world, *claims, user("a"), user("b"), user("c"))

    assert {key: made.spec.volume_name for key, made in found.api_server.claims.items()} == {
        "default/a": "small", "default/b": "large", "default/c": ""
    }  # fmt: skip
    assert len(found.api_server.history.binds) == 2


def test_a_volume_that_waits_for_no_node_is_reached_from_one_zone_alone() -> None:
    zones = [node("n1", labels={"zone": "a"}, cpu=1), node("n2", labels={"zone": "b"})]
    world = [*zones, csi_node("n1", keys=("zone",)), csi_node("n2", keys=("zone",)), storage_class()]

    found = result(*world, claim("p", storageClassName="fast"), user("p", cpu=2))

    assert placed(found) == {}
    assert "didn't match PersistentVolume's node affinity" in pending(found)["p"]["message"]


# --- storage that runs out ------------------------------------------------------------------------------------------


def pool(size: str, storage: str = "fast") -> Manifest:
    topology = {"matchLabels": {"zone": "a"}}
    return {
        "apiVersion": STORAGE, "kind": "CSIStorageCapacity", "metadata": meta(f"pool-{storage}"),
        "storageClassName": storage, "nodeTopology": topology, "capacity": size, "maximumVolumeSize": size,
    }  # fmt: skip


TRACKED = {
    "apiVersion": STORAGE, "kind": "CSIDriver", "metadata": meta("csi.example"), "spec": {"storageCapacity": True}
}  # fmt: skip


def test_what_was_made_takes_of_the_storage_also_in_the_same_cycle() -> None:
    zone = node("n1", labels={"zone": "a"})
    claims = [claim(name, "3Gi", storageClassName="fast") for name in ("a", "b")]

    found = result(zone, TRACKED, storage_class(**LATE), pool("5Gi"), *claims, user("a"), user("b"))

    assert placed(found) == {"a": "n1"}
    assert "not have enough free storage" in pending(found)["b"]["message"]
    told = [event["message"] for event in found["events"] if event["object"] == "Pod/default/b"]
    assert any('binding to node "n1" failed: failed to provision volume' in message for message in told)


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (pool("much"), "capacity"),
        (volume("v", "much"), "spec.capacity[storage]"),
        (claim("c", "much"), "spec.resources.requests[storage]"),
        (
            workload("StatefulSet", "db", spec={"volumeClaimTemplates": [{**claim("data", "much")}]}),
            "spec.volumeClaimTemplates[0].spec.resources.requests[storage]",
        ),
        (
            pod(
                "p", volumes=[{"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": claim("x", "much")["spec"]}}}]
            ),
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]",
        ),
        (
            volcano_job("j", {"w": 1}, volumes=[{"mountPath": "/d", "volumeClaim": claim("x", "much")["spec"]}]),
            "spec.volumes[0].volumeClaim.resources.requests[storage]",
        ),
    ],
)
def test_storage_that_is_no_quantity_is_an_error_of_the_input(manifest: Manifest, field: str) -> None:
    answer = call("simulate", "-f", "-", given=text_of(node("n1"), manifest))

    assert answer.exit_code == 2
    assert f"{field}: 'much' is not a quantity" in answer.stderr


def test_another_class_of_the_driver_has_less_too() -> None:
    zone = node("n1", labels={"zone": "a"})
    world = [zone, TRACKED, storage_class(**LATE), storage_class("slow"), pool("5Gi"), pool("5Gi", "slow")]

    found = result(*world, claim("a", "3Gi", storageClassName="slow"), claim("b", "3Gi", storageClassName="fast"),
                   user("a"), user("b"))  # fmt: skip

    assert placed(found) == {"a": "n1"}


def test_a_volume_of_the_pods_own_goes_with_the_pod_and_gives_its_storage_back() -> None:
    scratch = claim("x", "3Gi", storageClassName="fast")["spec"]
    own = [{"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": scratch}}}]
    classes = [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta("high"), "value": 9}]
    zone = node("n1", labels={"zone": "a"}, cpu=1)
    world = [zone, TRACKED, storage_class(**LATE), pool("6Gi"), *classes]
    job = volcano_job("late", {"w": 1}, priorityClassName="high")
    job["spec"]["tasks"][0]["template"]["spec"]["volumes"] = own

    found = simulation(*world, pod("low", volumes=own), job, config=PREEMPTING % "false")

    assert [evict.name for _, evict in found.api_server.history.evictions] == ["low"]
    assert [bind.name for _, bind in found.api_server.history.binds] == ["low", "late-w-0"]
    assert len(found.api_server.volumes) == 1
    assert found.mirror.cluster.storage.capacities["default/pool-fast"].capacity == "3Gi"


# --- budgets --------------------------------------------------------------------------------------------------------


def budget(status: int | None = None, desired: int | None = None, **spec: Any) -> Manifest:
    manifest = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta("b"),
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }  # fmt: skip
    if status is None:
        return manifest
    known = {} if desired is None else {"desiredHealthy": desired, "expectedPods": 3, "currentHealthy": 3}
    return {**manifest, "status": {"disruptionsAllowed": status, **known}}


def preempted(given: Manifest, pods: int = 3, wanted: int = 3, owned: bool = True) -> list[str]:
    """Return who goes when as many important pods come as there are protected ones, one on each node."""
    names = [f"web-{number}" for number in range(pods)]
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True, "uid": ""}]
    extra = {"labels": {"app": "web"}, **({"ownerReferences": owner} if owned else {})}
    runs = [pod(name, on=f"n{number}", cpu=4, metadata=dict(extra)) for number, name in enumerate(names)]
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta("high"), "value": 9}
    comes = [pod(f"high-{number}", cpu=4, priorityClassName="high") for number in range(pods)]
    nodes = [node(f"n{number}", cpu=4) for number in range(pods)]
    owners = [workload("ReplicaSet", "web", wanted, cpu=4)] if owned else []
    found = result(*nodes, *owners, *runs, high, given, *comes, config=PREEMPTING % "true")
    return sorted(evict["pod"].removeprefix("default/") for evict in found["evictions"])


@pytest.mark.parametrize(
    ("given", "gone"),
    [
        (budget(maxUnavailable=0), 0),
        (budget(maxUnavailable=1), 1),
        (budget(minAvailable=2), 1),
        (budget(minAvailable="100%"), 0),
        (budget(minAvailable="50%"), 1),
        (budget(maxUnavailable="34%"), 2),
        (budget(status=0), 0),
        (budget(status=2), 2),
        (budget(status=2, maxUnavailable=1), 1),
        (budget(minAvailable=0), 3),
        (budget(status=1, desired=2, minAvailable="10%"), 1),
    ],
)
def test_no_budget_is_broken_in_any_cycle(given: Manifest, gone: int) -> None:
    assert len(preempted(given)) == gone


def test_a_percentage_is_one_of_what_the_workload_wants() -> None:
    assert preempted(budget(minAvailable="50%"), pods=3, wanted=6) == []


def test_of_pods_without_a_workload_only_a_number_that_stays_is_known() -> None:
    assert len(preempted(budget(minAvailable=1), owned=False)) == 2
    assert preempted(budget(maxUnavailable=2), owned=False) == []


def test_without_respect_for_them_budgets_are_kept_as_long_as_others_will_do() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta("high"), "value": 9}
    runs = [pod("a", on="n1", cpu=4, metadata={"labels": {"app": "web"}}), pod("z", on="n2", cpu=4)]
    world = [node("n1", cpu=4), node("n2", cpu=4), *runs, high, budget(minAvailable=1)]

    found = result(*world, pod("high", cpu=4, priorityClassName="high"), config=PREEMPTING % "false")

    assert [evict["pod"] for evict in found["evictions"]] == ["default/z"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"minAvailable": "some"}, "spec.minAvailable"), ({"minAvailable": 1, "maxUnavailable": 1}, "spec.minAvailable")],
)
def test_a_budget_that_cannot_be_read_is_an_error_of_validate(spec: Manifest, field: str) -> None:
    answer = call("validate", "-f", "-", given=text_of(budget(**spec)))

    assert answer.exit_code == 1
    assert f"error: PodDisruptionBudget/default/b: {field}: " in answer.stdout


# --- kubelets -------------------------------------------------------------------------------------------------------

NO_PREDICATES = 'actions: "allocate"\ntiers:\n- plugins: [{name: gang}]\n'
PORT = [{"name": "main", "resources": {"requests": {"cpu": 1}}, "ports": [{"containerPort": 80, "hostPort": 80}]}]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"nodeSelector": {"zone": "b"}}, "NodeAffinity"),
        ({"containers": PORT}, "NodePorts"),
        ({"tolerations": []}, "TaintToleration"),
    ],
)
def test_a_kubelet_refuses_what_the_configuration_does_not_look_at(asked: Manifest, reason: str) -> None:
    tolerates = [{"key": "x", "operator": "Exists"}]
    tainted = node("n1", labels={"zone": "a"}, taints=[{"key": "x", "effect": "NoExecute"}])
    runs = pod("runs", on="n1", containers=PORT, tolerations=tolerates)
    comes = pod("comes", **{"tolerations": tolerates, **asked})

    found = result(tainted, runs, comes, config=NO_PREDICATES)

    assert (found["pods"]["default/comes"]["phase"], found["pods"]["default/comes"]["node"]) == ("Failed", "n1")
    told = {(event["object"], event["reason"]) for event in found["events"] if event["type"] == "Warning"}
    assert ("Pod/default/comes", reason) in told
    assert "RejectedByNode" in {name for _, name in told}


def test_a_kubelet_looks_at_pods_whose_template_names_its_node() -> None:
    fits, large = (workload("ReplicaSet", name, 1, nodeName="n1", cpu=cpu) for name, cpu in (("a", 1), ("b", 10)))

    found = result(node("n1", cpu=4), fits, large, cycles=2)

    assert found["pods"]["default/a-0"]["phase"] == "Running"
    assert found["pods"]["default/b-0"]["phase"] == "Failed"
    assert ("Pod/default/b-0", "OutOfcpu") in [(event["object"], event["reason"]) for event in found["events"]]
    assert found["queues"]["default"]["allocated"] == {"cpu": "1"}


def test_what_a_kubelet_refused_holds_nothing_and_its_workload_makes_another_pod() -> None:
    selects = workload("ReplicaSet", "rs", 1, nodeSelector={"zone": "b"})

    found = result(node("n1", labels={"zone": "a"}), selects, config=NO_PREDICATES, cycles=3)

    assert [name for name, shown in found["pods"].items() if shown["phase"] == "Failed"] == [
        "default/rs-0", "default/rs-1", "default/rs-2"
    ]  # fmt: skip
    assert found["queues"]["default"]["allocated"] == {}


def test_a_stateful_set_makes_a_refused_pod_again_under_its_name() -> None:
    selects = workload("StatefulSet", "db", 1, nodeSelector={"zone": "b"})

    found = result(node("n1", labels={"zone": "a"}), selects, config=NO_PREDICATES, cycles=3)

    assert list(found["pods"]) == ["default/db-0"]
    assert [bind["cycle"] for bind in found["binds"]] == [1, 2, 3]


# --- what the API server fills in, and what is not played ------------------------------------------------------------


def test_the_preemption_policy_of_a_priority_class_holds_for_its_pods() -> None:
    modest = {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta("modest"), "value": 9,
        "preemptionPolicy": "Never",
    }  # fmt: skip
    world = [node("n1", cpu=1), pod("low", on="n1"), modest]

    found = result(*world, pod("high", priorityClassName="modest"), config=PREEMPTING % "false")

    assert found["evictions"] == []


def test_what_is_not_played_is_said() -> None:
    tainted = node("n1", taints=[{"key": "x", "effect": "NoExecute"}])
    many = workload("Job", "many", spec={"parallelism": 2, "completions": 5})

    found = result(tainted, node("n2"), pod("stays", on="n1"), many)

    assert found["notes"] == [
        "taints with the effect NoExecute evict nobody here; a cluster would evict default/stays",
        "no pod ends here, so the pods that follow others do not come: those of Job/default/many",
    ]


def test_a_gang_of_a_stateful_set_is_said_to_come_at_once() -> None:
    least = {"annotations": {"scheduling.volcano.sh/group-min-member": "2"}}

    theirs = workload("StatefulSet", "theirs", 2, metadata=least, scheduler="default-scheduler")
    found = result(
        node("n1"), workload("StatefulSet", "db", 2, metadata=least), workload("StatefulSet", "kv", 2), theirs
    )

    assert found["notes"][1:] == [
        "pods of StatefulSets come at once here; a cluster would make the gang of StatefulSet/default/db one by one"
    ]


def test_what_the_api_server_would_heed_is_said_not_to_be() -> None:
    others = [
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta("q"), "spec": {"hard": {"pods": "1"}}},
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta("l"), "spec": {"limits": []}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta("s")},
    ]

    assert result(node("n1"), *others)["notes"] == [
        "LimitRange and ResourceQuota: not heeded here; the API server may refuse pods, or have them ask for more"
    ]


def test_policies_of_a_job_that_lost_a_pod_are_said_not_to_be_played() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta("high"), "value": 9}
    job = volcano_job("low", {"w": 1}, minAvailable=0, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    comes = volcano_job("high", {"w": 1}, priorityClassName="high")
    owner = [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "low", "controller": True, "uid": ""}]
    runs = pod("low-w-0", on="n1", metadata={"ownerReferences": owner})

    alone = result(node("n1", cpu=1), job, high, config=PREEMPTING % "false")
    found = result(node("n1", cpu=1), runs, job, high, comes, config=PREEMPTING % "false")

    assert "notes" not in alone
    assert [entry["pod"] for entry in found["evictions"]] == ["default/low-w-0"]
    assert found["notes"] == ["policies of Volcano Jobs are not carried out here; pods were evicted of Job/default/low"]
