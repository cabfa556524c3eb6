"""Kubernetes' Job controller with the gate WorkloadWithJob: Jobs that run as gangs have PodGroups.

The rules for these Jobs, and their objects, are those of Kubernetes 1.36 (``pkg/controller/job/util/utils.go`` and
``job_scheduling_manager.go``): Indexed, all pods at a time and more than one, no group of their own, not started.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import msgspec

from volsched.controllers.owners import owner_reference
from volsched.model import api
from volsched.model.api import native_groups as native


def with_job_gangs(objects: Iterable[api.ApiObject]) -> Iterator[api.ApiObject]:
    """Yield the objects, and before each Job that runs as a gang its Workload and its PodGroup."""
    for found in objects:
        if isinstance(found, api.BatchJob) and _is_gang(found):
            yield from _gang_of(found)
        else:
            yield found


def _is_gang(job: api.BatchJob) -> bool:
    spec = job.spec
    size = spec.parallelism or 1
    is_whole = spec.completion_mode == "Indexed" and size > 1 and spec.completions == size
    return is_whole and spec.template.spec.scheduling_group is None and job.status.start_time is None


def _gang_of(job: api.BatchJob) -> Iterator[api.ApiObject]:
    """Yield the Workload, the PodGroup, and the Job whose pods are in it."""
    name = job.metadata.name
    workload, template = f"{name}-{_digest(name)}", f"{name}-pgt-0"
    group = f"{workload}-{template}-{_digest(workload, template)}"
    policy = {"gang": {"minCount": job.spec.parallelism}}
    reference = {"workload": {"workloadName": workload, "podGroupTemplateName": template}}
    yield native.Workload(metadata=_metadata(job, workload))
    yield native.PodGroupV1alpha2(
        metadata=_metadata(job, group), spec={"podGroupTemplateRef": reference, "schedulingPolicy": policy}
    )
    pod = job.spec.template.spec
    pod = msgspec.structs.replace(pod, scheduling_group=api.SchedulingGroup(group))
    made = msgspec.structs.replace(job.spec.template, spec=pod)
    yield msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, template=made))


def _metadata(job: api.BatchJob, name: str) -> api.ObjectMeta:
    """Return the identity of an object of a Job, without a label and an annotation of the Job."""
    meta = job.metadata
    return api.ObjectMeta(
        name=name,
        namespace=meta.namespace,
        creation_timestamp=meta.creation_timestamp,
        owner_references=(owner_reference(job),),
    )


def _digest(*names: str) -> str:
    """Return a suffix like the controller's, and the same in every run."""
    return hashlib.sha256("/".join(names).encode()).hexdigest()[:5]
