"""The answers, as values: what the verbs print with ``-o json`` and what the page shows. Fields are only ever added.

Amounts are quantities as Kubernetes writes them; times are seconds since the epoch; empty texts and lists mean nothing.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

API_VERSION: Final = "volsched.io/v1alpha1"

KINDS: Final = ("pod", "podgroup", "job", "deployment", "replicaset", "statefulset", "daemonset", "queue")
"""Kinds that a question may be about. Other kinds of workloads may be, too."""

State = Literal["scheduled", "waits", "finished", "idle"]
"""``idle`` is what has nothing to schedule: a Job without pods that is over, a queue without waiting jobs."""


class AnswerRecord(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all answers."""


class Subject(AnswerRecord, frozen=True):
    """What was asked about. A queue has no namespace."""

    kind: str
    name: str
    namespace: str = ""


class Short(AnswerRecord, frozen=True):
    """What is short: have (``used`` of ``limit``) and need. ``of`` states whose it is: queue, job, pod, node, nodes.

    ``name``: that of the queue, which may be one above the job's.
    """

    of: str
    resource: str
    requested: str
    used: str
    limit: str
    name: str = ""


class Gang(AnswerRecord, frozen=True):
    """The gang's part: how many members it starts with, how many hold room, wait and exist.

    ``shortage`` states what the gang lacks as a whole, where a placement for all of it was searched for in vain.
    """

    minimum: int
    ready: int
    waiting: int
    pods: int
    shortage: str = ""


class Figures(AnswerRecord, frozen=True):
    """One resource, or one card, of a queue; None where nothing limits it or nothing is known."""

    resource: str
    used: str
    reserved: str
    quota: str | None = None
    headroom: str | None = None
    deserved: str | None = None
    guarantee: str | None = None


class QueuePosition(AnswerRecord, frozen=True):
    """The position of a job in its queue (1 is next), and the sum of the requests before it."""

    queue: str
    position: int
    of: int
    jobs_before: int
    requested_before: dict[str, str]


class Holder(AnswerRecord, frozen=True):
    """Who holds something of what is waited for. ``name`` is a job's ``namespace/name``.

    ``reserved`` is how much of the amount is kept for it, as it was admitted and does not hold it yet. ``workload``
    and ``replica_set`` as in WaitingJob. ``since``: its first pod that holds room started then; ``ends``: it is
    expected to end then, by the durations that all of its pods declare; None for what is not known.
    """

    name: str
    queue: str
    resource: str
    amount: str
    pods: int
    reserved: str = ""
    workload: str = ""
    replica_set: str = ""
    since: float | None = None
    ends: float | None = None


class NodeLine(AnswerRecord, frozen=True):
    """Nodes that refuse for the same reason: how many, the first names, and the refusal; empty where there is room."""

    count: int
    names: tuple[str, ...]
    refusal: str


class Help(AnswerRecord, frozen=True):
    """A smallest change that lets the job start, seen to do so by a session that was run with it.

    ``sort``: quota, nodeQuota, card, minMember, gate, toleration, selector, nodes, pods; of two together, as
    ``quota+nodes``. ``command`` can be run as it is; ``patch`` is YAML.
    """

    sort: str
    sentence: str
    command: str = ""
    patch: str = ""


class Advice(AnswerRecord, frozen=True):
    """What would help. ``tried`` counts sessions; ``nothing`` states why nothing would; ``not_tried`` what was left."""

    helps: tuple[Help, ...] = ()
    tried: int = 0
    nothing: str = ""
    not_tried: tuple[str, ...] = ()


class ExpectedStart(AnswerRecord, frozen=True):
    """When a job that waits starts. ``at`` is None where that is not known.

    ``sort``: ``promised`` by a reservation, ``estimated`` by the durations that pods declare, or ``unknown``.
    ``sentence`` states what the time assumes, or why it is not known. It names no other job and no node.
    """

    sort: Literal["promised", "estimated", "unknown"]
    at: float | None
    sentence: str


class TimelineEntry(AnswerRecord, frozen=True):
    """What happened to a job at a time, from the timestamps of its objects. ``sentence`` is for people."""

    at: float
    what: Literal["created", "admitted", "waits", "promised", "started", "evicted", "ended"]
    sentence: str


class PodState(AnswerRecord, frozen=True):
    """A pod of a job: its name, its state in one word, its node, since when, and its reason if it waits or failed.

    ``step`` is the step at which a waiting pod is stopped.
    """

    pod: str
    state: str
    node: str
    since: float | None
    step: str = ""
    message: str = ""


class WaitingPod(AnswerRecord, frozen=True):
    """A pod that waits, with its own reason."""

    pod: str
    step: str
    reason: str
    message: str


class Explanation(AnswerRecord, frozen=True):
    """Why something waits, or where it is. In the order in which it is told."""

    subject: Subject
    state: State
    sentence: str
    step: str = ""
    plugin: str = ""
    reason: str = ""
    message: str = ""
    short: tuple[Short, ...] = ()
    gang: Gang | None = None
    queue: str = ""
    quota: tuple[Figures, ...] = ()
    place: QueuePosition | None = None
    since: float | None = None
    reported: str = ""
    holders: tuple[Holder, ...] = ()
    pods: tuple[WaitingPod, ...] = ()
    placed: dict[str, str] = {}
    nodes: tuple[NodeLine, ...] = ()
    advice: Advice | None = None
    warnings: tuple[str, ...] = ()
    jobs: tuple[WaitingJob, ...] = ()
    workload: str = ""


class WaitingJob(AnswerRecord, frozen=True):
    """A job that waits, for lists. ``position`` counts from 1 in its queue; 0 where no order is known.

    ``name`` is that of the PodGroup. ``workload`` is the workload of the job as ``Kind/name``; ``replica_set`` is the
    ReplicaSet if the workload is a Deployment.
    """

    name: str
    namespace: str
    queue: str
    step: str
    reason: str
    message: str
    since: float | None
    position: int
    pods: int
    requests: dict[str, str]
    workload: str = ""
    replica_set: str = ""


class QueueState(AnswerRecord, frozen=True):
    """A queue of the tree, with what it holds by resource and card model, and who waits in it."""

    name: str
    parent: str
    state: str
    figures: tuple[Figures, ...]
    waiting_jobs: int
    waiting_pods: int


class PodDifference(AnswerRecord, frozen=True):
    """A pod of which two runs decide something else. ``sort``: starts, waits, moves, evicted, spared, reason."""

    pod: str
    gang: str
    queue: str
    sort: str
    before: str
    after: str
    why: str


class StartDifference(AnswerRecord, frozen=True):
    """A job whose promised start differs between two runs: a time, empty without a promise."""

    job: str
    queue: str
    before: str
    after: str


class Difference(AnswerRecord, frozen=True):
    """What differs between two runs: ``summary`` by sort, ``queues`` by queue and sort, then pod by pod.

    ``starts`` are promised starts of jobs that wait in both runs.
    """

    summary: dict[str, int]
    queues: dict[str, dict[str, int]]
    gangs: dict[str, dict[str, int]]
    pods: tuple[PodDifference, ...]
    starts: tuple[StartDifference, ...] = ()


def document(kind: str, record: AnswerRecord) -> dict[str, Any]:
    """Return an answer as the JSON object that programs get."""
    body = msgspec.to_builtins(record)
    return {"apiVersion": API_VERSION, "kind": kind, **body}
