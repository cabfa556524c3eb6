"""Which jobs an action looks at, and in which order their queues and they take turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from actions.unschedulable import is_unschedulable, mark_unschedulable
from volsched.framework.callbacks import JobKeyFn
from volsched.framework.dispatch.ordering import Heap
from volsched.framework.native.gangs import is_incomplete, least_of
from volsched.framework.session import Session
from volsched.model.job import PENDING, JobInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict


@dataclass(slots=True)
class Turns:
    """Queues take turns; in a queue, the best job goes on. Shares change with every placement, so does the order.

    In a session that is long namespaces take turns as well, and queues, where plugins order neither: by age alone
    one that makes many jobs would have all its decisions before others have any.
    """

    queues: Heap[QueueInfo]
    jobs: dict[str, Heap[JobInfo]]
    in_turns: bool = False
    goes_before: Callable[[JobInfo, JobInfo], bool] | None = None
    """True for a job of a queue, and the first one, if the job goes before it nevertheless. None: no job does."""

    @classmethod
    def of(cls, session: Session, jobs: list[JobInfo], key: JobKeyFn | None = None) -> Turns:
        """Heaps over these jobs, in their order or in that of a key, and over their queues."""
        queues, heaps = session.queues_of(jobs, key)
        return cls(queues, heaps)

    def next_queue(self, session: Session) -> QueueInfo | None:
        """Take out the queue whose turn it is, of those that have jobs; None if there are none."""
        while self.queues:
            if session.is_long and not self.in_turns:
                self._take_turns(session)
            queue = self.queues.pop()
            if self.jobs[queue.name]:
                return queue
        return None

    def next_job(self, queue: QueueInfo) -> JobInfo:
        """Take out the job of a queue whose turn it is."""
        jobs = self.jobs[queue.name]
        return jobs.pop() if self.goes_before is None else jobs.pop_preferred(self.goes_before)

    def rest_of(self, queue: QueueInfo) -> Iterator[JobInfo]:
        """Take out all jobs of a queue that has no turn any more, in their order."""
        while self.jobs[queue.name]:
            yield self.next_job(queue)

    def put_back(self, queue: QueueInfo, job: JobInfo | None = None) -> None:
        """Let a queue, and a job of it, have another turn."""
        if job is not None:
            self.jobs[queue.name].push(job)
        self.queues.push(queue)

    def _take_turns(self, session: Session) -> None:
        """Order queues by how often they had a turn, jobs by how many their namespace has before, and then by age."""
        turns: Counter[str | tuple[str, str]] = Counter()

        def queue_key(queue: QueueInfo) -> tuple[Any, ...]:
            turns[queue.name] += 1
            *placed, made, name = session.queue_key(queue)
            return *placed, turns[queue.name], made, name

        def job_key(job: JobInfo) -> tuple[Any, ...]:
            turns[job.queue, job.namespace] += 1
            *placed, made, key = session.job_key(job)
            return *placed, turns[job.queue, job.namespace], made, key

        self.in_turns = True
        self.queues = self.queues.by(queue_key)
        self.jobs = {name: jobs.by(job_key) for name, jobs in self.jobs.items()}


def considered(session: Session, jobs: Iterable[JobInfo], also: Iterable[JobInfo] = ()) -> Iterator[JobInfo]:
    """Yield those of the jobs (and of others) that are admitted, complete and in a queue that they may use."""
    cluster = session.cluster
    for job in dict.fromkeys((*jobs, *also)):
        if job.blocked or job.queue not in cluster.queues or not (job.spec.has_group or job.spec.implicit):
            continue
        if job.phase in ("", PENDING) and not job.spec.implicit:
            continue
        if not session.is_paused(job) and is_complete(session, job):
            yield job


def is_complete(session: Session, job: JobInfo) -> bool:
    """True if a job can be looked at; if not, it is told why and left alone until something has changed."""
    cluster = session.cluster
    with session.about(job):
        refusal = closed_queue(cluster.queues[job.queue], Step.ALLOCATABLE) or session.invalidity(job)
        if refusal is None:
            if job.refusal is not None and job.refusal.step is not Step.OVERUSED:
                session.clear_refusal(job)
            return True
        if is_incomplete(refusal):  # told after a while, as its pods are only being made
            if not is_incomplete(job.refusal):
                session.clear_refusal(job)
        else:
            session.refuse_job(job, refusal)
        mark_unschedulable(job, cluster)
    return False


def settle_minimum(session: Session, job: JobInfo) -> bool:
    """True if a native group has the members that it starts with. What these ask for its queue must have.

    One that has a member on a node was admitted before: that is all the memory there is.
    """
    if not is_complete(session, job):
        return False
    members = session.in_order(job.schedulable())
    job.spec = replace(job.spec, min_resources=least_of(job, members))
    return True


def promote_all(session: Session) -> None:
    """Admit every PodGroup, pods or none: without an enqueue action allocate does so (as Volcano's).

    One in a closed queue is not admitted, and told so.
    """
    queues = session.queues
    for job in sorted(session.unadmitted_jobs(), key=lambda job: job.key):
        queue = queues.get(job.queue)
        if session.is_paused(job):
            continue
        if job.is_native and (is_unschedulable(job, session.cluster) or queue is None or not is_complete(session, job)):
            continue
        if not job.spec.has_group or queue is None:
            continue
        closed = closed_queue(queue, Step.ENQUEUE)
        if closed is None:
            session.promote(job)
        elif not job.blocked and not is_unschedulable(job, session.cluster):
            with session.about(job):
                session.refuse_job(job, closed)
                mark_unschedulable(job, session.cluster)


def closed_queue(queue: QueueInfo, step: Step) -> Verdict | None:
    """Return why a queue takes nothing on: somebody closed it. *Ours*: whatever plugins are configured."""
    if queue.is_open:
        return None
    message = f'queue "{queue.name}" is {queue.spec.reported_state}: it takes nothing on until it is opened'
    return Verdict(
        step, "", Scope.QUEUE, "QueueClosed", message, resolvable=False, shown_as=ConditionReason.QUEUE_CLOSED
    )
