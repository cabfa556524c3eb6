"""PodDisruptionBudgets as the mirror takes them in."""

from __future__ import annotations

from volsched.mirror.problems import ReadingProblems
from volsched.model import api
from volsched.model.budget import Budget
from volsched.model.changes import Deleted
from volsched.model.cluster import Cluster
from volsched.model.errors import FieldError
from volsched.model.generations import ClusterEvent
from volsched.model.selectors import LabelSelector


class Budgets:
    """The disruption budgets of a cluster, by namespace and name."""

    def __init__(self, cluster: Cluster, problems: ReadingProblems) -> None:
        self._cluster = cluster
        self._problems = problems

    def put(self, found: api.PodDisruptionBudget) -> None:
        """Take a PodDisruptionBudget in."""
        meta = found.metadata
        try:
            selector = LabelSelector.parse(found.spec.selector, "spec.selector")
        except FieldError as error:
            self._problems.reporter("PodDisruptionBudget", found)(error.path, error.message)
            selector = LabelSelector.of({})  # it protects more rather than fewer
        budget = Budget(meta.namespace, meta.name, selector, found.status.disruptions_allowed)
        known = self._cluster.budgets.get(budget.key)
        self._cluster.budgets[budget.key] = budget
        if known is not None and (known.selector != budget.selector or known.allowed < budget.allowed):
            self._cluster.wake(ClusterEvent.VICTIMS_CHANGED)

    def drop(self, gone: Deleted) -> None:
        """Forget a PodDisruptionBudget."""
        if self._cluster.budgets.pop(f"{gone.namespace}/{gone.name}", None) is not None:
            self._cluster.wake(ClusterEvent.VICTIMS_CHANGED)
