"""The link that `volsched ui` prints, and what a program sends in its place."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tools.patience import looks


def link_in(log: Path) -> str:
    """The link in what the process has said, once it is there."""
    for _ in looks():
        found = re.search(r"note: serving (\S+)", log.read_text())
        if found:
            return found.group(1)
    raise AssertionError(log.read_text())


def headers_of(link: str) -> dict[str, str]:
    """What a program sends."""
    return {"Authorization": f"Bearer {parse_qs(urlsplit(link).query)['secret'][0]}"}
