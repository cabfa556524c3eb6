"""Faults of a PodGroup or a Volcano Job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import Final

from volsched.controllers import job_plugins
from volsched.controllers.policies import TARGETED
from volsched.framework.validation import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    REQUIRED,
    Fault,
    Faults,
    under,
    warning,
)
from volsched.model import api
from volsched.model.errors import quoted, shortened
from volsched.validation.pods import duplicates, not_below_zero, pod_faults
from volsched.validation.queues import use_faults
from volsched.validation.states import one_of

POLICY_ACTIONS: Final = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)
POLICY_EVENTS: Final = (
    "*",
    "PodFailed",
    "PodEvicted",
    "PodPending",
    "PodRunning",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    "OutOfSync",
    "CommandIssued",
    "JobUpdated",
)
_IN_TEMPLATE: Final = re.compile(r"spec\.tasks\[\d+\]\.template\.")
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST_LABEL: Final = 63
MOST_REPLICAS: Final = 150_000
"""The most pods of a Job: as many as a Kubernetes cluster is made for ("Considerations for large clusters").

Controllers list the pods of a Job by name, so the number needs a bound.
"""

MOST_TASKS: Final = 256
MOST_POLICIES: Final = 64
MOST_VOLUMES: Final = 64
"""The most tasks, policies and volumes of a Job: as many as volsched's CRD accepts, whichever is installed.

Each look at a Job goes through all of them, and each volume is in every container.
"""

_MOST_FAULTS: Final = 5
"""The most named faults of a Job that is not run: an Event has no room for more."""

LONGEST_PROBLEM: Final = 800
"""The longest text about a Job that is not run. An Event takes 1024 characters."""


def group_faults(group: api.PodGroup, queues: Mapping[str, api.Queue]) -> Faults:
    """Yield what is wrong with a PodGroup."""
    spec = group.spec
    yield from not_below_zero("spec.minMember", spec.min_member)
    for role, least in spec.min_task_member.items():
        yield from not_below_zero(f"spec.minTaskMember[{role}]", least)
    roles = sum(spec.min_task_member.values())
    if roles > spec.min_member > 0:
        message = f"{spec.min_member} is below the sum of minTaskMember, {roles}: the minima of the roles do not count"
        yield warning("spec.minMember", INVALID, message)
    yield from use_faults("spec.queue", spec.queue or "default", queues)


def job_faults(job: api.Job, queues: Mapping[str, api.Queue]) -> Faults:
    """Yield the faults of a Volcano Job, its pods included; of one that is too large only that."""
    spec = job.spec
    too_many = list(_too_many(spec))
    if too_many:
        yield from too_many
        return
    if not spec.tasks:
        yield Fault("spec.tasks", REQUIRED, "is missing; a Job has at least one task")
    yield from _name_faults(job)
    yield from duplicates("spec.tasks", _task_names(spec), "task")
    for number, task in enumerate(spec.tasks):
        if task.name and (len(task.name) > _LONGEST_LABEL or not _DNS_LABEL.fullmatch(task.name)):
            message = f"{shortened(task.name, 80)!r} must be a name for pods: a-z, 0-9 and dashes inside, 63 at most"
            yield Fault(f"spec.tasks[{number}].name", INVALID, message)
        yield from under(f"spec.tasks[{number}]", _task_faults(task))
    yield from _number_faults(spec)
    yield from _policies_faults("spec.policies", spec.policies)
    yield from dependency_faults(job)
    yield from _unsupported_plugins(job)
    for name, message in job_plugins.faults(job):
        yield Fault(f"spec.plugins[{name}]", INVALID, message)
    yield from use_faults("spec.queue", spec.queue or "default", queues)


def job_problem(job: api.Job, *, with_templates: bool = True) -> str:
    """Return the fault for which controllers do not run a completed Job; empty if they do.

    Without templates faults of its pods alone do not count.
    """
    faults = (fault for fault in job_faults(job, {}) if fault.severity == "error")
    told = (
        f"{fault.field}: {fault.message}" for fault in faults if with_templates or not _IN_TEMPLATE.match(fault.field)
    )
    return shortened("; ".join(islice(told, _MOST_FAULTS)), LONGEST_PROBLEM)


def _unsupported_plugins(job: api.Job) -> Faults:
    """Yield a warning for each plugin that is not played here: Volcano's own controllers play some of them."""
    known = ", ".join(job_plugins.PLAYED)
    for name in job_plugins.unsupported(job):
        field = f"spec.plugins[{shortened(name)}]"
        if name in job_plugins.OF_VOLCANO:
            message = f"volsched's controllers do not run a Job with it, only Volcano's own do; volsched plays {known}"
            yield warning(field, NOT_SUPPORTED, message)
        else:
            message = f"there is no such plugin of Volcano Jobs, so the Job is not run; volsched plays {known}"
            yield warning(field, NOT_FOUND, message)


