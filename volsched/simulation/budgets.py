"""Kubernetes' disruption controller in memory: the allowed disruptions of each PodDisruptionBudget.

After pkg/controller/disruption. A percentage is one of the pods that the workloads of the protected pods want. Healthy
is a pod that runs and does not state that it is not ready. The number that has to stay is that of the status, as of a
cluster, else computed. A budget without a number keeps what its status allows, less the healthy pods that went.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from volsched.model import api
from volsched.model.budget import pods_stated
from volsched.model.errors import FieldError
from volsched.model.selectors import NOTHING, LabelSelector

Scale = Callable[[Sequence[api.Pod]], int]
"""Takes pods, and states how many of them their workloads want."""


class Disruptions:
    """The budgets of the cluster, as their controller keeps them. Changed namespaces are computed again."""

    def __init__(self, budgets: Iterable[api.PodDisruptionBudget], scale: Scale) -> None:
        self._budgets = {found.key: found for found in budgets}
        self._selectors = {key: _selector_of(found) for key, found in self._budgets.items()}
        self._scale = scale
        self._health: dict[str, bool] = {}
        self._healthy: dict[str, int] = {}
        self._changed = {found.metadata.namespace for found in self._budgets.values()}

    def on_change(self, pod: api.Pod) -> None:
        """Follow a pod as it is now."""
        healthy = is_healthy(pod)
        if self._budgets and self._health.get(pod.key) != healthy:
            self._health[pod.key] = healthy
            self._changed.add(pod.metadata.namespace)

    def lost(self, pod: api.Pod) -> None:
        """Follow a pod that is gone."""
        if self._health.pop(pod.key, None) is not None:
            self._changed.add(pod.metadata.namespace)

    def settle(self, pods: Iterable[api.Pod]) -> Iterator[api.PodDisruptionBudget]:
        """Yield the budgets whose status is another one now."""
        changed = [key for key, found in self._budgets.items() if found.metadata.namespace in self._changed]
        known = [pod for pod in pods if pod.metadata.namespace in self._changed] if changed else []
        self._changed.clear()
        for key in changed:
            budget = self._budgets[key]
            allowed = self._allowed(key, budget, [pod for pod in known if self._protects(key, budget, pod)])
            if allowed != budget.status.disruptions_allowed:
                status = msgspec.structs.replace(budget.status, disruptions_allowed=allowed)
                self._budgets[key] = again = msgspec.structs.replace(budget, status=status)
                yield again

    def _protects(self, key: str, budget: api.PodDisruptionBudget, pod: api.Pod) -> bool:
        meta = pod.metadata
        return meta.namespace == budget.metadata.namespace and self._selectors[key].matches(meta.labels)

    def _allowed(self, key: str, budget: api.PodDisruptionBudget, pods: Sequence[api.Pod]) -> int:
        healthy = sum(1 for pod in pods if is_healthy(pod))
        before = self._healthy.get(key, healthy)
        self._healthy[key] = healthy
        wanted = budget.status.desired_healthy
        if wanted is None:
            wanted = _healthy_wanted(budget.spec, pods, self._scale)
        if wanted is None:
            return max(0, budget.status.disruptions_allowed + min(0, healthy - before))
        return max(0, healthy - wanted)


def is_healthy(pod: api.Pod) -> bool:
    """True if a pod counts as healthy: it runs, is not terminating, and does not state that it is not ready."""
    status = pod.status
    if status.phase != "Running" or pod.metadata.deletion_timestamp is not None:
        return False
    return all(condition.status != "False" for condition in status.conditions if condition.type == "Ready")


def _healthy_wanted(spec: api.PodDisruptionBudgetSpec, pods: Sequence[api.Pod], scale: Scale) -> int | None:
    """Return how many pods have to stay, or None if the budget does not state that readably.

    All have to where it is not known how many there should be: pods without a workload have no such number.
    """
    stated = spec.min_available if spec.max_unavailable is None else spec.max_unavailable
    if stated is None or pods_stated(stated, 0) is None:
        return None
    if spec.max_unavailable is None and isinstance(stated, int):
        return stated
    expected = scale(pods)
    number = pods_stated(stated, expected) or 0
    if not expected:
        return len(pods)
    return number if spec.max_unavailable is None else max(0, expected - number)


def _selector_of(budget: api.PodDisruptionBudget) -> LabelSelector:
    if budget.spec.selector is None:
        return NOTHING
    try:
        return LabelSelector.parse(budget.spec.selector, "spec.selector")
    except FieldError:
        return LabelSelector.of({})  # as the mirror takes it: it protects more rather than fewer
