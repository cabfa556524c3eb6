"""Shared cards on a real control plane: results in the Binding, a scheduler that dies, pods that nobody can account."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import QUICK_LEASE, Installed, Json, SchedulerProcess, eventually
from tests.cluster.signals import ready
from tools.controlplane import a_pod
from tools.controlplane.faults import BlackHole, FaultProxy, Reset
from tools.controlplane.objects import a_binding

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

VKE = "vke.volcengine.com"
CORE, MEMORY = f"{VKE}/mgpu-core", f"{VKE}/mgpu-memory"
ASSUMED, INDEX = f"{VKE}/assumed", f"{VKE}/gpu-index-container-"
MULTIPLE, POLICY = f"{VKE}/container-multiple-gpu", f"{VKE}/mgpu-compute-policy"
NATIVE = "native-burst-share"
GIB = 16384
BINDING = "/api/v1/namespaces/*/pods/*/binding"
POD = "/api/v1/namespaces/*/pods/*"

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: mgpu
    arguments:
      predicate.MGPUEnable: true
      predicate.MGPUPolicy: binpack
"""


def amounts(core: int, memory: int = 0) -> dict[str, Any]:
    """What a pod asks for, or a node has."""
    return {CORE: core, MEMORY: memory} if memory else {CORE: core}


class Rack:
    """Nodes with two cards each, and schedulers that share them."""

    def __init__(self, installed: Installed, namespace: str, folder: Path) -> None:
        self.installed, self.api, self.namespace = installed, installed.api, namespace
        self._configuration = folder / "scheduler.conf"
        self._configuration.write_text(CONFIGURATION)

    def start(self, proxy: FaultProxy | None = None) -> SchedulerProcess:
        flags = ("--scheduler-conf", str(self._configuration), "--plain-pods", "direct", *QUICK_LEASE)
        return self.installed.start(*flags, proxy=proxy)

    def share(self, name: str, core: int = 30, memory: int = 4096) -> Json:
        return self.installed.pod(name, **amounts(core, memory))

    def whole(self, name: str, cards: int) -> Json:
        return self.installed.pod(name, **amounts(100 * cards))

    def make(self, *pods: Json) -> None:
        self.installed.make_pods(self.namespace, list(pods))

    def pods(self) -> dict[str, Json]:
        return self.installed.pods(self.namespace)

    def results(self) -> dict[str, str]:
        """The cards of each pod that has some, by what its annotations say."""
        return {
            name: text
            for name, pod in self.installed.pods(self.namespace).items()
            if (text := pod["metadata"].get("annotations", {}).get(f"{INDEX}main")) is not None
        }

    def delete(self, name: str) -> None:
        self.api.delete(f"/api/v1/namespaces/{self.namespace}/pods/{name}", grace_seconds=0)

    def wait_waiting(self, name: str, words: str) -> None:
        eventually(
            lambda: words in self.installed.condition(self.namespace, name).get("message", ""),
            what=f"{name} waits since {words}",
        )


@pytest.fixture
def rack(installed: Installed, namespace: str, tmp_path: Path) -> Rack:
    return Rack(installed, namespace, tmp_path)


def cards(make_nodes: MakeNodes, nodes: int = 1, policy: str = "", each: int = 2) -> list[str]:
    return make_nodes(nodes, labels={POLICY: policy} if policy else {}, **amounts(100 * each, GIB * each))


