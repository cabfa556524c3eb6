"""Gangs that can never start, as their pods are made only after each other: as far as this is known before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from volsched.controllers.grouping import GROUP_MIN_MEMBER, min_member_of
from volsched.controllers.lifecycle import depends
from volsched.framework.validation import INVALID, Fault, Faults, Surroundings, warning
from volsched.model import api
from volsched.model.budget import pods_stated
from volsched.model.errors import quoted, shortened

_FIELD: Final = f"metadata.annotations[{GROUP_MIN_MEMBER}]"


def deadlock_faults(found: api.ApiObject, beside: Surroundings | None = None) -> Faults:
    """Yield a warning for each gang of an object that waits, or will wait, for pods that wait for it.

    Pods of another scheduler are no gang. One whose pods run beside it has started, however few pods it has by now.
    """
    rule = _RULES.get(type(found))
    if rule is None or (beside is not None and not beside.places(found)):
        return
    if not (isinstance(found, api.ReplicaSet) and beside is not None and _runs(found, beside)):
        yield from rule(found)


def _runs(found: api.ReplicaSet, beside: Surroundings) -> bool:
    if _replicas(found.spec.replicas) >= min_member_of(found.metadata.annotations):
        return False
    meta = found.metadata
    pods = [pod for pod in beside.of(api.Pod) if pod.spec.node_name and pod.metadata.namespace == meta.namespace]
    owners = [pod.metadata.controller for pod in pods]
    return any(owner is not None and (owner.kind, owner.name) == ("ReplicaSet", meta.name) for owner in owners)


def _of_volcano_job(job: api.Job) -> Faults:
    """Yield a warning if the minimum of a Job counts pods that are made only once others run."""
    spec = job.spec
    late = [task.name for task in spec.tasks if depends(task) and _least(task) > 0]
    if spec.min_available is None or not late:
        return
    first = sum(task.replicas for task in spec.tasks if not depends(task))
    judges_tasks = spec.min_available >= sum(map(_least, spec.tasks))
    if spec.min_available <= first and not judges_tasks:
        return
    most = min(first, sum(_least(task) for task in spec.tasks if not depends(task)))
    message = (
        f"{spec.min_available} counts pods of {quoted(late)}, which are made only once the tasks run on which they "
        f"depend, and those start only with all {spec.min_available}: the Job never starts; leave it out, or make it "
        f"{most} at most"
    )
    yield warning("spec.minAvailable", INVALID, message)


def _of_deployment(found: api.Deployment) -> Faults:
    replicas, least = _replicas(found.spec.replicas), min_member_of(found.metadata.annotations)
    if 0 < replicas < least:
        yield _too_few(least, f"{replicas} replicas")
        return
    strategy = found.spec.strategy
    first = _first_of_rollout(strategy.rolling_update or api.RollingUpdate(), replicas)
    if strategy.type == "Recreate" or replicas <= 0 or first >= least:
        return
    message = (
        f"a rolling update makes {first} of the {replicas} new pods before it waits for them to be ready, and they "
        f"start only with {least}: it never ends; raise spec.strategy.rollingUpdate.maxSurge to {least}, or take the "
        "strategy Recreate"
    )
    yield warning(_FIELD, INVALID, message)


def _first_of_rollout(rolling: api.RollingUpdate, replicas: int) -> int:
    """Return how many new pods a rolling update makes at most while none of them is ready."""
    surge = pods_stated(rolling.max_surge, replicas) or 0
    unavailable = pods_stated(rolling.max_unavailable, replicas, rounds_up=False) or 0
    return min(replicas, surge + unavailable or 1)


def _of_replica_set(found: api.ReplicaSet) -> Faults:
    replicas, least = _replicas(found.spec.replicas), min_member_of(found.metadata.annotations)
    if not 0 < replicas < least:
        return
    owner = found.metadata.controller
    if owner is None or owner.kind != "Deployment":
        yield _too_few(least, f"{replicas} replicas")
        return
    message = (
        f"the rolling update of Deployment {shortened(owner.name)!r} lets it have no more than {replicas} of its pods "
        f"before these are ready, and they start only with {least}: it never ends; raise maxSurge of the Deployment to "
        f"{least}, or take the strategy Recreate"
    )
    yield warning(_FIELD, INVALID, message)


def _of_stateful_set(found: api.StatefulSet) -> Faults:
    replicas, least = _replicas(found.spec.replicas), min_member_of(found.metadata.annotations)
    if 0 < replicas < least:
        yield _too_few(least, f"{replicas} replicas")
    elif least > 1 and replicas > 0 and found.spec.pod_management_policy != "Parallel":
        message = (
            "its pods are made one after the other, each once the one before it is ready, and start only with "
            f"{least}: none ever does; set spec.podManagementPolicy to Parallel"
        )
        yield warning(_FIELD, INVALID, message)


def _of_batch_job(found: api.BatchJob) -> Faults:
    spec, least = found.spec, min_member_of(found.metadata.annotations)
    parallel = 1 if spec.parallelism is None else spec.parallelism
    most = parallel if spec.completions is None else min(parallel, spec.completions)
    if 0 < most < least:
        yield _too_few(least, f"{most} pods at a time, by its parallelism and completions")


def _too_few(least: int, has: str) -> Fault:
    return warning(_FIELD, INVALID, f"{least} pods have to start together, and it has {has}: none ever starts")


def _replicas(stated: int | None) -> int:
    return 1 if stated is None else stated


def _least(task: api.TaskSpec) -> int:
    return task.replicas if task.min_available is None else task.min_available


_RULES: Final[Mapping[type[api.ApiObject], Callable[[Any], Faults]]] = {
    api.Job: _of_volcano_job,
    api.Deployment: _of_deployment,
    api.ReplicaSet: _of_replica_set,
    api.StatefulSet: _of_stateful_set,
    api.BatchJob: _of_batch_job,
}
