"""The metrics of `volsched controllers`: waiting work, failures, states of queues, whether it stands aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from volsched.controllers.queues import PHASES
from volsched.controllers.store import Store
from volsched.kube.serve.metrics import Metrics
from volsched.model.values.series import Numbers
from volsched.operator.engine import ControllerEngine
from volsched.operator.work import WorkQueue
from volsched.run.gauges import add_memory_use

_KIND = ("kind",)


def add_gauges(metrics: Metrics, engine: ControllerEngine, stands_aside: Callable[[], bool]) -> None:
    """Let `metrics` read all of these."""
    store, queue = engine.store, engine.queue
    add_memory_use(metrics, engine.memory_use)
    for phase in PHASES:
        name, what = f"volcano_queue_pod_group_{phase}_count", f"PodGroups of the queue that are {phase}"
        metrics.add(name, what, ("queue_name",), partial(_groups, store, phase))
    metrics.add("volsched_controllers_active", "Whether it writes", (), lambda: {(): float(engine.is_active)})
    metrics.add(
        "volsched_controllers_standing_aside",
        "Whether it leads and leaves everything to Volcano's own controllers",
        (),
        lambda: {(): float(stands_aside())},
    )
    metrics.add(
        "volsched_controllers_queue_depth",
        "Objects that wait to be looked at",
        _KIND,
        lambda: _by_kind(queue, queue.depth()),
    )
    metrics.add(
        "volsched_controllers_reconciles",
        "Looks at objects that went well",
        _KIND,
        lambda: _by_kind(queue, queue.done),
        counts=True,
    )
    metrics.add(
        "volsched_controllers_reconcile_errors",
        "Looks at objects that failed",
        _KIND,
        lambda: _by_kind(queue, queue.errors),
        counts=True,
    )
    metrics.add(
        "volsched_controllers_pods_without_group", "Pods that have no PodGroup yet", (), lambda: {(): store.waiting()}
    )
    metrics.add_histograms(
        "volsched_controllers_group_lag_seconds",
        "From seeing a pod to naming its PodGroup in it",
        (),
        lambda: {(): engine.lag},
    )


def _by_kind(queue: WorkQueue, counts: Counter[str]) -> Numbers:
    """Return counts by kind, 0 for kinds that had something to do once."""
    return {(kind,): counts[kind] for kind in {**queue.done, **queue.errors, **counts}}


def _groups(store: Store, phase: str) -> Numbers:
    return {(name,): store.pod_group_counts.phases(name).get(phase, 0) for name in store.queues}
