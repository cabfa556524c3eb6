"""Every callback of a plugin: when it is called, and how the answers of several plugins combine.

The rules of combination are Volcano's (tiers in order, plugins in order inside a tier); ``dispatch`` alone
implements them. ``rules`` has the rules that carry these callbacks.

A callback finds of annotations those that its plugin, or another one that is installed, declares (``plugin.Plugin``):
``POD_ANNOTATIONS`` and ``TASK_ANNOTATIONS`` of pods, ``GROUP_ANNOTATIONS`` of jobs, ``QUEUE_ANNOTATIONS`` of queues and
``NODE_ANNOTATIONS`` of nodes. Reading another one raises UndeclaredAnnotationError.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from volsched.framework.columns.arrays import Floats, Mask, Rows
from volsched.framework.columns.views import NodeTable
from volsched.framework.deprecated_names import former
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Verdict


class Vote(IntEnum):
    """How a plugin votes: a reject ends it, a permit ends it at the end of its tier, an abstention passes on."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote with the reason for a reject."""

    vote: Vote
    verdict: Verdict | None = None


PERMIT = Ballot(Vote.PERMIT)
ABSTAIN = Ballot(Vote.ABSTAIN)

NO_LIMIT: Final = sys.maxsize
"""Any number of pods."""


class Headroom(msgspec.Struct, frozen=True):
    """How many more pods of one template a queue may take on.

    ``count``: the largest number of pods, whatever nodes they get; 0 and below: none. ``refusal``: why not even one,
    None where there is room for one; equal pods get the same refusal as long as the headroom is the same.
    ``at_once``: how many may be placed in one step, None: ``count``.
    """

    count: int
    refusal: Verdict | None = None
    at_once: int | None = None

    def __post_init__(self) -> None:
        if (self.count > 0) != (self.refusal is None):
            raise ValueError(
                f"Headroom({self.count}, {'None' if self.refusal is None else 'refusal'}): it has a refusal, a "
                "Verdict, where its count is 0 or below, and only there"
            )

    @property
    def batch(self) -> int:
        """How many pods may be placed in one step."""
        return self.count if self.at_once is None else self.at_once


UNLIMITED: Final = Headroom(NO_LIMIT)

JobKeyFn: TypeAlias = Callable[[JobInfo], Any]
"""Order of jobs in a queue: smaller keys first. The first plugin whose keys differ decides; ties: older, then uid."""
QueueKeyFn: TypeAlias = Callable[[QueueInfo], Any]
"""Order of queues: as ``JobKeyFn``; ties: older, then name."""
QueueLevel: TypeAlias = int | str
"""A level on the way down to a queue: a number that stands for itself, or the name of a queue."""
QueueWayFn: TypeAlias = Callable[[QueueInfo], Sequence[QueueLevel]]
"""The levels of a queue in a tree, the highest first, its own last."""
QueueLevelKeyFn: TypeAlias = Callable[[QueueLevel], Any]
"""Order of queues that are right below the same one: smaller keys first; no two of them have equal keys."""
VictimQueueKeyFn: TypeAlias = Callable[[QueueInfo, QueueInfo], Any]
"""Whose pods go first for a task of another queue: (queue of the victim, queue of the task) -> a key, smaller first.
The first plugin whose keys differ decides; ties: the queue that comes last in the order of queues."""
TaskKeyFn: TypeAlias = Callable[[TaskInfo], Any]
"""Order of tasks in a job: as ``JobKeyFn``; ties: index at the end of the name, older, then uid."""

PrePredicateFn: TypeAlias = Callable[[TaskInfo], Verdict | None]
"""Called once before nodes are asked: a verdict refuses all nodes. AND over plugins, the first refusal counts."""
PredicateFn: TypeAlias = Callable[[Any, Any], Verdict | None]
"""May this pod go on this node? None passes. AND over plugins, the first refusal counts. See ``signature``."""
PredicateVectorFn: TypeAlias = Callable[[Any, NodeTable], Mask]
"""The vector twin of a predicate: which of the table's rows pass. It is given the pod as the predicate is."""
WordingsFn: TypeAlias = Callable[[Any, NodeTable], Rows]
"""Of rows that a predicate's vector twin refuses, small numbers: rows of equal ones are refused in the same words, so
that many are explained by one of them."""
NodeOrderFn: TypeAlias = Callable[[Any, Any], float]
"""How good is this node for this pod? Summed over plugins, in order. See ``signature``."""
NodeOrderVectorFn: TypeAlias = Callable[[Any, NodeTable], Floats]
"""The vector twin of a node order: a score for each of the table's rows."""
BatchNodeOrderFn: TypeAlias = Callable[[TaskInfo, Sequence[NodeInfo]], Sequence[float]]
"""Scores that depend on all candidates (normalised ones): one for each node given, added to the sums of node orders."""
UniformFn: TypeAlias = Callable[[TaskInfo], float | None]
"""The score that a batch order gives to whatever node, when it can tell without looking; None: it must be asked."""
BatchVectorFn: TypeAlias = Callable[[TaskInfo, NodeTable], Floats]
"""The vector twin of a batch order."""
BestNodeFn: TypeAlias = Callable[[TaskInfo, Mapping[str, float]], str | None]
"""Choose among scored nodes yourself: the first plugin that names one wins."""
AppliesFn: TypeAlias = Callable[[PodTemplate], bool]
"""Whether a callback applies to pods of this template; where not, it is not asked."""
QueueKeyOfPodsFn: TypeAlias = Callable[[PodTemplate, QueueInfo], Hashable | None]
KeyFn: TypeAlias = Callable[[TaskInfo], Hashable | None]
"""What an answer depends on beside what the annotations name: pods of equal keys and templates share it. None: the
callback does not apply to the pod. It may be written as (template: PodTemplate, queue: QueueInfo): then it is
the same for equal pods of one queue, and one of them is asked about for all."""
VersionFn: TypeAlias = Callable[[TaskInfo], Hashable]
"""Changes when answers for the pod's key may have changed."""

