"""Units of work: the tests that one worker gets at once, and the order in which workers get them.

A unit is a file, as its tests share fixtures. A long file is split into several units, so that it does not keep one
worker busy while the others have nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

LONGEST_UNIT: Final = 120.0
"""Seconds above which a file is split. Each part makes the fixtures of the module anew."""


@dataclass(frozen=True)
class Unit:
    """Tests of one file, in the order of the file."""

    name: str
    seconds: float
    tests: tuple[str, ...]


def folder_of(unit: str) -> str:
    """Return the folder of a unit's file, given the name of the unit."""
    return unit.rpartition("/")[0]


def next_unit(seconds: Mapping[str, float], here: str | None) -> str:
    """Return the unit that a worker gets next, given what is left and the folder of its last unit.

    Files of a folder share fixtures that are made anew for each worker and after each change of the folder. So a worker
    stays in its folder while something is left there, and goes on with the longest unit otherwise.
    """
    return max(seconds, key=lambda unit: (folder_of(unit) == here, seconds[unit]))


def units_of(tests: Iterable[str], seconds: Mapping[str, float], longest: float = LONGEST_UNIT) -> list[Unit]:
    """Return units of the tests, the longest first; `seconds` are expected durations by node id."""
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], []).append(test)
    units = [unit for file, found in files.items() for unit in _split(file, found, seconds, longest)]
    return sorted(units, key=lambda unit: -unit.seconds)


def _split(file: str, tests: list[str], seconds: Mapping[str, float], longest: float) -> list[Unit]:
    """Cut a file into parts of about the same duration; a part ends with the test that reaches its share."""
    total = sum(seconds[test] for test in tests)
    share = total / max(1, ceil(total / longest))
    parts: list[list[str]] = [[]]
    spent = 0.0
    for test in tests:
        if parts[-1] and spent + seconds[test] / 2 > share * len(parts):
            parts.append([])
        parts[-1].append(test)
        spent += seconds[test]
    return [
        Unit(f"{file}#{number}", sum(seconds[test] for test in part), tuple(part))
        for number, part in enumerate(parts, 1)
    ]
