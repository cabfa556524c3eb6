"""`volsched run` makes room on a real control plane: preempt, reclaim, disruption budgets, and a crash in between."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import GROUPS, QUICK_LEASE, Installed, Json, eventually
from tests.cluster.signals import after_session
from tools.controlplane.stages import STOP_AFTER

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
VERSION = "scheduling.volcano.sh/v1beta1"
QUEUES = f"{GROUPS}/queues"
UNTIL_LET_GO = "1000h"
"""How long pods take to stop that a test lets go by itself."""
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"

CONFIGURATION = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
    enableReclaimable: false
  - name: conformance
  - name: proportion
- plugins:
  - name: predicates
  - name: nodeorder
"""
QUEUE_NAMES = "abcd"
KEEPING = (
    CONFIGURATION
    + """
configurations:
- name: preempt
  arguments: {respectDisruptionBudgets: true}
"""
)


class Town:
    """A namespace with priorities and queues of its own."""

    def __init__(self, installed: Installed, namespace: str, folder: Path) -> None:
        self.installed, self.api, self.namespace, self.folder = installed, installed.api, namespace, folder
        self.suffix = uuid.uuid4().hex[:6]
        for name, value in (("low", 10), ("high", 1000)):
            self.api.create(CLASSES, {"metadata": {"name": f"{name}-{self.suffix}"}, "value": value})
        for name in QUEUE_NAMES:
            queue = {"metadata": {"name": f"{name}-{self.suffix}"}, "spec": {"weight": 1}}
            self.api.create(QUEUES, {"apiVersion": VERSION, "kind": "Queue", **queue})

    def clean(self) -> None:
        for name in ("low", "high"):
            self.api.delete(f"{CLASSES}/{name}-{self.suffix}")
        for name in QUEUE_NAMES:
            self.api.delete(f"{QUEUES}/{name}-{self.suffix}")

    def start(self, text: str = CONFIGURATION, *flags: str) -> Any:
        path = self.folder / "scheduler.conf"
        path.write_text(text)
        return self.installed.start("--scheduler-conf", str(path), *flags).wait_leading()

    def gang(
        self,
        name: str,
        size: int,
        level: str,
        *,
        queue: str = "a",
        minimum: int = 0,
        stop: str = "",
        port: int = 0,
        select: str = "",
        **pod: Any,
    ) -> None:
        of_class = f"{level}-{self.suffix}"
        spec = {"minMember": minimum or size, "queue": f"{queue}-{self.suffix}", "priorityClassName": of_class}
        group = {"apiVersion": VERSION, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
        self.api.create(f"{GROUPS}/namespaces/{self.namespace}/podgroups", group)
        pods = []
        for index in range(size):
            body = self.installed.pod(f"{name}-{index}", group=name, spec={"priorityClassName": of_class}, **pod)
            if stop:
                body["metadata"]["annotations"][STOP_AFTER] = stop
            if select:
                body["spec"]["nodeSelector"] = {"example.com/is": select}
            if port:
                body["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
            pods.append(body)
        self.installed.make_pods(self.namespace, pods)

    def pods(self) -> dict[str, Json]:
        return self.installed.pods(self.namespace)

    def running(self, prefix: str) -> list[str]:
        """Pods that run and are not being deleted."""
        return sorted(
            name
            for name, pod in self.pods().items()
            if name.startswith(prefix)
            and pod["status"]["phase"] == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        )

    def wait_running(self, prefix: str, count: int) -> None:
        eventually(lambda: len(self.running(prefix)) == count, what=f"{count} pods {prefix}* run")

    def wait_stopping(self, count: int) -> dict[str, Json]:
        """Wait until so many pods are being deleted, and return them."""

        def stopping() -> dict[str, Json]:
            return {name: pod for name, pod in self.pods().items() if "deletionTimestamp" in pod["metadata"]}

        eventually(lambda: len(stopping()) == count, what=f"{count} pods are being deleted")
        return stopping()

    def let_go(self, count: int) -> None:
        """Have the pods that are being deleted, so many, be gone, as once their containers have ended."""
        for name in self.wait_stopping(count):
            self.api.delete(f"/api/v1/namespaces/{self.namespace}/pods/{name}", grace_seconds=0)

    def nominations(self) -> dict[str, str]:
        return {
            n: p["status"]["nominatedNodeName"] for n, p in self.pods().items() if p["status"].get("nominatedNodeName")
        }


@pytest.fixture
def town(installed: Installed, namespace: str, tmp_path: Path) -> Iterator[Town]:
    made = Town(installed, namespace, tmp_path)
    yield made
    made.clean()


def test_a_gang_of_high_priority_takes_the_place_of_the_fewest_low_ones(town: Town, make_nodes: MakeNodes) -> None:
    [first, second] = make_nodes(2, cpu="4")
    scheduler = town.start()
    town.gang("low", 8, "low", minimum=1, cpu="1", stop=UNTIL_LET_GO)
    town.wait_running("low", 8)

    town.gang("high", 3, "high", cpu="1")

    eventually(lambda: len(town.nominations()) == 3)
    nominated = town.nominations()
    assert set(nominated) == {"high-0", "high-1", "high-2"}
    assert set(nominated.values()) <= {first, second}
    for name, pod in town.wait_stopping(3).items():
        [condition] = [c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert "high-" in condition["message"]
        told = town.installed.wait_event(town.namespace, name, "Preempted")
        assert "preempt: pod" in told["message"]
        assert told["type"] == "Normal"
    waits = town.installed.condition(town.namespace, "high-0")
    assert "can go to node" in waits["message"]

    town.let_go(3)
    town.wait_running("high", 3)
    assert len(town.running("low")) == 5
    assert sorted(p["spec"]["nodeName"] for n, p in town.pods().items() if n in nominated) == sorted(nominated.values())
    after_session(town.installed)
    assert len(town.running("low")) == 5
    labels = f'{{action="preempt",queue="a-{town.suffix}"}}'
    eventually(lambda: scheduler.metric(f"volsched_preemption_victims_total{labels}") == 3)
    assert scheduler.metric(f"volsched_preemption_attempts_total{labels}") >= 1


def test_a_nomination_is_cleared_when_room_is_found_elsewhere(town: Town, make_nodes: MakeNodes) -> None:
    make_nodes(1, cpu="1")
    town.start()
    town.gang("low", 1, "low", cpu="1", stop=UNTIL_LET_GO)
    town.wait_running("low", 1)
    town.gang("high", 1, "high", cpu="1")
    eventually(lambda: "high-0" in town.nominations())

    [other] = make_nodes(1, prefix="other", cpu="1")

    town.wait_running("high", 1)
    assert town.pods()["high-0"]["spec"]["nodeName"] == other


def test_cores_that_are_free_already_are_kept_with_a_port_that_is_not_yet(town: Town, make_nodes: MakeNodes) -> None:
    [node] = make_nodes(1, cpu="4")
    town.start()
    town.gang("low", 1, "low", cpu="1", stop=UNTIL_LET_GO, port=8080)
    town.wait_running("low", 1)
    town.gang("high", 1, "high", cpu="3", port=8080)
    eventually(lambda: town.nominations() == {"high-0": node})

    town.gang("late", 1, "low", cpu="2")

    eventually(lambda: town.installed.condition(town.namespace, "late-0").get("status") == "False")
    town.let_go(1)
    town.wait_running("high", 1)
    assert "nodeName" not in town.pods()["late-0"]["spec"]
    town.installed.wait_event(town.namespace, "low-0", "Preempted")
    evicted = [e["involvedObject"]["name"] for e in town.installed.events(town.namespace) if e["reason"] == "Preempted"]
    assert set(evicted) == {"low-0"}


def test_a_queue_below_its_share_gets_that_and_no_more_from_a_queue_above_its_own(
    town: Town, make_nodes: MakeNodes
) -> None:
    """Each of four queues deserves four cores. One holds that, though by less important pods; one can use none of it,
    so that the greedy one stays above its share and would have to give more, if the poor ones could ask for more."""
    make_nodes(4, cpu="4")
    town.start()
    town.gang("fair", 4, "low", queue="c", minimum=1, cpu="1", stop="500ms")
    town.wait_running("fair", 4)
    town.gang("greedy", 12, "high", queue="a", minimum=1, cpu="1", stop="500ms")
    town.wait_running("greedy", 12)
    town.gang("stuck", 4, "low", queue="d", minimum=1, cpu="1", select="nowhere")
    eventually(lambda: town.installed.condition(town.namespace, "stuck-0").get("status") == "False")

    for index in range(6):
        town.gang(f"poor{index}", 1, "low", queue="b", cpu="1")

    def running() -> dict[str, int]:
        return {name: len(town.running(name)) for name in ("poor", "greedy", "fair")}

    town.wait_running("poor", 4)
    after_session(town.installed)
    eventually(lambda: not any("deletionTimestamp" in pod["metadata"] for pod in town.pods().values()))
    after_session(town.installed)
    assert running() == {"poor": 4, "greedy": 8, "fair": 4}
    town.installed.wait_event(town.namespace, "", "Preempted", timeout=30)
    events = [event for event in town.installed.events(town.namespace) if event["reason"] == "Preempted"]
    assert all(event["message"].startswith("reclaim: pod") for event in events)
    waiting = town.pods().keys() - {*town.running("poor"), *town.running("greedy"), *town.running("fair")}
    assert len([name for name in waiting if name.startswith("poor")]) == 2


def test_a_scheduler_killed_between_eviction_and_binding_leaves_nothing_stuck(
    town: Town, make_nodes: MakeNodes
) -> None:
    [node] = make_nodes(1, cpu="4")
    first = town.start(CONFIGURATION, *QUICK_LEASE)
    town.gang("low", 4, "low", minimum=1, cpu="1", stop=UNTIL_LET_GO)
    town.wait_running("low", 4)
    town.gang("high", 2, "high", cpu="2")
    eventually(lambda: town.nominations() == {"high-0": node, "high-1": node}, what=str(town.nominations()))

    first.kill()
    second = town.start(CONFIGURATION)
    town.let_go(4)

    town.wait_running("high", 2)
    assert town.running("low") == []
    evicted = [e for e in town.installed.events(town.namespace) if e["reason"] == "Preempted"]
    assert len({e["involvedObject"]["name"] for e in evicted}) <= 4
    eventually(lambda: second.metric("volsched_pods_bound_total") == 2)


@pytest.mark.parametrize("keeping", [False, True])
def test_disruption_budgets_are_respected_when_asked_and_else_come_last(
    town: Town, make_nodes: MakeNodes, keeping: bool
) -> None:
    make_nodes(1, cpu="3")
    town.start(KEEPING if keeping else CONFIGURATION)
    town.gang("web", 2, "low", minimum=1, cpu="1", labels={"app": "web"})
    town.gang("free", 1, "low", minimum=1, cpu="1")
    town.wait_running("web", 2)
    town.wait_running("free", 1)
    path = BUDGETS.format(town.namespace)
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
    town.api.create(path, {"metadata": {"name": "web"}, "spec": spec})
    town.api.wait_for(f"{path}/web", lambda b: b.get("status", {}).get("currentHealthy") == 2)

    town.gang("one", 1, "high", cpu="1")
    town.wait_running("one", 1)
    assert (town.running("web"), town.running("free")) == (["web-0", "web-1"], [])

    town.gang("two", 1, "high", cpu="1")
    if keeping:
        eventually(lambda: "disruption budgets" in town.installed.condition(town.namespace, "two-0").get("message", ""))
        after_session(town.installed)
        assert len(town.running("web")) == 2
    else:
        town.wait_running("two", 1)
        events = town.installed.events
        eventually(lambda: any("breaks the disruption budget" in e["message"] for e in events(town.namespace)))
