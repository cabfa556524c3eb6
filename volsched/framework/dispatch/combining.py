"""Combinations of the answers of several plugins. ``ruleset.py`` asks the other rules one after the other.

Tiers and plugins are asked in the order of the configuration. The rules are those of Volcano's session, with the one
decision of ours that is marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from volsched.framework.callbacks import Ballot, JobStarvingFn, JobVoteFn, VictimsFn, Vote
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Scope, Step, Verdict

F = TypeVar("F")
S = TypeVar("S")
Tiered: TypeAlias = list[tuple[int, F]]
"""Functions with the number of their tier, in order."""

Number: TypeAlias = int | Fraction

UNEXPLAINED_REJECT = Verdict(Step.ENQUEUE, "", Scope.JOB, "Unschedulable", "a plugin does not admit the PodGroup")


def first_refusal(fns: Iterable[Callable[[S], Verdict | None]], subject: S) -> Verdict | None:
    """AND of permissions, or OR of refusals: the first verdict counts."""
    for fn in fns:
        verdict = fn(subject)
        if verdict is not None:
            return verdict
    return None


def vote(fns: Tiered[JobVoteFn], job: JobInfo, *, list_all: bool = False) -> tuple[bool, Verdict | None]:
    """Vote: a reject ends the vote, a permit ends it with its tier; without a vote: permitted.

    With ``list_all`` the first refusal also lists the refusals of later plugins, so that users see everything at once.
    """
    rejects: list[Ballot] = []
    for ballot in _cast(fns, job):
        if ballot.vote is Vote.REJECT:
            rejects.append(ballot)
            if not list_all:
                break
    return not rejects, _notify_all([ballot.verdict for ballot in rejects if ballot.verdict is not None])


def _cast(fns: Tiered[JobVoteFn], job: JobInfo) -> Iterator[Ballot]:
    """Ask plugins in order, up to the end of the tier with a permit."""
    permitted_in = -1
    for tier, fn in fns:
        if permitted_in >= 0 and tier != permitted_in:
            return
        ballot = fn(job)
        if ballot.vote is Vote.PERMIT:
            permitted_in = tier
        yield ballot


def _notify_all(verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return the first verdict with the messages of the others."""
    if len(verdicts) < 2:
        return verdicts[0] if verdicts else None
    return msgspec.structs.replace(
        verdicts[0],
        message="; ".join(dict.fromkeys(verdict.message for verdict in verdicts)),
        shortfalls=tuple(shortfall for verdict in verdicts for shortfall in verdict.shortfalls),
    )


def first_tier_and(fns: Tiered[JobStarvingFn], job: JobInfo) -> bool:
    """AND inside the first tier with a rule; without rules: False."""
    if not fns:
        return False
    first = fns[0][0]
    return all(fn(job) for tier, fn in fns if tier == first)


def victims(fns: Tiered[VictimsFn], task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
    """Intersect the answers inside a tier. The first tier with a non-empty intersection decides.

    An abstention (None) is skipped. *Ours*: an empty intersection stays empty in its tier, where upstream lets the next
    plugin start it again.
    """
    for _, members in groupby(fns, key=_tier_of):
        chosen: list[TaskInfo] | None = None
        for _, fn in members:
            answer = fn(task, candidates)
            if answer is None:
                continue
            named = {victim.uid for victim in answer}
            chosen = [c for c in (candidates if chosen is None else chosen) if c.uid in named]
            if not chosen:
                break
        if chosen:
            return chosen
    return []


def victims_for_all(fns: Tiered[VictimsFn], task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
    """Return the candidates in every answer, of all tiers. Each plugin is asked about those that remain."""
    chosen = list(candidates)
    for _, fn in fns:
        answer = fn(task, chosen) if chosen else ()
        if answer is not None:
            named = {victim.uid for victim in answer}
            chosen = [victim for victim in chosen if victim.uid in named]
    return chosen


def _tier_of(entry: tuple[int, Any]) -> int:
    return entry[0]


# -- what queues deserve (rule ``Deserved``), see ``volsched.quota.reclaim`` -----------------------------------------


class ElasticQuota(Protocol):
    """The questions of a session to a plugin about deserved amounts."""

    def applies_to(self, task: TaskInfo) -> bool:
        """True if the rule applies to the task."""

    def may_take_room(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """True if a queue is below its deserved amount of something that each of these tasks requests."""

    def is_within(self, queue: QueueInfo, task: TaskInfo) -> bool | None:
        """True if a queue is below its deserved amount of something that a task requests.

        None if the rule does not apply.
        """

    def released(self, task: TaskInfo, victim: TaskInfo) -> Number:
        """Return how much a victim holds of what a task could use."""

    def holders(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> Sequence[TaskInfo] | None:
        """Return the candidates that hold anything that a task could use, or None when the rule is not for it."""

    def spares(self, task: TaskInfo, victim: TaskInfo) -> bool:
        """True if a victim of other plugins is spared: what it holds of this dimension is not reclaimable."""

    def victims(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> Sequence[TaskInfo] | None:
        """Return the candidates each of which may be evicted alone, or None if the rule does not apply to the task."""


class ElasticQuotas:
    """The ``Deserved`` rules of all plugins. A candidate that they do not name stays, whichever tier named it."""

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
        """True if a task evicts as few pods of other queues as possible, and whole gangs before it breaks gangs."""
        return any(quota.applies_to(task) for quota in self._reclaiming)

    def preempts_for(self, task: TaskInfo) -> bool:
        """True if the same holds for pods of its own queue."""
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
        """Remove the candidates that the rule does not allow to reclaim."""
        for quota in self._reclaiming:
            named = _named(quota.victims(task, chosen), chosen)
            chosen = [victim for victim in named if not quota.spares(task, victim)]
        return chosen

    def preemptable(self, task: TaskInfo, chosen: list[TaskInfo]) -> list[TaskInfo]:
        """Drop candidates that hold nothing of what a task requests."""
        for quota in self._preempting:
            chosen = _named(quota.holders(task, chosen), chosen)
        return chosen


def _named(answer: Sequence[TaskInfo] | None, chosen: list[TaskInfo]) -> list[TaskInfo]:
    if answer is None:
        return chosen
    named = {victim.uid for victim in answer}
    return [victim for victim in chosen if victim.uid in named]
