"""The waiting jobs and their reasons, updated from the reports of sessions, with former reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from volsched.diagnose.queries import is_waiting, waiting_job
from volsched.diagnose.records import WaitingJob
from volsched.model.job import JobInfo
from volsched.model.observers import Observer
from volsched.ui.job_lines import BlockKey, JobLine, block_of, waiting_line
from volsched.ui.read_only_scheduler import ReadOnlyScheduler

GRACE_SECONDS: Final = 5.0
"""The time without bound pods after which a job that the next session would start is listed."""

STARTS: Final = "starts"
"""The step of such a job."""

MOST_REASONS: Final = 20
_FAR: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason of a waiting job, and since when it was seen, in seconds since the epoch."""

    since: float
    step: str
    message: str


@dataclass(slots=True)
class _ListedJob:
    """A job that waits. ``listed_from``: it is not shown before, in seconds since the epoch.

    ``line`` is that of its record, if it has been listed.
    """

    job: JobInfo
    record: WaitingJob
    listed_from: float = 0.0
    line: JobLine | None = None


class WaitingList(Observer):
    """Call ``note`` after each session of the shadow, before and after it is taken back.

    ``reasons`` are those so far of each job that waits, ``due`` is when a job is to be listed next, in seconds since
    the epoch. ``blocks`` are the lines of the jobs that ``all`` listed last, another mapping if they are others.
    """

    def __init__(self, scheduler: ReadOnlyScheduler) -> None:
        self.reasons: dict[str, list[Reason]] = {}
        self.due = _FAR
        self.blocks: dict[BlockKey, tuple[JobLine, ...]] = {}
        self._scheduler = scheduler
        self._queues: dict[str, dict[str, _ListedJob]] = {}
        self._queue_of: dict[str, str] = {}
        self._touched: set[str] = set()
        self._listed: dict[str, tuple[WaitingJob, ...]] = {}
        self._all: tuple[WaitingJob, ...] = ()
        self._blocks_of: dict[str, set[BlockKey]] = {}
        scheduler.mirror.cluster.observe(self)

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Forget a job that is no more."""
        if gone:
            self._drop(job.key)

    def note(self, jobs: Iterable[JobInfo], starts: Mapping[str, str]) -> dict[str, str]:
        """Take in the report of a session before it is undone. Return the jobs that it starts whole, with a node."""
        started: dict[str, str] = {}
        for job in jobs:
            if is_waiting(job):
                self._put(job, _ListedJob(job, waiting_job(self._scheduler, job, 0)))
            elif job.key in starts:
                started[job.key] = starts[job.key]
            else:
                self._drop(job.key)
        return started

    def note_started(self, started: Mapping[str, str], now: float) -> None:
        """Take in the jobs that the next session would start, each with a node, after it was undone."""
        for key, node in started.items():
            job = self._scheduler.mirror.cluster.jobs.get(key)
            if job is not None and is_waiting(job):
                record = waiting_job(self._scheduler, job, 0)
                message = f"The next session starts it, on {node}; no scheduler has bound it so far."
                record = msgspec.structs.replace(record, step=STARTS, reason="", message=message)
                self._put(job, _ListedJob(job, record, self._listed_from(job, record.since, now)))

    def _listed_from(self, job: JobInfo, since: float | None, now: float) -> float:
        """Return when a job that could start is listed: soon after it was made, or first seen."""
        known = self._queues.get(job.queue, {}).get(job.key)
        if since is None and known is not None and known.record.step == STARTS:
            return known.listed_from
        return min(now, since if since is not None else now) + GRACE_SECONDS

    def _put(self, job: JobInfo, entry: _ListedJob) -> None:
        if self._queue_of.get(job.key, job.queue) != job.queue:
            self._drop(job.key)
        self._queue_of[job.key] = job.queue
        self._queues.setdefault(job.queue, {})[job.key] = entry
        self._touched.add(job.queue)

    def _drop(self, key: str) -> None:
        queue = self._queue_of.pop(key, None)
        if queue is not None:
            del self._queues[queue][key]
            self._touched.add(queue)
            self.reasons.pop(key, None)

    def line(self, key: str) -> JobLine | None:
        """Return the line of a job that is listed, None for all others."""
        entry = self._queues.get(self._queue_of.get(key, ""), {}).get(key)
        return entry.line if entry is not None else None

    # -- lists --------------------------------------------------------------------------------------------------------

    def all(self, now: float) -> tuple[WaitingJob, ...]:
        """Return every job that is listed, by queue and position."""
        if self.due <= now:
            self._touched.update(self._queues)
        if self._touched:
            blocks, changed = dict(self.blocks), False
            for queue in self._touched:
                changed |= self._list_again(queue, now, blocks)
            self.blocks = blocks if changed else self.blocks
            self._touched.clear()
            self.due = min((entry.listed_from for entry in self._unlisted(now)), default=_FAR)
            self._all = tuple(job for queue in sorted(self._listed) for job in self._listed[queue])
        return self._all

    def _unlisted(self, now: float) -> Iterable[_ListedJob]:
        return (entry for found in self._queues.values() for entry in found.values() if entry.listed_from > now)

    def _list_again(self, queue: str, now: float, blocks: dict[BlockKey, tuple[JobLine, ...]]) -> bool:
        """List the jobs of a queue again. True if its blocks are others."""
        session, entries = self._scheduler.session, self._queues.get(queue, {})
        listed = [entry for entry in entries.values() if entry.listed_from <= now]
        if session is not None:
            listed.sort(key=lambda entry: session.rules.job_key(entry.job))
        for position, entry in enumerate(listed, 1):
            if entry.record.position != position:
                entry.record, entry.line = msgspec.structs.replace(entry.record, position=position), None
            if entry.line is None:
                entry.line = waiting_line(entry.job, entry.record)
            self._remember(entry, now)
        if entries:
            self._listed[queue] = tuple(entry.record for entry in listed)
        else:
            self._queues.pop(queue, None)
            self._listed.pop(queue, None)
        return self._block_again(queue, listed, blocks)

    def _block_again(
        self, queue: str, listed: Iterable[_ListedJob], blocks: dict[BlockKey, tuple[JobLine, ...]]
    ) -> bool:
        """Make the blocks of a queue again. Those without another line stay what they are. True if any is another."""
        lines: dict[BlockKey, list[JobLine]] = {}
        for entry in listed:
            if entry.line is not None:
                lines.setdefault(block_of(entry.line), []).append(entry.line)
        gone = self._blocks_of.pop(queue, set()) - lines.keys()
        for key in gone:
            del blocks[key]
        changed = {key: block for key, found in lines.items() if (block := tuple(found)) != blocks.get(key)}
        blocks |= changed
        if lines:
            self._blocks_of[queue] = set(lines)
        return bool(gone or changed)

    def _remember(self, entry: _ListedJob, now: float) -> None:
        """Note why a job waits, where that is another reason than before."""
        reasons, line = self.reasons.setdefault(entry.job.key, []), entry.line
        if line is not None and (not reasons or (reasons[-1].step, reasons[-1].message) != (line.step, line.message)):
            reasons.append(Reason(now, line.step, line.message))
            del reasons[:-MOST_REASONS]
