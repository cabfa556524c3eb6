"""A problem: one thing that is wrong with one field of one object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]

WRONG_TYPE: Final = "WrongType"
INVALID: Final = "Invalid"
REQUIRED: Final = "Required"
DUPLICATE: Final = "Duplicate"
NOT_SUPPORTED: Final = "NotSupported"
NOT_FOUND: Final = "NotFound"
FORBIDDEN: Final = "Forbidden"
UNKNOWN_KIND: Final = "UnknownKind"


@dataclass(frozen=True, slots=True)
class Problem:
    """``object`` is `Kind/namespace/name` or `Kind/name`, ``field`` a path in it, ``code`` one word for programs."""

    object: str
    field: str
    code: str
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        where = f"{self.object}: {self.field}" if self.field else self.object
        return f"{where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem whose object is yet to be said."""

    field: str
    code: str
    message: str
    severity: Severity = "error"

    def of(self, subject: str) -> Problem:
        """Return it as a problem of an object."""
        return Problem(subject, self.field, self.code, self.message, self.severity)


Faults: TypeAlias = Iterator[Fault]


def under(prefix: str, faults: Iterable[Fault]) -> Faults:
    """Put a prefix before the field of each fault."""
    for fault in faults:
        yield replace(fault, field=f"{prefix}.{fault.field}" if fault.field else prefix)


def warning(field: str, code: str, message: str) -> Fault:
    """Return a fault that stops nobody."""
    return Fault(field, code, message, "warning")
