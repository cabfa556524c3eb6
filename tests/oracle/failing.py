"""kube-scheduler is asked what becomes of a pod with a selector that fails on some devices.

All worlds are on one control plane at once: pods can only go to the nodes of their own world. kube-scheduler looks at
all nodes (``percentageOfNodesToScore: 100``), so it meets each error that any node makes.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Final

from tests.judges.answers import Answers, Cases, Question
from tools.controlplane import ControlPlane, objects
from tools.controlplane.binaries import KUBERNETES_VERSION, Report

from . import failing_worlds
from .failing_worlds import NAMESPACE, Json

WORLDS: Final = 300
PATIENCE_SECONDS: Final = 120.0
ERROR: Final = "error"
BOUND: Final = "bound"
NONE: Final = "none"
CEL_ERROR: Final = "CEL runtime error"
_CONFIGURATION: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 100,
    "leaderElection": {"leaderElect": False},
}
_PATHS: Final = {
    "Node": "/api/v1/nodes",
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "ResourceClaim": f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims",
}
"""In the order in which objects are made: pods last."""


def _worlds() -> Cases:
    return {f"w{seed}": failing_worlds.a_world(f"w{seed}", Random(seed)) for seed in range(WORLDS)}  # noqa: S311


def _ask(cases: Cases, report: Report) -> Answers:
    with ControlPlane(controller_manager=False, kwok=False) as cluster:
        cluster.api.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        _make(cluster, [found for world in cases.values() for found in world])
        report(f"{len(cases)} worlds are made")
        configuration = cluster.folder / "all-nodes.json"
        client = {"kubeconfig": str(cluster.kubeconfig), "qps": 5000, "burst": 10000}
        configuration.write_text(json.dumps(_CONFIGURATION | {"clientConnection": client}))
        cluster.start_kube_scheduler(flags=[f"--config={configuration}"])
        return {name: _outcome(cluster, f"{name}-pod") for name in cases}


def _make(cluster: ControlPlane, found: list[Json]) -> None:
    by_kind: dict[str, list[Json]] = defaultdict(list)
    for each in found:
        by_kind[each["kind"]].append(_as_sent(each))
    for kind, path in _PATHS.items():
        cluster.api.create_many(path, by_kind[kind])
        for each in by_kind[kind] if kind in ("Node", "ResourceClaim") else ():
            name = each["metadata"]["name"]
            if "status" in each:
                cluster.api.patch(f"{path}/{name}/status", {"status": each["status"]})
            if kind == "Node":  # the API server has tainted it, and no controller takes that away
                cluster.api.patch(f"{path}/{name}", {"spec": {"taints": each["spec"].get("taints")}})


def _as_sent(found: Json) -> Json:
    """Return an object without what the API server gives it."""
    meta = {key: value for key, value in found["metadata"].items() if key != "uid"}
    return {**found, "metadata": meta}


def _outcome(cluster: ControlPlane, pod: str) -> str:
    """Wait until kube-scheduler has decided about a pod; what it decided."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        found = cluster.api.get(f"{_PATHS['Pod']}/{pod}")
        if found["spec"].get("nodeName"):
            return BOUND
        conditions = found.get("status", {}).get("conditions", ())
        waits = next((each for each in conditions if each["type"] == "PodScheduled"), None)
        if waits is not None:
            return ERROR if CEL_ERROR in waits.get("message", "") else NONE
        time.sleep(0.2)
    raise AssertionError(f"kube-scheduler decided nothing about {pod}")


FAILING: Final = Question(
    name="failing",
    about="random worlds: what becomes of a pod with a selector that fails on some devices",
    judge=f"kube-scheduler {KUBERNETES_VERSION}",
    file=Path(__file__).with_name("answers") / "failing.jsonl.xz",
    asking=(Path(__file__), Path(str(objects.__file__))),
    cases=_worlds,
    ask=_ask,
)
