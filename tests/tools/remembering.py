"""A plugin of pytest that notes the tools whose tests have all passed: ``pytest -p tests.tools.remembering ...``.

A tool is noted only when each test of its files ran and passed. In a run that chose tests by name, by mark or within a
file no tool is noted, since what was not chosen is not seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import pytest

from tests.tools.passed import TOOLS, remember, stale_tools

PLUGIN: Final = ("-p", __name__)
"""Arguments with which pytest loads this plugin."""

_MARK: Final = "process"
"""All tests of tools have this mark, so a run that chooses by it leaves none of them out."""


class Outcomes:
    """Follows the tests of a run; `passed` tells whether all those of some files passed."""

    def __init__(self) -> None:
        self._collected: set[str] = set()
        self._passed: set[str] = set()
        self._others: set[str] = set()

    def collect(self, ids: Iterable[str]) -> None:
        """Take in which tests are going to run."""
        self._collected.update(ids)

    def add(self, report: pytest.TestReport) -> None:
        """Take in how a phase of a test went."""
        if not report.passed:
            self._others.add(report.nodeid)
        elif report.when == "call":
            self._passed.add(report.nodeid)

    def passed(self, files: Collection[str]) -> bool:
        """Tell whether each of the files has tests, and all of them passed."""
        expected = {test for test in self._collected if _file_of(test) in files}
        return {_file_of(test) for test in expected} == set(files) and expected <= self._passed - self._others


def _file_of(test: str) -> str:
    return test.partition("::")[0]


class Remembering:
    """Notes at the end of a run which tools passed; it is registered where the outcomes come together."""

    def __init__(self) -> None:
        self._digests = stale_tools()
        self._outcomes = Outcomes()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Learn the tests of a run without workers."""
        self._outcomes.collect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Learn the tests of a run with workers."""
        self._outcomes.collect(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Learn how a test went."""
        self._outcomes.add(report)

    def pytest_sessionfinish(self) -> None:
        """Note the tools."""
        for name, digest in self._digests.items():
            if self._outcomes.passed(TOOLS[name].tests):
                remember(name, digest)


def chooses(config: pytest.Config) -> bool:
    """Tell whether a run leaves out tests of the files that it was given."""
    option = config.option
    by_mark = option.markexpr not in ("", _MARK)
    return bool(option.keyword or by_mark or option.deselect or any("::" in word for word in config.args))


def pytest_configure(config: pytest.Config) -> None:
    """Follow the run, unless it is the part of a worker or leaves out tests."""
    if not hasattr(config, "workerinput") and not chooses(config):
        config.pluginmanager.register(Remembering())
