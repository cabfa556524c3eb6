"""Kubernetes' own gangs on a real control plane: what only volsched has, and what others make of its groups."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.admitting import Admitting
from tests.cluster.forks import ForkServer
from tests.cluster.native.ours import DIRECT, QUOTAS, start_ours
from tests.cluster.native.stage import API, KEY, NativeStage
from tests.cluster.scheduling import eventually
from tests.docs.pages import DOCS, blocks
from tests.manifests.examples import NATIVE_GANGS, documents, observed, simulated
from tools.controlplane import START_AFTER, ApiServerError, ControlPlane, KubectlError

pytest_plugins = [
    "tests.cluster.native.fixtures",
    "tests.cluster.scheduling_fixtures",
    "tests.cluster.controlling_fixtures",
    "tests.cluster.admitting_fixtures",
]


def test_the_example_becomes_what_simulate_says(
    gated_cluster: ControlPlane, tmp_path: Path, forks: ForkServer | None
) -> None:
    found = documents([NATIVE_GANGS])
    [configuration] = [item for item in found if item["kind"] == "ConfigMap"]
    nodes = gated_cluster.create_nodes([item for item in found if item["kind"] == "Node"])
    rest = [item for item in found if item["kind"] not in {"ConfigMap", "Node"}]
    namespace = gated_cluster.create_namespace("research")
    text = configuration["data"]["volcano-scheduler.conf"]
    process = start_ours(gated_cluster, tmp_path, "volsched", text, "--leader-elect=false", forks=forks)
    try:
        gated_cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": rest}))
        expected = simulated([NATIVE_GANGS])
        eventually(lambda: observed(gated_cluster, [NATIVE_GANGS]) == expected, what=f"{expected}")
    finally:
        process.close()
        gated_cluster.kubectl("delete", "--ignore-not-found", "namespace", namespace)
        gated_cluster.delete_nodes(nodes)


RESERVING = """
actions: "reserve, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: predicates
configurations:
- name: reserve
  arguments:
    reserve.after: 0s
    reserve.minNodes: 1
"""


def test_a_gang_is_promised_nodes_that_the_next_scheduler_holds_until_it_starts(
    gated_cluster: ControlPlane, tmp_path: Path, forks: ForkServer | None
) -> None:
    stage = NativeStage(gated_cluster, gated_cluster.create_namespace("promised"), "promising")
    stage.racks(a=2, b=2)
    start = partial(start_ours, gated_cluster, tmp_path, stage.scheduler, RESERVING, *DIRECT, "--leader-elect=false")
    process = start(forks=forks)
    try:
        for node in ("a-0", "a-1", "b-0"):
            stage.pod(f"old-{node}", node=node)
        stage.expect(old_a=2, old_b=1)
        stage.gang("g", 2, key=KEY)
        stage.pods("g", 2, group="g", cpu="2")
        stage.expect_condition("g", "True", "Reserved", "promised at", kind="Reserved")
        promised = stage.condition("g", "Reserved")
        assert promised is not None
        assert promised[-1].endswith(f"on nodes {stage.nodes['b-0']}, {stage.nodes['b-1']}")
        process.kill()
        process = start(forks=forks and forks.other)
        stage.pods("small", 3)
        stage.expect(small=2, g=0)
        assert stage.on_racks("small") == {"a"}
        assert stage.condition("g", "Reserved") == promised
        stage.delete("old-b-0")
        stage.expect(g=2)
        stage.expect_condition("g", "False", "NotReserved", kind="Reserved")
        stage.expect_condition("g", "True", "Scheduled")
    finally:
        process.close()
        stage.clear()


@pytest.fixture
def ours(gated_cluster: ControlPlane, tmp_path: Path, forks: ForkServer | None) -> Iterator[Ours]:
    """volsched for the pods of a stage of its own."""
    name = f"native-{uuid.uuid4().hex[:8]}"
    made = Ours(gated_cluster, NativeStage(gated_cluster, gated_cluster.create_namespace(name), name), tmp_path, forks)
    yield made
    made.stop()
    made.stage.clear()


class Ours:
    """volsched, with quotas, and the stage on which it plays."""

    def __init__(self, cluster: ControlPlane, stage: NativeStage, folder: Path, forks: ForkServer | None) -> None:
        self.stage = stage
        self._start = partial(start_ours, cluster, folder, stage.scheduler, QUOTAS, *DIRECT, "--leader-elect=false")
        self._forks = forks
        self._process = self._start(forks=forks)

    def restart(self) -> None:
        """Kill it, and start another one."""
        self._process.kill()
        self._process = self._start(forks=self._forks and self._forks.other)

    def stop(self) -> None:
        self._process.close()


def test_a_gang_that_waited_starts_after_a_restart(ours: Ours) -> None:
    stage = ours.stage
    stage.node("n", 3)
    stage.pod("filler-0", cpu="2")
    stage.expect(filler=1)
    stage.gang("a", 2)
    stage.pods("a", 2, group="a")
    stage.expect_condition("a", "False", "Unschedulable")
    ours.restart()
    stage.delete("filler-0")
    stage.expect(a=2)
    stage.expect_condition("a", "True", "Scheduled")
    before = stage.group("a")
    ours.restart()
    stage.pods("a", 2, group="a", start=2)
    stage.expect(a=3)
    assert before is not None
    assert stage.group("a") == before


def test_groups_of_both_kinds_may_have_one_name(ours: Ours) -> None:
    """A pod that names both is in Kubernetes' own."""
    stage = ours.stage
    stage.node("n", 4)
    stage.volcano_group("a", 2)
    of_volcano = {"scheduling.k8s.io/group-name": "a"}
    stage.gang("a", 2)
    stage.pods("a", 2, group="a", annotations=of_volcano)
    stage.expect(a=2)
    stage.pods("volcano", 1, annotations=of_volcano)
    stage.expect(a=2, volcano=0)
    stage.pods("volcano", 1, annotations=of_volcano, start=1)
    stage.expect(a=2, volcano=2)
    stage.expect_condition("a", "True", "Scheduled")


