"""What queues deserve and may have, side by side, and the answers that follow: who takes more, and who gives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Final, TypeAlias

from plugins.proportion.shares import QueueShare, share_out
from volsched.plugin import (
    MAX_AMOUNT,
    NO_LIMIT,
    PERMIT,
    PODS,
    Ballot,
    Cluster,
    Headroom,
    JobInfo,
    Numbers,
    PodTemplate,
    QueueInfo,
    QueueOrder,
    Resources,
    Scope,
    Shortfall,
    Step,
    TaskInfo,
    Verdict,
    Vote,
    in_base_units,
)
from volsched.plugin.objects import api
from volsched.plugin.quota import (
    QUOTA,
    Consumer,
    Dimension,
    PastUse,
    QueueDemand,
    QueueDemands,
    Suggestion,
    Usage,
    asked_of,
    capability_of,
    figures,
    guaranteed,
    held_of_quota,
    left,
    limits,
    named,
    not_admitted,
    raises,
    share,
    there,
    usage_by_resource,
    with_spec,
)

NAME: Final = "proportion"
NO_SHARE: Final = "InsufficientQueueShare"

QueueSharesFn: TypeAlias = Callable[[Cluster, Mapping[str, QueueDemand]], dict[str, QueueShare]]


class LastShares:
    """How the last session shared the cluster out: that holds while no figure that it was made from has changed."""

    def __init__(self, cluster: Cluster, share_out: QueueSharesFn | None = None) -> None:
        self._cluster = cluster
        self._share_out = share_out or _queue_shares
        self._made_from: Hashable = None
        self._queue_shares: dict[str, QueueShare] = {}
        self._fair_shares: Numbers = {}

    def queue_shares(self, demand: QueueDemands) -> dict[str, QueueShare]:
        """Share the cluster out again if something has changed."""
        demands, cluster = demand.queues(), self._cluster
        queues = tuple((name, queue.version) for name, queue in cluster.queues.items())
        made_from = (demand.version, tuple(cluster.node_ledger.totals), queues, cluster.columns.left_to_devices)
        if made_from != self._made_from:
            self._queue_shares, self._made_from = self._share_out(cluster, demands), made_from
            self._fair_shares = {
                (name, resource): in_base_units(resource, due)
                for name, queue_share in self._queue_shares.items()
                for resource, due in queue_share.deserved.items()
                if resource != PODS
            }
        return self._queue_shares

    def fair_shares(self) -> Numbers:
        """What each queue deserves of each resource, as the metrics show it."""
        return self._fair_shares


class FairShares:
    """What each queue deserves and may have; what it holds is read live."""

    def __init__(
        self, cluster: Cluster, demand: QueueDemands, last: LastShares | None = None, *, leaves_due: bool = False
    ) -> None:
        self._cluster = cluster
        self._leaves_due = leaves_due
        self._demand = demand
        self._promised: dict[str, dict[str, int]] = {}
        self._orders: dict[str, tuple[int, tuple[int, Fraction]]] = {}
        self._queue_shares = (last or LastShares(cluster)).queue_shares(demand)
        self._whole = {
            name: {resource: int(due) for resource, due in queue_share.deserved.items()}
            for name, queue_share in self._queue_shares.items()
        }

    # -- events of the session ----------------------------------------------------------------------------------------

    def allocate(self, task: TaskInfo) -> None:
        """Count room that a task was promised; room that it holds the cluster counts itself."""
        if task.job is not None:
            self._promise(task, 1)

    def deallocate(self, task: TaskInfo) -> None:
        """Take that back."""
        if task.job is not None:
            self._promise(task, -1)

    def _promise(self, task: TaskInfo, by: int) -> None:
        promised = self._promised.setdefault(task.queue, {})
        for name, amount in asked(task).items():
            promised[name] = promised.get(name, 0) + by * amount

    # -- answers -----------------------------------------------------------------------------------------------------

    def order(self, queue: QueueInfo) -> tuple[int, Fraction]:
        """Higher priority first, then the smaller part of its due."""
        known = self._orders.get(queue.name)
        if known is not None and known[0] == queue.version and queue.name not in self._promised:
            return known[1]
        order = -queue.priority, share(self.held(queue), self._deserved(queue))
        self._orders[queue.name] = queue.version, order
        return order

    def queue_order(self) -> QueueOrder:
        """Return the order of queues by what they hold of their due."""
        return QueueOrder(self.order)

    def past_use(self, half_life: float) -> PastUse:
        """Return an account of what queues hold over time; ``half_life`` is in seconds."""
        return PastUse(self._cluster, half_life, lambda queue: queue.allocated)

    def past_order(self, past: PastUse) -> QueueOrder:
        """Return the order of queues by what they held over time."""
        return QueueOrder(lambda queue: (-queue.priority, past.key(queue, self.held(queue), self.totals)))

    def overused(self, queue: QueueInfo, below: str = "") -> Verdict | None:
        """Report that a queue holds its due on all resources; it is above ``below``, where that is given."""
        held, deserved = self.held(queue), _without_slots(self._deserved(queue))
        if not all(due <= held.get(name, 0) for name, due in deserved.items()):
            return None
        amounts = _held_of_due(held, deserved) or self._why_nothing(queue)
        message = f"{named(below or queue.name, queue.name)} holds all that it deserves ({amounts})"
        return Verdict(Step.OVERUSED, NAME, Scope.QUEUE, "QueueOverused", message, queue=queue.name)

    def _why_nothing(self, queue: QueueInfo) -> str:
        """Return why a queue deserves nothing at all."""
        if queue.weight <= 0:
            return f"nothing, with a weight of {queue.weight}"
        return "nothing: there is none of what it asks for, or it may have none"

    def refusal(self, queue: QueueInfo, template: PodTemplate, below: str = "") -> Verdict | None:
        """Report that a task would take a queue above what it deserves: its own, or the one above ``below``."""
        short = self._beyond_due(queue, template.request)
        if not short:
            return None
        message = f"{named(below or queue.name, queue.name)} deserves no more: {figures(short)}"
        return Verdict(Step.ALLOCATABLE, NAME, Scope.QUEUE, NO_SHARE, message, short, queue=queue.name)

    def headroom(self, queue: QueueInfo, template: PodTemplate) -> Headroom:
        """Return how many such tasks a queue may take on until it holds what it deserves, and why not even one."""
        held, due = self._held_and_ungated(queue), self._whole.get(queue.name, {})
        count = NO_LIMIT
        for name, amount in template.request.items():
            count = min(count, (due.get(name, 0) - held.get(name, 0)) // amount)
        return Headroom(count) if count > 0 else Headroom(count, self.refusal(queue, template))

    def may_preempt(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """Whether the queue would stay within its due with these tasks; for those that ask for nothing, is below it."""
        request = Resources.sum_of(task.template.request for task in tasks)
        if not request:
            held = self.held(queue)
            return queue.is_open and any(due > held.get(name, 0) for name, due in self._deserved(queue).items())
        return queue.is_open and not self._beyond_due(queue, request)

    def is_within(self, queue: QueueInfo, task: TaskInfo) -> bool | None:
        """Whether a queue stays within its due with a task; None for one that asks for nothing."""
        request = task.template.request
        return not self._beyond_due(queue, request) if request else None

    def vote(self, job: JobInfo) -> Ballot:
        """Admit a job whose minimum fits into what its queue may have."""
        least = job.min_resources
        if least is None:
            return PERMIT
        return self._vote_of(self._cluster.queues[job.queue], least)

    def _vote_of(self, queue: QueueInfo, least: Mapping[str, int]) -> Ballot:
        short = []
        for name, amount in sorted(least.items()):
            taken, most = self._taken(queue, name), self._most(queue, name)
            if taken + amount > most:
                short.append(Shortfall(name, amount, taken, most))
        return Ballot(Vote.REJECT, not_admitted(NAME, queue.name, tuple(short))) if short else PERMIT

    def reclaimable(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Candidates of queues above their due, each counted as gone for the next."""
        return self._victims(task, candidates, leaves_due=self._leaves_due)

    def victims_by_due(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Those of them whose queue still holds what it deserves without them."""
        return self._victims(task, candidates, leaves_due=True)

    def _victims(self, task: TaskInfo, candidates: Sequence[TaskInfo], *, leaves_due: bool) -> list[TaskInfo]:
        held: dict[str, dict[str, int]] = {}
        chosen: list[TaskInfo] = []
        for victim in candidates:
            if victim.job is None or victim.job.queue not in self._cluster.queues:
                continue
            queue = self._cluster.queues[victim.job.queue]
            left = held.setdefault(queue.name, dict(self.held(queue)))
            request = task.template.request
            if request and all(left.get(name, 0) < amount for name, amount in request.items()):
                continue
            deserved = self._deserved(queue)
            if all(amount <= deserved.get(name, 0) for name, amount in left.items()):
                continue
            after = {name: left.get(name, 0) - amount for name, amount in asked(victim).items()}
            if leaves_due and any(after[name] < deserved.get(name, 0) for name in victim.template.request):
                continue
            left.update(after)
            chosen.append(victim)
        return chosen

    @property
    def totals(self) -> Mapping[str, int]:
        """What the cluster has."""
        return there(self._cluster)

    def held(self, queue: QueueInfo) -> Mapping[str, int]:
        """What a queue holds and was promised, pod slots too."""
        held = {**queue.allocated, PODS: queue.placed}
        promised = self._promised.get(queue.name)
        if not promised:
            return held
        return {n: held.get(n, 0) + promised.get(n, 0) for n in {**held, **promised}}

    # -- figures -----------------------------------------------------------------------------------------------------

    def usage(self) -> Usage:
        """Return what all queues may have and hold, for people."""
        return usage_by_resource(self._cluster, self.dimensions)

    def holders(self, job: JobInfo, refusal: Verdict) -> Iterable[Consumer]:
        """Return what jobs of the queue hold of what it has too little of."""
        return held_of_quota(self.usage(), (job.queue,), job, refusal)

    def remedies(self, job: JobInfo) -> Iterator[Suggestion]:
        """Yield a larger capability, and a larger weight: what the queue may hold follows from both."""
        for queue in self._levels(job.queue):
            yield from raises(queue, "capability", sorted(capability_of(queue).keys() & asked_of(job)))
            yield Suggestion(QUOTA, ((api.Queue, queue.name),), _with_weight, partial(_text_of_weight, queue.name))

    def _levels(self, queue: str) -> Sequence[QueueInfo]:
        """Return the queues that have a say in what a queue gets: the queue alone."""
        return [self._cluster.queues[queue]] if queue in self._cluster.queues else []

    def dimensions(self, queue: QueueInfo) -> dict[str, Dimension]:
        """Return what a queue may have, deserves, holds and has left, of what it or its jobs state anything about."""
        sums, held = self._demand.queues().get(queue.name, QueueDemand()), self.held(queue)
        due = self._whole.get(queue.name, {})
        found: dict[str, Dimension] = {}
        for name in sorted({*capability_of(queue), *due, *held, *sums.reserved} - {PODS}):
            most = self._most(queue, name)
            room = self._room(queue, name)
            used, reserved, guarantee = held.get(name, 0), sums.reserved.get(name, 0), queue.guarantee.get(name)
            limits = (most, room) if most < MAX_AMOUNT else (None, None)
            found[name] = Dimension(limits[0], used, reserved, limits[1], due.get(name, 0), guarantee)
        return found

    def _room(self, queue: QueueInfo, name: str) -> int:
        """Return how much more of a resource a queue would be admitted with."""
        return left(self._most(queue, name), self._taken(queue, name))

    def _taken(self, queue: QueueInfo, name: str) -> int:
        """Return what a queue holds or has reserved, beyond what its jobs could do without."""
        sums, held = self._demand.queues().get(queue.name, QueueDemand()), self.held(queue)
        return max(0, held.get(name, 0) + sums.reserved.get(name, 0) - sums.elastic.get(name, 0))

    def _most(self, queue: QueueInfo, name: str) -> int:
        """Return the most of a resource that a queue is admitted with; what devices serve has no other limit."""
        if self._cluster.is_left_to_devices(name):
            return queue.capability.get(name, MAX_AMOUNT)
        return self._limits(queue).get(name, 0)

    def _held_and_ungated(self, queue: QueueInfo) -> Mapping[str, int]:
        held, ungated = self.held(queue), self._cluster.queue_ledger.ungated.get(queue.name)
        if not ungated:
            return held
        return {name: held.get(name, 0) + ungated.get(name, 0) for name in {**held, **ungated}}

    def _deserved(self, queue: QueueInfo) -> Mapping[str, Fraction]:
        queue_share = self._queue_shares.get(queue.name)
        return queue_share.deserved if queue_share is not None else {}

    def _limits(self, queue: QueueInfo) -> Mapping[str, int]:
        queue_share = self._queue_shares.get(queue.name)
        if queue_share is not None:
            return queue_share.limit
        return limits(queue, there(self._cluster), guaranteed(self._cluster))

    def _beyond_due(self, queue: QueueInfo, request: Mapping[str, int]) -> tuple[Shortfall, ...]:
        """What it would lack; whole amounts that are above a fraction are above its whole part."""
        held, due = self._held_and_ungated(queue), self._whole.get(queue.name, {})
        short = [name for name, amount in request.items() if held.get(name, 0) + amount > due.get(name, 0)]
        return (
            tuple(Shortfall(name, request[name], held.get(name, 0), due.get(name, 0)) for name in short)
            if short
            else ()
        )


def asked(task: TaskInfo) -> Mapping[str, int]:
    """What a task takes of its queue's due, its pod slot too."""
    return {**task.template.request, PODS: 1}


def _queue_shares(cluster: Cluster, demands: Mapping[str, QueueDemand]) -> dict[str, QueueShare]:
    """Share the cluster out among the queues that have jobs."""
    total, kept = there(cluster), guaranteed(cluster)
    found: dict[str, QueueShare] = {}
    for name, demand in sorted(demands.items()):
        queue = cluster.queues.get(name)
        if queue is not None:
            request = {**Resources(demand.pending).plus(queue.allocated), PODS: demand.waiting + queue.placed}
            found[name] = QueueShare(queue, request, limits(queue, total, kept))
    share_out(found.values(), total)
    return found


def _with_weight(queue: api.Queue, more: int) -> api.Queue:
    return with_spec(queue, weight=queue.spec.weight + more)


def _text_of_weight(queue: str, more: int, _: Sequence[str]) -> str:
    return f"the weight of queue {queue} by {more} (spec.weight)"


def _without_slots(deserved: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Its due less pod slots: a queue that waits deserves more of these than it holds, which helps none of its pods."""
    return {name: due for name, due in deserved.items() if name != PODS}


def _held_of_due(held: Mapping[str, int], deserved: Mapping[str, Fraction]) -> str:
    due = Resources({name: int(amount) for name, amount in deserved.items()}).human()
    have = Resources(held).human()
    return "; ".join(f"{name}: {have.get(name, '0')} of {amount}" for name, amount in due.items())
