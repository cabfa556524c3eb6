"""A plugin as somebody writes it who has read one page: plain typed functions, nothing declared.

Three predicates and three scores, of the kind that sites have: which card, which taints, cards left; fill nodes up,
keep cpu and memory in step, and use plain cards first.
"""

from __future__ import annotations

from typing import ClassVar

from bench.worlds import CARD, CARDS, MODELS
from volsched.framework.registration import Registrar
from volsched.framework.rules import NodeOrder, Predicate
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.verdict import Scope, Step, Verdict


def _refusal(message: str) -> Verdict:
    return Verdict(Step.PREDICATE, "plain", Scope.NODE, "FailedScheduling", message)


OTHER_CARD = _refusal("node(s) had another card")
TAINTED = _refusal("node(s) had a taint")
TOO_FEW_CARDS = _refusal("node(s) had too few cards")


class PlainPlugin:
    """Everything about nodes that this site cares for."""

    name: ClassVar[str] = "plain"

    def on_session_open(self, registrar: Registrar) -> None:
        """Register."""
        registrar.register(Predicate(has_card))
        registrar.register(Predicate(is_tolerated))
        registrar.register(Predicate(has_cards_left))
        registrar.register(NodeOrder(fullness))
        registrar.register(NodeOrder(balance))
        registrar.register(NodeOrder(plainness))


def has_card(template: PodTemplate, node: NodeInfo) -> Verdict | None:
    selector = template.required_nodes
    return None if selector is None or (CARD, node.labels[CARD]) in selector.labels else OTHER_CARD


def is_tolerated(template: PodTemplate, node: NodeInfo) -> Verdict | None:
    return None if all(template.tolerates(taint) for taint in node.taints) else TAINTED


def has_cards_left(template: PodTemplate, node: NodeInfo) -> Verdict | None:
    return None if node.idle_of(CARDS) >= template.request[CARDS] else TOO_FEW_CARDS


def fullness(_: PodTemplate, node: NodeInfo) -> float:
    return 100.0 * node.used_of(CARDS) / node.allocatable_of(CARDS)


def balance(_: PodTemplate, node: NodeInfo) -> float:
    cpu = node.used_of("cpu") / node.allocatable_of("cpu")
    memory = node.used_of("memory") / node.allocatable_of("memory")
    return 10.0 - 10.0 * abs(cpu - memory)


def plainness(_: PodTemplate, node: NodeInfo) -> float:
    return 5.0 * MODELS.index(node.labels[CARD])
