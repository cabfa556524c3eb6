"""Grafana's own dashboard-linter finds nothing in the dashboards.

What makes no sense for these dashboards is left out in `manifests/grafana/.lint`, the linter's own file for that, with
a reason.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.monitoring.linter import find_linter
from tests.monitoring.queries import DASHBOARDS, MANIFESTS, Json

pytestmark = pytest.mark.process

LINT: Final = MANIFESTS / "grafana" / ".lint"
EXCLUDED: Final[dict[str, Json]] = yaml.safe_load(LINT.read_text())["exclusions"]


@pytest.fixture(scope="module")
def linter(request: pytest.FixtureRequest) -> Path:
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        return find_linter()


def lint(linter: Path, dashboard: Path, config: Path = LINT) -> subprocess.CompletedProcess[str]:
    command = [linter, "lint", "--strict", "--config", config, dashboard]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_nothing_is_found(linter: Path, dashboard: Path) -> None:
    done = lint(linter, dashboard)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", EXCLUDED)
def test_what_is_left_out_would_be_found_and_has_a_reason(linter: Path, tmp_path: Path, rule: str) -> None:
    others = {name: excluded for name, excluded in EXCLUDED.items() if name != rule}
    config = tmp_path / ".lint"
    config.write_text(yaml.safe_dump({"exclusions": others}))

    assert lint(linter, DASHBOARDS[0], config).returncode != 0
    assert EXCLUDED[rule]["reason"].strip()


def no_title(panel: Json) -> None:
    panel["title"] = ""


def another_source(panel: Json) -> None:
    panel["datasource"]["uid"] = "prometheus-of-mine"


def no_promql(panel: Json) -> None:
    panel["targets"][0]["expr"] = "sum by (queue) (("


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (no_title, "missing title"),
        (another_source, "does not use a templated datasource"),
        (no_promql, "invalid PromQL query"),
    ],
)
def test_the_linter_is_at_work(linter: Path, tmp_path: Path, spoil: Callable[[Json], None], said: str) -> None:
    dashboard = json.loads(DASHBOARDS[0].read_text())
    spoil(next(panel for panel in dashboard["panels"] if panel["type"] != "row"))
    spoilt = tmp_path / "spoilt.json"
    spoilt.write_text(json.dumps(dashboard))

    done = lint(linter, spoilt)

    assert done.returncode != 0
    assert said in done.stdout
