"""In all worlds volsched finds the nodes feasible that kube-scheduler finds feasible, and scores them alike.

kube-scheduler's answers are recorded; it is asked again when they are out of date (`tests.judges.answers`).
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from plugins.nodeorder.plugin import ARGUMENTS as WEIGHTS
from plugins.nodeorder.plugin import build as build_nodeorder
from plugins.predicates.plugin import ARGUMENTS, build
from volsched.framework.config.arguments import values_of
from volsched.framework.config.configuration import Configuration, PluginOption
from volsched.framework.engine.fast import FastEngine
from volsched.framework.plugin import Plugin
from volsched.framework.registration import Accounts, Registrar
from volsched.framework.session import Session
from volsched.mirror.apply import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Change
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.testing.builders import put

from .questions import NODES
from .worlds import GPU, REQUIRED

pytestmark = pytest.mark.slow(reason="2,000 worlds")

Json = dict[str, Any]
KINDS = {
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "pvs": ("v1", "PersistentVolume"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiDrivers": ("storage.k8s.io/v1", "CSIDriver"),
    "csiStorageCapacities": ("storage.k8s.io/v1", "CSIStorageCapacity"),
    "pods": ("v1", "Pod"),
}


def changes_of(world: Json) -> list[Change]:
    """Return everything in a world as an informer would tell it."""
    objects = [(kind, item) for name, kind in KINDS.items() for item in world.get(name, ())]
    objects.append((KINDS["pods"], world["pod"]))
    return [put({"apiVersion": v, "kind": k, **item}) for (v, k), item in objects]


SCORES = {
    "leastrequested": "NodeResourcesFit",
    "balancedresource": "NodeResourcesBalancedAllocation",
    "imagelocality": "ImageLocality",
    "nodeaffinity": "NodeAffinity",
    "tainttoleration": "TaintToleration",
    "podaffinity": "InterPodAffinity",
    "podtopologyspread": "PodTopologySpread",
}
"""volsched's weights of scores, and the plugin of kube-scheduler that has the same score."""
NO_WEIGHTS = {argument.key: 0 for argument in WEIGHTS}


def cluster_of(world: Json) -> Cluster:
    """Return a world as volsched sees it."""
    mirror = Mirror(MirrorSettings(plain_pods=True))
    mirror.apply(changes_of(world))
    return mirror.cluster


class Judge:
    """volsched's answers about one world."""

    def __init__(self, cluster: Cluster, weights: Json) -> None:
        self.cluster = cluster
        self.task: TaskInfo = cluster.tasks["uid-new"]
        self.engine = FastEngine(self.cluster)
        accounts = Accounts(self.cluster)
        self.session = Session(self.cluster, Configuration((), ()), self.engine, accounts, lambda _: None)
        plugins: list[Plugin] = [
            build(values_of("plugin predicates", ARGUMENTS, {})),
            build_nodeorder(values_of("plugin nodeorder", WEIGHTS, weights)),
        ]
        for plugin in plugins:
            plugin.on_session_open(Registrar(self.session, 0, PluginOption(plugin.name)))
        self.session.opened()

    def feasible(self) -> list[str]:
        """Nodes with room now, by the scalar functions."""
        if self.session.rules.pre_refusal(self.task) is not None:
            return []
        return [node.name for node in self.cluster.rows if self._admits(node)]

    def _admits(self, node: NodeInfo) -> bool:
        if not node.fits_idle(self.cluster.columns.request(self.task.template)):
            return False
        return all(
            predicate.ask(self.task, node) is None
            for predicate in self.session.rules.nodes.predicates
            if predicate.applies(self.task)
        )

    def feasible_at_once(self) -> list[str]:
        """The same as the engine finds it, by vectors."""
        if self.session.rules.pre_refusal(self.task) is not None:
            return []
        totals = self.engine.entries.of(self.task).scores.total
        return [node.name for node in self.cluster.rows if totals[node.row] > -float("inf")]


def check(name: str, world: Json, expected: Any, found: Any) -> None:
    assert found == expected, f"{name}: kube-scheduler {expected}, volsched {found}\n{json.dumps(world)}"


Judged = list[tuple[str, Json, Json]]
"""The name of each world, the world, and what kube-scheduler says of it."""


@pytest.fixture(scope="module")
def judged() -> Judged:
    worlds = NODES.cases()
    answers = NODES.answers(worlds)
    return [(name, world, answers[name]) for name, world in worlds.items()]


def test_the_same_nodes_are_feasible(judged: Judged) -> None:
    refused = placed = 0
    for name, world, judgement in judged:
        ours = Judge(cluster_of(world), {})
        check(name, world, judgement["feasible"], ours.feasible())
        check(f"{name} at once", world, judgement["feasible"], ours.feasible_at_once())
        refused += not judgement["feasible"]
        placed += bool(judgement["feasible"])
    assert placed > len(judged) // 4, "these worlds have too few places"
    assert refused > len(judged) // 10, "these worlds have too few refusals"


def test_scores_agree(judged: Judged) -> None:
    different: Counter[str] = Counter()
    for name, world, judgement in judged:
        compared = {score: plugin for score, plugin in SCORES.items() if is_comparable(plugin, world)}
        if not judgement["feasible"] or not compared:
            continue
        cluster = cluster_of(world)
        for score, plugin in compared.items():
            given = judgement["scores"].get(plugin, {})
            theirs = {node: float(given.get(node, 0)) for node in judgement["feasible"]}
            ours = Judge(cluster, NO_WEIGHTS | {f"{score}.weight": 1})
            found = {node: sum(by.values()) for node, by in ours.engine.scores(ours.task).items()}
            check(f"{name} {plugin}", world, theirs, found)
            different[plugin] += len(set(theirs.values())) > 1
    assert min(different[plugin] for plugin in SCORES.values()) > 10, f"nodes are told apart too seldom: {different}"


def is_comparable(plugin: str, world: Json) -> bool:
    """Leave out worlds in which Volcano's formula, which is ours, differs from kube-scheduler's defaults."""
    if plugin == "NodeResourcesFit":  # in 1.36 this score forgets that pods may ask for resources as a whole
        return "resources" not in world["pod"]["spec"]
    if plugin == "NodeResourcesBalancedAllocation":  # Volcano counts GPUs as well
        containers = world["pod"]["spec"]["containers"] + world["pod"]["spec"].get("initContainers", [])
        return not any(GPU in amounts for item in containers for amounts in item["resources"].values())
    if plugin == "InterPodAffinity":  # Volcano gives no points for required terms of placed pods
        affinities = [pod["spec"].get("affinity", {}) for pod in world["pods"]]
        return not any(affinity.get("podAffinity", {}).get(REQUIRED) for affinity in affinities)
    return True
