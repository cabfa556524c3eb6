"""Pod slots: a node takes at most ``allocatable.pods`` pods, whatever they ask for."""

from __future__ import annotations

from collections.abc import Iterator

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.verdicts import node_refusal
from volsched.model.nodes.columns import PODS
from volsched.plugin import Mask, NodeAmounts, NodeTable, PodRequest, Predicate, Registrar, Rule, Verdict

TOO_MANY = node_refusal("Too many pods")


def rules(_registrar: Registrar, _wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes without a slot left; nothing turns this off."""
    yield Predicate(has_slot, vector=slot_rows)


def has_slot(_: PodRequest, node: NodeAmounts) -> Verdict | None:
    """Slots promised to pipelined pods are taken."""
    return None if node.allocatable[PODS] - node.used[PODS] - node.pipelined[PODS] >= 1 else TOO_MANY


def slot_rows(_: PodRequest, nodes: NodeTable) -> Mask:
    """Answer as ``has_slot``, for many nodes at once."""
    columns, rows = nodes.columns, nodes.rows
    left = columns.allocatable[PODS][rows] - columns.used[PODS][rows] - columns.pipelined[PODS][rows]
    found: Mask = left >= 1
    return found
