"""Cordons: a node that takes no new pods."""

from __future__ import annotations

from collections.abc import Iterator

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.verdicts import node_refusal
from volsched.model.api import Taint
from volsched.plugin import NodePropertiesView, PodConstraints, Predicate, Registrar, Rule, Verdict

CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")

UNSCHEDULABLE = node_refusal("node(s) were unschedulable", resolvable=False)
QUARANTINED = node_refusal("node(s) had a pod that cannot be read", resolvable=False)
TERMINATING = node_refusal("node(s) were being deleted", resolvable=False)


def rules(_registrar: Registrar, _wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes that take nobody; nothing turns this off."""
    yield Predicate(is_schedulable)


def is_schedulable(pod: PodConstraints, node: NodePropertiesView) -> Verdict | None:
    """NodeUnschedulable: a cordoned node takes only pods that tolerate the cordon.

    One that is being deleted takes nobody, nor does one on which a pod runs that cannot be read.
    """
    if node.terminating:
        return TERMINATING
    if node.quarantined:
        return QUARANTINED
    if node.unschedulable and not pod.tolerates(CORDON):
        return UNSCHEDULABLE
    return None
