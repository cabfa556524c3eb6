"""Kubernetes' own gangs on a real control plane: what only volsched has, and what others make of its groups."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from tests.cluster.native.fixtures import DIRECT, start_ours
from tests.cluster.native.stage import API, KEY, NativeStage
from tests.cluster.scheduling import eventually
from tests.docs.pages import DOCS, blocks
from tests.manifests.examples import NATIVE_GANGS, documents, observed, simulated
from volsched.testing.controlplane import ControlPlane, KubectlError

pytest_plugins = ["tests.cluster.native.fixtures"]


def test_the_example_becomes_what_simulate_says(gated_cluster: ControlPlane, tmp_path: Path) -> None:
    found = documents([NATIVE_GANGS])
    [configuration] = [item for item in found if item["kind"] == "ConfigMap"]
    nodes = gated_cluster.create_nodes([item for item in found if item["kind"] == "Node"])
    rest = [item for item in found if item["kind"] not in {"ConfigMap", "Node"}]
    namespace = gated_cluster.create_namespace("research")
    process = start_ours(
        gated_cluster, tmp_path, "volsched", configuration["data"]["volcano-scheduler.conf"], "--leader-elect=false"
    )
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
    gated_cluster: ControlPlane, tmp_path: Path
) -> None:
    stage = NativeStage(gated_cluster, gated_cluster.create_namespace("promised"), "promising")
    stage.racks(a=2, b=2)
    start = partial(start_ours, gated_cluster, tmp_path, stage.scheduler, RESERVING, *DIRECT, "--leader-elect=false")
    process = start()
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
        process = start()
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
