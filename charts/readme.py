"""The chart's README, of whose table values.yaml is the source: every value, its default, and the comment above it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).parent / "volsched"
README: Final = CHART / "README.md"
_LONGEST: Final = 60
"""Letters of a default that a cell of the table has room for."""


def readme() -> str:
    """Return the README that fits the values."""
    return (CHART / "README.md.in").read_text().replace("@VALUES@", "\n".join(_table()))


def _table() -> Iterator[str]:
    yield "| value | default | what it is |"
    yield "|---|---|---|"
    for name, default, comment in described():
        yield f"| `{name}` | {default} | {comment} |"


def described() -> Iterator[tuple[str, str, str]]:
    """Yield the name of every value with its default, and the comment above it in one line."""
    text = (CHART / "values.yaml").read_text()
    lines = text.splitlines()
    root: Any = yaml.compose(text)
    for section, values in root.value:
        for key, value in values.value:
            yield f"{section.value}.{key.value}", _default(value), _comment_above(lines, key.start_mark.line)


def _default(node: yaml.Node) -> str:
    value = yaml.safe_load(yaml.serialize(node))
    text = json.dumps(value)
    return f"`{text}`" if len(text) <= _LONGEST else "see `values.yaml`"


def _comment_above(lines: list[str], line: int) -> str:
    words: list[str] = []
    while lines[line - 1].lstrip().startswith("#"):
        line -= 1
        words.insert(0, lines[line].strip().lstrip("# "))
    return " ".join(words)
