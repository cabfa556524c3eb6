"""Whatever the world, volsched finds the nodes feasible that kube-scheduler does, and scores them alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plugins.nodeorder.plugin import ARGUMENTS as WEIGHTS
from plugins.nodeorder.plugin import build as build_nodeorder
from plugins.predicates.plugin import ARGUMENTS, build
from volsched.framework.config.arguments import values_of
from volsched.framework.config.configuration import Configuration, PluginOption
from volsched.framework.engine.engine import FastEngine
from volsched.framework.plugin import Plugin
from volsched.framework.registration import Accounts, Registrar
from volsched.framework.session import Session
from volsched.mirror.mirror import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Change
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.testing.builders import put

from .oracle import Judgement, Oracle
from .worlds import GPU, REQUIRED, a_world

Json = dict[str, Any]
WORLDS = 2000
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


class Judge:
    """volsched's answers about one world."""

    def __init__(self, world: Json, weights: Json) -> None:
        mirror = Mirror(MirrorSettings(plain_pods=True))
        mirror.apply(changes_of(world))
        self.cluster = mirror.cluster
        self.task: TaskInfo = self.cluster.tasks["uid-new"]
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


@pytest.fixture(scope="module")
def judged(oracle: Oracle) -> list[tuple[int, Json, Judgement]]:
    worlds = [a_world(seed) for seed in range(WORLDS)]
    return list(zip(range(WORLDS), worlds, oracle.judge_many(worlds), strict=True))


def test_the_same_nodes_are_feasible(judged: list[tuple[int, Json, Judgement]]) -> None:
    refused = placed = 0
    for seed, world, judgement in judged:
        ours = Judge(world, {})
        check(f"world {seed}", world, judgement["feasible"], ours.feasible())
        check(f"world {seed} at once", world, judgement["feasible"], ours.feasible_at_once())
        refused += not judgement["feasible"]
        placed += bool(judgement["feasible"])
    assert placed > WORLDS // 4, "these worlds have too few places"
    assert refused > WORLDS // 10, "these worlds have too few refusals"


@pytest.mark.parametrize(
    ("weight", "plugin"),
    [
        ("leastrequested", "NodeResourcesFit"),
        ("balancedresource", "NodeResourcesBalancedAllocation"),
        ("imagelocality", "ImageLocality"),
        ("nodeaffinity", "NodeAffinity"),
        ("tainttoleration", "TaintToleration"),
        ("podaffinity", "InterPodAffinity"),
        ("podtopologyspread", "PodTopologySpread"),
    ],
)
def test_scores_agree(judged: list[tuple[int, Json, Judgement]], weight: str, plugin: str) -> None:
    weights = {argument.key: 0 for argument in WEIGHTS} | {f"{weight}.weight": 1}
    different = 0
    for seed, world, judgement in judged:
        if not judgement["feasible"] or not is_comparable(plugin, world):
            continue
        kind = "raw" if plugin == "NodeAffinity" else "normalized"
        theirs = {n: float(s[plugin][kind]) if plugin in s else 0.0 for n, s in judgement["scores"].items()}
        ours = Judge(world, weights)
        found = {name: sum(by.values()) for name, by in ours.engine.scores(ours.task).items()}
        check(f"world {seed} {plugin}", world, theirs, found)
        different += len(set(theirs.values())) > 1
    assert different > 10, "these worlds tell nodes apart too seldom"


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
