"""Whose durations are believed: not those of namespaces and queues whose pods run longer than they declare."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from volsched.model.pods.task import TaskInfo

_NAMESPACE: Final = "namespace"
_QUEUE: Final = "queue"
_Whose: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class _Weights:
    """How much pods weigh that outlived what they declared, and how much those that did not."""

    outlived: float = 0.0
    kept: float = 0.0


class Trust:
    """What came of declared durations, by namespace and by queue, since the scheduler began.

    A namespace or a queue is not believed once ``most`` of its pods have outlived what they declared, and these weigh
    more than half of all that were judged; 0: everybody is believed. A pod weighs the part of its node that it took,
    times the seconds that it ran: many small pods that keep to what they declare do not make up for large ones.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._late: dict[str, float] = {}
        self._outlived: Counter[_Whose] = Counter()
        self._weights: defaultdict[_Whose, _Weights] = defaultdict(_Weights)

    def outlived(self, task: TaskInfo, queue: str, weight: float) -> None:
        """Note that a pod of a queue has run for longer than it declared. It is counted once, and weighs ever more."""
        known, whose = self._late.get(task.uid), _whose(task.namespace, queue)
        if known is None:
            self._outlived.update(whose)
        more = max(0.0, weight - (known or 0.0))
        self._late[task.uid] = (known or 0.0) + more
        for each in whose:
            self._weights[each].outlived += more

    def over(self, task: TaskInfo, queue: str, weight: float) -> None:
        """Note that a pod that declared a duration is over."""
        if self._late.pop(task.uid, None) is None:
            for each in _whose(task.namespace, queue):
                self._weights[each].kept += weight

    def is_lost(self, namespace: str, queue: str) -> bool:
        """True if what pods of a namespace, or of a queue, declare counts for nothing."""
        return bool(self._most) and any(map(self._is_lost, _whose(namespace, queue)))

    def _is_lost(self, whose: _Whose) -> bool:
        weights = self._weights.get(whose)
        return weights is not None and self._outlived.get(whose, 0) >= self._most and weights.outlived > weights.kept

    @property
    def counts(self) -> Mapping[str, int]:
        """How many pods of each namespace have outlived what they declared."""
        return {name: count for (kind, name), count in self._outlived.items() if kind == _NAMESPACE}


def _whose(namespace: str, queue: str) -> tuple[_Whose, ...]:
    return ((_NAMESPACE, namespace), (_QUEUE, queue)) if queue else ((_NAMESPACE, namespace),)
