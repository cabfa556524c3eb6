"""Clusters with GPU nodes, decided with crossquota."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from volsched.framework.engine.fast import Engine, FastEngine
from volsched.model.cluster import Cluster
from volsched.testing.builders import ClusterBuilder, Rig, a_node, a_rig

GPU = "nvidia.com/gpu"
ANN, PART = "volcano.sh/crossquota-", "volcano.sh/crossquota-percentage-"
STRATEGY = "volcano.sh/crossquota-scoring-strategy"
NAMES, RESOURCES = "gpu-resource-names", "quota-resources"


def configuration(actions: str = "enqueue, allocate, backfill", **arguments: Any) -> str:
    """A configuration with crossquota for nvidia.com/gpu, cpu and memory, if the arguments do not say otherwise."""
    given = {NAMES: GPU, RESOURCES: "cpu,memory", **arguments}
    plugins = [{"name": "predicates"}, {"name": "crossquota", "arguments": given}]
    order = {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]}
    return yaml.safe_dump({"actions": actions, "tiers": [order, {"plugins": plugins}]})


def rig(
    cluster: ClusterBuilder, engine: Any = FastEngine, actions: str = "allocate, backfill", **arguments: Any
) -> Rig:
    """A scheduler with crossquota on a cluster."""
    return a_rig(cluster, configuration(actions, **arguments), engine)


def node(
    name: str, annotations: Mapping[str, str] | None = None, capacity: Mapping[str, Any] | None = None, **amounts: Any
) -> dict[str, Any]:
    """A Node manifest; the same name again is the same node."""
    found = a_node(name, annotations=annotations, **amounts)
    found["status"]["capacity"] = {**found["status"]["allocatable"], **{k: str(v) for k, v in (capacity or {}).items()}}
    return found


def gpu_node(name: str, annotations: Mapping[str, str] | None = None, **amounts: Any) -> dict[str, Any]:
    """A node with eight cards."""
    return node(name, annotations, **{GPU: 8, **amounts})


__all__ = ["ANN", "GPU", "NAMES", "PART", "RESOURCES", "STRATEGY", "Cluster", "Engine"]
