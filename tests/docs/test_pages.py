"""Whatever the page: links lead somewhere, examples hold, nothing speaks of a machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchor, blocks, headings, prose

LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_pages_and_headings_that_exist(page: Path) -> None:
    for number, line in prose(page):
        for target in LINK.findall(line):
            if "://" in target:
                continue
            name, _, fragment = target.partition("#")
            there = (page.parent / name).resolve() if name else page
            assert there.exists(), f"{page.name}:{number}: {target}"
            if fragment:
                anchors = [anchor(text) for _, text in headings(there)]
                assert fragment in anchors, f"{page.name}:{number}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_of_a_page_have_anchors_of_their_own(page: Path) -> None:
    anchors = [anchor(text) for _, text in headings(page)]

    assert len(anchors) == len(set(anchors))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_no_folder_of_a_machine(page: Path) -> None:
    text = page.read_text()

    assert not re.search(r"(?<![\w.])/(work|root|home)/", text)
    assert str(ROOT) not in text


def test_glossary_is_in_order_and_its_cross_references_exist() -> None:
    text = (DOCS / "glossary.md").read_text()
    entries = re.findall(r"^\*\*([^*]+)\.\*\*", text, re.MULTILINE)
    words = {word.strip().lower() for entry in entries for word in re.split(r"[,(]", entry.rstrip(")"))}

    assert entries == sorted(entries, key=lambda entry: entry.lower().replace(",", " "))
    for word in re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", text):
        assert word.lower() in words or word.lower().rstrip("s") in words or word == "italics", word


def test_every_page_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()

    for page in DOCS.glob("*.md"):
        assert f"(docs/{page.name})" in readme, page.name


def test_paths_in_blocks_of_shell_exist() -> None:
    for page in PAGES:
        for block in blocks(page):
            if "sh" not in block.words:
                continue
            for path in re.findall(r"(?<![\w/.-])((?:manifests|docs|bench|tests)/[\w./-]*)", block.text):
                assert (ROOT / path).exists(), f"{block}: {path}"
