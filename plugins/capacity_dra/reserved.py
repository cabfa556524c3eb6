"""The amounts that admitted jobs may still take to start, summed by queue.

In a queue, and in each queue above it, a job reserves what its smallest number of pods takes beside the claims that
are used there already (``DeviceDemands.minimum``). It is counted again when the figures are next read, if it changed
itself or anything did that its minimum is made from: a claim, whether a queue uses it, a template, what nodes offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from plugins.capacity_dra.demands import DeviceDemands, MinimumSources
from plugins.capacity_dra.usage import ClaimUsage
from volsched.plugin import INQUEUE, Cluster, JobInfo, PodTemplate, accumulate
from volsched.plugin.devices import Amount, Amounts, made_for
from volsched.plugin.quota import JobSums


@dataclass(slots=True)
class Reserved:
    """The sums of one queue, without zeros.

    ``own``: of the jobs in it; ``below``: of those and of the jobs in all queues below it; ``shown``: of the jobs in
    it, each beside what it holds itself, even if others use a claim, too. ``jobs``: how many are counted.
    """

    jobs: int = 0
    own: dict[Amount, Fraction] = field(default_factory=dict)
    below: dict[Amount, Fraction] = field(default_factory=dict)
    shown: dict[Amount, Fraction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _ReservedShare:
    """What one job adds to its queue and to those above it, by name, its own first."""

    levels: Mapping[str, Amounts]
    queue: str
    shown: Amounts
    sources: MinimumSources


class Reservations(JobSums):
    """The account; ``version`` changes when any figure may have."""

    def __init__(self, cluster: Cluster, usage: ClaimUsage, demands: DeviceDemands) -> None:
        super().__init__(cluster)
        self._usage = usage
        self._demands = demands
        self._queues: dict[str, Reserved] = {}
        self._by_claim: dict[str, dict[str, None]] = {}
        self._by_template: dict[str, dict[str, None]] = {}
        self._offered: dict[str, bool] = {}
        self._templates_read = cluster.devices.template_log.end
        self._generation = -1
        usage.on_claim_changed = self._on_claim_changed

    def of(self, queue: str) -> Reserved:
        """Return the sums of a queue."""
        self.refresh()
        return self._queues.get(queue) or Reserved()

    def held_back(self, queue: str, *, below: bool) -> Amounts:
        """Return what admitted jobs of a queue, or also below it, may still take to start."""
        found = self.of(queue)
        return found.below if below else found.own

    # -- changes ------------------------------------------------------------------------------------------------------

    def follows(self, template: PodTemplate) -> bool:
        """Return whether pods of this template may have claims."""
        return self._usage.follows(template)

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Have the job counted again, if it is admitted or was."""
        if gone or job.phase == INQUEUE or job.key in self._shares:
            super().job_changed(job, gone=gone)

    def _on_claim_changed(self, key: str) -> None:
        """Have those jobs counted again whose minimum has a claim in it, or will: the one that was made for a pod."""
        self._note(self._by_claim.get(key, {}))
        claim = self._cluster.devices.claims.get(key)
        owner = made_for(claim, self._cluster.tasks) if claim is not None else None
        if owner is not None and owner.job is not None:
            self.job_changed(owner.job, gone=False)

    def _note(self, keys: Iterable[str]) -> None:
        """Have those of these jobs counted again that are there."""
        jobs = self._cluster.jobs
        self._changed.update((key, jobs[key]) for key in keys if key in jobs)

    def refresh(self) -> None:
        """Count those jobs again that something changed for."""
        self._hear_templates()
        if self._generation != self._usage.generation or any(
            self._usage.is_offered(resource) != offered for resource, offered in self._offered.items()
        ):
            self._begin_anew()
        super().refresh()

    def _hear_templates(self) -> None:
        log = self._cluster.devices.template_log
        changed = log.since(self._templates_read)
        self._templates_read = log.end
        for key in changed if changed is not None else self._by_template:
            self._note(self._by_template.get(key, {}))

    def _begin_anew(self) -> None:
        """Have all admitted jobs counted: queues moved, classes changed, or nodes offer something first, or last."""
        self._generation = self._usage.generation
        self.version += 1
        for kept in (self._queues, self._shares, self._by_claim, self._by_template, self._offered):
            kept.clear()
        self._changed = {key: job for key, job in self._cluster.jobs.items() if job.phase == INQUEUE}

    # -- counting -----------------------------------------------------------------------------------------------------

    def share_of(self, job: JobInfo) -> _ReservedShare | None:
        """Return what an admitted job reserves while room is kept for it; another one reserves nothing."""
        if job.phase != INQUEUE or not job.keeps_room:
            return None
        sources = self._demands.sources(job)
        for resource in sources.resources:
            self._offered[resource] = self._usage.is_offered(resource)
        return self._share(job, sources)

    def _share(self, job: JobInfo, sources: MinimumSources) -> _ReservedShare:
        """Ask for the job's minimum once for all queues in which the same of its claims are used."""
        known: dict[frozenset[str], Amounts] = {}

        def beside(used: Iterable[str]) -> Amounts:
            gone = frozenset(used)
            if gone not in known:
                known[gone] = self._demands.minimum(job, gone)
            return known[gone]

        names = dict.fromkeys((job.queue, *self._usage.levels(job.queue)))
        used = {name: self._usage.account(name).users for name in names}
        levels = {name: beside(key for key in sources.claims if key in used[name]) for name in names}
        return _ReservedShare(levels, job.queue, beside(self._usage.held_by(job)), sources)

    def add(self, key: str, share: _ReservedShare, by: int) -> None:
        """Add what a job reserves, or take it off. Note which changes it is to be counted again for."""
        for index, sources in ((self._by_claim, share.sources.claims), (self._by_template, share.sources.templates)):
            _note_in(index, sources, key) if by > 0 else _strike(index, sources, key)
        for name, amounts in share.levels.items():
            sums = self._queues.setdefault(name, Reserved())
            sums.jobs += by
            accumulate(sums.below, amounts, by)
            if name == share.queue:
                accumulate(sums.own, amounts, by)
                accumulate(sums.shown, share.shown, by)
            if not sums.jobs:
                del self._queues[name]


def _note_in(index: dict[str, dict[str, None]], keys: Iterable[str], job: str) -> None:
    """Put a job into an index."""
    for key in keys:
        index.setdefault(key, {})[job] = None


def _strike(index: dict[str, dict[str, None]], keys: Iterable[str], job: str) -> None:
    """Take a job out of an index."""
    for key in keys:
        jobs = index[key]
        del jobs[job]
        if not jobs:
            del index[key]
