"""The members that a search places, their order, and the nodes of each without the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from actions.gang_search.board import Board
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo


def alike(one: TaskInfo, other: TaskInfo) -> bool:
    """True if every rule treats two members alike, so that exchanging them changes nothing."""
    return one.template is other.template and one.spec.role == other.spec.role and one.spec.labels == other.spec.labels


@dataclass(slots=True)
class Kind:
    """Equal members, and their ``homes``: the nodes where one could go if no member were anywhere, best first.

    ``waits``: there are none now, as a rule wants other members near it first. ``grows``: where they can go depends on
    where other pods are, so there may be more homes once members are placed. ``size`` is the largest share that one
    member asks for of what the cluster offers of an amount.
    """

    members: list[TaskInfo]
    homes: list[NodeInfo]
    waits: bool
    grows: bool
    size: float

    @property
    def first(self) -> TaskInfo:
        """One of them."""
        return self.members[0]


@dataclass(slots=True)
class Wanted:
    """The members to place, in kinds. ``needed`` are to be placed, ``spares`` may stand in for some of them."""

    kinds: list[Kind]
    needed: list[TaskInfo]
    spares: list[TaskInfo] = field(default_factory=list)
    kind_of: dict[TaskInfo, Kind] = field(default_factory=dict)
    is_short: bool = False
    """Whether there are too few members for the minimum of a role."""

    def homes(self, task: TaskInfo) -> list[NodeInfo]:
        """Return where a member could go if no other were there."""
        return self.kind_of[task].homes


def kinds_of(board: Board, tasks: Sequence[TaskInfo], offered: Sequence[int]) -> list[Kind]:
    """Put members into kinds, in the order of their first members. ``offered`` is what all nodes offer."""
    found: dict[object, Kind] = {}
    for task in tasks:
        key = (task.template.id, task.spec.role, frozenset(task.spec.labels.items()), board.session.engine.kind(task))
        kind = found.get(key)
        if kind is None:
            kind = found[key] = _kind(board, task, offered)
        kind.members.append(task)
    return list(found.values())


def _kind(board: Board, task: TaskInfo, offered: Sequence[int]) -> Kind:
    """Make the kind of a member. Nodes that a hard spread constraint refuses now may do when others are placed."""
    template, homes = task.template, board.choices(task)
    if any(constraint.hard for constraint in template.spread):
        asked = board.session.request(task)
        homes = [node for node in board.possible(task) if node.fits_idle(asked)]
    near = bool(template.affinity)
    grows = near or bool(template.spread)
    return Kind([], homes, near and not homes, grows, _size(board.session, task, offered))


def _size(session: Session, task: TaskInfo, offered: Sequence[int]) -> float:
    asked = session.request(task)
    return max((amount / offered[column] for column, amount in asked if offered[column]), default=0.0)


# -- which of them ----------------------------------------------------------------------------------------------------


def wanted_of(job: JobInfo, kinds: list[Kind]) -> Wanted:
    """Choose the members to start with: each role's minimum, then members with most nodes."""
    by_ease = sorted(
        ((kind, task) for kind in kinds for task in kind.members), key=lambda each: (-len(each[0].homes), each[0].size)
    )
    wanted = Wanted(kinds, [], kind_of={task: kind for kind in kinds for task in kind.members})
    of_roles = dict(job.spec.min_roles) if job.judges_roles else {}
    left: list[TaskInfo] = []
    for role in of_roles:
        of_roles[role] -= sum(1 for task in job.tasks.values() if task.spec.role == role and _counts(job, task))
    for _, task in by_ease:
        if of_roles.get(task.spec.role, 0) > 0:
            of_roles[task.spec.role] -= 1
            wanted.needed.append(task)
        else:
            left.append(task)
    wanted.is_short = any(count > 0 for count in of_roles.values())
    more = max(0, job.lacking - len(wanted.needed))
    wanted.needed += left[:more]
    wanted.spares = left[more:]
    return wanted


def _counts(job: JobInfo, task: TaskInfo) -> bool:
    """True if a member counts in its role already."""
    return task.uid not in job.waiting or task.best_effort


def most_constrained_first(wanted: Wanted) -> list[TaskInfo]:
    """Order the needed members: those with the fewest nodes first, larger before smaller, then as they are tried."""
    return _in_order(wanted, lambda kind: (kind.waits, len(kind.homes), -kind.size))


def largest_first(wanted: Wanted) -> list[TaskInfo]:
    """Order the needed members by size, and only then by how few nodes they have."""
    return _in_order(wanted, lambda kind: (kind.waits, -kind.size, len(kind.homes)))


def _in_order(wanted: Wanted, key: Callable[[Kind], tuple[float, ...]]) -> list[TaskInfo]:
    """Sort the needed members by a key of their kinds. Equal kinds stay as they are tried."""
    keys = {id(kind): (key(kind), number) for number, kind in enumerate(wanted.kinds)}
    return sorted(wanted.needed, key=lambda task: keys[id(wanted.kind_of[task])])
