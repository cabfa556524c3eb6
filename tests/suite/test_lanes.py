"""Lanes: real pytest runs of a small suite, their journal, and a second try."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import FOLDERS, TESTS
from tests.suite.lanes import TOOLS, Lane, is_compiled, waiting_paths
from tests.suite.results import report_of_failure, to_try_again
from tools.patience import PATIENCE

pytestmark = pytest.mark.process

CONFTEST = """
pytest_plugins = ("tests.suite.plugin",)
"""

SUITE = """
import os
from pathlib import Path

import pytest

STATE = Path(__file__).with_name("tried")


def test_passes(): ...


@pytest.mark.process
def test_passes_the_second_time():
    print("said before it fails")
    tried = STATE.exists()
    STATE.touch()
    assert tried, "the first try fails"


@pytest.mark.process
def test_fails():
    raise ValueError("always")


@pytest.mark.process
@pytest.mark.no_retry(reason="it counts bindings")
def test_is_not_tried_again():
    assert STATE.exists()


@pytest.mark.skip(reason="for a reason")
def test_is_skipped(): ...


@pytest.mark.skipif("DIES" not in os.environ, reason="only for the test of that")
def test_dies():
    os._exit(3)
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_small.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    process\n    no_retry(reason)\n")
    return folder


def run(folder: Path, *arguments: str, **variables: str) -> Lane:
    (folder.parent / "out").mkdir(exist_ok=True)
    lane = Lane("small", ["-c", str(folder / "pytest.ini"), *arguments], folder.parent / "out", **variables)
    lane.process.wait()
    lane.failed = [failed.test.rpartition("::")[2] for failed in lane.new_failures()]  # type: ignore[attr-defined]
    return lane


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_journal_says_what_came_of_each_test(small: Path, workers: str) -> None:
    lane = run(small, "-n", workers, "--dist", "loadfile", str(small))

    assert lane.results.counts() == {"passed": 2, "failed": 2, "skipped": 2}, lane.last_lines()
    assert lane.trouble == ""
    shown = {test.rpartition("::")[2]: report_of_failure(result) for test, result in lane.results.by_test.items()}
    assert "ValueError: always" in shown["test_fails"]
    assert "said before it fails" in shown["test_passes_the_second_time"]


def test_a_second_try_tells_flaky_tests_from_broken_ones(small: Path) -> None:
    name = f"{small}/test_small.py::test_passes_the_second_time"
    first = run(small, "-n", "0", name)

    again = to_try_again(first.results.with_outcome("failed"))
    second = run(small, "-n", "0", name)

    assert [test.rpartition("::")[2] for test in again] == ["test_passes_the_second_time"]
    assert second.results.counts() == {"passed": 1}


def test_a_worker_that_dies_fails_its_test(small: Path) -> None:
    lane = run(small, "-n", "2", "--dist", "loadfile", "--max-worker-restart", "0", str(small), DIES="yes")

    failed = lane.results.with_outcome("failed")
    assert [result.test.rpartition("::")[2] for result in failed].count("test_dies") == 1
    assert not [test for test in to_try_again(failed) if test.endswith("test_dies")]


def test_a_suite_that_cannot_be_collected_is_trouble(small: Path) -> None:
    (small / "test_broken.py").write_text("import nothing_of_this_name")

    lane = run(small, "-n", "2", "--dist", "loadfile", str(small))

    assert lane.trouble or lane.results.with_outcome("failed")
    assert "nothing_of_this_name" in lane.last_lines()


def test_a_command_that_is_told_to_end_ends(small: Path) -> None:
    (small / "test_hangs.py").write_text("import time\n\ndef test_hangs():\n    time.sleep(1000)\n")
    (small.parent / "out").mkdir()
    lane = Lane("small", ["-c", str(small / "pytest.ini"), str(small)], small.parent / "out")
    while not list(lane.new_failures()) and not lane.results.planned:
        time.sleep(0.05)

    lane.end()

    assert lane.status is not None


def test_a_test_file_that_has_changed_is_not_compiled(small: Path) -> None:
    before = is_compiled(small)
    run(small, "-n", "0", "--collect-only", str(small), PYTHONDONTWRITEBYTECODE="")
    after = is_compiled(small)
    (small / "test_small.py").touch()

    assert (before, after, is_compiled(small)) == (False, True, False)


ORPHAN = """
import subprocess, time
from pathlib import Path
from tests.suite.run import adopt_orphans, reap_orphans

adopt_orphans()
pid = subprocess.run(["sh", "-c", "sleep 0.2 >&- & echo $!"], capture_output=True, text=True, check=True).stdout.strip()
while Path("/proc", pid).exists():
    reap_orphans([])
    time.sleep(0.01)
"""


def test_a_process_whose_parent_has_ended_is_gone_when_it_ends() -> None:
    subprocess.run([sys.executable, "-c", ORPHAN], cwd=TESTS.parent, timeout=PATIENCE, check=True)


LEFT_BEHIND = """
import subprocess
from tests.suite.run import adopt_orphans, end_orphans

adopt_orphans()
print(subprocess.run(["sh", "-c", "sleep 1000 >&- 2>&- & echo $!"], capture_output=True, text=True, check=True).stdout)
end_orphans(patience=0.0)
"""


def test_what_tests_leave_behind_ends_with_the_run() -> None:
    left = subprocess.run([sys.executable, "-c", LEFT_BEHIND], cwd=TESTS.parent, capture_output=True, check=True)

    assert not Path("/proc", left.stdout.decode().strip()).exists()


def test_each_file_with_marked_tests_is_in_the_waiting_lane() -> None:
    paths = waiting_paths()

    assert {TESTS / name for name in FOLDERS - {TOOLS}} <= set(paths)
    assert TESTS / "drills" / "test_failover.py" in paths
    assert TESTS / "model" / "test_quantity.py" not in paths
