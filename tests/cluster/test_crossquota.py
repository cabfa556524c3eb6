"""The four stories of crossquota, and what administrators see of it, against a real control plane with KWOK nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.scheduling import CONFIG, CONFIGMAP, SYSTEM, Installed, Json, eventually
from tests.plugins.crossquota.stories import STORIES, Story
from tools.controlplane import ControlPlane, a_node

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "made for a test"}
RESOURCES = {"Deployment": "/apis/apps/v1/namespaces/{}/deployments", "Job": "/apis/batch/v1/namespaces/{}/jobs"}


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[list[str]]:
    """Names of nodes that go after the test."""
    made: list[str] = []
    yield made
    control_plane.delete_nodes(made)


class Stage:
    """A namespace in which a story is played."""

    def __init__(self, installed: Installed, namespace: str, nodes: list[str]) -> None:
        self.installed = installed
        self.api = installed.api
        self.namespace = namespace
        self.nodes = nodes

    def play(self, documents: list[Json]) -> None:
        """Make the nodes, start a scheduler with the configuration, then make the workloads."""
        kinds: dict[str, list[Json]] = {}
        for document in documents:
            kinds.setdefault(document["kind"], []).append(document)
        for node in kinds.pop("Node"):
            node["status"]["conditions"] = [READY]
            self.nodes.append(node["metadata"]["name"])
            self.installed.control_plane.create_nodes([node])
        (configuration,) = kinds.pop("ConfigMap")
        ((key, text),) = configuration["data"].items()
        self.installed.configure(text, key)
        self.installed.start("--scheduler-configmap", CONFIGMAP, "--plain-pods", "direct").wait_leading()
        for kind, workloads in kinds.items():
            for workload in workloads:
                workload["metadata"]["namespace"] = self.namespace
                workload["spec"]["template"]["spec"]["schedulerName"] = self.installed.name
                self.api.create(RESOURCES[kind].format(self.namespace), workload)

    def clear(self) -> None:
        """Delete the workloads and wait until their pods are gone."""
        for resource in RESOURCES.values():
            self.api.delete(resource.format(self.namespace))
        eventually(self._has_no_pods, what="the stage is empty")

    def _has_no_pods(self) -> bool:
        self.api.delete(f"/api/v1/namespaces/{self.namespace}/pods", grace_seconds=0)
        return not self.pods()

    def pods(self) -> list[tuple[str, Json]]:
        """Pods with the names of their workloads."""
        return [(name.partition("-")[0], pod) for name, pod in self.installed.pods(self.namespace).items()]

    def placed(self) -> Counter[tuple[str, str]]:
        """Pods of each workload on each node."""
        return Counter((name, pod["spec"]["nodeName"]) for name, pod in self.pods() if "nodeName" in pod["spec"])

    def waiting(self) -> list[tuple[str, str]]:
        """Workload and reason of each pod that was refused."""
        conditions = [(name, c) for name, pod in self.pods() for c in pod["status"].get("conditions") or ()]
        return [(n, c["message"]) for n, c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]


@pytest.fixture
def stage(installed: Installed, namespace: str, nodes: list[str]) -> Iterator[Stage]:
    """A stage that is empty afterwards: the next story has nodes of the same names."""
    stage = Stage(installed, namespace, nodes)
    yield stage
    stage.clear()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.file)
def test_a_story_comes_out_as_told(stage: Stage, story: Story) -> None:
    stage.play(story.documents())

    try:
        eventually(lambda: stage.placed() == story.placed, what=story.file)
    except AssertionError as error:
        raise AssertionError(f"{error}: {stage.placed()}") from None
    expected = {name: count for name, (count, _) in story.waiting.items()}
    eventually(lambda: Counter(name for name, _ in stage.waiting()) == expected, what="who waits")
    eventually(lambda: all(story.waiting[name][1] in said for name, said in stage.waiting()), what="why they wait")
    assert stage.placed() == story.placed


def pods_of(cpu: str, replicas: int) -> Json:
    container = {"name": "main", "image": "registry.invalid/none:1", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def configuration(**arguments: Any) -> Json:
    listed = "".join(f"      {key}: {value}\n" for key, value in arguments.items())
    text = f"""\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: predicates
  - name: crossquota
    arguments:
      gpu-resource-names: nvidia.com/gpu
{listed}"""
    return {"kind": "ConfigMap", "metadata": {"name": CONFIG}, "data": {"volcano-scheduler.conf": text}}


def test_an_annotation_is_told_of_followed_and_shown(stage: Stage) -> None:
    node = a_node("gpu-annotated", cpu="32", **{"nvidia.com/gpu": 8})
    node["metadata"]["annotations"] = {"volcano.sh/crossquota-cpu": "six"}

    stage.play([node, configuration(**{"quota.cpu": '"4"'}), pods_of("2", 4)])

    eventually(lambda: stage.placed() == {("web", "gpu-annotated"): 2}, what="the argument's quota")
    told = stage.installed.wait_event("default", "gpu-annotated", "InvalidCrossQuota")
    assert told["message"].endswith('not the text "six"; the quota of cpu is 4 (argument quota.cpu)')
    right = {"metadata": {"annotations": {"volcano.sh/crossquota-cpu": "6"}}}
    stage.api.patch("/api/v1/nodes/gpu-annotated", right)
    eventually(lambda: stage.placed() == {("web", "gpu-annotated"): 3}, what="the annotation's quota")
    (scheduler,) = stage.installed.processes
    labels = '{node="gpu-annotated",resource="cpu"}'
    eventually(lambda: scheduler.metric(f"volsched_crossquota_quota{labels}") == 6)
    eventually(lambda: scheduler.metric(f"volsched_crossquota_used{labels}") == 6)
    assert scheduler.metric('volsched_crossquota_refusals_total{resource="cpu"}') > 0


def test_pods_of_another_scheduler_count(stage: Stage) -> None:
    node = a_node("gpu-foreign", cpu="32", **{"nvidia.com/gpu": 8})
    stage.play([node, configuration(**{"quota.cpu": 4})])
    foreign = stage.installed.pod("foreign", cpu="3", spec={"schedulerName": "nobody", "nodeName": "gpu-foreign"})
    stage.installed.make_pods(stage.namespace, [foreign])
    (scheduler,) = stage.installed.processes
    eventually(lambda: scheduler.metric('volsched_crossquota_used{node="gpu-foreign",resource="cpu"}') == 3)

    stage.installed.make_pods(stage.namespace, [stage.installed.pod("late", cpu="2")])

    event = stage.installed.wait_event(stage.namespace, "late", "FailedScheduling")
    assert "1 cpu quota exceeded (gpu-foreign: cpu required 2, used 3, quota 4)" in event["message"]


def test_a_doubtful_configuration_is_told_on_its_configmap(stage: Stage) -> None:
    node = a_node("gpu-doubt", cpu="32", **{"nvidia.com/gpu": 8})

    stage.play([node, configuration(**{"quota.cpu": "lots"})])

    event = stage.installed.wait_event(SYSTEM, CONFIG, "ConfigurationDoubtful")
    assert "quota.cpu of plugin crossquota must be a quantity" in event["message"]
    assert "it counts as not given" in event["message"]
