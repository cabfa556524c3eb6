"""Clusters for tests of the page: objects by a few words, and what `Live` makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put
from volsched.simulation.api_server import SimulatedApiServer
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import Inventory, completed, decode, read_inventory
from volsched.ui.picture import Live, Picture

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
NOW = 2_000_000_000.0
CREATED = "2026-01-01T00:00:00Z"


def made(kind: str, name: str, namespace: str = "", version: str = "v1", **body: Any) -> api.ApiObject:
    """Return an object."""
    annotations = body.pop("annotations", {})
    labels = body.pop("labels", {})
    meta = {"name": name, "namespace": namespace, "annotations": annotations, "labels": labels}
    meta |= {"creationTimestamp": CREATED}
    return completed(decode({"apiVersion": version, "kind": kind, "metadata": meta, **body}))


def node(name: str, gpus: int = 8, model: str = "A100") -> api.ApiObject:
    """Return a node with cards."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(gpus)}
    return made("Node", name, labels={PRODUCT: model}, status={"allocatable": amounts, "capacity": amounts})


def pod(key: str, gpus: int = 1, on: str = "", group: str = "") -> api.ApiObject:
    """Return a pod of ours, by namespace and name."""
    namespace, name = key.split("/")
    spec: dict[str, Any] = {"schedulerName": "volsched", "containers": [{"name": "c", "image": "c"}]}
    spec["containers"][0]["resources"] = {"limits": {GPU: str(gpus)}}
    if on:
        spec["nodeName"] = on
    annotations = {"scheduling.k8s.io/group-name": group or name}
    return made(
        "Pod", name, namespace, spec=spec, annotations=annotations, status={"phase": "Running" if on else "Pending"}
    )


def group(key: str, queue: str = "default", minimum: int = 1, phase: str = "Inqueue") -> api.ApiObject:
    """Return a PodGroup, by namespace and name."""
    namespace, name = key.split("/")
    version = "scheduling.volcano.sh/v1beta1"
    spec = {"minMember": minimum, "queue": queue}
    return made("PodGroup", name, namespace, version, spec=spec, status={"phase": phase})


def queue(name: str, **capability: str) -> api.ApiObject:
    """Return a queue; ``gpus`` is its quota of cards."""
    quota = {GPU: capability["gpus"]} if capability else {}
    return made("Queue", name, version="scheduling.volcano.sh/v1beta1", spec={"weight": 1, "capability": quota})


def known_of(objects: Iterable[api.ApiObject], configuration: str = DEFAULT_CONFIGURATION) -> ClusterSnapshot:
    """Return a cluster of these objects."""
    return ClusterSnapshot(tuple(objects), configuration)


def read(*files: Path) -> ClusterSnapshot:
    """Return the cluster of manifests."""
    inventory = read_inventory(read_documents([str(file) for file in files]))
    return ClusterSnapshot(tuple(inventory.objects), inventory.chosen_configuration() or DEFAULT_CONFIGURATION)


def live_of(known: ClusterSnapshot) -> Live:
    """Return a cluster that is followed, as its controllers have made it of these objects."""
    live = Live(replace(known, objects=()))
    live.take(SimulatedApiServer(Inventory(objects=list(known.objects)), known.scheduler_names).begin())
    return live


def picture_of(known: ClusterSnapshot) -> Picture:
    """Return what is seen of it at first."""
    return live_of(known).look(NOW)


def puts(*objects: api.ApiObject) -> Sequence[Change]:
    """Return the changes by which objects come, or become others."""
    return [Put(each) for each in objects]


def gone(found: api.ApiObject) -> Change:
    """Return the change by which an object goes."""
    meta = found.metadata
    return Deleted(type(found).__name__, meta.namespace, meta.name, meta.uid)
