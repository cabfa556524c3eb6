"""Admissions of PodGroups end when the pods do not come.

An admitted PodGroup has room kept in its queue before it has any pods, as controllers make the pods only then. Every
user may write a PodGroup and never make pods, so the room is given back after a while: the PodGroup is Pending again,
behind all others of its queue. (Ours; Volcano keeps the room for ever.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from volsched.model.job import INQUEUE, JobInfo
from volsched.model.verdict import Scope, Step, Verdict

ADMISSION_EXPIRED: Final = "AdmissionExpired"

PAUSE_SECONDS: Final = 60.0
"""A PodGroup whose admission ended is not admitted again before that. Its controller may be trying."""


@dataclass(slots=True)
class _AdmittedGroup:
    """An admitted PodGroup that lacks pods: the start (seconds since the epoch), and its number of pods."""

    group: str
    since: float
    pods: int


class Admissions:
    """Admitted PodGroups that lack pods, and ended admissions; kept from session to session.

    ``timeout`` is in seconds; infinite: admissions do not end.
    """

    def __init__(self, timeout: float = math.inf) -> None:
        self.timeout = timeout
        self._lacking: dict[str, _AdmittedGroup] = {}
        self._ended: dict[str, tuple[str, float]] = {}

    def __len__(self) -> int:
        return len(self._lacking) + len(self._ended)

    def follow(self, jobs: Iterable[JobInfo], now: float) -> None:
        """Note jobs that changed. The time begins again when a PodGroup loses a pod."""
        for job in jobs:
            if not _lacks_pods(job):
                self._lacking.pop(job.key, None)
                if job.tasks:
                    self._ended.pop(job.key, None)
                continue
            known, count = self._lacking.get(job.key), len(job.tasks)
            if known is None or known.group != job.spec.group_uid or count < known.pods:
                self._lacking.pop(job.key, None)  # those whose time is over come first
                self._lacking[job.key] = _AdmittedGroup(job.spec.group_uid, now, count)
            else:
                known.pods = count

    def take_expired(self, jobs: Mapping[str, JobInfo], now: float) -> Iterator[JobInfo]:
        """Return the jobs whose time is over. Their admission ends with that."""
        while (first := next(iter(self._lacking), None)) is not None:
            if now - self._lacking[first].since < self.timeout:
                return
            del self._lacking[first]
            job = jobs.get(first)
            if job is not None and _lacks_pods(job):
                self._ended[first] = job.spec.group_uid, now
                yield job

    def forget_gone(self, jobs: Mapping[str, JobInfo]) -> None:
        """Forget what is no more."""
        for key in [key for key in self._ended if key not in jobs]:
            del self._ended[key]
        if len(self._lacking) > len(jobs):  # there may be many, and this is asked in every session
            for key in [key for key in self._lacking if key not in jobs]:
                del self._lacking[key]

    def turn(self, job: JobInfo) -> float:
        """Return when the job's last admission ended (seconds since the epoch), 0 if none did: the latest goes last."""
        group, ended = self._ended.get(job.key, ("", 0.0))
        return ended if group == job.spec.group_uid else 0.0

    def pauses(self, job: JobInfo, now: float) -> bool:
        """True if an admission of the job has just ended."""
        return now < self.turn(job) + PAUSE_SECONDS

    def wake_at(self, now: float) -> float | None:
        """Return when the next admission or pause ends (seconds since the epoch), or None without any."""
        first = next(iter(self._lacking.values()), None)
        due = [first.since + self.timeout] if first is not None and self.timeout < math.inf else []
        due += [ended + PAUSE_SECONDS for _, ended in self._ended.values() if now < ended + PAUSE_SECONDS]
        return min(due, default=None)


def _lacks_pods(job: JobInfo) -> bool:
    return job.phase == INQUEUE and job.spec.has_group and len(job.tasks) < job.spec.min_available


def admission_expired(job: JobInfo, timeout: float) -> Verdict:
    """Return the refusal of a job whose admission has ended."""
    message = (
        f"the pod group was admitted and has {len(job.tasks)} of the {job.spec.min_available} pods that it starts with "
        f"after {timeout:g}s; nothing is kept for it any more, and after {PAUSE_SECONDS:g}s it waits for its next "
        "admission, behind all others of its queue"
    )
    return Verdict(Step.ENQUEUE, "", Scope.JOB, ADMISSION_EXPIRED, message, resolvable=False)
