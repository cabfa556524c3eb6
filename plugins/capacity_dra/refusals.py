"""Why a queue takes no devices on, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from volsched.plugin import ConditionReason, Scope, Shortfall, Step, Verdict
from volsched.plugin.devices import in_words, milli
from volsched.plugin.quota import At, Exceeded

NAME: Final = "capacity-dra"
INSUFFICIENT: Final = "InsufficientDRAQuota"
NOT_A_LEAF: Final = "NotALeafQueue"


def not_a_leaf(queue: str, step: At) -> Verdict:
    """Refuse work for a queue that has others below it."""
    message = f'queue "{queue}" has queues below it, and takes no pods with ResourceClaims itself; use one of those'
    return Verdict(step, NAME, Scope.QUEUE, NOT_A_LEAF, message, shown_as=ConditionReason.QUEUE_INVALID)


def insufficient(queue: str, short: Sequence[Exceeded], step: At) -> Verdict:
    """Return what is short, with Volcano's token in front where a PodGroup waits for admission."""
    details = "; ".join(
        f"{key.text()}: requested {in_words(amount)}, used {in_words(have)}, total would be {in_words(have + amount)}, "
        f"but capability is {in_words(limit)}"
        for key, amount, have, limit in short
    )
    message = f'queue "{queue}" has insufficient DRA quota: {details}'
    if step is Step.ENQUEUE:
        message = f"queue resource quota insufficient: insufficient dra-resource-exceeded ({message})"
    shortfalls = tuple(Shortfall(key.key, milli(a), milli(h), milli(limit)) for key, a, h, limit in short)
    return Verdict(step, NAME, Scope.QUEUE, INSUFFICIENT, message, shortfalls, queue=queue)
