"""What a kubelet refuses that no scheduler looks at, and which nodes Kubernetes keeps pods away from."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.calls import call, text_of
from tests.simulation.clusters import Manifest, meta, node, pending, placed, pod, result, stock, volcano_job, workload
from volsched.model import api

WINDOWS = {"labels": {"kubernetes.io/os": "windows"}}
NO_PREDICATES = 'actions: "allocate, backfill"\ntiers:\n- plugins: [{name: gang}]\n'
STRICT = {"securityContext": {"supplementalGroupsPolicy": "Strict"}}
RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
RESTARTS = {"containers": [{"name": "main", "restartPolicyRules": RULES}]}
TOLERANT = {"tolerations": [{"operator": "Exists"}]}


def that_states(manifest: Manifest, **status: Any) -> Manifest:
    """A node with more in its status."""
    return {**manifest, "status": {**manifest["status"], **status}}


def in_condition(kind: str, status: str = "True", **more: Any) -> Manifest:
    return that_states(
        node("n1", **more), conditions=[{"type": "Ready", "status": "True"}, {"type": kind, "status": status}]
    )


def refused(found: Manifest, name: str = "comes") -> str:
    """The reason with which a kubelet refused a pod; empty when the pod runs."""
    reasons = [e["reason"] for e in found["events"] if (e["object"], e["type"]) == (f"Pod/default/{name}", "Warning")]
    phase = found["pods"][f"default/{name}"]["phase"]
    assert phase == ("Failed" if reasons else "Running")
    return next(iter(reasons), "")


# --- operating systems ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "system"),
    [
        (node("n1", labels={"kubernetes.io/os": "linux"}), "linux"),
        (node("n1", labels={"kubernetes.io/os": "windows"}), "windows"),
        (node("n1", labels={"beta.kubernetes.io/os": "windows"}), "windows"),
        (that_states(node("n1"), nodeInfo={"operatingSystem": "windows"}), "windows"),
        (
            that_states(node("n1", labels={"kubernetes.io/os": "linux"}), nodeInfo={"operatingSystem": "windows"}),
            "windows",
        ),
        (node("n1"), "linux"),
    ],
    ids=["label", "windows label", "old label", "info", "info before label", "nothing stated"],
)
@pytest.mark.parametrize("wanted", ["linux", "windows"])
def test_a_pod_of_another_operating_system_is_refused(given: Manifest, system: str, wanted: str) -> None:
    found = result(given, pod("comes", os={"name": wanted}))

    assert refused(found) == ("" if wanted == system else "PodOSNotSupported")
    assert placed(found) == {"comes": "n1"}  # no scheduler looks at it


@pytest.mark.parametrize(("wanted", "reason"), [("linux", ""), ("windows", "PodOSSelectorNodeLabelDoesNotMatch")])
def test_a_pod_with_the_label_of_another_one_is_refused(wanted: str, reason: str) -> None:
    found = result(node("n1"), pod("comes", metadata={"labels": {"kubernetes.io/os": wanted}}))

    assert refused(found) == reason


def test_a_pod_that_states_no_operating_system_runs_on_any() -> None:
    assert refused(result(node("n1", **WINDOWS), pod("comes"))) == ""


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"])
@pytest.mark.parametrize("scheduler", ["volsched", "default-scheduler"])
def test_that_of_every_workload_is_refused_and_said(kind: str, scheduler: str) -> None:
    given = workload(
        kind, "w", None if kind in ("DaemonSet", "Job") else 1, os={"name": "windows"}, scheduler=scheduler
    )

    found = result(node("n1"), given, scheduler_names=(scheduler,))

    assert "Running" not in {shown["phase"] for shown in found["pods"].values()}
    assert found["queues"]["default"]["allocated"] == {}
    assert f"{kind}/default/w (PodOSNotSupported" in found["notes"][0]


def test_that_of_a_volcano_job_is_refused_and_said() -> None:
    job = volcano_job("j", {"w": 2})
    job["spec"]["tasks"][0]["template"]["spec"]["os"] = {"name": "windows"}

    found = result(node("n1"), job)

    assert found["notes"] == [
        "kubelets refused pods that were bound to their nodes, and these have failed: "
        "Job/default/j (PodOSNotSupported, 2 times)"
    ]


def test_what_kubelets_refused_is_in_the_first_line_of_the_table() -> None:
    answer = call("simulate", "-f", "-", given=text_of(node("n1"), pod("comes", os={"name": "windows"})))

    assert answer.stdout.startswith("1 pod placed, 1 refused by kubelets, 0 waiting after")
    assert "note: kubelets refused pods that were bound to their nodes, and these have failed: Pod/default/comes" in (
        answer.stderr
    )


def test_its_status_is_the_kubelets() -> None:
    found = result(
        node("n1"),
        pod("comes", "g", os={"name": "windows"}),
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": meta("g"),
            "spec": {"minMember": 1},
        },
    )

    told = [event["message"] for event in found["events"] if event["reason"] == "RejectedByNode"]
    assert told[0].endswith(
        "PodOSNotSupported: Pod was rejected: Failed to admit pod as the OS field doesn't match node OS"
    )


def test_explain_has_the_reason_of_the_kubelet() -> None:
    world = text_of(node("n1"), pod("comes", os={"name": "windows"}), pod("done", on="n1", status={"phase": "Failed"}))

    assert call("explain", "pod", "comes", "-f", "-", given=world).stdout == (
        'pod default/comes has failed on node "n1": PodOSNotSupported: Pod was rejected: '
        "Failed to admit pod as the OS field doesn't match node OS\n"
    )
    assert call("explain", "pod", "done", "-f", "-", given=world).stdout == "pod default/done is over.\n"


# --- what else a node cannot do --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "asked", "reason"),
    [
        (node("n1"), STRICT, "SupplementalGroupsPolicyNotSupported"),
        (that_states(node("n1"), features={"supplementalGroupsPolicy": True}), STRICT, ""),
        (node("n1"), {"securityContext": {"supplementalGroupsPolicy": "Merge"}}, ""),
        (node("n1", **WINDOWS), {"resources": {"requests": {"cpu": "1"}}}, "PodLevelResourcesNotSupported"),
        (node("n1"), {"resources": {"requests": {"cpu": "1"}}}, ""),
        (node("n1"), RESTARTS, "PodFeatureUnsupported"),
        (that_states(node("n1"), declaredFeatures=["RestartAllContainersOnContainerExits"]), RESTARTS, ""),
    ],
)
def test_a_kubelet_refuses_what_its_node_cannot_do(given: Manifest, asked: Manifest, reason: str) -> None:
    assert refused(result(given, pod("comes", **asked), config=NO_PREDICATES)) == reason


def test_kernel_parameters_that_kubelets_may_refuse_are_said() -> None:
    def sets(*names: str) -> Manifest:
        return {"securityContext": {"sysctls": [{"name": name, "value": "1"} for name in names]}}

    found = result(node("n1"), pod("safe", **sets("net.ipv4.tcp_syncookies", "net/ipv4/tcp_rmem")),
                   workload("ReplicaSet", "rs", 2, **sets("net.ipv4.tcp_wmem", "kernel.msgmax")))  # fmt: skip

    assert found["notes"] == [
        "kernel parameters, for which kubelets refuse pods unless --allowed-unsafe-sysctls of theirs says otherwise, "
        "are not looked at here: ReplicaSet/default/rs (kernel.msgmax)"
    ]


# --- conditions of nodes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status", "taint"),
    [
        ("Ready", "False", "not-ready"),
        ("Ready", "Unknown", "unreachable"),
        ("MemoryPressure", "True", "memory-pressure"),
        ("DiskPressure", "True", "disk-pressure"),
        ("PIDPressure", "True", "pid-pressure"),
        ("NetworkUnavailable", "True", "network-unavailable"),
    ],
)
def test_a_node_has_the_taint_of_its_condition(kind: str, status: str, taint: str) -> None:
    bad = that_states(node("n1"), conditions=[{"type": kind, "status": status}])

    assert (
        f"untolerated taint {{node.kubernetes.io/{taint}: }}" in pending(result(bad, pod("comes")))["comes"]["message"]
    )
    assert placed(result(bad, node("n2"), pod("comes"))) == {"comes": "n2"}


@pytest.mark.parametrize(
    ("kind", "status"), [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "Unknown"), ("Other", "True")]
)
def test_a_node_in_order_has_no_such_taint(kind: str, status: str) -> None:
    good = that_states(node("n1"), conditions=[{"type": kind, "status": status}])

    assert placed(result(good, pod("comes"))) == {"comes": "n1"}


def test_a_taint_that_is_there_is_not_added_again() -> None:
    taint = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule", "value": "mine"}

    [found] = stock(in_condition("DiskPressure", taints=[taint])).of(api.Node)

    assert [(known.key, known.value) for known in found.spec.taints] == [(taint["key"], "mine")]


@pytest.mark.parametrize(
    ("kind", "asked", "reason"),
    [
        ("DiskPressure", {}, "Evicted"),
        ("DiskPressure", {"cpu": 0}, "Evicted"),
        ("PIDPressure", {}, "Evicted"),
        ("MemoryPressure", {}, ""),
        ("MemoryPressure", {"cpu": 0}, ""),  # it tolerates everything
        ("DiskPressure", {"priorityClassName": "system-node-critical"}, ""),
        ("DiskPressure", {"priority": 2_000_000_000}, ""),
        ("NetworkUnavailable", {}, ""),
    ],
)
def test_a_kubelet_under_pressure_refuses_pods_that_tolerate_it(kind: str, asked: Manifest, reason: str) -> None:
    found = result(in_condition(kind), pod("comes", **{**TOLERANT, **asked}))

    assert refused(found) == reason


@pytest.mark.parametrize(("asked", "reason"), [({"cpu": 0}, "Evicted"), ({"cpu": 1}, "")])
def test_a_kubelet_short_of_memory_refuses_pods_that_ask_for_nothing(asked: Manifest, reason: str) -> None:
    assert refused(result(in_condition("MemoryPressure"), pod("comes", **asked), config=NO_PREDICATES)) == reason


def test_pods_of_a_daemon_set_with_the_network_of_the_node_come_before_that_is_there() -> None:
    daemons = [workload("DaemonSet", name, hostNetwork=own, scheduler="x") for name, own in (("a", True), ("b", False))]

    found = result(in_condition("NetworkUnavailable"), *daemons)

    assert {name: shown["node"] for name, shown in found["pods"].items()} == {"default/a-n1": "n1"}


def test_a_daemon_sets_pod_does_not_start_where_its_port_is_taken() -> None:
    ports = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    daemons = [workload("DaemonSet", name, containers=ports, scheduler="x") for name in ("a", "b")]

    found = result(node("n1"), node("n2"), pod("runs", on="n1", containers=ports), *daemons)

    assert {name: shown["node"] for name, shown in found["pods"].items()} == {
        "default/runs": "n1", "default/a-n1": None, "default/a-n2": "n2", "default/b-n1": None, "default/b-n2": None
    }  # fmt: skip
    assert not any("kubelets refused" in note for note in found["notes"])


# --- what a cluster would not have at all ----------------------------------------------------------------------------


def test_the_priority_classes_of_kubernetes_are_there() -> None:
    preempts = 'actions: "allocate, preempt"\ntiers:\n- plugins: [{name: priority}]\n- plugins: [{name: predicates}]\n'
    world = [node("n1", cpu=1), pod("low", on="n1"), pod("high", priorityClassName="system-cluster-critical")]

    assert [gone["pod"] for gone in result(*world, config=preempts)["evictions"]] == ["default/low"]


def test_priority_classes_that_are_missing_are_said() -> None:
    deployment = workload("Deployment", "d", 2, priorityClassName="nosuch")

    found = result(node("n1"), deployment, pod("dumped", on="n1", priorityClassName="other", priority=5))

    assert found["notes"] == [
        "PriorityClasses that are not in the input, without which a cluster makes no pod: nosuch (Deployment/default/d)"
    ]


def test_pods_on_nodes_that_are_missing_are_said() -> None:
    found = result(node("n1"), pod("a", on="gone"), pod("b", on="n1"), pod("c", on="gone", status={"phase": "Failed"}))

    assert found["notes"] == ["on nodes that are not in the input, and counted for their queues alone: default/a"]


def test_objects_that_the_api_server_would_refuse_are_said() -> None:
    over = [{"name": "c", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]
    apart = workload("ReplicaSet", "apart", 1, spec={"selector": {"matchLabels": {"app": "other"}}})
    together = workload("ReplicaSet", "together", 1, spec={"selector": {"matchLabels": {"app": "together"}}})

    found = result(node("n1"), pod("a", containers=over), pod("b", on="n1", containers=over), apart, together,
                   workload("Deployment", "d", 1, containers=over))  # fmt: skip

    assert found["notes"] == [
        "the API server would refuse these, and `volsched validate` says why: "
        "Pod/default/a, ReplicaSet/default/apart, Deployment/default/d"
    ]


@pytest.mark.parametrize(
    ("selector", "field", "message"),
    [
        ({"matchLabels": {"app": "x"}}, "spec.selector", "does not select the labels of spec.template.metadata"),
        ({"matchExpressions": [{"key": "app", "operator": "Is"}]}, "spec.selector", "Is"),
    ],
)
def test_a_selector_that_does_not_select_is_an_error_of_validate(selector: Manifest, field: str, message: str) -> None:
    answer = call("validate", "-f", "-", given=text_of(workload("DaemonSet", "d", spec={"selector": selector})))

    assert answer.exit_code == 1
    assert f"error: DaemonSet/default/d: {field}" in answer.stdout
    assert message in answer.stdout


def test_a_runtime_class_that_new_pods_name_is_said_not_to_be_heeded() -> None:
    new, old = pod("new", runtimeClassName="gvisor"), pod("old", on="n1", runtimeClassName="gvisor")

    assert result(node("n1"), new)["notes"] == [
        "RuntimeClass: not heeded here; the API server may refuse pods, or have them ask for more"
    ]
    assert "notes" not in result(node("n1"), old)


@pytest.mark.parametrize("state", [{"status": {"phase": "Terminating"}}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])
def test_that_no_pods_come_into_a_namespace_that_is_being_deleted_is_said(state: Manifest) -> None:
    going = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta("going"), "status": state.get("status", {})}
    going["metadata"] |= {name: value for name, value in state.items() if name != "status"}
    world = [node("n1"), going, pod("old", on="n1", namespace="going")]

    found = result(*world, workload("Deployment", "d", 2, metadata={"namespace": "going"}), pod("other"))

    said = "in namespaces that are being deleted a cluster makes no pods, as here for Deployment/going/d"
    assert found["notes"] == [said]
    assert "notes" not in result(*world)


@pytest.mark.parametrize(
    ("modes", "attaches", "nodes"),
    [
        (["ReadWriteOnce"], True, 2),
        (["ReadWriteOnce"], None, 2),
        (["ReadWriteOnce"], False, 0),
        (["ReadWriteOnce"], True, 1),
        (["ReadWriteOnce", "ReadWriteMany"], True, 0),
    ],
)
def test_a_volume_that_nodes_cannot_share_is_said(modes: list[str], attaches: bool | None, nodes: int) -> None:
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta("pv"),
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": modes, "csi": {"driver": "x", "volumeHandle": "h"}},
    }  # fmt: skip
    asked = {
        "accessModes": modes,
        "volumeName": "pv",
        "storageClassName": "",
        "resources": {"requests": {"storage": "1"}},
    }
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta("c"), "spec": asked}
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": meta("x")}
    drivers = [] if attaches is None else [{**driver, "spec": {"attachRequired": attaches}}]
    uses = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    world = [node("n1"), node("n2"), volume, claim, *drivers, pod("a", on="n1", volumes=uses)]

    found = result(
        *world, pod("b", volumes=uses, nodeSelector={"kubernetes.io/hostname": "n2" if nodes != 1 else "n1"})
    )

    said = "volumes that one node at a time attaches are used on more, where pods would not start: pv (n1, n2)"
    assert found.get("notes", []) == ([said] if nodes == 2 else [])
    assert placed(found) == {"b": "n1" if nodes == 1 else "n2"}


def test_a_job_that_is_paused_has_no_pods_that_follow_others() -> None:
    assert "notes" not in result(node("n1"), workload("Job", "j", spec={"parallelism": 0, "completions": 3}))


@pytest.mark.parametrize(
    ("kind", "policy", "is_wrong"),
    [
        ("Job", "Always", True),
        ("Job", "Never", False),
        ("Job", "OnFailure", False),
        ("Deployment", "Never", True),
        ("DaemonSet", "OnFailure", True),
        ("StatefulSet", "Always", False),
    ],
)
def test_a_restart_policy_that_a_workload_may_not_have_is_an_error_of_validate(
    kind: str, policy: str, is_wrong: bool
) -> None:
    answer = call("validate", "-f", "-", given=text_of(workload(kind, "w", restartPolicy=policy)))

    assert answer.exit_code == is_wrong
    assert (
        f"error: {kind}/default/w: spec.template.spec.restartPolicy: '{policy}' is not one of" in answer.stdout
    ) == (is_wrong)


@pytest.mark.parametrize(("policy", "said"), [("OrderedReady", True), ("", True), ("Parallel", False)])
def test_pods_of_a_stateful_set_that_come_before_their_turn_are_said(policy: str, said: bool) -> None:
    given = workload("StatefulSet", "db", 3, cpu=4, spec={"podManagementPolicy": policy} if policy else {})

    assert (
        "a cluster makes no pod of a StatefulSet before the last one runs; here there are: StatefulSet/default/db"
        in result(node("n1", cpu=4), given).get("notes", [])
    ) == said
    assert "notes" not in result(node("n1", cpu=8), {**given, "spec": {**given["spec"], "replicas": 3}}, node("n2"))


@pytest.mark.parametrize(
    ("spec", "pods"),
    [({}, 7), ({"backoffLimit": 0}, 1), ({"backoffLimit": 2}, 3), ({"backoffLimitPerIndex": 1}, 9)],
)
def test_a_job_starts_no_more_pods_than_its_backoff_limit_allows(spec: Manifest, pods: int) -> None:
    found = result(node("n1"), workload("Job", "j", spec=spec, os={"name": "windows"}), cycles=9)

    assert [shown["phase"] for shown in found["pods"].values()].count("Failed") == pods
    assert found["settled"] == (pods < 9)
