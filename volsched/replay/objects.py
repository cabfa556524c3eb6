"""Jobs from objects: workloads with durations, and finished or running jobs of a snapshot.

A workload (Volcano Job, batch Job, pod without controller) states its duration in an annotation. The past of a cluster
is read from the pods that still exist, since a pod knows when it started and ended; of a Job without pods, from its
status. A job is removed from the inventory, so that it is not there from the beginning as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgspec

from volsched.controllers import grouping, jobs
from volsched.controllers.owners import as_owner
from volsched.mirror.reading import GROUP_NAME, role_of, seconds
from volsched.model import api
from volsched.model.errors import shortened
from volsched.model.pods.owners import Owner, controller_of
from volsched.model.values.duration import seconds_of
from volsched.replay.jobs import EXPECTED_DURATION, LONGEST_JOB, LONGEST_TRACE, ReplayJob, Role
from volsched.simulation.documents import InputError, InputProblem
from volsched.simulation.manifests import Inventory, identity_of, subject_of

DURATION: Final = "replay.volsched.io/duration"
"""The annotation with the duration of a workload in a replay, as Go writes it."""
SUBMIT: Final = "replay.volsched.io/submit"
"""The annotation with its submission, as a duration from the beginning; without it at the beginning."""

_LONGEST_TEXT: Final = 64
"""Characters of an annotation that a fault shows."""

Workload: TypeAlias = api.Job | api.BatchJob | api.Pod
_SERVICES: Final = ("ReplicaSet", "StatefulSet", "DaemonSet")
_FINISHED: Final = ("Succeeded", "Failed")
_OVER: Final = ("Completed", "Failed", "Terminated", "Aborted")


def annotated_jobs(inventory: Inventory, scheduler: str) -> list[ReplayJob]:
    """Take the workloads out of an inventory that state how long they run.

    Raises InputError for what cannot be read.
    """
    problems: list[InputProblem] = []
    found: list[ReplayJob] = []
    left: list[api.ApiObject] = []
    for each in inventory.objects:
        if not isinstance(each, Workload) or DURATION not in each.metadata.annotations:
            left.append(each)
            continue
        times = {key: _annotation(inventory, each, key, problems) for key in (DURATION, SUBMIT, EXPECTED_DURATION)}
        base = _Shaper(inventory, scheduler).shape(each)
        submit, duration, declared = times[SUBMIT] or 0.0, times[DURATION] or 0.0, times[EXPECTED_DURATION]
        found.append(replace(base, submit=submit, duration=duration, declared=declared))
    if problems:
        raise InputError(problems)
    inventory.objects[:] = left
    return found


def _annotation(inventory: Inventory, found: Workload, key: str, problems: list[InputProblem]) -> float | None:
    text = found.metadata.annotations.get(key)
    if text is None:
        return None
    value, most = seconds_of(text), LONGEST_TRACE if key == SUBMIT else LONGEST_JOB
    if value is None or value > most:
        document = inventory.origin[identity_of(found)]
        message = "is no duration; write it as 4h30m or 90s" if value is None else f"must be {most:.0f}s at most"
        problem = f"{shortened(text, _LONGEST_TEXT)!r} {message}"
        problems.append(document.problem(problem, f"metadata.annotations[{key}]", subject_of(found)))
        return None
    return value


# --- the past -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Past:
    """Jobs that a snapshot tells of, and what it states too little of, as `Kind/namespace/name: why`."""

    jobs: list[ReplayJob]
    left_out: list[str]


def past_jobs(inventory: Inventory, scheduler_names: Sequence[str]) -> Past:
    """Take the jobs of the past out of a snapshot. Seconds are counted from the first that was created.

    A job that still runs counts as ending when the snapshot was made, which is the newest time in it. Pods of
    Deployments, StatefulSets and DaemonSets are no jobs: they hold their room throughout.
    """
    snapshot = _Snapshot(inventory, scheduler_names)
    found = [job for job in snapshot.jobs() if job is not None]
    taken = snapshot.taken
    inventory.objects[:] = [each for each in inventory.objects if identity_of(each) not in taken]
    last = max((job.submit for job in found), default=0.0)
    recent = [job for job in found if last - job.submit <= LONGEST_TRACE]
    too_old = (job.key for job in found if last - job.submit > LONGEST_TRACE)
    old = (f"{key}: it came more than {LONGEST_TRACE:.0f} s before the last one" for key in too_old)
    begin = min((job.submit for job in recent), default=0.0)
    return Past([replace(job, submit=job.submit - begin) for job in recent], [*snapshot.left_out, *old])


class _Snapshot:
    """Reads jobs out of a snapshot."""

    def __init__(self, inventory: Inventory, scheduler_names: Sequence[str]) -> None:
        self.left_out: list[str] = []
        self.taken: set[tuple[str, str, str]] = set()
        self._inventory = inventory
        self._schedulers = scheduler_names
        self._shaper = _Shaper(inventory, scheduler_names[0])
        self._groups = {group.key: group for group in inventory.of(api.PodGroup)}
        workloads: list[api.Job | api.BatchJob] = [*inventory.of(api.Job), *inventory.of(api.BatchJob)]
        self._owners = {as_owner(found): found for found in workloads}
        self._newest = _newest(inventory)

    def jobs(self) -> Iterator[ReplayJob | None]:
        """Yield the job of every gang of pods, then of every finished Job without pods."""
        gangs: dict[Owner | str, list[api.Pod]] = {}
        for pod in self._inventory.of(api.Pod):
            if pod.spec.scheduler_name in self._schedulers and not self._serves(pod):
                gangs.setdefault(self._job_of(pod), []).append(pod)
        for key, pods in gangs.items():
            yield self._of_pods(key, pods)
        for owner, found in self._owners.items():
            if owner not in gangs:
                yield self._of_status(found)

    def _serves(self, pod: api.Pod) -> bool:
        owner = pod.metadata.controller
        return owner is not None and owner.kind in _SERVICES

    def _job_of(self, pod: api.Pod) -> Owner | str:
        owner = controller_of(pod.metadata)
        if owner in self._owners:
            return owner
        group = pod.metadata.annotations.get(GROUP_NAME)
        return f"{pod.metadata.namespace}/{group}" if group else pod.key

    def _of_pods(self, key: Owner | str, pods: Sequence[api.Pod]) -> ReplayJob | None:
        ran = [(start, self._end_of(pod)) for pod in pods if (start := seconds(pod.status.start_time)) is not None]
        workload = self._owners.get(key) if isinstance(key, Owner) else None
        about: Workload = workload if workload is not None else pods[0]
        self._take(about, *pods)
        if not ran:
            self.left_out.append(f"{subject_of(about)}: no pod of it has started")
            return None
        created = [at for pod in pods if (at := seconds(pod.metadata.creation_timestamp)) is not None]
        start, end = max(start for start, _ in ran), max(end for _, end in ran)
        shape = self._shaper.shape(workload) if workload is not None else self._of_group(pods)
        return self._timed(shape, min(created, default=start), max(0.0, end - start), about)

    def _of_group(self, pods: Sequence[api.Pod]) -> ReplayJob:
        """Return the job of pods without a Job in the snapshot, by their PodGroup if it is there."""
        first = pods[0]
        group = self._groups.get(f"{first.metadata.namespace}/{first.metadata.annotations.get(GROUP_NAME, '')}")
        shape = self._shaper.shape(first)
        roles = tuple(_roles(pods))
        if group is None:
            return replace(shape, roles=roles)
        self.taken.add(identity_of(group))
        return replace(
            shape,
            name=group.metadata.name,
            queue=group.spec.queue or grouping.DEFAULT_QUEUE,
            roles=roles,
            min_pods=min(group.spec.min_member or 1, len(pods)),
            priority_class=group.spec.priority_class_name,
            annotations=_own(group.metadata.annotations),
        )

    def _of_status(self, found: api.Job | api.BatchJob) -> ReplayJob | None:
        """Return a Job by its status alone, or None when it is not over, or does not state how long it ran."""
        created = seconds(found.metadata.creation_timestamp)
        duration = _duration_of(found)
        if duration is None or created is None:
            return None
        self._take(found)
        return self._timed(self._shaper.shape(found), created, duration, found)

    def _timed(self, shape: ReplayJob, submit: float, duration: float, about: Workload) -> ReplayJob:
        declared = seconds_of(about.metadata.annotations.get(EXPECTED_DURATION, ""))
        if declared is not None:
            declared = min(declared, LONGEST_JOB)
        return replace(shape, submit=submit, duration=min(max(0.0, duration), LONGEST_JOB), declared=declared)

    def _end_of(self, pod: api.Pod) -> float:
        """Return when a pod ended: with its last container. A running one ends with the snapshot."""
        if pod.status.phase not in _FINISHED:
            return self._newest
        return max((at for stamp in _ends(pod) if (at := seconds(stamp)) is not None), default=self._newest)

    def _take(self, *objects: api.ApiObject) -> None:
        self.taken.update(identity_of(found) for found in objects)


def _duration_of(found: api.Job | api.BatchJob) -> float | None:
    """Return how long a Job ran that is over. A batch Job states when it was taken up, which is before its pods ran."""
    if isinstance(found, api.Job):
        is_over = found.status.state.phase in _OVER
        return seconds_of(found.status.running_duration or "") if is_over else None
    start, end = seconds(found.status.start_time), seconds(found.status.completion_time)
    return end - start if start is not None and end is not None else None


def _ends(pod: api.Pod) -> Iterator[str | None]:
    """Yield when the containers of a pod ended, those that have."""
    for status in pod.status.container_statuses:
        if status.state is not None and status.state.terminated is not None:
            yield status.state.terminated.finished_at


def _newest(inventory: Inventory) -> float:
    """Return the newest time that any object tells of."""
    stamps = [found.metadata.creation_timestamp for found in inventory.objects]
    for pod in inventory.of(api.Pod):
        stamps += [pod.status.start_time, *_ends(pod)]
    return max((at for stamp in stamps if (at := seconds(stamp)) is not None), default=0.0)


# --- shapes ---------------------------------------------------------------------------------------------------------


class _Shaper:
    """Makes the job of a workload, as its controllers would. Its times are set elsewhere."""

    def __init__(self, inventory: Inventory, scheduler: str) -> None:
        self._scheduler = scheduler
        self._classes = {found.metadata.name: found.value for found in inventory.of(api.PriorityClass)}
        self._namespaces = {found.metadata.name: found.metadata for found in inventory.of(api.Namespace)}

    def shape(self, found: Workload) -> ReplayJob:
        """Return the job of a workload, at 0 and over at once."""
        if isinstance(found, api.Job):
            return self._of_volcano(jobs.with_defaults(found, self._scheduler))
        if isinstance(found, api.BatchJob):
            return self._of_batch(found)
        return self._of_template(found, _template(found), 1)

    def _of_volcano(self, job: api.Job) -> ReplayJob:
        group = jobs.job_group(job, self._classes, job.spec.queue)
        roles = tuple(Role.of(_of_task(job, task), task.replicas, task.name) for task in job.spec.tasks)
        least, spec = group.spec.min_task_member, group.spec
        return ReplayJob(
            name=job.metadata.name,
            namespace=job.metadata.namespace,
            queue=self._queue(job.metadata.namespace, spec.queue),
            submit=0.0,
            duration=0.0,
            roles=roles,
            min_pods=spec.min_member,
            priority_class=spec.priority_class_name,
            min_roles=least if sum(least.values()) <= spec.min_member else {},
            annotations=_own(group.metadata.annotations),
            network_topology=spec.network_topology,
        )

    def _of_batch(self, job: api.BatchJob) -> ReplayJob:
        spec = job.spec
        at_once = 1 if spec.parallelism is None else spec.parallelism
        pods = at_once if spec.completions is None else min(at_once, spec.completions)
        return self._of_template(job, spec.template, pods)

    def _of_template(self, found: Workload, template: api.PodTemplateSpec, pods: int) -> ReplayJob:
        meta, annotations = found.metadata, found.metadata.annotations
        pod = api.Pod(metadata=template.metadata, spec=template.spec)
        group = grouping.plain_group(api.ObjectMeta(), grouping.group_template_of(pod), annotations)
        return ReplayJob(
            name=meta.name,
            namespace=meta.namespace,
            queue=self._queue(meta.namespace, group.spec.queue),
            submit=0.0,
            duration=0.0,
            roles=(Role.of(template, pods),),
            min_pods=min(group.spec.min_member, pods),
            priority_class=group.spec.priority_class_name,
            annotations=_own(group.metadata.annotations),
        )

    def _queue(self, namespace: str, queue: str) -> str:
        """Return the queue of a PodGroup: that of its namespace if it names only the default."""
        found = self._namespaces.get(namespace)
        return grouping.admitted_queue(queue, found.annotations.get(grouping.QUEUE_NAME, "") if found else "")


def _template(pod: api.Pod) -> api.PodTemplateSpec:
    """Return a pod as it was before it had a node, without the scheduler's changes."""
    annotations = {key: text for key, text in pod.metadata.annotations.items() if key != GROUP_NAME}
    meta = api.ObjectMeta(labels=pod.metadata.labels, annotations=annotations)
    return api.PodTemplateSpec(metadata=meta, spec=msgspec.structs.replace(pod.spec, node_name=""))


def _of_task(job: api.Job, task: api.TaskSpec) -> api.PodTemplateSpec:
    spec = task.template.spec
    return msgspec.structs.replace(
        task.template,
        spec=msgspec.structs.replace(
            spec,
            scheduler_name=spec.scheduler_name or job.spec.scheduler_name,
            priority_class_name=spec.priority_class_name or job.spec.priority_class_name,
        ),
    )


def _roles(pods: Sequence[api.Pod]) -> Iterator[Role]:
    """Yield pods that ask for the same as one role."""
    alike: list[tuple[api.PodTemplateSpec, str, int]] = []
    for pod in pods:
        template, role = _template(pod), role_of(pod)
        for number, (known, name, count) in enumerate(alike):
            if name == role and known.spec == template.spec:
                alike[number] = known, name, count + 1
                break
        else:
            alike.append((template, role, 1))
    for template, name, count in alike:
        yield Role.of(template, count, name)


def _own(annotations: dict[str, str]) -> dict[str, str]:
    """Return a workload's own data: without its times, and without a scheduler's reservations."""
    return {
        key: text
        for key, text in annotations.items()
        if key not in (DURATION, SUBMIT, EXPECTED_DURATION) and not key.startswith("volsched.io/reserved-")
    }
