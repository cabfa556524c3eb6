"""Whose durations are believed: a namespace whose pods run longer than they declare is not, until they do better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from volsched.model.pods.task import TaskInfo


class Trust:
    """What came of declared durations, by namespace, since the scheduler began.

    A namespace is not believed once ``most`` of its pods have outlived what they declared, and these are more than half
    of all that were judged; 0: everybody is believed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._late: set[str] = set()
        self._outlived: Counter[str] = Counter()
        self._judged: Counter[str] = Counter()

    def outlived(self, task: TaskInfo) -> None:
        """Note that a pod has run for longer than it declared; it is counted once."""
        if task.uid not in self._late:
            self._late.add(task.uid)
            self._outlived[task.namespace] += 1
            self._judged[task.namespace] += 1

    def over(self, task: TaskInfo) -> None:
        """Note that a pod that declared a duration is over."""
        if task.uid in self._late:
            self._late.discard(task.uid)
        else:
            self._judged[task.namespace] += 1

    def is_lost(self, namespace: str) -> bool:
        """Whether what pods of a namespace declare counts for nothing."""
        late = self._outlived[namespace] if self._most and namespace in self._outlived else 0
        return bool(self._most) and late >= self._most and 2 * late > self._judged[namespace]

    @property
    def counts(self) -> Mapping[str, int]:
        """How many pods of each namespace have outlived what they declared."""
        return self._outlived
