"""What is wrong with the quotas of devices that a Queue states, and with what a PodGroup tells of claims to come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from plugins.capacity_dra.quota import SMALLER, UNKNOWN, Quota, read_quota
from volsched.model.dra.announced import PATH
from volsched.model.values.quantity import QuantityText
from volsched.plugin import QuantityError, QueueInfo, QueueProperties, amount_of
from volsched.plugin.devices import Amounts, announced_by
from volsched.plugin.objects import INVALID, Fault, Faults, Surroundings, api, warning
from volsched.plugin.quota import above, short_of_those_below


def validate(found: api.ApiObject, beside: Surroundings) -> Faults:
    """Yield what is wrong with an object; see ``framework.validation.Validator``."""
    if isinstance(found, api.PodGroup | api.Job):
        fault = announced_by(found.metadata.annotations).fault
        if fault:
            yield Fault(PATH, INVALID, fault)
    if not isinstance(found, api.Queue):
        return
    quota = _quota_of(found)
    for fault in quota.faults:
        field, _colon, message = fault.partition(" ")
        make = warning if fault.endswith((SMALLER, UNKNOWN)) else Fault
        yield make(field.rstrip(":"), INVALID, message)
    if found.spec.dra is not None:
        children = [other for other in beside.queues.values() if other.spec.parent == found.metadata.name]
        yield from _deserved_faults(quota, [_quota_of(child) for child in children])


def _deserved_faults(quota: Quota, children: list[Quota]) -> Faults:
    """Yield what of a guarantee or of what is deserved is more than it can be. Flat keys are looked at elsewhere."""
    yield from _at_most("guarantee", quota.guarantee, "deserved", quota.deserved)
    yield from _at_most("guarantee", quota.guarantee, "capability", quota.limits)
    yield from _at_most("deserved", quota.deserved, "capability", quota.limits)
    yield from _promised("guarantee", quota.guarantee, (child.guarantee for child in children), Fault)
    yield from _promised("deserved", quota.deserved, (child.deserved for child in children), warning)


def _at_most(field: str, amounts: Amounts, other: str, limits: Amounts) -> Faults:
    for key, amount, limit in above(amounts, limits):
        message = f"{key.quantity(amount)} of {key.text()} is more than its {other}, {key.quantity(limit)}"
        yield Fault(f"spec.dra.{field}", INVALID, message)


def _promised(field: str, own: Amounts, below: Iterable[Amounts], make: Callable[[str, str, str], Fault]) -> Faults:
    for key, amount, together in short_of_those_below(own, below):
        message = f"is less than the {key.quantity(together)} of the queues right below together"
        yield make(f"spec.dra.{field}", INVALID, f"{key.quantity(amount)} of {key.text()} {message}")


def _quota_of(found: api.Queue) -> Quota:
    spec = QueueProperties(
        found.metadata.name,
        dra=found.spec.dra,
        capability=_readable(found.spec.capability),
        deserved=_readable(found.spec.deserved),
        guarantee=_readable(found.spec.guarantee.resource),
    )
    return read_quota(QueueInfo(spec))


def _readable(listed: Mapping[str, QuantityText | None]) -> dict[str, int]:
    """Return the amounts of a list as the scheduler has them; that one is negative or no quantity is told elsewhere."""
    return {name: _amount(name, text) for name, text in listed.items()}


def _amount(name: str, text: QuantityText | None) -> int:
    try:
        return max(0, amount_of(name, text))
    except QuantityError:
        return 0
