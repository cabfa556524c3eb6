"""Results of tests: what a journal says, which failed tests may be tried again, and the report at the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

FEW_ENOUGH: Final = 10
"""Failed tests up to which they are tried again: more have a common cause, which is no flaky test."""


@dataclass
class Result:
    """The outcome of one test, from the phases that it has ended so far."""

    test: str
    marks: frozenset[str] = frozenset()
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of the worker and its descendants; a fixture counts with the first test that needs it."""
    outcomes: list[str] = field(default_factory=list)
    shown: str = ""
    captured: str = ""

    @property
    def outcome(self) -> str:
        """`failed` if a phase failed, else `skipped` if a phase was skipped, else `passed`."""
        return next((word for word in ("failed", "skipped") if word in self.outcomes), "passed")

    @property
    def may_be_flaky(self) -> bool:
        """True if one more try may tell a flaky test from a broken one; see the mark `no_retry`."""
        return "process" in self.marks and "no_retry" not in self.marks


class Results:
    """The results of one pytest run, which grow while the journal is read."""

    def __init__(self) -> None:
        self.by_test: dict[str, Result] = {}
        self.planned = 0

    def read(self, line: Mapping[str, Any]) -> Result | None:
        """Take in one line of a journal; return the result if this phase failed."""
        if "planned" in line:
            self.planned = max(self.planned, line["planned"])
            return None
        result = self.by_test.setdefault(line["test"], Result(line["test"]))
        result.marks = result.marks | frozenset(line["marks"])
        result.seconds += line.get("duration", 0.0)
        result.cpu_seconds += line.get("cpu", 0.0)
        result.outcomes.append(line["outcome"])
        if line["outcome"] != "passed":
            result.shown, result.captured = line["shown"], line["captured"]
        return result if line["outcome"] == "failed" else None

    def with_outcome(self, outcome: str) -> list[Result]:
        """Return the tests with that outcome, in the order in which they began."""
        return [result for result in self.by_test.values() if result.outcome == outcome]

    def counts(self) -> Counter[str]:
        """Return how many tests have each outcome."""
        return Counter(result.outcome for result in self.by_test.values())

    @property
    def missing(self) -> int:
        """Tests that were collected and not run."""
        return max(0, self.planned - len(self.by_test))


def to_try_again(failed: Iterable[Result]) -> list[str]:
    """Return the failed tests that may be flaky, if few enough tests that need other processes have failed."""
    of_processes = [result for result in failed if "process" in result.marks]
    if len(of_processes) > FEW_ENOUGH:
        return []
    return [result.test for result in of_processes if result.may_be_flaky]


def report_of_failure(result: Result) -> str:
    """Return everything that a failed test left, under a line with its name."""
    captured = f"\n--- captured output\n{result.captured}" if result.captured else ""
    return f"=== {result.test} ===\n{result.shown}{captured}\n"


def slowest(results: Iterable[Results], number: int = 30) -> Iterator[str]:
    """Yield lines about the slowest tests."""
    found = [result for run in results for result in run.by_test.values()]
    for result in sorted(found, key=lambda result: -result.seconds)[:number]:
        yield f"{result.seconds:8.1f} s  {result.test}"


def busiest(results: Iterable[Results], number: int = 30) -> Iterator[str]:
    """Yield lines about the files whose tests took the most CPU time."""
    files: dict[str, float] = defaultdict(float)
    for run in results:
        for result in run.by_test.values():
            files[result.test.partition("::")[0]] += result.cpu_seconds
    for file, seconds in sorted(files.items(), key=lambda pair: -pair[1])[:number]:
        yield f"{seconds:8.1f} s  {file}"


def skipped(results: Iterable[Results]) -> Iterator[str]:
    """Yield a line for each reason for which tests were skipped."""
    found = (result for run in results for result in run.with_outcome("skipped"))
    reasons = Counter(f"{result.test.partition('::')[0]}: {_reason(result.shown)}" for result in found)
    for reason, number in sorted(reasons.items()):
        yield f"{number:5} skipped  {reason}"


def _reason(shown: str) -> str:
    """Take the reason out of pytest's `('file', line, 'Skipped: reason')`."""
    return shown.rpartition("Skipped: ")[2].rstrip("')\" \n") or "no reason given"
