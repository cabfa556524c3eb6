"""The tables of docs/metrics.md as data, and the series of plugins."""

from __future__ import annotations

from dataclasses import dataclass

from tests.docs.pages import DOCS, codes, prose, rows
from volsched.model.values.series import Numbers, Series
from volsched.quota.past_use import HALF_LIFE
from volsched.registry import ACTIONS, PLUGINS
from volsched.testing.builders import a_cluster, a_rig

PAGE = DOCS / "metrics.md"


@dataclass(frozen=True)
class Row:
    """What the page says of a metric."""

    type: str
    labels: tuple[str, ...]


def documented() -> dict[str, Row]:
    """Type and labels of every metric by its name; a name that stands twice is an error."""
    found: dict[str, Row] = {}
    for names, kind, labels, _ in rows([line for _, line in prose(PAGE)]):
        for name in codes(names):
            assert name not in found, f"{name} stands twice"
            found[name] = Row(kind, tuple(label.strip() for label in labels.split(",") if label.strip()))
    return found


def series_of(plugin: str) -> list[tuple[Series, Numbers]]:
    """What a plugin shows of its own, in a session without anything; what has to be switched on is."""
    schema = PLUGINS.own_schema(plugin)
    told = {argument.key: "true" for argument in schema if argument.expected}
    if plugin == "drf":
        told[HALF_LIFE] = "1h"
    switches = ", ".join(f"{key}: {value}" for key, value in told.items())
    configuration = f"actions: allocate\ntiers:\n- plugins:\n  - name: {plugin}\n    arguments: {{{switches}}}\n"
    return list(a_rig(a_cluster(), configuration).cycle().report.series)


def series_of_actions() -> list[tuple[Series, Numbers]]:
    """What all actions show of their own, in a session without anything."""
    return list(a_rig(a_cluster(), f'actions: "{", ".join(ACTIONS.names())}"\n').cycle().report.series)
