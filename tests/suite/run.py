"""The whole run: checks, programs and both lanes side by side, a second try of flaky tests, and the report."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.processes import TESTS
from tests.programs import CONTROL_PLANE, is_there
from tests.suite import lanes
from tests.suite.cpu import children
from tests.suite.durations import Durations
from tests.suite.lanes import Job, Lane
from tests.suite.results import Result, busiest, report_of_failure, skipped, slowest, to_try_again

FOLDER: Final = TESTS.parent / ".test-results"
"""What the last run left: the output and the journal of each part, and the failures of flaky tests."""

PROGRESS_SECONDS: Final = 15.0
CHECK: Final = "check"
ORPHANS_SECONDS: Final = 10.0
"""How long the guards of control planes may take to clean up after tests that were ended."""
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_RACE_OF_TRACERS: Final = ("-W", "default::pytest.PytestUnraisableExceptionWarning")
"""With coverage, Python refuses the tracer of a thread at times that begins beside another (`Cannot install a trace
function while another trace function is being installed`). That thread does not run; another of its pool does."""


@dataclass(frozen=True)
class Order:
    """What a run is asked to do."""

    arguments: Sequence[str] = ()
    """Further arguments of pytest, for both lanes."""
    check: bool = True
    """Whether lint, types and import contracts are checked beside the tests."""
    strict: bool = False
    """Whether a failed test fails the run although a second try might pass."""
    coverage: bool = False
    contexts: bool = False
    """Whether coverage notes which test executed each line."""
    record_durations: bool = False


def say(line: str) -> None:
    """Write one line at once."""
    print(line, flush=True)


class Run:
    """One run of the suite."""

    def __init__(self, order: Order, folder: Path = FOLDER) -> None:
        self.order = order
        self.folder = folder
        self.lanes: list[Lane] = []
        self.helpers: list[Job] = []
        self.flaky: list[Result] = []
        self._began = time.monotonic()
        self._next_progress = self._began + PROGRESS_SECONDS

    def run(self) -> int:
        """Run everything; return the exit status."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        adopt_orphans()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # the lanes end with this process
        say(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; output of each part in {self.folder.name}/")
        try:
            problem = self._tests()
        finally:
            for job in (*self.helpers, *self.lanes):
                job.end()
            end_orphans()
        return self._report(problem)

    def _tests(self) -> str:
        """Run the lanes, and say what ended them before their time; empty if nothing did."""
        programs = self._help("programs", sys.executable, "-m", "tests.programs")
        if self.order.check:
            self._help(CHECK, "make", "check")
        if problem := self._compile():
            return problem
        self.lanes.append(lanes.computing(self._arguments(), self.folder, **self._variables("computing")))
        if problem := self._watch(lambda: programs.status is None and not is_there(CONTROL_PLANE)):
            return problem
        self.lanes.append(lanes.waiting(self._arguments(), self.folder, **self._variables("waiting")))
        if problem := self._watch(lambda: any(job.status is None for job in (*self.helpers, *self.lanes))):
            return problem
        self._try_again()
        return ""

    def _compile(self) -> str:
        """Have one process compile the tests, as pytest does it, if they changed: else each worker compiles them."""
        if lanes.is_compiled():
            return ""
        compiling = self._help("compile", sys.executable, "-m", "pytest", "--collect-only", "-qq", str(TESTS))
        return self._watch(lambda: compiling.status is None)

    def _help(self, name: str, *command: str) -> Job:
        job = Job(name, command, self.folder)
        self.helpers.append(job)
        return job

    def _arguments(self) -> list[str]:
        measured = ["--cov", "--cov-report=", *_RACE_OF_TRACERS] if self.order.coverage else []
        return [*measured, *(["--cov-context=test"] if self.order.contexts else []), *self.order.arguments]

    def _variables(self, lane: str) -> dict[str, str]:
        return {"COVERAGE_FILE": str(self.folder / f".coverage.{lane}")} if self.order.coverage else {}

    def _watch(self, is_going_on: Callable[[], bool]) -> str:
        """Show failures and progress while something goes on; return early, with the reason, if a helper fails."""
        while True:
            goes_on = is_going_on()
            reap_orphans([*self.helpers, *self.lanes])
            for lane in self.lanes:
                for failed in lane.new_failures():
                    say(f"FAILED {failed.test}")
            for job in self.helpers:
                if job.status and _ends_the_run(job):
                    return f"{job.name} failed:\n{job.last_lines()}"
            if not goes_on:
                return ""
            self._show_progress()
            time.sleep(0.5)

    def _show_progress(self) -> None:
        if time.monotonic() < self._next_progress:
            return
        self._next_progress += PROGRESS_SECONDS
        helping = (f"{job.name}: {job.last_lines(1)[:100]}" for job in self.helpers if job.status is None)
        say(f"{self._clock()} {'; '.join((lanes.progress_of(self.lanes), *helping))}")

    def _clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"[{minutes:2}:{seconds:02}]"

    def _failed(self) -> list[Result]:
        return [result for lane in self.lanes for result in lane.results.with_outcome("failed")]

    def _try_again(self) -> None:
        """Run the few failed tests that may be flaky once more; those that pass now are flaky."""
        failed = self._failed()
        names = [] if self.order.strict or any(lane.trouble for lane in self.lanes) else to_try_again(failed)
        if not names:
            return
        say(f"{self._clock()} trying {len(names)} failed tests again, one after the other")
        second = lanes.again([*self._arguments(), *names], self.folder, **self._variables("again"))
        _wait_for(second)
        passed = {result.test for result in second.results.with_outcome("passed")}
        self.flaky = [result for result in failed if result.test in passed]

    def _report(self, problem: str) -> int:
        flaky = {result.test for result in self.flaky}
        failed = [result for result in self._failed() if result.test not in flaky]
        runs = [lane.results for lane in self.lanes]
        for line in (*skipped(runs), "slowest tests:", *slowest(runs), "most CPU time, by file:", *busiest(runs)):
            say(line)
        for result in failed:
            say(report_of_failure(result))
        self._report_flaky()
        troubles = [f"{lane.name}: {lane.trouble}\n{lane.last_lines()}" for lane in self.lanes if lane.trouble]
        for trouble in [problem] if problem else troubles:
            say(f"ERROR {trouble}")
        is_good = not (problem or troubles or failed)
        if is_good and self.order.record_durations:
            self._record_durations()
        say(f"{'PASSED' if is_good else 'FAILED'}: {self._totals(failed)}")
        return 0 if is_good else 1

    def _report_flaky(self) -> None:
        """List the flaky tests, and keep their first failures in a file."""
        file = self.folder / "flaky.txt"
        file.write_text("".join(report_of_failure(result) for result in self.flaky))
        for result in self.flaky:
            say(f"FLAKY {result.test}: failed, then passed alone; its first failure is in {file}")
        for result in self.flaky:
            say(report_of_failure(result))

    def _totals(self, failed: Sequence[Result]) -> str:
        counts = [lane.results.counts() for lane in self.lanes]
        total, left_out = sum(count.total() for count in counts), sum(count["skipped"] for count in counts)
        return (
            f"{total} tests, {len(failed)} failed, {len(self.flaky)} flaky, {left_out} skipped, "
            f"in {time.monotonic() - self._began:.0f} s, {_cpu_seconds():.0f} s of CPU time, "
            f"load {os.getloadavg()[0]:.1f}"
        )

    def _record_durations(self) -> None:
        seconds = {result.test: result.seconds for lane in self.lanes for result in lane.results.by_test.values()}
        recorded = Durations.recorded()
        removed = (file for file in recorded.files if not (TESTS.parent / file).is_file())
        recorded.updated(Durations.measured(seconds), removed).save()


def _ends_the_run(failed: Job) -> bool:
    """Tell whether nothing can go on; a test that lacks some other program fails by itself and names the program."""
    return failed.name == CHECK or not is_there(CONTROL_PLANE)


def _wait_for(lane: Lane) -> None:
    """Wait until a lane has ended, and read its journal to the end."""
    while lane.status is None:
        reap_orphans([lane])
        time.sleep(0.2)
    for failed in lane.new_failures():
        say(f"FAILED {failed.test}, again")


def adopt_orphans() -> None:
    """Become the parent of processes whose own parent ends, so that their CPU time counts in the report."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def reap_orphans(jobs: Sequence[Job]) -> None:
    """Take the exit status of adopted processes that have ended: a test may wait until such a process is gone."""
    own = {job.process.pid for job in jobs}
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in own:
                return  # its job takes this status
            os.waitpid(ended.si_pid, 0)


def end_orphans(patience: float = ORPHANS_SECONDS) -> None:
    """Kill what tests have left behind that were ended; it has that many seconds to end by itself."""
    deadline = time.monotonic() + patience
    while left := children(os.getpid()):
        reap_orphans([])
        for process in left if time.monotonic() > deadline else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


def _cpu_seconds() -> float:
    """CPU time of all descendants that have ended."""
    reap_orphans([])
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime
