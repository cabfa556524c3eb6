"""Which queues are below which: found out again only when a queue came, went, or was put below another one."""

from __future__ import annotations

from collections.abc import Mapping

from volsched.model.cluster import Cluster
from volsched.model.queues.queue import levels


class QueueTree:
    """The tree of a cluster's queues, as ``Cluster.clocks.queue_tree`` counts its versions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._version = -1
        self._named: frozenset[str] = frozenset()
        self._below: Mapping[str, tuple[str, ...]] = {}

    def is_parent(self, name: str) -> bool:
        """Whether any queue states that it is below this one."""
        self._catch_up()
        return name in self._named

    def below(self, name: str) -> tuple[str, ...]:
        """Return the queues right below this one; those that are below no other are below the root."""
        self._catch_up()
        return self._below.get(name, ())

    def _catch_up(self) -> None:
        if self._version == self._cluster.clocks.queue_tree:
            return
        self._version = self._cluster.clocks.queue_tree
        queues = self._cluster.queues
        self._named = frozenset(queue.parent for queue in queues.values())
        below: dict[str, list[str]] = {}
        for name in queues:
            for above in levels(queues, name)[1:2]:
                below.setdefault(above, []).append(name)
        self._below = {name: tuple(found) for name, found in below.items()}
