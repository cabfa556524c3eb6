"""The words of what the plugin refuses."""

from __future__ import annotations

from typing import Final, Literal

from volsched.plugin import ConditionReason, Scope, Shortfall, Step, Verdict, quota
from volsched.plugin.quota import NO_PLACE, figures, named

NAME: Final = "capacity"
INSUFFICIENT: Final = "InsufficientQueueCapability"

At = Literal[Step.ENQUEUE, Step.ALLOCATABLE]
Short = tuple[Shortfall, ...]


def exceeds(queue: str, level: str, short: Short) -> Verdict:
    """A pod would take its queue, or one above it, beyond what that may have."""
    message = f"{named(queue, level)} may have no more: {figures(short)}"
    return Verdict(Step.ALLOCATABLE, NAME, Scope.QUEUE, INSUFFICIENT, message, short, queue=level)


def not_let_in(level: str, short: Short) -> Verdict:
    """A PodGroup's minimum is more than a queue may still have."""
    return quota.not_admitted(NAME, level, short)


def not_a_leaf(queue: str, step: At) -> Verdict:
    """Work belongs into queues that have none below them."""
    return quota.not_a_leaf(NAME, queue, step)


def no_place(queue: str, why: str, step: At) -> Verdict:
    """It is not known which limits count for a queue."""
    message = f'queue "{queue}" has no place in the hierarchy of queues: {why}; correct spec.parent'
    return Verdict(step, NAME, Scope.QUEUE, NO_PLACE, message, shown_as=ConditionReason.QUEUE_INVALID)
