"""Why capacity-card refuses: the five reasons of Volcano's design, word for word, then the same for people.

The sentences count in milli-cores, Mi and milli-cards, as that design's samples do; what stands in parentheses after
them is in cores, bytes with a unit, and whole cards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from plugins.capacity_card.quotas.limits import QueueLimit
from plugins.capacity_card.requests.requests import Names, NoSuchCardError, shown, text_of
from volsched.model.values.quantity import UNLIMITED
from volsched.plugin import CPU, MEMORY, ConditionReason, FieldError, Scope, Shortfall, Step, Verdict, format_amount
from volsched.plugin.quota import At, Exceeded

NAME: Final = "capacity-card"

NO_REQUEST: Final = "GetTaskRequestResourceFailed"
NO_CAPABILITY: Final = "EmptyQueueCapability"
NO_CPU: Final = "InsufficientCPUQuota"
NO_MEMORY: Final = "InsufficientMemoryQuota"
NO_CARDS: Final = "InsufficientScalarQuota"

_MI: Final = 1 << 20


def unreadable_request(queue: str, why: FieldError) -> Verdict:
    """Return the refusal of a pod whose request is unreadable, or whose card no node offers."""
    message = f"Get request resource failed, Queue <{queue}>, error: {why.message}"
    shown_as = ConditionReason.UNSCHEDULABLE if isinstance(why, NoSuchCardError) else ConditionReason.INVALID_FIELD
    return Verdict(Step.ALLOCATABLE, NAME, Scope.POD, NO_REQUEST, message, shown_as=shown_as)


def empty_capability(limit: QueueLimit, step: At) -> Verdict:
    """A queue does not mention what it may hold."""
    what = "allocate" if step is Step.ALLOCATABLE else "enqueue"
    message = (
        f"Queue <{limit.queue}> capability <cpu 0, memory 0> is empty, deny it to {what} (what a queue does not name "
        "counts as 0: set annotation volcano.sh/card.quota for cards, spec.capability for cpu and memory, or have "
        "cardUnlimitedCpuMemory spare pods with cards)"
    )
    return Verdict(step, NAME, Scope.QUEUE, NO_CAPABILITY, message, queue=limit.queue)


def short_of_resource(limit: QueueLimit, short: Exceeded, step: At) -> Verdict:
    """A queue's cpu or memory does not suffice."""
    is_cpu = short.dimension == CPU
    numbers = [str(amount) if is_cpu else _mi(amount) for amount in (short.requested, short.total, short.limit)]
    text = _sentence(limit.queue, "CPU" if is_cpu else MEMORY, *numbers)
    message = f"{text} ({_human(short)}{_advice(limit, short.dimension)})"
    return Verdict(
        step, NAME, Scope.QUEUE, NO_CPU if is_cpu else NO_MEMORY, message, (_shortfall(short),), queue=limit.queue
    )


def short_of_cards(limit: QueueLimit, sentence: Exceeded, details: Sequence[Exceeded], step: At) -> Verdict:
    """A queue's quota of a card, or of all cards of a list, does not suffice.

    ``sentence`` has the numbers to be told first, and the list; ``details`` those of each card.
    """
    numbers = (str(sentence.requested), str(sentence.total), str(sentence.limit))
    names: Names = sentence.dimension
    text = _sentence(limit.queue, f"<{shown(names)}>", *numbers)
    human = "; ".join([*map(_human, details), *_kept_for_others(limit, names)])
    shortfalls = tuple(map(_shortfall, details))
    return Verdict(step, NAME, Scope.QUEUE, NO_CARDS, f"{text} ({human})", shortfalls, queue=limit.queue)


def _shortfall(short: Exceeded) -> Shortfall:
    return Shortfall(text_of(short.dimension), short.requested, short.used, short.limit)


def _human(short: Exceeded) -> str:
    """Return one amount that would be above its limit, for people."""
    name = text_of(short.dimension)
    requested, held, limit = (format_amount(name, amount) for amount in (short.requested, short.used, short.limit))
    return f"{name}: requested {requested}, held {held}, quota {limit}"


def _kept_for_others(limit: QueueLimit, names: Names) -> Iterator[str]:
    kept = [name for name in names if limit.yields((name,))]
    if kept:
        yield f"what other queues are guaranteed of {', '.join(kept)} is kept for them"


def _sentence(queue: str, what: str, requested: str, total: str, capability: str) -> str:
    return (
        f"Queue <{queue}> has insufficient {what} quota: requested <{requested}>, total would be <{total}>, "
        f"but capability is <{capability}>"
    )


def _advice(limit: QueueLimit, resource: str) -> str:
    if limit.of(resource) > 0:
        return ""
    return (
        f"; what spec.capability does not name counts as 0: set {resource} there, or have cardUnlimitedCpuMemory spare "
        "pods with cards"
    )


def _mi(amount: int) -> str:
    if amount == UNLIMITED:
        return "unlimited"
    if amount % _MI == 0:
        return f"{amount // _MI} Mi"
    return f"{float(Fraction(amount, _MI)):.3f}".rstrip("0").rstrip(".") + " Mi"
