"""The command line called in this process, as users call it."""

from __future__ import annotations

from pathlib import Path

import yaml
from click.testing import CliRunner, Result

from tests.simulation.clusters import Manifest
from volsched.cli import volsched


def call(*args: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(volsched, [str(arg) for arg in args], input=given, prog_name="volsched")


def text_of(*manifests: Manifest) -> str:
    return yaml.safe_dump_all(manifests)


def written(folder: Path, *manifests: Manifest) -> Path:
    file = folder / "world.yaml"
    file.write_text(text_of(*manifests))
    return file
