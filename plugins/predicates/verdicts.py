"""Refusals in kube-scheduler's own words, for readers who know its Events."""

from __future__ import annotations

from functools import lru_cache

from volsched.plugin import ConditionReason, Scope, Step, Verdict

PLUGIN = "predicates"
REASON = "FailedScheduling"


@lru_cache(maxsize=1024)
def node_refusal(message: str, resolvable: bool = True) -> Verdict:
    """Refuse one node. ``resolvable`` states whether evicting pods could help."""
    return Verdict(Step.PREDICATE, PLUGIN, Scope.NODE, REASON, message, resolvable=resolvable)


def invalid(message: str) -> Verdict:
    """Refuse a pod with a field that cannot be understood."""
    return Verdict(Step.INVALID, PLUGIN, Scope.POD, REASON, message, resolvable=False)


def pod_refusal(message: str, shown_as: ConditionReason = ConditionReason.CLAIM_NOT_READY) -> Verdict:
    """Refuse a pod on every node: mostly one of its claims is not ready for it."""
    return Verdict(Step.PREDICATE, PLUGIN, Scope.POD, REASON, message, resolvable=False, shown_as=shown_as)
