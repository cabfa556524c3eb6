"""A queue's quota of devices: ``spec.dra``, and the flat keys that Volcano shipped, as one table of limits.

An amount is named by (class, dimension); the dimension "" is the number of devices. What is not named is not limited.
``spec.dra.capability.<class>`` has a ``count`` and, under ``capacity``, sums over all devices by dimension;
``spec.capability`` may have ``deviceclass/<class>`` and ``<dimension>.deviceclass/<class>`` for the same. Where both
name one, the smaller counts. Zero forbids. What cannot be read counts as zero, and is reported.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, Final

from volsched.model.annotations import LAST_APPLIED
from volsched.model.values.quantity import parse
from volsched.plugin import QuantityError, QueueInfo
from volsched.plugin.devices import COUNT, FLAT, Amount, Amounts, in_words, named_as
from volsched.plugin.quota import total_of

SMALLER: Final = "the smaller counts"
UNKNOWN: Final = "is not understood; it has no effect"
ZERO: Final = Fraction(0)
_PARTS: Final = ("capability", "deserved", "guarantee")
DROPPED: Final = (
    "the CRD of Queue in this cluster drops it; install the one of volsched, or write the keys deviceclass/<class> "
    "under spec.capability"
)


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of a queue, and what is wrong with how they are written."""

    limits: Amounts = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    guarantee: Amounts = field(default_factory=dict)
    faults: tuple[str, ...] = ()

    @property
    def classes(self) -> set[str]:
        """The classes that it limits."""
        return {amount.device_class for amount in self.limits}

    @property
    def deserved_share(self) -> Amounts:
        """What it deserves: never less than its guarantee, and not more than its limit."""
        deserved_share = {
            key: max(self.deserved.get(key, ZERO), self.guarantee.get(key, ZERO)) for key in self._named_amounts
        }
        return {
            key: min(amount, self.limits.get(named_as(key, self.limits), amount))
            for key, amount in deserved_share.items()
        }

    @property
    def _named_amounts(self) -> dict[Amount, None]:
        return dict.fromkeys((*self.deserved, *self.guarantee))


def as_named(amounts: Amounts, limits: Amounts) -> dict[Amount, Fraction]:
    """Return amounts under the names that limits have for them."""
    return total_of({named_as(key, limits): amount} for key, amount in amounts.items())


def read_quota(queue: QueueInfo, *, is_kept: bool = False) -> Quota:
    """Read the quota of devices of a queue. ``is_kept``: the API server is known to keep ``spec.dra``."""
    faults: list[str] = []
    blocks = queue.spec.dra if isinstance(queue.spec.dra, Mapping) else {}
    if queue.spec.dra is not None and not isinstance(queue.spec.dra, Mapping):
        faults.append("spec.dra must be a mapping")
    if queue.spec.dra is None and not is_kept and _was_pruned(queue):
        faults.append(f"spec.dra was written and is not there: {DROPPED}")
    faults.extend(_unknown(blocks, _PARTS, "spec.dra"))
    tables = [
        _both(_block(blocks.get(name), f"spec.dra.{name}", faults), _flat(listed, where, faults), where, faults)
        for name, where, listed in (
            ("capability", "spec.capability", queue.spec.capability),
            ("deserved", "spec.deserved", queue.spec.deserved),
            ("guarantee", "spec.guarantee.resource", queue.spec.guarantee),
        )
    ]
    capability, deserved, guarantee = tables
    return Quota(capability, deserved, guarantee, tuple(faults))


def _unknown(found: Mapping[str, Any], known: Collection[str], path: str) -> Iterator[str]:
    """Return which keys mean nothing: a slip in one of them is a limit that is not kept."""
    for key in found:
        if key not in known:
            yield f"{path}.{key} {UNKNOWN}"


def _was_pruned(queue: QueueInfo) -> bool:
    """Return whether the object that kubectl applied had a block that the API server does not show."""
    text = queue.spec.annotations.get(LAST_APPLIED, "")
    if '"dra"' not in text:
        return False
    try:
        applied = json.loads(text)
    except (ValueError, RecursionError):
        return False
    spec = applied.get("spec") if isinstance(applied, dict) else None
    return isinstance(spec, dict) and bool(spec.get("dra"))


