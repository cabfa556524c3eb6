"""capacity-dra: no queue holds more devices of a DeviceClass, or of their capacity, than its quota.

Decoupled from the allocation of devices: it only counts. It stands alone, beside ``proportion`` or beside
``capacity-card``, with accounts of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal

from plugins.capacity_dra.demands import Demands
from plugins.capacity_dra.guarantees import Guarantees
from plugins.capacity_dra.ledger import Ledger
from plugins.capacity_dra.quota import DROPPED, Quota, as_named, read_quota, total
from plugins.capacity_dra.reserved import Reservations
from plugins.capacity_dra.stakes import DeviceStakes
from volsched.framework.accounts.elastic import Elastic, reclaimable_of
from volsched.framework.accounts.queue_tree import QueueTree
from volsched.framework.accounts.quota_report import QuotaRow, QuotaTable, Value
from volsched.framework.callbacks import ABSTAIN, Ballot, QueueAmounts, Vote
from volsched.framework.config.arguments import Argument
from volsched.framework.dra.amounts import COUNT, Amount, Amounts, in_words, milli
from volsched.framework.dra.charges import named_as
from volsched.framework.dra.extended import from_devices
from volsched.framework.registration import Registrar
from volsched.framework.reporter import about_group, about_queue
from volsched.framework.rules import (
    Allocatable,
    Deserved,
    DeviceLimits,
    EventHandler,
    JobEnqueueable,
    Metric,
    QueueOrder,
    Rule,
    ShownAmounts,
    ShownTable,
)
from volsched.framework.session import Session
from volsched.model.cluster import Cluster
from volsched.model.dra.announced import PATH, announced_by
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import ROOT, QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.values.quantity import as_float
from volsched.model.values.series import Numbers, Series
from volsched.model.verdict import ConditionReason, Scope, Shortfall, Step, Verdict

NAME: Final = "capacity-dra"
INSUFFICIENT: Final = "InsufficientDRAQuota"
BAD_QUOTA: Final = "InvalidDRAQuota"
BAD_REQUEST: Final = "InvalidDRARequest"
NOT_A_LEAF: Final = "NotALeafQueue"
DRA: Final = "spec.dra"

ENABLED: Final = "dynamicResourceAllocationEnable"
DIMENSIONS: Final = "draConsumableCapacityEnable"
STRICT: Final = "draStrictCapacity"
UNLISTED: Final = "capacity-dra.unlistedClasses"
VOLCANO_ENABLED: Final = "capacity.DynamicResourceAllocationEnable"
VOLCANO_DIMENSIONS: Final = "capacity.DRAConsumableCapacityEnable"
ADMIN: Final = "chargeAdminAccess"

_LABELS: Final = ("queue_name", "device_class", "dimension")
CAPACITY: Final = Series("volcano_queue_dra_capacity", "The queue's quota of devices, or of their capacity", _LABELS)
DESERVED: Final = Series("volcano_queue_dra_deserved", "What it deserves of it, and may reclaim", _LABELS)
GUARANTEE: Final = Series("volcano_queue_dra_guarantee", "What it is guaranteed of it", _LABELS)
RECLAIMABLE: Final = Series("volsched_queue_dra_reclaimable", "What others could reclaim of what it holds", _LABELS)
ALLOCATED: Final = Series("volcano_queue_dra_allocated", "What pods of the queue, and below it, hold of it", _LABELS)
INQUEUE: Final = Series("volcano_queue_dra_inqueue", "What is reserved for jobs that were admitted", _LABELS)

DEVICE_KINDS: Final = ("DeviceClass", "ResourceSlice", "ResourceClaimTemplate", "ResourceClaim")
"""What the accounts are made from beside nodes, queues, PodGroups and pods."""

At = Literal[Step.ENQUEUE, Step.ALLOCATABLE]
PLACED_NOW: Final = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


@dataclass(frozen=True, slots=True)
class CapacityDRAArguments:
    """What the plugin was told; see ``CapacityDRAPlugin.ARGUMENTS``."""

    enabled: bool = True
    dimensions: bool = True
    strict: bool = False
    denies_unlisted: bool = False
    with_admin: bool = False


class CapacityDRAPlugin:
    """Registers the rules; what they read follows the cluster from one session to the next."""

    name: ClassVar[str] = NAME
    COUNTED_FROM: ClassVar[tuple[str, ...]] = DEVICE_KINDS
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        Argument(ENABLED, "bool", True, "Whether quotas of devices are minded at all."),
        Argument(DIMENSIONS, "bool", True, "Whether sums of consumable capacity are minded beside numbers of devices."),
        Argument(STRICT, "bool", False, "Refuse a request for a dimension that the quota of its class does not name."),
        Argument(UNLISTED, "str", "allow", "Classes that a quota does not name.", choices=("allow", "deny")),
        Argument(ADMIN, "bool", False, "Devices with adminAccess count too."),
        Argument(VOLCANO_ENABLED, "bool", True, f"Volcano's name for {ENABLED}; either switches off."),
        Argument(VOLCANO_DIMENSIONS, "bool", True, f"Volcano's name for {DIMENSIONS}; either switches off."),
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = CapacityDRAArguments(
            arguments[ENABLED] and arguments[VOLCANO_ENABLED],
            arguments[DIMENSIONS] and arguments[VOLCANO_DIMENSIONS],
            arguments[STRICT],
            arguments[UNLISTED] == "deny",
            arguments[ADMIN],
        )

    def on_session_open(self, registrar: Registrar) -> None:
        """Register everything, and tell what queues say wrongly."""
        if self._arguments.enabled:
            quotas = self._account(registrar)
            quotas.open(registrar.session, above=registrar.checks_ancestors)
            registrar.register(*quotas.rules(), *quotas.metrics())

    def _account(self, registrar: Registrar) -> Quotas:
        quotas = registrar.account(f"{NAME}.quotas", lambda cluster: Quotas(cluster, self._arguments))
        registrar.account(f"{NAME}.ledger", lambda _: quotas.ledger).catch_up()
        registrar.account(f"{NAME}.reserved", lambda _: quotas.reservations)
        return quotas


class Quotas:
    """The quotas of all queues, and what is checked against them."""

    def __init__(self, cluster: Cluster, arguments: CapacityDRAArguments) -> None:
        self._cluster = cluster
        self._arguments = arguments
        self.ledger = Ledger(cluster, with_admin=arguments.with_admin)
        self._demands = Demands(cluster, self.ledger, with_admin=arguments.with_admin)
        self.reservations = Reservations(cluster, self.ledger, self._demands)
        self.stakes = DeviceStakes(self.ledger, self._demands, self._quota, self._levels, self._counted)
        self.elastic = Elastic(self.stakes, alone=False)
        self._tree = QueueTree(cluster)
        self._guarantees = self._make_guarantees()
        self._quotas: dict[str, tuple[object, Quota]] = {}
        self._told: dict[str, tuple[str, ...]] = {}
        self._misread: dict[str, str] = {}
        self._checks_ancestors = False
        self._due_amounts: dict[Amount, None] = {}
        self._session: Session | None = None
        self._made: dict[str, tuple[object, Numbers]] = {}

    def rules(self) -> Iterator[Rule]:
        """Return what the plugin registers."""
        yield QueueOrder(self.order)
        yield JobEnqueueable(self.vote, always=True)
        yield Allocatable(self.refusal, applies_to=self.concerns)
        yield Deserved(self.elastic, inside=False)
        yield EventHandler(self, applies_to=self.concerns)
        yield ShownAmounts(self.amounts)
        yield ShownTable(self.table)
        yield DeviceLimits(self.left)

    def metrics(self) -> Iterator[Rule]:
        """Return the series that the plugin shows."""
        yield Metric(CAPACITY, lambda: self.numbers("capacity", lambda quota: quota.limits))
        yield Metric(DESERVED, lambda: self.numbers("deserved", lambda quota: quota.deserved))
        yield Metric(GUARANTEE, lambda: self.numbers("guarantee", lambda quota: quota.guarantee))
        yield Metric(RECLAIMABLE, self.reclaimable)
        yield Metric(ALLOCATED, self.allocations)
        yield Metric(INQUEUE, self.inqueue)

    def open(self, session: Session, *, above: bool) -> None:
        """Begin a session: whether queues above count, and what queues say wrongly."""
        self._session = session
        self._checks_ancestors = above
        self._guarantees = self._make_guarantees()
        self._due_amounts = {key: None for name in self._cluster.queues for key in self._quota(name).due}
        about_all = self._about_all_queues()
        for name in [name for name in self._quotas if name not in self._cluster.queues]:
            del self._quotas[name]
            self._told.pop(name, None)
        for queue in self._cluster.queues.values():
            faults = (*self._quota(queue.name).faults, *about_all.get(queue.name, ()))
            if faults != self._told.get(queue.name, ()):
                self._told[queue.name] = faults
                for fault in faults:
                    session.tell(about_queue(queue, "Warning", BAD_QUOTA, fault))

    def _make_guarantees(self) -> Guarantees:
        return Guarantees(self._tree, self._quota, self._levels, self._limit)

    def _about_all_queues(self) -> dict[str, tuple[str, ...]]:
        """Say of one queue what is wrong with all: a field that the cluster drops leaves no trace where it was."""
        if DRA not in self._dropped:
            return {}
        queues = self._cluster.queues.values()
        speaker = min((q.name for q in queues if q.uid), key=lambda name: (name != ROOT, name), default=ROOT)
        return {speaker: (f"{DRA} of every Queue is lost: {DROPPED}",)}

    @property
    def _dropped(self) -> frozenset[str]:
        return self._cluster.dropped_fields.get("Queue", frozenset())

    def _quota(self, name: str) -> Quota:
        queue = self._cluster.queues.get(name)
        if queue is None:
            return Quota()
        is_kept = "Queue" in self._cluster.dropped_fields and DRA not in self._dropped
        known = self._quotas.get(name)
        if known is None or known[0] != (queue, is_kept):
            known = self._quotas[name] = (queue, is_kept), read_quota(queue, is_kept=is_kept)
        return known[1]

    # -- answers ------------------------------------------------------------------------------------------------------

    def order(self, queue: QueueInfo) -> tuple[int, tuple[tuple[Fraction, bool], ...]]:
        """Where any queue says what it deserves: higher priority first, then the smaller part of it that it holds.

        In a hierarchy those queues are compared that stand right below the one where the ways up meet.
        """
        if not self._due_amounts:
            return 0, ()
        path = (name for name in self._levels(queue.name)[::-1] if name != ROOT)
        return -queue.priority, tuple(map(self._place, path))

    def _place(self, queue: str) -> tuple[Fraction, bool]:
        """Return the share of a queue, and whether it deserves nothing: those that do go first among equal shares."""
        due = {key: amount for key, amount in self._quota(queue).due.items() if amount}
        if not due:
            return Fraction(1), True
        self.ledger.catch_up()
        return max(self.stakes.held(queue, key) / amount for key, amount in due.items()), False

    def refusal(self, queue: QueueInfo, task: TaskInfo) -> Verdict | None:
        """Refuse a pod whose claims would take its queue above its quota, as far as is known before devices are."""
        if not self.ledger.concerns(task):
            return None
        if self._has_children(queue.name):
            return self._told_group(task, _not_a_leaf(queue.name, Step.ALLOCATABLE))
        self.ledger.catch_up()
        wanted = self._demands.of_task(task)
        for level in self._levels(queue.name):
            users = self.ledger.account(level).users
            asked = total(amounts for key, amounts in wanted.items() if key not in users)
            refusal = self._check(level, asked, self.ledger.account(level).used, Step.ALLOCATABLE)
            if refusal is not None:
                return self._told_group(task, refusal)
        return None

    def concerns(self, template: PodTemplate) -> bool:
        """Say whether pods want devices: others count for nothing, and these are weighed one by one."""
        return bool(template.has_resource_claims or from_devices(template, self._cluster.devices))

    def left(self, task: TaskInfo) -> dict[tuple[str, str], Fraction]:
        """Say how much more of each class and dimension a pod may be given, in the tightest of its queues."""
        self.ledger.catch_up()
        left: dict[tuple[str, str], Fraction] = {}
        for level in self._levels(task.queue):
            limited = self._limited(level)
            held = as_named(self.ledger.account(level).used, limited)
            for key in limited:
                limit = self._limit(key, level)
                if limit is not None:
                    rest = max(Fraction(0), limit - held.get(key, Fraction(0)))
                    pair = (key.device_class, key.dimension)
                    left[pair] = min(rest, left.get(pair, rest))
        return left

    def allocate(self, task: TaskInfo) -> Verdict | None:
        """Refuse a pod that was just placed and was given devices which take its queue above its quota."""
        if not self.ledger.concerns(task) or task.status not in PLACED_NOW or task.job is None:
            return None
        self.ledger.catch_up()
        keys = self.ledger.claims_of(task)
        for level in self._levels(task.job.queue):
            account = self.ledger.account(level)
            asked = total(self.ledger.charge(key) for key in keys if account.users[key] == 1)
            used = {key: account.used.get(key, Fraction(0)) - amount for key, amount in asked.items()}
            refusal = self._check(level, asked, used, Step.ALLOCATABLE)
            if refusal is not None:
                return self._told_group(task, refusal)
        return None

    def deallocate(self, task: TaskInfo) -> None:
        """Nothing: the ledger follows moves."""

    def vote(self, job: JobInfo) -> Ballot:
        """Reject a job whose smallest number of pods would not fit beside what is held and promised."""
        self._tell_of_announcement(job)
        if not self.ledger.awaits_devices(job):
            return ABSTAIN
        if self._has_children(job.queue):
            return Ballot(Vote.REJECT, _not_a_leaf(job.queue, Step.ENQUEUE))
        self.ledger.catch_up()
        for level in self._levels(job.queue):
            account = self.ledger.account(level)
            asked = self._demands.minimum(job, account.users)
            used = total((account.used, self._reserved(level)))
            refusal = self._check(level, asked, used, Step.ENQUEUE)
            if refusal is not None:
                return Ballot(Vote.REJECT, refusal)
        return ABSTAIN

    def _tell_of_announcement(self, job: JobInfo) -> None:
        """Say once what is wrong with what a PodGroup tells of its pods' claims."""
        fault = announced_by(job.annotations).fault
        if not fault:
            self._misread.pop(job.key, None)
        elif self._misread.get(job.key) != fault and self._session is not None:
            self._misread[job.key] = fault
            message = f"{PATH} {fault}; pods are counted once they exist"
            self._session.tell(about_group(job, "Warning", BAD_REQUEST, message))

    def _has_children(self, queue: str) -> bool:
        return self._checks_ancestors and self._tree.is_parent(queue)

    def _levels(self, queue: str) -> tuple[str, ...]:
        return self.ledger.levels(queue) if self._checks_ancestors else (queue,)

    def _reserved(self, level: str) -> Amounts:
        """Return what admitted jobs of a queue, and below it, may still take to start."""
        reserved = self.reservations.of(level)
        return reserved.below if self._checks_ancestors else reserved.own

    def _check(self, level: str, asked: Amounts, used: Amounts, step: At) -> Verdict | None:
        """Compare what is asked for with what is left of a queue's quota."""
        limited = self._limited(level)
        if not limited:
            return None
        wanted, held = as_named(asked, limited), as_named(used, limited)
        short = []
        for key, amount in sorted(wanted.items()):
            limit = self._limit(key, level)
            have = held.get(key, Fraction(0))
            if amount > 0 and limit is not None and have + amount > limit:
                short.append((key, amount, have, limit))
        return _insufficient(level, short, step) if short else None

    def _limited(self, level: str) -> Amounts:
        """Return what a queue's quota names, and what others beside it are guaranteed."""
        limits, left = self._quota(level).limits, self._left(level)
        return {**left, **limits} if left else limits

    def _left(self, level: str) -> Amounts:
        return self._guarantees.left(level) if self._checks_ancestors else {}

    def _limit(self, key: Amount, level: str) -> Fraction | None:
        """Return the most that a queue may hold of an amount, less the guarantees of others; None without limit."""
        own, left = self._own_limit(key, self._quota(level)), self._left(level).get(key)
        return left if own is None else own if left is None else min(own, left)

    def _own_limit(self, key: Amount, quota: Quota) -> Fraction | None:
        listed = key.device_class in quota.classes
        if key.dimension != COUNT and not self._arguments.dimensions:
            return None
        if key in quota.limits:
            return quota.limits[key]
        if not listed:
            return Fraction(0) if self._arguments.denies_unlisted else None
        return Fraction(0) if self._arguments.strict and key.dimension != COUNT else None

    def _told_group(self, task: TaskInfo, refusal: Verdict) -> Verdict:
        """Tell the PodGroup, too, why one of its pods gets no devices; once for each reason."""
        job = task.job
        if self._session is not None and job is not None and job.has_group and task.refusal != refusal:
            self._session.tell(about_group(job, "Warning", refusal.reason, refusal.short_message()))
        return refusal

    # -- what is shown ------------------------------------------------------------------------------------------------

    def amounts(self, queue: QueueInfo) -> QueueAmounts:
        """Say what a queue's own pods hold and have reserved, and what the queue may hold."""
        self.ledger.catch_up()
        held = dict(self.ledger.account(queue.name).used)
        for child in self._tree.below(queue.name):
            for key, amount in self.ledger.account(child).used.items():
                held[key] = held.get(key, Fraction(0)) - amount
        reserved = self.reservations.of(queue.name).shown
        limits = self._quota(queue.name).limits
        return QueueAmounts(self._shown(held), self._shown(reserved), self._shown(limits), beside=True)

    def table(self) -> QuotaTable:
        """Say what queues may hold, hold, have reserved and have left of each class and dimension."""
        self.ledger.catch_up()
        rows = [row for name in sorted(self._cluster.queues) for row in self._rows(name)]
        figures = ("quota", "deserved", "guarantee", "used", "reserved", "reclaimable", "headroom")
        return QuotaTable("devices", "Devices", ("queue", "deviceClass", "dimension"), figures, rows)

    def _rows(self, queue: str) -> Iterator[QuotaRow]:
        quota, reclaimable = self._quota(queue), self._beyond_due(queue)
        held = as_named(self.ledger.account(queue).used, quota.limits)
        reserved = as_named(self._reserved(queue), quota.limits)
        for key in sorted(self._counted({**quota.limits, **quota.due, **held, **reserved})):
            left = [rest for level in self._levels(queue) if (rest := self._rest(level, key)) is not None]
            figures = {
                "quota": self._own_limit(key, quota),
                "deserved": quota.due.get(key),
                "guarantee": quota.guarantee.get(key),
                "used": held.get(key, Fraction(0)),
                "reserved": reserved.get(key, Fraction(0)),
                "reclaimable": reclaimable.get(key, Fraction(0) if key in quota.due else None),
                "headroom": min(left, default=None),
            }
            shown = {name: None if amount is None else _value(key, amount) for name, amount in figures.items()}
            yield QuotaRow((queue, key.device_class, key.dimension or "count"), shown)

    def _rest(self, level: str, key: Amount) -> Fraction | None:
        """Say how much more of an amount a queue may have; None without limit."""
        limited = self._limited(level)
        named = named_as(key, limited)
        limit = self._limit(named, level)
        if limit is None:
            return None
        taken = as_named(total((self.ledger.account(level).used, self._reserved(level))), limited)
        return max(Fraction(0), limit - taken.get(named, Fraction(0)))

    def _shown(self, amounts: Amounts) -> dict[str, int]:
        return {key.key: milli(amount) for key, amount in self._counted(amounts).items()}

    def _counted(self, amounts: Amounts) -> Amounts:
        """Leave out dimensions when only numbers of devices are counted."""
        if self._arguments.dimensions:
            return amounts
        return {key: amount for key, amount in amounts.items() if key.dimension == COUNT}

    def numbers(self, name: str, part: Callable[[Quota], Amounts]) -> Numbers:
        """Return a part of what all queues say."""
        state = tuple((name, queue.version) for name, queue in self._cluster.queues.items())
        return self._numbers(name, state, lambda queue: part(self._quota(queue)))

    def allocations(self) -> Numbers:
        """Return what all queues hold, and zero for what they may hold."""
        self.ledger.catch_up()
        state = (self.ledger.version, tuple(self._cluster.queues))
        return self._numbers("allocated", state, self._held)

    def _held(self, queue: str) -> Amounts:
        return {**dict.fromkeys(self._quota(queue).limits, Fraction(0)), **self.ledger.account(queue).used}

    def reclaimable(self) -> Numbers:
        """Return what others could reclaim in all queues, where any says what it deserves."""
        self.ledger.catch_up()
        state = (self.ledger.version, tuple((name, queue.version) for name, queue in self._cluster.queues.items()))
        return self._numbers("reclaimable", state, self._beyond_due)

    def _beyond_due(self, queue: str) -> Amounts:
        return reclaimable_of(self._cluster, self.stakes, queue, self._due_amounts)

    def inqueue(self) -> Numbers:
        """Return what is reserved in all queues."""
        self.reservations.catch_up()
        state = (self.reservations.version, tuple(self._cluster.queues))
        return self._numbers("inqueue", state, self._reserved)

    def _numbers(self, name: str, state: object, of_queue: Callable[[str], Amounts]) -> Numbers:
        """Make the numbers of a series again when what they were made from has changed."""
        known = self._made.get(name)
        if known is not None and known[0] == state:
            return known[1]
        numbers: Numbers = {
            (queue, key.device_class, key.dimension or "count"): as_float(amount)
            for queue in self._cluster.queues
            for key, amount in self._counted(of_queue(queue)).items()
        }
        self._made[name] = state, numbers
        return numbers


