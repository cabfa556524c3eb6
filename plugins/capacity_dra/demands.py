"""The minimum of devices that a job needs to start, claim by claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from plugins.capacity_dra.usage import ClaimUsage
from volsched.plugin import Cluster, JobInfo, TaskInfo, TaskStatus
from volsched.plugin.devices import Amount, Amounts, Uses, announced_by, from_devices, of_spec, pending_claim_uid
from volsched.plugin.quota import total_of

ClaimAmounts = dict[str, Amounts]
"""What claims count for, by key. One that is to be made from a template has a key of its own for each pod."""


@dataclass(frozen=True, slots=True)
class MinimumSources:
    """What a job's minimum is made from beside the job: keys of claims and of templates, and extended resources."""

    claims: frozenset[str]
    templates: frozenset[str]
    resources: frozenset[str]


@dataclass(frozen=True, slots=True)
class _RoleMinimum:
    """Pods of one role, of which the job needs ``least``.

    ``missing`` of them do not exist yet and are announced: each will use the claims ``named``, and have others made for
    it that count for ``made``.
    """

    members: list[str]
    least: int
    missing: int
    named: Mapping[str, Amounts]
    made: Amounts


class DeviceDemands:
    """Lower bounds of what jobs will hold."""

    def __init__(self, cluster: Cluster, usage: ClaimUsage, *, with_admin: bool) -> None:
        self._devices = cluster.devices
        self._usage = usage
        self._with_admin = with_admin

    def of_task(self, task: TaskInfo) -> ClaimAmounts:
        """Return what a pod's claims count for, those included that are still to be made from templates."""
        wanted = {key: self._usage.charge(key) for key in self._usage.claims_of(task)}
        made = {name for name, _ in task.spec.claim_names}
        for use in task.spec.resource_claims:
            spec = self._devices.templates.get(f"{task.namespace}/{use.template}") if use.template else None
            if spec is not None and use.name not in made:
                wanted[f"{task.uid}/{use.name}"] = of_spec(spec, with_admin=self._with_admin)
        if task.uid not in self._usage.pod_charges and (extended := self._usage.of_extended(task)):
            wanted[pending_claim_uid(task.uid)] = extended
        return wanted

    def minimum(self, job: JobInfo, gone: Collection[str] = ()) -> Amounts:
        """Return what a job holds at least once it starts, claims left out that are counted already (``gone``).

        Pods that do not exist yet have the claims that the PodGroup announces. A claim that several pods use counts
        once, if the job cannot start without any of them.
        """
        if not self._usage.awaits_devices(job):
            return {}
        tasks = [task for task in job.tasks.values() if self._usage.concerns(task) and _counts(job, task)]
        wanted = {task.uid: _left(self.of_task(task), gone) for task in tasks}
        parts = [self._part(job, roles, members, least, gone) for roles, members, least in _groups(job)]
        parts = [_as_those_there(part, wanted) for part in parts]
        users = Counter(key for claims in wanted.values() for key in claims)
        for part in parts:
            users.update(dict.fromkeys(part.named, part.missing))
        promised = {Amount(name): amount for name, amount in self._usage.promised_extended(job).items()}
        smallest = [_smallest_sum(_own(part, wanted, users), part.least) for part in parts]
        return total_of((*smallest, _shared(job, wanted, parts, users), promised))

    def _part(
        self, job: JobInfo, roles: Iterable[str], members: list[str], least: int, gone: Collection[str]
    ) -> _RoleMinimum:
        """Return some pods, and the claims that each has of those which are missing, if their PodGroup tells them.

        Of missing pods that may be of several roles counts what these have in common.
        """
        announced = announced_by(job.spec.annotations)
        uses = [announced.of_role(role) for role in roles]
        missing = max(0, least - len(members)) if any(uses) else 0
        if not missing:
            return _RoleMinimum(members, least, 0, {}, {})
        named = set.intersection(*({f"{job.namespace}/{use.claim}" for use in found if use.claim} for found in uses))
        made = _smallest([self._made(job, found) for found in uses])
        return _RoleMinimum(
            members, least, missing, {key: self._usage.charge(key) for key in named if key not in gone}, made
        )

    def sources(self, job: JobInfo) -> MinimumSources:
        """Return the sources of a job's minimum. It changes only with them, or with the job."""
        announced = [use for uses in announced_by(job.spec.annotations).roles.values() for use in uses]
        claims = {f"{job.namespace}/{use.claim}" for use in announced if use.claim}
        uses, resources = {*announced}, {*(job.spec.min_resources or ())}
        for task in job.tasks.values():
            if self._usage.concerns(task):
                claims.update(self._usage.claims_of(task))
                uses.update(task.spec.resource_claims)
                resources.update(resource for resource, _ in from_devices(task.template, self._devices))
        templates = frozenset(f"{job.namespace}/{use.template}" for use in uses if use.template)
        return MinimumSources(frozenset(claims), templates, frozenset(filter(self._devices.class_for, resources)))

    def _made(self, job: JobInfo, uses: Uses) -> Amounts:
        """Return what the claims count for that a pod will have made from templates."""
        specs = (self._devices.templates.get(f"{job.namespace}/{use.template}") for use in uses if use.template)
        return total_of(of_spec(spec, with_admin=self._with_admin) for spec in specs if spec is not None)


