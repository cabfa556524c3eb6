"""Units of work: files whole, long files in parts, the longest first."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suite.durations import UNKNOWN, Durations
from tests.suite.units import next_unit, units_of

MEASURED = {
    "a.py::test_1": 0.1,
    "a.py::test_2": 0.3,
    "b.py::test_long": 9.0,
    "c.py::test[x]": 12.0,
    "c.py::test[y]": 9.0,
}


def test_the_longest_unit_comes_first_and_a_long_file_in_parts() -> None:
    units = units_of(MEASURED, MEASURED, longest=20.0)

    assert [(unit.name, unit.tests) for unit in units] == [
        ("c.py#1", ("c.py::test[x]",)),
        ("b.py#1", ("b.py::test_long",)),
        ("c.py#2", ("c.py::test[y]",)),
        ("a.py#1", ("a.py::test_1", "a.py::test_2")),
    ]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 50)), max_size=60))
def test_each_test_is_in_one_unit_and_a_file_keeps_its_order(tests: list[tuple[str, float]]) -> None:
    seconds = {f"{file}.py::test_{number}": spent for number, (file, spent) in enumerate(tests)}

    units = units_of(seconds, seconds)

    assert sorted(test for unit in units for test in unit.tests) == sorted(seconds)
    assert all(unit.tests for unit in units)
    for file in "abc":
        parts = sorted((u for u in units if u.name.startswith(file)), key=lambda u: int(u.name.rpartition("#")[2]))
        assert [t for unit in parts for t in unit.tests] == [t for t in seconds if t.startswith(file)]


@given(st.lists(st.floats(0, 5), min_size=1, max_size=200))
def test_no_part_is_much_longer_than_the_limit(spent: list[float]) -> None:
    seconds = {f"a.py::test_{number}": item for number, item in enumerate(spent)}

    assert max(unit.seconds for unit in units_of(seconds, seconds, longest=20.0)) <= 20.0 + 2 * 5.0


def test_a_test_that_is_not_recorded_counts_as_its_file_or_as_unknown() -> None:
    known = Durations.measured(MEASURED)

    found = known.of(["a.py::test_new", "b.py::test_long", "new.py::test"])

    assert found == {"a.py::test_new": 0.2, "b.py::test_long": 9.0, "new.py::test": UNKNOWN}


def test_a_record_is_read_as_it_was_saved_and_files_that_are_gone_leave_it(tmp_path: Path) -> None:
    record = tmp_path / "durations.json"
    Durations.measured(MEASURED).updated(Durations.measured({"a.py::test_1": 7.0}), removed=["b.py"]).save(record)

    read = Durations.recorded(record)

    assert read.files == {"a.py", "c.py"}
    assert read.of(["a.py::test_1", "c.py::test[y]"]) == {"a.py::test_1": 7.0, "c.py::test[y]": 9.0}


def test_the_repository_has_a_record() -> None:
    assert Durations.recorded().files


LEFT = {"tests/a/test_1.py#1": 10.0, "tests/a/test_2.py#1": 20.0, "tests/b/test_1.py#1": 40.0}


@pytest.mark.parametrize(
    ("here", "unit"),
    [
        (None, "tests/b/test_1.py#1"),
        ("tests/a", "tests/a/test_2.py#1"),
        ("tests/b", "tests/b/test_1.py#1"),
        ("tests/c", "tests/b/test_1.py#1"),
    ],
)
def test_a_worker_stays_in_its_folder_and_gets_the_longest_unit(here: str | None, unit: str) -> None:
    assert next_unit(LEFT, here) == unit
