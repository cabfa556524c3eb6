"""The rules that a plugin may register, each with its callback (``callbacks`` has when each is called).

A plugin makes rules when a session opens and hands them to its registrar: ``registrar.register(Predicate(fits))``. The
type annotations of a callback declare which parts of pods and nodes it reads (``signature``), so the engine knows how
long an answer holds. The rules also decide which equal tasks are placed in one step (``dispatch.one_at_a_time``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import msgspec

from volsched.framework.callbacks import (
    ABSTAIN,
    AllocatableFn,
    AppliesFn,
    BatchNodeOrderFn,
    BatchVectorFn,
    BestNodeFn,
    CloseFn,
    DeviceLimitsFn,
    HeadroomFn,
    JobEnqueuedFn,
    JobKeyFn,
    JobReadyFn,
    JobStarvingFn,
    JobValidFn,
    JobVoteFn,
    OverusedFn,
    PreemptiveFn,
    PrePredicateFn,
    ProtectedFn,
    QueueKeyFn,
    QueueLevelKeyFn,
    QueueWayFn,
    RefusedFn,
    TaskEvents,
    TaskKeyFn,
    UniformFn,
    VersionFn,
    VictimQueueKeyFn,
    VictimsFn,
    WakeFn,
    WithinDeservedFn,
    WordingsFn,
)
from volsched.framework.columns.views import NodeTable, node_view, template_view
from volsched.framework.deprecated_flags import FormerFlags
from volsched.framework.deprecated_names import former
from volsched.framework.signature import UNTYPED, Signature, SignatureError
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo

if TYPE_CHECKING:
    from volsched.framework.dispatch.combining import ElasticQuota

Lifetime: TypeAlias = Literal["static", "node", "domain", "pod"]
"""How long an answer about a pod and a node holds.

