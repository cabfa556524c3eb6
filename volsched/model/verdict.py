"""A refusal: one value from which Events, conditions, log lines and `pending` of `volsched simulate` are made."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from volsched.model.values.quantity import format_amount

LONGEST_MESSAGE: Final = 1000
"""Bytes of UTF-8. The API server refuses an Event whose note is longer than 1,024."""

COMMONEST: Final = 3

DETAILED: Final = 3
"""The most nodes for which a reason lists the amounts of each."""

BINDER: Final = "binder"
"""In the place of a plugin's name: the API server refused what had been decided."""


FITTING: Final = "predicates"
"""The plugin that is named for nodes without room: here the engine compares amounts, in Volcano this plugin."""


class Step(StrEnum):
    """Where on its way a job or pod was stopped; the words of `volsched simulate`."""

    ENQUEUE = "enqueue"
    OVERUSED = "overused"
    ALLOCATABLE = "allocatable"
    PREDICATE = "predicate"
    GANG = "gang"
    BACKFILL = "backfill"
    NO_QUEUE = "no-queue"
    NO_PODGROUP = "no-podgroup"
    GATED = "gated"
    INVALID = "invalid"


class ConditionReason(StrEnum):
    """The reason of a waiting pod's condition ``PodScheduled=False``: one for each step or cause.

    cluster-autoscaler and Karpenter make nodes for pods whose reason is Unschedulable, and for no others (the former in
    the lister of its unschedulable pods, the latter where it asks which pods are provisionable). So only pods that more
    nodes would help have that one.
    """

    UNSCHEDULABLE = "Unschedulable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    NOT_ADMITTED = "NotAdmitted"
    QUEUE_NOT_FOUND = "QueueNotFound"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_NOT_ALLOWED = "QueueNotAllowed"
    QUEUE_INVALID = "QueueInvalid"
    POD_GROUP_NOT_FOUND = "PodGroupNotFound"
    GANG_INCOMPLETE = "GangIncomplete"
    CLAIM_NOT_READY = "ClaimNotReady"
    INVALID_FIELD = "InvalidField"
    SCHEDULING_GATED = "SchedulingGated"
    SCHEDULER_ERROR = "SchedulerError"
    RESERVED = "Reserved"


_REASONS: Final[Mapping[Step, ConditionReason]] = {
    Step.ENQUEUE: ConditionReason.NOT_ADMITTED,
    Step.OVERUSED: ConditionReason.QUOTA_EXCEEDED,
    Step.ALLOCATABLE: ConditionReason.QUOTA_EXCEEDED,
    Step.PREDICATE: ConditionReason.UNSCHEDULABLE,
    Step.GANG: ConditionReason.UNSCHEDULABLE,
    Step.BACKFILL: ConditionReason.UNSCHEDULABLE,
    Step.NO_QUEUE: ConditionReason.QUEUE_NOT_FOUND,
    Step.NO_PODGROUP: ConditionReason.POD_GROUP_NOT_FOUND,
    Step.GATED: ConditionReason.SCHEDULING_GATED,
    Step.INVALID: ConditionReason.INVALID_FIELD,
}
"""The condition reason of a refusal at each step, unless the refusal names another."""


class Scope(StrEnum):
    """The subject of the refusal: others in the same scope would be refused for the same reason."""

    QUEUE = "queue"
    JOB = "job"
    POD = "pod"
    NODE = "node"


class Shortfall(msgspec.Struct, frozen=True, gc=False):
    """One resource of which there is too little; amounts in the resource's unit (see `quantity`)."""

    resource: str
    requested: int
    used: int
    limit: int

    @property
    def total(self) -> int:
        """Return the used amount if the request were granted."""
        return self.used + self.requested

    def human(self) -> dict[str, str]:
        """Return the amounts as canonical quantities."""
        name = self.resource
        return {
            "resource": name,
            "requested": format_amount(name, self.requested),
            "used": format_amount(name, self.used),
            "limit": format_amount(name, self.limit),
        }


