"""Elastic quotas: who may take back what it deserves from whom, whatever it is that is counted.

The rule, for each thing that is counted (a card, a DeviceClass, a dimension of one)::

    due        what a queue deserves, never less than its guarantee
    who takes  a queue that with the pod still holds no more than its due of something that the pod asks for
    who gives  a pod that holds some of just that, if all queues that lose by it still hold their due of everything
    together   the rest of a gang that would break goes, too, and has to be allowed to

In a hierarchy, the queues on the two ways up to where these meet are held to it: those on the way of the one who takes
as far as they state what they deserve, those on the way of the one who gives in any case.

The queue that takes was below its deserved share, and no queue falls below its own by giving. So with each eviction
less is lacking in all: queues do not evict in a circle, and evictions end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from volsched.framework.deprecated_names import give_present_names
from volsched.framework.dispatch.combining import Number
from volsched.framework.eviction_units import departing
from volsched.model.cluster import Cluster
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.values.resources import accumulate
from volsched.quota.amounts import request_with_slot

K = TypeVar("K", bound=Hashable)


class ReclaimView(Protocol[K]):
    """What queues hold and deserve, and pods want and hold, in the terms of one plugin."""

    def levels(self, queue: str) -> Sequence[str]:
        """Return the queues in which a queue counts, itself first."""

    def allocated(self, queue: str, key: K) -> Number:
        """Return how much a queue, and in a hierarchy those below it, hold of one thing."""

    def deserved(self, queue: str, key: K) -> Number | None:
        """Return how much of one thing a queue deserves, or None when it does not state."""

    def requested(self, task: TaskInfo) -> Mapping[K, Number]:
        """Return how much a waiting task would take of each thing that counts. Nothing: the rule is not for it."""

    def holds(self, victim: TaskInfo, task: TaskInfo) -> Mapping[K, Number]:
        """Return what a placed task has of what a waiting one could use."""

    def frees(self, queue: str, victims: Sequence[TaskInfo], task: TaskInfo) -> Mapping[K, Number]:
        """Return how much less a queue would hold of all that counts for a task, were these gone."""


class Elastic(Generic[K]):
    """The rule for what one plugin counts; an ``ElasticQuota``.

    While a queue does not mention what a task wants, no pod is evicted for that; if the plugin is not ``alone``, other
    plugins may have room made for the task, by pods that hold nothing of the kind.
    """

    def __init__(self, view: ReclaimView[K], *, alone: bool = True) -> None:
        give_present_names(view, {"allocated": "held", "deserved": "due", "requested": "wanted"})
        self._view = view
        self._alone = alone

    def applies_to(self, task: TaskInfo) -> bool:
        """True if the rule is for a task."""
        requested = self._view.requested(task)
        if self._alone or not requested:
            return bool(requested)
        return any(self._view.deserved(task.queue, key) is not None for key in requested)

    def may_take_room(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """True if a queue is below its deserved share of something that each of these tasks asks for."""
        return all(self.is_within(queue, task) is not False for task in tasks)

    def is_within(self, queue: QueueInfo, task: TaskInfo) -> bool | None:
        """Whether a queue is below its due of something that a task asks for; None when the rule is not for it."""
        return self._lacks(queue.name, task) if self.applies_to(task) else None

    def _lacks(self, queue: str, task: TaskInfo) -> bool:
        return any(is_within(self._view, queue, key, amount) for key, amount in self._view.requested(task).items())

    def released(self, task: TaskInfo, victim: TaskInfo) -> Number:
        """Return how much a victim holds of what a task could use."""
        return max(self._view.holds(victim, task).values(), default=0)

    def holders(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> Sequence[TaskInfo] | None:
        """Return the candidates that hold anything that a task could use, or None when the rule is not for it."""
        if not self.applies_to(task):
            return None
        return [victim for victim in candidates if self._holds_any(task, victim)]

    def spares(self, task: TaskInfo, victim: TaskInfo) -> bool:
        """True to spare a victim that other plugins name: what it holds of this dimension is not reclaimable."""
        if self.applies_to(task) or not self._view.requested(task):
            return False
        return bool(self._view.holds(victim, task))

    def _holds_any(self, task: TaskInfo, victim: TaskInfo) -> bool:
        return not self._view.requested(task).keys().isdisjoint(self._view.holds(victim, task))

    def victims(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> Sequence[TaskInfo] | None:
        """Return the candidates each of which may go by itself, or None when the rule is not for the task."""
        if task.job is None or not self.applies_to(task):
            return None
        taking = _Taking(self._view, task, task.job.queue)
        return [victim for victim in candidates if taking.takes(victim)]


class _Taking(Generic[K]):
    """What one task may take from whom, as things are now."""

    def __init__(self, view: ReclaimView[K], task: TaskInfo, queue: str) -> None:
        self._view = view
        self._task = task
        self._queue = queue
        self._own = tuple(view.levels(queue))
        self._requested = view.requested(task)

    def takes(self, victim: TaskInfo) -> bool:
        """True if a victim may go, with all that go with it."""
        if victim.job is None:
            return False
        queue = victim.job.queue
        return self._frees_excess(victim, queue) and self._leaves_deserved(queue, departing(victim))

    def _frees_excess(self, victim: TaskInfo, queue: str) -> bool:
        """Whether a victim holds something of which the task's queues, below where both meet, are below their due."""
        theirs = self._view.levels(queue)
        above = [level for level in self._own[1:] if level not in theirs]
        given = self._requested.keys() & self._view.holds(victim, self._task).keys()
        return any(self._may_take(key, above) for key in given)

    def _may_take(self, key: K, above: Sequence[str]) -> bool:
        view, amount = self._view, self._requested[key]
        if not is_within(view, self._queue, key, amount):
            return False
        return all(view.deserved(level, key) is None or is_within(view, level, key, amount) for level in above)

    def _leaves_deserved(self, queue: str, gone: Sequence[TaskInfo]) -> bool:
        """Return whether a queue and those above it, below where both meet, still hold their due of all that goes."""
        view = self._view
        return all(
            view.allocated(level, key) - amount >= (view.deserved(level, key) or 0)
            for level in view.levels(queue)
            if level not in self._own
            for key, amount in view.frees(level, gone, self._task).items()
        )


