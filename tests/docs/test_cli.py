"""docs/cli.md: its answers are those of the commands, its flags those of the code."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.docs.pages import DOCS, Block, blocks, codes, rows, section
from volsched.cli import volsched

PAGE = DOCS / "cli.md"
SHOWN = [(command, answer) for command, answer in pairwise(blocks(PAGE)) if "shown" in command.words]
VERBS = (
    *(("simulate",), ("replay",), ("cards",), ("queue", "list"), ("queue", "describe"), ("validate",)),
    *(("explain",), ("snapshot",), ("diff",)),
)


@pytest.mark.parametrize(("command", "answer"), SHOWN, ids=[command.text.strip() for command, _ in SHOWN])
def test_answers_of_the_page_are_those_of_the_command(
    command: Block, answer: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in blocks(PAGE):
        if name := block.word("file"):
            (tmp_path / name).write_text(block.text)
    monkeypatch.chdir(tmp_path)
    _, *args = shlex.split(command.text)
    if args[0] == "queue":
        monkeypatch.setattr("volsched.cli.output.WIDTH", 120)

    done = CliRunner().invoke(volsched, args, prog_name="volsched")

    assert done.exit_code == int(command.word("status") or 0), done.stderr
    assert done.stdout == answer.text


def flags_of(path: tuple[str, ...]) -> set[str]:
    command: click.Command = volsched
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {max(option.opts, key=len) for option in options if "--help" not in option.opts}


def test_flags_of_the_page_are_those_of_the_code() -> None:
    documented = {
        list(codes(flags))[-1]: set(codes(of)) for flags, of, _, effect in rows(section(PAGE, "Flags")) if effect
    }

    for path in VERBS:
        expected = {flag for flag, of in documented.items() if not of or path[0] in of}
        assert flags_of(path) == expected, path
