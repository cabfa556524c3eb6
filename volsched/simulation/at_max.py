"""Objects that autoscalers and schedules would bring about at most: `volsched simulate --at-max` adds them.

A CronJob stands for one run beside those that its policy lets go on; a HorizontalPodAutoscaler for as many replicas of
its target as it may ever set. Pure functions over objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from volsched.model import api

FORBIDS_MORE: Final = ("Forbid", "Replace")
"""A run that has not ended keeps the next one away, or makes way for it: there is one at a time."""

_REVISION: Final = "deployment.kubernetes.io/revision"


class JobTemplate(api.Record, frozen=True):
    """The Job that a CronJob makes."""

    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: api.BatchJobSpec = api.BatchJobSpec()


class CronJobSpec(api.Record, frozen=True):
    """The spec of a Volcano CronJob."""

    suspend: bool = False
    concurrency_policy: str = ""
    job_template: JobTemplate = JobTemplate()


class CronJob(api.ApiObject, frozen=True):
    """batch/v1 CronJob."""

    spec: CronJobSpec = CronJobSpec()


class VolcanoJobTemplate(api.Record, frozen=True):
    """The Volcano Job that a CronJob makes."""

    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: api.JobSpec = api.JobSpec()


class VolcanoCronJobSpec(api.Record, frozen=True):
    """The spec of a Volcano CronJob."""

    suspend: bool = False
    concurrency_policy: str = ""
    job_template: VolcanoJobTemplate = VolcanoJobTemplate()


class VolcanoCronJob(api.ApiObject, frozen=True):
    """batch.volcano.sh/v1alpha1 CronJob."""

    spec: VolcanoCronJobSpec = VolcanoCronJobSpec()


class ScaleTarget(api.Record, frozen=True):
    """Whose replicas an autoscaler sets."""

    kind: str = ""
    name: str = ""


class AutoscalerSpec(api.Record, frozen=True):
    """How many replicas there may be."""

    scale_target_ref: ScaleTarget = ScaleTarget()
    max_replicas: int = 0


class HorizontalPodAutoscaler(api.ApiObject, frozen=True):
    """HorizontalPodAutoscaler of autoscaling, of any version."""

    spec: AutoscalerSpec = AutoscalerSpec()


KINDS: Final[Mapping[tuple[str, str], type[api.ApiObject]]] = {
    ("batch", "CronJob"): CronJob,
    ("batch.volcano.sh", "CronJob"): VolcanoCronJob,
    ("autoscaling", "HorizontalPodAutoscaler"): HorizontalPodAutoscaler,
}
"""By group and kind."""

Scaled: TypeAlias = api.Deployment | api.ReplicaSet | api.StatefulSet
_SCALED: Final = ("Deployment", "ReplicaSet", "StatefulSet")


class Doubt(NamedTuple):
    """Something that an autoscaler or a CronJob asks for and that cannot be simulated."""

    about: api.ApiObject
    field: str
    message: str


def at_most(objects: Sequence[api.ApiObject]) -> tuple[list[api.ApiObject], list[Doubt]]:
    """Return an input with its CronJobs run and its workloads scaled, and the failures."""
    autoscalers = [found for found in objects if isinstance(found, HorizontalPodAutoscaler)]
    workloads = _Workloads(list(_run(objects)))
    by_size = sorted(autoscalers, key=lambda autoscaler: autoscaler.spec.max_replicas)  # the largest has the last word
    doubts = [doubt for autoscaler in by_size for doubt in workloads.scale(autoscaler)]
    return workloads.objects, doubts


def run_of(found: api.ApiObject, name: str = "") -> api.BatchJob | api.Job | None:
    """Return the Job that a CronJob makes, under a name, or None for any other object."""
    if not isinstance(found, CronJob | VolcanoCronJob):
        return None
    meta, template = found.metadata, found.spec.job_template
    made = msgspec.structs.replace(
        template.metadata,
        name=name or meta.name,
        namespace=meta.namespace,
        creation_timestamp=None,
        uid="",
        owner_references=(api.OwnerReference("CronJob", meta.name, meta.uid, controller=True),),
    )
    if isinstance(found, VolcanoCronJob):
        return api.Job(metadata=made, spec=found.spec.job_template.spec)
    return api.BatchJob(metadata=made, spec=found.spec.job_template.spec)


# --- CronJobs -------------------------------------------------------------------------------------------------------


def _run(objects: Sequence[api.ApiObject]) -> Iterator[api.ApiObject]:
    """Yield the objects, with its run in place of each CronJob, if it may begin one."""
    names = {found.key for found in objects if isinstance(found, api.BatchJob | api.Job)}
    running = {_owner_of(found) for found in objects if isinstance(found, api.BatchJob | api.Job) and _goes_on(found)}
    for found in objects:
        if isinstance(found, HorizontalPodAutoscaler):
            continue
        if not isinstance(found, CronJob | VolcanoCronJob):
            yield found
        elif not found.spec.suspend and not (
            found.spec.concurrency_policy in FORBIDS_MORE and (found.metadata.namespace, found.metadata.name) in running
        ):
            made = run_of(found, _free_name(found, names))
            if made is not None:
                names.add(made.key)
                yield made


def _free_name(cron: api.ApiObject, names: set[str]) -> str:
    name = f"{cron.metadata.name}-next"
    while f"{cron.metadata.namespace}/{name}" in names:
        name += "-next"
    return name


def _owner_of(job: api.ApiObject) -> tuple[str, str]:
    controller = job.metadata.controller
    named = controller.name if controller is not None and controller.kind == "CronJob" else ""
    return job.metadata.namespace, named


def _goes_on(job: api.BatchJob | api.Job) -> bool:
    if isinstance(job, api.Job):
        return job.status.state.phase not in ("Completed", "Failed", "Terminated", "Aborted")
    return not any(c.type in ("Complete", "Failed") and c.status == "True" for c in job.status.conditions)


# --- autoscalers ----------------------------------------------------------------------------------------------------


class _Workloads:
    """The objects, and where in them workloads are that can be scaled."""

    def __init__(self, objects: list[api.ApiObject]) -> None:
        self.objects = objects
        self._places: dict[tuple[str, str, str], int] = {}
        self._sets: dict[str, list[int]] = {}
        for place, found in enumerate(objects):
            if isinstance(found, Scaled):
                meta = found.metadata
                self._places[type(found).__name__, meta.namespace, meta.name] = place
            if isinstance(found, api.ReplicaSet):
                self._sets.setdefault(_controller_of(found), []).append(place)

    def scale(self, autoscaler: HorizontalPodAutoscaler) -> Iterator[Doubt]:
        """Give the target of an autoscaler all its replicas. Yield why that cannot be."""
        target = autoscaler.spec.scale_target_ref
        place = self._places.get((target.kind, autoscaler.metadata.namespace, target.name))
        if target.kind not in _SCALED:
            yield Doubt(autoscaler, "spec.scaleTargetRef.kind", f"{target.kind or 'nothing'} is not scaled here")
        elif place is None:
            message = f"there is no {target.kind} {target.name!r} in the input"
            yield Doubt(autoscaler, "spec.scaleTargetRef.name", message)
        elif self._replicas(place) == 0:
            message = f"{target.kind} {target.name!r} has 0 replicas, which switches its autoscaler off"
            yield Doubt(autoscaler, "spec.scaleTargetRef", message)
        else:
            self._set(place, autoscaler.spec.max_replicas)
            self._scale_newest(self.objects[place], autoscaler.spec.max_replicas)

    def _scale_newest(self, deployment: api.ApiObject, most: int) -> None:
        """Give the newest ReplicaSet of a Deployment the replicas that the others leave."""
        places = self._sets.get(f"Deployment/{deployment.key}", []) if isinstance(deployment, api.Deployment) else []
        if places:
            newest = max(places, key=lambda place: (_revision_of(self.objects[place]), place))
            self._set(newest, max(0, most - sum(self._replicas(place) for place in places if place != newest)))

    def _replicas(self, place: int) -> int:
        found: Any = self.objects[place]
        return 1 if found.spec.replicas is None else int(found.spec.replicas)

    def _set(self, place: int, replicas: int) -> None:
        found: Any = self.objects[place]
        self.objects[place] = msgspec.structs.replace(
            found, spec=msgspec.structs.replace(found.spec, replicas=replicas)
        )


def _controller_of(found: api.ReplicaSet) -> str:
    controller = found.metadata.controller
    return f"{controller.kind}/{found.metadata.namespace}/{controller.name}" if controller is not None else ""


def _revision_of(found: api.ApiObject) -> int:
    text = found.metadata.annotations.get(_REVISION, "")
    return int(text) if text.isdecimal() and len(text) < 20 else 0
