"""The answers of capacity-dra: which job is admitted, which pod its queue takes on, and which queue is next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import ClassVar, Final

from plugins.capacity_dra.arguments import CapacityDRAArguments
from plugins.capacity_dra.demands import DeviceDemands
from plugins.capacity_dra.limits import ClaimLimits
from plugins.capacity_dra.quota import as_named
from plugins.capacity_dra.reclaim import DeviceReclaimView
from plugins.capacity_dra.refusals import NAME, insufficient, not_a_leaf
from plugins.capacity_dra.reserved import Reservations
from plugins.capacity_dra.usage import ClaimUsage
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
    TaskInfo,
    TaskStatus,
    Verdict,
    about_group,
    about_queue,
)
from volsched.plugin.devices import Amount, Amounts, announced_by, from_devices
from volsched.plugin.quota import At, Elastic, Exceeded, QueueQuotas, share, total_of

BAD_QUOTA: Final = "InvalidDRAQuota"
BAD_REQUEST: Final = "InvalidDRARequest"
PLACED_NOW: Final = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


class DeviceQuotaRules(QueueQuotas[str, Amount, Fraction]):
    """What is checked against the limits of queues, and the accounts for it. Events go to the session that is open."""

    name: ClassVar[str] = NAME
    without_minimum = ABSTAIN
    admission = ABSTAIN

    def __init__(self, cluster: Cluster, arguments: CapacityDRAArguments) -> None:
        self._cluster = cluster
        self.usage = ClaimUsage(cluster, with_admin=arguments.with_admin)
        self.demands = DeviceDemands(cluster, self.usage, with_admin=arguments.with_admin)
        self.limits = ClaimLimits(cluster, arguments)
        self.reservations = Reservations(cluster, self.usage, self.demands)
        self.view = DeviceReclaimView(self.usage, self.demands, self.limits)
        self._elastic = Elastic(self.view, alone=False)
        self._misread: dict[str, str] = {}
        self._session: Session | None = None

    def open(self, session: Session, *, above: bool) -> None:
        """Begin a session: whether queues above count, and what is wrong with queues."""
        self._session = session
        for queue, fault in self.limits.open(above=above):
            session.record_event(about_queue(queue, "Warning", BAD_QUOTA, fault))

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
        if not self.limits.deserved_amounts:
            return 0, ()
        path = (name for name in self.limits.levels(queue.name)[::-1] if name != ROOT)
        return -queue.spec.priority, tuple(map(self._place, path))

    def _place(self, queue: str) -> tuple[Fraction, bool]:
        """Return the share of a queue, and whether it deserves nothing: those that do go first among equal shares."""
        deserved_share = self.limits.of(queue).deserved_share
        if not any(deserved_share.values()):
            return Fraction(1), True
        held = as_named(self.usage.account(queue).used, deserved_share)
        return share(held, {key: amount for key, amount in deserved_share.items() if amount}), False

    # -- amounts, under the names that the limits of a queue have for them --------------------------------------------

    def levels(self, queue: str) -> Sequence[str]:
        """Return a queue, and in a hierarchy those above it."""
        return self.limits.levels(queue)

    def limit(self, level: str, dimension: Amount) -> Fraction | None:
        """Return the most that a queue may hold; a queue that limits nothing refuses nothing."""
        return self.limits.limit(dimension, level) if self.limits.limited(level) else None

    def allocated(self, level: str) -> Amounts:
        """Return what a queue and those below it hold."""
        return self._named(self.usage.account(level).used, level)

    def committed(self, level: str, minimum: Amounts) -> Amounts:
        """Return what a queue holds, and what is reserved for admitted jobs."""
        return self._named(total_of((self.usage.account(level).used, self.reserved(level))), level)

    def reserved(self, level: str) -> Amounts:
        """Return what is reserved for admitted jobs of a queue and those below it that count."""
        return self.reservations.held_back(level, below=self.limits.checks_ancestors)

    def minimum(self, job: JobInfo, level: str) -> Amounts:
        """Return what a job starts with, claims left out that the queue uses already."""
        return self._named(self.demands.minimum(job, self.usage.account(level).users), level)

    def request(self, pod: TaskInfo, level: str) -> Amounts:
        """Return what the claims of a task count for, those left out that the queue uses already."""
        users = self.usage.account(level).users
        wanted = self.demands.of_task(pod)
        return self._named(total_of(amounts for key, amounts in wanted.items() if key not in users), level)

    def _named(self, amounts: Amounts, level: str) -> Amounts:
        return dict(sorted(as_named(amounts, self.limits.limited(level)).items()))

    def is_parent(self, queue: str) -> bool:
        """True if a queue has child queues, in a hierarchy."""
        return self.limits.has_children(queue)

    def closed(self, queue: str, step: At) -> Verdict | None:
        """Return why a queue takes no pods with claims at all."""
        return not_a_leaf(queue, step) if self.is_parent(queue) else None

    def refused(self, queue: str, level: str, short: Sequence[Exceeded], step: At) -> Verdict:
        """Return the refusal of devices that are too much for a queue."""
        return insufficient(level, short, step)

    # -- answers ------------------------------------------------------------------------------------------------------

    def refusal(self, queue: QueueInfo, pod: TaskInfo) -> Verdict | None:
        """Refuse a pod whose claims would take its queue above its quota, as far as is known before devices are."""
        if not self.usage.concerns(pod):
            return None
        return self._reported(pod, super().refusal(queue, pod))

    def concerns(self, template: PodTemplate) -> bool:
        """Return whether pods want devices: others count for nothing, and these are weighed one by one."""
        return bool(template.has_resource_claims or from_devices(template, self._cluster.devices))

    def left(self, task: TaskInfo) -> dict[tuple[str, str], Fraction]:
        """Return how much more of each class and dimension a pod may be given, in the tightest of its queues."""
        left: dict[tuple[str, str], Fraction] = {}
        for level in self.limits.levels(task.queue):
            limited = self.limits.limited(level)
            held = as_named(self.usage.account(level).used, limited)
            for key in limited:
                limit = self.limits.limit(key, level)
                if limit is not None:
                    rest = max(Fraction(0), limit - held.get(key, Fraction(0)))
                    pair = (key.device_class, key.dimension)
                    left[pair] = min(rest, left.get(pair, rest))
        return left

    def allocate(self, task: TaskInfo) -> Verdict | None:
        """Refuse a pod that was just placed and was given devices which take its queue above its quota."""
        if not self.usage.concerns(task) or task.status not in PLACED_NOW or task.job is None:
            return None
        keys = self.usage.claims_of(task)
        for level in self.levels(task.job.queue):
            users = self.usage.account(level).users
            charge = total_of(self.usage.charge(key) for key in keys if users[key] == 1)
            refusal = self.overcharged(task.queue, level, self._named(charge, level))
            if refusal is not None:
                return self._reported(task, refusal)
        return None

    def vote(self, job: JobInfo) -> Ballot:
        """Reject a job whose smallest number of pods would not fit beside what is held and promised."""
        self._report_announcement(job)
        if not self.usage.awaits_devices(job):
            return ABSTAIN
        return super().vote(job)

    def _report_announcement(self, job: JobInfo) -> None:
        """Report once what is wrong with what a PodGroup tells of its pods' claims."""
        fault = announced_by(job.spec.annotations).fault
        if not fault:
            self._misread.pop(job.key, None)
        elif self._misread.get(job.key) != fault and self._session is not None:
            self._misread[job.key] = fault
            message = f"{PATH} {fault}; pods are counted once they exist"
            self._session.record_event(about_group(job, "Warning", BAD_REQUEST, message))

    def _reported(self, task: TaskInfo, refusal: Verdict | None) -> Verdict | None:
        """Tell the PodGroup, too, why one of its pods gets no devices; once for each reason.

        A search for victims adds its words to a refusal, which make no other reason of it.
        """
        job, known = task.job, task.refusal.message if task.refusal is not None else ""
        if refusal is None or self._session is None or job is None or not job.spec.has_group:
            return refusal
        if not f"{known}; ".startswith(f"{refusal.message}; "):
            self._session.record_event(about_group(job, "Warning", refusal.reason, refusal.short_message()))
        return refusal
