"""Scores from how much of a node is used: least requested, most requested, balanced.

All whole numbers from 0 to 100, divided as Go divides int64, so that they agree with kube-scheduler's to the digit:

    least    = mean over cpu, memory of  (allocatable - requested) x 100 / allocatable,  0 when above allocatable
    most     = mean over cpu, memory of  min(requested, allocatable) x 100 / allocatable
    balance  = (1 - standard deviation of the used shares of cpu, memory, and GPUs when asked for) x 100
    balanced = 50 + (50 + balance with the pod - balance without it) / 2,  0 for a pod that asks for none of them

Least and most assume 100m and 200Mi for containers that ask for nothing; balanced does not. Resources of which the
node has none are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plugins.nodeorder.arguments import NodeOrderWeights
from volsched.model.nodes.columns import CPU, MEMORY, NONZERO_CPU, NONZERO_MEMORY
from volsched.plugin import (
    MOST_KEPT,
    Bounded,
    Floats,
    Mask,
    NodeAmounts,
    NodeOrder,
    NodeTable,
    PodRequest,
    Registrar,
    ResourceColumns,
    Resources,
    Rule,
)

GPU = "nvidia.com/gpu"
"""The one extended resource that Volcano counts in the balance."""

Whole = npt.NDArray[np.int64]

_CPU_AND_MEMORY = slice(CPU, MEMORY + 1)
_NONZERO_CPU_AND_MEMORY = slice(NONZERO_CPU, NONZERO_MEMORY + 1)


@dataclass(slots=True)
class _TemplateRequest:
    """The data of a template that the scores need."""

    cpu: int
    memory: int
    balanced: tuple[tuple[int, int], ...]
    """Column and request of the balanced resources; empty if the pod requests none of them."""
    nonzero: Whole
    """The first two below one another."""
    places: Whole
    """The columns of ``balanced`` below one another."""
    steps: Whole
    """For each of ``balanced`` nothing and the request: (resource x [without, with] x 1)."""


class UsageScore:
    """The three scores, weighted and added up, so that one call answers for a node."""

    def __init__(self, weights: NodeOrderWeights, columns: ResourceColumns) -> None:
        self._least = weights.leastrequested
        self._most = weights.mostrequested
        self._balance = weights.balancedresource
        self._columns = columns
        self._columns_version = columns.version
        self._known: Bounded[tuple[Resources, int, int], _TemplateRequest] = Bounded(MOST_KEPT)

    @property
    def counts(self) -> bool:
        """True if any of the three has a weight."""
        return bool(self._least or self._most or self._balance)

    def _of(self, pod: PodRequest) -> _TemplateRequest:
        if self._columns_version != self._columns.version:
            self._columns_version = self._columns.version
            self._known.clear()
        request = pod.request
        key = (request, pod.nonzero_cpu, pod.nonzero_memory)
        found = self._known.recall(key)
        if found is None:
            balanced = [(CPU, request.amount("cpu")), (MEMORY, request.amount("memory"))]
            if request.amount(GPU):
                balanced.append((self._columns.place(GPU), request.amount(GPU)))
            if not self._balance or not any(amount for _, amount in balanced):
                balanced = []
            found = self._known[key] = _TemplateRequest(
                pod.nonzero_cpu,
                pod.nonzero_memory,
                tuple(balanced),
                nonzero=np.array([[pod.nonzero_cpu], [pod.nonzero_memory]], dtype=np.int64),
                places=np.array([[column] for column, _ in balanced], dtype=np.int64),
                steps=np.array([[[0], [amount]] for _, amount in balanced], dtype=np.int64),
            )
        return found

    # -- one node -------------------------------------------------------------------------------------------------

    def score(self, pod: PodRequest, node: NodeAmounts) -> float:
        """Score one node."""
        asked = self._of(pod)
        allocatable, used = node.allocatable, node.used
        total = 0
        if self._least or self._most:
            cpu, memory = allocatable[CPU], allocatable[MEMORY]
            by_cpu, by_memory = used[NONZERO_CPU] + asked.cpu, used[NONZERO_MEMORY] + asked.memory
            if self._least:
                total = self._least * _least(cpu, by_cpu, memory, by_memory)
            if self._most:
                total += self._most * _most(cpu, by_cpu, memory, by_memory)
        if asked.balanced:
            total += self._balance * _balanced(asked.balanced, allocatable, used)
        return float(total)

    # -- many nodes -----------------------------------------------------------------------------------------------

    def scores(self, pod: PodRequest, nodes: NodeTable) -> Floats:
        """Answer as ``score``, for many nodes at once."""
        asked = self._of(pod)
        columns, rows = nodes.columns, nodes.rows
        total: Whole = np.zeros(len(rows), dtype=np.int64)
        if self._least or self._most:
            capacities = columns.allocatable[_CPU_AND_MEMORY].take(rows, axis=1)
            taken = columns.used[_NONZERO_CPU_AND_MEMORY].take(rows, axis=1) + asked.nonzero
            has_both: Mask = (capacities[0] != 0) & (capacities[1] != 0)
            if self._least:
                total += self._least * _mean(_free_shares(capacities, taken), has_both)
            if self._most:
                total += self._most * _mean(_used_shares(capacities, taken), has_both)
        if asked.balanced:
            places = asked.places * columns.used.shape[1] + rows
            capacities, taken = columns.allocatable.take(places), columns.used.take(places)
            before, after = _balances(taken[:, np.newaxis, :] + asked.steps, capacities)
            total += self._balance * (50 + (50 + after - before) // 2)
        found: Floats = total.astype(np.float64)
        return found


def _least(cpu: int, by_cpu: int, memory: int, by_memory: int) -> int:
    count = total = 0
    if cpu:
        count = 1
        if by_cpu <= cpu:
            total = (cpu - by_cpu) * 100 // cpu
    if memory:
        count += 1
        if by_memory <= memory:
            total += (memory - by_memory) * 100 // memory
    return total >> 1 if count == 2 else total


def _most(cpu: int, by_cpu: int, memory: int, by_memory: int) -> int:
    count = total = 0
    if cpu:
        count = 1
        total = min(by_cpu, cpu) * 100 // cpu
    if memory:
        count += 1
        total += min(by_memory, memory) * 100 // memory
    return total >> 1 if count == 2 else total


def _balanced(balanced: tuple[tuple[int, int], ...], allocatable: Sequence[int], used: Sequence[int]) -> int:
    before: list[float] = []
    after: list[float] = []
    for column, amount in balanced:
        capacity = allocatable[column]
        if capacity:
            taken = used[column]
            before.append(taken / capacity if taken < capacity else 1.0)
            taken += amount
            after.append(taken / capacity if taken < capacity else 1.0)
    return 50 + (50 + _balance(after) - _balance(before)) // 2


def _balance(shares: list[float]) -> int:
    count = len(shares)
    if count == 2:
        return int((1 - abs((shares[0] - shares[1]) / 2)) * 100.0)
    if count < 2:
        return 100
    mean = (shares[0] + shares[1] + shares[2]) / 3
    first, second, third = shares[0] - mean, shares[1] - mean, shares[2] - mean
    return int((1 - math.sqrt((first * first + second * second + third * third) / 3)) * 100.0)


def _divisors(capacity: Whole) -> Whole:
    found: Whole = np.maximum(capacity, 1)
    return found


def _free_shares(capacities: Whole, taken: Whole) -> Whole:
    found: Whole = (capacities - taken) * 100 // _divisors(capacities) * (taken <= capacities)
    return found


def _used_shares(capacities: Whole, taken: Whole) -> Whole:
    found: Whole = np.minimum(taken, capacities) * 100 // _divisors(capacities)
    return found


def _mean(shares: Whole, has_both: Mask) -> Whole:
    """Return the mean of two shares. A resource that the node lacks does not count."""
    found: Whole = (shares[0] + shares[1]) >> has_both
    return found


def _balances(taken: Whole, capacities: Whole) -> Whole:
    """``_balance`` for many nodes, without and with the pod. Resources that a node lacks do not count.

    Amounts are (resource x [without, with] x node), capacities (resource x node).
    """
    shares: Floats = np.minimum(taken / _divisors(capacities)[:, np.newaxis, :], 1.0)
    has = capacities != 0
    complete = bool(has.all())
    if len(shares) == 2:
        found = _pair_balance(shares[0], shares[1])
        return found if complete else np.where(has[0] & has[1], found, 100)
    apart = shares - (shares[0] + shares[1] + shares[2]) / 3
    squares = apart * apart
    deviation = np.sqrt((squares[0] + squares[1] + squares[2]) / 3)
    found = ((1 - deviation) * 100.0).astype(np.int64)
    return found if complete else _balances_without_some(found, shares, has)


def _balances_without_some(found: Whole, shares: Floats, has: Mask) -> Whole:
    """Correct the balances of nodes that lack some of three resources."""
    result: Whole = np.where(has[0] & has[1] & has[2], found, 100)
    for one, other, absent in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
        both = has[one] & has[other] & ~has[absent]
        result = np.where(both, _pair_balance(shares[one], shares[other]), result)
    return result


def _pair_balance(one: Floats, other: Floats) -> Whole:
    found: Whole = ((1 - np.abs((one - other) / 2)) * 100.0).astype(np.int64)
    return found


def rules(registrar: Registrar, weights: NodeOrderWeights) -> Iterator[Rule]:
    """Score by what is used of nodes."""
    usage = registrar.account("nodeorder.usage", lambda cluster: UsageScore(weights, cluster.columns))
    if usage.counts:
        yield NodeOrder(usage.score, vector=usage.scores)
