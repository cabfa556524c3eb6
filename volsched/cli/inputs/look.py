"""Reads queues and quotas: the accounts of the plugins in force over all objects.

It is the opening of a session, with the mirror, plugins and accounts of `volsched run` as they are after a restart. It
decides nothing, and writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from volsched.cli.inputs.in_force import InForce
from volsched.cli.inputs.sources import read_cluster
from volsched.cli.output import report
from volsched.diagnose.cards import cards_of_cluster
from volsched.framework.config.configuration import PluginOption
from volsched.framework.plugin import Plugin
from volsched.framework.quota_report import RESERVATIONS, CardUse, QuotaTable, Usage
from volsched.framework.registration import Registrar
from volsched.mirror.apply import Mirror
from volsched.mirror.problems import ReadingProblem
from volsched.mirror.settings import MirrorSettings
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.cards.naming import first_name, no_names
from volsched.model.changes import Change, Deleted, Put, Refused
from volsched.model.job import JobInfo
from volsched.model.plan import StepRecorder
from volsched.quota.report import unlimited_usage
from volsched.scheduler import Profile, Scheduler
from volsched.simulation.api_server import SimulatedApiServer
from volsched.simulation.manifests import Inventory, identity_of
from volsched.simulation.runner import SCHEDULER_NAMES

KINDS: Final = ("Node", "Namespace", "Queue", "PodGroup", *native.NAMES, "Pod")
"""The kinds that every account is made from."""


@dataclass(frozen=True, slots=True)
class Look:
    """The result. ``is_limited``: a plugin in force keeps quotas of queues; ``tables`` are those of other quotas.

    ``jobs`` are by ``namespace/name``.
    """

    usage: Usage
    cards: Mapping[str, CardUse]
    tables: Sequence[QuotaTable]
    is_limited: bool
    objects: Sequence[api.ApiObject]
    jobs: Mapping[str, JobInfo]


class _LookPlugin:
    """A plugin that registers nothing and reads the reports of the others, once they have their accounts."""

    name = "look"

    def __init__(self) -> None:
        self.usages: list[Usage] = []
        self.tables: list[QuotaTable] = []
        self.card_name = no_names

    def on_session_open(self, registrar: Registrar) -> None:
        session = registrar.session
        self.usages = [usage() for usage in session.reported(lambda report: report.usage)]
        self.tables = [table() for table in session.reported(lambda report: report.table)]
        self.card_name = first_name(session.reported(lambda report: report.card_name))


class _UnbudgetedClock:
    """The time of this machine."""

    def now(self) -> float:
        return time.time()

    def elapsed(self) -> float:
        return time.perf_counter()

    def cpu(self) -> float:
        return 0.0  # nothing is decided, so nothing is over a budget


def look(inventory: Inventory | None, in_force: InForce, flags: Mapping[str, Any]) -> Look:
    """Look at manifests, or at the cluster that the flags name."""
    looking = Looking(in_force, flags, plain_pods=inventory is None)
    if inventory is None:
        looking.take(read_cluster(flags, kinds_of(in_force)))
        return looking.look()
    looking.take(SimulatedApiServer(inventory, looking.names).begin())
    return replace(looking.look(), objects=inventory.objects)


class Looking:
    """Looks again and again: ``take`` changes of a cluster in, ``look`` at what they lead to.

    ``names`` are the scheduler names of pods that count.
    """

    def __init__(self, in_force: InForce, flags: Mapping[str, Any], *, plain_pods: bool = True) -> None:
        self.names = tuple(dict.fromkeys(flags["scheduler_names"])) or in_force.names or SCHEDULER_NAMES
        queue = flags["default_queue"] or in_force.default_queue or "default"
        self._mirror = Mirror(MirrorSettings(self.names, queue, plain_pods=plain_pods))
        self._session = _ReportingSession(self._mirror, in_force)
        self._objects = KnownObjects()

    def take(self, changes: Sequence[Change]) -> None:
        """Take changes in, in order."""
        self._objects.take(changes)
        self._mirror.apply(changes)

    def look(self) -> Look:
        """Return the accounts of the objects so far."""
        witness, cluster = self._session.open(), self._mirror.cluster
        _report_problems(self._mirror)
        usage = witness.usages[0] if witness.usages else unlimited_usage(cluster)
        cards = usage.cards if usage.by_card else cards_of_cluster(cluster, witness.card_name)
        return Look(usage, cards, witness.tables, bool(witness.usages), self._objects.all(), cluster.jobs)


class KnownObjects:
    """The objects of a cluster, updated with changes."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, str], api.ApiObject] = {}

    def take(self, changes: Iterable[Change]) -> None:
        """Take changes in, in order."""
        for change in changes:
            if isinstance(change, Put):
                self._objects[identity_of(change.object)] = change.object
            elif isinstance(change, Deleted | Refused):
                self._objects.pop((change.kind, change.namespace, change.name), None)

    def all(self) -> list[api.ApiObject]:
        """Return all objects."""
        return list(self._objects.values())


def keeps_tables(in_force: InForce) -> bool:
    """True if any plugin in force keeps quotas of another kind than those of queues by resource or card."""
    return any(is_of_quotas(table) for table in _ReportingSession(Mirror(), in_force).open().tables)


def is_of_quotas(table: QuotaTable) -> bool:
    """Return whether a table is about quotas; that of reservations is about jobs."""
    return table.name != RESERVATIONS


class _ReportingSession:
    """Sessions with the plugins in force and without actions, except for their reports."""

    def __init__(self, mirror: Mirror, in_force: InForce) -> None:
        self._witness = _LookPlugin()
        telling: list[Plugin] = [action for action in in_force.profile.actions if isinstance(action, Plugin)]
        last = tuple((PluginOption(plugin.name), plugin) for plugin in [*telling, self._witness])
        profile = Profile(in_force.profile.configuration, (), (*in_force.profile.plugins, last))
        self._plan = StepRecorder()
        self._scheduler = Scheduler(mirror, profile, self._plan, _UnbudgetedClock())

    def open(self) -> _LookPlugin:
        """Open a session on the present objects."""
        self._scheduler.cycle()
        self._plan.take()
        return self._witness


def kinds_of(in_force: InForce) -> tuple[str, ...]:
    """Return the kinds that the accounts of these plugins are made from, in the order in which they are read."""
    plugins = (plugin for tier in in_force.profile.plugins for _, plugin in tier)
    more = (kind for plugin in plugins for kind in getattr(plugin, "COUNTED_FROM", ()))
    return tuple(dict.fromkeys((*KINDS[:-1], *more, KINDS[-1])))


def _report_problems(mirror: Mirror) -> None:
    for problem in mirror.events.take_findings():
        if not isinstance(problem, ReadingProblem):
            continue
        where = "/".join(part for part in (problem.kind, problem.namespace, problem.name) if part)
        report(f"{where}: {problem.field}: {problem.message}", "warning")
