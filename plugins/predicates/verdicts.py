"""Refusals in kube-scheduler's own words, so that whoever knows its events knows ours."""

from __future__ import annotations

from functools import lru_cache

from volsched.model.verdict import Scope, Step, Verdict

PLUGIN = "predicates"
REASON = "FailedScheduling"


@lru_cache(maxsize=1024)
def node_refusal(message: str, resolvable: bool = True) -> Verdict:
    """Refuse one node; ``resolvable`` says whether evicting pods could help."""
    return Verdict(Step.PREDICATE, PLUGIN, Scope.NODE, REASON, message, resolvable=resolvable)


def pod_refusal(message: str, step: Step = Step.PREDICATE) -> Verdict:
    """Refuse a pod whatever the node."""
    return Verdict(step, PLUGIN, Scope.POD, REASON, message, resolvable=False)
