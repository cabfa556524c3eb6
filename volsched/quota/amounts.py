"""What plugins with quotas of queues share: what a queue may have, which part of its due it holds, and the words of it.

Amounts are integers in each resource's unit. Quotas of devices (``deviceclass/...``), which stand in the same lists as
Volcano writes them, are another plugin's and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, TypeVar, overload

from volsched.framework.dispatch.combining import Number
from volsched.framework.dra.amounts import FLAT
from volsched.model.cluster import Cluster
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.values.resources import CPU, MAX_AMOUNT, MEMORY, PODS, minus, saturating_add
from volsched.model.verdict import ConditionReason, Scope, Shortfall, Step, Verdict

NOT_ADMITTED: Final = "Unschedulable"
"""The reason of an Event on a PodGroup whose queue has no quota left for it, as with Volcano."""

NOT_A_LEAF: Final = "NotALeafQueue"

D = TypeVar("D", bound=Hashable)
N = TypeVar("N", int, Fraction)
R = TypeVar("R")

Amounts: TypeAlias = Mapping[str, int]


def there(cluster: Cluster) -> dict[str, int]:
    """Return the total of each resource. One that devices serve has no limit, as its total is not known."""
    names, by_devices = cluster.columns.names, cluster.columns.left_to_devices
    offered = {names[c]: amount for c, amount in enumerate(cluster.node_cache.totals) if amount > 0}
    return {**offered, **{names[column]: MAX_AMOUNT for column in sorted(by_devices)}}


def request_with_slot(task: TaskInfo) -> dict[str, int]:
    """Return what a task requests, with its pod slot."""
    return {**task.template.request, PODS: 1}


def total_of(listed: Iterable[Mapping[D, N]]) -> dict[D, N]:
    """Add amounts up."""
    total: dict[D, N] = {}
    for amounts in listed:
        for name, amount in amounts.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def above(amounts: Mapping[D, N], limits: Mapping[D, N]) -> Iterator[tuple[D, N, N]]:
    """Yield the amounts that are more than what limits state of them, with the limit."""
    for name, amount in amounts.items():
        most = limits.get(name)
        if most is not None and amount > most:
            yield name, amount, most


def short_of_those_below(own: Mapping[D, N], below: Iterable[Mapping[D, N]]) -> Iterator[tuple[D, N, N]]:
    """Yield the amounts of a queue that are less than what queues right below state together, with their sum."""
    together = total_of(below)
    for name, amount in own.items():
        if name in together and together[name] > amount:
            yield name, amount, together[name]


def larger(left: Mapping[D, N], right: Mapping[D, N]) -> dict[D, N]:
    """Return the larger amount of each dimension."""
    return {**left, **{name: max(left.get(name, amount), amount, amount * 0) for name, amount in right.items()}}


def guaranteed(cluster: Cluster) -> dict[str, int]:
    """Return what all queues together are guaranteed."""
    return total_of(of_nodes(queue.spec.guarantee) for queue in cluster.queues.values())


def of_nodes(amounts: Amounts) -> Amounts:
    """Leave quotas of devices out of a queue's list of amounts."""
    if not any(FLAT in name for name in amounts):
        return amounts
    return {name: amount for name, amount in amounts.items() if not _is_of_devices(name)}


def _is_of_devices(name: str) -> bool:
    return name.startswith(FLAT) or f".{FLAT}" in name


def capability_of(queue: QueueInfo) -> dict[str, int]:
    """Return what a queue's spec lets it have at most, where it limits it; cpu and memory of 0 there mean unset."""
    listed = of_nodes(queue.spec.capability)
    return {name: amount for name, amount in listed.items() if amount or name not in (CPU, MEMORY)}


def room(total: Amounts, kept: Amounts, own: Amounts, capability: Amounts) -> dict[str, int]:
    """Return what one may have of a total of which some is ``kept``, ``own`` among it, and not above its capability."""
    found: dict[str, int] = {}
    for name in {**total, **own, **capability}:
        most = saturating_add(minus(total.get(name, 0), kept.get(name, 0)), own.get(name, 0))
        found[name] = min(most, capability.get(name, most))
    return found


