"""The coverage map: which lines count, and what is read back."""

from __future__ import annotations

from pathlib import Path

import pytest
from coverage import CoverageData

from tests.suite.coverage_map import CoverageMap, executed_by, function_of, lines_of_functions

ROOT = Path(__file__).resolve().parents[2]

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


def test_the_map_of_the_repository_knows_the_tests_of_a_module() -> None:
    tests = CoverageMap.recorded().tests_of("plugins/binpack/plugin.py")

    assert any(test.startswith("tests/plugins/binpack/") for test in tests)


def test_templates_of_pages_have_no_functions(tmp_path: Path) -> None:
    measured = CoverageData(str(tmp_path / "coverage"))
    measured.set_context("tests/x.py::test_y|run")
    measured.add_lines({str(ROOT / "volsched/ui/templates/page.html"): [1]})
    measured.write()

    assert executed_by([tmp_path / "coverage"]) == {}
