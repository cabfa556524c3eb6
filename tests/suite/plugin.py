"""The part of the suite that runs inside pytest: the order of units, and a journal of what came of each test."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.suite.cpu import cpu_seconds
from tests.suite.durations import Durations
from tests.suite.units import folder_of, next_unit, units_of

JOURNAL: Final = "--journal"


class LongestFirst(LoadScopeScheduling):
    """Hands out units of work: those of the folder where the worker is, as they share fixtures, the longest first."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._unit_of: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._folder_of: dict[WorkerController, str] = {}

    def schedule(self) -> None:
        """Divide the tests into units before they are handed out for the first time."""
        if not self._unit_of:
            self._divide(next(iter(self.registered_collections.values())))
        super().schedule()

    def _divide(self, tests: Sequence[str]) -> None:
        for unit in units_of(tests, Durations.recorded().of(tests)):
            self._seconds[unit.name] = unit.seconds
            self._unit_of |= dict.fromkeys(unit.tests, unit.name)

    def _split_scope(self, nodeid: str) -> str:
        return self._unit_of[nodeid]

    def _assign_work_unit(self, node: WorkerController) -> None:
        chosen = next_unit({unit: self._seconds[unit] for unit in self.workqueue}, self._folder_of.get(node))
        self._folder_of[node] = folder_of(chosen)
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


class Journal:
    """Writes a line of JSON for each phase of a test that ends, at once, for the process that runs the lanes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a phase of a test."""
        facts = {"worker": getattr(report, "worker_id", ""), "duration": report.duration}
        self._write(report, **facts, cpu=getattr(report, CpuTime.ATTRIBUTE, 0.0))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be collected."""
        if report.failed:
            self._write(report, when="collect")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note how many tests there are, where this process collects them itself."""
        self._line({"planned": len(session.items)})

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Note how many tests there are; each worker collects the same."""
        self._line({"planned": len(ids)})

    def pytest_unconfigure(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, report: pytest.TestReport | pytest.CollectReport, **facts: Any) -> None:
        marks = [mark for mark in ("process", "no_retry") if mark in getattr(report, "keywords", ())]
        shown = "" if report.passed else report.longreprtext
        line = {"test": report.nodeid, "when": getattr(report, "when", ""), "outcome": report.outcome, "marks": marks}
        self._line({**line, "shown": shown, "captured": report.capstdout if report.failed else "", **facts})

    def _line(self, facts: dict[str, Any]) -> None:
        self._file.write(json.dumps(facts) + "\n")


class CpuTime:
    """Notes in the last report of a test how much CPU time the worker and its descendants took for it."""

    ATTRIBUTE: Final = "cpu_seconds"

    _before = 0.0

    def pytest_collection_finish(self) -> None:
        """Begin after the tests have been collected."""
        self._before = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the CPU time of a test: to look at all descendants takes time itself."""
        report = yield
        if report.when != "teardown":
            return report
        now = cpu_seconds()
        setattr(report, self.ATTRIBUTE, max(0.0, now - self._before))  # less, if an orphan found another parent
        self._before = now
        return report


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the journal."""
    parser.addoption(JOURNAL, type=Path, metavar="FILE", help="write a line of JSON for each phase of a test")


def pytest_configure(config: pytest.Config) -> None:
    """Keep a journal in the process that reports, which is not a worker, and measure where the tests run."""
    path = config.getoption(JOURNAL)
    if not path:
        return
    config.pluginmanager.register(CpuTime())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Journal(path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Hand out units, the longest first, wherever tests are divided by file."""
    return LongestFirst(config, log) if config.getoption("dist") == "loadfile" else None
