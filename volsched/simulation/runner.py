"""Cycles over the in-memory cluster: mirror, scheduler and plugins of ``volsched run``, with another executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from volsched.framework.config.configuration import PluginOption
from volsched.framework.plugin import Plugin
from volsched.framework.registration import Registrar
from volsched.framework.reports import QueueAmountsFn, QuotaTableFn
from volsched.framework.rules import SessionClose
from volsched.framework.session import Session
from volsched.mirror.apply import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Change
from volsched.model.pods.limits import KEPT_BYTES
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.ports import CycleReport
from volsched.scheduler import Profile, Scheduler
from volsched.simulation.api_server import SimulatedApiServer
from volsched.simulation.manifests import Inventory

SCHEDULER_NAMES: Final = ("volsched", "volcano")

Scores = dict[str, dict[str, float]]
"""For each node: what each plugin gave it."""


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """Settings: the number of cycles, the scheduler names, whether scores are kept, and the memory for objects."""

    cycles: int = 10
    scheduler_names: tuple[str, ...] = SCHEDULER_NAMES
    default_queue: str = "default"
    scores: bool = False
    kept_bytes: int = KEPT_BYTES


@dataclass(slots=True)
class Simulation:
    """A finished run: the API server and the mirror after the last cycle, and the notes on the way."""

    api_server: SimulatedApiServer
    mirror: Mirror
    profile: Profile
    settings: SimulationSettings
    cycles: int = 0
    settled: bool = False
    pipelined: list[tuple[int, str, str]] = field(default_factory=list)
    scores: dict[str, Scores] = field(default_factory=dict)
    session: Session | None = None
    """The last session, closed: its orders and the plugins' reports about quotas can still be read."""

    def take(self, changes: Sequence[Change]) -> None:
        """Let the cluster be another one from the next cycle on."""
        self.notify(changes)
        self.settled = False

    def notify(self, changes: Sequence[Change]) -> None:
        """Have the mirror take changes in, those left out for which there is no memory."""
        self.mirror.apply(self.mirror.memory_use.of(changes))

    @property
    def queue_amounts(self) -> Sequence[QueueAmountsFn]:
        """Return the quota plugins' reports about queues."""
        return self.session.reported(lambda report: report.amounts) if self.session is not None else ()

    @property
    def quota_tables(self) -> Sequence[QuotaTableFn]:
        """Other reports of plugins: quotas of other kinds, cards."""
        return self.session.reported(lambda report: report.table) if self.session is not None else ()


class _SimulatedClock:
    """The time of the simulated cluster. Durations are real; they do not change results."""

    def __init__(self, api_server: SimulatedApiServer) -> None:
        self._api_server = api_server

    def now(self) -> float:
        return self._api_server.now.timestamp()

    def elapsed(self) -> float:
        return time.perf_counter()

    def cpu(self) -> float:
        """Return 0: a simulation uses no CPU time, so that its result is the same on every machine."""
        return 0.0


class _ObserverPlugin:
    """A plugin that reads the registered rules, and the pipelined tasks when a session closes."""

    name = "simulate"

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def on_session_open(self, registrar: Registrar) -> None:
        self._simulation.session = registrar.session
        registrar.register(SessionClose(lambda: self._note_pipelined(registrar.session)))

    def _note_pipelined(self, session: Session) -> None:
        waiting = [
            (task.key, node.name)
            for node in session.cluster.node_cache.with_terminating_pods.values()
            for task in node.tasks.values()
            if task.status is TaskStatus.PIPELINED
        ]
        cycle = self._simulation.api_server.cycle
        self._simulation.pipelined.extend((cycle, pod, node) for pod, node in sorted(waiting))


def simulate(
    inventory: Inventory,
    profile: Profile,
    settings: SimulationSettings | None = None,
    on_cycle: Callable[[int, CycleReport], None] | None = None,
) -> Simulation:
    """Run cycles until one changes nothing, or as many as the settings allow."""
    return Stage(inventory, profile, settings or SimulationSettings()).run(on_cycle)


class Stage:
    """A simulation that can go on after it has settled, with changes given to its ``simulation``.

    ``on_changes`` is called with all changes for the mirror.
    """

    def __init__(
        self,
        inventory: Inventory,
        profile: Profile,
        settings: SimulationSettings,
        on_changes: Callable[[Sequence[Change]], None] = lambda _: None,
    ) -> None:
        names, queue, most = settings.scheduler_names, settings.default_queue, settings.kept_bytes
        mirror = Mirror(MirrorSettings(names, queue, plain_pods=False, kept_bytes=most))
        api_server = SimulatedApiServer(inventory, settings.scheduler_names)
        self.simulation = simulation = Simulation(api_server, mirror, profile, settings)
        witness: Plugin = _ObserverPlugin(simulation)
        tiers = (*profile.plugins, ((PluginOption(witness.name), witness),))
        witnessed = Profile(profile.configuration, profile.actions, tiers)
        note = _score_keeper(simulation) if settings.scores else None
        self._scheduler = Scheduler(mirror, witnessed, api_server, _SimulatedClock(api_server), on_placed=note)
        self._on_changes = on_changes
        self._notify(api_server.begin())

    def _notify(self, changes: Sequence[Change]) -> None:
        self._on_changes(changes)
        self.simulation.notify(changes)

    def run(self, on_cycle: Callable[[int, CycleReport], None] | None = None, more: int = 0) -> Simulation:
        """Run cycles until one changes nothing; at most ``more`` of them, else as many as the settings allow."""
        simulation, api_server = self.simulation, self.simulation.api_server
        most = simulation.cycles + more if more else simulation.settings.cycles
        while simulation.cycles < most and not simulation.settled:
            simulation.cycles = api_server.cycle = simulation.cycles + 1
            report = self._scheduler.cycle()
            changes, anything = api_server.move()
            self._notify(changes)
            waits = report.is_unfinished or simulation.mirror.next_retry() is not None
            simulation.settled = not anything and not waits
            if on_cycle is not None:
                on_cycle(simulation.cycles, report)
        return simulation


def _score_keeper(simulation: Simulation) -> Callable[[Session, TaskInfo], None]:
    """Return a callback that keeps the scores of placements, by pod the latest ones."""

    def keep(session: Session, task: TaskInfo) -> None:
        simulation.scores[task.key] = session.engine.scores(task)

    return keep
