"""docs/native-gangs.md: the example is simulated, and what the page shows is what comes out; its Job is understood."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from tests.docs.pages import DOCS, ROOT, blocks
from volsched.cli import volsched
from volsched.simulation.documents import documents_in
from volsched.simulation.manifests import read_inventory

PAGE = DOCS / "native-gangs.md"


def test_the_example_becomes_what_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [block.text for block in blocks(PAGE)]
    at = next(number for number, text in enumerate(texts) if text.startswith("volsched simulate"))
    monkeypatch.chdir(ROOT)

    answer = CliRunner().invoke(volsched, texts[at].split()[1:], prog_name="volsched")

    assert [line.rstrip() for line in answer.stdout.strip().splitlines()] == texts[at + 1].strip().splitlines()


def test_the_job_of_the_page_is_one_of_which_a_group_is_made() -> None:
    [text] = [block.text for block in blocks(PAGE) if "completionMode" in block.text]
    spec = yaml.safe_load(text)["spec"]

    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] > 1
    assert len(read_inventory(documents_in("page", text)).objects) == 1
