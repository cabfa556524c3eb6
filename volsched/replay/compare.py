"""Two policies side by side: the groups that wait less under the second one, and those that wait more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from volsched.replay.records import JobRecord
from volsched.replay.summary import Json, size_of

API_VERSION: Final = "volsched.io/v1alpha1"
KIND: Final = "ReplayComparison"

Policy: TypeAlias = tuple[str, Sequence[JobRecord], Json]
"""The name of a configuration, what became of each job under it, and the result."""

NOTICED: Final = 60.0
"""Seconds by which a start must differ so that it counts as earlier or later."""

MATTERS: Final = 0.05
"""The part by which a group's mean slowdown must differ so that it gains or loses."""


def comparison_of(first: Policy, second: Policy, cards: str) -> Json:
    """Return both results and what differs."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "policies": [{"configuration": name, **result} for name, _, result in (first, second)],
        "queues": _differences(first, second, "queues", lambda record: record.job.queue),
        "sizes": _differences(first, second, "sizes", lambda record: size_of(record, cards)),
    }


def _differences(first: Policy, second: Policy, part: str, group_of: Callable[[JobRecord], str]) -> dict[str, Json]:
    moved = _moved(first[1], second[1], group_of)
    before, after = first[2]["summary"][part], second[2]["summary"][part]
    return {name: {**_difference(before[name], after[name]), **moved[name]} for name in before}


def _moved(
    first: Sequence[JobRecord], second: Sequence[JobRecord], group_of: Callable[[JobRecord], str]
) -> Mapping[str, dict[str, int]]:
    """Count by group the jobs that start earlier and later under the second policy. Never is the latest."""
    found: dict[str, dict[str, int]] = {}
    for before, after in zip(first, second, strict=True):
        counts = found.setdefault(group_of(before), {"earlier": 0, "later": 0})
        change = _start(after) - _start(before) if before.start != after.start else 0.0
        if abs(change) >= NOTICED:
            counts["later" if change > 0 else "earlier"] += 1
    return found


def _start(record: JobRecord) -> float:
    return float("inf") if record.start is None else record.start


def _difference(before: Json, after: Json) -> Json:
    slowdowns = before["bounded_slowdown"], after["bounded_slowdown"]
    return {
        "count": before["count"],
        "wait": {key: [_wait(before, key), _wait(after, key)] for key in ("median", "p95", "p99", "max")},
        "bounded_slowdown": list(slowdowns),
        "started": [before["started"], after["started"]],
        "outcome": _outcome(before, after),
    }


def _wait(group: Json, key: str) -> float | None:
    return None if group["wait"] is None else group["wait"][key]


def _outcome(before: Json, after: Json) -> str:
    """Return whether a group gains, loses or stays. Starting at all counts for more than how soon."""
    if before["started"] != after["started"]:
        return "gains" if after["started"] > before["started"] else "loses"
    old, new = before["bounded_slowdown"] or 1.0, after["bounded_slowdown"] or 1.0
    if abs(new - old) <= MATTERS * old:
        return "same"
    return "gains" if new < old else "loses"
