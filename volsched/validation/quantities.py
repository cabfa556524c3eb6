"""Every quantity of an object must be one, and none may be below zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from volsched.framework.validation import INVALID, WORKLOADS, Fault, Faults, pods_in
from volsched.model import api
from volsched.model.errors import QuantityError
from volsched.model.values.quantity import QuantityText, amount_of


def quantity_faults(found: api.ApiObject) -> Faults:
    """Yield what is wrong with the quantities of an object of any kind."""
    if isinstance(found, api.CSIStorageCapacity):
        return _of_capacity(found)
    listed = _LISTS.get(type(found))
    return _all(listed(found)) if listed is not None else iter(())


def pod_spec_faults(spec: api.PodSpec) -> Faults:
    """Yield the faults of quantities of a pod, or of a template's pod; paths begin inside the spec."""
    return _all(_of_pod_spec(spec, ""))


Listed = Iterator[tuple[str, Mapping[str, QuantityText] | Mapping[str, QuantityText | None]]]


def _all(lists: Listed) -> Faults:
    for path, quantities in lists:
        yield from under_list(path, quantities)


def under_list(path: str, quantities: Mapping[str, QuantityText] | Mapping[str, QuantityText | None]) -> Faults:
    """Yield what is wrong in one resource list."""
    for name, text in quantities.items():
        try:
            amount = amount_of(name, text)
        except QuantityError as error:
            yield Fault(f"{path}[{name}]", INVALID, str(error))
            continue
        if amount < 0:
            yield Fault(f"{path}[{name}]", INVALID, f"{text!r} must not be negative")


def _of_pod_spec(spec: api.PodSpec, prefix: str) -> Listed:
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for number, container in enumerate(containers):
            yield from _of_resources(container.resources, f"{prefix}{kind}[{number}].resources")
    if spec.resources is not None:
        yield from _of_resources(spec.resources, f"{prefix}resources")
    yield f"{prefix}overhead", spec.overhead
    for number, volume in enumerate(spec.volumes):
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is not None:
            path = f"{prefix}volumes[{number}].ephemeral.volumeClaimTemplate.spec.resources"
            yield from _of_resources(template.spec.resources, path)


def _of_resources(resources: api.ResourceRequirements, path: str) -> Listed:
    yield f"{path}.requests", resources.requests
    yield f"{path}.limits", resources.limits


def _of_node(node: api.Node) -> Listed:
    yield "status.capacity", node.status.capacity
    yield "status.allocatable", node.status.allocatable


def _of_queue(queue: api.Queue) -> Listed:
    yield "spec.capability", queue.spec.capability
    yield "spec.deserved", queue.spec.deserved
    yield "spec.guarantee.resource", queue.spec.guarantee.resource


def _of_group(group: api.PodGroup) -> Listed:
    yield "spec.minResources", group.spec.min_resources or {}


def _of_pods(found: api.ApiObject) -> Listed:
    for pod in pods_in(found):
        yield from _of_pod_spec(pod.spec, f"{pod.prefix}spec.")


def _of_stateful_set(found: api.StatefulSet) -> Listed:
    yield from _of_pods(found)
    for number, template in enumerate(found.spec.volume_claim_templates):
        yield from _of_resources(template.spec.resources, f"spec.volumeClaimTemplates[{number}].spec.resources")


def _of_job(job: api.Job) -> Listed:
    yield from _of_pods(job)
    for number, volume in enumerate(job.spec.volumes):
        if volume.volume_claim is not None:
            yield from _of_resources(volume.volume_claim.resources, f"spec.volumes[{number}].volumeClaim.resources")


def _of_capacity(found: api.CSIStorageCapacity) -> Faults:
    for field, text in (("capacity", found.capacity), ("maximumVolumeSize", found.maximum_volume_size)):
        if text is not None:
            yield from (replace(fault, field=field) for fault in under_list(field, {"storage": text}))


def _of_claim(claim: api.PersistentVolumeClaim) -> Listed:
    yield from _of_resources(claim.spec.resources, "spec.resources")


def _of_volume(volume: api.PersistentVolume) -> Listed:
    yield "spec.capacity", volume.spec.capacity


_LISTS: Final[Mapping[type[api.ApiObject], Callable[[Any], Listed]]] = {
    api.Node: _of_node,
    api.Queue: _of_queue,
    api.PodGroup: _of_group,
    **dict.fromkeys((api.Pod, api.Job, *WORKLOADS), _of_pods),
    api.StatefulSet: _of_stateful_set,
    api.Job: _of_job,
    api.PersistentVolumeClaim: _of_claim,
    api.PersistentVolume: _of_volume,
}
