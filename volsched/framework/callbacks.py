"""The callbacks of plugins: when each is called, and how the answers of several plugins combine.

The rules of combination are Volcano's (tiers in order, plugins in order inside a tier); ``dispatch`` implements them.
``rules`` has the rules that carry these callbacks.

A callback finds only annotations that an installed plugin declares (``plugin.Plugin``): ``POD_ANNOTATIONS`` and
``TASK_ANNOTATIONS`` of pods, ``GROUP_ANNOTATIONS`` of jobs, ``QUEUE_ANNOTATIONS`` of queues and ``NODE_ANNOTATIONS`` of
nodes. Reading another one raises UndeclaredAnnotationError.
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
    """The number of pods of one template that a queue may still take.

    ``count``: the largest number of pods, on any nodes; 0 or less: none. ``refusal``: why the queue takes none; None if
    it takes one. Equal pods get the same refusal while the headroom is the same. ``at_once``: the number of pods that
    may be placed in one step; None: ``count``.
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
        """Return the number of pods that may be placed in one step."""
        return self.count if self.at_once is None else self.at_once


UNLIMITED: Final = Headroom(NO_LIMIT)

JobKeyFn: TypeAlias = Callable[[JobInfo], Any]
"""Order of jobs in a queue: smaller keys first. The first plugin whose keys differ decides; ties: older, then key."""
QueueKeyFn: TypeAlias = Callable[[QueueInfo], Any]
"""Order of queues: as ``JobKeyFn``; ties: older, then name."""
QueueLevel: TypeAlias = int | str
"""A level on the way down to a queue: a number that stands for itself, or the name of a queue."""
QueueWayFn: TypeAlias = Callable[[QueueInfo], Sequence[QueueLevel]]
"""The levels of a queue in a tree, the highest first, its own last."""
QueueLevelKeyFn: TypeAlias = Callable[[QueueLevel], Any]
"""Order of queues with the same parent: smaller keys first. No two queues have equal keys."""
VictimQueueKeyFn: TypeAlias = Callable[[QueueInfo, QueueInfo], Any]
"""Order of victims for a task of another queue: (queue of the victim, queue of the task) -> key, smaller first.

The first plugin whose keys differ decides. For equal keys, the queue that is last in the order of queues goes first.
"""
TaskKeyFn: TypeAlias = Callable[[TaskInfo], Any]
"""Order of tasks in a job: as ``JobKeyFn``. Ties: number at the end of the name, then older, then uid."""

PrePredicateFn: TypeAlias = Callable[[TaskInfo], Verdict | None]
"""Called once before nodes are asked: a verdict refuses all nodes. AND over plugins, the first refusal counts."""
PredicateFn: TypeAlias = Callable[[Any, Any], Verdict | None]
"""May this pod go on this node? None passes. AND over plugins, the first refusal counts. See ``signature``."""
PredicateVectorFn: TypeAlias = Callable[[Any, NodeTable], Mask]
"""The vector twin of a predicate: which of the table's rows pass. It is given the pod as the predicate is."""
WordingsFn: TypeAlias = Callable[[Any, NodeTable], Rows]
"""Numbers for the rows that a predicate's vector twin refuses.

Rows with equal numbers have the same message, so one of them explains all.
"""
NodeOrderFn: TypeAlias = Callable[[Any, Any], float]
"""Return the score of a node for a pod. Scores of plugins are added in order. See ``signature``."""
NodeOrderVectorFn: TypeAlias = Callable[[Any, NodeTable], Floats]
"""The vector twin of a node order: a score for each of the table's rows."""
BatchNodeOrderFn: TypeAlias = Callable[[TaskInfo, Sequence[NodeInfo]], Sequence[float]]
"""Return one score for each node, if scores depend on all candidates. They are added to the sums of node orders."""
UniformFn: TypeAlias = Callable[[TaskInfo], float | None]
"""Return the score that a batch order gives every node, if it knows without looking. None: ask it."""
BatchVectorFn: TypeAlias = Callable[[TaskInfo, NodeTable], Floats]
"""The vector twin of a batch order."""
BestNodeFn: TypeAlias = Callable[[TaskInfo, Mapping[str, float]], str | None]
"""Choose among scored nodes yourself: the first plugin that names one wins."""
AppliesFn: TypeAlias = Callable[[PodTemplate], bool]
"""True if a callback applies to pods of this template. If not, it is not asked."""
QueueKeyOfPodsFn: TypeAlias = Callable[[PodTemplate, QueueInfo], Hashable | None]
KeyFn: TypeAlias = Callable[[TaskInfo], Hashable | None]
"""Return a key for everything else that an answer depends on, or None if the callback does not apply to the pod.

Pods with equal keys and templates share answers. With the parameters (template: PodTemplate, queue: QueueInfo) the key
is the same for equal pods of one queue, so one of them is asked for all.
"""
VersionFn: TypeAlias = Callable[[TaskInfo], Hashable]
"""Changes when answers for the pod's key may have changed."""

