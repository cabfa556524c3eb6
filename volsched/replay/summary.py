"""The summary of a replay: waits, slowdowns, use and fairness, by queue and by size of job.

All of it is computed from the records when the replay is over. Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volsched.model.values.quantity import in_base_units
from volsched.model.values.resources import PODS
from volsched.replay.records import JobRecord

Json: TypeAlias = dict[str, Any]
Floats: TypeAlias = NDArray[np.float64]

HOUR: Final = 3600.0
BOUND: Final = 600.0
"""The least duration of a job in its slowdown (Feitelson et al., 1997), so that short jobs do not dominate."""

CARDS: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class ReplayedCluster:
    """The data of the cluster for the summary: the capacity of each resource for jobs, and the weights of queues."""

    capacity: Mapping[str, int]
    weights: Mapping[str, int]


def summary_of(records: Sequence[JobRecord], cluster: ReplayedCluster, cards: str = CARDS) -> Json:
    """Return the summary. ``cards`` is the resource by which jobs are large or small, and shares are counted."""
    horizon = max((record.job.submit for record in records), default=0.0)
    begin = min((record.job.submit for record in records), default=0.0)
    window = _Window(begin, max(horizon, begin + 1.0))
    return {
        "queues": {name: _of_jobs(found) for name, found in sorted(_by(records, lambda r: r.job.queue).items())},
        "sizes": {name: _of_jobs(found) for name, found in _by_size(records, cards).items()},
        "use": {
            resource: _use(records, resource, amount, window)
            for resource, amount in sorted(cluster.capacity.items())
            if resource != PODS and any(record.job.request.get(resource) for record in records)
        },
        "jain": _jain(records, cluster, cards, window),
        "reservations": _reservations(records),
    }


# --- jobs -----------------------------------------------------------------------------------------------------------


def _by(records: Iterable[JobRecord], key: Any) -> dict[str, list[JobRecord]]:
    found: dict[str, list[JobRecord]] = {}
    for record in records:
        found.setdefault(key(record), []).append(record)
    return found


_SIZES: Final = ((0, "0"), (1, "1"), (4, "2-4"), (8, "5-8"))


def size_of(record: JobRecord, cards: str) -> str:
    """Return the class of a job by the cards that its pods ask for together: `0`, `1`, `2-4`, `5-8` or `>8`."""
    asked = record.job.request.get(cards, 0) / 1000
    return next((name for most, name in _SIZES if asked <= most), ">8")


def _by_size(records: Iterable[JobRecord], cards: str) -> dict[str, list[JobRecord]]:
    found = _by(records, lambda record: size_of(record, cards))
    return {name: found[name] for name in (*(name for _, name in _SIZES), ">8") if name in found}


def _of_jobs(records: Sequence[JobRecord]) -> Json:
    waits = np.array([record.wait for record in records if record.wait is not None])
    slowdowns = [_slowdown(record) for record in records if record.wait is not None]
    return {
        "count": len(records),
        "started": len(waits),
        "wait": _quantiles(waits),
        "bounded_slowdown": _rounded(float(np.mean(slowdowns))) if slowdowns else None,
        "evicted": sum(record.evicted for record in records),
    }


def _slowdown(record: JobRecord) -> float:
    wait, run = record.wait or 0.0, record.job.duration
    return max(1.0, (wait + run) / max(run, BOUND))


def _quantiles(values: Floats) -> Json | None:
    if not len(values):
        return None
    median, p95, p99, most = np.percentile(values, (50, 95, 99, 100))
    return {"median": _rounded(median), "p95": _rounded(p95), "p99": _rounded(p99), "max": _rounded(most)}


def _rounded(value: float) -> float:
    return round(float(value), 4)


# --- use ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Window:
    """From the first submission to the last: what follows is the cluster running empty."""

    begin: float
    end: float

    @property
    def hours(self) -> int:
        return int(np.ceil((self.end - self.begin) / HOUR))

    def hourly(self, starts: Floats, ends: Floats, amounts: Floats) -> Floats:
        """Return the amount times seconds of intervals in each hour."""
        edges: Floats = self.begin + HOUR * np.arange(self.hours + 1, dtype=np.float64)
        edges[-1] = self.end
        found: Floats = np.diff(_integral(edges, starts, amounts) - _integral(edges, ends, amounts))
        return found


def _integral(edges: Floats, times: Floats, amounts: Floats) -> Floats:
    """Return for each edge the integral up to it of steps by ``amounts`` at ``times``."""
    order = np.argsort(times, kind="stable")
    times, amounts = times[order], amounts[order]
    total = np.concatenate(([0.0], np.cumsum(amounts)))
    weighted = np.concatenate(([0.0], np.cumsum(amounts * times)))
    before = np.searchsorted(times, edges, side="right")
    found: Floats = edges * total[before] - weighted[before]
    return found


def _held(records: Iterable[JobRecord], resource: str) -> tuple[Floats, Floats, Floats]:
    rows = [
        (held.start, held.end, held.request[resource])
        for record in records
        for held in record.held
        if resource in held.request
    ]
    return _columns(rows)


def _columns(rows: Sequence[tuple[float, float, float]]) -> tuple[Floats, Floats, Floats]:
    columns = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return columns[0], columns[1], columns[2]


def _waiting(records: Iterable[JobRecord], resource: str) -> tuple[Floats, Floats, Floats]:
    """Return from when to when jobs waited, and what for; who never started waits for ever."""
    return _columns(
        [
            (record.job.submit, np.inf if record.start is None else record.start, record.job.request.get(resource, 0))
            for record in records
            if record.wait != 0
        ]
    )


def _use(records: Sequence[JobRecord], resource: str, capacity: int, window: _Window) -> Json:
    hourly = window.hourly(*_finite(_held(records, resource), window))
    span = window.end - window.begin
    shares = hourly / capacity / HOUR
    shares[-1] *= HOUR / (span - (window.hours - 1) * HOUR)
    return {
        "capacity": in_base_units(resource, capacity),
        "mean": _rounded(hourly.sum() / capacity / span),
        "idle_while_waiting": _rounded(_idle_while_waiting(records, resource, capacity, window)),
        "hourly": [_rounded(share) for share in shares],
    }


def _finite(columns: tuple[Floats, Floats, Floats], window: _Window) -> tuple[Floats, Floats, Floats]:
    starts, ends, amounts = columns
    return np.clip(starts, window.begin, window.end), np.clip(ends, window.begin, window.end), amounts


def _idle_while_waiting(records: Sequence[JobRecord], resource: str, capacity: int, window: _Window) -> float:
    """Return the part of the capacity, over the whole time, that was idle while a job waited that requests some."""
    starts, ends, amounts = _finite(_held(records, resource), window)
    since, until, asked = _finite(_waiting(records, resource), window)
    since, until = since[asked > 0], until[asked > 0]
    times = np.unique(np.concatenate((starts, ends, since, until, [window.begin, window.end])))
    used = _steps(times, starts, ends, amounts)[:-1]
    waiting = _steps(times, since, until, np.ones(len(since)))[:-1]
    idle = np.where(waiting > 0, capacity - used, 0.0) * np.diff(times)
    return float(idle.sum() / capacity / (window.end - window.begin))


def _steps(times: Floats, starts: Floats, ends: Floats, amounts: Floats) -> Floats:
    """Return what is there from each time to the next."""
    change = np.zeros(len(times))
    np.add.at(change, np.searchsorted(times, starts), amounts)
    np.subtract.at(change, np.searchsorted(times, ends), amounts)
    found: Floats = np.cumsum(change)
    return found


# --- fairness -------------------------------------------------------------------------------------------------------


def _jain(records: Sequence[JobRecord], cluster: ReplayedCluster, cards: str, window: _Window) -> Json | None:
    """Return Jain's index of the queues' use of their fair share (Jain, Chiu and Hawe, 1984): 1 is perfectly fair.

    The fair share of a queue in an hour is the most that it can have when the cards are divided by weight and none gets
    more than it requests (max-min). ``hourly`` is the mean over hours in which two queues or more wanted something.
    """
    capacity = cluster.capacity.get(cards, 0)
    by_queue = _by(records, lambda record: record.job.queue)
    names = sorted(by_queue)
    if not capacity or len(names) < 2:
        return None
    held = np.array([window.hourly(*_finite(_held(by_queue[name], cards), window)) for name in names])
    waited = np.array([window.hourly(*_finite(_waiting(by_queue[name], cards), window)) for name in names])
    weights = np.array([float(max(1, cluster.weights.get(name, 1))) for name in names])
    due = np.array([_max_min(want, weights, capacity * HOUR) for want in (held + waited).T]).T
    hours = [index for index in (_index(h[d > 0] / d[d > 0]) for h, d in zip(held.T, due.T, strict=True)) if index]
    whole, fair = held.sum(axis=1), due.sum(axis=1)
    over_all = _index(whole[fair > 0] / fair[fair > 0])
    return {
        "hourly": _rounded(float(np.mean(hours))) if hours else None,
        "whole": _rounded(over_all) if over_all else None,
    }


def _index(shares: Floats) -> float | None:
    squares = float((shares**2).sum())
    return float(shares.sum()) ** 2 / (len(shares) * squares) if len(shares) > 1 and squares else None


def _max_min(wants: Floats, weights: Floats, capacity: float) -> Floats:
    """Divide a capacity by weight, none above its request."""
    due, left = np.zeros(len(wants)), capacity
    open_ = wants > 0
    while open_.any() and left > 1e-9 * capacity:
        offer = left * weights * open_ / weights[open_].sum()
        given = np.minimum(offer, wants - due) * open_
        due, left = due + given, left - given.sum()
        satisfied = open_ & (due >= wants * (1 - 1e-12))
        if not satisfied.any():
            break
        open_ = open_ & ~satisfied
    found: Floats = due
    return found


# --- promises -------------------------------------------------------------------------------------------------------


def _reservations(records: Iterable[JobRecord]) -> Json:
    """Count the jobs with a promised start, by whether they started before the first promised time."""
    promised = [record for record in records if record.promised]
    dated = [
        (first, record.start)
        for record in promised
        if (first := next((start for _, start in record.promised if start is not None), None)) is not None
    ]
    late = [start - first for first, start in dated if start is not None and start > first]
    return {
        "given": len(promised),
        "dated": len(dated),
        "kept": sum(1 for first, start in dated if start is not None and start <= first),
        "late": len(late),
        "late_by": _quantiles(np.array(late)),
    }
