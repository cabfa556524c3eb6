"""A scheduler that follows a cluster and writes nothing: its sessions show why jobs wait.

Mirror, plugins and engine are those of ``volsched run``, so a session costs as much as the changes and not as the
cluster. The decisions of a session are shown and taken back: neither the API server nor the next session sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import structlog

from volsched import registry
from volsched.diagnose.card_states import FreeCards, nominated_amounts
from volsched.diagnose.queries import usage_of
from volsched.framework.accounts.admissions import Admissions
from volsched.framework.boundary import Bounds
from volsched.framework.plugin import Action
from volsched.framework.quota_report import IS_PROMISED, IS_STRANDED, QuotaTable, Usage
from volsched.framework.registration import Registrar
from volsched.framework.rules import SessionClose
from volsched.framework.session import Session
from volsched.mirror.apply import Mirror
from volsched.mirror.kept import kept_annotations
from volsched.mirror.settings import MirrorSettings
from volsched.model import api
from volsched.model.changes import Change, Deleted, EvictFailed, Put, Refused
from volsched.model.job import PENDING, JobInfo
from volsched.model.plan import Bind, Evict, LiftGate, PlanStep, StepRecorder, WritePodCondition
from volsched.model.status import TaskStatus
from volsched.run.loop import SystemClock
from volsched.scheduler import Profile, Scheduler
from volsched.simulation.manifests import identity_of

_log = structlog.get_logger(__name__)

SESSION_BUDGET_SECONDS: Final = 5.0
"""CPU that a session may take, as the scheduler's own."""

Identity = tuple[str, str, str]
"""Kind, namespace and name of an object."""


_NODE: Final = "node"
"""The first column of tables about single nodes: too long for an overview."""


class _CollectingAction:
    """The last action, which does nothing: it is called once all others have registered, and at the end."""

    name = "page"

    def __init__(self, opened: Callable[[Session], None], closing: Callable[[Session], None]) -> None:
        self._opened = opened
        self._closing = closing

    def on_session_open(self, registrar: Registrar) -> None:
        session = registrar.session
        self._opened(session)
        registrar.register(SessionClose(lambda: self._closing(session)))

    def execute(self, session: Session) -> None:
        """Do nothing."""


