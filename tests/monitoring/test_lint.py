"""The rules of Grafana's dashboard-linter, as its documentation says them, on every dashboard.

What makes no sense for these dashboards is left out in `manifests/grafana/.lint`, the linter's own file for that, with
a reason. The linter itself judges as well where it is on ``PATH``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.monitoring.queries import DASHBOARDS, MANIFESTS, Json, panels

LINT: Final = MANIFESTS / "grafana" / ".lint"
EXCLUDED: Final[dict[str, Json]] = yaml.safe_load(LINT.read_text())["exclusions"]
LINTER: Final = shutil.which("dashboard-linter")

TITLED: Final = ("stat", "singlestat", "graph", "table", "timeseries", "gauge")
"""Types of panels that have to have a title, a description and a unit."""
UNITS: Final = (
    *("short", "none", "string", "percent", "percentunit", "bytes", "decbytes", "s", "ms", "ops", "reqps"),
    *("dateTimeFromNow", "bool", "bool_yes_no"),
)
"""Those of Grafana's units that are used here; the linter knows all."""
LOOK_UPS: Final = ("label_names", "label_values", "metrics", "query_result")
WINDOW: Final = re.compile(r"\[([^\]]*)\]")
RATED: Final = re.compile(r"(?:rate|irate|increase)\(\w+_total(?:\{[^}]*\})?\[")
COUNTER: Final = re.compile(r"\b\w+_total\b")


def shown(dashboard: Json) -> Iterator[Json]:
    return (panel for panel in panels(dashboard["panels"]) if panel["type"] != "row")


def queries(dashboard: Json) -> Iterator[tuple[str, str]]:
    return ((panel["title"], target["expr"]) for panel in shown(dashboard) for target in panel["targets"])


def variables(dashboard: Json, kind: str) -> list[Json]:
    return [variable for variable in dashboard["templating"]["list"] if variable["type"] == kind]


# --- the rules, each yielding what is wrong ---------------------------------------------------------------------------


def a_data_source_is_chosen(dashboard: Json) -> Iterator[str]:
    found = [(v["name"], v["label"]) for v in variables(dashboard, "datasource")]
    if found != [("datasource", "Data source")]:
        yield f"variables for a data source: {found}"


def a_variable(name: str) -> Callable[[Json], Iterator[str]]:
    def rule(dashboard: Json) -> Iterator[str]:
        if name not in [variable["name"] for variable in dashboard["templating"]["list"]]:
            yield f"no variable {name}"

    return rule


def a_matcher(name: str) -> Callable[[Json], Iterator[str]]:
    def rule(dashboard: Json) -> Iterator[str]:
        return (f"{title}: no {name}=~" for title, expr in queries(dashboard) if f'{name}=~"${name}"' not in expr)

    return rule


def variables_are_looked_up(dashboard: Json) -> Iterator[str]:
    for variable in variables(dashboard, "query"):
        text = variable["query"]["query"]
        if not text.endswith(")") or text.partition("(")[0] not in LOOK_UPS:
            yield f"{variable['name']}: {text}"


def variables_are_read_again_with_the_time(dashboard: Json) -> Iterator[str]:
    return (v["name"] for v in variables(dashboard, "query") if v["refresh"] != 2)


def panels_use_the_chosen_source(dashboard: Json) -> Iterator[str]:
    return (panel["title"] for panel in shown(dashboard) if panel["datasource"]["uid"] != "${datasource}")


def panels_have_title_and_description(dashboard: Json) -> Iterator[str]:
    return (
        f"{panel['id']} {panel['title']}"
        for panel in shown(dashboard)
        if panel["type"] in TITLED and not (panel["title"] and panel["description"])
    )


def panels_have_units(dashboard: Json) -> Iterator[str]:
    return (
        f"{panel['title']}: {panel['fieldConfig']['defaults'].get('unit')}"
        for panel in shown(dashboard)
        if panel["type"] in TITLED and panel["fieldConfig"]["defaults"].get("unit") not in UNITS
    )


def panels_have_targets(dashboard: Json) -> Iterator[str]:
    return (panel["title"] for panel in shown(dashboard) if not panel["targets"])


def rates_are_of_grafanas_interval(dashboard: Json) -> Iterator[str]:
    windows = ((title, window) for title, expr in queries(dashboard) for window in WINDOW.findall(expr))
    return (f"{title}: [{window}]" for title, window in windows if window != "$__rate_interval")


def counters_are_rated(dashboard: Json) -> Iterator[str]:
    return (title for title, expr in queries(dashboard) if len(COUNTER.findall(expr)) != len(RATED.findall(expr)))


def is_not_editable(dashboard: Json) -> Iterator[str]:
    if dashboard["editable"]:
        yield "editable"


RULES: Final[dict[str, Callable[[Json], Iterator[str]]]] = {
    "template-datasource-rule": a_data_source_is_chosen,
    "template-job-rule": a_variable("job"),
    "template-instance-rule": a_variable("instance"),
    "template-label-promql-rule": variables_are_looked_up,
    "template-on-time-change-reload-rule": variables_are_read_again_with_the_time,
    "panel-datasource-rule": panels_use_the_chosen_source,
    "panel-title-description-rule": panels_have_title_and_description,
    "panel-units-rule": panels_have_units,
    "panel-no-targets-rule": panels_have_targets,
    "target-rate-interval-rule": rates_are_of_grafanas_interval,
    "target-job-rule": a_matcher("job"),
    "target-instance-rule": a_matcher("instance"),
    "target-counter-agg-rule": counters_are_rated,
    "uneditable-dashboard": is_not_editable,
}
"""By the linter's names. That targets are PromQL (target-promql-rule) a real Prometheus says, in tests/cluster."""


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_dashboard_keeps_every_rule_that_is_not_left_out(path: Path, rule: str) -> None:
    wrong = list(RULES[rule](json.loads(path.read_text())))

    assert bool(wrong) == (rule in EXCLUDED), wrong


def test_what_is_left_out_has_a_reason() -> None:
    assert set(EXCLUDED) <= set(RULES)
    assert all(excluded["reason"].strip() for excluded in EXCLUDED.values())


@pytest.mark.skipif(
    LINTER is None, reason="dashboard-linter is not on PATH: go install github.com/grafana/dashboard-linter"
)
@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_grafanas_own_linter_finds_nothing(path: Path) -> None:
    command = [str(LINTER), "lint", "--strict", "--config", str(LINT), str(path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
