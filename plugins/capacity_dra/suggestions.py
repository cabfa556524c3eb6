"""How the object of a queue would grant more of what a job lacks: for people who ask why it waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd
from typing import Any

from volsched.model.values.quantity import parse
from volsched.plugin import QuantityError
from volsched.plugin.devices import COUNT, Amount
from volsched.plugin.objects import api
from volsched.plugin.quota import QUOTA, Suggestion, with_spec

_GIB = 1 << 30


def raised(queue: str, key: Amount, asked: Fraction) -> Suggestion:
    """Return a larger quota of a class, or of a dimension of it; by whole GiB where such are asked for."""
    step = Fraction(1) if key.dimension == COUNT else _step(asked)

    def changed(found: api.Queue, size: int) -> api.Queue:
        return with_spec(found, **_more(found.spec, key, size * step))

    def text(size: int, _: Sequence[str]) -> str:
        return f"{key.text()} of queue {queue} by {key.quantity(size * step)} (quota of devices)"

    return Suggestion(QUOTA, ((api.Queue, queue),), changed, text)


def _step(asked: Fraction) -> Fraction:
    """Return the largest part of a GiB, at most all of it, of which what is asked is a multiple."""
    return Fraction(gcd(asked.numerator, _GIB)) if asked.denominator == 1 else Fraction(1, 1000)


def _more(spec: api.QueueSpec, key: Amount, more: Fraction) -> dict[str, Any]:
    """Return the fields of a spec in which a limit stands with more in it, all of them: the smaller counts."""
    found: dict[str, Any] = {}
    if key.key in spec.capability:
        flat = key.quantity(_number(spec.capability[key.key]) + more)
        found["capability"] = {**spec.capability, key.key: flat}
    entry = _entry(spec.dra, key.device_class)
    if not found or _states(entry, key):
        found["dra"] = _with_entry(spec.dra, key.device_class, _larger(entry, key, more))
    return found


def _larger(entry: Mapping[str, Any], key: Amount, more: Fraction) -> dict[str, Any]:
    """Return what a block states of a class with more of one amount."""
    if key.dimension == COUNT:
        return {**entry, "count": key.quantity(_number(entry.get("count")) + more)}
    capacity = _mapping(entry.get("capacity"))
    amount = key.quantity(_number(capacity.get(key.dimension)) + more)
    return {**entry, "capacity": {**capacity, key.dimension: amount}}


def _states(entry: Mapping[str, Any], key: Amount) -> bool:
    return ("count" in entry) if key.dimension == COUNT else (key.dimension in _mapping(entry.get("capacity")))


def _entry(block: Any, device_class: str) -> Mapping[str, Any]:
    return _mapping(_mapping(_mapping(block).get("capability")).get(device_class))


def _with_entry(block: Any, device_class: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    capability = {**_mapping(_mapping(block).get("capability")), device_class: entry}
    return {**_mapping(block), "capability": capability}


def _number(text: Any) -> Fraction:
    """Return a quantity. What cannot be read counts as 0 in quotas, too."""
    try:
        return parse(text)
    except QuantityError:
        return Fraction(0)


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}
