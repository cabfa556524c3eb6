"""Follows all jobs: those that run and that have ended lately, beside those that wait."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Final

import msgspec

from volsched.diagnose.ends import annotations_of, end_of_pod, expected_end, holds_since, requested
from volsched.diagnose.queries import is_waiting, quantities
from volsched.diagnose.workload_names import workload_of
from volsched.model import api
from volsched.model.job import COMPLETED as GROUP_COMPLETED
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_FINISHED, ON_NODE, TaskStatus
from volsched.ui.job_lines import (
    COMPLETED,
    DELETED,
    ENDED,
    EVICTED,
    FAILED,
    RUNNING,
    BlockKey,
    Blocks,
    JobLine,
    block_of,
    cards_in,
)
from volsched.ui.read_only_scheduler import ReadOnlyScheduler
from volsched.ui.waiting import WaitingList

MOST_ENDED: Final = 1000
"""Ended jobs that are kept in all. Beyond that the oldest of the namespace with the most is forgotten."""

_STALE: Final = 64
"""Entries of jobs that are no more in an order, beyond as many as there are jobs, before they are taken out."""


class JobLists(Observer):
    """Follows the jobs that run and that have ended. ``all`` has these beside those of the list of waiting jobs.

    While ``is_hearing`` is False, moves are those of a session, which are taken back. It hears changes before the list
    of waiting jobs does, so it still finds a job there that waited and goes: make it first, then set ``waiting``.
    """

    def __init__(self, scheduler: ReadOnlyScheduler) -> None:
        self.is_hearing = True
        self.waiting: WaitingList | None = None
        self._scheduler = scheduler
        self._touched: dict[str, None] = {}
        self._gone: dict[str, JobLine] = {}
        self._left: dict[str, JobLine] = {}
        self._evicted: set[str] = set()
        self._lines: dict[str, JobLine] = {}
        self._members: dict[BlockKey, dict[str, JobLine]] = {}
        self._renewed: set[BlockKey] = set()
        self._own: dict[BlockKey, tuple[JobLine, ...]] = {}
        self._ended = _EndedOrder()
        self._waiting_seen: Blocks | None = None
        self._all: Blocks = {}
        self._is_first = True
        scheduler.mirror.cluster.observe(self)

    # -- what is heard ------------------------------------------------------------------------------------------------

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Hear that a pod came, went, or moved."""
        self._touch(task)

    def task_started(self, task: TaskInfo) -> None:
        """Hear that a pod runs now."""
        self._touch(task)

    def task_lost(self, task: TaskInfo) -> None:
        """Hear that a pod is gone without having ended."""
        if self.is_hearing and task.evicted and task.job is not None:
            self._evicted.add(task.job.key)

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Hear that a job came, went or changed."""
        if not self.is_hearing:
            return
        self._touched[job.key] = None
        if gone:
            waited = self.waiting.line(job.key) if self.waiting is not None else None
            known = self._lines.get(job.key) or self._left.get(job.key) or waited
            if known is not None:
                self._gone[job.key] = known

    def _touch(self, task: TaskInfo) -> None:
        if self.is_hearing and task.job is not None:
            self._touched[task.job.key] = None

    # -- what is listed -----------------------------------------------------------------------------------------------

    def take(self, now: float) -> None:
        """Take in what was heard, before the next session. ``now`` is in seconds since the epoch."""
        for key in self._touched:
            job, gone = self._scheduler.mirror.cluster.jobs.get(key), self._gone.pop(key, None)
            if job is None:
                self._left.pop(key, None)
                self._put(key, self._over(gone, now) if gone is not None else None)
                self._evicted.discard(key)
                continue
            line = self._line_of(job, now)
            if line is None and not is_waiting(job) and key in self._lines:
                self._left[key] = self._lines[key]
            elif line is not None:
                self._left.pop(key, None)
            if line is not None and line.state == RUNNING:
                self._evicted.discard(key)
            self._put(key, line)
        self._touched.clear()
        self._is_first = False

    def all(self) -> Blocks:
        """Return all blocks, with those of the waiting jobs as these are listed now."""
        waiting = self.waiting.blocks if self.waiting is not None else {}
        if self._renewed or waiting is not self._waiting_seen:
            for key in self._renewed:
                if lines := self._members.get(key):
                    self._own[key] = tuple(lines.values())
                else:
                    self._members.pop(key, None)
                    self._own.pop(key, None)
            self._renewed.clear()
            self._waiting_seen = waiting
            self._all = {**waiting, **self._own}
        return self._all

    # -- lines --------------------------------------------------------------------------------------------------------

    def _line_of(self, job: JobInfo, now: float) -> JobLine | None:
        """Return the line of a job that runs or has ended, None for all others."""
        if is_waiting(job):
            return None
        if any(ON_NODE[task.status] for task in job.tasks.values()):
            return self._running_line(job, now)
        if job.tasks and all(IS_FINISHED[task.status] for task in job.tasks.values()):
            return self._ended_line(job, now)
        if not job.tasks and job.phase == GROUP_COMPLETED:
            return self._known_end(job) or self._end(job, self._present(now), COMPLETED, 0)
        return None

    def _running_line(self, job: JobInfo, now: float) -> JobLine:
        tasks = [task for task in job.tasks.values() if ON_NODE[task.status]]
        held = quantities(job.allocated)
        ends = expected_end(job, annotations_of(self._scheduler.mirror.cluster, job.queue), now)
        return JobLine(
            RUNNING, job.namespace, job.name, job.queue, *self._named(job), holds_since(job), len(job.tasks),
            placed=len(tasks), nodes=len({task.node.name for task in tasks if task.node is not None}),
            requests=held, cards=cards_in(held), ends=ends,
        )  # fmt: skip

    def _ended_line(self, job: JobInfo, now: float) -> JobLine:
        if (known := self._known_end(job)) is not None and known.pods == len(job.tasks):
            return known
        failed = any(task.status is TaskStatus.FAILED for task in job.tasks.values())
        ends = [end for task in job.tasks.values() if (end := self._end_of(task)) is not None]
        how = COMPLETED if not failed else EVICTED if job.key in self._evicted else FAILED
        return self._end(job, max(ends, default=self._present(now)), how, len(job.tasks))

    def _known_end(self, job: JobInfo) -> JobLine | None:
        known = self._lines.get(job.key) or self._left.get(job.key)
        return known if known is not None and known.state == ENDED else None

    def _end(self, job: JobInfo, at: float | None, how: str, pods: int) -> JobLine:
        known = self._lines.get(job.key) or self._left.get(job.key)
        held = known.requests if known is not None else quantities(requested(job))
        return JobLine(
            ENDED, job.namespace, job.name, job.queue, *self._named(job), at, pods or (known.pods if known else 0),
            requests=held, cards=cards_in(held), end=how,
        )  # fmt: skip

    def _named(self, job: JobInfo) -> tuple[str, str]:
        """Return the workload of a job, as it was known before its PodGroup went."""
        known = self._lines.get(job.key)
        return known.called if known is not None and not job.spec.has_group else workload_of(job)

    def _present(self, now: float) -> float | None:
        """Return the present for what ends while the page is open, None for what had ended before."""
        return None if self._is_first else now

    def _end_of(self, task: TaskInfo) -> float | None:
        pod = self._scheduler.objects.get(("Pod", task.namespace, task.name))
        return end_of_pod(pod) if isinstance(pod, api.Pod) else None

    def _over(self, gone: JobLine, now: float) -> JobLine:
        """Return the line of a job whose objects are gone."""
        if gone.state == ENDED:
            return msgspec.structs.replace(gone, is_there=False)
        end = EVICTED if gone.key in self._evicted else DELETED
        return msgspec.structs.replace(
            gone, state=ENDED, since=now, end=end, is_there=False, placed=0, nodes=0, ends=None, step="", reason="",
            message="", position=0,
        )  # fmt: skip

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _put(self, key: str, line: JobLine | None) -> None:
        before = self._lines.get(key)
        if before == line:
            return
        if before is not None:
            self._drop(before)
        if line is not None:
            self._lines[key] = line
            self._members.setdefault(block_of(line), {})[key] = line
            self._renewed.add(block_of(line))
            if line.state == ENDED and (oldest := self._ended.put(line)):
                self._drop(self._lines[oldest])

    def _drop(self, line: JobLine) -> None:
        del self._lines[line.key]
        del self._members[block_of(line)][line.key]
        self._renewed.add(block_of(line))
        if line.state == ENDED:
            self._ended.drop(line)


class _EndedOrder:
    """The ended jobs of each namespace by age, to forget the oldest of the namespace with the most."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._oldest: dict[str, list[tuple[float, str]]] = {}
        self._entries: dict[str, tuple[float, str]] = {}

    def put(self, line: JobLine) -> str:
        """Add a job. Return the key of the one to forget, empty for none."""
        entry = (line.since or 0.0, line.key)
        self._entries[line.key] = entry
        self._counts[line.namespace] += 1
        heap = self._oldest.setdefault(line.namespace, [])
        if len(heap) > 2 * self._counts[line.namespace] + _STALE:
            heap[:] = sorted(each for each in heap if self._entries.get(each[1]) is each)
        heapq.heappush(heap, entry)
        if len(self._entries) <= MOST_ENDED:
            return ""
        largest = max(self._counts, key=lambda namespace: (self._counts[namespace], namespace))
        heap = self._oldest[largest]
        while self._entries.get(heap[0][1]) is not heap[0]:
            heapq.heappop(heap)
        return heap[0][1]

    def drop(self, line: JobLine) -> None:
        """Take a job out."""
        del self._entries[line.key]
        self._counts[line.namespace] -= 1
        heap = self._oldest[line.namespace]
        while heap and self._entries.get(heap[0][1]) is not heap[0]:
            heapq.heappop(heap)
        if not self._counts[line.namespace]:
            del self._counts[line.namespace], self._oldest[line.namespace]
