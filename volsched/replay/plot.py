"""Charts of a replay: usage by hour, and waiting times by size of job.

A page (`.html`) is drawn here as SVG and needs no library and no network. A picture (`.png`) is drawn by matplotlib,
which is an extra.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from volsched.model.errors import VolschedError
from volsched.replay.compare import Policy
from volsched.replay.records import JobRecord
from volsched.replay.summary import Json, size_of

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, which colour-blind people tell apart."""

SUFFIXES: Final = (".html", ".png")
_WIDTH, _HEIGHT, _MARGIN = 900, 260, 60
_MOST_POINTS: Final = 400
_TICKS: Final = 6


class PlotError(VolschedError):
    """A picture cannot be drawn."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: its name and its points; ``dashed`` for the second of two policies."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: what its axes show, from 0 to the largest value."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]


def charts_of(policies: Sequence[Policy], cards: str) -> list[Chart]:
    """Return the charts of one policy, or of two."""
    several = len(policies) > 1
    use: list[Line] = []
    waits: list[Line] = []
    for number, (name, records, result) in enumerate(policies):
        ending = f" ({name})" if several else ""
        use += _use_lines(result, ending, dashed=number > 0)
        waits += _wait_lines(records, cards, ending, dashed=number > 0)
    return [
        Chart("What was used", "days", "percent of what there is", use),
        Chart("How long jobs waited, by their cards", "percent of jobs that waited no longer", "hours", waits),
    ]


def _use_lines(result: Json, ending: str, *, dashed: bool) -> Iterator[Line]:
    use: Mapping[str, Json] = result["summary"]["use"]
    for colour, (resource, found) in zip(_cycle(), use.items(), strict=False):
        points = [((hour + 0.5) / 24, 100 * share) for hour, share in enumerate(found["hourly"])]
        yield Line(resource + ending, _thinned(points), colour, dashed)


def _wait_lines(records: Sequence[JobRecord], cards: str, ending: str, *, dashed: bool) -> Iterator[Line]:
    waits: dict[str, list[float]] = {}
    for record in records:
        if record.wait is not None:
            waits.setdefault(size_of(record, cards), []).append(record.wait / 3600)
    for colour, (size, found) in zip(_cycle(), sorted(waits.items(), key=lambda item: _rank(item[0])), strict=False):
        found.sort()
        points = [(100 * (number + 1) / len(found), wait) for number, wait in enumerate(found)]
        yield Line(f"{size} cards{ending}", _thinned(points), colour, dashed)


def _rank(size: str) -> int:
    return ("0", "1", "2-4", "5-8", ">8").index(size)


def _cycle() -> Iterator[str]:
    while True:
        yield from COLOURS


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return some of many points, the first and the last among them."""
    if len(points) <= _MOST_POINTS:
        return list(points)
    step = (len(points) - 1) / (_MOST_POINTS - 1)
    return [points[round(number * step)] for number in range(_MOST_POINTS)]


def draw(charts: Sequence[Chart], path: str) -> None:
    """Write the charts to a file, by its suffix. Raises PlotError when that cannot be done."""
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise PlotError(f"{path}: pictures are written as {' or '.join(SUFFIXES)}")
    try:
        if suffix == ".html":
            Path(path).write_text(_page(charts), encoding="utf-8")
        else:
            _draw_png(charts, path)
    except OSError as error:
        raise PlotError(f"{path}: {error.strerror or error}") from error


# --- a page ---------------------------------------------------------------------------------------------------------


def _page(charts: Sequence[Chart]) -> str:
    body = "\n".join(_figure(chart) for chart in charts)
    style = "body{font:14px sans-serif;max-width:1000px;margin:2em auto}svg{width:100%;height:auto}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>volsched replay</title>'
        f"<style>{style}</style></head><body>\n<h1>volsched replay</h1>\n{body}\n</body></html>\n"
    )


def _figure(chart: Chart) -> str:
    right = max((x for line in chart.lines for x, _ in line.points), default=1.0) or 1.0
    top = max((y for line in chart.lines for _, y in line.points), default=1.0) or 1.0
    scale = _AxisScale(right, top)
    parts = [*_axes(chart, scale), *(_path(line, scale) for line in chart.lines)]
    size = f"0 0 {_WIDTH + 2 * _MARGIN} {_HEIGHT + 2 * _MARGIN}"
    title = html.escape(chart.title)
    drawing = "\n".join(parts)
    return f'<h2>{title}</h2>\n<svg viewBox="{size}" role="img" aria-label="{title}">\n{drawing}\n</svg>\n' + _legend(
        chart.lines
    )


@dataclass(frozen=True, slots=True)
class _AxisScale:
    """Maps values to places in the picture."""

    right: float
    top: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        return _MARGIN + _WIDTH * x / self.right, _MARGIN + _HEIGHT * (1 - y / self.top)


def _axes(chart: Chart, scale: _AxisScale) -> Iterator[str]:
    for number in range(_TICKS):
        part = number / (_TICKS - 1)
        x, bottom = scale.at(part * scale.right, 0)
        left, y = scale.at(0, part * scale.top)
        yield f'<line x1="{left:.1f}" x2="{left + _WIDTH:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield _text(x, bottom + 20, f"{part * scale.right:.4g}", "middle")
        yield _text(left - 8, y + 4, f"{part * scale.top:.3g}", "end")
    yield _text(_MARGIN + _WIDTH / 2, _HEIGHT + _MARGIN + 45, chart.x, "middle")
    yield _text(_MARGIN, _MARGIN - 20, chart.y, "start")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="13">{html.escape(text)}</text>'


def _path(line: Line, scale: _AxisScale) -> str:
    places = (scale.at(x, y) for x, y in line.points)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
    name = html.escape(line.name)
    return (
        f'<polyline points="{points}" fill="none" stroke="{line.colour}" stroke-width="2"{dashes}>'
        f"<title>{name}</title></polyline>"
    )


def _legend(lines: Sequence[Line]) -> str:
    items = " ".join(
        f'<span style="color:{line.colour}">{"┄┄" if line.dashed else "──"}</span> {html.escape(line.name)} &nbsp;'
        for line in lines
    )
    return f"<p>{items}</p>"


# --- a picture ------------------------------------------------------------------------------------------------------


def _draw_png(charts: Sequence[Chart], path: str) -> None:
    try:
        pictures = import_module("matplotlib.figure")
    except ImportError as error:
        raise PlotError(
            f"{path}: a .png needs matplotlib: pip install 'volsched[plot]'; a .html needs nothing"
        ) from error
    figure = pictures.Figure(figsize=(11, 4.2 * len(charts)), layout="constrained")
    for axes, chart in zip(figure.subplots(len(charts), squeeze=False)[:, 0], charts, strict=True):
        for line in chart.lines:
            x, y = zip(*line.points, strict=True) if line.points else ((), ())
            axes.plot(x, y, label=line.name, color=line.colour, linestyle="--" if line.dashed else "-")
        axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.y, ylim=(0, None))
        axes.grid(color="#dddddd")
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)
