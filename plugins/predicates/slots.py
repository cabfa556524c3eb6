"""Pod slots: a node takes at most ``allocatable.pods`` pods, whatever they ask for."""

from __future__ import annotations

from plugins.predicates.verdicts import node_refusal
from volsched.framework.callbacks import Mask, Rows
from volsched.framework.engine import FastEngine
from volsched.model.columns import PODS
from volsched.model.node import NodeInfo
from volsched.model.task import TaskInfo
from volsched.model.verdict import Verdict

TOO_MANY = node_refusal("Too many pods")


def has_slot(_: TaskInfo, node: NodeInfo) -> Verdict | None:
    """Slots promised to pipelined pods are taken."""
    return None if node.allocatable[PODS] - node.used[PODS] - node.pipelined[PODS] >= 1 else TOO_MANY


def slot_rows(_: TaskInfo, engine: FastEngine, rows: Rows) -> Mask:
    """Answer as ``has_slot``, for many nodes at once."""
    columns = engine.columns
    left = columns.allocatable[PODS][rows] - columns.used[PODS][rows] - columns.pipelined[PODS][rows]
    found: Mask = left >= 1
    return found
