"""What is odd about a node's cards, told once as an Event on the Node and once more when it is over."""

from __future__ import annotations

from typing import Final

from plugins.mgpu.devices import CARD_IDS
from plugins.mgpu.usage import CardAccount, NodeCardUsage
from volsched.plugin import NodeInfo, Session, about_node, about_pod

UNKNOWN: Final = "CardStateUnknown"
KNOWN: Final = "CardStateKnown"
OVERDRAWN: Final = "CardsOverdrawn"
ODD: Final = "OddCards"
CHANGED: Final = "CardResultChanged"

_NO_IDS: Final = f"predicate.MGPUScheduleMode is id, and annotation {CARD_IDS} is missing: indexes are used"
_CHANGED: Final = "the annotations that say its cards were changed after it was bound; what it was bound to counts"
_WAY_OUT: Final = "no more pods get cards here until it is gone, or its annotations say its cards"


class NodeEvents:
    """Remembers what was told of each node, and looks at those whose account changed.

    ``by_id`` states that pods are told the ids of cards, so that a node without any is odd.
    """

    def __init__(self, usage: NodeCardUsage, *, by_id: bool) -> None:
        self._usage = usage
        self._by_id = by_id
        self._reported: dict[str, dict[str, str]] = {}
        self._changed: dict[str, dict[str, str]] = {}

    def report(self, session: Session, changed: dict[str, None]) -> None:
        """Have Events recorded on the nodes of whose cards there is something new to report."""
        for name in sorted(changed):
            node = session.cluster.nodes.get(name)
            if node is None:
                self._reported.pop(name, None)
                self._changed.pop(name, None)
                continue
            self._report_pods(session, node)
            before = self._reported.pop(name, {})
            now = _findings(self._usage.nodes.get(name), by_id=self._by_id)
            if now:
                self._reported[name] = now
            self._compare(session, node, before, now)

    def _report_pods(self, session: Session, node: NodeInfo) -> None:
        """Have an Event recorded on each pod whose annotations do not name any more what it was given."""
        account, before = self._usage.nodes.get(node.name), self._changed.pop(node.name, {})
        if account is None or not account.changed:
            return
        self._changed[node.name] = dict(account.changed)
        for uid, text in account.changed.items():
            task = session.cluster.tasks.get(uid)
            if task is not None and before.get(uid) != text:
                session.record_event(about_pod(task, "Warning", CHANGED, f"{_CHANGED} (now {text})"))

    def _compare(self, session: Session, node: NodeInfo, before: dict[str, str], now: dict[str, str]) -> None:
        if before.get(UNKNOWN, "") != now.get(UNKNOWN, "") and UNKNOWN in now:
            session.record_event(about_node(node, "Warning", UNKNOWN, now[UNKNOWN]))
        if UNKNOWN in before and UNKNOWN not in now:
            session.record_event(about_node(node, "Normal", KNOWN, "the cards of all pods are known again"))
        if OVERDRAWN in now and before.get(OVERDRAWN) != now[OVERDRAWN]:
            session.record_event(about_node(node, "Warning", OVERDRAWN, now[OVERDRAWN]))
        if ODD in now and before.get(ODD) != now[ODD]:
            session.record_event(about_node(node, "Warning", ODD, now[ODD]))


def _findings(account: CardAccount | None, *, by_id: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    if account is None:
        return found
    if account.unclear:
        first = min(account.unclear.values())
        others = f" (and {len(account.unclear) - 1} more)" if len(account.unclear) > 1 else ""
        found[UNKNOWN] = f"which cards are in use is not known: {first}{others}; {_WAY_OUT}"
    if account.overdrawn:
        cards = ", ".join(map(str, account.overdrawn))
        found[OVERDRAWN] = (
            f"pods hold more than there is of card {cards}; nothing is added until enough of them are gone"
        )
    odd = [*account.cards.warnings]
    if by_id and account.cards.is_silent:
        odd.append(_NO_IDS)
    if odd:
        found[ODD] = "; ".join(odd)
    return found
