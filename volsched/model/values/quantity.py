"""Exact Kubernetes quantities (apimachinery `resource.Quantity`), without floats.

Amounts are whole numbers in one unit for each resource, as in Volcano and kube-scheduler:

* `cpu`: milli-cores;
* `memory`, `ephemeral-storage`, `storage`, `hugepages-*`: bytes;
* `pods`: whole pods;
* everything else (extended resources, cards, counts of devices): milli-units, so one card is 1000.

Fractions of a unit are rounded up, away from zero, as `Quantity.MilliValue` and `Quantity.Value` do: a request above
zero stays above zero. Amounts end at +-MAX_AMOUNT, which leaves room to add two of them within 64 bits.
"""

import math
import re
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Final

from volsched.model.errors import QuantityError

MAX_AMOUNT: Final = 2**62
"""The largest amount a quantity can give. What is above is cut down to it."""

UNLIMITED: Final = 2**63 - 1
"""Stands for "no limit". It is larger than every amount."""

QuantityText = str | int | float
"""A quantity as it is in JSON or YAML."""


class Unit(Enum):
    """The meaning of 1 in an amount."""

    MILLI = "milli"
    BYTE = "byte"
    WHOLE = "whole"


BYTE_RESOURCES: Final = frozenset({"memory", "ephemeral-storage", "storage"})
_OF_DEVICES: Final = ".deviceclass/"
"""A part of the names of sums of devices' capacity, as `memory.deviceclass/gpu`."""

_PATTERN: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_NAMES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

_NANO: Final = 10**9
_LONGEST_TEXT: Final = 1000
_LONGEST_NAME: Final = 512
"""Characters of the name of a resource: longer ones, which a PodGroup may have, are not remembered."""

_LARGEST_EXPONENT: Final = 1000


def parse(text: QuantityText | None) -> Fraction:
    """Return the exact value of a quantity as `resource.ParseQuantity` reads it.

    As there, what is finer than 1n is rounded away from zero, and a binary suffix ends at 2**63 - 1. A float counts as
    the text that YAML and JSON would write for it.
    """
    if type(text) is str:
        return _parse(text)
    if isinstance(text, bool) or not isinstance(text, (int, float)):
        raise QuantityError(text)
    return _parse(_digits(text))


def amount_of(resource: str, text: QuantityText | None) -> int:
    """Return the quantity as an amount of this resource, in its unit, rounded away from zero.

    White space around the text is dropped, as the API server does when it decodes an object.
    """
    per_one = _per_one(resource)
    if type(text) is str:
        return _amount(per_one, text if len(text) <= _LONGEST_TEXT else text.strip())
    if type(text) is int and -MAX_AMOUNT <= text * per_one <= MAX_AMOUNT:
        return text * per_one
    return _scaled(parse(text), per_one)


def format_amount(resource: str, amount: int) -> str:
    """Return the canonical quantity for an amount of this resource; "unlimited" for UNLIMITED."""
    if amount == UNLIMITED:
        return "unlimited"
    unit = unit_of(resource)
    if _OF_DEVICES in resource and amount % 1000 == 0:
        unit, amount = Unit.BYTE, amount // 1000  # `memory` of devices is the most usual one
    if unit is Unit.BYTE and abs(amount) >= 1024:
        return _binary(amount)
    return _decimal(amount, -3 if unit is Unit.MILLI else 0)


def in_base_units(resource: str, amount: float | Fraction) -> float:
    """Return an amount in cores, bytes or whole devices, for people and for metrics."""
    return as_float(amount / _per_one(resource))


def as_float(amount: float | Fraction) -> float:
    """Return an amount for metrics. Infinite where a float cannot hold it."""
    try:
        return float(amount)
    except OverflowError:
        return math.inf if amount > 0 else -math.inf


def unit_of(resource: str) -> Unit:
    """Return the unit in which amounts of this resource are counted."""
    return (_unit_of if len(resource) <= _LONGEST_NAME else _unit_of.__wrapped__)(resource)


@lru_cache(maxsize=4096)
def _unit_of(resource: str) -> Unit:
    if resource in BYTE_RESOURCES or resource.startswith("hugepages-"):
        return Unit.BYTE
    return Unit.WHOLE if resource == "pods" else Unit.MILLI


def _per_one(resource: str) -> int:
    return (_known_per_one if len(resource) <= _LONGEST_NAME else _known_per_one.__wrapped__)(resource)


@lru_cache(maxsize=4096)
def _known_per_one(resource: str) -> int:
    return 1000 if unit_of(resource) is Unit.MILLI else 1


@lru_cache(maxsize=16384)
def _amount(per_one: int, text: str) -> int:
    return _scaled(_parse(text.strip()), per_one)


def _scaled(value: Fraction, per_one: int) -> int:
    numerator = value.numerator * per_one
    magnitude = -(-abs(numerator) // value.denominator)
    clamped = min(magnitude, MAX_AMOUNT)
    return clamped if numerator >= 0 else -clamped


def _digits(number: float) -> str:
    if isinstance(number, int) and abs(number) >= 10**_LONGEST_TEXT:
        raise QuantityError("a number of more than 1000 digits", "is too long for a quantity")
    return repr(number)


@lru_cache(maxsize=16384)
def _parse(text: str) -> Fraction:
    if len(text) > _LONGEST_TEXT:
        raise QuantityError(text, "is too long for a quantity")
    match = _PATTERN.fullmatch(text) if text else None
    if match is None:
        raise QuantityError(text)
    sign, whole, fraction, suffix = match.groups()
    digits = whole + (fraction or "")
    scale = _scale(suffix, text)
    if not digits:
        return _value_without_digits(scale, text)
    mantissa = Fraction(int(digits), 10 ** len(fraction or ""))
    value = mantissa * scale
    if suffix in _BINARY:
        value = min(value, Fraction(UNLIMITED))
    value = _rounded_up_to_nano(value)
    return -value if sign == "-" else value


def _scale(suffix: str, text: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(1 << _BINARY[suffix])
    exponent = _DECIMAL.get(suffix)
    if exponent is None:
        exponent = _written_exponent(suffix, text)
    power: int = 10 ** abs(exponent)
    return Fraction(power) if exponent >= 0 else Fraction(1, power)


def _value_without_digits(scale: Fraction, text: str) -> Fraction:
    """Return 0 for texts such as "+", "." and "Ki": upstream reads them so, save for huge and tiny suffixes."""
    if scale < Fraction(1, _NANO) or (scale.numerator & (scale.numerator - 1) == 0 and scale >= 1 << 50):
        raise QuantityError(text)
    return Fraction(0)


def _written_exponent(suffix: str, text: str) -> int:
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise QuantityError(text, f"is not a quantity: unknown suffix {suffix!r}")
    exponent = int(match.group(1))
    if abs(exponent) > _LARGEST_EXPONENT:
        raise QuantityError(text, "has an exponent out of range")
    return exponent


def _rounded_up_to_nano(value: Fraction) -> Fraction:
    if _NANO % value.denominator == 0:
        return value
    return Fraction(-(-value.numerator * _NANO // value.denominator), _NANO)


def _binary(amount: int) -> str:
    power = 0
    while amount % 1024 == 0 and power < len(_BINARY_NAMES) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY_NAMES[power]}"


def _decimal(amount: int, exponent: int) -> str:
    if amount == 0:
        return "0"
    while amount % 1000 == 0 and exponent < 18:
        amount //= 1000
        exponent += 3
    return f"{amount}{_DECIMAL_NAMES[exponent]}"
