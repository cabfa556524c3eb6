"""The drill of restarts in short."""

from __future__ import annotations

from pathlib import Path

import pytest

from drills import report as reporting
from drills.report import Report
from drills.restarts import Settings, run

pytest_plugins = ["tests.drills.fixtures"]


@pytest.mark.process
@pytest.mark.usefixtures("forked")
def test_an_api_server_that_is_killed_and_a_store_that_is_put_back_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    report = Report("restarts", "in short", judge_time=False)
    run(report, Settings(times=2, restores=1, rate=1.5, nodes=4, seed=3))
    assert report.finish() == 0
