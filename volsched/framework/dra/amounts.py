"""Amounts of devices in the terms of quotas: so many of a DeviceClass, and sums over dimensions of their capacity."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Final, NamedTuple

from volsched.model.values.quantity import format_amount

COUNT: Final = ""
"""The dimension that stands for the number of devices."""

FLAT: Final = "deviceclass/"


class Amount(NamedTuple):
    """What is counted: devices of a class, or a dimension of their capacity."""

    device_class: str
    dimension: str = COUNT

    @property
    def key(self) -> str:
        """Return the name that Volcano gives it among resources."""
        return f"{self.dimension}.{FLAT}{self.device_class}" if self.dimension else f"{FLAT}{self.device_class}"

    def text(self) -> str:
        """Return it for people."""
        what = f"DeviceClass {self.device_class}"
        return f"{what} {self.dimension}" if self.dimension else what

    def quantity(self, value: Fraction) -> str:
        """Return so much of it as a canonical quantity: devices in decimals, whole capacities as memory is written."""
        return in_words(value) if self.dimension else format_amount(self.key, milli(value))


Amounts = Mapping[Amount, Fraction]


def in_words(value: Fraction) -> str:
    """Return an amount as a canonical quantity."""
    return format_amount("memory", int(value)) if value.denominator == 1 else format_amount("", milli(value))


def milli(value: Fraction) -> int:
    """Return an amount in thousandths, rounded up."""
    return ceil(value * 1000)