def _value(key: Amount, amount: Fraction) -> Value:
    """Return so many devices as a number, so much capacity as a quantity."""
    return int(amount) if key.dimension == COUNT and amount.denominator == 1 else key.quantity(amount)


def _not_a_leaf(queue: str, step: At) -> Verdict:
    message = f'queue "{queue}" has queues below it, and takes no pods with ResourceClaims itself; use one of those'
    return Verdict(step, NAME, Scope.QUEUE, NOT_A_LEAF, message, shown_as=ConditionReason.QUEUE_INVALID)


def _insufficient(queue: str, short: list[tuple[Amount, Fraction, Fraction, Fraction]], step: At) -> Verdict:
    """Say what is short, with Volcano's token in front where a PodGroup waits for admission."""
    details = "; ".join(
        f"{key.text()}: requested {in_words(amount)}, used {in_words(have)}, total would be {in_words(have + amount)}, "
        f"but capability is {in_words(limit)}"
        for key, amount, have, limit in short
    )
    message = f'queue "{queue}" has insufficient DRA quota: {details}'
    if step is Step.ENQUEUE:
        message = f"queue resource quota insufficient: insufficient dra-resource-exceeded ({message})"
    shortfalls = tuple(Shortfall(key.key, milli(a), milli(h), milli(limit)) for key, a, h, limit in short)
    return Verdict(step, NAME, Scope.QUEUE, INSUFFICIENT, message, shortfalls)
