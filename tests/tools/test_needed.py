"""`python -m tests.programs` makes what `make test` needs: all of it, even if one program cannot be made."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import programs
from tests.programs import BUILT, CONTROL_PLANE, DOWNLOADED, Program, is_there, main
from tests.tools.fake_go import builds
from tools.controlplane.binaries import PROGRAMS, Report, cache_folder
from tools.controlplane.errors import BuildError

Find = Callable[[Report], object]


def made(report: Report) -> None:
    report("made it")


def broken(report: Report) -> None:
    raise BuildError("no compiler; install one")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what is built and what is downloaded."""

    def set_steps(built: list[Find], downloaded: list[Find]) -> None:
        for name, finds in {"BUILT": built, "DOWNLOADED": downloaded}.items():
            found = [Program(f"{name.lower()}-{number}", "cluster", find) for number, find in enumerate(finds)]
            monkeypatch.setattr(programs, name, found)

    return set_steps


def test_each_line_of_progress_names_the_program_the_step_and_the_seconds(
    steps: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    steps([made, made], [made])

    assert main([]) == 0

    lines = sorted(re.sub(r"^\[ +0 s\] ", "", line) for line in capsys.readouterr().out.splitlines())
    assert lines == ["1/1 downloaded-0: made it", "1/2 built-0: made it", "2/2 built-1: made it"]


def test_what_cannot_be_made_is_said_at_the_end_and_the_others_are_made(
    steps: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    steps([broken, made], [made])

    assert main([]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert sum("made it" in line for line in lines) == 2
    assert lines[-1] == "built-0: no compiler; install one"


def test_the_list_says_what_is_missing_and_makes_nothing(
    traces: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(traces.parent / "path"))

    assert main(["--list"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(BUILT) + len(DOWNLOADED)
    assert all(line.split("tests of:")[0].rstrip().endswith("missing") for line in lines)
    assert not (traces / "builds").exists()


def test_the_control_plane_is_there_once_all_its_programs_are(traces: Path) -> None:
    folder = cache_folder() / "bin"
    folder.mkdir(parents=True)
    for program in PROGRAMS:
        assert not is_there(CONTROL_PLANE)
        (folder / program).touch()

    assert is_there(CONTROL_PLANE)
    assert not (traces / "builds").exists()


def test_the_control_plane_comes_first_and_no_program_of_judges_at_all(
    traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "DOWNLOADED", ())

    main([])

    assert builds(traces)[: len(PROGRAMS) - 1] == ["v3", *PROGRAMS[1:-1]]
    assert not {"kubelet", "oracle", "syft", "e2e"} & set(builds(traces))