def _too_many(spec: api.JobSpec) -> Faults:
    """Yield what a Job has more of than is looked through."""
    replicas = sum(max(0, task.replicas) for task in spec.tasks)
    if replicas > MOST_REPLICAS:
        yield Fault(
            "spec.tasks", INVALID, f"{replicas} replicas together are more than {MOST_REPLICAS}; make more Jobs"
        )
    if len(spec.tasks) > MOST_TASKS:
        yield Fault("spec.tasks", INVALID, f"{len(spec.tasks)} are more than {MOST_TASKS}; make more Jobs")
    if len(spec.volumes) > MOST_VOLUMES:
        yield Fault("spec.volumes", INVALID, f"{len(spec.volumes)} are more than {MOST_VOLUMES}")
    lists = [("spec.policies", spec.policies)]
    lists += ((f"spec.tasks[{number}].policies", task.policies) for number, task in enumerate(spec.tasks))
    for field, policies in lists:
        if len(policies) > MOST_POLICIES:
            yield Fault(field, INVALID, f"{len(policies)} are more than {MOST_POLICIES}")


def _name_faults(job: api.Job) -> Faults:
    """Yield a fault if the Job's name cannot be the label that its pods have it as."""
    name = job.metadata.name
    if len(name) > _LONGEST_LABEL:
        message = f"{shortened(name)!r} has {len(name)} characters; pods have it as a label, which has {_LONGEST_LABEL}"
        yield Fault("metadata.name", INVALID, message)


def _task_names(spec: api.JobSpec) -> list[str]:
    """Return the names of a Job's tasks as admission completes them."""
    return [task.name or f"default{number}" for number, task in enumerate(spec.tasks)]


def _number_faults(spec: api.JobSpec) -> Faults:
    replicas = sum(max(0, task.replicas) for task in spec.tasks)
    yield from not_below_zero("spec.minAvailable", spec.min_available)
    if spec.min_available is not None and spec.min_available > replicas:
        yield Fault(
            "spec.minAvailable", INVALID, f"{spec.min_available} is more than the {replicas} replicas of all tasks"
        )
    if spec.min_success is not None and not 1 <= spec.min_success <= max(1, replicas):
        yield Fault("spec.minSuccess", INVALID, f"{spec.min_success} must be from 1 to {replicas}")
    yield from not_below_zero("spec.maxRetry", spec.max_retry)
    yield from not_below_zero("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished)


def _task_faults(task: api.TaskSpec) -> Faults:
    yield from not_below_zero("replicas", task.replicas)
    yield from not_below_zero("minAvailable", task.min_available)
    if task.min_available is not None and task.min_available > task.replicas:
        yield Fault("minAvailable", INVALID, f"{task.min_available} is more than the {task.replicas} replicas")
    yield from _policies_faults("policies", task.policies)
    if task.template.spec.scheduling_group is not None:
        message = "pods of a Volcano Job are in its own PodGroup; take this out, or make a Job of batch/v1"
        yield Fault("template.spec.schedulingGroup", FORBIDDEN, message)
    yield from under("template.spec", pod_faults(task.template.spec, task.template.metadata))


def _policies_faults(field: str, policies: tuple[api.LifecyclePolicy, ...]) -> Faults:
    seen: set[str | int] = set()
    for number, policy in enumerate(policies):
        at = f"{field}[{number}]"
        yield from one_of(f"{at}.action", policy.action, POLICY_ACTIONS)
        if not policy.action:
            yield Fault(f"{at}.action", REQUIRED, "is missing")
        events = [*([policy.event] if policy.event else []), *policy.events]
        for event in events:
            yield from one_of(f"{at}.event", event, POLICY_EVENTS)
        if "Unknown" in events and policy.action in TARGETED:
            message = f"{policy.action} does nothing on Unknown, which is about the whole Job; take RestartJob"
            yield warning(f"{at}.action", INVALID, message)
        if policy.exit_code is not None and events:
            yield Fault(f"{at}.exitCode", FORBIDDEN, "is for a policy without events")
        if policy.exit_code == 0:
            yield Fault(f"{at}.exitCode", INVALID, "0 is no failure; a policy is for another exit code")
        if policy.exit_code is None and not events:
            yield Fault(f"{at}.event", REQUIRED, "is missing; a policy is for an event or an exit code")
        reasons: list[str | int] = [*events]
        if policy.exit_code is not None:
            reasons.append(policy.exit_code)
        for what in reasons:
            if what in seen:
                yield Fault(at, DUPLICATE, f"there is another policy for {what}")
            seen.add(what)
    if "*" in seen and len(policies) > 1:
        yield Fault(field, FORBIDDEN, "a policy for all events (*) must be the only one")


def dependency_faults(job: api.Job) -> Faults:
    """Yield a fault for each missing task on which others depend, and for tasks in a circle."""
    names = _task_names(job.spec)
    waits_for = {
        name: task.depends_on.name
        for name, task in zip(names, job.spec.tasks, strict=True)
        if task.depends_on is not None
    }
    known = frozenset(names)
    for number, task in enumerate(job.spec.tasks):
        for place, other in enumerate(task.depends_on.name if task.depends_on is not None else ()):
            if other not in known:
                field = f"spec.tasks[{number}].dependsOn.name[{place}]"
                yield Fault(field, NOT_FOUND, f"there is no task {shortened(other)!r}")
    try:
        TopologicalSorter(waits_for).prepare()
    except CycleError as error:
        circle = error.args[1][:0:-1]
        number = min(map(names.index, circle))
        first = circle.index(names[number])
        others = [*circle[first + 1 :], *circle[:first]]
        over = f", over {quoted(others)}" if others else ""
        message = f"task {shortened(names[number])!r} waits for itself{over}: its pods are never made"
        yield Fault(f"spec.tasks[{number}].dependsOn", INVALID, message)