def _groups(job: JobInfo) -> Iterator[tuple[tuple[str, ...], list[str], int]]:
    """Yield the groups of pods of which the job needs so many: roles that they may be of, uids, how many.

    These are its roles when their minima count. They do not when together they are more than the job's own minimum: it
    starts with any pods then.
    """
    roles = tuple(sorted(job.spec.min_roles))
    if not job.judges_roles:
        yield roles or ("",), list(job.tasks), job.spec.min_available
        return
    for role in roles:
        yield (role,), [uid for uid, task in job.tasks.items() if task.spec.role == role], job.spec.min_roles[role]


def _own(part: _RoleMinimum, wanted: Mapping[str, ClaimAmounts], users: Counter[str]) -> list[dict[Amount, Fraction]]:
    """Return what each pod of a role uses alone. Those that are missing come last, all together."""
    own = [total_of(v for k, v in wanted.get(uid, {}).items() if users[k] == 1) for uid in part.members]
    if not part.missing:
        return own
    named = total_of(v for k, v in part.named.items() if users[k] == 1)
    return [*own, _times(total_of((part.made, named)), part.missing)]


def _shared(
    job: JobInfo, wanted: Mapping[str, ClaimAmounts], parts: Iterable[_RoleMinimum], users: Counter[str]
) -> dict[Amount, Fraction]:
    """Return what those shared claims count for without which the job cannot start: too few of its pods do without."""
    members = len(job.tasks) + sum(part.missing for part in parts)
    spare = members - min(job.spec.min_available, members)
    claims = {k: v for found in (*wanted.values(), *(part.named for part in parts)) for k, v in found.items()}
    return total_of(v for k, v in claims.items() if users[k] > max(1, spare))


def _as_those_there(part: _RoleMinimum, wanted: Mapping[str, ClaimAmounts]) -> _RoleMinimum:
    """Return a role whose missing pods count no more than the largest that is there, whatever is announced of them."""
    if not part.missing or not part.members:
        return part
    most: dict[Amount, Fraction] = {}
    for uid in part.members:
        for key, value in total_of(wanted.get(uid, {}).values()).items():
            most[key] = max(value, most.get(key, Fraction(0)))
    made = {key: min(value, most[key]) for key, value in part.made.items() if key in most}
    return replace(part, made=made)


def _counts(job: JobInfo, task: TaskInfo) -> bool:
    return task.status is not TaskStatus.PENDING or job.counts_in_minimum(task)


def _left(wanted: ClaimAmounts, gone: Collection[str]) -> ClaimAmounts:
    return {key: amounts for key, amounts in wanted.items() if key not in gone}


def _times(amounts: Amounts, count: int) -> dict[Amount, Fraction]:
    return {key: value * count for key, value in amounts.items()}


def _smallest(found: list[Amounts]) -> Amounts:
    """Return what all of some amounts have at least."""
    common = set.intersection(*(set(amounts) for amounts in found))
    return {key: min(amounts[key] for amounts in found) for key in common}


def _smallest_sum(own: list[dict[Amount, Fraction]], least: int) -> dict[Amount, Fraction]:
    """Return, for each amount by itself, what the ``least`` pods take that take least of it."""
    found: dict[Amount, Fraction] = {}
    for key in {key for amounts in own for key in amounts}:
        value = sum(sorted(amounts.get(key, Fraction(0)) for amounts in own)[:least], Fraction(0))
        if value:
            found[key] = value
    return found
