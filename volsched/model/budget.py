"""PodDisruptionBudgets as evictions see them: which pods they protect, and how many of those may go now."""

from __future__ import annotations

from dataclasses import dataclass

from volsched.model.pods.task import TaskInfo
from volsched.model.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class Budget:
    """One PodDisruptionBudget. ``allowed`` is its status' disruptionsAllowed."""

    namespace: str
    name: str
    selector: LabelSelector
    allowed: int

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    def protects(self, task: TaskInfo) -> bool:
        """Whether a pod is one of those that it counts."""
        return task.namespace == self.namespace and self.selector.matches(task.labels)