OverusedFn: TypeAlias = Callable[[QueueInfo], Verdict | None]
"""Return a refusal if the queue has its deserved share already. OR.

With a refusal it gets no more amounts for the rest of the action. Pods that request only devices do not count.
"""
AllocatableFn: TypeAlias = Callable[[QueueInfo, TaskInfo], Verdict | None]
"""May the queue take this task on? None passes. AND, the first refusal counts."""
HeadroomFn: TypeAlias = Callable[[QueueInfo, PodTemplate], Headroom]
"""Return how many tasks of this template the queue may take, and the refusal of the next one. It changes nothing."""
RefusedFn: TypeAlias = Callable[[TaskInfo, Verdict], None]
"""This task was refused for that reason."""
PreemptiveFn: TypeAlias = Callable[[QueueInfo, Sequence[TaskInfo]], bool]
"""May the queue take room from others for these tasks? AND."""
WithinDeservedFn: TypeAlias = Callable[[QueueInfo, TaskInfo], bool | None]
"""True if the queue, with this task, allocates at most its deserved share. None abstains. AND; without plugins: False.

Then reclaim goes on beyond the minimum of a job.
"""
JobValidFn: TypeAlias = Callable[[JobInfo], Verdict | None]
"""Is the job complete enough to be looked at? The first verdict counts."""
JobReadyFn: TypeAlias = Callable[[JobInfo], bool]
"""May what was placed of the job be committed? AND."""
JobStarvingFn: TypeAlias = Callable[[JobInfo], bool]
"""True if the job lacks room. AND inside the first tier that votes; without plugins: False."""
JobVoteFn: TypeAlias = Callable[[JobInfo], Ballot]
"""jobEnqueueable and jobPipelined: a vote over tiers, see ``Vote``; without plugins: permitted."""
WakeFn: TypeAlias = Callable[[], float | None]
"""Return when answers change by themselves, in seconds since the epoch; None: they do not."""
JobEnqueuedFn: TypeAlias = Callable[[JobInfo], None]
"""The job was admitted: reserve what you promised. All are called."""
VictimsFn: TypeAlias = Callable[[TaskInfo, Sequence[TaskInfo]], Sequence[TaskInfo] | None]
"""Return the candidates that may be evicted for the task. None abstains.

Tiered intersection: an empty one is final inside its tier (*ours*). The first tier with a non-empty answer decides.
"""
ProtectedFn: TypeAlias = Callable[[TaskInfo, TaskInfo], bool]
"""True if this pod may not be evicted for that task. OR over all plugins of all tiers (*ours*).

It is asked before ``VictimsFn``, which is not given protected pods. In the trial of an admission, the task may stand
for pods that do not exist yet. It changes nothing.
"""


CloseFn: TypeAlias = Callable[[], None]
"""Called when the session closes, before statuses are written."""
DeviceLimitsFn: TypeAlias = Callable[[TaskInfo], Mapping[tuple[str, str], Fraction] | None]
"""Return how much more of each (DeviceClass, dimension) a task may be given; None: no limit.

The dimension "" is the number of devices. Of several plugins the smaller limit counts. If a claim leaves a choice,
devices within these limits are preferred. The plugin still has to refuse amounts above the limit.
"""


class TaskEvents(Protocol):
    """Follows what a session does with tasks. All are called, in order of registration."""

    def allocate(self, task: TaskInfo) -> Verdict | None:
        """Handle that ``task`` was put on ``task.node``. A refusal, also by a later handler, takes it back."""

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
        {
            "DueFn": (":WithinDeservedFn", "it is WithinDeservedFn"),
            **{
                name: (f"volsched.framework.reports:{now}", f"it is volsched.plugin.{now}")
                for name, now in _NOW.items()
            },
        },
    )
