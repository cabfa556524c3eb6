"""What is wrong with the quotas of devices that a Queue says, and with what a PodGroup tells of claims to come."""

from __future__ import annotations

from collections.abc import Mapping

from plugins.capacity_dra.quota import SMALLER, UNKNOWN, read_quota
from volsched.framework.validation import INVALID, Fault, Faults, Surroundings, warning
from volsched.model import api
from volsched.model.announced import PATH, announced_by
from volsched.model.errors import QuantityError
from volsched.model.quantity import QuantityText, amount_of
from volsched.model.queue import QueueInfo


def validate(found: api.ApiObject, _: Surroundings) -> Faults:
    """Yield what is wrong with an object; see ``framework.validation.Validator``."""
    if isinstance(found, api.PodGroup | api.Job):
        fault = announced_by(found.metadata.annotations).fault
        if fault:
            yield Fault(PATH, INVALID, fault)
    if not isinstance(found, api.Queue):
        return
    queue = QueueInfo(found.metadata.name)
    queue.dra = found.spec.dra
    queue.capability = _readable(found.spec.capability)
    queue.deserved = _readable(found.spec.deserved)
    queue.guarantee = _readable(found.spec.guarantee.resource)
    for fault in read_quota(queue).faults:
        field, _colon, message = fault.partition(" ")
        make = warning if fault.endswith((SMALLER, UNKNOWN)) else Fault
        yield make(field.rstrip(":"), INVALID, message)


def _readable(listed: Mapping[str, QuantityText | None]) -> dict[str, int]:
    """Return the amounts of a list as the scheduler has them; that one is negative or no quantity is told elsewhere."""
    return {name: _amount(name, text) for name, text in listed.items()}


def _amount(name: str, text: QuantityText | None) -> int:
    try:
        return max(0, amount_of(name, text))
    except QuantityError:
        return 0
