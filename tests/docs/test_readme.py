"""The README's tour is walked, and shows what the README says that it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, Block, anchor, blocks, codes, headings, rows, section
from volsched.registry import ABSENT_ACTIONS, ABSENT_PLUGINS, ACTIONS, PLUGINS

PAGE = ROOT / "README.md"
LINES_OF_A_SCREEN = 48


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like the project's, with only what the tour uses."""
    made = tmp_path_factory.mktemp("tour")
    (made / "manifests").symlink_to(ROOT / "manifests")
    bin_ = made / ".venv" / "bin"
    bin_.mkdir(parents=True)
    script = bin_ / "volsched"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m volsched "$@"\n')
    script.chmod(0o755)
    return made


def sh(folder: Path, text: str) -> str:
    done = subprocess.run(
        ["sh", "-ec", text],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr


def step(word: str) -> Block:
    """The block of the tour with this word, those left out that need a cluster."""
    (found,) = [b for b in blocks(PAGE) if "sh" in b.words and word in b.text and "kubectl" not in b.text]
    return found


def text_after(line: int) -> Block:
    return next(b for b in blocks(PAGE) if "text" in b.words and b.line > line)


def collapsed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.process
def test_demo_shows_what_the_excerpt_shows(folder: Path) -> None:
    shown = collapsed(sh(folder, ".venv/bin/volsched simulate -f manifests/examples"))

    excerpt = collapsed(text_after(0).text)
    for piece in re.split(r"(?:^| )\.\.\.(?: |$)", excerpt):
        for row in re.split(r"(?=PODGROUP )|(?=WAITING )|(?<=WHY) ", piece):
            assert row.removesuffix(" PODGROUP").removeprefix("PODGROUP ").strip() in shown


def test_makefile_runs_the_demo_that_the_tour_begins_with() -> None:
    assert "simulate -f manifests/examples" in (ROOT / "Makefile").read_text()


@pytest.mark.process
def test_gang_starts_with_two_nodes_more_and_not_with_one(folder: Path) -> None:
    with_two = sh(folder, step("more-nodes").text)
    assert len(re.findall(r"^vision/segmenter-\d +a100-\d +vision +1 ", with_two, re.MULTILINE)) == 3

    both = step("more-nodes").text
    assert "for n in 3 4;" in both
    with_one = sh(folder, both.replace("for n in 3 4;", "for n in 3;"))
    assert "100-3" in with_one
    assert not re.search(r"^vision/segmenter-\d +a100", with_one, re.MULTILINE)


@pytest.mark.process
def test_quota_and_broken_configuration_say_what_the_tour_says(folder: Path) -> None:
    quota = step("capability")
    shown = collapsed(sh(folder, quota.text))
    (quoted,) = re.findall(r"`(queue resource quota insufficient[^`]*)`", collapsed(PAGE.read_text()))
    assert quoted in shown

    broken = step("wieght")
    assert text_after(broken.line).text.strip() in sh(folder, broken.text)


@pytest.mark.parametrize("page", [PAGE, DOCS / "testing.md"], ids=lambda page: page.name)
def test_commands_of_the_table_are_targets_of_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    listed = {command.split()[1] for cells in rows(section(page, "Commands")) for command in codes(cells[0])}

    assert {"demo", "test"} <= listed <= targets


def test_each_section_fills_one_screen_at_most() -> None:
    for part in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE):
        lines = [line for line in part.splitlines() if line]
        assert len(lines) <= LINES_OF_A_SCREEN, lines[0]


def test_figures_are_those_of_the_sections_that_they_link() -> None:
    figures = rows(section(PAGE, "Five figures"))
    assert len(figures) == 5

    for _, figure, recorded, details in figures:
        (name, wanted), *_ = re.findall(r"\]\((docs/[a-z]+\.md)#([^)]+)\)", details)
        (heading,) = [text for _, text in headings(ROOT / name) if anchor(text) == wanted]
        there = " ".join(section(ROOT / name, heading))
        numbers = re.findall(r"(?<![\w.])\d[\d,.]*\b", figure)
        assert numbers
        for word in (*numbers, *recorded.replace("`", "").split(", ")):
            assert re.search(rf"(?<![\w,.]){re.escape(word)}(?!\w|[,.]\d)", there), (name, heading, word)


def test_what_works_and_what_does_not_are_those_of_the_registry() -> None:
    works, absent = (set(codes(" ".join(section(PAGE, name)))) for name in ("What works", "What does not work yet"))
    own = set(PLUGINS.names()) | set(ACTIONS.names())
    later = {n for n, why in ABSENT_PLUGINS.items() if "this version" in why and n not in own}

    assert own <= works
    assert later <= absent
    assert set(ABSENT_ACTIONS) & {"preempt", "reclaim"} - own <= absent
    assert own.isdisjoint(absent - {"preempt", "reclaim", "proportion", "drf"})