def test_a_group_that_is_replaced_keeps_the_members_that_run(ours: Ours) -> None:
    stage = ours.stage
    stage.node("n", 4)
    stage.gang("a", 2)
    stage.pods("a", 2, group="a")
    stage.expect(a=2)
    stage.remove_group("a")
    stage.gang("a", 3)
    stage.pods("a", 1, group="a", start=2)
    stage.expect(a=3)
    stage.expect_condition("a", "True", "Scheduled")


def test_a_queue_that_is_full_speaks_on_the_group(ours: Ours) -> None:
    stage = ours.stage
    stage.node("n", 8)
    stage.queue(cpu=2)
    in_queue = {"scheduling.volcano.sh/queue-name": stage.namespace}
    stage.gang("a", 3)
    stage.pods("a", 3, group="a", annotations=in_queue)
    stage.expect_condition("a", "False", "Unschedulable", "queue resource quota insufficient")
    assert f'queue "{stage.namespace}": cpu: requested 3, used 0, limit 2' in stage.condition_message("a")
    stage.expect(a=0)
    stage.queue(cpu=3)
    stage.expect(a=3)
    stage.expect_condition("a", "True", "Scheduled")


def test_more_members_share_a_claim_than_it_may_have_consumers(ours: Ours) -> None:
    """A claim has at most 256. That the members run matters not: none of them starts."""
    stage = ours.stage
    for number in range(3):
        stage.node(f"n{number}", 8)
    stage.claim("shared", stage.device())
    entry = [{"name": "cards", "resourceClaimName": "shared"}]
    stage.gang("a", 260, resourceClaims=entry)
    stage.pods("a", 260, group="a", cpu="10m", resourceClaims=entry, annotations={START_AFTER: "1000h"})
    stage.expect(a=260)
    stage.expect_reserved("shared", ("podgroups", "a"))


WORKER = {"name": "worker", "schedulingPolicy": {"gang": {"minCount": 2}}}


def test_the_api_server_takes_no_group_without_its_template(gated_cluster: ControlPlane) -> None:
    """What volsched relies on: ``test/integration/scheduler/podgroup/admission/admission_test.go``."""
    api = gated_cluster.api
    namespace = gated_cluster.create_namespace(f"native-{uuid.uuid4().hex[:8]}")
    groups, workloads = (f"/apis/{API}/namespaces/{namespace}/{kinds}" for kinds in ("podgroups", "workloads"))

    def answer(workload: str, template: str) -> int:
        reference = {"workload": {"workloadName": workload, "podGroupTemplateName": template}}
        spec = {"podGroupTemplateRef": reference} if workload else {}
        policy = {"schedulingPolicy": WORKER["schedulingPolicy"]}
        body = {"apiVersion": API, "kind": "PodGroup", "metadata": {"generateName": "g-"}, "spec": {**policy, **spec}}
        try:
            api.create(groups, body)
        except ApiServerError as error:
            return error.status
        return 201

    kept = {"metadata": {"name": "w", "finalizers": ["example.com/kept"]}, "spec": {"podGroupTemplates": [WORKER]}}
    api.create(workloads, {"apiVersion": API, "kind": "Workload", **kept})
    eventually(lambda: answer("w", "worker") == 201, what="admission knows the Workload")
    assert answer("", "") == 201
    assert answer("other", "worker") == 403
    assert answer("w", "other") == 403
    api.delete(f"{workloads}/w")
    eventually(lambda: answer("w", "worker") == 403, what="admission knows that the Workload is leaving")
    api.patch(f"{workloads}/w", {"metadata": {"finalizers": None}})
    api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def manifests_applied(gated_cluster: ControlPlane) -> ControlPlane:
    """The control plane on which controllers answer reviews."""
    return gated_cluster


