"""Fetches what the page has of others from npm, at fixed versions, with licences: `make vendor`. Takes npm."""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "volsched/ui/static/vendor"
FILES: Final = (
    ("htmx.org", "2.0.11", "dist/htmx.min.js", "htmx.min.js"),
    ("htmx-ext-sse", "2.2.4", "dist/sse.min.js", "sse.js"),
    ("uplot", "1.6.32", "dist/uPlot.iife.min.js", "uPlot.iife.min.js"),
    ("uplot", "1.6.32", "dist/uPlot.min.css", "uPlot.min.css"),
)
"""Package, version, the file in it, and what it is called here."""


def main() -> None:
    """Write the files, their licences, and a page that says where they are from."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = [_fetch(*each) for each in FILES]
    head = "# From npm, by `make vendor`\n\n| file | package | version | licence | integrity |\n|---|---|---|---|---|\n"
    (FOLDER / "README.md").write_text(head + "".join(f"| {' | '.join(row)} |\n" for row in rows))


def _fetch(package: str, version: str, file: str, name: str) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as scratch:
        command = ["npm", "pack", "--json", "--pack-destination", scratch, f"{package}@{version}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own line
        packed = json.loads(done.stdout)
        [about] = packed.values() if isinstance(packed, dict) else packed
        with tarfile.open(next(Path(scratch).glob("*.tgz"))) as tar:
            (FOLDER / name).write_bytes(_member(tar, file))
            (FOLDER / f"LICENSE.{package}").write_bytes(_member(tar, "LICENSE"))
            licence = _member(tar, "LICENSE").decode().splitlines()[0]
    return name, package, version, licence, about["integrity"]


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    found = tar.extractfile(f"package/{name}")
    if found is None:
        raise FileNotFoundError(name)
    return found.read()


if __name__ == "__main__":
    main()
