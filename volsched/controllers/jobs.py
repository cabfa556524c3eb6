"""Volcano Jobs: what their PodGroup and their pods state.

After Volcano's pkg/controllers/job; what a Job leaves out after its pkg/webhooks/admission/jobs/mutate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from volsched.controllers.grouping import DEFAULT_QUEUE, LONGEST_INHERITED, MOST_INHERITED, quantities, request_of
from volsched.controllers.lifecycle import depends, first_tasks, least_of
from volsched.controllers.owners import owner_reference
from volsched.mirror.reading import GROUP_NAME, PREEMPTABLE, ROLE
from volsched.model import api
from volsched.model.dra.announced import announcement
from volsched.model.errors import shortened
from volsched.model.labels import MOST_LABELS
from volsched.model.unserved import is_hard
from volsched.model.values.resources import Resources

QUEUE_NAME: Final = "volcano.sh/queue-name"
TASK_INDEX: Final = "volcano.sh/task-index"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
RETRY_COUNT: Final = "volcano.sh/job-retry-count"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
PARTITION: Final = "volcano.sh/partition-id"

MAX_RETRY: Final = 3
"""The most restarts of a Job, or of a task's containers, if the Job states none or 0, as in Volcano."""

_NEEDED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "pytorch": ("svc",),
    "tensorflow": ("svc",),
    "mpi": ("svc", "ssh"),
}
"""Plugins that others work by: a Job that has these gets those."""

_FROM_JOB: Final[tuple[str, ...]] = (PREEMPTABLE, "volcano.sh/cooldown-time", "volcano.sh/revocable-zone")


LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_DECIDES: Final = ("volcano.sh/", "volsched.io/", "scheduling.k8s.io/")


def identity_only(job: api.Job) -> api.Job:
    """Return only the identity of a Job: a Job that is not run takes no room."""
    meta = job.metadata
    return api.Job(
        metadata=api.ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            deletion_timestamp=meta.deletion_timestamp,
        )
    )


