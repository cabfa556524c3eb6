"""How the in-memory cluster moves between cycles: what controllers make, what becomes of bound and evicted pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.simulation.clusters import (
    Manifest,
    group,
    node,
    placed,
    pod,
    pod_spec,
    queue,
    result,
    simulation,
    stock,
    volcano_job,
    workload,
)
from volsched.model import api
from volsched.model.changes import Deleted, Put
from volsched.model.plan import Bind, Evict, LiftGate, RecordEvent, VolumeWrite, WritePodCondition
from volsched.simulation.api_server import SimulatedApiServer


def world(*manifests: Manifest) -> SimulatedApiServer:
    made = SimulatedApiServer(stock(*manifests), ("volsched", "volcano"))
    made.begin()
    made.cycle = 1
    return made


def names(found: SimulatedApiServer) -> list[str]:
    return sorted(pod.metadata.name for pod in found.pods.values())


def evict(name: str) -> Evict:
    return Evict("", "default", name, "preempt", "default/x", "")


def bind(name: str, on: str = "n1", **more: Any) -> Bind:
    return Bind("", "default", name, on, **more)


# --- plain pods and workloads ---------------------------------------------------------------------------------------


def test_a_plain_pod_gets_a_pod_group_of_its_own_with_what_the_controller_would_write() -> None:
    annotations = {
        "scheduling.volcano.sh/queue-name": "team",
        "volcano.sh/preemptable": "true",
        "volcano.sh/card.name": "a",
    }
    found = world(pod("p", annotations=annotations, cpu=2, priorityClassName="high"))
    (made,) = found.groups.values()
    uid = found.pods["default/p"].metadata.uid
    assert made.metadata.name == f"podgroup-{uid}"
    assert (made.spec.queue, made.spec.min_member, made.spec.min_resources) == ("team", 1, {"cpu": "2"})
    assert made.spec.priority_class_name == "high"
    assert made.metadata.annotations == {"volcano.sh/preemptable": "true"}
    assert found.pods["default/p"].metadata.annotations["scheduling.k8s.io/group-name"] == made.metadata.name


@pytest.mark.parametrize(
    "manifest",
    [
        pod("p", scheduler="default-scheduler"),
        pod("p", in_group="g"),
        pod("p", status={"phase": "Succeeded"}),
    ],
)
def test_pods_of_others_finished_pods_and_pods_with_a_group_get_none(manifest: Manifest) -> None:
    assert world(manifest).groups == {}


@pytest.mark.parametrize(
    ("waiting", "placed", "cpu"),
    [
        ({"p0": (6, 1), "p1": (1, 2)}, {}, "1"),
        ({"p0": (1, 2), "p1": (6, 1)}, {}, "1"),
        ({"p0": (6, 1), "p1": (1, 1)}, {}, "1"),
        ({"p1": (2, 1)}, {"p0": (6, 0), "p2": (1, 3)}, "2"),
        ({}, {"p0": (6, 1), "p1": (1, 2)}, "6"),
    ],
)
def test_where_pods_of_one_owner_differ_the_newest_without_a_node_makes_their_pod_group(
    waiting: dict[str, tuple[int, int]], placed: dict[str, tuple[int, int]], cpu: str
) -> None:
    web = workload("ReplicaSet", "web", 0, metadata={"uid": "u"})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}

    def made(name: str, cpu: int, second: int, on: str | None = None) -> Manifest:
        stamp = f"2026-01-01T00:00:0{second}Z"
        return pod(name, on=on, cpu=cpu, metadata={"ownerReferences": [owner], "creationTimestamp": stamp})

    pods = [made(name, *what) for name, what in waiting.items()]
    pods += [made(name, *what, on="n1") for name, what in placed.items()]
    (group_made,) = world(node("n1"), web, *pods).groups.values()

    assert group_made.spec.min_resources == {"cpu": cpu}


def test_a_deployments_pods_share_the_pod_group_of_their_replica_set() -> None:
    annotations = {"scheduling.volcano.sh/group-min-member": "2", "volcano.sh/card.request": "{}", "other": "x"}
    found = world(workload("Deployment", "web", 3, metadata={"annotations": annotations}))
    (made,) = found.groups.values()
    assert made.spec.min_member == 2
    assert made.spec.min_resources == {"cpu": "2"}
    assert made.metadata.annotations == {"volcano.sh/card.request": "{}"}
    assert [reference.kind for reference in made.metadata.owner_references] == ["ReplicaSet"]
    assert len(found.pods) == 3
    assert all(name.startswith("web-") and name[-2:] in ("-0", "-1", "-2") for name in names(found))
    assert {p.metadata.labels["app"] for p in found.pods.values()} == {"web"}


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (workload("ReplicaSet", "rs", 2), ["rs-0", "rs-1"]),
        (workload("ReplicaSet", "rs"), ["rs-0"]),
        (workload("ReplicaSet", "rs", 0), []),
        (workload("StatefulSet", "db", 2), ["db-0", "db-1"]),
        (workload("StatefulSet", "db", 2, spec={"ordinals": {"start": 5}}), ["db-5", "db-6"]),
        (workload("Job", "etl"), ["etl-0"]),
        (workload("Job", "etl", spec={"parallelism": 5, "completions": 2}), ["etl-0", "etl-1"]),
        (workload("Job", "etl", spec={"suspend": True}), []),
    ],
)
def test_workloads_make_their_pods_at_once(manifest: Manifest, expected: list[str]) -> None:
    assert names(world(manifest)) == expected


def test_pods_with_names_of_their_own_lose_none_of_them_to_another_workload() -> None:
    found = world(workload("Deployment", "a"), workload("ReplicaSet", "db", 2), workload("StatefulSet", "db", 2))
    assert [name for name in names(found) if name.startswith("db")] == ["db-0", "db-1", "db-2", "db-3"]
    job = volcano_job("train", {"worker": 1})
    assert names(world(workload("ReplicaSet", "train-worker"), job)) == ["train-worker-1"]


def test_a_daemon_set_makes_a_pod_for_each_node_that_it_may_run_on() -> None:
    nodes = [
        node("a", labels={"gpu": "1"}),
        node("b"),
        node("c", labels={"gpu": "1"}, taints=[{"key": "x", "effect": "NoExecute"}]),
    ]
    found = result(*nodes, workload("DaemonSet", "agent", nodeSelector={"gpu": "1"}))
    assert {name: shown["node"] for name, shown in found["pods"].items()} == {"default/agent-a": "a"}


def test_pods_of_the_input_count_for_the_workload_that_owns_them() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "told-elsewhere", "controller": True}
    known = pod("rs-abc", on="n1", metadata={"ownerReferences": [owner]})
    leaving = pod("rs-old", on="n1", metadata={"ownerReferences": [owner], "deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert names(world(workload("ReplicaSet", "rs", 2), known, leaving)) == ["rs-0", "rs-abc", "rs-old"]


@pytest.mark.parametrize("other", [{"namespace": "theirs"}, {"kind": "StatefulSet"}, {"name": "rs2"}, {"uid": "u9"}])
def test_pods_that_name_the_uid_of_a_workload_and_are_not_its_own_do_not_count_for_it(other: dict[str, str]) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u1", "controller": True}
    namespace = other.get("namespace", "default")
    reference = owner | {key: value for key, value in other.items() if key != "namespace"}
    forged = pod("forged", on="n1", namespace=namespace, metadata={"ownerReferences": [reference]})

    found = world(workload("ReplicaSet", "rs", 2, metadata={"uid": "u1"}), forged)

    assert names(found) == ["forged", "rs-0", "rs-1"]


def test_a_replica_set_of_the_input_stands_for_its_deployment() -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "", "controller": True}
    found = world(
        workload("Deployment", "web", 2), workload("ReplicaSet", "web-1", 2, metadata={"ownerReferences": [reference]})
    )
    assert names(found) == ["web-1-0", "web-1-1"]


def test_a_namespace_sends_its_pod_groups_of_the_default_queue_elsewhere() -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "annotations": {"scheduling.volcano.sh/queue-name": "special"}},
    }
    own = {"scheduling.volcano.sh/queue-name": "own"}
    found = world(namespace, pod("a", namespace="team"), pod("b", namespace="team", annotations=own), pod("c"))
    assert sorted(made.spec.queue for made in found.groups.values()) == ["default", "own", "special"]


def test_claims_are_made_from_templates() -> None:
    template = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": template["spec"]}}}
    found = world(
        workload("StatefulSet", "db", 1, spec={"volumeClaimTemplates": [template]}), pod("p", volumes=[scratch])
    )
    assert sorted(found.claims) == ["default/data-db-0", "default/p-scratch"]
    (volume,) = found.pods["default/db-0"].spec.volumes
    assert volume.persistent_volume_claim is not None
    assert volume.persistent_volume_claim.claim_name == "data-db-0"
    assert found.claims["default/p-scratch"].metadata.controller is not None


# --- Volcano Jobs ---------------------------------------------------------------------------------------------------


def test_a_volcano_jobs_pods_appear_once_its_pod_group_is_admitted() -> None:
    waiting = world(volcano_job("train", {"ps": 1, "worker": 2}))
    (made,) = waiting.groups.values()
    assert made.metadata.name.startswith("train-")
    assert (made.spec.min_member, made.spec.min_task_member) == (3, {"ps": 1, "worker": 2})
    assert made.spec.min_resources == {"cpu": "3"}
    assert waiting.pods == {}
    found = result(node("n1"), queue("team"), volcano_job("train", {"ps": 1, "worker": 2}, queue="team"))
    assert placed(found) == dict.fromkeys(("train-ps-0", "train-worker-0", "train-worker-1"), "n1")
    assert {bind["cycle"] for bind in found["binds"]} == {2}
    assert {entry["queue"] for entry in found["pods"].values()} == {"team"}


@pytest.mark.parametrize("plugin", ["ray", "hcclrank", "pytorhc"])
def test_a_volcano_job_with_a_plugin_that_is_not_played_waits_and_others_do_not(plugin: str) -> None:
    train, other = (volcano_job(name, {"worker": 1}) for name in ("train", "other"))
    train["spec"]["plugins"] = {plugin: [], "svc": []}

    found = result(node("n1"), train, other)

    assert placed(found) == {"other-worker-0": "n1"}
    assert [(entry["job"], entry["reason"]) for entry in found["pending"]] == [("default/train", "UnsupportedPlugin")]
    assert [key.partition("-")[0] for key in found["podGroups"]] == ["default/other"]
    assert [event["object"] for event in found["events"] if event["reason"] == "UnsupportedPlugin"] == [
        "Job/default/train"
    ]


def test_volcanos_own_controllers_run_a_job_that_has_its_pod_group() -> None:
    train = volcano_job("train", {"worker": 1}, metadata={"uid": "u"}, plugins={"ray": []})
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    own = group("train-u", phase="Inqueue")
    own["metadata"]["ownerReferences"] = [owner]

    found = result(node("n1"), own, train)

    assert (placed(found), found["pending"]) == ({"train-worker-0": "n1"}, [])


def test_a_job_that_is_over_waits_for_nothing_whatever_its_plugins() -> None:
    train = volcano_job("train", {"worker": 1}, plugins={"ray": []})
    assert result(node("n1"), {**train, "status": {"state": {"phase": "Completed"}}})["pending"] == []


@pytest.mark.parametrize(
    "phase", ["Aborting", "Aborted", "Completing", "Completed", "Terminating", "Terminated", "Failed"]
)
def test_a_volcano_job_that_is_stopped_or_over_makes_no_pods_and_no_pod_group(phase: str) -> None:
    over = {**volcano_job("train", {"worker": 1}), "status": {"state": {"phase": phase}}}
    found = result(node("n1"), over)
    assert (found["pods"], found["podGroups"], found["pending"]) == ({}, {}, [])
    again = {**over, "status": {"state": {"phase": "Restarting"}}}
    assert list(placed(result(node("n1"), again))) == ["train-worker-0"]


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_a_batch_job_that_is_over_makes_no_pods(condition: str) -> None:
    def job(status: str) -> Manifest:
        return {**workload("Job", "etl"), "status": {"conditions": [{"type": condition, "status": status}]}}

    assert names(world(job("True"))) == []
    assert names(world(job("False"))) == ["etl-0"]


def test_a_task_of_a_volcano_job_comes_after_those_that_it_depends_on() -> None:
    job = volcano_job("train", {"ps": 2, "worker": 1}, minAvailable=1)
    job["spec"]["tasks"][1]["dependsOn"] = {"name": ["ps"]}
    assert [(b["cycle"], b["pod"]) for b in result(node("n1"), job)["binds"]] == [
        (2, "default/train-ps-0"),
        (2, "default/train-ps-1"),
        (3, "default/train-worker-0"),
    ]
    assert list(placed(result(node("n1", cpu=1), job))) == ["train-ps-0"]


def test_a_volcano_jobs_pods_say_whose_they_are() -> None:
    found = simulation(
        node("n1"), volcano_job("train", {"worker": 1}, {"annotations": {"volcano.sh/preemptable": "false"}})
    )
    made = found.api_server.pods["default/train-worker-0"]
    assert made.spec.scheduler_name == "volcano"
    assert made.metadata.annotations["volcano.sh/task-spec"] == "worker"
    assert made.metadata.annotations["volcano.sh/preemptable"] == "false"
    assert made.metadata.labels["volcano.sh/job-name"] == "train"
    assert made.metadata.annotations["scheduling.k8s.io/group-name"] in {
        g.metadata.name for g in found.api_server.groups.values()
    }


def test_minimum_resources_of_a_volcano_job_count_its_most_important_pods() -> None:
    manifest = volcano_job("train", {"small": 2, "large": 2}, minAvailable=3)
    manifest["spec"]["tasks"][1]["template"]["spec"]["priority"] = 10
    manifest["spec"]["tasks"][1]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = 5
    (made,) = world(manifest).groups.values()
    assert made.spec.min_resources == {"cpu": "11"}


def test_a_pod_group_that_a_volcano_job_has_already_is_used() -> None:
    reference = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "j",
        "controller": True,
    }
    own = group("train-j", phase="Inqueue")
    own["metadata"]["ownerReferences"] = [reference]
    found = world(own, volcano_job("train", {"w": 1}, {"uid": "j"}))
    assert list(found.groups) == ["default/train-j"]
    assert names(found) == ["train-w-0"]


# --- steps ----------------------------------------------------------------------------------------------------------


def moved(found: SimulatedApiServer, steps: Sequence[Any]) -> list[str]:
    """Let steps happen; what the mirror is told."""
    found.execute(steps)
    changes, _ = found.move()
    return [
        f"{change.object.__class__.__name__} {change.object.metadata.name}"
        if isinstance(change, Put)
        else f"Gone {change.name}"
        for change in changes
        if isinstance(change, Put | Deleted)
    ]


def test_a_bound_pod_runs_with_the_annotations_of_its_binding_and_one_event() -> None:
    found = world(node("n1"), pod("p"))
    assert moved(found, [bind("p", annotations={"card": "0"})]) == ["Pod p"]
    bound = found.pods["default/p"]
    assert (bound.status.phase, bound.spec.node_name, bound.metadata.annotations["card"]) == ("Running", "n1", "0")
    assert [(c, e.reason, e.message) for c, e in found.history.events] == [
        (1, "Scheduled", "Successfully assigned default/p to n1")
    ]


def test_an_evicted_pod_is_gone_and_its_controller_makes_another() -> None:
    found = world(workload("ReplicaSet", "rs", 1), workload("StatefulSet", "db", 1), pod("bare"))
    before = found.pods["default/db-0"].metadata.uid
    told = moved(found, [evict("rs-0"), evict("db-0"), evict("bare")])
    assert names(found) == ["db-0", "rs-1"]
    assert found.pods["default/db-0"].metadata.uid != before
    assert [line for line in told if line.startswith("Gone")][:2] == ["Gone rs-0", "Gone db-0"]
    assert len(found.groups) == 2  # the bare pod's own group went with it
    assert [(cycle, e.name) for cycle, e in found.history.evictions] == [(1, "rs-0"), (1, "db-0"), (1, "bare")]


def test_a_volcano_jobs_evicted_pod_comes_back_under_its_name() -> None:
    found = simulation(node("n1"), volcano_job("train", {"w": 1})).api_server
    before = found.pods["default/train-w-0"].metadata.uid
    moved(found, [evict("train-w-0")])
    assert found.pods["default/train-w-0"].metadata.uid != before


def test_pods_that_are_being_deleted_are_gone_after_the_first_cycle() -> None:
    leaving = pod("old", in_group="g", on="n1", cpu=8, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    found = result(node("n1", cpu=8), group("g", phase="Running"), leaving, group("h"), pod("new", in_group="h", cpu=8))
    assert found["pipelined"] == [{"cycle": 1, "pod": "default/new", "node": "n1"}]
    assert [(bind["pod"], bind["cycle"]) for bind in found["binds"]] == [("default/new", 2)]


def test_a_younger_pod_of_a_workload_with_an_age_has_one_too() -> None:
    age = "2026-01-01T00:00:00Z"
    found = world(workload("ReplicaSet", "rs", 1, metadata={"creationTimestamp": age}))
    moved(found, [evict("rs-0")])
    assert found.pods["default/rs-1"].metadata.creation_timestamp == "2026-01-01T00:00:01Z"


def test_conditions_and_nominations_are_written_and_gates_lifted() -> None:
    gates = [{"name": "a"}, {"name": "b"}]
    found = world(pod("p", schedulingGates=gates))
    moved(
        found,
        [WritePodCondition("", "default", "p", "Unschedulable", "no room", "n9"), LiftGate("", "default", "p", "a")],
    )
    status = found.pods["default/p"].status
    assert status.nominated_node_name == "n9"
    assert [(c.type, c.status, c.message) for c in status.conditions] == [
        ("PodScheduled", "False", "no room"),
        ("volsched.io/Ungated", "True", ""),
    ]
    assert [gate.name for gate in found.pods["default/p"].spec.scheduling_gates] == ["b"]


def test_an_event_that_says_the_same_again_is_told_once() -> None:
    found = world(pod("p"))
    event = RecordEvent("Pod", "v1", "default", "p", "", "Warning", "FailedScheduling", "no room")
    moved(found, [event, event])
    found.cycle = 2
    moved(found, [event])
    assert [(cycle, e.message) for cycle, e in found.history.events] == [(1, "no room")]


def claim(name: str) -> Manifest:
    spec = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def test_a_binding_binds_the_claims_that_it_carries() -> None:
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {"storageClassName": "fast"},
    }
    driver = {"name": "csi.example", "topologyKeys": ["zone"]}
    csi_node = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "n1"},
        "spec": {"drivers": [driver]},
    }
    fast = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "csi.example",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    found = world(node("n1", labels={"zone": "z1"}), fast, csi_node, volume, claim("a"), claim("b"), pod("p"))
    writes = (VolumeWrite("static", "default/a", "v", "n1"), VolumeWrite("dynamic", "default/b", "", "n1"))
    moved(found, [bind("p", volumes=writes)])
    assert found.claims["default/a"].spec.volume_name == "v"
    reference = found.volumes["v"].spec.claim_ref
    assert reference is not None
    assert reference.name == "a"
    made = found.volumes[found.claims["default/b"].spec.volume_name]
    assert made.spec.node_affinity is not None
    assert made.spec.node_affinity.required is not None
    (term,) = made.spec.node_affinity.required.node_selector_terms
    assert term.match_expressions == (api.LabelSelectorRequirement("zone", "In", ("z1",)),)


def test_steps_about_what_is_gone_do_nothing() -> None:
    found = world(pod("p"))
    assert moved(found, [bind("ghost"), evict("ghost"), WritePodCondition("", "default", "ghost", "", "")]) == []
    assert found.history.binds == []


# --- age ------------------------------------------------------------------------------------------------------------


def test_without_ages_the_order_of_the_input_counts_whatever_makes_the_pod_groups() -> None:
    late = [group("z"), pod("z-0", in_group="z", cpu=1)]
    orders = [
        [pod("plain"), *late, workload("ReplicaSet", "rs", 1)],
        [workload("ReplicaSet", "rs", 1), *late, pod("plain")],
    ]
    firsts = [placed(result(node("n1", cpu=1), *order)) for order in orders]
    assert firsts == [{"plain": "n1"}, {"rs-0": "n1"}]


def test_what_has_no_age_is_older_than_what_has_one() -> None:
    aged = pod("aged", metadata={"creationTimestamp": "1999-01-01T00:00:00Z"})
    assert placed(result(node("n1", cpu=1), aged, pod("ageless"))) == {"ageless": "n1"}


def test_pods_without_a_phase_run_when_they_have_a_node() -> None:
    found = world(pod("a", on="n1"), pod("b"))
    assert [found.pods[f"default/{name}"].status.phase for name in "ab"] == ["Running", "Pending"]
    assert pod_spec(cpu=None)["containers"][0]["resources"] == {}
