"""Nodes that take no new pods because a pod that runs there cannot be read."""

from __future__ import annotations

from dataclasses import replace

from volsched.mirror.quarantine import Identity, Quarantine, QuarantinedObject
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeProperties


class ClosedNodes:
    """Has the specs of nodes state whether an object in quarantine closes them."""

    def __init__(self, cluster: Cluster, quarantine: Quarantine) -> None:
        self._cluster = cluster
        self._quarantine = quarantine

    def set_aside(self, found: QuarantinedObject | None) -> None:
        """Leave an object as it was last understood; the node of an unreadable pod takes no new pods."""
        if found is None:
            return
        if found.uid in self._cluster.tasks:
            found = replace(found, node="")
        before = self._quarantine.add(found)
        self._close_or_open(found, before)

    def take_back(self, identity: Identity | None) -> None:
        """End the quarantine of an object that could be taken in."""
        if identity is not None:
            self._close_or_open(self._quarantine.drop(identity))

    def spec_of(self, spec: NodeProperties) -> NodeProperties:
        """Return the spec of a node with what the quarantine adds to it."""
        return self._closed_or_not(spec) if self._quarantine else spec

    def _close_or_open(self, *found: QuarantinedObject | None) -> None:
        """Have the nodes on which these run take something new or not, as it is now."""
        for name in {each.node for each in found if each is not None}:
            node = self._cluster.nodes.get(name)
            if node is not None:
                self._cluster.node_cache.set_spec(node, self._closed_or_not(node.spec))

    def _closed_or_not(self, spec: NodeProperties) -> NodeProperties:
        closed = spec.name in self._quarantine.closed_nodes()
        return spec if spec.quarantined == closed else replace(spec, quarantined=closed)