@pytest.mark.parametrize("kind", ["PodGroup", "Workload"])
def test_the_queue_that_a_group_names_is_judged_as_it_is_made(asked: Admitting, kind: str) -> None:
    """What names no queue may be another scheduler's, and is not asked about."""
    spec = {"schedulingPolicy": {"basic": {}}} if kind == "PodGroup" else {"podGroupTemplates": [WORKER]}
    metadata = {"name": "g", "namespace": "default", "annotations": {"scheduling.volcano.sh/queue-name": "root"}}
    body = {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}

    refused, others = asked.apply(body), asked.apply({**body, "metadata": {**metadata, "annotations": {}}})

    assert refused.is_refusal
    words = "metadata.annotations[scheduling.volcano.sh/queue-name]: the root takes no work; use a queue below it"
    assert f"{kind}/default/g: {words} [Forbidden]" in refused.text
    assert not others.is_refusal


def test_an_indexed_job_runs_as_a_gang(ours: Ours) -> None:
    """The Job controller makes its group; the third pod has room when the filler goes."""
    stage = ours.stage
    stage.node("n", 3)
    stage.pod("filler-0")
    stage.expect(filler=1)
    stage.job("train", 3)
    stage.expect_condition(stage.group_of_job("train"), "False", "Unschedulable")
    assert stage.bound() == {"filler-0"}
    stage.delete("filler-0")
    stage.expect_job_complete("train")


def test_a_class_of_a_group_is_for_those_who_have_the_verb_use_on_it(gated_cluster: ControlPlane) -> None:
    """The policy of the page."""
    [policy] = [
        block.text for block in blocks(DOCS / "native-gangs.md") if block.word("file") == "podgroup-priorities.yaml"
    ]
    namespace = gated_cluster.create_namespace("priorities")
    rights = ("clusterrole/use-low", "clusterrolebinding/use-low")
    flags = ("--user=alice", "--user=bob", "-n", namespace)
    gated_cluster.kubectl(
        "create", "role", "grouper", "--verb=create", "--resource=podgroups.scheduling.k8s.io", "-n", namespace
    )
    gated_cluster.kubectl("create", "rolebinding", "grouper", "--role=grouper", *flags)
    rules = [
        {
            "apiGroups": ["scheduling.k8s.io"],
            "resources": ["priorityclasses"],
            "resourceNames": ["low"],
            "verbs": ["use"],
        }
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "use-low"},
        "rules": rules,
    }
    gated_cluster.kubectl("create", "-f", "-", stdin=json.dumps(role))
    gated_cluster.kubectl("create", "clusterrolebinding", "use-low", "--clusterrole=use-low", "--user=alice")
    try:
        gated_cluster.kubectl("apply", "-f", "-", stdin=policy)
        eventually(lambda: _refusal_of_class(gated_cluster, namespace, "bob", "low"))
        assert _refusal_of_class(gated_cluster, namespace, "alice", "low") == ""
        assert 'user "alice" may not name PriorityClass "highest"' in _refusal_of_class(
            gated_cluster, namespace, "alice", "highest"
        )
        assert _refusal_of_class(gated_cluster, namespace, "bob", "") == ""
    finally:
        gated_cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=policy)
        gated_cluster.kubectl("delete", *rights)
        gated_cluster.kubectl("delete", "namespace", namespace)


def _refusal_of_class(gated_cluster: ControlPlane, namespace: str, user: str, name: str) -> str:
    """Return why a user may not make a group of a class; empty when that is allowed."""
    spec = {"schedulingPolicy": {"basic": {}}, **({"priorityClassName": name} if name else {})}
    group = {"apiVersion": API, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    try:
        gated_cluster.kubectl(
            "create", "--dry-run=server", "-n", namespace, f"--as={user}", "-f", "-", stdin=json.dumps(group)
        )
    except KubectlError as refused:
        return str(refused)
    return ""
