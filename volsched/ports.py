"""The seams of the scheduler: what the loop needs from outside, and what it tells outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from volsched.model.plan import RecordEvent
from volsched.model.values.series import Numbers, Series

Labels: TypeAlias = tuple[str, ...]


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def elapsed(self) -> float:
        """Seconds on a clock that never goes back, for durations."""

    def cpu(self) -> float:
        """Seconds of CPU that the calling thread has used, for budgets."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a node, for metrics.

    Pods and jobs are counted by (queue, step, reason code); ``requests`` is what the pods ask for by (queue, resource),
    in the resource's unit (see ``volsched.model.values.quantity``); ``oldest`` is when the oldest pod of each queue was
    created, in seconds since the epoch.
    """

    pods: Mapping[Labels, int] = field(default_factory=dict)
    jobs: Mapping[Labels, int] = field(default_factory=dict)
    requests: Mapping[Labels, int] = field(default_factory=dict)
    oldest: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CycleReport:
    """What one cycle did, for metrics and logs.

    Durations are in seconds. ``job_attempts`` counts jobs that allocate tried to place. ``victim_searches`` counts
    searches for victims and ``victims`` the pods chosen, by (action, queue of the pod that needs the room).
    ``gang_searches`` counts gangs whose members found no nodes one by one, by what came of a search for all of them.
    ``series`` are the plugins' own numbers. ``faults`` are exceptions that ended with the job that they were about, or
    with the session, each with the plugin that raised it; ``over`` states why the session ended before it was through.
    ``is_unfinished``: searches were put off to the next session. ``hints`` tell authors of plugins what would be
    faster. ``whole`` has Events from which names of other namespaces were taken, as they were before.
    """

    placed: int = 0
    evicted: int = 0
    duration: float = 0.0
    open_duration: float = 0.0
    actions: Mapping[str, float] = field(default_factory=dict)
    plugins: Mapping[str, float] = field(default_factory=dict)
    steps: int = 0
    waiting_jobs: int = 0
    waiting: Waiting = field(default_factory=Waiting)
    job_attempts: int = 0
    victim_searches: Mapping[Labels, int] = field(default_factory=dict)
    victims: Mapping[Labels, int] = field(default_factory=dict)
    gang_searches: Mapping[Labels, int] = field(default_factory=dict)
    series: Sequence[tuple[Series, Numbers]] = ()
    faults: Sequence[tuple[str, BaseException]] = ()
    over: str = ""
    gave_way: bool = False
    is_unfinished: bool = False
    hints: Sequence[str] = ()
    whole: Sequence[RecordEvent] = ()
