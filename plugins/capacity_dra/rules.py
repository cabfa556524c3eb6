"""The answers of capacity-dra: which job is admitted, which pod its queue takes on, and which queue is next."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from plugins.capacity_dra.demands import DeviceDemands
from plugins.capacity_dra.ledger import ClaimLedger
from plugins.capacity_dra.limits import ClaimLimits
from plugins.capacity_dra.quota import as_named, total
from plugins.capacity_dra.refusals import At, insufficient, not_a_leaf
from plugins.capacity_dra.reserved import Reservations
from plugins.capacity_dra.stakes import DeviceStakes
from volsched.model.dra.announced import PATH
from volsched.plugin import (
    ABSTAIN,
    ROOT,
    Allocatable,
    Ballot,
    Cluster,
    Deserved,
    DeviceLimits,
    EventHandler,
    JobEnqueueable,
    JobInfo,
    PodTemplate,
    QueueInfo,
    QueueOrder,
    Rule,
    Session,
    Step,
    TaskInfo,
    TaskStatus,
    Verdict,
    Vote,
    about_group,
)
from volsched.plugin.devices import Amounts, announced_by, from_devices
from volsched.plugin.quota import Elastic

BAD_REQUEST: Final = "InvalidDRARequest"
PLACED_NOW: Final = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


class DeviceQuotaRules:
    """What is checked against the limits of queues. Events go to the session that is open."""

    def __init__(
        self,
        cluster: Cluster,
        ledger: ClaimLedger,
        demands: DeviceDemands,
        reservations: Reservations,
        limits: ClaimLimits,
        stakes: DeviceStakes,
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._demands = demands
        self._reservations = reservations
        self._limits = limits
        self._stakes = stakes
        self._elastic = Elastic(stakes, alone=False)
        self._misread: dict[str, str] = {}
        self._session: Session | None = None

    def open(self, session: Session) -> None:
        """Begin a session."""
        self._session = session

    def rules(self) -> Iterator[Rule]:
        """Return what the plugin registers."""
        yield QueueOrder(self.order)
        yield JobEnqueueable(self.vote, always=True)
        yield Allocatable(self.refusal, applies_to=self.concerns)
        yield Deserved(self._elastic, inside=False)
        yield EventHandler(self, for_each_pod=self.concerns)
        yield DeviceLimits(self.left)

    def order(self, queue: QueueInfo) -> tuple[int, tuple[tuple[Fraction, bool], ...]]:
        """Where any queue states what it deserves: higher priority first, then the smaller part of it that it holds.

        In a hierarchy those queues are compared that stand right below the one where the ways up meet.
        """
        if not self._limits.due_amounts:
            return 0, ()
        path = (name for name in self._limits.levels(queue.name)[::-1] if name != ROOT)
        return -queue.spec.priority, tuple(map(self._place, path))

    def _place(self, queue: str) -> tuple[Fraction, bool]:
        """Return the share of a queue, and whether it deserves nothing: those that do go first among equal shares."""
        due = {key: amount for key, amount in self._limits.of(queue).due.items() if amount}
        if not due:
            return Fraction(1), True
        self._ledger.catch_up()
        return max(self._stakes.held(queue, key) / amount for key, amount in due.items()), False

    def refusal(self, queue: QueueInfo, task: TaskInfo) -> Verdict | None:
        """Refuse a pod whose claims would take its queue above its quota, as far as is known before devices are."""
        if not self._ledger.concerns(task):
            return None
        if self._limits.has_children(queue.name):
            return self._reported(task, not_a_leaf(queue.name, Step.ALLOCATABLE))
        self._ledger.catch_up()
        wanted = self._demands.of_task(task)
        for level in self._limits.levels(queue.name):
            users = self._ledger.account(level).users
            asked = total(amounts for key, amounts in wanted.items() if key not in users)
            refusal = self._check(level, asked, self._ledger.account(level).used, Step.ALLOCATABLE)
            if refusal is not None:
                return self._reported(task, refusal)
        return None

    def concerns(self, template: PodTemplate) -> bool:
        """Return whether pods want devices: others count for nothing, and these are weighed one by one."""
        return bool(template.has_resource_claims or from_devices(template, self._cluster.devices))

    def left(self, task: TaskInfo) -> dict[tuple[str, str], Fraction]:
        """Return how much more of each class and dimension a pod may be given, in the tightest of its queues."""
        self._ledger.catch_up()
        left: dict[tuple[str, str], Fraction] = {}
        for level in self._limits.levels(task.queue):
            limited = self._limits.limited(level)
            held = as_named(self._ledger.account(level).used, limited)
            for key in limited:
                limit = self._limits.limit(key, level)
                if limit is not None:
                    rest = max(Fraction(0), limit - held.get(key, Fraction(0)))
                    pair = (key.device_class, key.dimension)
                    left[pair] = min(rest, left.get(pair, rest))
        return left

    def allocate(self, task: TaskInfo) -> Verdict | None:
        """Refuse a pod that was just placed and was given devices which take its queue above its quota."""
        if not self._ledger.concerns(task) or task.status not in PLACED_NOW or task.job is None:
            return None
        self._ledger.catch_up()
        keys = self._ledger.claims_of(task)
        for level in self._limits.levels(task.job.queue):
            account = self._ledger.account(level)
            asked = total(self._ledger.charge(key) for key in keys if account.users[key] == 1)
            used = {key: account.used.get(key, Fraction(0)) - amount for key, amount in asked.items()}
            refusal = self._check(level, asked, used, Step.ALLOCATABLE)
            if refusal is not None:
                return self._reported(task, refusal)
        return None

    def deallocate(self, task: TaskInfo) -> None:
        """Nothing: the ledger follows moves."""

    def vote(self, job: JobInfo) -> Ballot:
        """Reject a job whose smallest number of pods would not fit beside what is held and promised."""
        self._report_announcement(job)
        if not self._ledger.awaits_devices(job):
            return ABSTAIN
        if self._limits.has_children(job.queue):
            return Ballot(Vote.REJECT, not_a_leaf(job.queue, Step.ENQUEUE))
        self._ledger.catch_up()
        for level in self._limits.levels(job.queue):
            account = self._ledger.account(level)
            asked = self._demands.minimum(job, account.users)
            used = total((account.used, self._reserved(level)))
            refusal = self._check(level, asked, used, Step.ENQUEUE)
            if refusal is not None:
                return Ballot(Vote.REJECT, refusal)
        return ABSTAIN

    def _report_announcement(self, job: JobInfo) -> None:
        """Report once what is wrong with what a PodGroup tells of its pods' claims."""
        fault = announced_by(job.spec.annotations).fault
        if not fault:
            self._misread.pop(job.key, None)
        elif self._misread.get(job.key) != fault and self._session is not None:
            self._misread[job.key] = fault
            message = f"{PATH} {fault}; pods are counted once they exist"
            self._session.tell(about_group(job, "Warning", BAD_REQUEST, message))

    def _reserved(self, level: str) -> Amounts:
        return self._reservations.held_back(level, below=self._limits.checks_ancestors)

    def _check(self, level: str, asked: Amounts, used: Amounts, step: At) -> Verdict | None:
        """Compare what is asked for with what is left of a queue's quota."""
        limited = self._limits.limited(level)
        if not limited:
            return None
        wanted, held = as_named(asked, limited), as_named(used, limited)
        short = []
        for key, amount in sorted(wanted.items()):
            limit = self._limits.limit(key, level)
            have = held.get(key, Fraction(0))
            if amount > 0 and limit is not None and have + amount > limit:
                short.append((key, amount, have, limit))
        return insufficient(level, short, step) if short else None

    def _reported(self, task: TaskInfo, refusal: Verdict) -> Verdict:
        """Tell the PodGroup, too, why one of its pods gets no devices; once for each reason.

        A search for victims adds its words to a refusal, which make no other reason of it.
        """
        job, known = task.job, task.refusal.message if task.refusal is not None else ""
        is_told = f"{known}; ".startswith(f"{refusal.message}; ")
        if self._session is not None and job is not None and job.spec.has_group and not is_told:
            self._session.tell(about_group(job, "Warning", refusal.reason, refusal.short_message()))
        return refusal