class Verdict(msgspec.Struct, frozen=True):
    """A refusal: who refused what at which step, in words and in numbers.

    `resolvable` states whether evicting pods could change the answer; it is what upstream calls Unschedulable rather
    than UnschedulableAndUnresolvable. `shown_as`: what the pod waits for when the step alone would tell something else.
    `queue`: the queue whose limit it is, which may be above that of the pod; empty where it is no limit of a queue.
    """

    step: Step
    plugin: str
    scope: Scope
    reason: str
    message: str
    shortfalls: tuple[Shortfall, ...] = ()
    resolvable: bool = True
    shown_as: ConditionReason | None = None
    queue: str = ""

    @property
    def condition_reason(self) -> ConditionReason:
        """Return the reason of the pod's condition."""
        return self.shown_as or _REASONS[self.step]

    def short_message(self) -> str:
        """Return the message, cut to what an Event may carry."""
        return truncated(self.message)

    def numbers_of(self, node: str) -> str:
        """Return the shortfalls of a node, as "gpu-1: cpu required 6, used 28, quota 32"; empty without any."""
        numbers = (item.human() for item in self.shortfalls)
        texts = (f"{n['resource']} required {n['requested']}, used {n['used']}, quota {n['limit']}" for n in numbers)
        return f"{node}: {', '.join(texts)}" if self.shortfalls else ""


class NodeRefusals:
    """Counts of the reasons for which nodes were refused, rendered as kube-scheduler's sentence.

    If few nodes have a reason with amounts, these are listed as well: `verdicts` are kept for them.
    """

    __slots__ = ("_counts", "_plugins", "_verdicts")

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts: Counter[str] = Counter()
        self._plugins: Counter[str] = Counter()
        self._verdicts: dict[str, list[tuple[str, Verdict]]] = {}
        for reason, nodes in (counts or {}).items():
            self.add(reason, nodes)

    def add(self, reason: str, nodes: int = 1, plugin: str = FITTING) -> None:
        """Count one reason, and whose it is, for a number of nodes."""
        self._counts[reason] += nodes
        self._plugins[plugin] += nodes

    def add_verdict(self, verdict: Verdict, node: str) -> None:
        """Count the reason of one node's verdict."""
        self.add(verdict.message, plugin=verdict.plugin)
        if verdict.shortfalls:
            kept = self._verdicts.setdefault(verdict.message, [])
            if len(kept) < DETAILED:
                kept.append((node, verdict))

    def add_all(self, reasons: Iterable[str], nodes: int = 1) -> None:
        """Count each different reason once for a number of nodes."""
        for reason in set(reasons):
            self.add(reason, nodes)

    @property
    def counts(self) -> Mapping[str, int]:
        """Nodes for each reason."""
        return self._counts

    @property
    def plugin(self) -> str:
        """Return the plugin that refuses the most nodes, the first by name among equals."""
        return min(self._plugins, key=lambda name: (-self._plugins[name], name), default=FITTING)

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NodeRefusals):
            return False
        return self._counts == other._counts and self._plugins == other._plugins

    __hash__ = None  # type: ignore[assignment]

    def ordered(self) -> list[tuple[str, int]]:
        """Return the reasons and counts: the three commonest first, the others by text."""
        by_count = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return by_count[:COMMONEST] + sorted(by_count[COMMONEST:])

    def text(self, nodes: int) -> str:
        """Return the sentence, as "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) were unschedulable.".

        Reasons that do not fit into an Event are counted at the end.
        """
        head = f"0/{nodes} nodes are available"
        parts = [f"{count} {reason}{self._numbers(reason, count)}" for reason, count in self.ordered()]
        if not parts:
            return f"{head}."
        shown = _shown(parts, LONGEST_MESSAGE - 1 - len(f"{head}: ."))
        tail = f"{_and_more(len(parts) - shown)}."
        return truncated(f"{head}: {', '.join(parts[:shown])}", tail)

    def _numbers(self, reason: str, count: int) -> str:
        """Return what the nodes with a reason lack, when all of them are known and few."""
        verdicts = self._verdicts.get(reason, ())
        if not verdicts or count != len(verdicts):
            return ""
        return f" ({'; '.join(verdict.numbers_of(node) for node, verdict in verdicts)})"


def truncated(text: str, tail: str = "", limit: int = LONGEST_MESSAGE) -> str:
    """Return text and tail in fewer than `limit` bytes, the text cut between two characters and marked there."""
    if len((text + tail).encode()) < limit:
        return text + tail
    room = limit - 1 - len(("…" + tail).encode())
    return text.encode()[:room].decode(errors="ignore") + "…" + tail


def _shown(parts: list[str], room: int) -> int:
    """Return how many parts fit into so many bytes together with the count of the others; at least 1."""
    shown, size = 1, -2
    for number, part in enumerate(parts, 1):
        size += 2 + len(part.encode())
        if size > room:
            break
        if size + len(_and_more(len(parts) - number)) <= room:
            shown = number
    return shown


def _and_more(reasons: int) -> str:
    if reasons == 0:
        return ""
    return f", and {reasons} more reason{'s' if reasons > 1 else ''}"
