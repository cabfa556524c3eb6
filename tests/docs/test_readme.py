"""The README's tour is walked, and shows what the README says that it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, blocks, codes, rows, section
from volsched.registry import ABSENT_ACTIONS, ABSENT_PLUGINS, ACTIONS, PLUGINS

PAGE = ROOT / "README.md"


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


def test_demo_shows_what_the_excerpt_shows(folder: Path) -> None:
    shown = collapsed(sh(folder, ".venv/bin/volsched simulate -f manifests/examples"))

    excerpt = collapsed(text_after(0).text)
    for piece in re.split(r"(?:^| )\.\.\.(?: |$)", excerpt):
        for row in re.split(r"(?=PODGROUP )|(?=WAITING )|(?<=WHY) ", piece):
            assert row.removesuffix(" PODGROUP").removeprefix("PODGROUP ").strip() in shown


def test_makefile_runs_the_demo_that_the_tour_begins_with() -> None:
    assert "simulate -f manifests/examples" in (ROOT / "Makefile").read_text()


def test_gang_starts_with_two_nodes_more_and_not_with_one(folder: Path) -> None:
    with_two = sh(folder, step("more-nodes").text)
    assert len(re.findall(r"^vision/segmenter-\d +a100-\d +vision +1 ", with_two, re.MULTILINE)) == 3

    head, _, rest = step("more-nodes").text.rpartition("- apiVersion: v1\n  kind: Node\n")
    with_one = sh(folder, head + rest[rest.index("END") :])
    assert "100-3" in with_one
    assert not re.search(r"^vision/segmenter-\d +a100", with_one, re.MULTILINE)


def test_quota_and_broken_configuration_say_what_the_tour_says(folder: Path) -> None:
    quota = step("capability")
    shown = collapsed(sh(folder, quota.text))
    (quoted,) = re.findall(r"`(queue resource quota insufficient[^`]*)`", collapsed(PAGE.read_text()))
    assert quoted in shown

    broken = step("wieght")
    assert text_after(broken.line).text.strip() in sh(folder, broken.text)


def test_commands_of_the_table_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    for cells in rows(section(PAGE, "Commands")):
        assert next(codes(cells[0])).removeprefix("make ") in targets


def test_what_works_and_what_does_not_are_those_of_the_registry() -> None:
    works, absent = (set(codes(" ".join(section(PAGE, name)))) for name in ("What works", "What does not yet"))
    own = set(PLUGINS.names()) | set(ACTIONS.names())
    later = {n for n, why in ABSENT_PLUGINS.items() if "this version" in why and n not in own}

    assert own <= works
    assert later <= absent
    assert set(ABSENT_ACTIONS) & {"preempt", "reclaim"} - own <= absent
    assert own.isdisjoint(absent - {"preempt", "reclaim", "proportion", "drf"})
