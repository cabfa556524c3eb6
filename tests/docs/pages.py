"""The project's pages as data: blocks of code, headings with their anchors, rows of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"^```(.*)$")
_HEADING = re.compile(r"^(#+) (.+)$")
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: ``words`` are its language and what else stands behind the fence."""

    page: Path
    line: int
    words: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"

    def word(self, name: str) -> str | None:
        """The value of ``name=value`` behind the fence."""
        return next((word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")), None)


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    begun: tuple[int, tuple[str, ...]] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and begun is None:
            begun, lines = (number, tuple(fence[1].split())), []
        elif fence and begun is not None:
            found.append(Block(page, *begun, "".join(f"{text}\n" for text in lines)))
            begun = None
        else:
            lines.append(line)
    assert begun is None, f"{page.name}: a block is not closed"
    return found


def prose(page: Path) -> list[tuple[int, str]]:
    """The numbered lines of a page that are in no block."""
    inside = False
    found = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            found.append((number, line))
    return found


def headings(page: Path) -> list[tuple[int, str]]:
    """Level and text of every heading."""
    return [(len(m[1]), m[2]) for _, line in prose(page) if (m := _HEADING.match(line))]


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).replace(" ", "-")


def section(page: Path, heading: str) -> list[str]:
    """The lines below a heading, up to the next one of its level or above."""
    level = 0
    found: list[str] = []
    for _, line in prose(page):
        match = _HEADING.match(line)
        if match and level and len(match[1]) <= level:
            break
        if level:
            found.append(line)
        if match and match[2] == heading:
            level = len(match[1])
    assert level, f"{page.name} has no section {heading}"
    return found


def rows(lines: list[str]) -> list[list[str]]:
    """The cells of all rows of tables among some lines, heads left out."""
    found: list[list[str]] = []
    previous = ""
    for line in lines:
        if line.startswith("|"):
            if set(line) <= set("|-: "):
                found.pop()
            else:
                found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])])
        previous = line
    assert not previous.startswith("|") or found
    return found


def codes(text: str) -> Iterator[str]:
    """Everything between backticks."""
    return (match[1] for match in _CODE.finditer(text))
