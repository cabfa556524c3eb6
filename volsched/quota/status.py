"""`status.allocated` of Queues: the amounts of the placed pods of a queue, and of the queues below it.

After Volcano's scheduler, which writes the same at the end of its sessions: the requests of pods that stand allocated
(`model.status.IS_ALLOCATED`), of all schedulers, in resources and whole pods; and of the devices that their claims
have, `deviceclass/<class>` (how many) and `<dimension>.deviceclass/<class>` (sums of capacity). A claim that several
pods share counts once in a queue and once in each queue above it. `cpu` and `memory` are stated even when they are
zero. Plugins state beside that what pods hold in terms of their own, as cards by name (`QueueAllocation`).

Only queues that something changed in are looked at, and those above them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from volsched.framework.dra.accounts import DeviceAccounts
from volsched.framework.dra.amounts import Amount
from volsched.framework.reports import QueueAllocation
from volsched.model.cluster import Cluster
from volsched.model.plan import WriteQueueStatus
from volsched.model.queues.queue import QueueInfo, QueuePast, levels
from volsched.model.status import IS_ALLOCATED
from volsched.model.values.quantity import format_amount
from volsched.quota.past_use import PastUse

ALWAYS_STATED: Final = ("cpu", "memory")


class QueueStatuses:
    """Follows a cluster from one session to the next. Ask it between sessions, when nothing is only tried."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._devices = DeviceAccounts(cluster, counts=IS_ALLOCATED)
        cluster.observe(self._devices)
        self._beside: tuple[QueueAllocation, ...] = ()
        self._tree = -1
        self._own: dict[str, Mapping[str, int]] = {}
        self._totals: dict[str, dict[str, int]] = {}
        self._written: dict[str, WriteQueueStatus] = {}
        self._past: dict[str, QueuePast] = {}

    def writes(
        self, beside: Sequence[QueueAllocation] = (), past: Sequence[PastUse] = ()
    ) -> Iterator[WriteQueueStatus]:
        """Yield what queues have to state that they did not state when this was last asked, by name.

        A queue without an object states nothing. ``beside`` is what plugins count in their own terms,
        ``past`` what they count over time.
        """
        for name in sorted({**self._changed(tuple(beside)), **self._used(past)}):
            queue = self._cluster.queues.get(name)
            if queue is None:
                self._written.pop(name, None)
                self._past.pop(name, None)
            elif queue.spec.uid and (step := self._step(queue)) != self._written.get(name):
                self._written[name] = step
                yield step

    def _step(self, queue: QueueInfo) -> WriteQueueStatus:
        amounts = self._totals.get(queue.name, {})
        allocated = as_quantities(amounts, self._devices.account(queue.name).used)
        return WriteQueueStatus(queue.spec.uid, queue.name, allocated, self._past.get(queue.name))

    def _used(self, past: Sequence[PastUse]) -> dict[str, None]:
        """Take in the words about use over time that are due. Return the names of their queues."""
        due = dict.fromkeys(name for each in past for name in each.take_due())
        for name in due:
            words = [each.word(name) for each in past]
            used = {resource: amount for word in words for resource, amount in word.used.items()}
            self._past[name] = QueuePast(max(word.at for word in words), used)
        return due

    def _changed(self, beside: tuple[QueueAllocation, ...]) -> dict[str, None]:
        """Take in what became of queues and claims. Return the names of all queues that may have other figures now."""
        changed = self._devices.take_changed()
        charged, self._cluster.queue_cache.dirty_queues = self._cluster.queue_cache.dirty_queues, {}
        for holdings in beside:
            charged.update(dict.fromkeys(holdings.take_changed()))
        if self._tree != self._cluster.generations.queue_tree or self._beside != beside:
            self._beside = beside
            changed.update(dict.fromkeys((*self._written, *self._cluster.queues)))
            self._count_anew()
            return changed
        for name in charged:
            changed.update(dict.fromkeys(self._recount(name)))
        return changed

    def _count_anew(self) -> None:
        """Add everything up again, as the tree of queues has changed, or other plugins count."""
        self._tree = self._cluster.generations.queue_tree
        self._own.clear()
        self._totals.clear()
        for name in self._cluster.queues:
            self._recount(name)

    def _recount(self, name: str) -> tuple[str, ...]:
        """Let a queue, and those above it, hold what its tasks hold now. Return all of them."""
        queue = self._cluster.queues.get(name)
        if queue is None:
            return ()
        before, now = self._own.get(name, {}), {**queue.allocated, "pods": queue.placed}
        for holdings in self._beside:
            now |= holdings.of(name)
        self._own[name] = now
        above = levels(self._cluster.queues, name)
        for level in above:
            total = self._totals.setdefault(level, {})
            for resource in {**before, **now}:
                total[resource] = total.get(resource, 0) + now.get(resource, 0) - before.get(resource, 0)
        return above


def as_quantities(amounts: Mapping[str, int], devices: Mapping[Amount, Fraction]) -> dict[str, str]:
    """Return amounts (in the units of ``model.values.quantity``) and devices as one list of quantities, by name."""
    held = {**dict.fromkeys(ALWAYS_STATED, 0), **{name: amount for name, amount in amounts.items() if amount}}
    quantities = {name: format_amount(name, amount) for name, amount in sorted(held.items())}
    return quantities | {key.key: key.quantity(value) for key, value in sorted(devices.items())}
