"""The rules with quotas for some CPU pods only: labels of pods decide, which are no part of their templates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugins.crossquota.budget import NodeBudgets
from plugins.crossquota.scoring import QuotaScore
from volsched.plugin import Floats, Mask, NodeInfo, NodeOrder, NodeTable, Predicate, Rows, Rule, TaskInfo, Verdict


class SelectedPods:
    """Asks the rules about the pods that they are for, and passes all others."""

    def __init__(self, budgets: NodeBudgets, score: QuotaScore) -> None:
        self._budgets = budgets
        self._score = score

    def key(self, task: TaskInfo) -> bool | None:
        """Return whether the rules are for this pod."""
        return True if self._budgets.pods.selects(task) else None

    def refuse(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """Refuse a node as ``NodeBudgets`` does."""
        return self._budgets.refuse(task.template, node) if self.key(task) else None

    def admit_rows(self, task: TaskInfo, nodes: NodeTable) -> Mask:
        """Answer as ``refuse``, for many nodes at once."""
        if self.key(task):
            return self._budgets.admit_rows(task.template, nodes)
        return np.ones(len(nodes.rows), dtype=np.bool_)

    def wordings(self, task: TaskInfo, nodes: NodeTable) -> Rows:
        """Number the nodes by the message about them."""
        return self._budgets.wordings(task.template, nodes)

    def score(self, task: TaskInfo, node: NodeInfo) -> float:
        """Score a node as ``QuotaScore`` does."""
        return self._score.score(task.template, node) if self.key(task) else 0.0

    def scores(self, task: TaskInfo, nodes: NodeTable) -> Floats:
        """Answer as ``score``, for many nodes at once."""
        return self._score.scores(task.template, nodes) if self.key(task) else np.zeros(len(nodes.rows))


def rules_for_pods(budgets: NodeBudgets, score: QuotaScore, *, scores: bool) -> Iterator[Rule]:
    """Return the rule and the score, with a key that selects the pods if quotas are for some only."""
    found = budgets if budgets.pods.selects_all else SelectedPods(budgets, score)
    key, version = (found.key, _never) if isinstance(found, SelectedPods) else (None, None)
    yield Predicate(
        found.refuse,
        vector=found.admit_rows,
        wordings=found.wordings,
        applies_to=budgets.applies,
        key=key,
        version=version,
    )
    points = found if isinstance(found, SelectedPods) else score
    if scores:
        yield NodeOrder(points.score, vector=points.scores, applies_to=budgets.applies, key=key, version=version)


def _never(_: TaskInfo) -> int:
    """Return the version: answers depend only on the node and on the key."""
    return 0
