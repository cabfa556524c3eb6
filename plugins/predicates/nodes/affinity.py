"""Node affinity: a pod that asks for certain nodes."""

from __future__ import annotations

from collections.abc import Iterator

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.verdicts import node_refusal
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

NOT_AFFINE = node_refusal("node(s) didn't match Pod's node affinity/selector", resolvable=False)


def rules(_: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes that a pod does not ask for."""
    if wanted.node_affinity:
        yield Predicate(matches_node_affinity, vector=node_affinity_rows, applies_to=has_node_terms)


def has_node_terms(template: PodTemplate) -> bool:
    """Whether a pod asks for certain nodes."""
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
