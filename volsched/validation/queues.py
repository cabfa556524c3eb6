"""Faults of a Queue, alone and beside other given Queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from volsched.framework.validation import FORBIDDEN, INVALID, NOT_FOUND, Fault, Faults, warning
from volsched.model import api
from volsched.model.errors import QuantityError
from volsched.model.values.quantity import QuantityText, amount_of, format_amount
from volsched.validation.states import one_of

ROOT: Final = "root"
BUILT_IN: Final = ("default", ROOT)
"""Queues that exist without being declared."""

Amounts = Mapping[str, QuantityText | None]

_STRATEGIES: Final = ("fifo", "traverse")
_WISHES: Final = ("Open", "Closed")
_HEAVIEST: Final = 65535


def queue_faults(queue: api.Queue, queues: Mapping[str, api.Queue]) -> Faults:
    """Yield what is wrong with a queue's numbers and with its place among the others."""
    spec = queue.spec
    if not 1 <= spec.weight <= _HEAVIEST:
        yield Fault("spec.weight", INVALID, f"{spec.weight} must be from 1 to {_HEAVIEST}")
    yield from one_of("spec.dequeueStrategy", spec.dequeue_strategy, _STRATEGIES)
    yield from one_of("spec.state", spec.state, _WISHES)
    yield from _at_most("spec.guarantee.resource", spec.guarantee.resource, "deserved", spec.deserved)
    yield from _at_most("spec.guarantee.resource", spec.guarantee.resource, "capability", spec.capability)
    yield from _at_most("spec.deserved", spec.deserved, "capability", spec.capability)
    yield from _place(queue, queues)


def _at_most(field: str, amounts: Amounts, what: str, limits: Amounts) -> Faults:
    """Yield a fault for each amount above its limit. An absent limit is none."""
    for name, text in amounts.items():
        amount, limit = _parsed(name, text), _parsed(name, limits.get(name))
        if amount is not None and limit is not None and amount > limit:
            yield Fault(f"{field}[{name}]", INVALID, f"{text} is more than {what}, {limits[name]}")


def _parsed(name: str, text: QuantityText | None) -> int | None:
    if text is None:
        return None
    try:
        return amount_of(name, text)
    except QuantityError:
        return None


def _place(queue: api.Queue, queues: Mapping[str, api.Queue]) -> Faults:
    name, parent = queue.metadata.name, queue.spec.parent
    if name == ROOT and parent:
        yield Fault("spec.parent", FORBIDDEN, "the root has no parent")
    if not parent or ROOT in (name, parent):
        return
    if parent == name or _is_below(parent, name, queues):
        yield Fault("spec.parent", INVALID, f"{parent!r} is {'the queue itself' if parent == name else 'below it'}")
        return
    above = queues.get(parent)
    if above is None:
        if parent not in BUILT_IN:
            yield warning("spec.parent", NOT_FOUND, f"queue {parent!r} is not known; is the name right?")
        return
    yield from _at_most("spec.capability", queue.spec.capability, f"the capability of {parent}", above.spec.capability)


def _is_below(name: str, top: str, queues: Mapping[str, api.Queue]) -> bool:
    """Return whether one queue is below another."""
    seen: set[str] = set()
    while name in queues and name not in seen:
        seen.add(name)
        name = queues[name].spec.parent
        if name == top:
            return True
    return False


def children_faults(queue: api.Queue, queues: Mapping[str, api.Queue]) -> Faults:
    """Yield the guarantees of a queue's children that exceed its own.

    Their deserved amounts may exceed it, since not all use them at once; guarantees are kept at all times.
    """
    children = [found for found in queues.values() if found.spec.parent == queue.metadata.name]
    guaranteed = [child.spec.guarantee.resource for child in children]
    for field, message in _promised("spec.guarantee.resource", queue.spec.guarantee.resource, guaranteed):
        yield Fault(field, INVALID, message)
    for field, message in _promised("spec.deserved", queue.spec.deserved, [child.spec.deserved for child in children]):
        yield warning(field, INVALID, message)


def _promised(field: str, own: Amounts, promised: Sequence[Amounts]) -> Iterator[tuple[str, str]]:
    for name, text in own.items():
        total = sum(_parsed(name, amounts.get(name)) or 0 for amounts in promised)
        amount = _parsed(name, text)
        if amount is not None and total > max(amount, 0):
            yield f"{field}[{name}]", f"{text} is less than its children's together, {format_amount(name, total)}"


def use_faults(field: str, name: str, queues: Mapping[str, api.Queue]) -> Faults:
    """Yield why work cannot be put into a queue; for an unknown queue nothing if no queue is given."""
    if name == ROOT:
        yield Fault(field, FORBIDDEN, "the root takes no work; use a queue below it")
        return
    queue = queues.get(name)
    if queue is None:
        if queues and name not in BUILT_IN:
            yield warning(field, NOT_FOUND, f"queue {name!r} is not known; is the name right?")
        return
    if queue.status.state in ("Closed", "Closing"):
        yield Fault(field, FORBIDDEN, f"queue {name!r} is {queue.status.state}")
    if any(found.spec.parent == name for found in queues.values()):
        yield Fault(field, FORBIDDEN, f"queue {name!r} has children; work goes into a queue without any")


def deletion_faults(queue: api.Queue, queues: Mapping[str, api.Queue], groups: int) -> Faults:
    """Yield why a queue cannot be deleted. `groups` is how many PodGroups are in it that have not completed."""
    name = queue.metadata.name
    if name in BUILT_IN:
        yield Fault("metadata.name", FORBIDDEN, f"queue {name!r} always exists and cannot be deleted")
        return
    children = sorted(found.metadata.name for found in queues.values() if found.spec.parent == name)
    if children:
        message = f"it is the parent of {_counted(len(children), 'queue')}, as {children[0]!r}"
        yield Fault("metadata.name", FORBIDDEN, f"{message}; delete them first, or give them another parent")
    if groups:
        message = (
            f"{_counted(groups, 'PodGroup')} in it not completed; set spec.state to Closed, and delete it once empty"
        )
        yield Fault("metadata.name", FORBIDDEN, message)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
