"""The drill of configurations in short, and that its ways of breaking one do break it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from drills import report as reporting
from drills.broken import KEY, WAYS
from drills.configuration import GOOD, Settings, run
from drills.report import Report
from volsched import registry
from volsched.framework.config.loading import find_in_data
from volsched.model.errors import ConfigError

pytest_plugins = ["tests.drills.fixtures"]


@pytest.mark.parametrize("way", sorted(WAYS))
def test_each_way_of_breaking_it_breaks_it(way: str) -> None:
    data = WAYS[way]()
    if data is None or not holds_a_key(data):
        return
    with pytest.raises(ConfigError):
        registry.load_configuration(data[find_in_data(data) or KEY])


def holds_a_key(data: Mapping[str, str]) -> bool:
    try:
        return find_in_data(data) is not None
    except ConfigError:
        return False


def test_the_good_one_holds_without_a_warning() -> None:
    assert registry.load_configuration(GOOD).warnings == ()


@pytest.mark.process
@pytest.mark.usefixtures("forked")
def test_a_configuration_that_is_broken_ten_times_under_load_stays_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    report = Report("configuration", "in short", judge_time=False)
    run(report, Settings(times=10, seed=3))
    assert report.finish() == 0
