"""The command line called in this process, as users call it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import yaml
from click.testing import CliRunner, Result

from tests.simulation.clusters import Manifest
from volsched.cli import volsched

_PROGRESS: Final = re.compile(r" \(\d+\.\d s\)$")


def call(*args: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(volsched, [str(arg) for arg in args], input=given, prog_name="volsched")


def without_progress(stderr: str) -> list[str]:
    """Return the lines of standard error that are no progress, which is told where a command takes two seconds."""
    return [line for line in stderr.splitlines() if not _PROGRESS.search(line)]


def text_of(*manifests: Manifest) -> str:
    return yaml.safe_dump_all(manifests)


def written(folder: Path, *manifests: Manifest) -> Path:
    file = folder / "world.yaml"
    file.write_text(text_of(*manifests))
    return file
