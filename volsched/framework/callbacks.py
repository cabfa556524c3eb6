"""Every callback that a plugin may register: when it is called, and how the answers of several plugins combine.

The rules of combination are Volcano's (tiers in order, plugins in order inside a tier); ``dispatch`` alone
implements them. What a callback about nodes reads its annotations say (``signature``), so that the engine knows how
long an answer holds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from volsched.framework.accounts.quota_report import QuotaTable, Usage
from volsched.framework.columns.arrays import Floats, Mask, Rows
from volsched.framework.columns.views import NodeTable, shown
from volsched.framework.signature import Signature
from volsched.model.job import JobInfo
from volsched.model.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.values.series import Numbers
from volsched.model.verdict import Verdict


class Vote(IntEnum):
    """A plugin's say in a vote: a reject ends it, a permit ends it at the end of its tier, an abstention passes on."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote with the reason for a reject."""

    vote: Vote
    verdict: Verdict | None = None


class Leeway(NamedTuple):
    """What a queue may still take on of equal tasks: ``most`` of them, whatever nodes they would get.

    ``refusal``: why not even one. Nothing that was said of such tasks is another thing while both are the same.
    """

    most: int
    refusal: Verdict | None


PERMIT = Ballot(Vote.PERMIT)
ABSTAIN = Ballot(Vote.ABSTAIN)

ANY_RUN: Final = sys.maxsize
"""A run of any length."""

JobKeyFn: TypeAlias = Callable[[JobInfo], Any]
"""Order of jobs in a queue: smaller keys first. The first plugin whose keys differ decides; ties: older, then uid."""
QueueKeyFn: TypeAlias = Callable[[QueueInfo], Any]
"""Order of queues: as ``JobKeyFn``; ties: older, then name."""
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
"""Whether a callback has anything to say about pods of this template; where not, it is not asked."""
QueueKeyOfPodsFn: TypeAlias = Callable[[PodTemplate, QueueInfo], Hashable | None]
KeyFn: TypeAlias = Callable[[TaskInfo], Hashable | None]
"""What an answer depends on beside what the annotations name: pods of equal keys and templates share it. None: the
callback has nothing to say about the pod. It may be written as (template: PodTemplate, queue: QueueInfo): then it is
the same for equal pods of one queue, and one of them is asked about for all."""
VersionFn: TypeAlias = Callable[[TaskInfo], Hashable]
"""Changes when answers for the pod's key may have changed."""

OverusedFn: TypeAlias = Callable[[QueueInfo], Verdict | None]
"""Does this queue have its due already? OR: with any verdict it gets no more amounts for the rest of the action. Pods
that ask for devices alone are no part of it."""
AllocatableFn: TypeAlias = Callable[[QueueInfo, TaskInfo], Verdict | None]
"""May the queue take this task on? None passes. AND, the first refusal counts."""
LeewayFn: TypeAlias = Callable[[QueueInfo, TaskInfo], Leeway]
"""How many tasks of the same template as this one may the queue take on? Made from the template and the queue alone."""
RunFn: TypeAlias = Callable[[QueueInfo, TaskInfo], int]
"""How many tasks of the same job and template as this one, whatever their labels, may be placed in one go: the plugin
would refuse none of them (before nodes are asked, for the queue, as a handler), its JobReady stays a no until the last,
and its answers about nodes change with the nodes' amounts only. ``ANY_RUN``: no limit; 0: one by one."""
RunPlacedFn: TypeAlias = Callable[[Sequence[TaskInfo]], Verdict | None]
"""These tasks, of one job and template, have just been put on their nodes in one go; a verdict takes them all back, and
they are tried one by one. Event handlers are not told of them when they are placed, only when they leave again."""
PreemptiveFn: TypeAlias = Callable[[QueueInfo, Sequence[TaskInfo]], bool]
"""May the queue take room from others for these tasks? AND."""
JobValidFn: TypeAlias = Callable[[JobInfo], Verdict | None]
"""Is the job complete enough to be looked at? The first verdict counts."""
JobReadyFn: TypeAlias = Callable[[JobInfo], bool]
"""May what was placed of the job be committed? AND."""
JobStarvingFn: TypeAlias = Callable[[JobInfo], bool]
"""Does the job lack room? AND inside the first tier that has a say; nobody: no."""
JobVoteFn: TypeAlias = Callable[[JobInfo], Ballot]
"""jobEnqueueable and jobPipelined: a vote over tiers, see ``Vote``; nobody: yes."""
WakeFn: TypeAlias = Callable[[], float | None]
"""When answers change although nothing else does, in seconds since the epoch; None: they do not."""
JobEnqueuedFn: TypeAlias = Callable[[JobInfo], None]
"""The job was admitted: reserve what you promised. All are called."""
VictimsFn: TypeAlias = Callable[[TaskInfo, Sequence[TaskInfo]], Sequence[TaskInfo] | None]
"""Which of these may be evicted for the task? None abstains. Tiered intersection: an empty one is a firm no inside its
tier (*ours*), the first tier with a non-empty answer decides."""


@dataclass(frozen=True, slots=True)
class QueueAmounts:
    """A queue in the terms of a quota plugin: what its own jobs hold and have reserved, and what it may hold.

    Amounts by resource, or by what else the plugin counts (a card's name), in the resource's unit, extended resources
    in thousandths. Queues below it are left out.
    """

    allocated: Mapping[str, int]
    inqueue: Mapping[str, int]
    capability: Mapping[str, int]
    beside: bool = False
    """These amounts are shown beside those of resources, and not in their place."""


