"""Kubernetes' own gangs on a real control plane with all gates on, by kube-scheduler and by volsched in its place.

The cases are those of kube-scheduler's own integration tests: G groups, P preemption, T topology.
kube-scheduler is tried, too, so that a case that asks too much is found out.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.conftest import running_control_plane
from tests.cluster.native_stage import API, API_FLAGS, GATES, NativeStage, make_classes
from tests.cluster.scheduling import ACCOUNT, QUICK_LEASE, SYSTEM, SchedulerProcess, eventually
from tests.cluster.scheduling_fixtures import apply_manifests
from tests.docs.pages import DOCS, blocks
from tests.manifests.examples import NATIVE_GANGS, documents, observed, simulated
from volsched.framework.config.loading import IN_KUBE_SCHEDULERS_PLACE
from volsched.testing.controlplane import ControlPlane, KubectlError

KUBE, OURS = "kube-scheduler", "volsched"
NOT_FEASIBLE = "0/1 placements are available, first placement status: pod group is unschedulable"
KEY = "rack"
IN_PLACE = ("--plain-pods", "direct", "--leader-elect-resource-name", "volsched")


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("native")
    with running_control_plane(request, folder, feature_gates=GATES, api_flags=API_FLAGS) as found:
        apply_manifests(found)
        make_classes(found)
        yield found


@pytest.fixture(scope="module", params=[KUBE, OURS])
def scheduler(
    request: pytest.FixtureRequest, cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """One of both, for all pods of the cluster."""
    if request.param == KUBE:
        cluster.start_kube_scheduler()
        yield KUBE
        cluster.stop_kube_scheduler()
        return
    folder = tmp_path_factory.mktemp("ours")
    process = start_ours(cluster, folder, "default-scheduler", IN_KUBE_SCHEDULERS_PLACE, *IN_PLACE)
    yield OURS
    process.close()


def start_ours(cluster: ControlPlane, folder: Path, name: str, text: str, *flags: str) -> SchedulerProcess:
    """Start volsched for pods of a scheduler name, with the text of a configuration."""
    folder.mkdir(exist_ok=True)
    configuration = folder / "volsched.conf"
    configuration.write_text(text)
    flags = ("--scheduler-name", name, "--scheduler-conf", str(configuration), *flags)
    kubeconfig = cluster.kubeconfig_for(ACCOUNT, SYSTEM)
    process = SchedulerProcess(kubeconfig, folder / "log", *flags, *QUICK_LEASE)
    process.wait_for("everything is listed")
    return process


@pytest.fixture
def stage(cluster: ControlPlane, scheduler: str) -> Iterator[NativeStage]:
    found = NativeStage(cluster, cluster.create_namespace(f"native-{uuid.uuid4().hex[:8]}"))
    yield found
    found.clear()


Case = Callable[[NativeStage], None]


# --- groups ---------------------------------------------------------------------------------------------------------


def g1(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.pods("a", 3, group="a")
    stage.expect(a=3)
    stage.expect_condition("a", "True", "Scheduled")


def g2(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.pods("a", 2, group="a")
    stage.expect_held_back("a")
    assert stage.condition("a") is None
    stage.pods("a", 1, group="a", start=2)
    stage.expect(a=3)


def g3(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pod("filler-0", cpu="2")
    stage.expect(filler=1)
    stage.pods("a", 3, group="a")
    stage.expect_held_back("a")
    stage.gang("a", 3)
    stage.expect_waiting({"a-0", "a-1", "a-2"})
    stage.expect_condition("a", "False", "Unschedulable", NOT_FEASIBLE)
    stage.delete("filler-0")
    stage.expect(a=3)
    stage.expect_condition("a", "True", "Scheduled")


def g4(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pod("filler-0")
    stage.expect(filler=1)
    stage.pods("a", 4, group="a")
    stage.gang("a", 3)
    stage.expect(a=3)
    stage.delete("filler-0")
    stage.expect(a=4)


def g5(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.gang("b", 3)
    for number in range(3):
        stage.pod(f"a-{number}", group="a")
        stage.pod(f"b-{number}", group="b")
    stage.expect(a=3, b=0)
    stage.expect_waiting({"b-0", "b-1", "b-2"})


def g8(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.basic("a")
    stage.pods("a", 1, group="a")
    stage.expect(a=1)
    stage.pods("a", 2, group="a", start=1)
    stage.expect(a=3)


def g9(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pod("filler-0", cpu="2")
    stage.expect(filler=1)
    stage.pods("a", 3, group="a")
    stage.expect_held_back("a")
    stage.basic("a")
    stage.expect(a=2)
    stage.delete("filler-0")
    stage.expect(a=3)


def g12(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pods("low", 4, priority="low")
    stage.expect(low=4)
    stage.gang("a", 3, priorityClassName="high")
    stage.pods("a", 4, group="a", priority="high")
    stage.expect(a=4, low=0)


def g13(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pods("least", 2, priority="very-low")
    stage.pods("low", 2, priority="low")
    stage.expect(least=2, low=2)
    stage.gang("a", 2, priorityClassName="middle")
    stage.pods("a", 2, group="a", priority="middle")
    stage.expect(a=2, least=0, low=2)


def g14(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pods("low", 4, priority="low")
    stage.expect(low=4)
    stage.gang("a", 3, priorityClassName="high", disruptionMode="PodGroup")
    stage.pods("a", 4, group="a", priority="high")
    stage.expect(a=4, low=0)
    said = [each["message"] for number in range(4) for each in stage.events(f"low-{number}", "Preempted")]
    assert said
    assert all(text.startswith("Preempted by podgroup ") for text in said), said


# --- preemption -----------------------------------------------------------------------------------------------------


def p1(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.pods("low", 3, priority="low")
    stage.expect(low=3)
    stage.gang("a", 3, priorityClassName="high")
    stage.pods("a", 3, group="a", priority="high")
    stage.expect(a=3, low=0)


def p2(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.pods("low", 3, priority="low")
    stage.expect(low=3)
    stage.basic("a", priorityClassName="high")
    stage.pods("a", 3, group="a", priority="high")
    stage.expect(a=3, low=0)


def p3(stage: NativeStage) -> None:
    stage.node("n", 2)
    stage.node("m", 2)
    stage.pod("wide-0", cpu="2", node="n", priority="low")
    stage.pod("small-0", node="m", priority="low")
    stage.expect(wide=1, small=1)
    stage.gang("a", 3, priorityClassName="high")
    stage.pods("a", 3, group="a", priority="high")
    stage.expect(a=3, wide=0, small=1)


def p6(stage: NativeStage) -> None:
    stage.node("n", 2)
    stage.node("m", 2)
    stage.pods("low", 4, priority="low")
    stage.expect(low=4)
    stage.gang("a", 4, priorityClassName="high")
    stage.pods("a", 4, group="a", priority="high")
    stage.expect(a=4, low=0)


def p7(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.pod("top-0", priority="highest")
    stage.pods("low", 2, priority="low")
    stage.expect(top=1, low=2)
    stage.gang("a", 3, priorityClassName="high")
    stage.pods("a", 3, group="a", priority="high")
    stage.expect_waiting({"a-0", "a-1", "a-2"})
    stage.expect(a=0, top=1, low=2)


def p8(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.pod("middle-0", priority="middle")
    stage.pods("low", 2, priority="low")
    stage.expect(middle=1, low=2)
    stage.gang("a", 2, priorityClassName="high")
    stage.pods("a", 2, group="a", priority="high")
    stage.expect(a=2, middle=1, low=0)


def p9(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.gang("whole", 3, priorityClassName="low", disruptionMode="PodGroup")
    stage.pods("whole", 3, group="whole", priority="low")
    stage.expect(whole=3)
    stage.gang("a", 1, priorityClassName="high")
    stage.pods("a", 1, group="a", priority="high")
    stage.expect(a=1)
    stage.expect_gone("whole-0", "whole-1", "whole-2")


def p12(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.gang("whole", 3, priorityClassName="high", disruptionMode="PodGroup")
    stage.pods("whole", 3, group="whole", priority="low")
    stage.expect(whole=3)
    stage.gang("a", 1, priorityClassName="low")
    stage.pods("a", 1, group="a", priority="high")
    stage.expect_waiting({"a-0"})
    stage.expect(a=0, whole=3)


# --- topology -------------------------------------------------------------------------------------------------------


def t1(stage: NativeStage) -> None:
    stage.racks(r1=3, r2=2, r3=1)
    stage.pod("filler-0", cpu="2", node="r2-0")
    stage.expect(filler=1)
    stage.gang("a", 3, KEY)
    stage.pods("a", 3, group="a", cpu="2")
    stage.expect(a=3)
    assert stage.on_racks("a") == {"r1"}


def t2(stage: NativeStage) -> None:
    stage.racks(r1=2, r2=1, r3=1)
    stage.gang("a", 3, KEY)
    stage.pods("a", 3, group="a", cpu="2")
    stage.expect_waiting({"a-0", "a-1", "a-2"})
    stage.expect(a=0)


def t3(stage: NativeStage) -> None:
    stage.racks(r1=3)
    stage.pod("filler-0", cpu="2", node="r1-0")
    stage.pod("filler-1", cpu="2", node="r1-1")
    stage.expect(filler=2)
    stage.gang("a", 3, KEY)
    stage.pods("a", 3, group="a")
    stage.expect_waiting({"a-0", "a-1", "a-2"})
    stage.delete("filler-0")
    stage.expect(a=3)


def t4(stage: NativeStage) -> None:
    stage.racks(r1=2, r2=3, r3=1)
    stage.gang("a", 3, KEY)
    stage.pods("a", 3, group="a")
    stage.expect(a=3)
    assert stage.on_racks("a") == {"r1"}


def t6(stage: NativeStage) -> None:
    stage.racks(r1=3, r2=2)
    stage.gang("a", 3, KEY)
    stage.pods("a", 3, group="a", cpu="2")
    stage.expect(a=3)
    stage.gang("b", 2, KEY)
    stage.pods("b", 2, group="b", cpu="2")
    stage.expect(b=2)
    assert (stage.on_racks("a"), stage.on_racks("b")) == ({"r1"}, {"r2"})


def t9(stage: NativeStage) -> None:
    stage.racks(r1=2)
    stage.gang("a", 3, KEY)
    stage.pods("a", 3, group="a")
    stage.expect(a=3)
    stage.gang("b", 2, KEY)
    stage.pods("b", 2, group="b")
    stage.expect_waiting({"b-0", "b-1"})
    stage.expect(a=3, b=0)


def t10(stage: NativeStage) -> None:
    stage.racks(r1=2, r2=2)
    stage.gang("a", 2, KEY)
    stage.pods("a", 3, group="a")
    stage.expect(a=3)
    assert len(stage.on_racks("a")) == 1


def t11(stage: NativeStage) -> None:
    stage.racks(r1=3, r2=2, r3=1)
    stage.gang("a", 3, KEY)
    stage.pods("a", 3, group="a")
    stage.expect(a=3)
    stage.pods("a", 1, group="a", start=3)
    stage.expect(a=4)
    stage.pods("a", 1, group="a", start=4)
    stage.expect_waiting({"a-4"})
    stage.expect(a=4)
    assert stage.on_racks("a") == {"r2"}


def t13(stage: NativeStage) -> None:
    stage.racks(r1=2)
    stage.basic("a", KEY)
    stage.pods("a", 3, group="a")
    stage.expect(a=3)


def t15(stage: NativeStage) -> None:
    stage.racks(r1=1, r2=1)
    stage.basic("a", KEY)
    stage.pods("a", 3, group="a")
    stage.expect(a=2)
    assert len(stage.on_racks("a")) == 1


def t16(stage: NativeStage) -> None:
    stage.racks(r1=2)
    stage.basic("a", KEY)
    stage.pods("a", 2, group="a", cpu="3")
    stage.expect_waiting({"a-0", "a-1"})
    stage.expect(a=0)


CASES: tuple[Case, ...] = (
    *(g1, g2, g3, g4, g5, g8, g9, g12, g13, g14),
    *(p1, p2, p3, p6, p7, p8, p9, p12),
    *(t1, t2, t3, t4, t6, t9, t10, t11, t13, t15, t16),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_case_of_kube_scheduler_comes_true(stage: NativeStage, case: Case) -> None:
    case(stage)


def test_the_example_becomes_what_simulate_says(cluster: ControlPlane, tmp_path: Path) -> None:
    found = documents([NATIVE_GANGS])
    [configuration] = [item for item in found if item["kind"] == "ConfigMap"]
    nodes = cluster.create_nodes([item for item in found if item["kind"] == "Node"])
    rest = [item for item in found if item["kind"] not in {"ConfigMap", "Node"}]
    namespace = cluster.create_namespace("research")
    process = start_ours(
        cluster, tmp_path, "volsched", configuration["data"]["volcano-scheduler.conf"], "--leader-elect=false"
    )
    try:
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": rest}))
        expected = simulated([NATIVE_GANGS])
        eventually(lambda: observed(cluster, [NATIVE_GANGS]) == expected, what=f"{expected}")
    finally:
        process.close()
        cluster.kubectl("delete", "--ignore-not-found", "namespace", namespace)
        cluster.delete_nodes(nodes)


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
    cluster: ControlPlane, tmp_path: Path
) -> None:
    stage = NativeStage(cluster, cluster.create_namespace("promised"), "promising")
    stage.racks(a=2, b=2)
    start = partial(start_ours, cluster, tmp_path, stage.scheduler, RESERVING, *IN_PLACE[:2], "--leader-elect=false")
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


def test_a_class_of_a_group_is_for_those_who_have_the_verb_use_on_it(cluster: ControlPlane) -> None:
    """The policy of the page."""
    [policy] = [
        block.text for block in blocks(DOCS / "native-gangs.md") if block.word("file") == "podgroup-priorities.yaml"
    ]
    namespace = cluster.create_namespace("priorities")
    rights = ("clusterrole/use-low", "clusterrolebinding/use-low")
    flags = ("--user=alice", "--user=bob", "-n", namespace)
    cluster.kubectl(
        "create", "role", "grouper", "--verb=create", "--resource=podgroups.scheduling.k8s.io", "-n", namespace
    )
    cluster.kubectl("create", "rolebinding", "grouper", "--role=grouper", *flags)
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
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(role))
    cluster.kubectl("create", "clusterrolebinding", "use-low", "--clusterrole=use-low", "--user=alice")
    try:
        cluster.kubectl("apply", "-f", "-", stdin=policy)
        eventually(lambda: _refusal_of_class(cluster, namespace, "bob", "low"))
        assert _refusal_of_class(cluster, namespace, "alice", "low") == ""
        assert 'user "alice" may not name PriorityClass "highest"' in _refusal_of_class(
            cluster, namespace, "alice", "highest"
        )
        assert _refusal_of_class(cluster, namespace, "bob", "") == ""
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=policy)
        cluster.kubectl("delete", *rights)
        cluster.kubectl("delete", "namespace", namespace)


def _refusal_of_class(cluster: ControlPlane, namespace: str, user: str, name: str) -> str:
    """Return why a user may not make a group of a class; empty when that is allowed."""
    spec = {"schedulingPolicy": {"basic": {}}, **({"priorityClassName": name} if name else {})}
    group = {"apiVersion": API, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    try:
        cluster.kubectl(
            "create", "--dry-run=server", "-n", namespace, f"--as={user}", "-f", "-", stdin=json.dumps(group)
        )
    except KubectlError as refused:
        return str(refused)
    return ""
