"""Chooses the topology domain of a native group: the whole group is tried in each domain.

kube-scheduler's scores (PodGroupPodsCount and NodeResourcesFit, MostAllocated, of equal weight): how many members have
room, and how full the domain is with them, 100 each at most. Of equal ones the first name is taken, where
kube-scheduler draws. A domain that will have room for the group only once others have left comes behind those that
have it now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from actions.attempt import Attempt
from actions.placement import place
from actions.promises import choose, take
from volsched.framework.native.topology import Topology
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.values.resources import CPU, MEMORY

_MOST: Final = 100


class Trial(NamedTuple):
    """The outcome of a tried domain: whether and when the group could start, with how many, and how full it is."""

    value: str
    starts: bool
    may_wait: bool
    members: int
    fullness: int


def place_in_domain(session: Session, queue: QueueInfo, attempt: Attempt) -> Statement | None:
    """Place tasks of a job as ``placement.place`` does; those of a native group in the domain where it does best."""
    if attempt.job.is_native:
        _settle_domain(session, queue, attempt.job, attempt.tasks)
    return place(session, queue, attempt)


def _settle_domain(session: Session, queue: QueueInfo, job: JobInfo, tasks: Sequence[TaskInfo]) -> None:
    """Pin a group that has a topology key, and no pod anywhere, to the domain where it does best."""
    if job.spec.native is None or not job.spec.native.topology_key:
        return
    topology = Topology.of(session)
    if topology.domain(job):
        job.placements = 1
        return
    trials = [_try(session, topology, queue, job, tasks, value) for value in topology.candidates(job)]
    job.placements = len(trials)
    best = best_of(trials)
    if best is not None:
        topology.pin(job, best.value)


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the best of several domains; None of none."""
    most = max((trial.members for trial in trials), default=0) or 1

    def rank(trial: Trial) -> tuple[bool, bool, int]:
        return trial.starts, trial.may_wait, _MOST * trial.members // most + trial.fullness

    return max(trials, key=rank, default=None)


def _try(
    session: Session, topology: Topology, queue: QueueInfo, job: JobInfo, tasks: Sequence[TaskInfo], value: str
) -> Trial:
    topology.pin(job, value)
    with session.without_requeue():
        statement = session.statement()
        for task in reversed(tasks):
            _place(session, statement, queue, task)
        found = Trial(
            value,
            session.is_ready(job),
            session.may_wait(job),
            job.ready_count,
            fullness(topology.nodes(job, value)),
        )
        statement.discard()
    topology.release(job)
    return found


def _place(session: Session, statement: Statement, queue: QueueInfo, task: TaskInfo) -> None:
    if task.spec.admission_gate or session.allocatable_refusal(queue, task) is not None:
        return
    if session.pre_refusal(task) is None and (room := choose(session, task)) is not None:
        if room.is_free:
            take(session, statement, task, room)
        else:
            statement.pipeline(task, room.node)


def fullness(nodes: Sequence[NodeInfo]) -> int:
    """Return the mean use of a domain's CPU and memory, in whole percent."""
    shares = []
    for resource in (CPU, MEMORY):
        offered = sum(node.allocatable_of(resource) for node in nodes)
        if offered > 0:
            shares.append(min(_MOST, _MOST * sum(node.used_of(resource) for node in nodes) // offered))
    return sum(shares) // len(shares) if shares else 0