QueueAmountsFn: TypeAlias = Callable[[QueueInfo], QueueAmounts]
"""What a queue holds in a quota plugin's own terms, for whoever shows queues. Of several plugins all amounts are shown;
without any, the resources that placed pods request."""


class QueueHoldings(Protocol):
    """What placed pods hold in a plugin's own terms, for `status.allocated` of Queues.

    Pods stand allocated there (``model.status.IS_ALLOCATED``): promised room is not held yet.
    """

    def take_changed(self) -> Iterable[str]:
        """Return the names of queues that may hold something else than when this was last called."""

    def of(self, queue: str) -> Mapping[str, int]:
        """Return what a queue's own pods hold, in thousandths, by names that are no resource's; no zeros."""


QueueUsageFn: TypeAlias = Callable[[], Usage]
"""What all queues may hold, hold and have left, for people; called when somebody asks. Of several the first counts."""
QuotaTableFn: TypeAlias = Callable[[], QuotaTable]
"""Quotas of another kind as a table for people; called when somebody asks."""
CloseFn: TypeAlias = Callable[[], None]
"""Called when the session closes, before statuses are written."""
DeviceLimitsFn: TypeAlias = Callable[[TaskInfo], Mapping[tuple[str, str], Fraction] | None]
"""How much more of each (DeviceClass, dimension) a task may be given, "" for the number of devices; None: no limit at
all. Of several plugins the smaller counts. Where a claim leaves a choice, one within these limits is preferred; whoever
limits still has to refuse what is above."""
SeriesFn: TypeAlias = Callable[[], Numbers]
"""The present numbers of a series, by label values. Called at the end of every session, after what was only held is
undone: give the same mapping again while nothing has changed, and never change one that was given. A combination of
labels that is left out disappears."""


class EventHandler(Protocol):
    """Follows what a session does with tasks. All handlers are called, in order of registration."""

    def allocate(self, task: TaskInfo) -> Verdict | None:
        """``task`` has just been put on ``task.node``; a verdict takes it back (as do later handlers' refusals)."""

    def deallocate(self, task: TaskInfo) -> None:
        """``task`` is about to leave ``task.node``: the exact reverse of ``allocate``."""


Scope: TypeAlias = Literal["static", "node", "domain", "pod"]
"""How long an answer about a pod and a node holds: until the node says something else of itself, until something
changes on the node, until the version of its key changes, or for this one question."""


@dataclass(frozen=True, slots=True)
class NodeCallback:
    """A registered callback about a pod and a node."""

    plugin: str
    fn: Callable[[Any, Any], Any]
    signature: Signature
    vector: Callable[[Any, NodeTable], Any] | None = None
    applies_to: AppliesFn | None = None
    key: KeyFn | None = None
    version: VersionFn | None = None
    is_keyed_by_queue: bool = False
    scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        pod, node, _ = self.signature
        lasting: Scope = "static" if node == "facts" else "node"
        scope: Scope = "domain" if self.key is not None else lasting if pod == "template" else "pod"
        object.__setattr__(self, "scope", scope)

    @property
    def of_template(self) -> bool:
        """Whether the callback is given the template, and not the task."""
        return self.signature.pod == "template"

    def pod(self, task: TaskInfo) -> Any:
        """What the callback is given of a task."""
        return task.template if self.signature.pod == "template" else task

    def ask(self, task: TaskInfo, node: NodeInfo) -> Any:
        """Call the plain function about one node."""
        return self.fn(self.pod(task), shown(self.signature.node, node))

    def applies(self, task: TaskInfo) -> bool:
        """Whether the callback is there for tasks of this template."""
        return self.applies_to is None or self.applies_to(task.template)

    def speaks(self, task: TaskInfo) -> bool:
        """Whether the callback has anything to say about this task."""
        return self.applies(task) and (self.key is None or self.key(task) is not None)


@dataclass(frozen=True, slots=True)
class Predicate(NodeCallback):
    """A registered predicate."""

    wordings: WordingsFn | None = None


@dataclass(frozen=True, slots=True)
class NodeOrder(NodeCallback):
    """A registered node order."""


@dataclass(frozen=True, slots=True)
class BatchNodeOrder:
    """A registered batch order."""

    plugin: str
    fn: BatchNodeOrderFn
    uniform: UniformFn | None = None
    vector: BatchVectorFn | None = None


@dataclass(slots=True)
class NodeCallbacks:
    """What the plugins of one session registered about nodes, in order."""

    predicates: list[Predicate] = field(default_factory=list)
    node_orders: list[NodeOrder] = field(default_factory=list)
    batch_orders: list[BatchNodeOrder] = field(default_factory=list)
    best_nodes: list[BestNodeFn] = field(default_factory=list)

    def shape(self) -> tuple[object, ...]:
        """What must be the same for answers of an earlier session to hold."""
        return (
            tuple((p.plugin, p.scope, p.signature, getattr(p.fn, "__qualname__", "")) for p in self.predicates),
            tuple((s.plugin, s.scope, s.signature, getattr(s.fn, "__qualname__", "")) for s in self.node_orders),
        )
