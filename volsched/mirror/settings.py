"""The settings of a mirror."""

from __future__ import annotations

from dataclasses import dataclass

from volsched.model.annotations import KeptAnnotations
from volsched.model.pods.limits import DEFAULT, KEPT_BYTES, PodLimits


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """The pods that belong to volsched, and their groups.

    ``plain_pods``: a pod of ours without a PodGroup is a job of one; otherwise it waits for a PodGroup. ``pod_limits``:
    limits of one pod. ``annotations``: the kept annotations of objects; None: all, until ``Mirror.keep_only``.
    ``kept_bytes``: the memory for objects (``Mirror.memory_use``).
    """

    scheduler_names: tuple[str, ...] = ("volsched", "volcano")
    default_queue: str = "default"
    plain_pods: bool = False
    pod_limits: PodLimits = DEFAULT
    annotations: KeptAnnotations | None = None
    kept_bytes: int = KEPT_BYTES


@dataclass(slots=True)
class Arrival:
    """Order of arrival, for objects that state no time of creation."""

    count: int = 0

    def next(self) -> int:
        """Return the next number."""
        self.count += 1
        return self.count

    def as_time(self) -> float:
        """Return the next number as a time in seconds that is before all times in objects."""
        return self.next() * 1e-6
