"""Image locality: nodes that already have the pod's images are better, the more so the larger these are.

    sum   = over the pod's images that the node has:  bytes x (share of all nodes that have the image)
    score = 100 x (sum - 23Mi) / (1000Mi x containers - 23Mi),  sum kept between those two bounds

The share keeps an image that only few nodes have from drawing all pods there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from plugins.nodeorder.arguments import NodeOrderWeights
from volsched.plugin import (
    Cluster,
    Floats,
    NodeOrder,
    NodePropertiesView,
    NodeTable,
    PodConstraints,
    PodTemplate,
    Registrar,
    Rule,
)

MIB = 1024 * 1024
LEAST = 23 * MIB
MOST_PER_CONTAINER = 1000 * MIB

Bytes = npt.NDArray[np.int64]


class ImageLocality:
    """The nodes that have a wanted image, with its size there."""

    def __init__(self, cluster: Cluster, weight: int) -> None:
        self._cluster = cluster
        self._weight = weight
        self._sizes: dict[str, Bytes] = {}
        self._nodes: dict[str, int] = {}
        self._position = 0
        self._layout = -1

    @staticmethod
    def applies(template: PodTemplate) -> bool:
        """True if pods of a template have any image, which only pods of users have."""
        return bool(template.images) and template.containers > 0

    def score(self, pod: PodConstraints, node: NodePropertiesView) -> float:
        """Score one node."""
        self._refresh()
        total = 0
        images = node.images
        for image in pod.images:
            size = images.get(image)
            if size:
                total += self._scaled(size, image)
        most = MOST_PER_CONTAINER * pod.containers
        return float(100 * (min(max(total, LEAST), most) - LEAST) // (most - LEAST) * self._weight)

    def scores(self, pod: PodConstraints, nodes: NodeTable) -> Floats:
        """Answer as ``score``, for many nodes at once."""
        self._refresh()
        known = [(image, self._sizes_of(image)) for image in pod.images]
        there = [(sizes, self._nodes[image]) for image, sizes in known if self._nodes[image]]
        if not there:
            return np.zeros(len(nodes.rows))
        every = len(self._cluster.rows)
        total: Bytes = np.zeros(every, dtype=np.int64)
        for sizes, count in there:
            total += (sizes * (count / every)).astype(np.int64)
        most = MOST_PER_CONTAINER * pod.containers
        result = 100 * (np.clip(total[nodes.rows], LEAST, most) - LEAST) // (most - LEAST) * self._weight
        found: Floats = result.astype(np.float64)
        return found

    def _scaled(self, size: int, image: str) -> int:
        self._sizes_of(image)
        return int(size * (self._nodes[image] / len(self._cluster.rows)))

    def _sizes_of(self, image: str) -> Bytes:
        found = self._sizes.get(image)
        if found is None:
            nodes = self._cluster.rows
            found = np.fromiter((node.images.get(image, 0) for node in nodes), np.int64, len(nodes))
            self._sizes[image] = found
            self._nodes[image] = int(np.count_nonzero(found))
        return found

    def _refresh(self) -> None:
        """Drop reports of nodes that changed."""
        cluster = self._cluster
        if self._layout == cluster.generations.layout and self._position == cluster.node_cache.properties_log.end:
            return
        changed = cluster.node_cache.properties_log.since(self._position)
        if self._layout != cluster.generations.layout or changed is None or len(self._sizes) > 4096:
            self._sizes.clear()
            self._nodes.clear()
        else:
            for image, sizes in self._sizes.items():
                for row in changed:
                    sizes[row] = cluster.rows[row].images.get(image, 0)
                self._nodes[image] = int(np.count_nonzero(sizes))
        self._position, self._layout = cluster.node_cache.properties_log.end, cluster.generations.layout


def rules(registrar: Registrar, weights: NodeOrderWeights) -> Iterator[Rule]:
    """Score by the images that nodes have."""
    if weights.imagelocality:
        images = registrar.account("nodeorder.images", lambda cluster: ImageLocality(cluster, weights.imagelocality))
        yield NodeOrder(images.score, vector=images.scores, applies_to=images.applies)
