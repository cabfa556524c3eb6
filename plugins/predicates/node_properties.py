"""Rules about properties of nodes: cordons, taints, node affinity and declared features.

All are static: asked once for each class of nodes with equal properties.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.verdicts import node_refusal
from volsched.model.api import Taint
from volsched.plugin import (
    Mask,
    NodePropertiesView,
    NodeTable,
    PodConstraints,
    PodTemplate,
    Predicate,
    Registrar,
    Rule,
    Verdict,
    selector_mask,
    selects,
)

CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")

UNSCHEDULABLE = node_refusal("node(s) were unschedulable", resolvable=False)
QUARANTINED = node_refusal("node(s) had a pod that cannot be read", resolvable=False)
TERMINATING = node_refusal("node(s) were being deleted", resolvable=False)


def rules(registrar: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes by their properties, in kube-scheduler's order."""
    yield from _schedulable_rules(registrar, wanted)
    yield from _taints_rules(registrar, wanted)
    yield from _affinity_rules(registrar, wanted)
    yield from _features_rules(registrar, wanted)


def _schedulable_rules(_registrar: Registrar, _wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes that take no pods; nothing turns this off."""
    yield Predicate(is_schedulable)


def is_schedulable(pod: PodConstraints, node: NodePropertiesView) -> Verdict | None:
    """NodeUnschedulable: a cordoned node takes only pods that tolerate the cordon.

    A node that is being deleted takes no pod, nor does one on which a pod runs that cannot be read.
    """
    if node.terminating:
        return TERMINATING
    if node.quarantined:
        return QUARANTINED
    if node.unschedulable and not pod.tolerates(CORDON):
        return UNSCHEDULABLE
    return None


HARD_EFFECTS = ("NoSchedule", "NoExecute")


def _taints_rules(_: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
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
    """Name the taint, as kube-scheduler did before 1.36: readers want to know which it was."""
    return node_refusal(f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}", resolvable=False)


NOT_AFFINE = node_refusal("node(s) didn't match Pod's node affinity/selector", resolvable=False)


def _affinity_rules(_: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes that a pod does not ask for."""
    if wanted.node_affinity:
        yield Predicate(matches_node_affinity, vector=node_affinity_rows, applies_to=has_node_terms)


def has_node_terms(template: PodTemplate) -> bool:
    """True if a pod asks for certain nodes."""
    return template.required_nodes is not None


def matches_node_affinity(pod: PodConstraints, node: NodePropertiesView) -> Verdict | None:
    """NodeAffinity: the node selector's labels and one of the required terms."""
    selector = pod.required_nodes
    return None if selector is None or selects(selector, node) else NOT_AFFINE


def node_affinity_rows(pod: PodConstraints, nodes: NodeTable) -> Mask:
    """Answer as ``matches_node_affinity``, for many nodes at once."""
    selector = pod.required_nodes
    assert selector is not None  # noqa: S101 - has_node_terms was asked
    found: Mask = selector_mask(selector, nodes.properties)[nodes.rows]
    return found


LACKS_FEATURES = node_refusal("node(s) didn't match Pod's required features", resolvable=False)


def _features_rules(_registrar: Registrar, _wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes that lack a feature; nothing turns this off."""
    yield Predicate(declares_features, applies_to=needs_features)


def needs_features(template: PodTemplate) -> bool:
    """True if a pod needs something that not every kubelet can do."""
    return bool(template.features)


def declares_features(pod: PodConstraints, node: NodePropertiesView) -> Verdict | None:
    """NodeDeclaredFeatures: the node must declare every feature that the pod needs."""
    return None if pod.features <= node.features else LACKS_FEATURES
