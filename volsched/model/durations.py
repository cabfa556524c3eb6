"""How long pods run, as far as anybody declared it, and when those that run are thought to end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from volsched.model.held_nodes import DEFAULT_DURATION, EXPECTED_DURATION
from volsched.model.pods.task import TaskInfo
from volsched.model.values.duration import seconds_of

LEAST_OVERRUN: Final = 300.0
"""Seconds that a pod is thought to go on at least that has outlived what it declared."""


def declared(task: TaskInfo, queue: Mapping[str, str], default: float) -> float | None:
    """Return the seconds that a pod runs: what it or its PodGroup declares, at most its deadline.

    Where neither declares any, the queue's default counts (``queue`` has its annotations), and then ``default``. None:
    none is declared. An annotation that cannot be read counts as absent.
    """
    bounds = [seconds for seconds in (annotated(task), task.spec.deadline) if seconds]
    return min(bounds, default=seconds_of(queue.get(DEFAULT_DURATION, "")) or default or None)


def annotated(task: TaskInfo) -> float | None:
    """Return the seconds that a pod or its PodGroup declares, or None when neither does."""
    text = task.spec.annotations.get(EXPECTED_DURATION)
    if text is None and task.job is not None:
        text = task.job.spec.annotations.get(EXPECTED_DURATION)
    return seconds_of(text) if text is not None else None


def end_of(start: float, duration: float, now: float) -> float:
    """Return when a pod is thought to end that began at ``start``, in seconds.

    Who has outlived an estimate is thought to run as long again: durations of jobs are heavy-tailed.
    """
    return next(start + length for length in _lengths(duration) if start + length > now)


def _lengths(duration: float) -> Iterator[float]:
    while True:
        yield duration
        duration = max(2 * duration, duration + LEAST_OVERRUN)
