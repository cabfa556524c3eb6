"""Errors of plugins are counted, logged once each, and told where a plugin fails again and again."""

from __future__ import annotations

from structlog.testing import capture_logs

from volsched.ports import CycleReport
from volsched.run.plugin_errors import PluginErrors


def report(*plugins: str) -> CycleReport:
    """A session in which these plugins failed."""
    return CycleReport(
        plugins={"gang": 0.1, "mine": 0.1}, faults=[(name, ZeroDivisionError("in it")) for name in plugins]
    )


def test_a_plugin_that_fails_again_and_again_is_told_once_until_it_has_done_without() -> None:
    told: list[str] = []
    errors = PluginErrors(told.append)
    for plugins in (["mine"], [], [], ["mine", "mine"], *[[]] * 8, ["mine"], []):
        errors.cycle(report(*plugins))
    assert told == []

    for _ in range(25):
        errors.cycle(report("mine"))
    assert told == ['plugin "mine" failed in 3 of the last 10 sessions, now with ZeroDivisionError: in it']

    for plugins in (*[[]] * 10, ["mine"], [], ["mine"], ["mine"]):
        errors.cycle(report(*plugins))
    assert len(told) == 2


def test_errors_are_counted_by_plugin_and_those_of_our_own_beside() -> None:
    errors = PluginErrors(print)
    errors.cycle(report("mine", "mine", ""))

    assert errors.numbers() == {("gang",): 0, ("mine",): 2, ("volsched",): 1}


def test_the_log_has_each_error_once() -> None:
    errors = PluginErrors(print)
    with capture_logs() as logs:
        for _ in range(3):
            errors.cycle(report("mine"))

    assert [line["plugin"] for line in logs] == ["mine"]


def test_the_log_has_each_hint_once() -> None:
    errors = PluginErrors(print)
    with capture_logs() as logs:
        for _ in range(3):
            errors.cycle(CycleReport(hints=("annotate it",)))

    assert [(line["event"], line["hint"]) for line in logs] == [("a plugin could be faster", "annotate it")]
