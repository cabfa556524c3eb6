"""Taints: a node takes only pods that tolerate its taints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.verdicts import node_refusal
from volsched.model.api import Taint
from volsched.plugin import NodePropertiesView, PodConstraints, Predicate, Registrar, Rule, Verdict

HARD_EFFECTS = ("NoSchedule", "NoExecute")


def rules(_: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes with taints that a pod does not tolerate."""
    if wanted.taint_toleration:
        yield Predicate(tolerates_taints)


def tolerates_taints(pod: PodConstraints, node: NodePropertiesView) -> Verdict | None:
    """TaintToleration: every NoSchedule and NoExecute taint must be tolerated."""
    for taint in node.taints:
        if taint.effect in HARD_EFFECTS and not pod.tolerates(taint):
            return _untolerated(taint)
    return None


@lru_cache(maxsize=1024)
def _untolerated(taint: Taint) -> Verdict:
    """Name the taint, as kube-scheduler did before 1.36: who reads why a pod waits wants to know which it was."""
    return node_refusal(f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}", resolvable=False)
