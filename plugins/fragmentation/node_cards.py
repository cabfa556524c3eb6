"""How many cards each node has, and what it has per card, kept by row as nodes change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from plugins.fragmentation.cluster_cards import MILLI, ClusterCards
from plugins.fragmentation.device_cards import DeviceCards
from volsched.plugin import MAX_AMOUNT, ChangedNodes, Cluster, NodeInfo

Ints = npt.NDArray[np.int64]
_NOTHING: Final = (0, 0, 0, 0)
_MOST_CARDS: Final = 1 << 40
"""Thousandths of a card that a node may state, so that the sums of all nodes can be added up."""


@dataclass(frozen=True, slots=True)
class Richest:
    """What the richest node has per card (thousandths of a core, bytes), and the most cards of one, in thousandths."""

    cpu: int = 0
    memory: int = 0
    cards: int = 0


class NodeCards:
    """The cards of nodes, those that are devices among them. Ask ``refresh`` before reading.

    ``version`` changes with them, and with whatever else nodes state of themselves.
    """

    def __init__(self, cluster: Cluster, cluster_cards: ClusterCards, devices: DeviceCards) -> None:
        self._cluster = cluster
        self._cluster_cards = cluster_cards
        self._devices = devices
        self._changes = ChangedNodes(cluster)
        self._seen: object = None
        self._of_rows: Ints = np.zeros((len(_NOTHING), 0), dtype=np.int64)
        self.version = 0
        self.richest = Richest()

    @property
    def usable(self) -> Ints:
        """Return the thousandths of a card that pods may take, by row: none on a node that takes no pods."""
        found: Ints = self._of_rows[0]
        return found

    def refresh(self) -> None:
        """Catch up with nodes, with what is a card, and with devices."""
        self._cluster_cards.refresh()
        self._devices.refresh()
        changed, seen = self._changes.take(), (self._cluster_cards.version, self._devices.version)
        nodes = self._cluster.rows
        if changed is None or seen != self._seen:
            self._seen = seen
            self._of_rows = np.array([_NOTHING, *map(self._of, nodes)], dtype=np.int64).T[:, 1:]
        elif changed:
            self._of_rows[:, changed] = np.array([self._of(nodes[row]) for row in changed], dtype=np.int64).T
        else:
            return
        self.version += 1
        most = self._of_rows.max(axis=1, initial=0)
        self.richest = Richest(cpu=int(most[1]), memory=int(most[2]), cards=int(most[3]))

    def _of(self, node: NodeInfo) -> tuple[int, ...]:
        """Return what pods may take of a node's cards, its CPU and memory per card, and all its cards."""
        cards = min(self._cluster_cards.cards(node) + self._devices.total(node.name), _MOST_CARDS)
        if not cards:
            return _NOTHING
        is_shut = node.unschedulable or node.terminating or node.quarantined
        cpu, memory = (MILLI * node.allocatable_of(name) // cards for name in ("cpu", "memory"))
        return 0 if is_shut else cards, min(cpu, MAX_AMOUNT), min(memory, MAX_AMOUNT), cards
