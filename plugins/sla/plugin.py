"""sla: a job that has waited for its agreed time is admitted, and keeps the room that is being freed for it.

As Volcano's plugin of that name. Jobs with an agreed time go before those without, by when that time is over. Once it
is, the plugin votes for the job's admission, and for holding what it was promised; a plugin of an earlier tier, or of
the same one, may still reject it. The annotations on the PodGroup go before the argument, which is for all jobs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from volsched.plugin import (
    ABSTAIN,
    PERMIT,
    WAITING_TIME,
    WAITING_TIMES,
    Argument,
    ArgumentProblem,
    Ballot,
    Cluster,
    JobEnqueueable,
    JobInfo,
    JobOrder,
    JobPipelined,
    Observer,
    Registrar,
    Wake,
    agreed_waiting_time,
    seconds_of,
)

Deadline = tuple[float, str]
"""Seconds since the epoch, and the key of a job."""


def check_arguments(values: Mapping[str, Any]) -> Iterator[ArgumentProblem]:
    """Refuse what is no duration."""
    text = values[WAITING_TIME]
    if seconds_of(text) is None:
        yield ArgumentProblem(WAITING_TIME, f"must be a duration as 1h30m or 90s, not {text!r}")


class SlaPlugin:
    """Registers an order and two votes."""

    name: ClassVar[str] = "sla"
    GROUP_ANNOTATIONS: ClassVar[tuple[str, ...]] = WAITING_TIMES
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        Argument(WAITING_TIME, "str", "0s", "How long any job may wait before it is admitted; 0s: no such limit."),
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._for_all = seconds_of(arguments[WAITING_TIME]) or 0.0

    def on_session_open(self, registrar: Registrar) -> None:
        """Register, and have jobs tried again whose time has come since the last session."""
        deadlines = registrar.account("sla.deadlines", lambda cluster: Deadlines(cluster, self._for_all))
        deadlines.release(registrar.session.now)
        registrar.register(
            JobOrder(deadlines.order),
            JobEnqueueable(deadlines.vote),
            JobPipelined(deadlines.vote),
            Wake(deadlines.next),
        )


class Deadlines(Observer):
    """The ends of the agreed times of jobs, updated with changes of jobs."""

    def __init__(self, cluster: Cluster, for_all: float) -> None:
        self._cluster = cluster
        self._for_all = for_all
        self._now = 0.0
        self._ahead: list[Deadline] = []
        self._known: dict[str, float] = {}
        for job in cluster.jobs.values():
            self.job_changed(job, gone=False)

    def of(self, job: JobInfo) -> float | None:
        """Return when the job's time is over, in seconds since the epoch; None without such a time, or a creation time.

        An annotation that cannot be read counts as absent, as with Volcano.
        """
        waiting = agreed_waiting_time(job.spec.annotations) or self._for_all
        return job.created + waiting if waiting and job.created else None

    def order(self, job: JobInfo) -> tuple[bool, float]:
        """Jobs whose time is over first, or will be, go first; those without any go last."""
        deadline = self.of(job)
        return deadline is None, deadline or 0.0

    def vote(self, job: JobInfo) -> Ballot:
        """Vote for a job whose time is over."""
        deadline = self.of(job)
        return PERMIT if deadline is not None and deadline <= self._now else ABSTAIN

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Remember when the job is to be looked at again. One whose time is over is looked at as it changes."""
        deadline = None if gone or not self._waits(job.key) else self.of(job)
        if deadline is None or deadline <= self._now:
            self._known.pop(job.key, None)
        elif self._known.get(job.key) != deadline:
            self._known[job.key] = deadline
            heapq.heappush(self._ahead, (deadline, job.key))

    def release(self, now: float) -> None:
        """Have those jobs tried again whose time is over."""
        self._now = now
        while (due := self.next()) is not None and due <= now:
            _, key = heapq.heappop(self._ahead)
            del self._known[key]
            self._cluster.jobs[key].requeue()

    def next(self) -> float | None:
        """Return when the next time is over, in seconds since the epoch, or None without any."""
        while self._ahead and not self._is_current(*self._ahead[0]):
            heapq.heappop(self._ahead)
        return self._ahead[0][0] if self._ahead else None

    def _is_current(self, deadline: float, key: str) -> bool:
        return self._known.get(key) == deadline and self._waits(key)

    def _waits(self, key: str) -> bool:
        return key in self._cluster.jobs and (
            key in self._cluster.queue_cache.unadmitted or key in self._cluster.queue_cache.waiting
        )