It ends when properties of the node change, when anything on the node changes, when the version of its key changes, or
after this one question.
"""


class Rule(msgspec.Struct, frozen=True):
    """The base of rules. The first field of each is its callback.

    ``switch`` names the switch of the configuration that leaves the rule out; empty if none does.
    """

    switch: ClassVar[str] = ""
    is_tiered: ClassVar[bool] = False
    """True if the tier of the plugin counts when answers are combined."""
    is_named: ClassVar[bool] = False
    """True if the name of the plugin is kept beside the callback."""
    is_about_nodes: ClassVar[bool] = False
    """True if an engine asks the rule and names its plugin."""

    def callback(self) -> Any:
        """Return what is called."""
        return getattr(self, self.__struct_fields__[0])

    def placed_singly(self) -> AppliesFn:
        """Return a test: True for templates whose pods this rule places one at a time."""
        return never


def always(_: PodTemplate) -> bool:
    """True for every template."""
    return True


def never(_: PodTemplate) -> bool:
    """No template."""
    return False


def depends_on_pods(template: PodTemplate) -> bool:
    """Templates whose pods want others near them, or away from them."""
    return template.depends_on_pods


# -- orders -----------------------------------------------------------------------------------------------------------


class JobOrder(Rule, frozen=True):
    """Order jobs of a queue, smaller keys first."""

    switch: ClassVar[str] = "enableJobOrder"
    key: JobKeyFn


class QueueOrder(Rule, frozen=True):
    """Order queues, smaller keys first.

    ``in_tree`` orders them at the first level at which their ways differ, each level by its own key. Then a placement
    that changes the key of a level counts at once for all queues below it.
    """

    switch: ClassVar[str] = "enableQueueOrder"
    key: QueueKeyFn
    way: QueueWayFn | None = None
    level_key: QueueLevelKeyFn | None = None

    @classmethod
    def in_tree(cls, way: QueueWayFn, level_key: QueueLevelKeyFn) -> Self:
        """Make one of the levels of queues and of the keys of these."""
        return cls(lambda queue: tuple(map(level_key, way(queue))), way, level_key)


class VictimQueueOrder(Rule, frozen=True):
    """Orders queues: whose pods go first for a task of another queue, smaller keys first. No switch turns this off."""

    key: VictimQueueKeyFn


class TaskOrder(Rule, frozen=True):
    """Order tasks of a job, smaller keys first."""

    switch: ClassVar[str] = "enableTaskOrder"
    key: TaskKeyFn


# -- jobs -------------------------------------------------------------------------------------------------------------


class JobValid(Rule, frozen=True):
    """Refuse a job that is not complete enough. No switch turns this off."""

    fn: JobValidFn


class JobEnqueueable(Rule, frozen=True):
    """Vote on admitting a job. Reserve nothing here: see ``JobEnqueued``.

    A job that states no minimum of resources is voted on by those that want ``always`` to be asked.
    """

    switch: ClassVar[str] = "enableJobEnqueued"
    is_tiered: ClassVar[bool] = True
    fn: JobVoteFn
    always: bool = False

    def callback(self) -> JobVoteFn:
        """Return the vote, which abstains about jobs without a minimum unless it is always asked."""
        return self.fn if self.always else with_minimum(self.fn)


class JobEnqueued(Rule, frozen=True):
    """Hear that a job was admitted."""

    switch: ClassVar[str] = "enableJobEnqueued"
    fn: JobEnqueuedFn


class JobReady(Rule, frozen=True, metaclass=FormerFlags):
    """Tells whether what was placed of a job may be committed.

    It is asked after each task. ``for_each_pod=never`` states that no job is ready while ``JobInfo.lacking`` tasks more
    are needed: so many are placed in one step.
    """

    switch: ClassVar[str] = "enableJobReady"
    fn: JobReadyFn
    for_each_pod: AppliesFn = always

    def placed_singly(self) -> AppliesFn:
        """Return a test: True for templates after each pod of which the rule is asked again."""
        return self.for_each_pod


class JobPipelined(Rule, frozen=True):
    """Vote on whether a job may wait for room being freed."""

    switch: ClassVar[str] = "enableJobPipelined"
    is_tiered: ClassVar[bool] = True
    fn: JobVoteFn


class JobStarving(Rule, frozen=True):
    """Tells whether a job lacks room."""

    switch: ClassVar[str] = "enableJobStarving"
    is_tiered: ClassVar[bool] = True
    fn: JobStarvingFn


# -- queues -----------------------------------------------------------------------------------------------------------


class Overused(Rule, frozen=True):
    """Stop a queue that has its deserved share."""

    switch: ClassVar[str] = "enabledOverused"
    fn: OverusedFn


QuotaCallbacks: TypeAlias = tuple[HeadroomFn | None, AllocatableFn, RefusedFn | None]


def _nobody(_queue: QueueInfo, _task: TaskInfo) -> None:
    """Return no refusal."""


class Allocatable(Rule, frozen=True):
    """Keeps a queue within its quota, by a ``headroom`` or by a plain ``refusal`` of single tasks.

    Jobs that a headroom refuses for the same reason are asked about together, and tasks within it are placed in one
    step. A plain refusal is asked for each task. ``applies_to`` selects the pods that a plain refusal is about.
    ``refused`` is called when a task is refused. ``is_share``: the quota depends on the demand of other queues, so it
    does not count for a job with a promised start. A quota that only administrators change always counts.
    """

    switch: ClassVar[str] = "enabledAllocatable"
    refusal: AllocatableFn | None = None
    headroom: HeadroomFn | None = None
    applies_to: AppliesFn | None = None
    refused: RefusedFn | None = None
    is_share: bool = False

    def __post_init__(self) -> None:
        if (self.refusal is None) is (self.headroom is None):
            raise SignatureError("Allocatable takes a refusal or a headroom, one of them")

    def callback(self) -> QuotaCallbacks:
        """Return both ways to ask, and the function to call after a refusal."""
        return self.headroom, self.refusal or _nobody, self.refused

    def placed_singly(self) -> AppliesFn:
        """Return a test: True for templates whose pods are refused one by one, without a headroom."""
        return never if self.headroom is not None else self.applies_to or always


class Preemptive(Rule, frozen=True):
    """Tells whether a queue may take room from others."""

    switch: ClassVar[str] = "enablePreemptive"
    fn: PreemptiveFn


class Preemptable(Rule, frozen=True):
    """Chooses the candidates that a task may preempt."""

    switch: ClassVar[str] = "enablePreemptable"
    is_tiered: ClassVar[bool] = True
    fn: VictimsFn


class Reclaimable(Rule, frozen=True):
    """Chooses the candidates that a task may reclaim."""

    switch: ClassVar[str] = "enableReclaimable"
    is_tiered: ClassVar[bool] = True
    fn: VictimsFn


class Protected(Rule, frozen=True):
    """Protects a pod from eviction for a task, whatever plugins of any tier answer. No switch turns this off.

    A pod that leaves only together with others, as of a native group that goes as a whole, protects them, too. The
    answer is a bool; anything else is an AnswerError.
    """

    is_named: ClassVar[bool] = True
    fn: ProtectedFn


class WithinDeserved(Rule, frozen=True):
    """Lets reclaim go on beyond the minimum of jobs, as long as the job's queue is within its deserved share.

    ``victims`` returns the candidates that a task may take then: after each eviction its queue, and the queues above
    it, still have their deserved share. Without it the plugin's ``Reclaimable`` rule checks that.
    """

    switch: ClassVar[str] = "enableReclaimable"
    is_within: WithinDeservedFn
    victims: VictimsFn | None = None

    def callback(self) -> Self:
        """Return the rule: both callbacks are asked."""
        return self


class Deserved(Rule, frozen=True):
    """Makes deserved amounts of queues reclaimable, and nothing else of that dimension; see ``volsched.quota.reclaim``.

    It is a ``Preemptive``, a ``Reclaimable`` and a ``WithinDeserved`` rule. With ``inside``, preemption inside a queue
    takes only pods that hold the wanted dimension, too.
    """

    quota: ElasticQuota
    inside: bool = True


class DeviceLimits(Rule, frozen=True):
    """Limits how many devices a task may still be given."""

    fn: DeviceLimitsFn


# -- nodes ------------------------------------------------------------------------------------------------------------


class PrePredicate(Rule, frozen=True):
    """Refuse a task before any node is asked. ``applies_to`` states which pods it may refuse, any without it.

    ``for_each_pod``: the templates of which it has to be asked about each pod; without it all that it may refuse. The
    pods of others get the same answer if the plugin's predicate has the same key for them.
    """

    switch: ClassVar[str] = "enablePredicate"
    fn: PrePredicateFn
    applies_to: AppliesFn | None = None
    for_each_pod: AppliesFn | None = None

    def placed_singly(self) -> AppliesFn:
        """Return a test: True for templates of which the rule is asked about each pod."""
        return self.for_each_pod or self.applies_to or always


class NodeRule(Rule, frozen=True, metaclass=FormerFlags):
    """A rule about a pod and a node. The type annotations of its function declare what it reads, see ``signature``.

    ``vector`` answers for many nodes at once. ``applies_to`` leaves the rule out for whole templates. An answer that
    depends on more has a ``key``, by which pods share answers, and a ``version``, which changes with the answers. For
    pods whose key is None a predicate must pass, and a score be 0. Equal pods with a key are placed one at a time. With
    ``for_each_pod``, only those of these templates are, as the other answers hold while equal pods within the plugin's
    headroom are placed. The last four fields are set when the rule is registered.
    """

    is_about_nodes: ClassVar[bool] = True
    fn: Callable[[Any, Any], Any]
    vector: Callable[[Any, NodeTable], Any] | None = None
    applies_to: AppliesFn | None = None
    key: Callable[..., Hashable | None] | None = None
    version: VersionFn | None = None
    for_each_pod: AppliesFn | None = None

    plugin: str = ""
    signature: Signature = UNTYPED
    is_keyed_by_queue: bool = False
    scope: Lifetime = "pod"

    def callback(self) -> Self:
        """Return the rule: engines look at all of it."""
        return self

    def placed_singly(self) -> AppliesFn:
        """Return the test ``for_each_pod``; by default ``dispatch.one_at_a_time`` decides by the keys of pods."""
        return self.for_each_pod or never

    def reading(self, signature: Signature, **further: Any) -> Self:
        """Return the rule with this signature, and with these fields replaced."""
        lasting: Lifetime = "static" if signature.node == "properties" else "node"
        scope: Lifetime = "domain" if self.key is not None else lasting if signature.pod != "task" else "pod"
        return msgspec.structs.replace(self, signature=signature, scope=scope, **further)

    @property
    def reads_amounts(self) -> bool:
        """True if the callback reads only the amounts of a node."""
        return self.signature.node == "amounts"

    def pod(self, task: TaskInfo) -> Any:
        """Return the part of a task that the callback reads."""
        view = self.signature.pod
        return task if view == "task" else template_view(task.template, view)

    def ask(self, task: TaskInfo, node: NodeInfo) -> Any:
        """Call the plain function about one node."""
        return self.fn(self.pod(task), node_view(self.signature.node, node))

    def applies(self, task: TaskInfo) -> bool:
        """True if the callback applies to tasks of this template."""
        return self.applies_to is None or self.applies_to(task.template)

    def applies_to_task(self, task: TaskInfo) -> bool:
        """True if the callback applies to this task."""
        return self.applies(task) and (self.key is None or self.key(task) is not None)


class Predicate(NodeRule, frozen=True):
    """Refuse nodes for a pod.

    ``wordings`` numbers refused rows by their words. ``is_temporary``: what it refuses it will let in later, though
    nothing else changes, so its refusals take no room from a job for which room is kept.
    """

    switch: ClassVar[str] = "enablePredicate"
    wordings: WordingsFn | None = None
    is_temporary: bool = False


class NodeOrder(NodeRule, frozen=True):
    """Score nodes for a pod."""

    switch: ClassVar[str] = "enableNodeOrder"


class BatchNodeOrder(Rule, frozen=True):
    """Score all candidates for a task together."""

    switch: ClassVar[str] = "enableNodeOrder"
    is_about_nodes: ClassVar[bool] = True
    fn: BatchNodeOrderFn
    uniform: UniformFn | None = None
    vector: BatchVectorFn | None = None
    plugin: str = ""

    def callback(self) -> BatchNodeOrder:
        """Return the rule: engines look at all of it."""
        return self

    def placed_singly(self) -> AppliesFn:
        """Return a test: True for templates whose scores may change when an equal pod is placed."""
        return depends_on_pods


class BestNode(Rule, frozen=True):
    """Choose among scored nodes."""

    switch: ClassVar[str] = "enableBestNode"
    fn: BestNodeFn


# -- what happens -----------------------------------------------------------------------------------------------------


class EventHandler(Rule, frozen=True, metaclass=FormerFlags):
    """Follows the changes that statements make to tasks. No switch turns this off.

    ``for_each_pod`` states whose placing it may refuse, or has to hear of: of any pod without it. Other pods may be
    placed in one step, of which it does not hear, as far as the headroom of the plugin goes; it hears of those that are
    placed alone. ``first``: before all others, which read what it decides. ``in_steps``: it hears of each pod of a step
    as well, before a node is looked for the next one, though job and queue are counted after the step.
    """

    events: TaskEvents
    first: bool = False
    for_each_pod: AppliesFn = always
    in_steps: bool = False

    def placed_singly(self) -> AppliesFn:
        """Return a test: True for templates whose pods are reported to the handler one at a time."""
        return never if self.in_steps else self.for_each_pod


class SessionClose(Rule, frozen=True):
    """Be called when the session closes."""

    fn: CloseFn


class Wake(Rule, frozen=True):
    """Tells when the plugin's answers change although nothing else does."""

    fn: WakeFn


