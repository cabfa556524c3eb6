"""The counts of a session, for metrics and logs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class SessionStats:
    """The counts of one session.

    ``victim_searches`` and ``victims`` count by action and queue, ``gang_searches`` by outcome.
    ``is_unfinished``: searches were put off to the next session. ``hints`` tell authors of plugins what is slow.
    """

    job_attempts: int = 0
    victim_searches: Counter[tuple[str, ...]] = field(default_factory=Counter)
    victims: Counter[tuple[str, ...]] = field(default_factory=Counter)
    gang_searches: Counter[tuple[str, ...]] = field(default_factory=Counter)
    is_unfinished: bool = False
    hints: list[str] = field(default_factory=list)
