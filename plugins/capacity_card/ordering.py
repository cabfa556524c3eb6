"""Which node is better, and which queue goes first.

Of a list of cards the leftmost is liked best: a node scores 100 x 0.5^index x ``nodeOrderWeight`` for the first card of
the list that it offers (100, 50, 25, 12.5 and so on), whatever is left of quota or cards. A task of one card, or of
none, tells no nodes apart.

Of queues the one of higher ``spec.priority`` goes first, then the one with the smaller share: the largest part of what
it deserves that it holds of anything; what it deserves none of is passed over. A queue deserves, of cards, its quota
within what the cluster has; of cpu and memory ``spec.deserved`` within what others' guarantees leave, and not less than
its own guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from plugins.capacity_card.ledger import Account, Ledger
from plugins.capacity_card.wants import Seat
from volsched.framework.callbacks import Floats, Rows
from volsched.framework.engine import FastEngine
from volsched.model.cluster import Cluster
from volsched.model.columns import CPU as CPU_COLUMN
from volsched.model.columns import MEMORY as MEMORY_COLUMN
from volsched.model.node import NodeInfo
from volsched.model.queue import QueueInfo
from volsched.model.resources import CPU, MEMORY
from volsched.model.task import TaskInfo

BEST_SCORE = 100.0


class NodeOrder:
    """Scores nodes for tasks with a list of cards."""

    def __init__(self, ledger: Ledger, weight: float) -> None:
        self._ledger = ledger
        self._weight = weight

    def score(self, task: TaskInfo, node: NodeInfo) -> float:
        """Score one node."""
        return self._points(task, self._ledger.offered(task, node))

    def scores(self, task: TaskInfo, engine: FastEngine, rows: Rows) -> Floats:
        """``score`` for many nodes."""
        points = (self._points(task, seat) for seat in self._ledger.offered_by_kinds(task))
        found: Floats = np.fromiter(points, np.float64)[self._ledger.catalogue.kind_rows()[rows]]
        return found

    def _points(self, task: TaskInfo, seat: Seat | None) -> float:
        names = self._ledger.wants.of(task.template).names
        if seat is None or len(names) < 2:
            return 0.0
        return BEST_SCORE * 0.5 ** names.index(seat.card) * self._weight


class QueueOrder:
    """Orders queues by priority and share."""

    def __init__(self, cluster: Cluster, ledger: Ledger) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._keys: dict[str, tuple[tuple[int, ...], tuple[int, float]]] = {}
        self._deserved: dict[str, Account] = {}
        self._made_from: tuple[int, ...] = ()

    def key(self, queue: QueueInfo) -> tuple[int, float]:
        """The place of a queue; smaller goes first."""
        deserved, account = self.deserved(), self._ledger.account(queue.name)
        state = (account.version, *self._made_from)
        known = self._keys.get(queue.name)
        if known is not None and known[0] == state:
            return known[1]
        key = -queue.priority, share(account, deserved.get(queue.name, Account()))
        self._keys[queue.name] = state, key
        return key

    def deserved(self) -> Mapping[str, Account]:
        """What each queue deserves, made anew when limits or the cluster changed."""
        ledger = self._ledger
        made_from = (ledger.limits.version, ledger.catalogue.stock, *self._cluster.totals[: MEMORY_COLUMN + 1])
        if made_from != self._made_from:
            self._deserved, self._made_from = self._share_out(), made_from
        return self._deserved

    def _share_out(self) -> dict[str, Account]:
        queues, ledger = self._cluster.queues, self._ledger
        found = {name: Account() for name in queues}
        for resource, column in ((CPU, CPU_COLUMN), (MEMORY, MEMORY_COLUMN)):
            guaranteed = sum(queue.guarantee.get(resource, 0) for queue in queues.values())
            total = sum(self._cluster.totals[column : column + 1])  # no node has said anything yet: none
            free = max(0, total - guaranteed)
            for name, queue in queues.items():
                own = queue.guarantee.get(resource, 0)
                setattr(found[name], resource, max(min(queue.deserved.get(resource, 0), free + own), own))
        there = ledger.catalogue.totals
        for name, account in found.items():
            quota = ledger.limits.quota(name)
            account.cards = {card: least for card, most in quota.items() if (least := min(most, there.get(card, 0)))}
        return found


def share(held: Account, deserved: Account) -> float:
    """The largest part of its due that is held of anything; 0 when nothing is due."""
    parts = [held.cards.get(card, 0) / due for card, due in deserved.cards.items() if due > 0]
    parts.extend(have / due for have, due in ((held.cpu, deserved.cpu), (held.memory, deserved.memory)) if due > 0)
    return max(parts, default=0.0)
