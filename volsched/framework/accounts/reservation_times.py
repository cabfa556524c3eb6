"""Since when admitted jobs wait to start, and for how long room is kept for them.

The time of admission is that of the condition ``Admitted`` of a PodGroup, so it outlives the scheduler that admitted
it. The condition goes when the gang has its minimum. Kubernetes' own PodGroups do not state an admission, so their time
begins when a scheduler first sees them admitted.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from typing import Final

from volsched.model.conditions import ADMITTED
from volsched.model.job import INQUEUE, JobInfo, PodGroupCondition, with_condition

_CONDITION: Final = PodGroupCondition(ADMITTED, "True", ADMITTED, "the pod group was admitted and has not started")


class ReservationTimes:
    """Those that were admitted and have not started; kept from session to session.

    ``timeout`` is in seconds. Where it is infinite nothing is remembered.
    """

    def __init__(self) -> None:
        self.timeout = math.inf
        self._since: dict[str, tuple[str, float]] = {}
        self._order: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._since)

    def follow(self, job: JobInfo, now: float) -> None:
        """Note a job that changed. A time of admission in the future counts as now."""
        if self.timeout == math.inf or job.phase != INQUEUE or job.ready_count >= max(1, job.spec.min_available):
            if self._since.pop(job.key, None) is not None:
                job.admitted_at = 0.0
            return
        known = self._since.get(job.key)
        if known is None or known[0] != job.spec.group_uid:
            at = job.admitted_at if 0 < job.admitted_at < now else now
            self._since[job.key] = job.spec.group_uid, at
            heapq.heappush(self._order, (at, job.key))

    def is_over(self, job: JobInfo, now: float) -> bool:
        """True if room was kept for a job for long enough."""
        known = self._since.get(job.key)
        return known is not None and now - known[1] >= self.timeout

    def take_over(self, now: float) -> list[str]:
        """Return the keys of the jobs whose time has come since this was last asked."""
        found = []
        while self._order and now - self._order[0][0] >= self.timeout:
            found.append(heapq.heappop(self._order)[1])
        return found

    def next(self) -> float | None:
        """Return the next time (seconds since the epoch); None: never."""
        if self.timeout == math.inf:
            return None
        while self._order and self._since.get(self._order[0][1], ("", 0.0))[1] != self._order[0][0]:
            heapq.heappop(self._order)
        return self._order[0][0] + self.timeout if self._order else None

    def forget_gone(self, jobs: Mapping[str, JobInfo]) -> None:
        """Forget all jobs but these."""
        if len(self._since) > len(jobs):
            self._since = {key: since for key, since in self._since.items() if key in jobs}

    def conditions_of(self, job: JobInfo) -> tuple[PodGroupCondition, ...]:
        """Return a job's conditions with the one that states its admission, or without it."""
        if job.key in self._since:
            return with_condition(job.conditions, _CONDITION)
        return tuple(condition for condition in job.conditions if condition.type != ADMITTED)
