"""Nodes for people: states, cards with their holders, and, for one node, everything that is known of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from volsched.diagnose.card_states import NOT_READY as NOT_READY_TAINTS
from volsched.diagnose.cards import NodeCards
from volsched.diagnose.queries import quantities
from volsched.diagnose.records import AnswerRecord
from volsched.diagnose.workload_names import workload_of
from volsched.model import api
from volsched.model.cluster import Cluster
from volsched.model.held_nodes import stamp, stated_reservation_of
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import ON_NODE
from volsched.model.values.quantity import format_amount

CORDONED: Final = "cordoned"
NOT_READY: Final = "not ready"
LEAVING: Final = "leaving"
UNREADABLE: Final = "unreadable pod"
"""States of nodes that get no further pods. The last one: a pod there cannot be read, so free amounts are unknown."""

_READY: Final = "Ready"


class CardOwner(AnswerRecord, frozen=True):
    """The job of a pod: the name of its workload, its ``namespace/name``, and its queue."""

    workload: str
    job: str
    queue: str


class NodeState(AnswerRecord, frozen=True):
    """A node in a list. ``states`` are those that keep pods off it; ``owners`` has the jobs of pods on its cards.

    ``promised`` are the pods that wait for others to leave this node.
    """

    name: str
    states: tuple[str, ...]
    labels: Mapping[str, str]
    cards: tuple[NodeCards, ...]
    owners: Mapping[str, CardOwner]
    pods: int
    promised: tuple[str, ...] = ()


def owner_of(job: JobInfo) -> CardOwner:
    """Return the owner of a job's cards."""
    return CardOwner(workload_of(job).name, job.key, job.queue)


def states_of(node: api.Node, info: NodeInfo | None) -> tuple[str, ...]:
    """Return the states of a node that keep further pods off it; none for a node in order."""
    found = [CORDONED] if node.spec.unschedulable else []
    is_ready = all(condition.type != _READY or condition.status == "True" for condition in node.status.conditions)
    if not is_ready or any(taint.key in NOT_READY_TAINTS for taint in node.spec.taints):
        found.append(NOT_READY)
    if info is not None and info.spec.terminating:
        found.append(LEAVING)
    if info is not None and info.spec.quarantined:
        found.append(UNREADABLE)
    return tuple(found)


def state_of_node(
    node: api.Node,
    info: NodeInfo | None,
    cards: tuple[NodeCards, ...],
    owner: Callable[[JobInfo], CardOwner],
    promised: Iterable[str] = (),
) -> NodeState:
    """Return a node as lists show it. ``owner`` may keep what ``owner_of`` returns."""
    holders = {pod for each in cards for cell in each.cells if cell.holder for pod in cell.holder.split(", ")}
    tasks = info.tasks.values() if info is not None else ()
    owners = {task.key: owner(task.job) for task in tasks if task.job is not None and task.key in holders}
    name = node.metadata.name
    return NodeState(
        name, states_of(node, info), node.metadata.labels, cards, owners, len(tasks), tuple(sorted(promised))
    )


# --- one node -------------------------------------------------------------------------------------------------------


class PodOnNode(AnswerRecord, frozen=True):
    """A pod on a node, or one that is promised room there. ``owner`` is None for a pod without a job."""

    pod: str
    owner: CardOwner | None
    status: str
    requests: Mapping[str, str]


class NodeAmount(AnswerRecord, frozen=True):
    """One resource of a node. ``percent`` is the used part, at most 100."""

    resource: str
    used: str
    allocatable: str
    percent: int


class HeldFor(AnswerRecord, frozen=True):
    """A job for which a node is held, and when it starts at the latest; empty: not known."""

    owner: CardOwner
    start: str


class NodeDetails(AnswerRecord, frozen=True):
    """One node with everything that is known of it."""

    state: NodeState
    amounts: tuple[NodeAmount, ...]
    pods: tuple[PodOnNode, ...]
    promised: tuple[PodOnNode, ...]
    held_for: tuple[HeldFor, ...]
    taints: tuple[str, ...]
    conditions: tuple[api.Condition, ...]


def details_of_node(cluster: Cluster, node: api.Node, state: NodeState) -> NodeDetails:
    """Return the details of a node. ``state`` is the node in lists."""
    info = cluster.nodes.get(node.metadata.name)
    tasks = sorted(info.tasks.values(), key=lambda task: task.key) if info is not None else []
    promised = (task for task in cluster.nominated.values() if task.nominated == state.name)
    return NodeDetails(
        state,
        tuple(_amounts(cluster, info)) if info is not None else (),
        tuple(_pod(task) for task in tasks if ON_NODE[task.status]),
        tuple(_pod(task) for task in sorted(promised, key=lambda task: task.key)),
        tuple(_held_for(cluster, state.name)),
        tuple(_taint(taint) for taint in node.spec.taints),
        node.status.conditions,
    )


def _amounts(cluster: Cluster, info: NodeInfo) -> Iterator[NodeAmount]:
    """Yield the resources that a node offers, cards first, cpu and memory next."""
    real = (name for name in cluster.columns.names if not name.startswith("<"))  # others are assumed for scores
    names = [name for name in real if info.allocatable_of(name) or info.amounts.used_of(name)]
    for name in sorted(names, key=lambda name: ("/" not in name, name in ("pods", "ephemeral-storage"), name)):
        used, limit = info.amounts.used_of(name), info.allocatable_of(name)
        percent = min(100, 100 * used // limit) if limit else 100
        yield NodeAmount(name, str(format_amount(name, used)), str(format_amount(name, limit)), percent)


def _pod(task: TaskInfo) -> PodOnNode:
    owner = owner_of(task.job) if task.job is not None else None
    return PodOnNode(task.key, owner, task.status.name.lower(), quantities(task.template.request))


def _held_for(cluster: Cluster, name: str) -> Iterator[HeldFor]:
    """Yield the jobs for which the action ``reserve`` holds a node."""
    for job in cluster.jobs.values():
        stated = stated_reservation_of(job) if job.conditions else None
        if stated is not None and name in stated.nodes:
            yield HeldFor(owner_of(job), "" if stated.start is None else stamp(stated.start))


def _taint(taint: api.Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
