"""Failures of plugins: counted, logged, and reported on the configuration if a plugin fails again and again.

A PodGroup over which a plugin fails shows that (``framework.boundary``). This report is for the administrator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import structlog

from volsched.model.errors import shortened
from volsched.model.values.bounded import Bounded
from volsched.model.values.series import Numbers
from volsched.ports import CycleReport

OFTEN: Final = 3
LATELY: Final = 10
"""A plugin that failed in so many of the last sessions is reported, once until it has worked for as long.

A plugin has no work in some sessions.
"""

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
        self._session = 0
        self._failed_in: dict[str, list[int]] = {}
        self._reported: set[str] = set()
        self._logged: Bounded[tuple[str, str], None] = Bounded(_MOST_LOGGED)

    def cycle(self, report: CycleReport) -> None:
        """Take in what a session failed with."""
        self._session += 1
        self._configured = *report.plugins, OURSELVES
        for hint in report.hints:
            self._hint_once(hint)
        for plugin, error in report.faults:
            self._counts[plugin or OURSELVES] += 1
            self._log_once(plugin or OURSELVES, error)
        for plugin, error in {plugin or OURSELVES: error for plugin, error in report.faults}.items():
            self._note(plugin, error)

    def _note(self, plugin: str, error: BaseException) -> None:
        """Note that a plugin failed in this session."""
        before = [number for number in self._failed_in.get(plugin, []) if self._session - number < LATELY]
        self._failed_in[plugin] = [*before, self._session][-OFTEN:]
        if not before:
            self._reported.discard(plugin)
        if len(before) + 1 >= OFTEN and plugin not in self._reported:
            self._reported.add(plugin)
            cause = shortened(f"{type(error).__name__}: {error}", _LONGEST_CAUSE)
            self._warn(f'plugin "{plugin}" failed in {OFTEN} of the last {LATELY} sessions, now with {cause}')

    def numbers(self) -> Numbers:
        """Return how often each configured plugin failed, and the scheduler itself."""
        return {(plugin,): float(self._counts[plugin]) for plugin in self._configured}

    def _hint_once(self, hint: str) -> None:
        if (hint, "") not in self._logged:
            self._logged[hint, ""] = None
            _log.info("a plugin could be faster", hint=hint)

    def _log_once(self, plugin: str, error: BaseException) -> None:
        what = plugin, f"{type(error).__name__}: {error}"
        if what not in self._logged:
            _log.error("a plugin failed", plugin=plugin, exc_info=error)
        self._logged[what] = None