def test_cards_of_running_pods_stand_on_them_and_are_written_with_the_node(
    rack: Rack, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    [node] = cards(make_nodes, policy=NATIVE)
    rack.start(fault_proxy).wait_leading()
    several = a_pod("several", scheduler=rack.installed.name, annotations={POLICY: NATIVE, MULTIPLE: "2,0"})
    several["spec"]["containers"] = [
        {"name": "train", "image": "none", "resources": {"limits": amounts(60, 4096)}},
        {"name": "log", "image": "none"},
    ]
    forged = rack.share("share", core=40)
    forged["metadata"]["annotations"] = {POLICY: NATIVE, f"{INDEX}main": "7"}

    rack.make(several)
    rack.installed.wait_bound(rack.namespace, 1)
    rack.make(forged)
    rack.installed.wait_bound(rack.namespace, 2)
    eventually(lambda: all(p["status"]["phase"] == "Running" for p in rack.installed.pods(rack.namespace).values()))

    pods = rack.installed.pods(rack.namespace)
    found = {name: _results(pod) for name, pod in pods.items()}
    assert found == {
        "several": {ASSUMED: "true", f"{INDEX}train": "0,1"},
        "share": {ASSUMED: "true", f"{INDEX}main": "0"},
    }
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == {node}
    assert fault_proxy.counts.count("create", BINDING, status=201) == 2
    assert fault_proxy.counts.count("patch", POD) == 0


def _results(pod: Json) -> dict[str, str]:
    annotations: dict[str, str] = pod["metadata"]["annotations"]
    return {key: text for key, text in annotations.items() if key == ASSUMED or key.startswith(INDEX)}


def test_a_scheduler_killed_between_choosing_cards_and_binding_leaves_them_free(
    rack: Rack, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    cards(make_nodes)
    first = rack.start(fault_proxy).wait_leading()
    rule = fault_proxy.inject(BlackHole(), method="POST", path="/binding$")
    rack.make(rack.whole("lost", 2))
    rule.wait(1)
    first.kill()
    rack.delete("lost")
    assert rack.results() == {}

    rack.start().wait_leading()
    rack.make(rack.whole("next", 2))

    rack.installed.wait_bound(rack.namespace, 1)
    assert rack.results() == {"next": "0,1"}


@pytest.mark.no_retry(reason="quota overrun")
def test_a_scheduler_killed_after_a_binding_that_nobody_confirmed_is_followed_by_one_that_counts_it(
    rack: Rack, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    cards(make_nodes)
    first = rack.start(fault_proxy).wait_leading()
    rule = fault_proxy.inject(BlackHole(after=True), method="POST", path="/binding$")
    rack.make(rack.share("bound", core=60))
    rule.wait(1)
    rack.installed.wait_bound(rack.namespace, 1)
    first.kill()

    rack.start().wait_leading()
    rack.make(rack.share("beside", core=60), rack.whole("whole", 1))

    rack.installed.wait_bound(rack.namespace, 2)
    placed = rack.results()
    assert placed.pop("bound") == "0"
    assert list(placed.values()) == ["1"]
    (left,) = {"beside", "whole"} - set(placed)
    rack.wait_waiting(left, "mgpu: no card combination fits")


def test_pods_whose_cards_nobody_knows_keep_others_away_until_they_are_annotated(
    rack: Rack, make_nodes: MakeNodes
) -> None:
    [node] = cards(make_nodes)
    rack.make(a_pod("foreign", scheduler="nobody", **amounts(30, 4096)))
    path = f"/api/v1/namespaces/{rack.namespace}/pods/foreign"
    rack.api.create(f"{path}/binding", a_binding(rack.api.get(path), node))
    scheduler = rack.start().wait_leading()

    rack.make(rack.whole("whole", 1))
    rack.wait_waiting("whole", "mgpu: node card state unknown")
    event = rack.installed.wait_event("default", node, "CardStateUnknown")
    assert "another job: metadata.annotations[vke.volcengine.com/gpu-index-container-main]" in event["message"]
    whole = scheduler.wait_for("an Event names no other namespace")
    assert f'pod "{rack.namespace}/foreign": ' in whole["message"]
    eventually(lambda: scheduler.metric(f'volsched_mgpu_card_state_unknown{{node="{node}"}}') == 1.0)

    rack.api.patch(path, {"metadata": {"annotations": {ASSUMED: "true", f"{INDEX}main": "0"}}})

    rack.installed.wait_bound(rack.namespace, 2)
    assert rack.results() == {"foreign": "0", "whole": "1"}
    rack.installed.wait_event("default", node, "CardStateKnown")
    eventually(lambda: scheduler.metric(f'volsched_mgpu_card_core_used_ratio{{card="1",node="{node}"}}') == 1.0)


@pytest.mark.no_retry(reason="quota overrun")
def test_no_card_is_given_away_twice_while_answers_get_lost_and_the_leader_is_killed(
    rack: Rack, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    """There is room for just these shares: three of 33 percent on each of eight cards."""
    cards(make_nodes, nodes=4)
    first = rack.start(fault_proxy).wait_leading()
    second = rack.start(fault_proxy)
    ready(second)

    with fault_proxy.inject(Reset(after=True), method="POST", path="/binding$", times=10):
        rack.make(*(rack.share(f"p{i}", core=33, memory=5000) for i in range(24)))
        eventually(lambda: fault_proxy.counts.count("create", BINDING) > 5)
        first.kill()
        placed = rack.installed.wait_bound(rack.namespace, 24)

    used: dict[tuple[str, str], int] = defaultdict(int)
    for name, card in rack.results().items():
        used[placed[name], card] += 33
    assert len(used) == 8
    assert set(used.values()) == {99}
