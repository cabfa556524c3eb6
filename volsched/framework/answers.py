"""Checks of the values that callbacks return: a wrong type is an error that names the plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from volsched.framework.callbacks import ProtectedFn
from volsched.framework.columns.arrays import Floats, Mask
from volsched.framework.rules import NodeOrder, Predicate
from volsched.framework.signature import name_of
from volsched.model.errors import VolschedError
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import Verdict

_VERDICT: Final = "it returns None where the node will do, else a Verdict"
_NUMBER: Final = "it returns a number for every node"


class AnswerError(VolschedError):
    """A callback of ``plugin`` returned what is no answer."""

    def __init__(self, plugin: str, fn: Callable[..., Any], answer: object, rightly: str) -> None:
        self.plugin = plugin
        super().__init__(f"plugin {plugin}: {name_of(fn)} returned {answer!r}; {rightly}")


def is_protected(plugin: str, protects: ProtectedFn, victim: TaskInfo, task: TaskInfo) -> bool:
    """Ask a plugin whether a pod may not be evicted for a task. Raises AnswerError."""
    answer: object = protects(victim, task)
    if answer is True or answer is False:
        return answer
    raise AnswerError(plugin, protects, answer, "it returns True where the pod may not be evicted, else False")


def ask_predicate(predicate: Predicate, task: TaskInfo, node: NodeInfo) -> Verdict | None:
    """Ask a predicate about one node. Raises AnswerError."""
    return checked_refusal(predicate, predicate.ask(task, node))


def checked_refusal(predicate: Predicate, answer: object) -> Verdict | None:
    """Return what a predicate answered. Raises AnswerError."""
    if answer is None or isinstance(answer, Verdict):
        return answer
    raise AnswerError(predicate.plugin, predicate.fn, answer, _VERDICT)


def as_mask(predicate: Predicate, answer: Any, rows: int) -> Mask:
    """Return what the vector twin of a predicate answered about so many rows. Raises AnswerError."""
    if isinstance(answer, np.ndarray) and answer.dtype == np.bool_ and answer.shape == (rows,):
        return answer
    raise AnswerError(
        predicate.plugin, predicate.fn, answer, f"its vector twin returns an array of {rows} bools, one for each row"
    )


def as_scores(order: NodeOrder, answer: Any, rows: int) -> Floats:
    """Return what a node order answered about so many rows. Raises AnswerError."""
    found = np.asarray(answer, dtype=np.float64)
    if found.shape != (rows,):
        raise AnswerError(
            order.plugin, order.fn, answer, f"its vector twin returns an array of {rows} numbers, one for each row"
        )
    if np.isnan(found).any():
        raise AnswerError(order.plugin, order.fn, list(answer)[int(np.isnan(found).argmax())], _NUMBER)
    return found


def check_scores(orders: Iterable[NodeOrder], task: TaskInfo, node: NodeInfo) -> None:
    """Find whose score of a node is no number, where the sum is none. Raises AnswerError."""
    for order in orders:
        if order.applies_to_task(task):
            score = order.ask(task, node)
            if not isinstance(score, (int, float, np.number)) or score != score:  # noqa: PLR0124 - not a number
                raise AnswerError(order.plugin, order.fn, score, _NUMBER)
