"""Node selectors, evaluated for all rows at once from interned labels.

The scalar form is `NodeSelector.matches` and `NodeTerm.matches`. Here each requirement is asked once for every
different value that its label has in the cluster, and the answers are gathered by row.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from volsched.framework.columns.arrays import Mask
from volsched.framework.columns.tables import PropertyColumns
from volsched.framework.columns.views import NodePropertiesView
from volsched.model.nodes.node import NodeInfo
from volsched.model.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, NodeSelector, NodeTerm, Requirement


def selects(selector: NodeSelector, node: NodeInfo | NodePropertiesView) -> bool:
    """True if the selector matches a node. Reads the node's name only if the selector names nodes."""
    names = any(term.names or term.not_names for term in selector.terms or ())
    return selector.matches(node.name if names else "", node.labels)


def term_selects(term: NodeTerm, node: NodeInfo | NodePropertiesView) -> bool:
    """Return whether a node meets a term, as ``selects``."""
    return term.matches(node.name if term.names or term.not_names else "", node.labels)


def selector_mask(selector: NodeSelector, properties: PropertyColumns) -> Mask:
    """Mark the rows of all nodes that will do."""
    mask = np.ones(len(properties.cluster.rows), dtype=np.bool_)
    for key, value in selector.labels:
        mask &= _requirement_mask(Requirement(key, IN, (value,)), properties)
    if selector.terms is not None:
        any_term = np.zeros(len(mask), dtype=np.bool_)
        for term in selector.terms:
            any_term |= term_mask(term, properties)
        mask &= any_term
    return mask


def term_mask(term: NodeTerm, properties: PropertyColumns) -> Mask:
    """Mark the rows of all nodes that meet a term."""
    nodes = properties.cluster.nodes
    count = len(properties.cluster.rows)
    if term.is_empty:
        return np.zeros(count, dtype=np.bool_)
    mask = np.ones(count, dtype=np.bool_)
    for name in term.names:
        named = np.zeros(count, dtype=np.bool_)
        if name in nodes:
            named[nodes[name].row] = True
        mask &= named
    for name in term.not_names:
        if name in nodes:
            mask[nodes[name].row] = False
    for requirement in term.labels:
        mask &= _requirement_mask(requirement, properties)
    return mask


def _requirement_mask(requirement: Requirement, properties: PropertyColumns) -> Mask:
    path = ("label", requirement.key)
    found: Mask = _answers(requirement, properties.names(path))[properties.ids(path)]
    return found


def _answers(requirement: Requirement, names: Mapping[Hashable, int]) -> Mask:
    """For each value of the label, absence (None) among them, whether it meets the requirement."""
    operator = requirement.operator
    answers = np.full(len(names) + 1, operator in (NOT_IN, EXISTS), dtype=np.bool_)
    if operator in (IN, NOT_IN):
        for value in requirement.values:
            if value in names:
                answers[names[value]] = operator == IN
        return answers
    if operator in (EXISTS, DOES_NOT_EXIST):
        if None in names:
            answers[names[None]] = operator == DOES_NOT_EXIST
        return answers
    key = requirement.key
    for label, number in names.items():
        answers[number] = isinstance(label, str) and requirement.matches({key: label})
    return answers
