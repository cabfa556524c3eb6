"""Pods as their controllers would make them again, when a node is drained or goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.model import api
from volsched.registry import result_annotations
from volsched.simulation.manifests import identity_of

DAEMONS: Final = frozenset({"DaemonSet", "Node"})
"""Owners whose pods are made again on the same node, or nowhere."""

AGAIN: Final = "-again"
ENDED: Final = frozenset({"Succeeded", "Failed"})


def placed(known: ClusterSnapshot) -> dict[str, api.Pod]:
    """Return the pods that have a node, by namespace and name."""
    pods = (found for found in known.objects if isinstance(found, api.Pod) and found.spec.node_name)
    return {pod.key: pod for pod in pods}


def restarted(known: ClusterSnapshot, going: Mapping[str, str], closed: Iterable[str]) -> Iterator[api.ApiObject]:
    """Yield these pods as their controllers would make them again, and these nodes as cordoned."""
    for key, pod in placed(known).items():
        if key in going:
            yield _made_again(pod)
    for node in known.objects:
        if isinstance(node, api.Node) and node.metadata.name in set(closed):
            yield msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True))


def without_nodes(known: ClusterSnapshot, nodes: Collection[str]) -> ClusterSnapshot:
    """Return the cluster without these nodes. Their pods wait again; those of DaemonSets are removed."""
    pods = [pod for pod in placed(known).values() if pod.spec.node_name in nodes and pod.status.phase not in ENDED]
    daemons = [identity_of(pod) for pod in pods if _stays_with_its_node(pod)]
    left = known.without([*(("Node", "", name) for name in nodes), *daemons])
    return left.with_objects(_made_again(pod) for pod in pods if not _stays_with_its_node(pod))


def _stays_with_its_node(pod: api.Pod) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.kind in DAEMONS


def _made_again(pod: api.Pod) -> api.Pod:
    meta = msgspec.structs.replace(
        pod.metadata, uid=pod.metadata.uid + AGAIN, annotations=_without_results(pod.metadata.annotations)
    )
    return msgspec.structs.replace(
        pod, metadata=meta, spec=msgspec.structs.replace(pod.spec, node_name=""), status=api.PodStatus()
    )


def _without_results(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return annotations without those that plugins write when a pod is placed."""
    results = result_annotations()
    return {key: text for key, text in annotations.items() if not results.covers(key)}
