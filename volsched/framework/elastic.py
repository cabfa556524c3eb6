"""What queues deserve, as a session asks each plugin (rule ``Deserved``), and how the answers of plugins are combined.

The rule itself, who may take back from whom, is in ``volsched.quota.reclaim``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol, TypeAlias

from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo

Number: TypeAlias = int | Fraction


class ElasticQuota(Protocol):
    """What a session asks a plugin of what queues deserve."""

    def applies_to(self, task: TaskInfo) -> bool:
        """Whether the rule is for a task."""

    def may_take_room(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """Whether a queue is below its due of something that each of these tasks asks for."""

    def is_within(self, queue: QueueInfo, task: TaskInfo) -> bool | None:
        """Whether a queue is below its due of something that a task asks for; None when the rule is not for it."""

    def released(self, task: TaskInfo, victim: TaskInfo) -> Number:
        """Return how much a victim holds of what a task could use."""

    def holders(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> Sequence[TaskInfo] | None:
        """Return the candidates that hold anything that a task could use; None when the rule is not for it."""

    def spares(self, task: TaskInfo, victim: TaskInfo) -> bool:
        """Whether a victim that others have named stays, as it holds what nobody is evicted for."""

    def victims(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> Sequence[TaskInfo] | None:
        """Return the candidates each of which may go by itself; None when the rule is not for the task."""


class ElasticQuotas:
    """Those of all plugins of a session. What they do not name stays, whichever tier has named it."""

    def __init__(self) -> None:
        self._reclaiming: list[ElasticQuota] = []
        self._preempting: list[ElasticQuota] = []

    def add(self, quota: ElasticQuota, *, reclaims: bool, preempts: bool) -> None:
        """Take one in, as far as the switches of its plugin allow."""
        if reclaims:
            self._reclaiming.append(quota)
        if preempts:
            self._preempting.append(quota)

    def reclaims_for(self, task: TaskInfo) -> bool:
        """Whether the fewest pods of other queues go for a task, and gangs as a whole where they would break."""
        return any(quota.applies_to(task) for quota in self._reclaiming)

    def preempts_for(self, task: TaskInfo) -> bool:
        """Whether the same holds for pods of its own queue."""
        return any(quota.applies_to(task) for quota in self._preempting)

    def released(self, task: TaskInfo, victim: TaskInfo) -> Number:
        """Return how much a victim holds of what a task wants."""
        return max(
            (
                quota.released(task, victim)
                for quota in (*self._reclaiming, *self._preempting)
                if quota.applies_to(task)
            ),
            default=0,
        )

    def reclaimable(self, task: TaskInfo, chosen: list[TaskInfo]) -> list[TaskInfo]:
        """Strike off those from whom nothing may be taken back."""
        for quota in self._reclaiming:
            named = _named(quota.victims(task, chosen), chosen)
            chosen = [victim for victim in named if not quota.spares(task, victim)]
        return chosen

    def preemptable(self, task: TaskInfo, chosen: list[TaskInfo]) -> list[TaskInfo]:
        """Strike off those who hold nothing of what a task wants."""
        for quota in self._preempting:
            chosen = _named(quota.holders(task, chosen), chosen)
        return chosen


def _named(answer: Sequence[TaskInfo] | None, chosen: list[TaskInfo]) -> list[TaskInfo]:
    if answer is None:
        return chosen
    named = {victim.uid for victim in answer}
    return [victim for victim in chosen if victim.uid in named]
