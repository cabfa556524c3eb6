"""What controllers would make of workloads: pods, PodGroups, claims. Pure functions over objects.

Names, annotations and labels are those that Kubernetes' and Volcano's controllers give (section 5 of the framework
reference); where a controller would draw a random suffix, an ordinal stands, so that two runs agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from volsched.cache.reading import GROUP_NAME, PREEMPTABLE, ROLE
from volsched.model import api, requests
from volsched.model.errors import FieldError
from volsched.model.quantity import QuantityText, format_amount
from volsched.model.resources import Resources
from volsched.simulation.manifests import completed, derived_uid

QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
JOB_QUEUE_NAME: Final = "volcano.sh/queue-name"
VOLCANO_PREFIX: Final = "volcano.sh/"
DEFAULT_QUEUE: Final = "default"

_FROM_POD: Final[tuple[str, ...]] = (
    PREEMPTABLE,
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
    "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable",
)
_LABELS_FROM_POD: Final[tuple[str, ...]] = (PREEMPTABLE, "volcano.sh/cooldown-time")
_FROM_JOB: Final[tuple[str, ...]] = (PREEMPTABLE, "volcano.sh/cooldown-time", "volcano.sh/revocable-zone")
_API_VERSIONS: Final[Mapping[type[api.ApiObject], tuple[str, str]]] = {
    kind: (version, name) for (version, name), kind in api.KINDS.items()
}


def owner_reference(owner: api.ApiObject) -> api.OwnerReference:
    """Return the reference by which an object says who controls it."""
    version, kind = _API_VERSIONS[type(owner)]
    return api.OwnerReference(kind, owner.metadata.name, owner.metadata.uid, version, controller=True)


@dataclass(frozen=True, slots=True)
class Birth:
    """What is special about a pod that a controller makes: its name, its uid when it is not the first of that name."""

    name: str
    created: str | None = None
    generation: int = 0


def pod_of(owner: api.ApiObject, template: api.PodTemplateSpec, birth: Birth, **changes: object) -> api.Pod:
    """Make a pod from a template; ``changes`` are fields of its spec."""
    namespace = owner.metadata.namespace
    uid = derived_uid("Pod", namespace, f"{birth.name}#{birth.generation}" if birth.generation else birth.name)
    meta = api.ObjectMeta(
        name=birth.name,
        namespace=namespace,
        uid=uid,
        creation_timestamp=birth.created,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(owner_reference(owner),),
    )
    spec = msgspec.structs.replace(template.spec, **changes) if changes else template.spec
    return api.Pod(metadata=meta, spec=spec, status=api.PodStatus(phase="Pending"))


def annotated(pod: api.Pod, annotations: Mapping[str, str], labels: Mapping[str, str] | None = None) -> api.Pod:
    """Return the pod with further annotations and labels."""
    meta = pod.metadata
    meta = msgspec.structs.replace(
        meta, annotations={**meta.annotations, **annotations}, labels={**meta.labels, **(labels or {})}
    )
    return msgspec.structs.replace(pod, metadata=meta)


# --- Kubernetes' own workloads --------------------------------------------------------------------------------------


def replica_set_of(deployment: api.Deployment) -> api.ReplicaSet:
    """Return the ReplicaSet that the Deployment controller would make."""
    meta, template = deployment.metadata, deployment.spec.template
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()[:10]
    labels = {**template.metadata.labels, "pod-template-hash": digest}
    template = msgspec.structs.replace(template, metadata=msgspec.structs.replace(template.metadata, labels=labels))
    made = api.ReplicaSet(
        metadata=api.ObjectMeta(
            name=f"{meta.name}-{digest}",
            namespace=meta.namespace,
            creation_timestamp=meta.creation_timestamp,
            labels=labels,
            annotations=meta.annotations,
            owner_references=(owner_reference(deployment),),
        ),
        spec=msgspec.structs.replace(deployment.spec, template=template),
    )
    return completed(made)


def replicas_of(workload: api.ReplicaSet | api.StatefulSet) -> int:
    """Return how many pods a workload wants; 1 when it does not say."""
    return 1 if workload.spec.replicas is None else workload.spec.replicas


def wanted_of(job: api.BatchJob, succeeded: int) -> int:
    """Return how many pods of a batch Job work at the same time."""
    spec = job.spec
    parallel = 1 if spec.parallelism is None else spec.parallelism
    if spec.suspend:
        return 0
    return parallel if spec.completions is None else max(0, min(parallel, spec.completions - succeeded))


def stateful_names(workload: api.StatefulSet) -> list[str]:
    """Return the names of a StatefulSet's pods."""
    start = workload.spec.ordinals.start if workload.spec.ordinals is not None else 0
    return [f"{workload.metadata.name}-{number}" for number in range(start, start + replicas_of(workload))]


