"""Claims that stop pods: they are released, so that the next attempt has a choice again."""

from __future__ import annotations

from typing import Protocol

from plugins.predicates.devices.consumers import as_owner, group_of, is_idle, user_of
from plugins.predicates.devices.resource_claims import ClaimNeeds, can_be_released, left_over
from volsched.plugin import ReleaseClaim, Scope, Session, TaskInfo, TaskStatus, selects
from volsched.plugin.devices import Claim


class NeedsOfPods(Protocol):
    """Who knows what the claims of pods need."""

    def needs_of(self, task: TaskInfo) -> ClaimNeeds:
        """Return what the claims of a pod need."""


def release_useless(session: Session, known: NeedsOfPods) -> None:
    """Release one claim for each pod that no node takes, if it has no other user and rules nodes out."""
    devices = session.cluster.devices
    for task in sorted(session.refusals.refused.values(), key=lambda waiting: waiting.key):
        _release_left_over(session, task)
        refusal = task.refusal
        if refusal is None or refusal.scope is not Scope.NODE or task.status is not TaskStatus.PENDING:
            continue
        if not task.template.has_resource_claims:
            continue
        needs = known.needs_of(task)
        for claim, selector in needs.given:
            given_back = _is_of_idle_group(task, claim)
            rules_out = selector is not None and any(not selects(selector, n) for n in session.cluster.rows)
            if (rules_out or given_back or claim.uid in needs.given_up) and can_be_released(task, claim, devices):
                group = group_of(task, claim)
                user = as_owner(group) if group is not None else task.as_owner
                session.submit([ReleaseClaim(claim.uid, task.namespace, claim.name, user)])
                break


def _is_of_idle_group(task: TaskInfo, claim: Claim) -> bool:
    """True if a claim is held for a group that could not start, and has no pod anywhere."""
    user = user_of(task, claim)
    return user != task.uid and any(consumer.uid == user for consumer in claim.reserved_for) and is_idle(task)


def _release_left_over(session: Session, task: TaskInfo) -> None:
    """Delete the claim of a failed attempt: the next one makes its own."""
    claim = left_over(task, session.cluster.devices)
    if claim is not None and not claim.deleting and task.status is TaskStatus.PENDING:
        session.submit([ReleaseClaim(claim.uid, task.namespace, claim.name, task.as_owner, delete=True)])
