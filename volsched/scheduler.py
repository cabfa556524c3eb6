"""The scheduler: one cycle is one session over the mirror, its actions, and what has to be told afterwards.

It reaches the cluster through ports only, so ``run`` and ``simulate`` are the same scheduler with other executors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from volsched.backlog import Backlog
from volsched.cache.mirror import Mirror, Problem
from volsched.framework import groups, reporter
from volsched.framework.configuration import Configuration, PluginOption
from volsched.framework.engine import Engine, FastEngine
from volsched.framework.holdings import Holdings
from volsched.framework.plugin import Action, Plugin
from volsched.framework.session import Accounts, Session
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.plan import Bind, Evict, Executor, Step, Tell
from volsched.model.status import TaskStatus
from volsched.model.task import TaskInfo
from volsched.model.verdict import Scope, Verdict
from volsched.model.verdict import Step as VerdictStep
from volsched.ports import Clock, CycleReport

_API_VERSIONS = {"Pod": "v1", "Node": "v1", "PodGroup": reporter.POD_GROUP_VERSION, "Queue": reporter.POD_GROUP_VERSION}


@dataclass(frozen=True, slots=True)
class Profile:
    """A configuration with its actions and plugins built: what ``registry.build`` makes of a ``Configuration``."""

    configuration: Configuration
    actions: tuple[Action, ...]
    plugins: tuple[tuple[tuple[PluginOption, Plugin], ...], ...]

    def pod_annotations(self) -> set[str]:
        """Annotations of pods that decide placement: what the plugins name as ``POD_ANNOTATIONS``."""
        return self._named("POD_ANNOTATIONS")

    def asking_annotations(self) -> set[str]:
        """Those of them by which a pod asks for something: what the plugins name as ``ASKING_ANNOTATIONS``."""
        return self._named("ASKING_ANNOTATIONS")

    def _named(self, what: str) -> set[str]:
        return {key for tier in self.plugins for _, plugin in tier for key in getattr(plugin, what, ())}

    def devices_serve(self) -> bool:
        """Whether a plugin gives out devices for extended resources that a DeviceClass stands for."""
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

    def submit(self, steps: Sequence[Step]) -> None:
        if not steps:
            return
        self.steps += len(steps)
        kinds = [type(step) for step in steps]
        self.binds += kinds.count(Bind)
        self.evictions += kinds.count(Evict)
        self.executor.execute(steps)


class Scheduler:
    """Runs cycles on a mirror. Only one thread may use it, the one that feeds the mirror.

    ``orphan_grace``: seconds that a pod may be without its PodGroup before that is told, as a controller may be about
    to make it.
    """

    def __init__(
        self,
        mirror: Mirror,
        profile: Profile,
        executor: Executor,
        clock: Clock,
        make_engine: Callable[[Cluster], Engine] = FastEngine,
        on_placed: Callable[[Session, TaskInfo], None] | None = None,
        orphan_grace: float = 0.0,
    ) -> None:
        self.mirror = mirror
        self.profile = profile
        self.executor = executor
        self._clock = clock
        self._make_engine = make_engine
        self._on_placed = on_placed
        self._orphan_grace = orphan_grace
        self._orphans: dict[str, float] = {}
        self._plugins_due: float | None = None
        self.engine = make_engine(mirror.cluster)
        self._accounts = Accounts(mirror.cluster)
        mirror.keep_annotations(profile.pod_annotations(), profile.asking_annotations())
        mirror.cluster.let_devices_serve(profile.devices_serve())
        self._holdings = Holdings(mirror.cluster)
        self._backlog = Backlog()
        mirror.cluster.observe(self._backlog)

    def reconfigure(self, profile: Profile) -> None:
        """Use another configuration from the next cycle on; everything derived from the old one is dropped."""
        self._accounts.drop()
        self.mirror.keep_annotations(profile.pod_annotations(), profile.asking_annotations())
        self.mirror.cluster.let_devices_serve(profile.devices_serve())
        self.profile = profile
        self.engine = self._make_engine(self.mirror.cluster)
        for job in self.mirror.cluster.jobs.values():
            job.unpark()

    def cycle(self) -> CycleReport:
        """Run one session: open, act, close, tell."""
        started = self._clock.elapsed()
        now = self._clock.now()
        self.mirror.tick(now)
        outbox = _Outbox(self.executor)
        session = Session(
            self.mirror.cluster, self.profile.configuration, self.engine, self._accounts, outbox.submit, now
        )
        session.on_placed = self._on_placed
        plugins = self._open(session)
        session.keep_promises()
        opened = self._clock.elapsed()
        durations: dict[str, float] = {}
        for action in self.profile.actions:
            before = self._clock.elapsed()
            session.action = action.name
            action.execute(session)
            durations[action.name] = self._clock.elapsed() - before
        self._explain_orphans(session)
        self._plugins_due = session.wake_at()
        session.close()
        outbox.submit(self._aftermath(session))
        return CycleReport(
            placed=outbox.binds,
            evicted=outbox.evictions,
            duration=self._clock.elapsed() - started,
            open_duration=opened - started,
            actions=durations,
            plugins=plugins,
            steps=outbox.steps,
            waiting_jobs=len(self.mirror.cluster.waiting),
            waiting=self._backlog.totals(),
            hunts=dict(session.hunts),
            victims=dict(session.victims),
            series=session.series(),
        )

    def _open(self, session: Session) -> dict[str, float]:
        """Let the plugins of every tier register; the seconds that each took."""
        durations: dict[str, float] = {}
        for tier, members in enumerate(self.profile.plugins):
            for option, plugin in members:
                before = self._clock.elapsed()
                session.opening(tier, option)
                plugin.on_session_open(session)
                durations[option.name] = self._clock.elapsed() - before
        session.opened()
        return durations

    def wake_at(self) -> float | None:
        """When a cycle is due even if nothing changes (seconds since the epoch); None: not before something does."""
        due = [since + self._orphan_grace for since in self._orphans.values()]
        due += [time for time in (self.mirror.next_retry(), self._plugins_due) if time is not None]
        return min(due, default=None)

    def _explain_orphans(self, session: Session) -> None:
        """Say of jobs that cannot be looked at at all what they lack, once they have lacked it for a while."""
        cluster = session.cluster
        orphans: dict[str, float] = {}
        for key in list({**cluster.touched, **self._orphans}):
            job = cluster.jobs.get(key)
            if job is None:
                continue
            verdict = _orphan_verdict(cluster, job)
            since = self._orphans.get(key, session.now)
            if verdict is not None and session.now - since < self._orphan_grace:
                orphans[key] = since
            elif verdict is not None:
                session.refuse_job(job, verdict)
            elif job.refusal is not None and job.refusal.step in _ORPHAN_STEPS:
                session.refuse_job(job, None)
        self._orphans = orphans

    def _aftermath(self, session: Session) -> list[Step]:
        """Statuses, conditions and Events for what changed."""
        cluster = session.cluster
        jobs = sorted(cluster.touched.values(), key=lambda job: job.key)
        cluster.touched.clear()
        steps: list[Step] = []
        statuses = []
        for job in jobs:
            unschedulable = session.unschedulable.get(job.key, False)
            status = groups.status_of(job, unschedulable=unschedulable, queued=job.queue in cluster.queues)
            cluster.set_phase(job, status.phase)
            statuses.append((job, status))
            self._backlog.count(job)
        steps.extend(groups.writes(statuses))
        refused_jobs = session.newly_refused_jobs()
        for job in jobs:
            if job.key in refused_jobs:
                steps.extend(reporter.about_job(job))
        newly_refused = session.newly_refused()
        refused = {**newly_refused, **{task.uid: task for task in self.mirror.take_failed()}}
        for task in sorted(refused.values(), key=lambda t: t.key):
            if task.status is TaskStatus.PENDING:
                steps.extend(reporter.about_task(task))
        steps.extend(reporter.about_nomination(t) for t in session.newly_nominated() if t.uid not in newly_refused)
        steps.extend(session.told)
        steps.extend(_tell_problem(problem) for problem in self.mirror.take_problems())
        steps.extend(self._holdings.writes(session.queue_holdings))
        cluster.touched.clear()
        cluster.touched.update((job.key, job) for job in jobs if session.unschedulable.get(job.key) is False)
        return steps


_ORPHAN_STEPS = (VerdictStep.NO_PODGROUP, VerdictStep.NO_QUEUE)


def _orphan_verdict(cluster: Cluster, job: JobInfo) -> Verdict | None:
    """Why a job cannot be looked at: nobody made its PodGroup, or its queue is not there."""
    if not (job.has_group or job.implicit):
        if not any(task.ours for task in job.waiting.values()):
            return None
        named = f'PodGroup "{job.key}"' if not job.name.startswith("pod/") else "a PodGroup for this pod"
        message = f"{named} does not exist; a PodGroup controller or whoever made the pod has to make it"
        return Verdict(VerdictStep.NO_PODGROUP, "", Scope.JOB, "FailedScheduling", message, resolvable=False)
    if job.queue not in cluster.queues:
        message = f'queue "{job.queue}" of PodGroup "{job.key}" does not exist'
        return Verdict(VerdictStep.NO_QUEUE, "", Scope.JOB, "Unschedulable", message, resolvable=False)
    return None


def _tell_problem(problem: Problem) -> Tell:
    return Tell(
        problem.kind,
        _API_VERSIONS.get(problem.kind, "v1"),
        problem.namespace,
        problem.name,
        problem.uid,
        "Warning",
        "InvalidField",
        f"{problem.field}: {problem.message}; it counts as 0",
    )
