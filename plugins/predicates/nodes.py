"""Rules about what a node says of itself: cordons, taints, labels, declared features.

All of them are static: asked once for each class of nodes that say the same.
"""

from __future__ import annotations

from functools import lru_cache

from plugins.predicates.verdicts import node_refusal
from volsched.framework.columns.arrays import Mask
from volsched.framework.columns.node_terms import selector_mask, selects
from volsched.framework.columns.views import NodeFacts, NodeTable
from volsched.model.pods.template import PodTemplate, Taint
from volsched.model.verdict import Verdict

CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
HARD_EFFECTS = ("NoSchedule", "NoExecute")

UNSCHEDULABLE = node_refusal("node(s) were unschedulable", resolvable=False)
QUARANTINED = node_refusal("node(s) had a pod that cannot be read", resolvable=False)
TERMINATING = node_refusal("node(s) were being deleted", resolvable=False)
NOT_AFFINE = node_refusal("node(s) didn't match Pod's node affinity/selector", resolvable=False)
LACKS_FEATURES = node_refusal("node(s) didn't match Pod's required features", resolvable=False)


def is_schedulable(template: PodTemplate, node: NodeFacts) -> Verdict | None:
    """NodeUnschedulable: a cordoned node takes only pods that tolerate the cordon.

    One that is being deleted takes nobody, nor does one on which a pod runs that cannot be read.
    """
    if node.terminating:
        return TERMINATING
    if node.quarantined:
        return QUARANTINED
    if node.unschedulable and not template.tolerates(CORDON):
        return UNSCHEDULABLE
    return None


def tolerates_taints(template: PodTemplate, node: NodeFacts) -> Verdict | None:
    """TaintToleration: every NoSchedule and NoExecute taint must be tolerated."""
    for taint in node.taints:
        if taint.effect in HARD_EFFECTS and not template.tolerates(taint):
            return _untolerated(taint)
    return None


@lru_cache(maxsize=1024)
def _untolerated(taint: Taint) -> Verdict:
    """Name the taint, as kube-scheduler did before 1.36: who reads why a pod waits wants to know which it was."""
    return node_refusal(f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}", resolvable=False)


def has_node_terms(template: PodTemplate) -> bool:
    """Whether a pod asks for certain nodes."""
    return template.required_nodes is not None


def matches_node_affinity(template: PodTemplate, node: NodeFacts) -> Verdict | None:
    """NodeAffinity: the node selector's labels and one of the required terms."""
    selector = template.required_nodes
    return None if selector is None or selects(selector, node) else NOT_AFFINE


def node_affinity_rows(template: PodTemplate, nodes: NodeTable) -> Mask:
    """Answer as ``matches_node_affinity``, for many nodes at once."""
    selector = template.required_nodes
    assert selector is not None  # noqa: S101 - has_node_terms was asked
    found: Mask = selector_mask(selector, nodes.facts)[nodes.rows]
    return found


def needs_features(template: PodTemplate) -> bool:
    """Whether a pod needs something that not every kubelet can do."""
    return bool(template.features)


def declares_features(template: PodTemplate, node: NodeFacts) -> Verdict | None:
    """NodeDeclaredFeatures: the node must declare every feature that the pod needs."""
    return None if template.features <= node.features else LACKS_FEATURES
