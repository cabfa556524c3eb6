"""The dashboards: made from `monitoring`, well laid out, brought as ConfigMaps; their queries can be taken apart."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from tests.docs.metrics import documented
from tests.manifests.rendering import rendered
from tests.monitoring.queries import (
    DASHBOARDS,
    MANIFESTS,
    RULES,
    Json,
    chosen,
    of_dashboard,
    of_rules,
    operands,
    panels,
)

MAX_CONFIGMAP_BYTES = 1 << 20


def load(path: Path) -> Json:
    found: Json = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_well_formed(path: Path) -> None:
    dashboard = load(path)
    shown = list(panels(dashboard["panels"]))

    assert len({panel["id"] for panel in shown}) == len(shown)
    assert dashboard["uid"].startswith("volsched-")
    assert dashboard["title"].startswith("volsched / ")
    assert "volsched" in dashboard["tags"]
    for one, other in combinations([panel["gridPos"] for panel in shown], 2):
        assert not overlap(one, other), (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in (panel["gridPos"] for panel in shown))


def overlap(one: Json, other: Json) -> bool:
    return bool(
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )


def colour(panel: Json, value: float) -> str:
    """The colour in which Grafana shows a value: that of the last step that it reaches."""
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    return str([step["color"] for step in steps if step["value"] is None or step["value"] <= value][-1])


def test_one_leader_is_green_and_any_other_number_is_red() -> None:
    shown = panels(load(next(path for path in DASHBOARDS if path.stem == "overview"))["panels"])
    leaders = next(panel for panel in shown if panel["title"] == "Leaders")

    assert [colour(leaders, count) for count in (0, 1, 2, 3)] == ["red", "green", "red", "red"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_names_no_data_source(path: Path) -> None:
    def sources(value: object) -> list[object]:
        if isinstance(value, dict):
            own = [value["datasource"]] if "datasource" in value else []
            return own + [found for item in value.values() for found in sources(item)]
        return [found for item in value for found in sources(item)] if isinstance(value, list) else []

    dashboard = load(path)
    found = sources(dashboard)

    assert found
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in found)
    assert [v["type"] for v in dashboard["templating"]["list"] if v["name"] == "datasource"] == ["datasource"]


@pytest.mark.process
def test_every_dashboard_is_a_configmap_that_the_sidecar_loads() -> None:
    brought: dict[str, str] = {}
    for item in rendered(MANIFESTS / "grafana"):
        assert item["kind"] == "ConfigMap"
        assert item["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert len(json.dumps(item)) < MAX_CONFIGMAP_BYTES
        brought |= item["data"]
    assert brought == {path.name: path.read_text() for path in DASHBOARDS}


def test_metrics_of_all_queries_are_documented() -> None:
    """A misspelt metric has no data, but so has one that is documented and gone."""
    suffixes = ("", "_bucket", "_count", "_sum")
    known = {f"{name}{suffix}" for name in documented() for suffix in suffixes} | {"up"}
    queries = [q for path in DASHBOARDS for q in of_dashboard(path)] + [q for path in RULES for q in of_rules(path)]

    for query in queries:
        for word in words(query.expr):
            assert not word.startswith(("volsched_", "volcano_", "process_")) or word in known, f"{query.where}: {word}"


def words(expr: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in expr).split()


# --- taking queries apart --------------------------------------------------------------------------------------------


def test_everything_is_chosen_and_nothing_stands_in_for_data() -> None:
    variables: list[Json] = [{"name": "queue", "allValue": ".*"}, {"name": "datasource"}]

    assert chosen('sum(rate(x{queue=~"$queue"}[$__rate_interval])) or vector(0)', variables) == (
        'sum(rate(x{queue=~".*"}[1h]))'
    )


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("volsched_config_valid == 0", ["volsched_config_valid"]),
        ('absent(up{job="a"} == 1)', ['up{job="a"}']),
        ("(a > 120 or b > 60) and on (job, instance) c == 1", ["a", "b", "c"]),
        ("max by (q) (a) > max by (q) (b)", ["max by (q) (a)", "max by (q) (b)"]),
        ('sum(rate(a{code=~"5..|and >"}[5m])) / sum(b) > 0.05', ['sum(rate(a{code=~"5..|and >"}[5m])) / sum(b)']),
        ("a{x='1'} == 1 unless on (job) b", ["a{x='1'}", "b"]),
        ("order_and_bread > 1", ["order_and_bread"]),
    ],
)
def test_what_an_alert_compares_is_found(expr: str, expected: list[str]) -> None:
    assert [" ".join(operand.split()) for operand in operands(expr)] == expected
