"""Verbs on real terminals: pages fit, have colours that words repeat, and do nothing that a text of others says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.calls import call, written
from tests.cli.on_terminal import Shown, environment, on_terminal
from tests.cli.test_hostile_text import EVIL, FORGED, QUESTIONS, world
from tests.simulation.clusters import group, node, pod, queue
from volsched.cli.inputs.known import Progress

pytestmark = pytest.mark.process

FLEET = Path(__file__).resolve().parents[2] / "manifests" / "examples" / "fleet"
WIDTHS = (60, 80, 200)


@pytest.mark.parametrize("width", WIDTHS)
def test_queues_of_a_fleet_fit_the_terminal_and_numbers_are_at_the_right(width: int) -> None:
    page = on_terminal("queue", "list", "-f", FLEET, width=width)

    assert page.status == 0
    assert page.widest <= width
    [row] = [line.split() for line in page.lines if line.startswith("language") and "HBM3" in line]
    assert row[1:2] + row[3:] == ["Open", "32", "32", "0", "0"]
    assert ("…" in row[2]) == (width == 60)


def test_wide_shows_whole_names_on_a_narrow_terminal() -> None:
    page = on_terminal("queue", "list", "-f", FLEET, "-o", "wide", width=60)

    assert "NVIDIA-H100-80GB-HBM3" in page.text
    assert "…" not in page.text


@pytest.mark.parametrize("width", WIDTHS)
def test_an_explanation_fits_and_reasons_are_wrapped_at_words(width: int) -> None:
    asked = ("explain", "Job/tracker-sweep", "-n", "vision", "-f", FLEET, "--help-seconds", "0")
    page = on_terminal(*asked, width=width)
    words = " ".join(page.text.split())

    assert page.status == 3
    assert page.widest <= width
    assert "{node.kubernetes.io/unreachable: }, 1 node(s) were unschedulable." in words


def test_colours_repeat_what_words_say(tmp_path: Path) -> None:
    file = written(tmp_path, node("n1"), queue("a"), queue("b", state="Closed"), group("g", q="a"))
    page = on_terminal("queue", "list", "-f", file)

    assert page.colours == {"31", "32"}
    assert re.search(r"\x1b\[32mOpen", page.styled)
    assert re.search(r"\x1b\[31mClosed", page.styled)
    assert [line.split()[1] for line in page.lines if line.startswith(("a ", "b "))] == ["Open", "Closed"]


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_there_are_no_colours_where_none_are_wanted(env: dict[str, str]) -> None:
    page = on_terminal("queue", "list", "-f", FLEET, env=env)

    assert page.colours == set()
    assert "Open" in page.text
    if "TERM" in env:
        assert "\x1b" not in page.styled


@pytest.mark.parametrize("width", WIDTHS)
def test_what_tenants_write_does_nothing_on_a_terminal(tmp_path: Path, width: int) -> None:
    file = world(tmp_path, "capacity-card", EVIL)
    asked = [words for words in QUESTIONS if words[0] in ("simulate", "validate", "cards", "queue")]
    asked.append(("explain", "pod", "in-queue", "--nodes", "--help-seconds", "0"))
    for words in asked if width == 80 else asked[:1]:
        page = on_terminal(*words, "-f", file, width=width)
        check_harmless(page)


def check_harmless(page: Shown) -> None:
    assert page.status != 70, page.stderr
    for line in page.lines:
        assert line.isprintable(), ascii(line)
        assert not line.strip().startswith(FORGED), line


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_of_another_encoding_shows_escapes(tmp_path: Path, encoding: str) -> None:
    name = "größe-中文-" + "x" * 60
    file = written(
        tmp_path, node("n1"), queue("team"), pod("p", annotations={"scheduling.volcano.sh/queue-name": name})
    )
    env = {"PYTHONUTF8": "0", "PYTHONIOENCODING": encoding}
    page = on_terminal("simulate", "-f", file, width=60, env=env, encoding=encoding)
    piped = subprocess.run(
        [sys.executable, "-m", "volsched", "simulate", "-f", str(file)],
        capture_output=True,
        env=environment(**env),
        check=False,
    )

    assert page.status == piped.returncode == 0, page.stderr
    assert page.widest <= 60
    assert "\\u4e2d\\u6587" in page.text
    assert "\\u4e2d\\u6587" in piped.stdout.decode(encoding)
    assert ("größe" in page.text) == (encoding != "ascii")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_forms_for_programs_are_the_same_on_a_terminal(form: str) -> None:
    asked = ("queue", "list", "-f", str(FLEET), "-o", form)

    assert on_terminal(*asked, width=60).styled == call(*asked).stdout


def test_a_pipe_gets_the_same_page_for_table_and_wide() -> None:
    assert call("cards", "-f", FLEET, "-o", "wide").stdout == call("cards", "-f", FLEET).stdout


# --- what it costs --------------------------------------------------------------------------------------------------

IMPORTED = """
import importlib, json, sys
from click.testing import CliRunner
from volsched.cli import volsched
for verb in ("run", "controllers"):
    importlib.import_module(f"volsched.cli.{verb}")
CliRunner().invoke(volsched, ["queue", "list", "-f", sys.argv[1]])
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_the_library_for_terminals_is_imported_for_terminals_alone() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED, FLEET], capture_output=True, text=True, check=True)

    assert not {"rich", "pygments", "markdown_it"} & set(json.loads(done.stdout))


# --- progress -------------------------------------------------------------------------------------------------------


def progress_after(seconds: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a search says on a terminal, when its ticks come after so many seconds."""
    now = 0.0
    monkeypatch.setattr("volsched.cli.inputs.known.time.monotonic", lambda: now)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = Progress()
    progress.show("7 objects read")
    progress.begin("searching for what would help")
    now = seconds
    progress.tick()
    progress.tick()
    return capsys.readouterr().err.splitlines()


def test_progress_is_told_once_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert progress_after(1.9, monkeypatch, capsys) == []
    assert progress_after(2.1, monkeypatch, capsys) == ["searching for what would help (2.1 s)"]
