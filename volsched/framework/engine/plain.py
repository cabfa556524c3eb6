"""Answers about nodes without a cache: every callback is asked about every node.

The naive engine works like this for each question, the fast one for rare questions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeAlias

from volsched.framework.answers import ask_predicate
from volsched.framework.callbacks import KeyFn
from volsched.framework.rules import NodeCallbacks, Predicate
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import NodeRefusals, Verdict

Totals: TypeAlias = Callable[[TaskInfo, list[NodeInfo]], list[float]]
"""The sums of all scores of some nodes."""

Ranked: TypeAlias = list[tuple[NodeInfo, float]]
"""Nodes with their scores, best first; of equals the first in order of names."""


def kind_keys(callbacks: NodeCallbacks) -> tuple[KeyFn, ...]:
    """Return the keys of all predicates."""
    return tuple(p.key for p in callbacks.predicates if p.key is not None)


def is_shared_in_queue(callbacks: NodeCallbacks, task: TaskInfo) -> bool:
    """True if all equal pods of the task's queue have the same key."""
    return all(p.key is None or p.is_keyed_by_queue or p.key(task) is None for p in callbacks.predicates)


def kind_of(keys: tuple[KeyFn, ...], task: TaskInfo) -> Hashable:
    """Return the key of tasks that can go to the same nodes: the template's id and its predicates' keys.

    It is the id alone if no predicate has a key for the task. Scores refuse no node.
    """
    found = [key(task) for key in keys]
    number = task.template.id
    return number if found.count(None) == len(found) else (number, *found)


def refusal_of(
    cluster: Cluster, callbacks: NodeCallbacks, task: TaskInfo, node: NodeInfo
) -> tuple[Verdict | None, list[str]]:
    """Return why one node refuses a task: the first predicate's refusal, or the missing resources."""
    for predicate in callbacks.predicates:
        if predicate.applies(task):
            verdict = ask_predicate(predicate, task, node)
            if verdict is not None:
                return verdict, [verdict.message]
    lacking = [
        f"Insufficient {name}"
        for column, amount in cluster.columns.request(task.template)
        if not node.fits_future(((column, amount),))
        for name in cluster.columns.names_of(task.template, column)
    ]
    return None, lacking


def refused_from_afar(callbacks: NodeCallbacks, task: TaskInfo, node: NodeInfo) -> bool:
    """True if a rule with a key refuses a node: other pods, or usage of a queue, may change its answer."""
    keyed = (
        predicate
        for predicate in callbacks.predicates
        if predicate.scope == "domain" and predicate.applies_to_task(task)
    )
    return any(ask_predicate(predicate, task, node) is not None for predicate in keyed)


def refusals_of(cluster: Cluster, callbacks: NodeCallbacks, task: TaskInfo) -> NodeRefusals:
    """Count the reasons of all nodes, as kube-scheduler words them."""
    refusals = NodeRefusals()
    for node in cluster.rows:
        verdict, reasons = refusal_of(cluster, callbacks, task, node)
        if verdict is not None:
            refusals.add_verdict(verdict, node.name)
        else:
            refusals.add_all(reasons)
    return refusals


def candidates_of(cluster: Cluster, callbacks: NodeCallbacks, task: TaskInfo) -> list[NodeInfo]:
    """Return the candidate nodes by name: those with room now, else those with room later."""
    request = cluster.columns.request(task.template)
    possible = [n for n in cluster.rows if refusal_of(cluster, callbacks, task, n) == (None, [])]
    return [node for node in possible if node.fits_idle(request)] or possible


def choices_of(cluster: Cluster, callbacks: NodeCallbacks, task: TaskInfo, totals: Totals) -> list[NodeInfo]:
    """Return the nodes where the task can go now, best first. ``totals`` gives the score of each."""
    request = cluster.columns.request(task.template)
    nodes = [node for node in candidates_of(cluster, callbacks, task) if node.fits_idle(request)]
    if len(nodes) < 2:
        return nodes
    scored = sorted(zip(totals(task, nodes), range(len(nodes)), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return chosen_first(callbacks, task, [nodes[place] for _, place in scored], [total for total, _ in scored])


def chosen_first(
    callbacks: NodeCallbacks, task: TaskInfo, nodes: list[NodeInfo], totals: Sequence[float]
) -> list[NodeInfo]:
    """Return nodes, best first. A plugin's choice among the scored ones (``BestNode``) comes first."""
    if not callbacks.best_nodes:
        return nodes
    named = {node.name: total for node, total in sorted(zip(nodes, totals, strict=True), key=lambda pair: pair[0].row)}
    for choose in callbacks.best_nodes:
        chosen = choose(task, named)
        if chosen is not None and chosen in named:
            return sorted(nodes, key=lambda node: node.name != chosen)
    return nodes


def ranked_of(cluster: Cluster, callbacks: NodeCallbacks, task: TaskInfo, totals: Totals) -> Ranked:
    """Nodes where the task could go if others left, best first. ``totals`` gives the score of each."""
    nodes = list(hopeful_of(cluster, callbacks.predicates, task))
    scored = sorted(zip(totals(task, nodes), range(len(nodes)), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return [(nodes[place], total) for total, place in scored]


def hopeful_of(cluster: Cluster, predicates: Sequence[Predicate], task: TaskInfo) -> Iterator[NodeInfo]:
    """Yield the nodes where the task could go if others left, in order of names."""
    request = cluster.columns.request(task.template)
    for node in cluster.rows:
        is_large_enough = all(node.allocatable[c] >= amount or node.leaves_to_devices(c) for c, amount in request)
        if is_large_enough and all(_leaves_hope(predicate, task, node) for predicate in predicates):
            yield node


def lasting(predicates: Sequence[Predicate]) -> list[Predicate]:
    """Return those whose refusals do not end by themselves."""
    return [predicate for predicate in predicates if not predicate.is_temporary]


def _leaves_hope(predicate: Predicate, task: TaskInfo, node: NodeInfo) -> bool:
    if not predicate.applies(task):
        return True
    verdict = ask_predicate(predicate, task, node)
    return verdict is None or (predicate.scope != "static" and verdict.resolvable)


def scores_of(cluster: Cluster, callbacks: NodeCallbacks, task: TaskInfo) -> dict[str, dict[str, float]]:
    """Return each plugin's score of each candidate."""
    nodes = candidates_of(cluster, callbacks, task)
    found: dict[str, dict[str, float]] = {node.name: {} for node in nodes}

    def add(node: NodeInfo, plugin: str, score: float) -> None:
        found[node.name][plugin] = found[node.name].get(plugin, 0.0) + score

    for order in callbacks.node_orders:
        if order.applies_to_task(task):
            for node in nodes:
                add(node, order.plugin, order.ask(task, node))
    for batch in callbacks.batch_orders:
        uniform = batch.uniform(task) if batch.uniform is not None else None
        answers: Sequence[float] = batch.fn(task, nodes) if uniform is None else [uniform] * len(nodes)
        for node, score in zip(nodes, answers, strict=True):
            add(node, batch.plugin, float(score))
    return found
