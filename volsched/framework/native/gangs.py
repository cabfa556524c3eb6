"""Decides when a gang of Kubernetes' own is tried, and the refusal if it is not.

Members that have succeeded count towards the minimum, so that a lost pod of a Job can come back when its fellows are
done (kube-scheduler waits for ever). Terminating members do not: a gang that starts on them starts short. Gated members
are not tried before enough others are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from volsched.model.job import JobInfo
from volsched.model.native_group import NativeGroup
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_FINISHED
from volsched.model.values.resources import Resources, accumulate
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict

NAME: Final = "native-gangs"
NOT_ENOUGH_TASKS: Final = "NotEnoughTasks"
WAITS_FOR_GROUP: Final = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
"""The message of a member that fits while its group cannot start, in kube-scheduler's words."""


def invalidity(job: JobInfo) -> Verdict | None:
    """Return a refusal if a native group is not tried: not understood, unequal pods, or missing pods."""
    group = job.spec.native
    if group is None:
        return None
    if job.fault:
        return _error(job.fault)
    if known_members(job) < job.spec.min_available:
        return _incomplete(job)
    return next(_disagreements(job, group), None) or _scattered(job, group)


def is_incomplete(verdict: Verdict | None) -> bool:
    """True if a native group waits for members: more nodes would not help, and it is no news."""
    return verdict is not None and verdict.plugin == NAME and verdict.reason == NOT_ENOUGH_TASKS


def known_members(job: JobInfo) -> int:
    """Return members that run, have succeeded, or could be placed: neither gated nor terminating, and ours."""
    waiting = sum(1 for task in job.waiting.values() if task.spec.may_be_placed)
    return job.ready_count + job.pipelined_count + waiting


def least_of(job: JobInfo, members: list[TaskInfo]) -> Resources:
    """Return the request of the first members of a group, in the order of placement: its queue needs that much."""
    asked: dict[str, int] = {}
    for task in members[: max(0, job.spec.min_available - job.ready_count)]:
        accumulate(asked, task.template.request, 1)
    accumulate(asked, job.allocated, 1)
    return Resources(asked)


def _incomplete(job: JobInfo) -> Verdict:
    message = f'PodGroup "{job.label}" has fewer pods than the {job.spec.min_available} that it starts with'
    shown_as = ConditionReason.GANG_INCOMPLETE
    return Verdict(Step.GANG, NAME, Scope.JOB, NOT_ENOUGH_TASKS, message, resolvable=False, shown_as=shown_as)


def _error(message: str) -> Verdict:
    shown_as = ConditionReason.SCHEDULER_ERROR
    return Verdict(Step.INVALID, NAME, Scope.JOB, "FailedScheduling", message, resolvable=False, shown_as=shown_as)


def _disagreements(job: JobInfo, group: NativeGroup) -> Iterator[Verdict]:
    """Return why kube-scheduler refuses a group, in its words; from 1.37 on running members are compared, too."""
    compared = [task for task in job.waiting.values() if task.spec.is_managed]
    if group.version.one_priority:
        compared = [task for task in job.tasks.values() if not IS_FINISHED[task.status]]
    names = sorted({task.spec.scheduler for task in compared})
    if len(names) > 1:
        detail = f'got: "{names[0]}" and "{names[1]}"'
        yield _error(f"all pods in a single pod group should have the same .spec.schedulerName set, {detail}")
    if not group.version.one_priority or group.priority is None:
        return
    other = next((task.spec.pod_priority for task in compared if task.spec.pod_priority != group.priority), None)
    if other is not None:
        detail = f"got: {other} and {group.priority}"
        yield _error(f"all pods in a single pod group should match the priority of the pod group, {detail}")


def _scattered(job: JobInfo, group: NativeGroup) -> Verdict | None:
    """Return a refusal if members are in two topology domains, or in none: no other member can join them."""
    if not group.topology_key:
        return None
    placed = [task for task in job.tasks.values() if task.node is not None]
    values = {task.node.spec.labels.get(group.topology_key, "") for task in placed if task.node is not None}
    if len(values) < 2 and "" not in values:
        return None
    names = ", ".join(sorted(task.name for task in placed)[:3])
    detail = f"{group.topology_key} has the values {sorted(values)}"
    return _error(f"cannot determine domain for already scheduled pods: {names}: {detail}")


def without_group(job: JobInfo, *, served: bool) -> Verdict:
    """Return the refusal of pods whose group does not exist, or cannot be made."""
    message = f'PodGroup "{job.label}" of scheduling.k8s.io, which the pod is in, does not exist'
    if not served:
        message += ": the API server has no such kind, or none in a version that is understood"
    return Verdict(Step.NO_PODGROUP, NAME, Scope.JOB, "FailedScheduling", message, resolvable=False)


def waits_for_members(job: JobInfo) -> Verdict | None:
    """Return the refusal of a group that has pods of volsched's and lacks members."""
    verdict = invalidity(job)
    is_ours = any(task.spec.is_managed for task in job.waiting.values())
    return verdict if is_ours and is_incomplete(verdict) else None


def may_preempt(job: JobInfo) -> bool:
    """True if a native group may preempt: by its own field, else if all of its pods may; True for other jobs."""
    group = job.spec.native
    if group is None:
        return True
    return all(task.spec.preempts for task in job.schedulable()) if group.preempts is None else group.preempts
