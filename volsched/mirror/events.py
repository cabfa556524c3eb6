"""Findings and Events of the mirror: the only way for Events out of it.

A follower records no Events. It keeps findings that still hold, for the time when it leads, but no events of the past.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Protocol

from volsched.model.plan import RecordEvent
from volsched.model.values.bounded import Bounded

MOST_EVENTS: Final = 4096
"""Findings of each sort that wait to be reported."""


class Finding(Protocol):
    """A state, as an Event reports it."""

    def event(self) -> RecordEvent:
        """Return the Event."""
        ...


class MirrorEvents:
    """Findings and Events until they are taken; equal ones once."""

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._findings: Bounded[Hashable, Finding] = Bounded(most)
        self._happened: Bounded[RecordEvent, None] = Bounded(most)

    def __len__(self) -> int:
        return len(self._findings) + len(self._happened)

    def report(self, finding: Finding, about: Hashable) -> None:
        """Report how something is, in place of what was found about the same before."""
        self._findings[about] = finding

    def take_back(self, about: Hashable) -> None:
        """Report nothing about something, as it is so no longer."""
        self._findings.pop(about, None)

    def record(self, event: RecordEvent) -> None:
        """Report what has happened."""
        self._happened[event] = None

    def forget_what_happened(self) -> None:
        """Drop what has happened so far: the leader has reported it."""
        self._happened.clear()

    def take_findings(self) -> list[Finding]:
        """Return what was found since this was last called."""
        found = list(self._findings.values())
        self._findings.clear()
        return found

    def take(self) -> list[RecordEvent]:
        """Return the Events about what was found, and has happened, since this was last called."""
        events = [finding.event() for finding in self.take_findings()]
        events += self._happened
        self._happened.clear()
        return events
