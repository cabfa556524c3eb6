"""Amounts of several resources at once: exact, never negative, never overflowing.

An amount is an integer in its resource's unit (see `quantity`): milli-cores, bytes, whole pods, else milli-units.
UNLIMITED is a limit, not an amount: adding to it or taking from it leaves it as it is.
"""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from fractions import Fraction
from typing import ClassVar, Final, TypeVar

from volsched.model.errors import QuantityError
from volsched.model.values.quantity import MAX_AMOUNT, UNLIMITED, QuantityText, amount_of, format_amount
from volsched.model.verdict import Shortfall

__all__ = ["MAX_AMOUNT", "UNLIMITED", "Resources", "accumulate", "minus", "saturating_add", "saturating_sub"]

K = TypeVar("K")
N = TypeVar("N", int, Fraction)

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"


def saturating_add(left: int, right: int) -> int:
    """Return the sum, cut to +-MAX_AMOUNT. UNLIMITED when either is."""
    if UNLIMITED in (left, right):
        return UNLIMITED
    total = left + right
    if -MAX_AMOUNT <= total <= MAX_AMOUNT:
        return total
    return MAX_AMOUNT if total > 0 else -MAX_AMOUNT


def saturating_sub(left: int, right: int) -> int:
    """Return the difference, cut to +-MAX_AMOUNT. UNLIMITED stays, and taking UNLIMITED leaves -MAX_AMOUNT."""
    if left == UNLIMITED:
        return UNLIMITED
    rest = left - right
    if -MAX_AMOUNT <= rest <= MAX_AMOUNT:
        return rest
    return MAX_AMOUNT if rest > 0 else -MAX_AMOUNT


def minus(left: int, right: int) -> int:
    """Return the difference, never below 0. UNLIMITED stays."""
    return max(0, saturating_sub(left, right))


def accumulate(account: dict[K, N], amounts: Mapping[K, N], by: int) -> None:
    """Add amounts to an account ``by`` times, or take them off (-1). Zeros are not kept."""
    for key, amount in amounts.items():
        left = account.get(key, 0) + by * amount
        if left:
            account[key] = left
        elif key in account:
            del account[key]


class Resources(Mapping[str, int]):
    """Amounts by resource name. Immutable; amounts that are zero or below are not kept."""

    __slots__ = ("_amounts", "_hash")

    EMPTY: ClassVar["Resources"]

    def __init__(self, amounts: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        items = amounts.items() if isinstance(amounts, Mapping) else amounts
        self._amounts: dict[str, int] = {
            name: amount if amount <= MAX_AMOUNT or amount == UNLIMITED else MAX_AMOUNT
            for name, amount in items
            if amount > 0
        }
        self._hash: int | None = None

    @classmethod
    def sum_of(cls, listed: "Iterable[Resources]") -> "Resources":
        """Add several up."""
        total = cls.EMPTY
        for resources in listed:
            total = total.plus(resources)
        return total

    @classmethod
    def of(cls, quantities: Mapping[str, QuantityText]) -> "Resources":
        """Parse the quantities of a resource list. A negative one is an error."""
        amounts = {}
        for name, text in quantities.items():
            amount = amount_of(name, text)
            if amount < 0:
                raise QuantityError(text, f"must not be negative ({name})")
            amounts[name] = amount
        return cls(amounts)

    # A mapping whose views are those of the dict inside: these are on the hot path.

    def __getitem__(self, name: str) -> int:
        return self._amounts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._amounts.keys()

    def values(self) -> ValuesView[int]:
        """Return the amounts."""
        return self._amounts.values()

    def items(self) -> ItemsView[str, int]:
        """Return names and amounts."""
        return self._amounts.items()

    def amount(self, name: str) -> int:
        """Return the amount of a resource, 0 when there is none."""
        return self._amounts.get(name, 0)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Resources):
            return self._amounts == other._amounts
        return isinstance(other, Mapping) and self._amounts == dict(other)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._amounts.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"Resources({self.human()})"

    def plus(self, other: Mapping[str, int]) -> "Resources":
        """Return the sum of each resource."""
        total = dict(self._amounts)
        for name, amount in other.items():
            total[name] = saturating_add(total.get(name, 0), amount)
        return Resources(total)

    def minus(self, other: Mapping[str, int]) -> "Resources":
        """Return what is left of each resource, never below 0."""
        return Resources({name: minus(amount, other.get(name, 0)) for name, amount in self._amounts.items()})

    def maximum(self, other: Mapping[str, int]) -> "Resources":
        """Return the larger amount of each resource."""
        largest = dict(self._amounts)
        for name, amount in other.items():
            if amount > largest.get(name, 0):
                largest[name] = amount
        return Resources(largest)

    def minimum(self, other: Mapping[str, int], missing: int = 0) -> "Resources":
        """Return the smaller amount of each resource. A resource that one side lacks counts there as `missing`."""
        names = {**self._amounts, **other}
        return Resources({name: min(self._amounts.get(name, missing), other.get(name, missing)) for name in names})

    def scaled(self, factor: Fraction | int) -> "Resources":
        """Return each amount times the factor, rounded down. UNLIMITED stays."""
        return Resources(
            {name: amount if amount == UNLIMITED else int(amount * factor) for name, amount in self._amounts.items()}
        )

    def without(self, *names: str) -> "Resources":
        """Return all amounts but those of these resources."""
        return Resources({name: amount for name, amount in self._amounts.items() if name not in names})

    def shortfalls(
        self, limits: Mapping[str, int], used: Mapping[str, int] | None = None, missing: int = 0
    ) -> tuple[Shortfall, ...]:
        """Return the resources of which used plus this would be above the limit, by name."""
        taken = used or {}
        return tuple(
            Shortfall(name, amount, taken.get(name, 0), limits.get(name, missing))
            for name, amount in sorted(self._amounts.items())
            if saturating_add(taken.get(name, 0), amount) > limits.get(name, missing)
        )

    def human(self) -> dict[str, str]:
        """Return canonical quantities by name, sorted."""
        return {name: format_amount(name, amount) for name, amount in sorted(self._amounts.items())}


Resources.EMPTY = Resources()
