"""Pods and claims of workloads in memory. Pure functions over objects.

The rules of PodGroups and Volcano Jobs are those of `volsched.controllers`, as on a cluster. Names are those of
Kubernetes' controllers; an ordinal replaces their random suffixes, so that two runs agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from volsched.controllers import grouping, jobs
from volsched.controllers.owners import owner_reference
from volsched.mirror.reading import generated_group_name
from volsched.model import api
from volsched.simulation.manifests import completed, derived_uid

_BACKOFF_LIMIT: Final = 6
"""The default number of failed pods that a batch Job outlives."""


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """The identity of a pod that a controller makes: its name, and its number among all new pods."""

    name: str
    created: str | None = None
    number: int = 0


def pod_of(owner: api.ApiObject, template: api.PodTemplateSpec, identity: PodIdentity, **changes: object) -> api.Pod:
    """Make a pod from a template. ``changes`` are fields of its spec."""
    namespace = owner.metadata.namespace
    # ties end at uids: those made first come first, whatever they are called
    uid = f"{identity.number:08x}{derived_uid('Pod', namespace, identity.name)[8:]}"
    meta = api.ObjectMeta(
        name=identity.name,
        namespace=namespace,
        uid=uid,
        creation_timestamp=identity.created,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(owner_reference(owner),),
    )
    if not template.spec.scheduler_name:
        changes = {"scheduler_name": api.DEFAULT_SCHEDULER, **changes}
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


def replicas_of(workload: api.Deployment | api.ReplicaSet | api.StatefulSet) -> int:
    """Return how many pods a workload wants; 1 when it does not state."""
    return 1 if workload.spec.replicas is None else workload.spec.replicas


def wanted_of(job: api.BatchJob, phases: Mapping[str, int]) -> int:
    """Return the parallelism of a batch Job; 0 if it is over, or too many pods have failed.

    ``phases``: how many pods of the Job are in each phase.
    """
    spec = job.spec
    parallel = 1 if spec.parallelism is None else spec.parallelism
    is_over = any(c.type in ("Complete", "Failed") and c.status == "True" for c in job.status.conditions)
    if spec.suspend or is_over or has_failed(job, phases):
        return 0
    succeeded = phases.get("Succeeded", 0)
    return parallel if spec.completions is None else max(0, min(parallel, spec.completions - succeeded))


def has_failed(job: api.BatchJob, phases: Mapping[str, int]) -> bool:
    """True if more pods of a batch Job have failed than it may start again."""
    spec = job.spec
    default = None if spec.backoff_limit_per_index is not None else _BACKOFF_LIMIT
    limit = default if spec.backoff_limit is None else spec.backoff_limit
    return limit is not None and phases.get("Failed", 0) > limit


def stateful_names(workload: api.StatefulSet) -> list[str]:
    """Return the names of a StatefulSet's pods."""
    start = workload.spec.ordinals.start if workload.spec.ordinals is not None else 0
    return [f"{workload.metadata.name}-{number}" for number in range(start, start + replicas_of(workload))]


def stateful_pod(workload: api.StatefulSet, identity: PodIdentity) -> tuple[api.Pod, list[api.PersistentVolumeClaim]]:
    """Return a pod of a StatefulSet, and the claims that belong to it."""
    spec = workload.spec
    templates = {template.metadata.name: template for template in spec.volume_claim_templates}
    volumes = [volume for volume in spec.template.spec.volumes if volume.name not in templates]
    claims = []
    for name, template in templates.items():
        claim = f"{name}-{identity.name}"
        volumes.append(api.Volume(name, api.PersistentVolumeClaimSource(claim)))
        claims.append(_claim(workload.metadata.namespace, claim, template.spec, ()))
    return pod_of(workload, spec.template, identity, volumes=tuple(volumes)), claims


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


# --- PodGroups and Volcano Jobs -------------------------------------------------------------------------------------


def plain_group(pod: api.Pod, owner: api.ApiObject | None) -> api.PodGroup:
    """Return the PodGroup that the PodGroup controller makes for a pod, and the other pods of its owner."""
    meta = api.ObjectMeta(
        name=generated_group_name(pod),
        namespace=pod.metadata.namespace,
        creation_timestamp=pod.metadata.creation_timestamp,
        owner_references=(grouping.group_owner(pod),),
    )
    annotations = owner.metadata.annotations if owner is not None else {}
    return completed(grouping.plain_group(meta, grouping.group_template_of(pod), annotations))


def job_pod(job: api.Job, member: jobs.WantedPod, group: str, identity: PodIdentity) -> api.Pod:
    """Return one pod of a completed Job."""
    spec = member.task.template.spec
    shared = (api.Volume(v.volume, api.PersistentVolumeClaimSource(v.claim)) for v in jobs.shared_volumes(job))
    changes: dict[str, object] = {"volumes": (*spec.volumes, *shared)}
    if not spec.scheduler_name:
        changes["scheduler_name"] = job.spec.scheduler_name
    if not spec.priority_class_name:
        changes["priority_class_name"] = job.spec.priority_class_name
    made = pod_of(job, member.task.template, identity, **changes)
    return annotated(made, jobs.pod_annotations(job, member, group), jobs.pod_labels(job, member))


def job_claims(job: api.Job) -> list[api.PersistentVolumeClaim]:
    """Return the claims that a Job brings for the volumes that its pods share."""
    owner = (owner_reference(job),)
    return [
        _claim(job.metadata.namespace, shared.claim, claim, owner)
        for shared in jobs.shared_volumes(job)
        if (claim := job.spec.volumes[shared.place].volume_claim) is not None
    ]
