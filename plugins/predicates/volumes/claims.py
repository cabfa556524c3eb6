"""The PersistentVolumeClaims of a pod, as they are, and pods that cannot be placed because of one.

A claim is *bound* when it names its volume and the binding is complete; *delayed* when it is not bound, names no
volume, and its class waits for the first pod to have a node; everything else that is not bound is somebody else's to
bind first (*immediate*).
"""

from __future__ import annotations

from plugins.predicates.verdicts import pod_refusal
from volsched.model.pods.owners import controller_of
from volsched.model.volumes import WAITS, class_of, is_bound
from volsched.plugin import PodTemplate, Storage, TaskInfo, Verdict
from volsched.plugin.objects import api

ONE_POD = "ReadWriteOncePod"


def keys_of(template: PodTemplate) -> tuple[str, ...]:
    """Return the keys of all claims of a template's pods."""
    return tuple(f"{template.namespace_of_terms}/{name}" for name in template.claims)


def is_delayed(claim: api.PersistentVolumeClaim, storage: Storage) -> bool:
    """Return whether a claim that is not bound waits for a node to be chosen."""
    found = storage.classes.get(class_of(claim))
    return not claim.spec.volume_name and found is not None and found.volume_binding_mode == WAITS


def refusal(storage: Storage, task: TaskInfo) -> Verdict | None:
    """Refuse a pod whose claims do not exist, are terminating, or are bound by another component first."""
    template = task.template
    if not template.claims:
        return None
    immediate = []
    for name, key in zip(template.claims, keys_of(template), strict=True):
        claim = storage.claims.get(key)
        fault = _absence(task, name) if claim is None else _fault(storage, task, name, claim)
        if fault:
            return pod_refusal(fault)
        if claim is not None and not is_bound(claim) and not is_delayed(claim, storage):
            immediate.append(name)
    if not immediate:
        return None
    return pod_refusal(f"pod has unbound immediate PersistentVolumeClaims: {', '.join(immediate)}")


def _absence(task: TaskInfo, name: str) -> str:
    if name in task.template.ephemeral_claims:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    return f'persistentvolumeclaim "{name}" not found'


def _fault(storage: Storage, task: TaskInfo, name: str, claim: api.PersistentVolumeClaim) -> str:
    volume, meta = claim.spec.volume_name, claim.metadata
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if meta.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if name in task.template.ephemeral_claims and controller_of(meta) != task.as_owner:
        return f'persistentvolumeclaim "{name}" was not created for pod "{task.key}" (pod is not owner)'
    if is_bound(claim) and volume not in storage.volumes:
        return f'persistentvolume "{volume}" of persistentvolumeclaim "{name}" not found'
    return ""
