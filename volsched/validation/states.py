"""Times and states of an object must be ones that exist."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from volsched.framework.config.arguments import hint
from volsched.framework.validation import INVALID, NOT_SUPPORTED, Fault, Faults
from volsched.model import api
from volsched.model.errors import shortened

POD_PHASES: Final = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
GROUP_PHASES: Final = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
QUEUE_STATES: Final = ("Open", "Closed", "Closing", "Unknown")


def state_faults(found: api.ApiObject) -> Faults:
    """Yield the faults of an object's times, and of its phase or state if it has one."""
    meta = found.metadata
    for field, stamp in (
        ("metadata.creationTimestamp", meta.creation_timestamp),
        ("metadata.deletionTimestamp", meta.deletion_timestamp),
    ):
        if stamp is not None and not is_time(stamp):
            yield Fault(field, INVALID, f"{stamp!r} is not a time, as 2026-01-31T12:00:00Z")
    if isinstance(found, api.Pod):
        yield from one_of("status.phase", found.status.phase, POD_PHASES)
    elif isinstance(found, api.PodGroup):
        yield from one_of("status.phase", found.status.phase, GROUP_PHASES)
    elif isinstance(found, api.Queue):
        yield from one_of("status.state", found.status.state, QUEUE_STATES)


def one_of(field: str, value: str, known: tuple[str, ...] | Mapping[str, object]) -> Faults:
    """Yield a fault when a value is given and is not among the known ones."""
    if value and value not in known:
        given = shortened(value)
        yield Fault(field, NOT_SUPPORTED, f"{given!r} is not one of {', '.join(known)}{hint(given, known)}")


def is_time(stamp: str) -> bool:
    """Return whether a text is a point in time."""
    try:
        datetime.fromisoformat(stamp)
    except ValueError:
        return False
    return "T" in stamp
