"""The agreed waiting time of a job: annotations of a PodGroup, or of a Volcano Job, which hands them on.

Volcano reads the one with its prefix first and the bare one after it (pkg/scheduler/api/job_info.go, SetPodGroup); a
value that is no time above zero counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from volsched.model.values.duration import seconds_of

WAITING_TIME: Final = "sla-waiting-time"
"""The bare annotation, and the argument of the plugin sla; a duration as Go writes it (`1h30m`)."""

WAITING_TIMES: Final = (f"volcano.sh/{WAITING_TIME}", WAITING_TIME)
"""The annotations in the order in which they are read."""


def agreed_waiting_time(annotations: Mapping[str, str]) -> float:
    """Return the seconds that a job may wait; 0 when it has no agreed time."""
    for key in WAITING_TIMES:
        seconds = seconds_of(annotations[key]) if key in annotations else None
        if seconds:
            return seconds
    return 0.0
