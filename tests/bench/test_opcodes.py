"""A record holds the cost of a session: opcodes and NumPy elements for each placed pod, by package."""

from __future__ import annotations

import platform
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from bench.figures import RECORD, Figures, differences, read, write
from bench.opcodes import HOW_TO_RECORD, NODES, ROOT, conclude, environment, opcodes_of, package_of

PACKAGES = {"volsched/framework/engine": 80.0, "plugins/binpack": 10.0, "plugins/nodeorder": 10.0}


def figures(placed: int = 96, **opcodes: float) -> Figures:
    """Return figures that are 100 opcodes and 50 elements, but for these packages."""
    changed = {name.replace("__", "/"): amount for name, amount in opcodes.items()}
    return Figures(100, placed, PACKAGES | changed, {"volsched/framework/engine": 50.0})


@pytest.mark.no_retry(reason="a guard")
@pytest.mark.process
def test_a_session_costs_what_is_recorded() -> None:
    if not RECORD.exists():
        pytest.skip(f"no record for Python {platform.python_version()}: `{HOW_TO_RECORD}` writes {RECORD.name}")

    done = subprocess.run(
        [sys.executable, "-m", "bench", "opcodes"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    _, _, conclusion = done.stdout.partition("\n\n")
    assert done.returncode == 0, f"{conclusion}\n{done.stderr}"


@pytest.mark.parametrize("path", sorted(RECORD.parent.glob("opcodes-*.json")), ids=lambda path: path.name)
def test_a_record_has_every_variant(path: Path) -> None:
    record = read(path) or {}

    assert [*record] == [*NODES]
    assert {name: found.nodes for name, found in record.items()} == NODES
    assert all(found.opcodes for found in record.values())
    assert all(found.placed and found.elements for name, found in record.items() if name != "idle")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = {"base": figures(), "idle": figures(placed=0)}

    write(record, tmp_path / "record.json")

    assert read(tmp_path / "record.json") == record
    assert read(tmp_path / "none.json") is None


@pytest.mark.parametrize("engine", [77.1, 80.0, 82.9])
def test_three_hundredths_are_tolerated(engine: float) -> None:
    assert differences({"base": figures()}, {"base": figures(volsched__framework__engine=engine)}) == []


def test_a_loss_names_the_packages_that_grew_and_no_other() -> None:
    now = figures(plugins__binpack=13.0, plugins__nodeorder=9.0, plugins__new=1.5, actions__allocate=0.1)

    (said,) = differences({"base": figures()}, {"base": now})

    assert said.splitlines() == [
        "base, opcodes for each placed pod: 103.6, recorded 100.0 (+3.6 %)",
        "    plugins/binpack: 13.0, recorded 10.0 (+3.0)",
        "    plugins/new: 1.5, recorded 0.0 (+1.5)",
    ]


def test_a_gain_names_the_packages_that_shrank() -> None:
    (said,) = differences({"base": figures()}, {"base": figures(volsched__framework__engine=60.0)})

    assert said.splitlines() == [
        "base, opcodes for each placed pod: 80.0, recorded 100.0 (-20.0 %)",
        "    volsched/framework/engine: 60.0, recorded 80.0 (-20.0)",
    ]


def test_work_that_moves_into_numpy_is_seen() -> None:
    now = Figures(100, 96, PACKAGES, {"volsched/framework/engine": 50.0, "plugins/binpack": 2.0})

    (said,) = differences({"base": figures()}, {"base": now})

    assert said.splitlines() == [
        "base, elements for each placed pod: 52.0, recorded 50.0 (+4.0 %)",
        "    plugins/binpack: 2.0, recorded 0.0 (+2.0)",
    ]


def test_where_nothing_was_recorded_anything_is_more() -> None:
    before, now = (Figures(100, 0, PACKAGES, elements) for elements in ({}, {"volsched/scheduler": 1.0}))

    (said,) = differences({"idle": before}, {"idle": now})

    assert said.startswith("idle, elements for the session: 1.0, recorded 0.0 (none before)")


def test_other_clusters_than_the_recorded_ones_are_named() -> None:
    assert differences({"base": figures()}, {"base": figures(placed=80), "own": figures()}) == [
        "base: 80 pods placed on 100 nodes, recorded are 96 pods placed on 100 nodes",
        "own: the record has no such variant",
    ]


def test_the_command_fails_beside_its_record_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert conclude({"base": figures()}, {"base": figures()}, write_it=False) == 0
    assert conclude(None, {"base": figures()}, write_it=False) == 0
    assert HOW_TO_RECORD in capsys.readouterr().out

    assert conclude({"base": figures()}, {"base": figures(plugins__binpack=20.0)}, write_it=False) == 1
    shown = capsys.readouterr().out
    assert "plugins/binpack: 20.0, recorded 10.0" in shown
    assert HOW_TO_RECORD in shown


def test_each_call_counts_from_the_first_one_on() -> None:
    def add(count: int) -> int:
        total = 0
        for number in range(count):
            total += number
        return total

    first, second, ten, twenty = (opcodes_of(partial(add, count)).total() for count in (0, 0, 10, 20))

    assert first == second > 0
    assert twenty - ten == ten - first > 10


@pytest.mark.parametrize(
    ("file", "package"),
    [
        (f"{ROOT}/volsched/framework/engine/entry.py", "volsched/framework/engine"),
        (f"{ROOT}/volsched/scheduler.py", "volsched/scheduler"),
        (f"{ROOT}/plugins/binpack/score.py", "plugins/binpack"),
        (f"{ROOT}/actions/placement.py", "actions/placement"),
        (f"{ROOT}/.venv/lib/python3.11/site-packages/numpy/lib/function.py", "numpy"),
        ("/usr/lib/python3.11/contextlib.py", "Python"),
        ("<string>", "Python"),
    ],
)
def test_a_file_belongs_to_a_package(file: str, package: str) -> None:
    assert package_of(file) == package


def test_settings_of_python_and_of_coverage_are_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONOPTIMIZE", "PYTHONHASHSEED", "COVERAGE_PROCESS_START", "COV_CORE_SOURCE"):
        monkeypatch.setenv(name, "7")

    found = environment()

    assert {name: value for name, value in found.items() if name.startswith(("PYTHON", "COV"))} == {
        "PYTHONHASHSEED": "0"
    }
    assert found["PATH"]


def test_a_tracer_that_was_there_before_goes_on() -> None:
    def tracer(*_: object) -> None:
        """Trace nothing."""

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        opcodes_of(lambda: None)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
