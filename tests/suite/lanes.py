"""Lanes of the suite: pytest runs side by side, each with the tests that need the same thing.

Tests marked `process` wait more than they work, so there are more of them at a time than cores. All other tests keep a
core busy each. Both kinds in one queue would leave cores idle first and waiting tests alone at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

from tests.processes import FOLDERS, MARK, TESTS
from tests.suite.plugin import JOURNAL
from tests.suite.results import Result, Results
from tests.tools import remembering
from tests.tools.passed import files_to_run, stale_tools

COMPUTING_WORKERS: Final = 2
WAITING_WORKERS: Final = 5
GIVES_WAY: Final = 2
"""Niceness of the computing lane: a waiting test that is due goes first. A higher one starves it on a busy machine."""

TOOLS: Final = "tools"
"""The folder of the tests of tools."""

_ROOT: Final = TESTS.parent


class Job:
    """A command beside the others; its output goes to a file."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, nice: int = 0, **variables: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                ["nice", "-n", str(nice), *command],
                cwd=_ROOT,
                env=os.environ | variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def status(self) -> int | None:
        """Exit status, None while the command runs."""
        return self.process.poll()

    def end(self) -> None:
        """Ask a command that still runs to end, and wait for its end."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()

    def last_lines(self, number: int = 60) -> str:
        """Return the end of the output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-number:])


class Lane(Job):
    """A pytest run whose journal is read while the tests run."""

    def __init__(self, name: str, arguments: Sequence[str], folder: Path, nice: int = 0, **variables: str) -> None:
        journal = folder / f"{name}.journal"
        journal.touch()
        self._journal: IO[str] = journal.open()
        self._unfinished = ""
        self.results = Results()
        command = [sys.executable, "-m", "pytest", "--quiet", f"{JOURNAL}={journal}", *arguments]
        super().__init__(name, command, folder, nice, **variables)

    def new_failures(self) -> Iterator[Result]:
        """Read on in the journal, and yield what failed since the last call."""
        for line in self._new_lines():
            if (failed := self.results.read(json.loads(line))) is not None:
                yield failed

    def _new_lines(self) -> list[str]:
        *lines, self._unfinished = (self._unfinished + self._journal.read()).split("\n")
        return lines

    @property
    def trouble(self) -> str:
        """Say why the run as a whole cannot be believed; empty if it can."""
        if self.status not in (0, 1, _NOTHING_COLLECTED):
            return f"pytest ended with status {self.status}"
        if self.status == 1 and not self.results.with_outcome("failed"):
            return "pytest ended with status 1, and no test failed"
        if self.results.missing:
            return f"{self.results.missing} of {self.results.planned} tests were not run"
        return ""


_NOTHING_COLLECTED: Final = 5  # pytest's exit status


def computing(arguments: Sequence[str], folder: Path, **variables: str) -> Lane:
    """Start the lane of the tests that need no other process."""
    chosen = [f"--ignore={TESTS / name}" for name in sorted(FOLDERS)]
    given = [*_workers(COMPUTING_WORKERS), "-m", "not process", *chosen, *arguments, str(TESTS)]
    return Lane("computing", given, folder, GIVES_WAY, **variables)


def waiting(arguments: Sequence[str], folder: Path, **variables: str) -> Lane:
    """Start the lane of the tests that need other processes."""
    given = [*_workers(WAITING_WORKERS), *remembering.PLUGIN, "-m", "process", *arguments, *map(str, waiting_paths())]
    return Lane("waiting", given, folder, **variables)


def again(tests: Sequence[str], folder: Path, **variables: str) -> Lane:
    """Start the second try of some tests, one after the other and beside nothing else."""
    return Lane("again", ["-n", "0", *tests], folder, **variables)


def waiting_paths() -> list[Path]:
    """Return the folders and files that may have tests marked `process`, so that other files need not be imported.

    Of the tests of tools, those of the tools that have changed.
    """
    folders = [TESTS / name for name in sorted(FOLDERS - {TOOLS})]
    files = (path for path in sorted(TESTS.rglob("test_*.py")) if path.relative_to(TESTS).parts[0] not in FOLDERS)
    changed = [_ROOT / file for file in files_to_run(stale_tools())]
    return folders + [path for path in files if MARK in path.read_text()] + changed


def is_compiled(folder: Path = TESTS) -> bool:
    """Tell whether pytest has compiled each test file of a folder since it changed."""
    return all(_is_compiled(file) for file in folder.rglob("test_*.py"))


def _is_compiled(file: Path) -> bool:
    compiled = (file.parent / "__pycache__").glob(f"{file.stem}.*-pytest-*.pyc")
    return any(path.stat().st_mtime > file.stat().st_mtime for path in compiled)


def _workers(number: int) -> list[str]:
    """A worker that died is not replaced: a new one would hide what a test did to it."""
    return ["-n", str(number), "--dist", "loadfile", "--max-worker-restart", "0"]


def progress_of(lanes: Sequence[Lane]) -> str:
    """Return how far each lane is."""
    return ", ".join(_progress(lane) for lane in lanes)


def _progress(lane: Lane) -> str:
    counts: Any = lane.results.counts()
    failed = f", {counts['failed']} failed" if counts["failed"] else ""
    return f"{lane.name} {counts.total()}/{lane.results.planned or '?'}{failed}"
