"""The lines of lists of jobs, and the blocks that lists are made of.

A block has the jobs of one state, queue and namespace. A change makes only its own blocks again, so a reader of a list
does work for changed blocks alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from volsched.diagnose.records import WaitingJob
from volsched.diagnose.workload_names import WorkloadName, with_workload
from volsched.model.job import JobInfo

WAITING, RUNNING, ENDED = "waiting", "running", "ended"
STATES: Final = (WAITING, RUNNING, ENDED)
"""The states of jobs, in the order of lists."""

COMPLETED, FAILED, EVICTED, DELETED = "completed", "failed", "evicted", "deleted"
"""How a job has ended."""


class JobLine(msgspec.Struct, frozen=True, gc=False):
    """A job in a list. Times are in seconds since the epoch.

    ``since``: it has waited or run since then, or ended then; None if that is not known. ``placed`` of its ``pods``
    have a node, on ``nodes`` nodes. ``requests``: what its waiting pods request; of others what the job holds, or held.
    ``position`` counts from 1 in its queue. ``ends``: when a running job is expected to end by what it declares.
    ``end``: how it has ended. ``is_there``: its objects exist.
    """

    state: str
    namespace: str
    name: str
    queue: str
    workload: str
    replica_set: str
    since: float | None
    pods: int
    placed: int = 0
    nodes: int = 0
    requests: dict[str, str] = {}
    cards: float = 0.0
    step: str = ""
    reason: str = ""
    message: str = ""
    position: int = 0
    ends: float | None = None
    end: str = ""
    is_there: bool = True

    @property
    def key(self) -> str:
        """Return its namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def called(self) -> WorkloadName:
        """Return the name of its workload."""
        return WorkloadName(self.workload, self.replica_set)


class BlockKey(NamedTuple):
    """What the jobs of a block have in common."""

    state: str
    queue: str
    namespace: str


Blocks = Mapping[BlockKey, tuple[JobLine, ...]]


def block_of(line: JobLine) -> BlockKey:
    """Return the block that a job belongs to."""
    return BlockKey(line.state, line.queue, line.namespace)


def waiting_line(job: JobInfo, record: WaitingJob) -> JobLine:
    """Return the line of a job that waits."""
    return JobLine(
        WAITING, record.namespace, record.name, record.queue, record.workload, record.replica_set, record.since,
        len(job.tasks), job.placed_count, requests=record.requests, cards=cards_in(record.requests),
        step=record.step, reason=record.reason, message=with_workload(job, record.message), position=record.position,
    )  # fmt: skip


def cards_in(requests: Mapping[str, str]) -> float:
    """Return how many cards and other extended resources are requested, for an order of jobs."""
    return sum(float(amount) for name, amount in requests.items() if "/" in name and amount.isdecimal())
