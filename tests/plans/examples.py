"""The examples of the repository, as the command ``volsched simulate`` decides them: results of its public contract."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.plans.scenarios import STORED
from volsched.cli import volsched

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "manifests" / "examples"
FILE = STORED / "examples.json"


def runs() -> Iterator[tuple[str, list[Path]]]:
    """Yield what is simulated: the tour, its folders, and each file that is an example of its own."""
    tour = sorted(EXAMPLES.glob("*.yaml"))
    yield "tour", [EXAMPLES]
    for file in sorted((EXAMPLES / "workloads").glob("*.yaml")):
        yield f"workloads/{file.name}", [*tour, EXAMPLES / "workloads" / "queue.yaml", file]
    for folder in ("capacity-card", "capacity-dra", "crossquota", "mgpu", "native-gangs"):
        for file in sorted((EXAMPLES / folder).glob("*.yaml")):
            yield f"{folder}/{file.name}", [file]


def results() -> dict[str, Any]:
    """Return the result of each example."""
    return {name: _result(list(dict.fromkeys(paths))) for name, paths in runs()}


def _result(paths: list[Path]) -> Any:
    flags = [word for path in paths for word in ("-f", str(path))]
    done = CliRunner().invoke(volsched, ["simulate", *flags, "-o", "json"], prog_name="volsched")
    if done.exit_code:
        raise ValueError(f"volsched simulate of {', '.join(map(str, paths))} failed: {done.output}")
    return json.loads(done.stdout)


def recorded() -> dict[str, Any]:
    """Return the recorded results; none before the first record."""
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


def record(now: dict[str, Any]) -> None:
    """Record results."""
    FILE.write_text(json.dumps(now, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
