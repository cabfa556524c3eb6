"""Grafana's dashboards in few words: panels say what they show, and this module makes the JSON of it.

The JSON is that of Grafana 11 (schema 39), which later versions read. No data source is named: each dashboard has a
variable for it. Panels are laid out from left to right, rows from top to bottom. What comes from a ConfigMap cannot be
saved, so it is not editable; who wants another one saves a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]

SCHEMA = 39
COLUMNS = 24
SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
ALL = ".*"
"""What a variable stands for when everything is chosen."""

Kind = Literal["timeseries", "stat", "table", "heatmap"]


@dataclass(frozen=True)
class Query:
    """An expression, and what its series are called (Grafana's ``{{label}}``)."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel, and in a sentence what it shows. ``unit`` is one of Grafana's names of units.

    ``width`` counts in 24ths of the page. A ``heatmap`` has a row for each series. ``thresholds`` are the values from
    which a stat is orange and red, lower ones when ``high_is_good``. Of a stat with ``exactly`` this whole number alone
    is green, less and more are red.
    """

    title: str
    queries: Sequence[Query]
    description: str
    kind: Kind = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    stacked: bool = False
    thresholds: tuple[float, float] | None = None
    high_is_good: bool = False
    exactly: int | None = None


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Variable:
    """Something to choose: the values of ``label`` in ``metric``."""

    name: str
    metric: str
    label: str


@dataclass(frozen=True)
class Dashboard:
    """A page of rows; ``name`` is that of its file and its id."""

    name: str
    title: str
    description: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = field(default_factory=tuple)

    def json(self) -> Json:
        """Return it as Grafana reads it."""
        return {
            "uid": f"volsched-{self.name}",
            "title": self.title,
            "description": self.description,
            "tags": ["volsched"],
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": False,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "timezone": "",
            "links": [
                {"type": "dashboards", "title": "volsched", "tags": ["volsched"], "asDropdown": True, "keepTime": True}
            ],
            "annotations": {"list": []},
            "templating": {"list": [_source_variable(), *(_variable(variable) for variable in self.variables)]},
            "panels": _layout(self.rows),
        }


def _source_variable() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "refresh": 1,
        "hide": 0,
    }


def _variable(variable: Variable) -> Json:
    query = f"label_values({variable.metric}, {variable.label})"
    return {
        "name": variable.name,
        "label": variable.name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "values"},
        "includeAll": True,
        "allValue": ALL,
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
    }


def _layout(rows: Sequence[Row]) -> list[Json]:
    made: list[Json] = []
    y = 0
    for row in rows:
        made.append(
            {
                "id": len(made) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
            }
        )
        y += 1
        x = height = 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y, height = 0, y + height, 0
            position = {"h": panel.height, "w": panel.width, "x": x, "y": y}
            made.append({"id": len(made) + 1, "gridPos": position, **_panel(panel)})
            x, height = x + panel.width, max(height, panel.height)
        y += height
    return made


def _panel(panel: Panel) -> Json:
    made: Json = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "targets": [_target(panel, place, query) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
    }
    if panel.kind == "table":
        made["transformations"] = _AS_ONE_TABLE
        values = (
            [f"Value #{_letter(place)}" for place in range(len(panel.queries))] if len(panel.queries) > 1 else ["Value"]
        )
        made["fieldConfig"]["overrides"] = [
            _column(value, query) for value, query in zip(values, panel.queries, strict=True)
        ]
    return made


def _target(panel: Panel, place: int, query: Query) -> Json:
    made: Json = {"refId": _letter(place), "datasource": SOURCE, "expr": query.expr, "legendFormat": query.legend}
    over_time = panel.kind in ("timeseries", "heatmap")
    made |= {"instant": not over_time, "range": over_time}
    return made | {"format": "table"} if panel.kind == "table" else made


def _defaults(panel: Panel) -> Json:
    defaults: Json = {"unit": panel.unit, "min": 0}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        fill = 30 if panel.stacked else 5
        defaults["custom"] = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": fill, "stacking": stacking}
    if panel.kind == "heatmap":
        defaults["custom"] = {"scaleDistribution": {"type": "linear"}}
    if panel.exactly is not None:
        defaults["thresholds"] = _steps(("red", "green", "red"), (None, panel.exactly, panel.exactly + 1))
    elif panel.thresholds is not None:
        low, high = panel.thresholds
        colours = ("red", "orange", "green") if panel.high_is_good else ("green", "orange", "red")
        defaults["thresholds"] = _steps(colours, (None, low, high))
    return defaults


def _steps(colours: Sequence[str], values: Sequence[float | None]) -> Json:
    """Return the colours from each value on."""
    steps = [{"color": colour, "value": at} for colour, at in zip(colours, values, strict=True)]
    return {"mode": "absolute", "steps": steps}


def _column(value: str, query: Query) -> Json:
    """Call a column of a table, which Grafana names by its query's letter, by its query's legend."""
    return {
        "matcher": {"id": "byName", "options": value},
        "properties": [{"id": "displayName", "value": query.legend or "Value"}],
    }


def _letter(place: int) -> str:
    return chr(ord("A") + place)


_AS_ONE_TABLE: list[Json] = [
    {"id": "merge", "options": {}},
    {"id": "organize", "options": {"excludeByName": {"Time": True}}},
]
_OPTIONS: dict[Kind, Json] = {
    "timeseries": {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"], "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "auto",
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
    "heatmap": {
        "calculate": False,
        "rowsFrame": {"layout": "auto"},
        "color": {"mode": "scheme", "scheme": "Oranges", "fill": "dark-orange", "steps": 64, "exponent": 0.5, "min": 0},
        "cellGap": 1,
        "yAxis": {"axisPlacement": "left", "reverse": True},
        "legend": {"show": True},
        "tooltip": {"mode": "single", "yHistogram": False},
    },
}
