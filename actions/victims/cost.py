"""What it costs others to make room on a node: the choice of kube-scheduler between nodes.

Volcano takes the node of the highest score on which room can be made, and compares no victims. Of nodes of one score
it takes any. kube-scheduler takes the node whose victims matter least. Actions can be told either. Of nodes of one
score the one is taken where fewer running pods go, if none matters more (*ours*).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final, TypeAlias

from actions.victims.budgets import by_budget
from volsched.framework.dispatch.ruleset import importance_of
from volsched.framework.eviction_units import unit_of
from volsched.framework.session import Session
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus

VictimCost: TypeAlias = tuple[float, int, int, int, float]

NONE: Final[VictimCost] = (float("-inf"), 0, 0, 0, 0.0)
_LOWEST_PRIORITY: Final = 1 << 31

FEWEST_COMPARED: Final = 100
SHARE_COMPARED: Final = 10
"""Compared are a hundred nodes where room can be made, in clusters of more than a thousand one in ten of all: those
with the highest scores (kube-scheduler's `minCandidateNodesAbsolute` and `minCandidateNodesPercentage`)."""


@dataclass(frozen=True, slots=True)
class VictimPlan:
    """Room on one node: who could go there, whom of them the plugins let go, and whom of these to try, in order.

    ``needed`` are those of ``ordered`` that have to go as far as amounts tell; None when all of them are too few.
    """

    node: NodeInfo
    candidates: Sequence[TaskInfo]
    victims: Sequence[TaskInfo]
    ordered: Sequence[TaskInfo]
    needed: Sequence[TaskInfo] | None


def least_cost_first(plans: Iterator[VictimPlan], most: int) -> Iterator[VictimPlan]:
    """Put plans in order of their cost, so many of those that can do compared, and all others behind them."""
    compared: list[tuple[VictimCost, VictimPlan]] = []
    others: list[VictimPlan] = []
    for plan in plans:
        if plan.needed is None:
            others.append(plan)
            continue
        compared.append((cost_of(_with_others(plan.needed)), plan))
        if len(compared) == most:
            break
    yield from (plan for _, plan in sorted(compared, key=lambda found: found[0]))
    yield from others
    yield from plans


def _with_others(victims: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
    """Return victims and who goes with them as their groups go as a whole, each once."""
    return list(dict.fromkeys(member for victim in victims for member in unit_of(victim)))


def cost_of(victims: Sequence[TaskInfo]) -> VictimCost:
    """Return how much it matters that these pods go, to be compared with other nodes'.

    In this order: the highest priority among them; the sum of all, in which a pod of the lowest priority counts, too,
    so that few pods come before many; their number; how many of them run (*ours*); and how early the oldest of the
    highest priority was created. The rule of kube-scheduler's preemption, disruption budgets aside, which are tried
    before.
    """
    if not victims:
        return NONE
    highest = max(victim.spec.pod_priority for victim in victims)
    total = sum(victim.spec.pod_priority + _LOWEST_PRIORITY for victim in victims)
    oldest = min(victim.created for victim in victims if victim.spec.pod_priority == highest)
    return highest, total, len(victims), running_of(victims), -oldest


def weights_of(session: Session, victims: Sequence[TaskInfo]) -> list[tuple[bool, bool, int, int]]:
    """Return how much each of some victims matters, none of whom is evicted yet, who matters most first.

    One that a DaemonSet pins matters more than others, then one whose budget breaks, then the more important one.
    """
    broken = {victim.uid for victim in by_budget(session, victims)[1]}
    return sorted(((v.spec.pinned, v.uid in broken, *importance_of(v)) for v in victims), reverse=True)


def none_matters_more(weights: Sequence[tuple[int, ...]], others: Sequence[tuple[int, ...]]) -> bool:
    """True if no victim matters more than the one that goes in its place elsewhere. More may go (*ours*)."""
    counterparts = chain(others, repeat(others[-1]))
    return all(mine <= theirs for mine, theirs in zip(weights, counterparts, strict=False))


def running_of(victims: Sequence[TaskInfo]) -> int:
    """Return how many of some victims run."""
    return sum(victim.status is TaskStatus.RUNNING for victim in victims)


def needed(
    node: NodeInfo, request: Sequence[tuple[int, int]], weaker: Sequence[TaskInfo], victims: Sequence[TaskInfo]
) -> list[TaskInfo] | None:
    """Return whom of the victims a request needs gone, taken in the order given, or None when all are too few.

    Amounts alone are considered, with the room of the weaker, whose promises end. Those not needed after all are left
    out, the last first.
    """
    lacking = {c: a - node.allocatable[c] + node.used[c] - node.releasing[c] + node.pipelined[c] for c, a in request}
    for task in weaker:
        _take(lacking, task, 1)
    chosen: list[TaskInfo] = []
    for victim in victims:
        if not _any_lacks(lacking):
            break
        _take(lacking, victim, 1)
        chosen.append(victim)
    if _any_lacks(lacking):
        return None
    for victim in reversed(chosen[:-1]):
        _take(lacking, victim, -1)
        if _any_lacks(lacking):
            _take(lacking, victim, 1)
        else:
            chosen.remove(victim)
    return chosen


def _take(lacking: dict[int, int], task: TaskInfo, times: int) -> None:
    for column, amount in task.charge:
        if column in lacking:
            lacking[column] -= times * amount


def _any_lacks(lacking: dict[int, int]) -> bool:
    return any(amount > 0 for amount in lacking.values())
