"""What a ResourceClaim counts for: by its devices when it has some, by what it asks for before.

Before devices are chosen only a lower bound is known of requests with alternatives (what every one of them takes of a
class) and of those for all devices (one). Devices for administrators are shared with their users and count for nothing,
unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from typing import Final

from volsched.framework.dra.amounts import COUNT, Amount, Amounts
from volsched.model.dra.api import DeviceResult
from volsched.model.dra.device import Ask, ClaimSpec, Request
from volsched.model.dra.reading import amount

MOST_COUNT = 10**6
"""Devices that one request counts for at most. A claim can have 32."""

_MOST_KEPT: Final = 1 << 13
_OF_SPECS: Final[dict[Hashable, Amounts]] = {}
_OF_RESULTS: Final[dict[Hashable, Amounts]] = {}


def of_spec(spec: ClaimSpec, *, with_admin: bool = False) -> Amounts:
    """Return what a claim will count for at least. Worked out once for all claims that ask for the same."""
    key = spec.shape, with_admin
    return _OF_SPECS.get(key) or _keep(_OF_SPECS, key, _of_spec(spec, with_admin=with_admin))


def _of_spec(spec: ClaimSpec, *, with_admin: bool) -> Amounts:
    total: dict[Amount, Fraction] = {}
    for request in spec.requests:
        asked = [_asked(ask) if with_admin or not ask.admin else {} for ask in request.alternatives]
        for key in set.intersection(*(set(found) for found in asked)) if asked else ():
            total[key] = total.get(key, Fraction(0)) + min(found[key] for found in asked)
    return total


def of_results(spec: ClaimSpec, results: Iterable[DeviceResult], *, with_admin: bool = False) -> Amounts:
    """Return what the devices of a claim count for: what they consume if shared, else what was asked of each.

    It is worked out once for all claims that ask for the same and have devices by the same requests.
    """
    results = tuple(results)
    key = spec.shape, with_admin, *[(r.request, r.admin_access, _consumed(r)) for r in results]
    return _OF_RESULTS.get(key) or _keep(_OF_RESULTS, key, _of_results(spec, results, with_admin=with_admin))


def _consumed(result: DeviceResult) -> tuple[tuple[str, object], ...] | None:
    """Return what is consumed of a shared device; None of one that is not shared."""
    return None if result.share_id is None else tuple(result.consumed_capacity.items())


def _keep(known: dict[Hashable, Amounts], key: Hashable, amounts: Amounts) -> Amounts:
    if len(known) >= _MOST_KEPT:
        known.clear()
    known[key] = amounts
    return amounts


def _of_results(spec: ClaimSpec, results: Iterable[DeviceResult], *, with_admin: bool) -> Amounts:
    total: dict[Amount, Fraction] = {}
    asks = {request.full_name(ask): ask for request in spec.requests for ask in request.alternatives}
    for result in results:
        ask = asks.get(result.request) or _first(spec.requests, result.request)
        if ask is None or (result.admin_access and not with_admin):
            continue
        name = ask.device_class
        taken: Mapping[str, Fraction] = dict(ask.capacity)
        if result.share_id is not None:
            taken = {dimension: amount(text) for dimension, text in result.consumed_capacity.items()}
        for key, value in ((Amount(name), Fraction(1)), *((Amount(name, d), v) for d, v in taken.items())):
            total[key] = total.get(key, Fraction(0)) + value
    return total


def _asked(ask: Ask) -> Amounts:
    count = 1 if ask.takes_all else min(ask.count, MOST_COUNT)
    asked = {Amount(ask.device_class, dimension): value * count for dimension, value in ask.capacity}
    return {Amount(ask.device_class): Fraction(count), **asked}


def _first(requests: Iterable[Request], name: str) -> Ask | None:
    """Return the alternative of a request whose results do not state which it was."""
    return next((r.alternatives[0] for r in requests if r.name == name), None)


def named_as(key: Amount, limits: Amounts) -> Amount:
    """Return the limit that is about an amount: of the very name, else of the dimension without its domain.

    A claim may leave out the domain itself: then it is the one limit of that name, whatever its domain.
    """
    if key in limits or key.dimension == COUNT:
        return key
    if "/" in key.dimension:
        return Amount(key.device_class, key.dimension.partition("/")[2])
    ending = f"/{key.dimension}"
    meant = [x for x in limits if x.device_class == key.device_class and x.dimension.endswith(ending)]
    return meant[0] if len(meant) == 1 else key