def limits(queue: QueueInfo, total: Amounts, kept: Amounts) -> dict[str, int]:
    """Return what a queue may have: the cluster less what others are guaranteed, and not above its capability.

    A resource that the capability does not name is bounded by the cluster alone.
    """
    return room(total, kept, of_nodes(queue.spec.guarantee), capability_of(queue))


@overload
def share(held: Mapping[D, Number], deserved: Mapping[D, Number]) -> Fraction: ...


@overload
def share(held: Mapping[D, Number], deserved: Mapping[D, Number], divide: Callable[[Any, Any], R]) -> R: ...


def share(held: Mapping[D, Number], deserved: Mapping[D, Number], divide: Callable[[Any, Any], Any] = Fraction) -> Any:
    """Return the largest part that a queue holds of what it deserves. Holding without deserving counts as 1."""
    parts = [
        divide(held.get(name, 0), deserved_share) if deserved_share else divide(1 if held.get(name) else 0, 1)
        for name, deserved_share in deserved.items()
    ]
    return max(parts) if parts else divide(0, 1)


def figures(short: Sequence[Shortfall]) -> str:
    """Return what is short in words, as "cpu: requested 2, used 3, limit 4"."""
    parts = [shortfall.human() for shortfall in short]
    return "; ".join(
        f"{p['resource']}: requested {p['requested']}, used {p['used']}, limit {p['limit']}" for p in parts
    )


def not_admitted(plugin: str, queue: str, short: tuple[Shortfall, ...]) -> Verdict:
    """Refuse to admit a PodGroup whose minimum is more than its queue, or one above, may still have."""
    names = ", ".join(f"insufficient {shortfall.resource}" for shortfall in short)
    message = f'queue resource quota insufficient: {names} (queue "{queue}": {figures(short)})'
    return Verdict(Step.ENQUEUE, plugin, Scope.QUEUE, NOT_ADMITTED, message, short, queue=queue)


def not_a_leaf(plugin: str, queue: str, step: Literal[Step.ENQUEUE, Step.ALLOCATABLE]) -> Verdict:
    """Refuse work for a queue that has others below it: that belongs into one of those."""
    message = f'queue "{queue}" has queues below it, and takes no work itself; use one of those'
    return Verdict(step, plugin, Scope.QUEUE, NOT_A_LEAF, message, shown_as=ConditionReason.QUEUE_INVALID)


def named(queue: str, level: str) -> str:
    """Return the words for a queue, or for one above it."""
    return f'queue "{queue}"' if queue == level else f'queue "{level}", above "{queue}",'


# -- guarantees -------------------------------------------------------------------------------------------------------


class Guarantees:
    """The guarantees of all queues at one time, by what each states and which queues are right below it.

    A queue is guaranteed at least what all queues right below it are together. What it is guaranteed no other queue may
    take, even if it is unused: queues beside it share what is left of that which the queue above them may have.
    """

    def __init__(self, own: Callable[[str], Mapping[Any, Any]], below: Callable[[str], Iterable[str]]) -> None:
        self._own = own
        self._below = below
        self._known: dict[str, Mapping[Any, Any]] = {}

    def of(self, queue: str) -> Mapping[Any, Any]:
        """Return what a queue, or the queues below it together, are guaranteed."""
        if queue not in self._known:
            own = self._known[queue] = self._own(queue)  # a queue that is below itself ends here
            self._known[queue] = larger(own, self.together(self._below(queue)))
        return self._known[queue]

    def together(self, queues: Iterable[str]) -> Mapping[Any, Any]:
        """Return what some queues are guaranteed together."""
        return total_of(map(self.of, queues))


def left_by(kept: Mapping[D, N], available: Callable[[D], Sequence[N]]) -> dict[D, N]:
    """Return what is left, beside what is kept for others, of the least that is available, where that is known."""
    return {name: max(min(most), amount) - amount for name, amount in kept.items() if (most := available(name))}
