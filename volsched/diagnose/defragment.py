"""Finds pods whose restart frees whole nodes of cards. Each answer is proven by sessions.

Cards that are scattered over nodes are useless to pods that want many together. Nothing is moved here: the user gets
the pods that would find a place elsewhere, and restarts them, or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from volsched.diagnose.cards import card_names_in
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.records import AnswerRecord
from volsched.diagnose.restarted_pods import DAEMONS, placed, restarted
from volsched.diagnose.workload_names import workload_of
from volsched.model import api
from volsched.model.cards.inventory import card_inventory_of
from volsched.model.cards.names import CardNameFn
from volsched.model.cards.vendors import accelerators
from volsched.model.changes import Put
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo


class Move(AnswerRecord, frozen=True):
    """A pod that finds a place on another node when it is restarted."""

    pod: str
    node: str
    to: str
    workload: str = ""


class PassedOver(AnswerRecord, frozen=True):
    """A node that was not opened, and why."""

    node: str
    why: str


class Moves(AnswerRecord, frozen=True):
    """``nodes`` would have no pod with cards left. ``tried`` counts the sets of moves that sessions were run with.

    Where these are fewer nodes than asked for, ``passed_over`` states why of the others.
    """

    nodes: tuple[str, ...]
    moves: tuple[Move, ...]
    tried: int
    passed_over: tuple[PassedOver, ...]


class _Opening(NamedTuple):
    node: NodeInfo
    holders: tuple[TaskInfo, ...]


def suggest_moves(known: ClusterSnapshot, number: int, left: Callable[[], bool] = lambda: True) -> Moves:
    """Return the moves that free so many whole nodes, those with the fewest pods first; advice only.

    A node counts if all its pods with cards were placed on nodes that stay, no other pod lost its place, and no
    disruption budget is exceeded. ``left`` returns True while there is time. Raises ConfigError.
    """
    simulation = known.stage().simulation
    mirror = simulation.mirror
    mirror.apply(Put(found) for found in known.objects if isinstance(found, api.PodDisruptionBudget))
    cluster = mirror.cluster
    candidates = _candidates(cluster, known.objects, card_names_in(simulation.profile.configuration).name_of)
    opened: list[_Opening] = []
    moves: tuple[Move, ...] = ()
    passed_over: list[PassedOver] = []
    tried = 0
    for candidate in candidates:
        if len(opened) == number or not left():
            break
        why = _refusal(cluster, known, [*opened, candidate])
        if not why:
            tried += 1
            found = _tried(known, [*opened, candidate])
            if found is not None:
                opened, moves = [*opened, candidate], found
                continue
            why = "its pods find no other place"
        passed_over.append(PassedOver(candidate.node.name, why))
    names = tuple(candidate.node.name for candidate in opened)
    return Moves(names, moves, tried, tuple(passed_over) if len(opened) < number else ())


def _candidates(cluster: Cluster, objects: Iterable[api.ApiObject], name_of: CardNameFn) -> list[_Opening]:
    """Return the nodes with some cards in use, those with the fewest pods to move first."""
    nodes = [found for found in objects if isinstance(found, api.Node)]
    cards = {card.resource for offered in card_inventory_of(nodes, name_of).nodes.values() for card in offered.cards}
    cards |= {name for node in nodes for name in accelerators(node.status.allocatable)}
    found = [_Opening(node, tuple(_holders(node, cards))) for node in cluster.nodes.values()]
    taken = [each for each in found if each.holders and not each.node.spec.unschedulable]
    return sorted(taken, key=lambda each: (len(each.holders), each.node.name))


def _holders(node: NodeInfo, cards: Iterable[str]) -> Iterator[TaskInfo]:
    for task in sorted(node.tasks.values(), key=lambda task: task.key):
        if any(task.template.request.get(resource, 0) for resource in cards):
            yield task


def _refusal(cluster: Cluster, known: ClusterSnapshot, candidates: Sequence[_Opening]) -> str:
    """Return why the last of these nodes is not worth a trial; empty when it is."""
    *_, last = candidates
    pods = placed(known)
    for task in last.holders:
        owner = pods[task.key].metadata.controller if task.key in pods else None
        if not task.spec.is_managed:
            return f"pod {task.key} is another scheduler's ({task.spec.scheduler})"
        if owner is not None and owner.kind in DAEMONS:
            return f"pod {task.key} of a {owner.kind} would come back to it"
    going = [task for candidate in candidates for task in candidate.holders]
    for budget in cluster.budgets.values():
        if sum(budget.protects(task) for task in going) > budget.allowed and any(map(budget.protects, last.holders)):
            return f"PodDisruptionBudget {budget.key} lets only {budget.allowed} of its pods go now"
    return ""


def _tried(known: ClusterSnapshot, candidates: Sequence[_Opening]) -> tuple[Move, ...] | None:
    """Return where the pods of these nodes go when sessions run; None when one finds no place, or another loses its."""
    going = {task.key: each.node.name for each in candidates for task in each.holders}
    closed = {each.node.name for each in candidates}
    cluster = known.with_objects(restarted(known, going, closed)).stage().run().mirror.cluster
    places = {task.key: task.node.name for task in cluster.tasks.values() if task.node is not None}
    stays = {key for key, pod in placed(known).items() if pod.status.phase not in ("Succeeded", "Failed")}
    if not stays <= places.keys() or any(places[key] in closed for key in going):
        return None
    workloads = {
        task.key: workload_of(task.job).name for each in candidates for task in each.holders if task.job is not None
    }
    return tuple(Move(key, node, places[key], workloads.get(key, "")) for key, node in sorted(going.items()))
