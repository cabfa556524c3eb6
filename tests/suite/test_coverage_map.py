"""The coverage map: which lines count, and what is read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suite.coverage_map import CoverageMap, function_of, lines_of_functions

SOURCE = '''
import os

LIMIT = 3


def first(given):
    """Say what it does."""
    return given


class A:
    size = 3

    async def second(self):
        def inner():
            return 1
        return inner()
'''


def test_only_lines_inside_functions_count() -> None:
    assert lines_of_functions(SOURCE) == {8, 9, 16, 17, 18}


@pytest.mark.parametrize("case", ["|run", "[a|b]|setup", "[c[1]]|teardown"])
def test_cases_of_a_function_are_one(case: str) -> None:
    assert function_of(f"tests/x.py::T::test_y{case}") == "tests/x.py::T::test_y"


def test_a_map_is_read_as_it_was_saved(tmp_path: Path) -> None:
    record = tmp_path / "map.gz"
    expected = {"a.py": ["t1", "t2"], "b.py": ["t3"], "c.py": []}
    CoverageMap.measured(expected).save(record)

    read = CoverageMap.recorded(record)

    assert {module: read.tests_of(module) for module in read.modules} == expected
    with pytest.raises(KeyError):
        read.tests_of("d.py")