def is_within(view: ReclaimView[K], queue: str, key: K, amount: Number) -> bool:
    """True if a queue states what it deserves of something, and with so much more of it holds no more than that."""
    deserved_share = view.deserved(queue, key)
    return deserved_share is not None and view.allocated(queue, key) + amount <= deserved_share


def reclaimable_of(cluster: Cluster, view: ReclaimView[K], queue: str, deserved: Iterable[K]) -> dict[K, Any]:
    """Return what queues below their due could take of what a queue holds; ``deserved``: what any queue deserves."""
    found = cluster.queues.get(queue)
    if found is None or not found.spec.reclaimable:
        return {}
    beyond = {key: view.allocated(queue, key) - (view.deserved(queue, key) or 0) for key in deserved}
    return {key: amount for key, amount in beyond.items() if amount > 0}


class Remaining:
    """What queues hold while victims for one task are chosen one after the other. Each counts as gone for the next."""

    def __init__(self, allocated: Callable[[str], Mapping[str, int]]) -> None:
        self._allocated = allocated
        self._left: dict[str, dict[str, int]] = {}

    def of(self, level: str) -> dict[str, int]:
        """Return what a queue still holds."""
        if level not in self._left:
            self._left[level] = dict(self._allocated(level))
        return self._left[level]

    def leave(self, levels: Iterable[str], victim: TaskInfo) -> None:
        """Take a victim off queues."""
        for level in levels:
            accumulate(self.of(level), request_with_slot(victim), -1)