def _block(block: Any, path: str, faults: list[str]) -> dict[Amount, Fraction]:
    if block is None:
        return {}
    if not isinstance(block, Mapping):
        faults.append(f"{path} must be a mapping of DeviceClasses")
        return {}
    found: dict[Amount, Fraction] = {}
    for name, entry in block.items():
        where = f"{path}[{name}]"
        if not name or "/" in str(name):
            faults.append(f"{where} is no name of a DeviceClass")
        elif not isinstance(entry, Mapping):
            faults.append(f"{where} must be a mapping with count and capacity; it counts as 0")
            found[Amount(str(name))] = Fraction(0)
        else:
            found.update(_entry(str(name), entry, where, faults))
    return found


def _entry(name: str, entry: Mapping[str, Any], path: str, faults: list[str]) -> Iterator[tuple[Amount, Fraction]]:
    """Yield the limits of one class. A count that is missing limits nothing beside a capacity, and alone forbids."""
    faults.extend(_unknown(entry, ("count", "capacity"), path))
    capacity = entry.get("capacity")
    dimensions = capacity if isinstance(capacity, Mapping) else {}
    if capacity is not None and not isinstance(capacity, Mapping):
        faults.append(f"{path}.capacity must be a mapping of dimensions")
    if "count" in entry:
        yield Amount(name), _whole(_read(entry["count"], f"{path}.count", faults), f"{path}.count", faults)
    else:
        faults.append(f"{path}.count is missing" + ("" if dimensions else "; it counts as 0"))
        if not dimensions:
            yield Amount(name), Fraction(0)
    for dimension, text in dimensions.items():
        yield Amount(name, str(dimension)), _read(text, f"{path}.capacity[{dimension}]", faults)


def _read(text: Any, path: str, faults: list[str]) -> Fraction:
    try:
        value = parse(text)
    except QuantityError as error:
        faults.append(f"{path}: {error}; it counts as 0")
        return Fraction(0)
    if value < 0:
        faults.append(f"{path}: {text} is negative; it counts as 0")
    return max(value, Fraction(0))


def _whole(count: Fraction, path: str, faults: list[str]) -> Fraction:
    """Return a number of devices. Half a device is no number."""
    if count.denominator == 1:
        return count
    faults.append(f"{path}: {in_words(count)} is not a whole number; it counts as 0")
    return Fraction(0)


def _flat(listed: Mapping[str, int], path: str, faults: list[str]) -> dict[Amount, Fraction]:
    """Return the flat keys of a list of amounts, which are in thousandths. A count is rounded up.

    An amount that cannot be read, or is negative, is 0 by now and was told: that is so for every list of resources.
    """
    found: dict[Amount, Fraction] = {}
    for key, milli in listed.items():
        amount = amount_of_key(key)
        if amount is None and (key.startswith(FLAT) or f".{FLAT}" in key):
            faults.append(f"{path}[{key}] names no class, or no dimension of one; it limits nothing")
        elif amount is not None and "/" in amount.device_class:
            faults.append(f"{path}[{key}] is of {amount.device_class}, which is no name of a DeviceClass")
        elif amount is not None:
            value = Fraction(milli, 1000)
            found[amount] = Fraction(ceil(value)) if amount.dimension == COUNT else value
    return found


def amount_of_key(key: str) -> Amount | None:
    """Read a flat key: split at the first ``.deviceclass/``, else begun with ``deviceclass/``; None for any other."""
    dimension, mark, name = key.partition(f".{FLAT}")
    if mark and dimension:
        return Amount(name, dimension) if name else None
    name = key.removeprefix(FLAT)
    return Amount(name) if name and name != key else None


def _both(
    block: Mapping[Amount, Fraction], flat: Mapping[Amount, Fraction], path: str, faults: list[str]
) -> dict[Amount, Fraction]:
    """Put both spellings together: of two limits the smaller counts."""
    found = {**flat, **block}
    for amount in block.keys() & flat.keys():
        if block[amount] != flat[amount]:
            found[amount] = min(block[amount], flat[amount])
            message = f"{path}[{amount.key}] is {in_words(flat[amount])} and spec.dra says {in_words(block[amount])}"
            faults.append(f"{message}; {SMALLER}")
    return found