def handed_on(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that a PodGroup inherits from its Job: those that are not very long."""
    return {
        key: value
        for key, value in annotations.items()
        if key != LAST_APPLIED and (len(value) <= LONGEST_INHERITED or _may_decide(key))
    }


def with_what_is_handed_on(meta: api.ObjectMeta) -> api.ObjectMeta:
    """Return the metadata of a Job without parts that no object inherits."""
    return msgspec.structs.replace(meta, annotations=handed_on(meta.annotations), owner_references=(), finalizers=())


def too_much_handed_on(meta: api.ObjectMeta) -> str:
    """Return why a Job has more annotations or labels than it can hand on; empty if it has not."""
    size = sum(len(key) + len(value) for key, value in meta.labels.items())
    if size > MOST_LABELS:
        return f"metadata.labels: have {size} characters, more than the {MOST_LABELS} that a PodGroup gets"
    annotations = meta.annotations
    long = next((key for key, value in annotations.items() if _may_decide(key) and len(value) > LONGEST_INHERITED), "")
    if long:
        size = len(annotations[long])
        return f"metadata.annotations[{shortened(long)}]: has {size} characters, more than {LONGEST_INHERITED}"
    size = sum(len(key) + len(value) for key, value in handed_on(annotations).items())
    if size > MOST_INHERITED:
        return f"metadata.annotations: have {size} characters, more than the {MOST_INHERITED} that a PodGroup gets"
    return ""


def _may_decide(key: str) -> bool:
    return any(part in key for part in _DECIDES)


def with_defaults(job: api.Job, scheduler: str, default_queue: str = DEFAULT_QUEUE) -> api.Job:
    """Return the Job as Volcano's admission completes it. `scheduler` is its default scheduler name.

    A Job whose tasks depend on others and that states no minimum is left without one: see `lifecycle.first_tasks`.
    """
    spec = job.spec
    tasks = tuple(
        msgspec.structs.replace(
            task,
            name=task.name or f"default{number}",
            min_available=task.replicas if task.min_available is None else task.min_available,
        )
        for number, task in enumerate(spec.tasks)
    )
    least = spec.min_available
    if least is None and not any(map(depends, tasks)):
        least = sum(task.min_available or 0 for task in tasks)
    spec = msgspec.structs.replace(
        spec,
        tasks=tasks,
        min_available=least,
        max_retry=spec.max_retry or MAX_RETRY,
        queue=spec.queue or default_queue,
        scheduler_name=spec.scheduler_name or scheduler,
        plugins=_with_needed(spec.plugins),
    )
    return msgspec.structs.replace(job, spec=spec)


def _with_needed(plugins: Mapping[str, tuple[str, ...] | None]) -> dict[str, tuple[str, ...] | None]:
    needed = [other for name in plugins for other in _NEEDED_BY.get(name, ())]
    return {**dict.fromkeys(needed), **plugins}


def group_name(job: api.Job) -> str:
    """Return the name of a Job's PodGroup."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def job_group(job: api.Job, classes: Mapping[str, int], queue: str) -> api.PodGroup:
    """Return the PodGroup of a completed Job, in a queue. `classes` are the values of PriorityClasses."""
    meta, spec = job.metadata, job.spec
    least = least_of(spec)
    return api.PodGroup(
        metadata=api.ObjectMeta(
            name=group_name(job),
            namespace=meta.namespace,
            creation_timestamp=meta.creation_timestamp,
            labels=meta.labels,
            annotations={**_announcement(spec), **meta.annotations},
            owner_references=(owner_reference(job),),
        ),
        spec=api.PodGroupSpec(
            min_member=least,
            min_task_member={task.name: task.min_available or 0 for task in first_tasks(spec)},
            queue=queue,
            priority_class_name=spec.priority_class_name,
            min_resources=quantities(_least_resources(job, least, classes)),
            network_topology=_explicit(spec.network_topology),
            sub_group_policy=tuple(_partitions(spec)),
        ),
        status=api.PodGroupStatus(phase="Pending"),
    )


def _partitions(spec: api.JobSpec) -> Iterator[api.SubGroupPolicy]:
    """Yield the partitions of tasks that must be placed by a topology.

    Others have none in the PodGroup (*ours*): their partitions may start in part, and only matter for RestartPartition.
    """
    for task in spec.tasks:
        policy = task.partition_policy
        if policy is not None and is_hard(policy.network_topology):
            yield api.SubGroupPolicy(
                name=task.name,
                sub_group_size=max(1, policy.partition_size),
                min_sub_groups=max(0, policy.min_partitions or 0),
                label_selector=api.LabelSelector(match_labels={ROLE: task.name}),
                match_label_keys=(PARTITION,),
                network_topology=_explicit(policy.network_topology),
            )


def _explicit(topology: api.NetworkTopology | None) -> api.NetworkTopology | None:
    """Return a topology with its effective mode, so that a default of the API server makes no difference."""
    return msgspec.structs.replace(topology, mode="hard") if topology is not None and is_hard(topology) else topology


def _announcement(spec: api.JobSpec) -> dict[str, str]:
    """Return the PodGroup's annotation for ResourceClaims of pods that do not exist yet (*ours*)."""
    return announcement((task.name, task.template.spec) for task in spec.tasks)


def _least_resources(job: api.Job, least: int, classes: Mapping[str, int]) -> Resources:
    """Return what the first ``least`` pods ask for, the most important tasks first."""
    total, left = Resources.EMPTY, least
    for task in sorted(first_tasks(job.spec), key=lambda t: -_task_priority(t, classes)):
        pods = min(left, task.replicas)
        left -= pods
        total = total.plus(request_of(task.template.spec).scaled(pods))
    return total


def _task_priority(task: api.TaskSpec, classes: Mapping[str, int]) -> int:
    spec = task.template.spec
    return spec.priority if spec.priority is not None else classes.get(spec.priority_class_name, 0)


class WantedPod(NamedTuple):
    """One pod that a Job wants."""

    task: api.TaskSpec
    number: int
    name: str


def members(job: api.Job) -> Iterator[WantedPod]:
    """Yield every pod that a completed Job wants."""
    for task in job.spec.tasks:
        for number in range(task.replicas):
            yield WantedPod(task, number, pod_name(job, task, number))


def pod_name(job: api.Job, task: api.TaskSpec, number: int) -> str:
    """Return the name of a task's pod. Pods are counted from 0."""
    return f"{job.metadata.name}-{task.name}-{number}"


def pod_annotations(job: api.Job, member: WantedPod, group: str) -> dict[str, str]:
    """Return the annotations that a Job's pod has beside those of its template."""
    meta, status = job.metadata, job.status
    return {
        GROUP_NAME: group,
        ROLE: member.task.name,
        TASK_INDEX: str(member.number),
        JOB_NAME: meta.name,
        JOB_VERSION: str(status.version),
        RETRY_COUNT: str(status.retry_count),
        TEMPLATE_UID: f"{meta.name}-{member.task.name}",
        QUEUE_NAME: job.spec.queue,
        **{key: meta.annotations[key] for key in _FROM_JOB if key in meta.annotations},
    }


def pod_labels(job: api.Job, member: WantedPod) -> dict[str, str]:
    """Return the labels that a Job's pod has beside those of its template."""
    meta = job.metadata
    return {
        ROLE: member.task.name,
        TASK_INDEX: str(member.number),
        JOB_NAME: meta.name,
        JOB_NAMESPACE: meta.namespace,
        QUEUE_NAME: job.spec.queue,
        **{key: meta.labels[key] for key in _FROM_JOB if key in meta.labels},
    }


class SharedVolume(NamedTuple):
    """A volume that all pods of a Job have: its name in them, its claim, and whether the Job brings the claim."""

    volume: str
    claim: str
    mount_path: str
    is_own: bool
    place: int
    """Where it stands in `spec.volumes`."""


def shared_volumes(job: api.Job) -> Iterator[SharedVolume]:
    """Yield the volumes that all pods of a Job share. Volumes without a claim are skipped."""
    for number, volume in enumerate(job.spec.volumes):
        if volume.volume_claim is None and not volume.volume_claim_name:
            continue
        claim = volume.volume_claim_name or f"{job.metadata.name}-volume-{number}"
        yield SharedVolume(f"volume-{number}", claim, volume.mount_path, volume.volume_claim is not None, number)
