"""docs/replay.md: the example is replayed, and what the page shows is what comes out."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tests.docs.pages import DOCS, blocks
from tests.manifests.examples import EXAMPLES
from volsched.cli import volsched

PAGE = DOCS / "replay.md"


def test_the_example_becomes_what_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    command, shown = list(blocks(PAGE))[:2]
    [words] = [line.split() for line in command.text.splitlines() if line.startswith("volsched ")]
    monkeypatch.chdir(EXAMPLES / "replay")

    answer = CliRunner().invoke(volsched, words[1 : words.index("--plot")], prog_name="volsched")

    assert answer.exit_code == 0
    assert answer.stdout.strip() == shown.text.strip()
