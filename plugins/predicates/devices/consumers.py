"""The consumer of a pod's claim: the pod, or its PodGroup of scheduling.k8s.io if that has the claim.

An entry of a pod is its group's if the group has one of the same name, for the same claim or template. Such a claim has
one entry in ``status.reservedFor`` for all of the group's pods, so more of these may share it than a claim may have
consumers. It stays when pods go. Only a group that could not be placed, and has no placed pod, gives it back.
"""

from __future__ import annotations

from volsched.model.api.native_groups import GROUP
from volsched.model.dra import api as dra
from volsched.model.native_group import NativeGroup
from volsched.model.pods.owners import Owner
from volsched.plugin import TaskInfo
from volsched.plugin.devices import Claim, ResourceClaimUse


def group_with(task: TaskInfo, use: ResourceClaimUse) -> NativeGroup | None:
    """Return a pod's group if an entry of the pod is the group's."""
    group = task.job.spec.native if task.job is not None else None
    return group if group is not None and use in group.claims else None


def owner_for(task: TaskInfo, use: ResourceClaimUse) -> Owner:
    """Return the owner for which an entry's claim was made from a template."""
    group = group_with(task, use)
    return as_owner(group) if group is not None else task.as_owner


def as_owner(group: NativeGroup) -> Owner:
    """Return a group as the owner that it may be."""
    return Owner(group.namespace, GROUP, "PodGroup", group.name, group.uid)


def group_of(task: TaskInfo, claim: Claim) -> NativeGroup | None:
    """Return a pod's group if a claim is the group's, or None when it is the pod's own."""
    group = task.job.spec.native if task.job is not None else None
    if group is None or not group.claims:
        return None
    uses = (use for use, key in task.claims_by_entry() if key == claim.key)
    return next((found for use in uses if (found := group_with(task, use)) is not None), None)


def consumer_of(task: TaskInfo, claim: Claim) -> dra.Consumer | None:
    """Return the entry of a group in a claim's ``reservedFor``, or None when it is the pod's."""
    group = group_of(task, claim)
    if group is None:
        return None
    return dra.Consumer(api_group=GROUP, resource="podgroups", name=group.name, uid=group.uid)


def user_of(task: TaskInfo, claim: Claim) -> str:
    """Return the uid that a claim of a pod is reserved for."""
    group = group_of(task, claim)
    return group.uid if group is not None else task.uid


def is_idle(task: TaskInfo) -> bool:
    """True if no pod of the group of a pod is placed, or about to be."""
    return task.job is not None and all(member.node is None for member in task.job.tasks.values())
