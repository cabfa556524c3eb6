"""How scarce the cards of each node are: what those insist on who do not take any card.

    scarce(node) = (cards of the cluster / cards demanded) x sum over groups g that accept the node of d_g / cards_g

where ``d_g`` is what the pods of a group demand and ``cards_g`` what the nodes have that it accepts: each demand is
spread over what would do for it. Groups that accept every card do not count. A node's model need not be known for
that: whatever pods select by, node selectors, affinity, taints, lists of cards and selectors of devices, tells. It is
about 1 where those who insist fill the nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from plugins.fragmentation.card_requests import Group
from plugins.fragmentation.node_cards import NodeCards
from plugins.fragmentation.selections import Selections
from volsched.plugin import Cluster, Floats, Mask, PropertyColumns, selector_mask
from volsched.plugin.cards import CardLists

MOST_GROUPS: Final = 64
"""The most groups that count, the largest ones: users decide how many there are."""
_EXACT: Final = 1 << 20
_STEPS: Final = 32
_KEEPS_OUT: Final = ("NoSchedule", "NoExecute")


class Scarcity:
    """Works out how scarce the cards of each node are, by row of the cluster."""

    def __init__(self, cluster: Cluster, cards: NodeCards, lists: CardLists, selections: Selections) -> None:
        self._cluster = cluster
        self._cards = cards
        self._lists = lists
        self._selections = selections
        self._properties = PropertyColumns(cluster)
        self._seen: object = None
        self._masks: dict[Group, Mask] = {}

    def of(self, demanded: Mapping[Group, int], cards: int) -> Floats:
        """Return the scarcity of each row, in steps of 1/32. ``cards`` is all that is demanded, in thousandths."""
        self._look_at_nodes()
        usable = self._cards.usable
        total = int(usable.sum())
        sums = np.zeros(len(usable), dtype=np.int64)
        for group in _largest(demanded):
            mask = self._mask(group)
            accepted = int(usable[mask].sum())
            if 0 < accepted < total:
                sums[mask] += demanded[group] * _EXACT // accepted
        if not cards:
            return np.zeros(len(sums))
        found: Floats = np.floor(sums * (_STEPS * total / cards / _EXACT) + 0.5) / _STEPS
        return found

    def accepted_by(self, groups: Collection[Group]) -> Mask:
        """Mark the rows that any of some groups accepts; all rows without a group."""
        self._look_at_nodes()
        found = np.full(len(self._cluster.rows), not groups, dtype=np.bool_)
        for group in groups:
            found |= self._mask(group)
        return found

    def _look_at_nodes(self) -> None:
        self._cards.refresh()
        seen = (self._cards.version, self._selections.version, len(self._lists.sources))
        if seen == self._seen:
            return
        self._seen = seen
        self._properties.refresh()
        self._masks.clear()

    def _mask(self, group: Group) -> Mask:
        found = self._masks.get(group)
        if found is None:
            if len(self._masks) > 4 * MOST_GROUPS:
                self._masks.clear()
            found = self._masks[group] = self._accepted(group)
        return found

    def _accepted(self, group: Group) -> Mask:
        taints = self._properties.names(("taints", ""))
        tolerated = np.ones(len(taints) + 1, dtype=np.bool_)
        for said, number in taints.items():
            hard = [taint for taint in said if taint.effect in _KEEPS_OUT]  # type: ignore[attr-defined]
            tolerated[number] = all(any(t.tolerates(taint) for t in group.tolerations) for taint in hard)
        mask: Mask = tolerated[self._properties.ids(("taints", ""))]
        if group.nodes is not None:
            mask = mask & selector_mask(group.nodes, self._properties)
        for offering in self._lists.rows(group.cards) if group.cards is not None else ():
            mask = mask & offering
        for wanted in group.devices:
            mask = mask & self._selections.of(wanted).rows
        return mask


def _largest(demanded: Mapping[Group, int]) -> list[Group]:
    if len(demanded) <= MOST_GROUPS:
        return list(demanded)
    return sorted(demanded, key=lambda group: (-demanded[group], repr(group)))[:MOST_GROUPS]
