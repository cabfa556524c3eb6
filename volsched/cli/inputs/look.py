"""Reads queues and quotas: the accounts of the plugins in force over all objects.

It is the opening of a session, with the mirror, plugins and accounts of `volsched run` as they are after a restart. It
decides nothing, and writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from volsched.model.changes import Change, Put
from volsched.model.job import JobInfo
from volsched.model.plan import StepRecorder
from volsched.quota.report import unlimited_usage
from volsched.scheduler import Profile, Scheduler
from volsched.simulation.api_server import SimulatedApiServer
from volsched.simulation.manifests import Inventory
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
    names = tuple(dict.fromkeys(flags["scheduler_names"])) or in_force.names or SCHEDULER_NAMES
    queue = flags["default_queue"] or in_force.default_queue or "default"
    changes = _of_cluster(flags, in_force) if inventory is None else SimulatedApiServer(inventory, names).begin()
    mirror = Mirror(MirrorSettings(names, queue, plain_pods=inventory is None))
    witness = _open(mirror, in_force, changes)
    _report_problems(mirror)
    usage = witness.usages[0] if witness.usages else unlimited_usage(mirror.cluster)
    cards = usage.cards if usage.by_card else cards_of_cluster(mirror.cluster, witness.card_name)
    objects = inventory.objects if inventory is not None else _objects(changes)
    return Look(usage, cards, witness.tables, bool(witness.usages), objects, mirror.cluster.jobs)


def keeps_tables(in_force: InForce) -> bool:
    """True if any plugin in force keeps quotas of another kind than those of queues by resource or card."""
    return any(is_of_quotas(table) for table in _open(Mirror(), in_force, ()).tables)


def is_of_quotas(table: QuotaTable) -> bool:
    """Return whether a table is about quotas; that of reservations is about jobs."""
    return table.name != RESERVATIONS


def _open(mirror: Mirror, in_force: InForce, changes: Iterable[Change]) -> _LookPlugin:
    """Open a session on the objects, with the plugins in force and without actions, except for their reports."""
    witness = _LookPlugin()
    telling: list[Plugin] = [action for action in in_force.profile.actions if isinstance(action, Plugin)]
    last = tuple((PluginOption(plugin.name), plugin) for plugin in [*telling, witness])
    profile = Profile(in_force.profile.configuration, (), (*in_force.profile.plugins, last))
    scheduler = Scheduler(mirror, profile, StepRecorder(), _UnbudgetedClock())
    mirror.apply(changes)
    scheduler.cycle()
    return witness


def kinds_of(in_force: InForce) -> tuple[str, ...]:
    """Return the kinds that the accounts of these plugins are made from, in the order in which they are read."""
    plugins = (plugin for tier in in_force.profile.plugins for _, plugin in tier)
    more = (kind for plugin in plugins for kind in getattr(plugin, "COUNTED_FROM", ()))
    return tuple(dict.fromkeys((*KINDS[:-1], *more, KINDS[-1])))


def _of_cluster(flags: Mapping[str, Any], in_force: InForce) -> list[Change]:
    return read_cluster(flags, kinds_of(in_force))


def _objects(changes: Iterable[Change]) -> list[api.ApiObject]:
    return [change.object for change in changes if isinstance(change, Put)]


def _report_problems(mirror: Mirror) -> None:
    for problem in mirror.events.take_findings():
        if not isinstance(problem, ReadingProblem):
            continue
        where = "/".join(part for part in (problem.kind, problem.namespace, problem.name) if part)
        report(f"{where}: {problem.field}: {problem.message}", "warning")
