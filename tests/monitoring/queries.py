"""Every query of the dashboards and the alert rules, in a form that Prometheus can be asked.

Files are found by listing the folders, so a new dashboard is checked by being there.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.documents import yaml_documents

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
DASHBOARDS = sorted((MANIFESTS / "grafana").glob("*.json"))
RULES = sorted((MANIFESTS / "prometheus").glob("*rules.yaml"))

WINDOW = "1h"
"""In place of Grafana's window for rates: longer than any test, so that everything that happened is in it."""

_FALLBACK = re.compile(r"\s+or\s+vector\(\d+\)\s*$")
_VALUES = re.compile(r"label_values\((.+),\s*(\w+)\)$")
_SET = re.compile(r"\b(?:and|or|unless)\b(?:\s*(?:on|ignoring)\s*\([^()]*\))?")
_COMPARISON = re.compile(r"[=!<>]=|[<>]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

Json = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """An expression, and where it stands."""

    where: str
    expr: str


def of_dashboard(path: Path) -> list[Query]:
    """The queries of all panels and of all variables, with the variables at "All"."""
    dashboard = json.loads(path.read_text())
    variables = dashboard["templating"]["list"]
    found = [
        Query(f"{path.name}: {panel['title']} ({target['refId']})", chosen(target["expr"], variables))
        for panel in panels(dashboard["panels"])
        for target in panel.get("targets", ())
    ]
    for variable in variables:
        if variable["type"] == "query":
            match = _VALUES.match(variable["query"]["query"])
            assert match, f"{path.name}: ${variable['name']} is no label_values()"
            found.append(
                Query(f"{path.name}: ${variable['name']}", f'count by ({match[2]}) ({match[1]}{{{match[2]}!=""}})')
            )
    return found


def panels(listed: list[Json]) -> Iterator[Json]:
    """All panels, those of rows that are folded included."""
    for panel in listed:
        yield panel
        yield from panels(panel.get("panels") or [])


def chosen(expr: str, variables: list[Json]) -> str:
    """The expression as Grafana sends it when everything is chosen, without what stands in for missing data."""
    for variable in variables:
        expr = re.sub(rf"\${variable['name']}\b|\${{{variable['name']}}}", variable.get("allValue") or "", expr)
    expr = expr.replace("$__rate_interval", WINDOW).replace("$__interval", "1s").replace("$__range", WINDOW)
    return _FALLBACK.sub("", expr)


def of_rules(path: Path) -> list[Query]:
    """The expressions of all rules."""
    return [
        Query(f"{path.name}: {rule.get('alert') or rule['record']}", rule["expr"])
        for rules in yaml_documents(path.read_text())
        for group in rules["groups"]
        for rule in group["rules"]
    ]


def operands(expr: str) -> list[str]:
    """What an alert compares: the vectors between its set operators and comparisons, and what absent() looks for."""
    inner = unwrapped(expr.strip())
    for pattern in (_SET, _COMPARISON):
        parts = split(inner, pattern)
        if len(parts) > 1:
            return [operand for part in parts for operand in operands(part)]
    return [] if _NUMBER.fullmatch(inner) else [inner]


def unwrapped(expr: str) -> str:
    """The expression without parentheses, or an absent(), around all of it."""
    for opening in ("(", "absent("):
        if expr.startswith(opening) and closing(expr, len(opening) - 1) == len(expr) - 1:
            return unwrapped(expr[len(opening) : -1].strip())
    return expr


def split(expr: str, operator: re.Pattern[str]) -> list[str]:
    """The parts between the operators that stand in no parentheses, braces, brackets or quotes."""
    parts, begun, place = [], 0, 0
    while place < len(expr):
        if expr[place] in "([{\"'":
            place = closing(expr, place) + 1
            continue
        match = operator.match(expr, place)
        if match:
            parts.append(expr[begun:place])
            begun = place = match.end()
            continue
        place += 1
    return [*parts, expr[begun:]]


def closing(expr: str, place: int) -> int:
    """Where what is opened at a place is closed."""
    opened = expr[place]
    if opened in "\"'":
        return expr.index(opened, place + 1)
    close = {"(": ")", "[": "]", "{": "}"}[opened]
    place += 1
    while expr[place] != close:
        place = closing(expr, place) + 1 if expr[place] in "([{\"'" else place + 1
    return place


def has_data(series: list[Json]) -> bool:
    """Whether there is at least one number in a vector, or in the series of a time."""
    points = [point for one in series for point in one.get("values") or [one["value"]]]
    return any(not math.isnan(float(value)) for _, value in points)
