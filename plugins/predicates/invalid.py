"""Pods that must not be placed because a part of them cannot be understood, or is switched off."""

from __future__ import annotations

from plugins.predicates.verdicts import invalid, pod_refusal
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import Verdict


def refusal(task: TaskInfo) -> Verdict | None:
    """Refuse a pod rather than leave one of its rules out."""
    template = task.template
    if template.refusals:
        faults = "; ".join(str(fault) for fault in template.refusals)
        return invalid(f'pod "{task.key}" cannot be placed: {faults}')
    return None


def refuse_claims(task: TaskInfo) -> Verdict | None:
    """Refuse pods with ResourceClaims where their allocation is switched off: nobody else would allocate them."""
    if not task.resource_claims:
        return None
    claim = task.resource_claims[0]
    what = f'ResourceClaim "{claim.claim}"' if claim.claim else f'ResourceClaimTemplate "{claim.template}"'
    return pod_refusal(
        f'pod "{task.key}" uses {what} as "{claim.name}", and predicate.DynamicResourceAllocationEnable is false'
    )
