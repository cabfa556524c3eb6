"""What a job needs of devices at least: the smallest number of its pods that it starts with, claim by claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from plugins.capacity_dra.ledger import Ledger
from volsched.framework.dra.amounts import Amount, Amounts
from volsched.framework.dra.charges import of_spec
from volsched.framework.dra.extended import from_devices
from volsched.model.cluster import Cluster
from volsched.model.devices import unmade_uid
from volsched.model.job import JobInfo
from volsched.model.task import TaskInfo

Wanted = dict[str, Amounts]
"""What claims count for, by key; one that is to be made from a template has a key of its own for each pod."""


class Demands:
    """Lower bounds of what jobs will hold."""

    def __init__(self, cluster: Cluster, ledger: Ledger, *, with_admin: bool) -> None:
        self._cluster = cluster
        self._devices = cluster.devices
        self._ledger = ledger
        self._with_admin = with_admin

    def of_task(self, task: TaskInfo) -> Wanted:
        """Return what a pod's claims count for, those included that are still to be made from templates."""
        wanted = {key: self._ledger.charge(key) for key in self._ledger.claims_of(task)}
        made = {name for name, _ in task.claim_names}
        for use in task.resource_claims:
            spec = self._devices.templates.get(f"{task.namespace}/{use.template}") if use.template else None
            if spec is not None and use.name not in made:
                wanted[f"{task.uid}/{use.name}"] = of_spec(spec, with_admin=self._with_admin)
        if task.uid not in self._ledger.seated:
            wanted.update(self._of_extended(task))
        return wanted

    def _of_extended(self, task: TaskInfo) -> Wanted:
        """Return what a pod's extended resources count for where only devices have them: no node offers any itself."""
        columns, totals = self._cluster.columns, self._cluster.totals
        amounts: dict[Amount, Fraction] = {}
        for resource, device_class in from_devices(task.template, self._devices):
            if not totals[columns.column(resource)]:
                _add(amounts, {Amount(device_class): Fraction(task.template.request[resource], 1000)})
        return {unmade_uid(task.uid): amounts} if amounts else {}

    def minimum(self, job: JobInfo, without: Iterable[str] = ()) -> Amounts:
        """Return what a job holds at least once it starts, claims left out that are counted already.

        A claim that several pods use counts once, if the job cannot start without any of them.
        """
        tasks = [task for task in job.tasks.values() if self._ledger.concerns(task)]
        if not tasks:
            return {}
        gone = frozenset(without)
        wanted = {task.uid: {k: v for k, v in self.of_task(task).items() if k not in gone} for task in tasks}
        users = Counter(key for claims in wanted.values() for key in claims)
        total: dict[Amount, Fraction] = {}
        for members, least in self._parts(job):
            own = [_sum(v for k, v in wanted.get(task.uid, {}).items() if users[k] == 1) for task in members]
            _add_smallest(total, own, least)
        spare = len(job.tasks) - min(job.min_available, len(job.tasks))
        shared = {k: v for claims in wanted.values() for k, v in claims.items() if users[k] > max(1, spare)}
        _add(total, _sum(shared.values()))
        return total

    def _parts(self, job: JobInfo) -> list[tuple[list[TaskInfo], int]]:
        """Return the groups of pods of which the job needs so many: its roles when these have minima, else all."""
        tasks = list(job.tasks.values())
        if not job.min_roles:
            return [(tasks, min(job.min_available, len(tasks)))]
        parts = []
        for role, least in sorted(job.min_roles.items()):
            members = [task for task in tasks if task.role == role]
            parts.append((members, min(least, len(members))))
        return parts


def _sum(amounts: Iterable[Amounts]) -> dict[Amount, Fraction]:
    total: dict[Amount, Fraction] = {}
    for found in amounts:
        _add(total, found)
    return total


def _add(total: dict[Amount, Fraction], amounts: Amounts) -> None:
    for key, value in amounts.items():
        total[key] = total.get(key, Fraction(0)) + value


def _add_smallest(total: dict[Amount, Fraction], own: list[dict[Amount, Fraction]], least: int) -> None:
    """Add, for each amount by itself, what the ``least`` pods take that take least of it."""
    for key in {key for found in own for key in found}:
        values = sorted(found.get(key, Fraction(0)) for found in own)
        value = sum(values[:least], Fraction(0))
        if value:
            total[key] = total.get(key, Fraction(0)) + value
