"""How much of a device's capacities a request takes (KEP 5075).

For each capacity of a device that many may share: what is asked for, rounded up to what the policy allows; the
policy's default when nothing is asked for; and the whole of it when there is no policy either, so that such a
capacity is for one request alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil

from volsched.model.dra.device import Capacity, CapacityRequestPolicy, Device
from volsched.model.values.quantity import format_amount


def consumed(device: Device, wanted: Iterable[tuple[str, Fraction]]) -> dict[str, Fraction] | None:
    """Return what a request takes of each capacity of a device, or None when the device cannot serve it at all."""
    asked = dict(wanted)
    if any(name not in device.capacity for name in asked):
        return None
    taken: dict[str, Fraction] = {}
    for name, capacity in device.capacity.items():
        amount = _rounded(asked.get(name), capacity)
        if amount is None or amount > capacity.value:
            return None
        taken[name] = amount
    return taken


def fits(device: Device, taken: Mapping[str, Fraction], *used: Mapping[str, Fraction]) -> bool:
    """Return whether a device has that much left beside what is used of it."""
    return all(
        amount + sum((by.get(name, Fraction(0)) for by in used), Fraction(0)) <= device.capacity[name].value
        for name, amount in taken.items()
    )


def _rounded(asked: Fraction | None, capacity: Capacity) -> Fraction | None:
    """Return the smallest amount that the policy allows and that is enough, or None when there is none."""
    policy = capacity.policy
    if asked is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return asked
    if policy.has_range:
        return _in_range(asked, policy)
    if policy.values:
        return next((value for value in policy.values if value >= asked), None)
    return asked


def _in_range(asked: Fraction, policy: CapacityRequestPolicy) -> Fraction | None:
    least = policy.least
    amount = asked if least is None else max(asked, least)
    if policy.step is not None:
        start = least if least is not None else Fraction(0)
        amount = start + ceil((amount - start) / policy.step) * policy.step
    if amount != policy.default and policy.most is not None and amount > policy.most:
        return None
    return amount


@lru_cache(maxsize=1 << 12)
def quantity_text(amount: Fraction) -> str:
    """Return the canonical quantity. What is finer than a thousandth is rounded up."""
    if amount.denominator == 1:
        return format_amount("memory", int(amount))
    return format_amount("", ceil(amount * 1000))
