"""Recorded durations of tests, by which the longest start first.

A worker that gets the longest file last works on alone while the others have nothing left to do. The record is
refreshed by `make durations`. A test that is not in the record counts as an average test of its file.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

RECORD: Final = Path(__file__).with_name("durations.json")

WORTH_RECORDING: Final = 0.5
"""Seconds from which a test has an entry of its own; shorter tests share the rest of their file."""

UNKNOWN: Final = 1.0
"""Seconds that a test counts whose file is not in the record: new files start early rather than last."""


class Durations:
    """Seconds by test, as one run took them: setup, call and teardown together."""

    def __init__(self, files: Mapping[str, Mapping[str, Any]]) -> None:
        self._files = files

    @classmethod
    def recorded(cls, record: Path = RECORD) -> Durations:
        """Return what was saved: the record of the repository."""
        return cls(json.loads(record.read_text()))

    @classmethod
    def measured(cls, seconds: Mapping[str, float]) -> Durations:
        """Return the durations of one run, given by node id."""
        files: dict[str, dict[str, float]] = defaultdict(dict)
        for test, duration in seconds.items():
            file, _, name = test.partition("::")
            files[file][name] = duration
        return cls({file: _summary(tests) for file, tests in files.items()})

    def of(self, tests: Iterable[str]) -> dict[str, float]:
        """Return the seconds that each of these tests is expected to take."""
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in tests:
            by_file[test.partition("::")[0]].append(test)
        return dict(pair for file, found in by_file.items() for pair in self._of_file(file, found))

    def _of_file(self, file: str, tests: list[str]) -> Iterator[tuple[str, float]]:
        known = self._files.get(file)
        for test in tests:
            name = test.partition("::")[2]
            yield test, UNKNOWN if known is None else known["longest"].get(name, known["average"])

    def save(self, record: Path = RECORD) -> None:
        """Write the record, a line for each file."""
        lines = [f"{json.dumps(file)}: {json.dumps(self._files[file])}" for file in sorted(self._files)]
        record.write_text("{\n" + ",\n".join(lines) + "\n}\n")

    def updated(self, later: Durations, removed: Iterable[str] = ()) -> Durations:
        """Return this record with the files of a later run in place of its own, and without removed files."""
        gone = set(removed)
        return Durations({file: row for file, row in {**self._files, **later._files}.items() if file not in gone})

    @property
    def files(self) -> frozenset[str]:
        """Files with an entry."""
        return frozenset(self._files)


def _summary(tests: Mapping[str, float]) -> dict[str, Any]:
    longest = {name: round(seconds, 1) for name, seconds in sorted(tests.items()) if seconds >= WORTH_RECORDING}
    others = [seconds for name, seconds in tests.items() if name not in longest]
    average = round(sum(others) / len(others), 3) if others else 0.0
    return {"average": average, "longest": longest}