def stateful_pod(workload: api.StatefulSet, birth: Birth) -> tuple[api.Pod, list[api.PersistentVolumeClaim]]:
    """Return a pod of a StatefulSet, and the claims that belong to it."""
    spec = workload.spec
    templates = {template.metadata.name: template for template in spec.volume_claim_templates}
    volumes = [volume for volume in spec.template.spec.volumes if volume.name not in templates]
    claims = []
    for name, template in templates.items():
        claim = f"{name}-{birth.name}"
        volumes.append(api.Volume(name, api.PersistentVolumeClaimSource(claim)))
        claims.append(_claim(workload.metadata.namespace, claim, template.spec, ()))
    return pod_of(workload, spec.template, birth, volumes=tuple(volumes)), claims


def ephemeral_claims(pod: api.Pod) -> list[api.PersistentVolumeClaim]:
    """Return the claims that the volumes of a pod itself stand for."""
    owner = (owner_reference(pod),)
    return [
        _claim(
            pod.metadata.namespace,
            f"{pod.metadata.name}-{volume.name}",
            volume.ephemeral.volume_claim_template.spec,
            owner,
        )
        for volume in pod.spec.volumes
        if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None
    ]


def _claim(
    namespace: str, name: str, spec: api.PersistentVolumeClaimSpec, owners: tuple[api.OwnerReference, ...]
) -> api.PersistentVolumeClaim:
    meta = api.ObjectMeta(name=name, namespace=namespace, owner_references=owners)
    made = api.PersistentVolumeClaim(metadata=meta, spec=spec, status=api.VolumePhase("Pending"))
    return completed(made)


# --- PodGroups of plain pods ----------------------------------------------------------------------------------------


def plain_group_name(pod: api.Pod) -> str:
    """Return the name of the PodGroup that the PodGroup controller makes for a pod without one."""
    owner = pod.metadata.controller
    return f"podgroup-{owner.uid if owner is not None else pod.metadata.uid}"


def plain_group(pod: api.Pod, owner: api.ApiObject | None) -> api.PodGroup:
    """Return the PodGroup that the PodGroup controller makes for a pod, and the other pods of its owner."""
    meta = pod.metadata
    inherited = {k: v for k, v in owner.metadata.annotations.items() if k.startswith(VOLCANO_PREFIX)} if owner else {}
    annotations = {**inherited, **{key: meta.annotations[key] for key in _FROM_POD if key in meta.annotations}}
    members = _min_member(owner)
    made = api.PodGroup(
        metadata=api.ObjectMeta(
            name=plain_group_name(pod),
            namespace=meta.namespace,
            creation_timestamp=meta.creation_timestamp,
            labels={key: meta.labels[key] for key in _LABELS_FROM_POD if key in meta.labels},
            annotations=annotations,
            owner_references=(meta.controller or owner_reference(pod),),
        ),
        spec=api.PodGroupSpec(
            min_member=members,
            queue=meta.annotations.get(QUEUE_NAME, DEFAULT_QUEUE),
            priority_class_name=pod.spec.priority_class_name,
            min_resources=quantities(request_of(pod).scaled(members)),
        ),
        status=api.PodGroupStatus(phase="Pending"),
    )
    return completed(made)


def _min_member(owner: api.ApiObject | None) -> int:
    text = owner.metadata.annotations.get(GROUP_MIN_MEMBER, "") if owner is not None else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 1


def request_of(pod: api.Pod) -> Resources:
    """Return what a pod asks for; nothing when that cannot be read (the scheduler will say so)."""
    try:
        return requests.of_pod(pod).request.without("pods")
    except FieldError:
        return Resources.EMPTY


def quantities(amounts: Mapping[str, int]) -> dict[str, QuantityText]:
    """Return amounts as a resource list."""
    return {name: format_amount(name, amount) for name, amount in sorted(amounts.items())}


# --- Volcano Jobs ---------------------------------------------------------------------------------------------------


