"""Refuses pods with a part that cannot be understood, or is switched off."""

from __future__ import annotations

from collections.abc import Iterator

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.verdicts import invalid, pod_refusal
from volsched.plugin import PodTemplate, PrePredicate, Registrar, Rule, TaskInfo, Verdict


def rules(_: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse pods before any node is asked."""
    yield PrePredicate(refusal, applies_to=is_refused)
    if not wanted.dynamic_resource_allocation:
        yield PrePredicate(refuse_claims, applies_to=has_claims)


def is_refused(template: PodTemplate) -> bool:
    """True if a part of the pod cannot be understood."""
    return bool(template.refusals)


def has_claims(template: PodTemplate) -> bool:
    """True if the pod has ResourceClaims."""
    return template.has_resource_claims


def refusal(task: TaskInfo) -> Verdict | None:
    """Refuse a pod rather than leave one of its rules out."""
    template = task.template
    if template.refusals:
        faults = "; ".join(str(fault) for fault in template.refusals)
        return invalid(f'pod "{task.key}" cannot be placed: {faults}')
    return None


def refuse_claims(task: TaskInfo) -> Verdict | None:
    """Refuse pods with ResourceClaims if their allocation is switched off: no other component allocates them."""
    if not task.spec.resource_claims:
        return None
    claim = task.spec.resource_claims[0]
    what = f'ResourceClaim "{claim.claim}"' if claim.claim else f'ResourceClaimTemplate "{claim.template}"'
    return pod_refusal(
        f'pod "{task.key}" uses {what} as "{claim.name}", and predicate.DynamicResourceAllocationEnable is false'
    )
