"""A problem: one thing that is wrong with one field of one object."""

from __future__ import annotations

from dataclasses import dataclass

from volsched.framework.validation import Fault, Severity


@dataclass(frozen=True, slots=True)
class Problem:
    """``object`` is `Kind/namespace/name` or `Kind/name`, ``field`` a path in it, ``code`` one word for programs."""

    object: str
    field: str
    code: str
    message: str
    severity: Severity = "error"

    @classmethod
    def of(cls, subject: str, fault: Fault) -> Problem:
        """Return a fault as a problem of an object."""
        return cls(subject, fault.field, fault.code, fault.message, fault.severity)

    def __str__(self) -> str:
        where = f"{self.object}: {self.field}" if self.field else self.object
        return f"{where}: {self.message}"
