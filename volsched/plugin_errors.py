"""What plugins failed with: counted, logged, and told on the configuration where a plugin fails in every session.

A pod group over which a plugin fails says so itself (``framework.boundary``). That a plugin is broken is for whoever
configured it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import structlog

from volsched.model.bounded import Bounded
from volsched.model.errors import shortened
from volsched.model.series import Numbers
from volsched.ports import CycleReport

SESSIONS_IN_A_ROW: Final = 3
"""A plugin that failed in so many is told on the configuration, once until it has done without."""

OURSELVES: Final = "volsched"
"""Stands for the scheduler itself, where no plugin is to blame."""

_MOST_LOGGED: Final = 256
"""The log has each error of a plugin in full once: the same may come back in every session."""

_LONGEST_CAUSE: Final = 500

_log = structlog.get_logger(__name__)


class PluginErrors:
    """Takes in what sessions failed with, on the scheduling thread; `warn` tells a message on the configuration."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._counts: Counter[str] = Counter()
        self._configured: tuple[str, ...] = ()
        self._in_a_row: dict[str, int] = {}
        self._logged: Bounded[tuple[str, str], None] = Bounded(_MOST_LOGGED)

    def cycle(self, report: CycleReport) -> None:
        """Take in what a session failed with."""
        last = {plugin or OURSELVES: error for plugin, error in report.faults}
        self._configured = *report.plugins, OURSELVES
        for plugin, error in report.faults:
            self._counts[plugin or OURSELVES] += 1
            self._log_once(plugin or OURSELVES, error)
        self._in_a_row = {plugin: self._in_a_row.get(plugin, 0) + 1 for plugin in last}
        for plugin, sessions in self._in_a_row.items():
            if sessions == SESSIONS_IN_A_ROW:
                cause = shortened(f"{type(last[plugin]).__name__}: {last[plugin]}", _LONGEST_CAUSE)
                self._warn(f'plugin "{plugin}" failed in {sessions} sessions in a row, last with {cause}')

    def numbers(self) -> Numbers:
        """Return how often each configured plugin failed, and the scheduler itself."""
        return {(plugin,): float(self._counts[plugin]) for plugin in self._configured}

    def _log_once(self, plugin: str, error: BaseException) -> None:
        what = plugin, f"{type(error).__name__}: {error}"
        if what not in self._logged:
            _log.error("a plugin failed", plugin=plugin, exc_info=error)
        self._logged[what] = None
