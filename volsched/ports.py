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
    """Pods and jobs that wait for a node, for metrics.

    Pods and jobs are counted by (queue, step, reason code); ``requests`` are the requests of the pods by (queue,
    resource), in the resource's unit (see ``volsched.model.values.quantity``); ``oldest`` is the creation time of the
    oldest pod of each queue, in seconds since the epoch.
    """

    pods: Mapping[Labels, int] = field(default_factory=dict)
    jobs: Mapping[Labels, int] = field(default_factory=dict)
    requests: Mapping[Labels, int] = field(default_factory=dict)
    oldest: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CycleReport:
    """The report of one cycle, for metrics and logs.

    * Durations are in seconds.
    * ``job_attempts``: jobs that allocate tried to place.
    * ``victim_searches`` and ``victims``: searches and chosen pods, by (action, queue of the pod that needs the room).
    * ``gang_searches``: gangs whose members found no nodes one by one, by the result of a search for all of them.
    * ``series``: the plugins' own numbers.
    * ``faults``: exceptions that ended with their job, or with the session, each with the plugin that raised it.
    * ``over``: why the session ended early; ``is_unfinished``: searches were put off to the next session.
    * ``hints``: advice to authors of plugins about speed.
    * ``whole``: the original text of Events from which names of other namespaces were removed.
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
