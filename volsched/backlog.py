"""Waiting pods and jobs: by queue, step, reason and condition; the oldest of each queue; their requests.

Counts follow changes of jobs. Neither a session nor a reader of the metrics looks at unchanged waiting jobs, so a large
backlog costs nothing while it does not change.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from volsched.framework.reporter import refusal_of
from volsched.model.job import JobInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.verdict import Step
from volsched.ports import Labels, Waiting

NOT_TRIED: Final = ("queued", "Waiting", "")
"""Step, reason, and condition reason, of a pod without a decision."""

_SPARE: Final = 64
_created: Final = attrgetter("created")


@dataclass(frozen=True, slots=True)
class _JobBacklog:
    """The part of one job."""

    queue: str
    pods: Mapping[Labels, int]
    job: Labels
    request: Mapping[str, int]


class _Ages:
    """Creation times of the oldest waiting pod of each job, the oldest job first (seconds since the epoch)."""

    def __init__(self) -> None:
        self._created: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __bool__(self) -> bool:
        return bool(self._created)

    def put(self, job: str, created: float) -> None:
        if self._created.get(job) != created:
            self._created[job] = created
            heapq.heappush(self._heap, (created, job))
            self._tidy()

    def drop(self, job: str) -> None:
        self._created.pop(job, None)

    def oldest(self) -> float:
        heap = self._heap
        while self._created.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0]

    def _tidy(self) -> None:
        """Drop outdated entries once they are the majority."""
        if len(self._heap) > 2 * len(self._created) + _SPARE:
            self._heap = [(created, job) for job, created in self._created.items()]
            heapq.heapify(self._heap)


class Backlog(Observer):
    """The account: ``count`` a job when it may have changed, and ask for the ``totals``.

    ``counted`` states how many pods were looked at so far.
    """

    def __init__(self) -> None:
        self.counted = 0
        self._shares: dict[str, _JobBacklog] = {}
        self._pods: Counter[Labels] = Counter()
        self._jobs: Counter[Labels] = Counter()
        self._requests: Counter[Labels] = Counter()
        self._ages: dict[str, _Ages] = {}
        self._totals: Waiting | None = Waiting()

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Forget a job that is gone."""
        if gone:
            self._replace(job.key, None)

    def count(self, job: JobInfo) -> None:
        """Count a job's waiting pods again."""
        waiting = [task for task in job.waiting.values() if task.spec.is_managed]
        if not waiting:
            self._replace(job.key, None)
            return
        self.counted += len(waiting)
        self._replace(job.key, _share_of(job, waiting))
        self._ages.setdefault(job.queue, _Ages()).put(job.key, min(map(_created, waiting)))

    def totals(self) -> Waiting:
        """Return the totals of waiting pods and jobs. Cached until something changes."""
        if self._totals is None:
            self._pods, self._jobs, self._requests = +self._pods, +self._jobs, +self._requests
            self._ages = {queue: ages for queue, ages in self._ages.items() if ages}
            self._totals = Waiting(
                dict(self._pods),
                dict(self._jobs),
                dict(self._requests),
                {queue: ages.oldest() for queue, ages in self._ages.items()},
            )
        return self._totals

    def _replace(self, key: str, share: _JobBacklog | None) -> None:
        before = self._shares.pop(key, None)
        if before is not None:
            self._add(before, -1)
            if share is None or share.queue != before.queue:
                self._ages[before.queue].drop(key)
        if share is not None:
            self._shares[key] = share
            self._add(share, 1)
        if before is not None or share is not None:
            self._totals = None

    def _add(self, share: _JobBacklog, by: int) -> None:
        for why, pods in share.pods.items():
            self._pods[why] += by * pods
        self._jobs[share.job] += by
        for resource, amount in share.request.items():
            self._requests[share.queue, resource] += by * amount


def _share_of(job: JobInfo, waiting: list[TaskInfo]) -> _JobBacklog:
    whys: dict[Labels, int] = {}
    templates: dict[PodTemplate, int] = {}
    for task in waiting:
        why, template = _why(task), task.template
        whys[why] = whys.get(why, 0) + 1
        templates[template] = templates.get(template, 0) + 1
    pods: dict[Labels, int] = {(job.queue, *why): count for why, count in whys.items()}
    request: dict[str, int] = {}
    for template, count in templates.items():
        for resource, amount in template.request.items():
            request[resource] = request.get(resource, 0) + count * amount
    return _JobBacklog(job.queue, pods, _origin(pods), request)


def _why(task: TaskInfo) -> Labels:
    refusal = refusal_of(task)
    if refusal is None:
        return NOT_TRIED
    return refusal.step.value, refusal.reason, refusal.condition_reason.value


def _origin(pods: Mapping[Labels, int]) -> Labels:
    """Return the most frequent reason of a job's pods; that others of the gang wait counts only without another one."""
    return max(pods, key=lambda why: (why[1] != Step.GANG, pods[why], why))
