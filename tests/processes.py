"""Which tests need other processes is told by the mark `process`, and a test without it can start none.

So what `make unit` leaves out cannot be too little: a test that comes to need a process, or a control plane, fails
until it is marked.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

pytest_plugins = ("tests.cluster.control_plane",)

TESTS: Final = Path(__file__).parent
FOLDERS: Final = frozenset({"charts", "cluster", "manifests", "realnode", "tools"})
"""Folders of `tests` of which everything is marked."""

JUDGES: Final = frozenset({"drills", "judges", "oracle", "plans", "properties", "volcano"})
"""Folders of `tests` of which no test is tried again: a failure there is never for want of time."""

MARK: Final = "mark.process"
"""A file outside of these folders contains this text if any of its tests is marked."""

_STARTING: Final = frozenset(
    {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"}
)


class Guard:
    """Refuses to start processes while a test runs that is not marked, and notes what was refused."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self._is_on = False

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Look at an event of the interpreter (`sys.addaudithook`)."""
        if event in _STARTING and self._is_on:
            self.refused.append(f"{event}{args[:2]}")
            self.fail()

    def fail(self) -> None:
        """Fail the test that runs, with what was refused."""
        pytest.fail(f"it starts a process and has no @pytest.mark.process: {self.refused[-1]}", pytrace=False)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Allow processes for a while: a judge is asked again whose recorded answers are out of date."""
        was_on, self._is_on = self._is_on, False
        try:
            yield
        finally:
            self._is_on = was_on

    def watch(self, item: pytest.Item) -> Iterator[None]:
        """While this generator is suspended the test may do what its marks say."""
        self.refused.clear()
        self._is_on = item.get_closest_marker("process") is None
        try:
            yield
        finally:
            self._is_on = False
        if self.refused:  # where the test has caught the failure, or another thread has had it
            self.fail()


GUARD: Final = Guard()
sys.addaudithook(GUARD)


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in the folders that need processes; refuse a test that is called slow without a reason."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in FOLDERS:
            item.add_marker(pytest.mark.process)
        if folder in JUDGES:
            item.add_marker(pytest.mark.no_retry(reason="a drill, a judge, a guard or a property"))
        if folder not in FOLDERS and item.get_closest_marker("process") and MARK not in item.path.read_text():
            raise pytest.UsageError(f"{item.nodeid}: write the mark `process` in its own file: `make test` looks there")
        for name in ("slow", "no_retry"):
            for mark in item.iter_markers(name):
                if not mark.kwargs.get("reason"):
                    raise pytest.UsageError(f"{item.nodeid}: say why: @pytest.mark.{name}(reason=...)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Watch the fixtures being made; when they end, those of other tests may end with them."""
    yield from GUARD.watch(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Watch the test."""
    yield from GUARD.watch(item)
