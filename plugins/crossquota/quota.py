"""The quota of CPU pods on a node, for one resource.

The first of five sources with a value counts:

    1  the node's annotation  volcano.sh/crossquota-<resource>             an amount
    2  the node's annotation  volcano.sh/crossquota-percentage-<resource>  a part of what is allocatable there
    3  the argument           quota.<resource>                             an amount
    4  the argument           quota-percentage.<resource>                  a part of what is allocatable there
    5  all that is allocatable

Each resource is looked up by itself. Parts are exact and rounded down to the resource's unit. An annotation that cannot
be read is passed over, and told: a slip of the pen must neither close a node nor open it unnoticed. A quota may be
larger than the node. A resource with a domain in its name has no annotations: their keys would have two slashes. Order
and keys are those of the design proposed for Volcano; passing over instead of refusing all pods there is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final, TypeVar

from volsched.plugin import Argument, NodeInfo, QuantityError, Unit, amount_of, format_amount, unit_of

ANNOTATION: Final = "volcano.sh/crossquota-"
PERCENTAGE_ANNOTATION: Final = "volcano.sh/crossquota-percentage-"
QUOTA: Final = "quota."
PERCENTAGE: Final = "quota-percentage."

_AMOUNT: Final = Argument(f"{ANNOTATION}*", "quantity", None, "An amount.")
_PART: Final = Argument(f"{PERCENTAGE_ANNOTATION}*", "percentage", None, "A part of what is allocatable.")
_MEBIBYTE: Final = 1 << 20
HUGE_PAGES: Final = "hugepages-"

Value = TypeVar("Value", int, Fraction)


@dataclass(frozen=True, slots=True)
class NodeQuotas:
    """The quotas of the arguments: amounts in the resource's unit, percentages of a node's allocatable amounts."""

    resources: tuple[str, ...]
    amounts: Mapping[str, int]
    percentages: Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class NodeQuota:
    """The quotas of one node, in the order of the resources, and the faults of its annotations.

    ``faults`` were ignored, ``doubts`` count as they are written. Both name the annotation.
    """

    amounts: tuple[int, ...]
    faults: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def complaints(self) -> tuple[str, ...]:
        """Return all faults and doubts."""
        return self.faults + self.doubts


def quota_of(node: NodeInfo, limits: NodeQuotas) -> NodeQuota:
    """Look up the quota of every resource."""
    amounts: list[int] = []
    faults: list[str] = []
    doubts: list[str] = []
    for resource in limits.resources:
        whole = node.allocatable_of(resource)
        wrong: list[str] = []
        amount, origin = _annotated(node, resource, whole, wrong) or _configured(limits, resource, whole)
        if wrong:
            instead = f"the quota of {resource} is {format_amount(resource, amount)} ({origin})"
            faults.extend(f"{fault}; {instead}" for fault in wrong)
        if origin == field_of(ANNOTATION + resource):
            doubt = doubt_about(resource, amount)
            doubts.extend([f"{origin}: {doubt}"] if doubt is not None else [])
        amounts.append(amount)
    return NodeQuota(tuple(amounts), tuple(faults), tuple(doubts))


def part_of(whole: int, percentage: Fraction) -> int:
    """Return a part of 100, rounded down."""
    return whole * percentage.numerator // (percentage.denominator * 100)


def doubt_about(resource: str, amount: int) -> str | None:
    """Return why a quota is hardly intended: so few bytes that another unit must have been meant."""
    if unit_of(resource) is not Unit.BYTE or amount == 0:
        return None
    shown = format_amount(resource, amount)
    if resource.startswith(HUGE_PAGES):
        size = resource.removeprefix(HUGE_PAGES)
        least = _bytes_of(size)
        if amount < least:
            return f"{shown} is less than one page; quotas count bytes, not pages: two pages are 2 times {size}"
        return None
    if amount < _MEBIBYTE:
        return f"{shown} is less than 1Mi; quotas count bytes: write a suffix, as 64Gi"
    return None


def read_amount(resource: str, text: str) -> int | None:
    """Read an amount of a resource; None for a blank, ValueError for what is none."""
    return amount_of(resource, _AMOUNT.parse(text)) if text.strip() else None


def read_part(text: str) -> Fraction | None:
    """Read a percentage; None for a blank, ValueError for what is none."""
    found: Fraction | None = _PART.parse(text) if text.strip() else None
    return found


def has_annotations(resource: str) -> bool:
    """True if annotations of a node can set a resource's quota: a name with a domain makes no key."""
    return "/" not in resource


def field_of(key: str) -> str:
    """Return the path of an annotation in its object."""
    return f"metadata.annotations[{key}]"


def _annotated(node: NodeInfo, resource: str, whole: int, faults: list[str]) -> tuple[int, str] | None:
    """Return what the annotations state and which of them does. What cannot be read is noted."""
    if not has_annotations(resource):
        return None
    absolute, relative = ANNOTATION + resource, PERCENTAGE_ANNOTATION + resource
    amount = _read(node, absolute, partial(read_amount, resource), faults)
    if amount is not None:
        return amount, field_of(absolute)
    percentage = _read(node, relative, read_part, faults)
    if percentage is not None:
        return part_of(whole, percentage), field_of(relative)
    return None


def _read(node: NodeInfo, key: str, read: Callable[[str], Value | None], faults: list[str]) -> Value | None:
    try:
        return read(node.annotations.get(key, ""))
    except ValueError as error:
        faults.append(f"{field_of(key)}: {error}")
        return None


def _configured(limits: NodeQuotas, resource: str, whole: int) -> tuple[int, str]:
    if resource in limits.amounts:
        return limits.amounts[resource], f"argument {QUOTA}{resource}"
    if resource in limits.percentages:
        return part_of(whole, limits.percentages[resource]), f"argument {PERCENTAGE}{resource}"
    return whole, "all that is allocatable"


def _bytes_of(size: str) -> int:
    try:
        return amount_of("memory", size)
    except QuantityError:
        return 0
