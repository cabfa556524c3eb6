"""PodDisruptionBudgets as evictions see them: the protected pods, and the allowed disruptions."""

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
        """True if it counts the pod."""
        return task.namespace == self.namespace and self.selector.matches(task.spec.labels)


def pods_stated(stated: int | str, total: int, *, rounds_up: bool = True) -> int | None:
    """Return the number of pods that is stated, or a percentage of ``total``, or None when it is neither."""
    if isinstance(stated, int):
        return stated
    text = stated.removesuffix("%")
    if text == stated or not (text.isascii() and text.isdigit() and len(text) < 10):
        return None
    return -(-int(text) * total // 100) if rounds_up else int(text) * total // 100