OverusedFn: TypeAlias = Callable[[QueueInfo], Verdict | None]
"""Does this queue have its due already? OR: with any verdict it gets no more amounts for the rest of the action. Pods
that ask for devices alone are no part of it."""
AllocatableFn: TypeAlias = Callable[[QueueInfo, TaskInfo], Verdict | None]
"""May the queue take this task on? None passes. AND, the first refusal counts."""
HeadroomFn: TypeAlias = Callable[[QueueInfo, PodTemplate], Headroom]
"""How many tasks of this template may the queue take on, and why not even one? It changes nothing."""
RefusedFn: TypeAlias = Callable[[TaskInfo, Verdict], None]
"""This task was refused for that reason."""
PreemptiveFn: TypeAlias = Callable[[QueueInfo, Sequence[TaskInfo]], bool]
"""May the queue take room from others for these tasks? AND."""
DueFn: TypeAlias = Callable[[QueueInfo, TaskInfo], bool | None]
"""With this task, too, does the queue hold no more than it deserves? None abstains. AND; nobody: no. Then reclaim
goes on beyond the minimum of a job."""
JobValidFn: TypeAlias = Callable[[JobInfo], Verdict | None]
"""Is the job complete enough to be looked at? The first verdict counts."""
JobReadyFn: TypeAlias = Callable[[JobInfo], bool]
"""May what was placed of the job be committed? AND."""
JobStarvingFn: TypeAlias = Callable[[JobInfo], bool]
"""Does the job lack room? AND inside the first tier that votes; nobody: no."""
JobVoteFn: TypeAlias = Callable[[JobInfo], Ballot]
"""jobEnqueueable and jobPipelined: a vote over tiers, see ``Vote``; nobody: yes."""
WakeFn: TypeAlias = Callable[[], float | None]
"""When answers change although nothing else does, in seconds since the epoch; None: they do not."""
JobEnqueuedFn: TypeAlias = Callable[[JobInfo], None]
"""The job was admitted: reserve what you promised. All are called."""
VictimsFn: TypeAlias = Callable[[TaskInfo, Sequence[TaskInfo]], Sequence[TaskInfo] | None]
"""Which of these may be evicted for the task? None abstains. Tiered intersection: an empty one is a firm no inside its
tier (*ours*), the first tier with a non-empty answer decides."""
ProtectedFn: TypeAlias = Callable[[TaskInfo, TaskInfo], bool]
"""May this pod not be evicted for that task? OR over all plugins, of whatever tier (*ours*). It is asked before
``VictimsFn``, which names nobody who is protected. In the trial of an admission the task may stand for pods that are
yet to be made. It changes nothing."""


CloseFn: TypeAlias = Callable[[], None]
"""Called when the session closes, before statuses are written."""
DeviceLimitsFn: TypeAlias = Callable[[TaskInfo], Mapping[tuple[str, str], Fraction] | None]
"""How much more of each (DeviceClass, dimension) a task may be given, "" for the number of devices; None: no limit at
all. Of several plugins the smaller counts. Where a claim leaves a choice, one within these limits is preferred; whoever
limits still has to refuse what is above."""


class TaskEvents(Protocol):
    """Follows what a session does with tasks. All are called, in order of registration."""

    def allocate(self, task: TaskInfo) -> Verdict | None:
        """``task`` has just been put on ``task.node``; a verdict takes it back (as do later handlers' refusals)."""

    def deallocate(self, task: TaskInfo) -> None:
        """``task`` is about to leave ``task.node``: the exact reverse of ``allocate``."""


if not TYPE_CHECKING:  # a type checker knows the present names alone
    _NOW = {
        **{name: name for name in ("QueueAmounts", "QueueAmountsFn", "QueueUsageFn", "QuotaTableFn", "SeriesFn")},
        "HoldersFn": "ConsumersFn",
        "RemediesFn": "SuggestionsFn",
    }
    __getattr__ = former(
        __name__,
        {name: (f"volsched.framework.reports:{now}", f"it is volsched.plugin.{now}") for name, now in _NOW.items()},
    )