class ReadOnlyScheduler:
    """Give it changes with ``take``; ``run`` runs a session, and ``take_back`` undoes it.

    ``objects`` are all given objects. ``usage`` is the usage of queues before the session, if ``wants_usage``;
    ``dirty`` are jobs with possible news. Only one thread may use it at a time.
    """

    def __init__(self, profile: Profile, scheduler_names: tuple[str, ...], default_queue: str) -> None:
        kept = kept_annotations(registry.installed_annotations())
        self.mirror = Mirror(MirrorSettings(scheduler_names, default_queue, plain_pods=True, annotations=kept))
        self.objects: dict[Identity, api.ApiObject] = {}
        self.profile = profile
        self.session: Session | None = None
        self.wants_usage = True
        self.usage: Usage | None = None
        self.tables: tuple[QuotaTable, ...] = ()
        self.free_cards = FreeCards()
        self._about_nodes: set[int] = set()
        self.dirty: dict[str, JobInfo] = {}
        self._reported: tuple[JobInfo, ...] = ()
        self._plan = StepRecorder()
        self._witness: Action = _CollectingAction(self._opened, self._closing)
        bounds = Bounds(SESSION_BUDGET_SECONDS, contains_faults=True, admissions=Admissions(float("inf")))
        self._scheduler = Scheduler(self.mirror, self._witnessed(profile), self._plan, SystemClock(), bounds=bounds)

    def reconfigure(self, profile: Profile) -> None:
        """Use another configuration from the next session on."""
        self.profile = profile
        self.wants_usage = True
        self._about_nodes.clear()
        self._scheduler.reconfigure(self._witnessed(profile))

    def _witnessed(self, profile: Profile) -> Profile:
        return Profile(profile.configuration, (*profile.actions, self._witness), profile.plugins)

    def take(self, changes: Sequence[Change]) -> None:
        """Take changes in, in order."""
        for change in changes:
            if isinstance(change, Put):
                self.objects[identity_of(change.object)] = change.object
                if isinstance(change.object, api.PodGroup):
                    self._believe(change.object)
            elif isinstance(change, Deleted | Refused):
                self.objects.pop((change.kind, change.namespace, change.name), None)
        self.mirror.apply(changes)
        self.mirror.quarantine.take_errors()  # the scheduler's log has them

    def wake_at(self) -> float | None:
        """Return when a session is due without changes (seconds since the epoch); None: only after a change."""
        return self._scheduler.wake_at()

    # -- a session ----------------------------------------------------------------------------------------------------

    def run(self) -> Mapping[str, str]:
        """Run a session. Return the jobs that it starts, each with a node. Its decisions stand until taken back."""
        self._scheduler.cycle()
        starts: dict[str, str] = {}
        for step in self._plan.steps:
            task = self.mirror.cluster.tasks.get(step.uid) if isinstance(step, Bind) else None
            if task is not None and task.job is not None and isinstance(step, Bind):
                starts.setdefault(task.job.key, step.node)
        return starts

    def _opened(self, session: Session) -> None:
        self.session = session
        if self.wants_usage:
            self.usage, self.wants_usage = usage_of(self), False
        self.free_cards = _free_cards(session)
        self.tables = tuple(self._tables(session))

    def _tables(self, session: Session) -> Iterator[QuotaTable]:
        """Yield the tables of plugins that have rows, without those about single nodes."""
        for place, table in enumerate(session.reported(lambda report: report.table)):
            if place in self._about_nodes:
                continue
            try:
                found = table()
            except Exception:
                _log.exception("the table of a plugin is not shown: it could not be made")
                continue
            if found.about[0] == _NODE:
                self._about_nodes.add(place)
            elif found.rows:
                yield found

    def _closing(self, session: Session) -> None:
        """Note the jobs of this session's report. Held tasks are still in place."""
        dirty = session.cluster.queue_cache.dirty_jobs
        self.dirty.update(dirty)
        self._reported = tuple(dirty.values())

    def take_back(self) -> None:
        """Undo the session. No job is requeued by that: nothing has become possible."""
        with self.mirror.cluster.without_requeue():
            for step in reversed(self._plan.take()):
                self._undo(step)
            for job in self._reported:
                self._read_phase_again(job)
            self._reported = ()

    def _undo(self, step: PlanStep) -> None:
        """Undo a step of a plan in the mirror: the cluster has not carried it out."""
        match step:
            case Bind():
                self._unbind(step)
            case Evict():
                self.mirror.apply([EvictFailed(step.uid, "")])
            case LiftGate():
                self._close_gate(step)
            case WritePodCondition():
                self._read_nomination_again(step)

    def _unbind(self, step: Bind) -> None:
        task = self.mirror.cluster.tasks.get(step.uid)
        if task is not None and task.status is TaskStatus.BINDING:
            self.mirror.cluster.move(task, TaskStatus.PENDING, None)
            task.refusal = None
            if task.job is not None:
                task.job.requeue()

    def _close_gate(self, step: LiftGate) -> None:
        task = self.mirror.cluster.tasks.get(step.uid)
        if task is not None:
            self.mirror.cluster.queue_cache.set_ungated(task, ungated=False)

    def _read_phase_again(self, job: JobInfo) -> None:
        """Let a job be in the phase that its PodGroup states."""
        found = self.objects.get(("PodGroup", job.namespace, job.name))
        if isinstance(found, api.PodGroup) and (found.status.phase or PENDING) != (job.phase or PENDING):
            self.mirror.cluster.queue_cache.set_phase(job, found.status.phase, admits=True)

    def _believe(self, group: api.PodGroup) -> None:
        """Accept the next state of a PodGroup, as no status of ours is under way."""
        job = self.mirror.cluster.jobs.get(group.key)
        if job is not None:
            job.reported, job.confirmed = None, True

    def _read_nomination_again(self, step: WritePodCondition) -> None:
        task = self.mirror.cluster.tasks.get(step.uid)
        pod = self.objects.get(("Pod", step.namespace, step.name))
        if task is not None and task.nomination_sent and isinstance(pod, api.Pod):
            self.mirror.cluster.nominate(task, pod.status.nominated_node_name, sent=False)


def _free_cards(session: Session) -> FreeCards:
    """Return the states of free cards: those that plugins report, and room that is kept for nominated pods."""
    parts: dict[str, dict[str, float]] = {IS_STRANDED: {}, IS_PROMISED: {}}
    for report in session.reported(lambda report: report.free_cards or None):
        for state, part in report.items():
            parts[state].update(part())
    return FreeCards(parts[IS_STRANDED], parts[IS_PROMISED], nominated_amounts(session.cluster.nominated.values()))
