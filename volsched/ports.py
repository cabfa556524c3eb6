"""The seams of the scheduler: what the loop needs from outside, and what it tells outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def elapsed(self) -> float:
        """Seconds on a clock that never goes back, for durations."""


@dataclass(frozen=True, slots=True)
class CycleReport:
    """What one cycle did, for metrics and logs.

    Durations are in seconds. ``waiting`` counts waiting pods by (queue, reason code); ``hunts`` counts searches for
    victims and ``victims`` the pods chosen, by (action, queue of the pod that needs the room).
    """

    placed: int = 0
    evicted: int = 0
    duration: float = 0.0
    open_duration: float = 0.0
    actions: Mapping[str, float] = field(default_factory=dict)
    plugins: Mapping[str, float] = field(default_factory=dict)
    steps: int = 0
    waiting_jobs: int = 0
    waiting: Mapping[tuple[str, str], int] = field(default_factory=dict)
    hunts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    victims: Mapping[tuple[str, str], int] = field(default_factory=dict)
