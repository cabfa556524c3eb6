"""The scheduler: one cycle is one session over the mirror, its actions, and the reports after it.

It reaches the cluster through ports only, so ``run`` and ``simulate`` are the same scheduler with other executors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from volsched.backlog import Backlog
from volsched.framework import admission_reservations, reporter
from volsched.framework.accounts.admissions import admission_expired
from volsched.framework.boundary import Bounds, culprit, modules_of
from volsched.framework.config.configuration import Configuration, PluginOption
from volsched.framework.config.entries import declared_annotations
from volsched.framework.engine.fast import Engine, FastEngine
from volsched.framework.native import gangs as native_gangs
from volsched.framework.native import registration as native_rules
from volsched.framework.native import topology as native_topology
from volsched.framework.outcome import groups
from volsched.framework.outcome.refusals import is_blocking, not_allowed, wants_its_queue
from volsched.framework.plugin import Action, Plugin
from volsched.framework.registration import Accounts, Registrar
from volsched.framework.session import Session
from volsched.mirror.apply import Mirror
from volsched.mirror.kept import kept_annotations
from volsched.model.annotations import KeptAnnotations
from volsched.model.cluster import Cluster
from volsched.model.job import LONE, PENDING, JobInfo
from volsched.model.plan import Bind, Evict, Executor, PlanStep, WritePodCondition
from volsched.model.pods.task import TaskInfo
from volsched.model.values.bounded import entries_of
from volsched.model.values.series import Numbers, Series
from volsched.model.verdict import Scope, Step, Verdict
from volsched.ports import Clock, CycleReport
from volsched.quota.past_use import CountedOverTime
from volsched.quota.status import QueueStatuses

WITHOUT_EVICTIONS: Final = frozenset({"enqueue", "allocate", "backfill", "reserve"})
"""Actions that evict no pods. Any other action may."""


@dataclass(frozen=True)
class Profile:
    """A configuration with its actions and plugins built: what ``registry.build`` makes of a ``Configuration``."""

    configuration: Configuration
    actions: tuple[Action, ...]
    plugins: tuple[tuple[tuple[PluginOption, Plugin], ...], ...]

    @cached_property
    def kept_annotations(self) -> KeptAnnotations:
        """Return the annotations that are kept of objects."""
        configured = (*self.actions, *(plugin for tier in self.plugins for _, plugin in tier))
        return kept_annotations(map(declared_annotations, configured))

    @cached_property
    def registering_actions(self) -> tuple[Plugin, ...]:
        """Return the actions that register rules, as plugins do."""
        return tuple(action for action in self.actions if isinstance(action, Plugin))

    @cached_property
    def modules(self) -> dict[str, str]:
        """Return the module or package of each plugin, as ``culprit`` looks for it in the traceback of an exception."""
        return modules_of((option.name, plugin) for tier in self.plugins for option, plugin in tier)

    def pod_annotations(self) -> set[str]:
        """Annotations of pods that decide placement: what the plugins name as ``POD_ANNOTATIONS``."""
        return self._named("POD_ANNOTATIONS")

    def asking_annotations(self) -> set[str]:
        """Return those of them by which a pod asks for something: what the plugins name as ``ASKING_ANNOTATIONS``."""
        return self._named("ASKING_ANNOTATIONS")

    def _named(self, what: str) -> set[str]:
        return {key for tier in self.plugins for _, plugin in tier for key in getattr(plugin, what, ())}

    def devices_serve(self) -> bool:
        """True if a plugin gives out devices for extended resources that a DeviceClass stands for."""
        return any(
            getattr(plugin, "serves_devices", False) and option.allows("enablePredicate")
            for tier in self.plugins
            for option, plugin in tier
        )


@dataclass(slots=True)
class _Outbox:
    """Steps that a session hands over, counted."""

    executor: Executor
    binds: int = 0
    evictions: int = 0
    steps: int = 0

    def submit(self, steps: Sequence[PlanStep]) -> None:
        if not steps:
            return
        self.steps += len(steps)
        kinds = [type(step) for step in steps]
        self.binds += kinds.count(Bind)
        self.evictions += kinds.count(Evict)
        self.executor.execute(steps)


class Scheduler:
    """Runs cycles on a mirror. Only one thread may use it, the one that feeds the mirror.

    ``orphan_grace``: seconds that a pod may lack its PodGroup before that is reported, as a controller may be about to
    make it. ``bounds``: the limits of a session, and the end of faults. ``always_unschedulable``: see ``Reporter``.
    """

    def __init__(  # noqa: PLR0913 - what it works with, then how it tells and where it ends
        self,
        mirror: Mirror,
        profile: Profile,
        executor: Executor,
        clock: Clock,
        make_engine: Callable[[Cluster], Engine] = FastEngine,
        on_placed: Callable[[Session, TaskInfo], None] | None = None,
        orphan_grace: float = 0.0,
        bounds: Bounds | None = None,
        *,
        always_unschedulable: bool = False,
    ) -> None:
        self.mirror = mirror
        self.executor = executor
        self._clock = clock
        self._make_engine = make_engine
        self._on_placed = on_placed
        self._orphan_grace = orphan_grace
        self._reporter = reporter.Reporter(mirror.cluster, always_unschedulable=always_unschedulable)
        self._bounds = bounds or Bounds()
        self._orphans: dict[str, float] = {}
        self._plugins_due: float | None = None
        self._released_at: float | None = None
        self._session: Session | None = None
        self.engine = make_engine(mirror.cluster)
        self._accounts = Accounts(mirror.cluster)
        self._use(profile)
        self._follow()

    def reconfigure(self, profile: Profile) -> None:
        """Use another configuration from the next cycle on. Everything derived from the old one is dropped."""
        self._accounts.drop()
        self._use(profile)
        self.engine = self._make_engine(self.mirror.cluster)
        for job in self.mirror.cluster.jobs.values():
            job.requeue()

    def _use(self, profile: Profile) -> None:
        """Follow a profile, and have the mirror keep what its actions and plugins read."""
        self.profile = profile
        self.mirror.keep_only(profile.kept_annotations)
        self.mirror.keep_annotations(profile.pod_annotations(), profile.asking_annotations())
        self.mirror.cluster.let_devices_serve(profile.devices_serve())
        self.mirror.cluster.generations.evicts = not WITHOUT_EVICTIONS.issuperset(profile.configuration.actions)

    def table_sizes(self) -> dict[str, int]:
        """Return how many entries the engine and the accounts of plugins keep, by table; for any thread."""
        return {
            "decisions.engine": entries_of(self.engine, {id(self.mirror.cluster)}),
            **{f"accounts.{name}": size for name, size in self._accounts.sizes().items()},
        }

    def cycle(self) -> CycleReport:
        """Run one session: open, act, close, tell."""
        started = self._clock.elapsed()
        now = self._clock.now()
        self.mirror.tick(now)
        if self._plugins_due is not None and now >= self._plugins_due:
            self.mirror.cluster.generations.change += 1  # victims are sought again: who is protected may have changed
        self.mirror.cluster.queue_cache.settle_queues()
        lost = self._rebuild_lost()
        if self._session is not None:
            self._session.release()
        outbox = _Outbox(self.executor)
        session = self._session = Session(
            self.mirror.cluster,
            self.profile.configuration,
            self.engine,
            self._accounts,
            outbox.submit,
            now,
            self._clock.cpu,
            self._bounds,
        )
        session.on_placed = self._on_placed
        boundary = session.boundary
        boundary.modules = self.profile.modules
        durations: dict[str, float] = {}
        plugins: dict[str, float] = {}
        reservations = admission_reservations.AdmissionReservations.of(session)
        with boundary.ends_here():
            self._open(session, plugins)
            session.nominations.keep()
            self._end_admissions(session)
            reservations.begin_session()
        opened = self._clock.elapsed()
        if not boundary.over:
            with boundary.ends_here():
                self._act(session, durations)
            if not boundary.over or boundary.ended_for:
                with boundary.ends_here():
                    reservations.end_session(session)
        self._explain_orphans(session)
        self._explain_blocked(session)
        with boundary.ends_here():
            self._plugins_due = session.rules.wake_at()
            self._released_at = reservations.times.next()
        with boundary.ends_here():
            session.close()
        for past in session.rules.of[CountedOverTime]:
            with boundary.ends_here():
                past.settle(now)
        outbox.submit(self._status_steps(session))
        series: tuple[tuple[Series, Numbers], ...] = ()
        with boundary.ends_here():
            series = session.series()
        self.engine = session.engine
        self._bounds.forget_gone(self.mirror.cluster.jobs)
        if boundary.faults or self.mirror.cluster.observers.lost:
            self._rebuild()
        return CycleReport(
            placed=outbox.binds,
            evicted=outbox.evictions,
            duration=self._clock.elapsed() - started,
            open_duration=opened - started,
            actions=durations,
            plugins=plugins,
            steps=outbox.steps,
            waiting_jobs=len(self.mirror.cluster.queue_cache.waiting),
            waiting=self._backlog.totals(),
            job_attempts=session.stats.job_attempts,
            victim_searches=dict(session.stats.victim_searches),
            victims=dict(session.stats.victims),
            gang_searches=dict(session.stats.gang_searches),
            series=series,
            faults=(*((culprit(error, boundary.modules), error) for error in lost), *boundary.faults),
            over="" if boundary.gave_way else boundary.over,
            gave_way=boundary.gave_way,
            is_unfinished=session.stats.is_unfinished,
            hints=tuple(session.stats.hints),
            whole=tuple(session.events.whole),
        )

    def _act(self, session: Session, durations: dict[str, float]) -> None:
        """Run the actions in order; the seconds that each took."""
        for action in self.profile.actions:
            before = self._clock.elapsed()
            session.action = action.name
            try:
                action.execute(session)
            finally:
                durations[action.name] = self._clock.elapsed() - before

    def _rebuild_lost(self) -> list[Exception]:
        """Make the accounts again that failed over a change between sessions. Return the failures."""
        lost = list(self.mirror.cluster.observers.lost.values())
        if lost and not self._bounds.contains_faults:
            raise lost[0]
        if lost:
            self._rebuild()
        return lost

    def _rebuild(self) -> None:
        """Make again what saw a failure, or did: the engine and all accounts."""
        cluster = self.mirror.cluster
        self._accounts.drop()
        self.engine = self._make_engine(cluster)
        if cluster.observers.lost:
            cluster.observers.lost.clear()
            cluster.ignore(self._backlog)
            self._follow()
            self.mirror.count_online()

    def _follow(self) -> None:
        """Count what waits and what queues hold, from what stands and by what changes."""
        cluster = self.mirror.cluster
        self._holdings = QueueStatuses(cluster)
        self._backlog = Backlog()
        cluster.observe(self._backlog)
        for job in cluster.jobs.values():
            self._backlog.count(job)

    def _open(self, session: Session, durations: dict[str, float]) -> None:
        """Let the plugins of every tier register; the seconds that each took."""
        of_natives = Registrar(session, 0, PluginOption(native_gangs.NAME))
        native_rules.register(of_natives)
        native_topology.register(of_natives)
        for tier, members in enumerate(self.profile.plugins):
            for option, plugin in members:
                before = self._clock.elapsed()
                plugin.on_session_open(Registrar(session, tier, option))
                durations[option.name] = self._clock.elapsed() - before
        for action in self.profile.registering_actions:
            action.on_session_open(Registrar(session, len(self.profile.plugins), PluginOption(action.name)))
        session.opened()

    def wake_at(self) -> float | None:
        """Return when a cycle is due without changes (seconds since the epoch); None: only after a change."""
        due = [since + self._orphan_grace for since in self._orphans.values()]
        bounds = self._bounds.wake_at(self._clock.now())
        times = (self.mirror.next_retry(), self._plugins_due, self._released_at, bounds)
        due += [time for time in times if time is not None]
        return min(due, default=None)

    def _end_admissions(self, session: Session) -> None:
        """Keep nothing any more for PodGroups that were admitted long ago and lack pods."""
        admissions, cluster = self._bounds.admissions, session.cluster
        for job in admissions.take_expired(cluster.jobs, session.now):
            cluster.queue_cache.set_phase(job, PENDING)
            session.refuse_job(job, admission_expired(job, admissions.timeout))

    def _explain_orphans(self, session: Session) -> None:
        """Refuse jobs that cannot be tried, with what they lack, once they have lacked it for a while."""
        cluster = session.cluster
        orphans: dict[str, float] = {}
        for key in list({**cluster.queue_cache.dirty_jobs, **self._orphans}):
            job = cluster.jobs.get(key)
            if job is None:
                continue
            verdict = _orphan_refusal(cluster, job)
            since = self._orphans.get(key, session.now)
            if verdict is not None and session.now - since < self._orphan_grace:
                orphans[key] = since
            elif verdict is not None:
                session.refuse_job(job, verdict)
            elif job.refusal is not None and _is_orphans(job.refusal):
                session.clear_refusal(job)
        self._orphans = orphans

    def _explain_blocked(self, session: Session) -> None:
        """Refuse jobs that may not use their queue and want something of it, or that have an unsupported rule."""
        for job in list(session.cluster.queue_cache.dirty_jobs.values()):
            verdict = not_allowed(job) if job.refusal is None or not _is_orphans(job.refusal) else None
            if verdict is not None and wants_its_queue(job):
                session.refuse_job(job, verdict)
            elif is_blocking(job.refusal):
                session.clear_refusal(job)

    def _status_steps(self, session: Session) -> list[PlanStep]:
        """Statuses, conditions and Events for what changed."""
        cluster = session.cluster
        cluster.queue_cache.dirty_jobs.update(
            (task.job.key, task.job) for task in self.mirror.take_failed() if task.job is not None
        )
        jobs = sorted(cluster.queue_cache.dirty_jobs.values(), key=lambda job: job.key)
        cluster.queue_cache.dirty_jobs.clear()
        steps: list[PlanStep] = []
        statuses = []
        for job in jobs:
            groups.note_refusal(cluster, job)
            kept = groups.note_queue(job, cluster.queue_cache.moves.condition(job))
            if kept is not None and job.spec.has_group:
                steps.append(reporter.about_group(job, "Warning", kept.type, kept.message))
            unschedulable = session.refusals.unschedulable.get(job.key, False)
            status = groups.status_of(job, unschedulable=unschedulable, queued=job.queue in cluster.queues)
            cluster.queue_cache.set_phase(job, status.phase)
            statuses.append((job, status))
            self._backlog.count(job)
        self._bounds.admissions.follow(jobs, session.now)
        steps.extend(groups.writes(cluster, statuses))
        reports = [step for job in jobs for step in self._reporter.about_job(job)]
        steps.extend(reports)
        reported = {step.uid for step in reports if isinstance(step, WritePodCondition)}
        steps.extend(self._reporter.about_nomination(t) for t in session.nominations.changed() if t.uid not in reported)
        steps.extend(session.events.recorded)
        steps.extend(self.mirror.events.take())
        beside = session.reported(lambda report: report.allocated)
        steps.extend(self._holdings.writes(beside, session.rules.of[CountedOverTime]))
        cluster.queue_cache.dirty_jobs.clear()
        cluster.queue_cache.dirty_jobs.update(
            (job.key, job) for job in jobs if session.refusals.unschedulable.get(job.key) is False
        )
        return steps


_ORPHAN_STEPS = (Step.NO_PODGROUP, Step.NO_QUEUE)


def _is_orphans(verdict: Verdict) -> bool:
    """True if a job has the refusal of one that cannot be tried."""
    return verdict.step in _ORPHAN_STEPS or native_gangs.is_incomplete(verdict)


def _orphan_refusal(cluster: Cluster, job: JobInfo) -> Verdict | None:
    """Return why a job cannot be tried: its PodGroup or its queue does not exist."""
    if not (job.spec.has_group or job.spec.implicit):
        if not any(task.spec.is_managed for task in job.waiting.values()):
            return None
        if job.is_native:
            return native_gangs.without_group(job, served=bool(cluster.native_served))
        named = f'PodGroup "{job.key}"' if not job.name.startswith(LONE) else "a PodGroup for this pod"
        message = f"{named} does not exist; a PodGroup controller or whoever made the pod has to make it"
        return Verdict(Step.NO_PODGROUP, "", Scope.JOB, "FailedScheduling", message, resolvable=False)
    if job.queue not in cluster.queues:
        message = f'queue "{job.queue}" of PodGroup "{job.label}" does not exist'
        return Verdict(Step.NO_QUEUE, "", Scope.JOB, "Unschedulable", message, resolvable=False)
    return native_gangs.waits_for_members(job) if job.is_native else None
