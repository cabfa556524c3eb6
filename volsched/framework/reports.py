"""What the plugins of a session report (the rule ``Report``), part by part.

People and programs read it through these functions: metrics, `volsched queue`, `cards`, `explain` and the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from volsched.framework.rules import Report
from volsched.framework.session import Session

Part = TypeVar("Part")


def reported(session: Session | None, part: Callable[[Report], Part | None]) -> list[Part]:
    """Return one part of each report that has it, in the order of registration; of no session none."""
    reports = (report for _, report in _reports(session))
    return [found for report in reports if (found := part(report)) is not None]


def reported_by(session: Session | None, plugin: str, part: Callable[[Report], Part | None]) -> Part | None:
    """Return one part of what a plugin reports; None where it does not report that."""
    found = [part(report) for name, report in _reports(session) if name == plugin]
    return next((each for each in reversed(found) if each is not None), None)


def _reports(session: Session | None) -> Iterable[tuple[str, Report]]:
    found: list[tuple[str, Report]] = session.rules.of[Report] if session is not None else []
    return found
