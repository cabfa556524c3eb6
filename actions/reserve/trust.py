"""Whose durations are believed: not those of namespaces and queues whose pods run longer than they declare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, TypeAlias

from volsched.model.pods.task import TaskInfo

_NAMESPACE: Final = "namespace"
_QUEUE: Final = "queue"
_Whose: TypeAlias = tuple[str, str]


class Trust:
    """What came of declared durations, by namespace and by queue, since the scheduler began.

    A namespace or a queue is not believed once ``most`` of its pods have outlived what they declared, and these are
    more than half of all that were judged; 0: everybody is believed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._late: set[str] = set()
        self._outlived: Counter[_Whose] = Counter()
        self._judged: Counter[_Whose] = Counter()

    def outlived(self, task: TaskInfo, queue: str) -> None:
        """Note that a pod of a queue has run for longer than it declared. It is counted once."""
        if task.uid not in self._late:
            self._late.add(task.uid)
            self._outlived.update(_whose(task.namespace, queue))
            self._judged.update(_whose(task.namespace, queue))

    def over(self, task: TaskInfo, queue: str) -> None:
        """Note that a pod that declared a duration is over."""
        if task.uid in self._late:
            self._late.discard(task.uid)
        else:
            self._judged.update(_whose(task.namespace, queue))

    def is_lost(self, namespace: str, queue: str) -> bool:
        """True if what pods of a namespace, or of a queue, declare counts for nothing."""
        return bool(self._most) and any(map(self._is_lost, _whose(namespace, queue)))

    def _is_lost(self, whose: _Whose) -> bool:
        late = self._outlived.get(whose, 0)
        return late >= self._most and 2 * late > self._judged[whose]

    @property
    def counts(self) -> Mapping[str, int]:
        """How many pods of each namespace have outlived what they declared."""
        return {name: count for (kind, name), count in self._outlived.items() if kind == _NAMESPACE}


def _whose(namespace: str, queue: str) -> tuple[_Whose, ...]:
    return ((_NAMESPACE, namespace), (_QUEUE, queue)) if queue else ((_NAMESPACE, namespace),)
