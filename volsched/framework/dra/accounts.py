"""What queues hold of devices: claim by claim, each once in a queue and once in every queue above it.

A claim counts in a queue while any pod there counts that uses it. What a claim counts for may change while it is held,
when its devices are chosen or seen: then all accounts that have it follow. All of it is a function of where pods stand
and what claims have, so accounts that are rebuilt are those that were followed.

The account is one class: pods, claims and queues change its sums together, and an undo has to find them so. Pods are
followed move by move; changes of claims and of the tree of queues are taken in before the next answer.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from volsched.framework.dra.amounts import Amount, Amounts
from volsched.framework.dra.charges import of_results, of_spec
from volsched.framework.dra.extended import from_devices, made_for
from volsched.model.cluster import Cluster
from volsched.model.dra.api import Allocation
from volsched.model.dra.device import ClaimSpec
from volsched.model.dra.devices import Devices, pending_claim_uid
from volsched.model.former import renamed_attributes
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import levels
from volsched.model.status import TaskStatus

ZERO: Final = Fraction(0)


class ClaimAccount:
    """The claims that a queue uses, by how many pods, and what they count for together, without zeros."""

    def __init__(self) -> None:
        self.users: Counter[str] = Counter()
        self.used: dict[Amount, Fraction] = {}

    def use(self, key: str, by: int) -> bool:
        """Let one more pod use a claim, or one less (-1); True for the first and the last one, which change sums."""
        was = self.users.get(key, 0)
        now = was + by
        if now:
            self.users[key] = now
        else:
            del self.users[key]
        return not was or not now

    def add(self, amounts: Amounts, by: int) -> None:
        """Add amounts so many times, or take them off (a negative number)."""
        used = self.used
        for key, value in amounts.items():
            left = used.get(key, ZERO) + (value if by == 1 else by * value)
            if left:
                used[key] = left
            else:
                used.pop(key, None)


class PodCharge(NamedTuple):
    """The queues that a pod counts in, and the keys of the claims that it counts for."""

    levels: tuple[str, ...]
    claims: tuple[str, ...]


class DeviceAccounts(Observer):
    """Counts the devices that each queue uses through ResourceClaims. Each answer is up to date.

    ``counts``: indexed by status, whether a pod of that status counts. ``with_admin``: devices for administrators,
    which are shared with their users, count too. ``on_claim_changed`` is called with the key of a claim that may count
    for something else, or that a queue has begun or ceased to use.
    """

    def __init__(self, cluster: Cluster, *, counts: Sequence[bool], with_admin: bool = False) -> None:
        self._cluster = cluster
        self._counts = counts
        self._with_admin = with_admin
        self._accounts: dict[str, ClaimAccount] = {}
        self._pod_charges: dict[str, PodCharge] = {}
        self._charges: dict[str, Amounts] = {}
        self._holders: Counter[str] = Counter()
        self._changed: dict[str, None] = {}
        self._seen = cluster.devices.log_end
        self._tree = -1
        self._job_queues: dict[str, str] = {}
        self._version = 0
        self._generation = 0
        self.on_claim_changed: Callable[[str], None] = _notify_nothing
        self._classes_version = -1
        self._read_classes()

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Return a version, which changes with every account."""
        self._refresh()
        return self._version

    @property
    def generation(self) -> int:
        """Return a version, which changes when any claim may count for something else."""
        self._refresh()
        return self._generation

    @property
    def pod_charges(self) -> Mapping[str, PodCharge]:
        """The pods that count, by uid."""
        self._refresh()
        return self._pod_charges

    def account(self, queue: str) -> ClaimAccount:
        """Return what a queue and all queues below it hold."""
        self._refresh()
        return self._accounts.get(queue) or ClaimAccount()

    def take_changed(self) -> dict[str, None]:
        """Return the names of queues whose accounts may have changed since this was last asked."""
        self._refresh()
        changed, self._changed = self._changed, {}
        return changed

    def levels(self, queue: str) -> tuple[str, ...]:
        """Return a queue and the queues above it, each once, the root last."""
        return levels(self._cluster.queues, queue)

    def claims_of(self, task: TaskInfo) -> tuple[str, ...]:
        """Return the keys of a pod's claims, each once. Those that are not made yet are left out."""
        return claims_of(task, self._cluster.devices)

    def concerns(self, task: TaskInfo) -> bool:
        """True if a pod has claims, or asks for extended resources that a DeviceClass stands for."""
        return bool(task.template.has_resource_claims or from_devices(task.template, self._cluster.devices))

    def charge(self, key: str) -> Amounts:
        """Return what a claim counts for. One that was deleted while it is held counts for what it did."""
        self._refresh()
        return self._charges[key] if key in self._charges else self._read(key)

    def _read(self, key: str) -> Amounts:
        devices = self._cluster.devices
        claim = devices.claims.get(key)
        if claim is None:
            chosen = devices.in_flight.get(key)
            return self._of(chosen.spec, chosen.allocation) if chosen is not None else {}
        allocation = devices.allocation_of(claim)
        if allocation is None:
            return of_spec(claim.spec, with_admin=self._with_admin)
        return self._of(claim.spec, allocation)

    def _of(self, spec: ClaimSpec, allocation: Allocation) -> Amounts:
        return of_results(spec, allocation.devices.results, with_admin=self._with_admin)

    def users(self, key: str) -> int:
        """Return how many pods count that use a claim."""
        self._refresh()
        return self._holders[key]

    def held_by(self, job: JobInfo) -> frozenset[str]:
        """Return the claims that placed pods of a job use."""
        charges = self.pod_charges
        return frozenset(key for uid in job.tasks if uid in charges for key in charges[uid].claims)

    # -- changes ------------------------------------------------------------------------------------------------------

    def follows(self, template: PodTemplate) -> bool:
        """True if pods of this template may have claims."""
        return bool(template.has_resource_claims or template.container_amounts)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Charge and uncharge."""
        if not self._is_due(task):
            self._uncharge_pod(task.uid)
        elif task.uid not in self._pod_charges:
            self._charge_pod(task)

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Charge equal pods, if their template wants any devices. What is equal is added up once."""
        job = tasks[0].job
        if job is None or not self._counts[tasks[0].status] or not self.concerns(tasks[0]):
            return
        counted = [task for task in tasks if task.uid not in self._pod_charges]
        above = self.levels(job.queue)
        charges = [self._note_charge(task, job, above) for task in counted]
        if charges:
            self._count(above, [key for charge in charges for key in charge.claims], 1)

    def _is_due(self, task: TaskInfo) -> bool:
        return self._counts[task.status] and task.job is not None and self.concerns(task)

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Follow a job into another queue."""
        before = self._job_queues.get(job.key)
        if gone:
            self._job_queues.pop(job.key, None)
        elif before is not None and before != job.queue:
            self._job_queues[job.key] = job.queue
            for task in job.tasks.values():
                if task.uid in self._pod_charges:
                    self._uncharge_pod(task.uid)
                    self._charge_pod(task)

    def _refresh(self) -> None:
        """Take in changes of queues and claims."""
        if self._classes_version != self._cluster.devices.classes_version:
            self._read_classes()
            return
        if self._tree != self._cluster.generations.queue_tree:
            self._rebuild()
            return
        devices = self._cluster.devices
        if self._seen == devices.log_end:
            return
        changed = devices.changed_since(self._seen)
        self._seen = devices.log_end
        if changed is None:
            self._generation += 1
        for key in changed if changed is not None else list(self._charges):
            self._move_to_made(key)
            self._recharge(key)
            self.on_claim_changed(key)

    def _read_classes(self) -> None:
        """Find out again which pods want devices, as other extended resources may come from these."""
        self._classes_version = self._cluster.devices.classes_version
        self._rebuild()

    def _rebuild(self) -> None:
        """Count everything again, as the tree of queues has changed."""
        self._tree = self._cluster.generations.queue_tree
        self._seen = self._cluster.devices.log_end
        self._generation += 1
        self._changed.update(dict.fromkeys(self._accounts))
        for kept in (self._accounts, self._pod_charges, self._charges, self._holders, self._job_queues):
            kept.clear()
        for task in self._cluster.tasks.values():
            if self.follows(task.template) and self._is_due(task):
                self._charge_pod(task)

    def _move_to_made(self, key: str) -> None:
        """Let a pod's claim for extended resources count under its own name, once it is made."""
        claim = self._cluster.devices.claims.get(key)
        task = made_for(claim, self._cluster.tasks) if claim is not None and claim.extended else None
        if task is not None and pending_claim_uid(task.uid) in self._charges:
            self._uncharge_pod(task.uid)
            self._charge_pod(task)

    def _is_known(self, key: str) -> bool:
        """True if anything states what a claim counts for."""
        return key in self._cluster.devices.claims or key in self._cluster.devices.in_flight

    def _recharge(self, key: str) -> None:
        before = self._charges.get(key)
        if before is None or not self._is_known(key):
            return
        after = self._charges[key] = self._read(key)
        if after == before:
            return
        self._version += 1
        for name, account in self._accounts.items():
            if key in account.users:
                account.add(before, -1)
                account.add(after, 1)
                self._changed[name] = None

    def _charge_pod(self, task: TaskInfo) -> None:
        job = task.job
        if job is None:
            return
        charge = self._note_charge(task, job, self.levels(job.queue))
        self._count(charge.levels, charge.claims, 1)

    def _note_charge(self, task: TaskInfo, job: JobInfo, above: tuple[str, ...]) -> PodCharge:
        """Note what a pod counts for, and in which queues. These are not told yet."""
        charge = self._pod_charges[task.uid] = PodCharge(above, self.claims_of(task))
        self._job_queues[job.key] = job.queue
        for key in charge.claims:
            self._holders[key] += 1
            if key not in self._charges:
                self._charges[key] = self._read(key)
        return charge

    def _uncharge_pod(self, uid: str) -> None:
        charge = self._pod_charges.pop(uid, None)
        if charge is None:
            return
        self._count(charge.levels, charge.claims, -1)
        for key in charge.claims:
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key], self._charges[key]

    def _count(self, above: Sequence[str], claims: Sequence[str], by: int) -> None:
        """Let one more pod of these queues use each of these claims, or one less (-1)."""
        self._version += 1
        for name in above:
            self._changed[name] = None
            account = self._accounts.get(name)
            if account is None:
                account = self._accounts[name] = ClaimAccount()
            first_or_last = [key for key in claims if account.use(key, by)]
            equal: dict[int, int] = {}
            for key in first_or_last:
                amounts = id(self._charges[key])
                equal[amounts] = equal.get(amounts, 0) + by
            for key in first_or_last:
                times = equal.pop(id(self._charges[key]), 0)
                if times:
                    account.add(self._charges[key], times)
            if self.on_claim_changed is not _notify_nothing:
                for key in first_or_last:
                    self.on_claim_changed(key)

    if not TYPE_CHECKING:  # names of one minor version ago
        __getattr__ = renamed_attributes({"era": "generation"})

        def catch_up(self) -> None:
            """Do nothing but warn: each answer is up to date."""
            _warn("catch_up ends with the next minor version; each answer is up to date without it")

        @property
        def turned(self) -> Callable[[str], None]:
            """``on_claim_changed``, by a former name."""
            _warn("turned ends with the next minor version; it is on_claim_changed")
            return self.on_claim_changed

        @turned.setter
        def turned(self, fn: Callable[[str], None]) -> None:
            _warn("turned ends with the next minor version; it is on_claim_changed")
            self.on_claim_changed = fn


def claims_of(task: TaskInfo, devices: Devices) -> tuple[str, ...]:
    """Return the keys of a pod's claims, each once. Those that are not made yet are left out."""
    keys = dict.fromkeys(key for _, key in task.claims_by_entry() if key)
    if from_devices(task.template, devices):
        made = devices.extended_claim_of(task.as_owner)
        keys[made.key if made is not None else pending_claim_uid(task.uid)] = None
    return tuple(keys)


def _warn(message: str) -> None:
    warnings.warn(f"DeviceAccounts.{message}", DeprecationWarning, stacklevel=3)


def _notify_nothing(_: str) -> None:
    pass
