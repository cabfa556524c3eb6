"""Mutants are faults in functions, drawn the same each time, and tests that notice them kill them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.suite.coverage_map import CoverageMap
from tests.suite.mutants import ROOT, Mutant, drawn, main, mutants_of, nearest_first, outcome_of

SOURCE = '''"""A module."""

LIMIT = 3


def fits(given: int, used: int) -> bool:
    """Whether ä fits."""
    total = given + used  # ü
    if not given:
        return True
    return total <= LIMIT and given > 0
'''


def test_mutants_are_inside_functions_and_can_be_parsed() -> None:
    found = mutants_of("a.py", SOURCE)

    assert [str(mutant) for mutant in found] == [
        "a.py:8: given + used -> (given - used)",
        "a.py:9: not given -> bool(given)",
        "a.py:10: return True -> return None",
        "a.py:10: True -> False",
        "a.py:11: return total <= LIMIT and given > 0 -> return None",
        "a.py:11: total <= LIMIT -> (total < LIMIT)",
        "a.py:11: total <= LIMIT and given > 0 -> (total <= LIMIT or given > 0)",
        "a.py:11: given > 0 -> (given >= 0)",
        "a.py:11: 0 -> 1",
    ]
    for mutant in found:
        assert ast.dump(ast.parse(mutant.applied(SOURCE))) != ast.dump(ast.parse(SOURCE))


def test_the_same_seed_draws_the_same_mutants() -> None:
    module = ROOT / "volsched" / "mirror" / "pods.py"

    assert drawn([module], 5, seed=1) == drawn([module], 5, seed=1) != drawn([module], 5, seed=2)


def test_modules_that_the_map_does_not_have_are_named_before_any_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    CoverageMap.measured({"a.py": ["tests/test_a.py::test_a"]}).save(tmp_path / "map")
    monkeypatch.setattr("sys.argv", ["mutants", "volsched/mirror/pods.py", "--map", str(tmp_path / "map")])

    with pytest.raises(SystemExit):
        main()

    assert "not in the coverage map: volsched/mirror/pods.py; `make coverage-map`" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize(("becomes", "outcome"), [("(given - used)", "killed"), ("(used + given)", "lives")])
def test_a_mutant_that_a_test_notices_is_killed(tmp_path: Path, becomes: str, outcome: str) -> None:
    (tmp_path / "sums.py").write_text("def total(given, used):\n    return given + used\n")
    (tmp_path / "test_sums.py").write_text("from sums import total\n\ndef test_total():\n    assert total(2, 1) == 3\n")
    start = (tmp_path / "sums.py").read_text().index("given + used")
    mutant = Mutant("sums.py", 2, start, start + len("given + used"), "given + used", becomes)

    assert outcome_of(mutant, tmp_path, ["test_sums.py"]) == outcome
    assert "given + used" in (tmp_path / "sums.py").read_text()


def test_tests_of_a_module_are_tried_first() -> None:
    files = [
        "tests/plans/test_plans.py",
        "tests/plugins/capacity_card/test_stock.py",
        "tests/plugins/gang/test_gang.py",
    ]

    found = nearest_first("plugins/capacity_card/cards/catalogue.py", files)

    assert found == [files[1], files[2], files[0]]
