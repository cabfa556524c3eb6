"""Reclaim between queues: one below its deserved share takes from queues above theirs, never below guarantees.

With ``ancestors`` (``ancestorReclaimLevel``), so many queues above count as well: a queue whose own deserved share is
used up may take room for one above it that is below its deserved share, and what is above its deserved share in a queue
stays when the one above it, on the way to where the two part, is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from plugins.capacity.quotas import CapacityQuotas
from volsched.framework.dispatch.ruleset import Ruleset
from volsched.plugin import QueueInfo, Resources, TaskInfo
from volsched.plugin.quota import Amounts, Number, Remaining, request_with_slot


class Reclaim:
    """The answers."""

    def __init__(self, quotas: CapacityQuotas, rules: Ruleset, ancestors: int) -> None:
        self._quotas = quotas
        self._is_elastic = rules.elastic.reclaims_for
        self._in_order = rules.in_order_of_victims
        self._ancestors = ancestors

    def may_take_room(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """True if an open queue may have these tasks, and deserves so much more of a requested resource.

        Where it deserves none of these, other plugins answer for what else it deserves (devices).
        """
        request = Resources.sum_of(task.template.request for task in tasks)
        name = queue.name
        if not queue.is_open or not self._fits(name, request):
            return False
        if any(self._is_within_deserved(level, request) for level in (name, *self._near(name))):
            return True
        return not self._deserves_any(name, request) and all(map(self._is_elastic, tasks))

    def is_within(self, queue: QueueInfo, task: TaskInfo) -> bool | None:
        """Return whether a queue, or a parent that counts, deserves so much more of all that a task requests.

        Compared is what it states; None when that is nothing of what the task asks for.
        """
        request, near = task.template.request, self._near(queue.name)
        answers = [self._is_within(level, request) for level in (queue.name, *near)]
        return True if True in answers else False if False in answers else None

    def _is_within(self, queue: str, request: Amounts) -> bool | None:
        """Return whether a queue with a request stays within its deserved share, or None if it states none."""
        held, stated = self._quotas.allocated(queue), self._quotas.amounts(queue).stated
        asked = [name for name in request if name in stated]
        return all(held.get(name, 0) + request[name] <= stated[name] for name in asked) if asked else None

    def _deserves_any(self, queue: str, request: Amounts) -> bool:
        return _deserves_of(self._quotas.amounts(queue).deserved, request)

    def _fits(self, queue: str, request: Amounts) -> bool:
        held = self._quotas.allocated(queue)
        return all(held.get(name, 0) + amount <= self._quotas.limit(queue, name) for name, amount in request.items())

    def _is_within_deserved(self, queue: str, request: Amounts) -> bool:
        held, deserved = self._quotas.allocated(queue), self._quotas.amounts(queue).deserved
        return any(held.get(name, 0) + amount <= deserved.get(name, 0) for name, amount in request.items())

    def victims(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Candidates that may go, each counted as gone for the next. The least important are asked first."""
        return self._chosen(task, candidates, self._may_go)

    def victims_by_share(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Those of them whose queues still hold their due without them, where the task's queues stay within theirs."""
        return self._chosen(task, candidates, self._may_go_by_share)

    def _chosen(self, task: TaskInfo, candidates: Sequence[TaskInfo], may_go: _MayGo) -> list[TaskInfo]:
        if task.job is None:
            return []
        usage = _UsageLeft(self._quotas, task.job.queue)
        chosen: list[TaskInfo] = []
        for victim in self._in_order(task, candidates):
            if may_go(usage, task, victim):
                usage.leave(victim)
                chosen.append(victim)
        return chosen

    def _may_go_by_share(self, usage: _UsageLeft, task: TaskInfo, victim: TaskInfo) -> bool:
        own, theirs = usage.own, self._quotas.levels(victim.queue)
        above = [level for level in self._quotas.ancestors(own)[self._ancestors :] if level not in theirs]
        is_within = all(self._is_within(level, task.template.request) is not False for level in above)
        return is_within and usage.keeps_deserved(victim) and self._may_go(usage, task, victim)

    def _may_go(self, usage: _UsageLeft, task: TaskInfo, victim: TaskInfo) -> bool:
        if victim.job is None or not victim.template.request.keys() & task.template.request.keys():
            return False
        queue = victim.job.queue
        return (
            usage.keep_guarantees(victim)
            and usage.is_above_deserved(queue, victim)
            and not self._are_both_without_deserved(usage.own, task, queue, victim)
            and all(usage.is_above_deserved(level, victim) for level in self._parted(usage.own, queue))
        )

    def _are_both_without_deserved(self, own: str, task: TaskInfo, queue: str, victim: TaskInfo) -> bool:
        """True if neither queue deserves anything that its pod requests, and they share a near parent."""
        near = set(self._near(own)) & set(self._near(queue))
        requests = victim.template.request, task.template.request
        return bool(near) and not self._deserves_any(queue, requests[0]) and not self._deserves_any(own, requests[1])

    def _parted(self, own: str, queue: str) -> Iterator[str]:
        """Yield the parents (as far as ``_near``) of a queue that the other queue does not share."""
        mine = self._near(own)
        for place, level in enumerate(self._near(queue)):
            if mine[place : place + 1] != (level,):
                yield level

    def _near(self, queue: str) -> tuple[str, ...]:
        return self._quotas.ancestors(queue)[: self._ancestors]


_MayGo = Callable[["_UsageLeft", TaskInfo, TaskInfo], bool]


class _UsageLeft:
    """What queues hold while victims for a queue's task are chosen one after the other."""

    def __init__(self, quotas: CapacityQuotas, own: str) -> None:
        self._quotas = quotas
        self.own = own
        self._own_levels = frozenset(quotas.levels(own))
        self._remaining = Remaining(quotas.allocated)

    def leave(self, victim: TaskInfo) -> None:
        """Take a victim off its queue and those above that are not above the task's, too."""
        self._remaining.leave(self._levels(victim), victim)

    def keep_guarantees(self, victim: TaskInfo) -> bool:
        """True if the queues that lose a victim would still hold all that they are guaranteed."""
        gone = request_with_slot(victim)
        return all(
            self._remaining.of(level).get(name, 0) - gone.get(name, 0) >= amount
            for level in self._levels(victim)
            for name, amount in self._quotas.amounts(level).guarantee.items()
        )

    def keeps_deserved(self, victim: TaskInfo) -> bool:
        """True if the queues that lose a victim would still hold what they deserve of all that it holds."""
        return all(
            self._remaining.of(level).get(name, 0) - victim.template.request[name] >= amount
            for level in self._levels(victim)
            for name, amount in self._quotas.amounts(level).stated.items()
            if name in victim.template.request
        )

    def is_above_deserved(self, level: str, victim: TaskInfo) -> bool:
        """Return whether a queue exceeds its deserved share of a resource of the victim, or deserves none of them."""
        held, request = self._remaining.of(level), victim.template.request
        if not _deserves_of(self._quotas.amounts(level).deserved, request):
            return True
        stated = self._quotas.amounts(level).stated
        return any(held.get(name, 0) > stated[name] for name in request if name in stated)

    def _levels(self, victim: TaskInfo) -> tuple[str, ...]:
        queue = victim.queue
        return tuple(level for level in self._quotas.levels(queue) if level not in self._own_levels)


def _deserves_of(deserved: Mapping[str, Number], request: Amounts) -> bool:
    return any(deserved.get(name, 0) for name in request)