def with_minimum(fn: JobVoteFn) -> JobVoteFn:
    """Have a vote abstain about jobs that state no minimum of resources (Volcano's rule)."""
    return lambda job: ABSTAIN if job.spec.min_resources is None else fn(job)


@dataclass(slots=True)
class NodeCallbacks:
    """The rules about nodes that the plugins of one session registered, in order."""

    predicates: list[Predicate] = field(default_factory=list)
    node_orders: list[NodeOrder] = field(default_factory=list)
    batch_orders: list[BatchNodeOrder] = field(default_factory=list)
    best_nodes: list[BestNodeFn] = field(default_factory=list)

    def identity(self) -> tuple[object, ...]:
        """Return the signature of all rules. Answers of an earlier session hold only if it is equal."""
        return (
            tuple((p.plugin, p.scope, p.signature, getattr(p.fn, "__qualname__", "")) for p in self.predicates),
            tuple((s.plugin, s.scope, s.signature, getattr(s.fn, "__qualname__", "")) for s in self.node_orders),
        )


# -- names of one minor version ago -----------------------------------------------------------------------------------


if not TYPE_CHECKING:  # a type checker knows the present names alone
    _PARTS = {
        "Metric": "metrics",
        "ShownAmounts": "amounts",
        "ShownHoldings": "allocated",
        "ShownUsage": "usage",
        "ShownTable": "table",
        "Holders": "consumers",
        "Remedies": "suggestions",
    }
    __getattr__ = former(
        __name__,
        {
            "Due": (":WithinDeserved", "it is WithinDeserved"),
            "CountedOverTime": ("volsched.quota.past_use:CountedOverTime", "it is in volsched.quota.past_use"),
            **{
                name: (f"volsched.framework.deprecated_rules:{name}", f"register Report({part}=...)")
                for name, part in _PARTS.items()
            },
        },
    )
