"""What becomes of an example on a cluster, and what `volsched simulate` says would become of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.forks import run_volsched
from tests.manifests.rendering import MANIFESTS, Json
from tools.controlplane import ControlPlane
from tools.documents import yaml_documents

EXAMPLES = MANIFESTS / "examples"
NODES = EXAMPLES / "10-nodes.yaml"
CONFIGURATION = MANIFESTS / "base/scheduler/configuration.yaml"
WORKLOADS = sorted((EXAMPLES / "workloads").glob("*.yaml"))
NATIVE_GANGS = EXAMPLES / "native-gangs/gang.yaml"
"""A whole cluster, too, of which the API server needs feature gates: tests/cluster/test_native_groups.py runs it."""
FLEET = EXAMPLES / "fleet"
"""A cluster in the middle of its work, with pods that run already: tests/simulation/test_fleet.py looks at it."""
SCENES = sorted(
    {*EXAMPLES.glob("*/*.yaml")} - {*WORKLOADS, *EXAMPLES.glob("replay/*.yaml"), *FLEET.iterdir(), NATIVE_GANGS}
)
"""Whole clusters with a configuration of their own, in a folder for each plugin."""

WITH_PODS = {"Deployment", "Job", "Pod"}


@dataclass(frozen=True)
class Outcome:
    """Of each workload, how many of its pods have a node, and why the others wait."""

    placed: Counter[str]
    waiting: Counter[tuple[str, str]]

    @property
    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """The same without the reasons."""
        return self.placed, Counter(name for name, _ in self.waiting.elements())


def documents(paths: Sequence[Path]) -> list[Json]:
    """The objects of files, and of the files in folders."""
    files = [file for path in paths for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])]
    return [found for file in files for found in yaml_documents(file.read_text())]


def workloads(paths: Sequence[Path]) -> list[str]:
    """The names of what makes pods, the longest first."""
    names = {found["metadata"]["name"] for found in documents(paths) if found["kind"] in WITH_PODS}
    return sorted(names, key=len, reverse=True)


def simulated(paths: Sequence[Path], *others: Path, config: Path | None = None) -> Outcome:
    """What `volsched simulate` says of files, with other files for what is there already."""
    flags = ["--config", str(config)] if config else []
    for path in (*others, *paths):
        flags += ["-f", str(path)]
    done = run_volsched("simulate", "--output", "json", *flags)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    names = workloads(paths)
    return Outcome(
        Counter(_workload(bind["pod"], names) for bind in result["binds"]),
        Counter((_workload(pod["pod"], names), pod["message"]) for pod in result["pending"] if pod["pod"]),
    )


def observed(cluster: ControlPlane, paths: Sequence[Path]) -> Outcome:
    """What has become of the pods of files so far."""
    names = workloads(paths)
    placed: Counter[str] = Counter()
    waiting: Counter[tuple[str, str]] = Counter()
    for pod in cluster.api.items("/api/v1/pods"):
        name = _workload(pod["metadata"]["name"], names)
        if name and "nodeName" in pod["spec"]:
            placed[name] += 1
        elif name:
            waiting[name, _why(pod)] += 1
    return Outcome(placed, waiting)


def _workload(pod: str, names: Sequence[str]) -> str:
    return next((name for name in names if pod.rpartition("/")[2].startswith(name)), "")


def _why(pod: Json) -> str:
    conditions = [found for found in pod["status"].get("conditions") or () if found["type"] == "PodScheduled"]
    return str(conditions[0].get("message", "")) if conditions else ""