def with_defaults(job: api.Job, scheduler: str) -> api.Job:
    """Return the Job as Volcano's admission completes it."""
    spec = job.spec
    tasks = tuple(
        msgspec.structs.replace(
            task,
            name=task.name or f"default{number}",
            min_available=task.replicas if task.min_available is None else task.min_available,
        )
        for number, task in enumerate(spec.tasks)
    )
    least = sum(task.min_available or 0 for task in tasks) if spec.min_available is None else spec.min_available
    spec = msgspec.structs.replace(
        spec,
        tasks=tasks,
        min_available=least,
        queue=spec.queue or DEFAULT_QUEUE,
        scheduler_name=spec.scheduler_name or scheduler,
    )
    return msgspec.structs.replace(job, spec=spec)


def job_group(job: api.Job, classes: Mapping[str, int]) -> api.PodGroup:
    """Return the PodGroup of a completed Job."""
    meta, spec = job.metadata, job.spec
    least = spec.min_available or 0
    made = api.PodGroup(
        metadata=api.ObjectMeta(
            name=f"{meta.name}-{meta.uid}",
            namespace=meta.namespace,
            creation_timestamp=meta.creation_timestamp,
            labels=meta.labels,
            annotations=meta.annotations,
            owner_references=(owner_reference(job),),
        ),
        spec=api.PodGroupSpec(
            min_member=least,
            min_task_member={task.name: task.min_available or 0 for task in spec.tasks},
            queue=spec.queue,
            priority_class_name=spec.priority_class_name,
            min_resources=quantities(_least_resources(job, least, classes)),
            network_topology=spec.network_topology,
        ),
        status=api.PodGroupStatus(phase="Pending"),
    )
    return completed(made)


def _least_resources(job: api.Job, least: int, classes: Mapping[str, int]) -> Resources:
    """Return what the first ``least`` pods ask for, the most important tasks first."""
    total, left = Resources.EMPTY, least
    for task in sorted(job.spec.tasks, key=lambda t: -_task_priority(t, classes)):
        pods = min(left, task.replicas)
        left -= pods
        one = request_of(pod_of(job, task.template, Birth(job.metadata.name)))
        total = total.plus(one.scaled(pods))
    return total


def _task_priority(task: api.TaskSpec, classes: Mapping[str, int]) -> int:
    spec = task.template.spec
    return spec.priority if spec.priority is not None else classes.get(spec.priority_class_name, 0)


def job_pod_names(job: api.Job) -> Iterator[tuple[api.TaskSpec, int, str]]:
    """Yield task, index and name of every pod of a completed Job."""
    for task in job.spec.tasks:
        for index in range(task.replicas):
            yield task, index, f"{job.metadata.name}-{task.name}-{index}"


def job_pod(job: api.Job, task: api.TaskSpec, index: int, group: str, birth: Birth) -> api.Pod:
    """Return one pod of a completed Job."""
    meta, spec = job.metadata, task.template.spec
    changes: dict[str, object] = {"volumes": (*spec.volumes, *(volume for volume, _ in job_volumes(job)))}
    if not spec.scheduler_name:
        changes["scheduler_name"] = job.spec.scheduler_name
    if not spec.priority_class_name:
        changes["priority_class_name"] = job.spec.priority_class_name
    annotations = {
        GROUP_NAME: group,
        ROLE: task.name,
        "volcano.sh/task-index": str(index),
        "volcano.sh/job-name": meta.name,
        "volcano.sh/job-version": "0",
        "volcano.sh/job-retry-count": "0",
        "volcano.sh/template-uid": f"{meta.name}-{task.name}",
        JOB_QUEUE_NAME: job.spec.queue,
        **{key: meta.annotations[key] for key in _FROM_JOB if key in meta.annotations},
    }
    labels = {
        ROLE: task.name,
        "volcano.sh/task-index": str(index),
        "volcano.sh/job-name": meta.name,
        "volcano.sh/job-namespace": meta.namespace,
        JOB_QUEUE_NAME: job.spec.queue,
        **{key: meta.labels[key] for key in _FROM_JOB if key in meta.labels},
    }
    return annotated(pod_of(job, task.template, birth, **changes), annotations, labels)


def job_volumes(job: api.Job) -> Sequence[tuple[api.Volume, api.PersistentVolumeClaim | None]]:
    """Return the volumes that all pods of a Job share, each with its claim when the Job brings it."""
    found = []
    for number, volume in enumerate(job.spec.volumes):
        name = volume.volume_claim_name or f"{job.metadata.name}-volume-{number}"
        claim = None
        if volume.volume_claim is not None:
            claim = _claim(job.metadata.namespace, name, volume.volume_claim, (owner_reference(job),))
        elif not volume.volume_claim_name:
            continue
        found.append((api.Volume(f"volume-{number}", api.PersistentVolumeClaimSource(name)), claim))
    return found
