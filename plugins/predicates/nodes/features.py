"""Declared features: a pod that needs what not every kubelet can do."""

from __future__ import annotations

from collections.abc import Iterator

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.verdicts import node_refusal
from volsched.plugin import NodePropertiesView, PodConstraints, PodTemplate, Predicate, Registrar, Rule, Verdict

LACKS_FEATURES = node_refusal("node(s) didn't match Pod's required features", resolvable=False)


def rules(_registrar: Registrar, _wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes that lack a feature; nothing turns this off."""
    yield Predicate(declares_features, applies_to=needs_features)


def needs_features(template: PodTemplate) -> bool:
    """Whether a pod needs something that not every kubelet can do."""
    return bool(template.features)


def declares_features(pod: PodConstraints, node: NodePropertiesView) -> Verdict | None:
    """NodeDeclaredFeatures: the node must declare every feature that the pod needs."""
    return None if pod.features <= node.features else LACKS_FEATURES
