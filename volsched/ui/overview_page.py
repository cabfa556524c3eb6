"""The page "Overview": panels with figures, each of which links to the list that it counts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiohttp import web
from jinja2 import Template

from volsched.diagnose.card_states import CardBar
from volsched.diagnose.records import Figures, QueueState
from volsched.framework.quota_report import RESERVATIONS, STRANDED_CARDS
from volsched.ui.context import PageContext
from volsched.ui.history import DayPoint, number
from volsched.ui.live_views import LiveViews
from volsched.ui.pages import Pages, age, cards_text
from volsched.ui.redaction import FAULTS, VisiblePicture
from volsched.ui.table import Event

PANELS: Final = ("figures", "faults", "cards", "waiting", "queues", "promises", "history", "tables")
"""The panels, in their order. Each has a template."""

MOST_QUEUES: Final = 8
MOST_FAULTS: Final = 20
MOST_ROWS: Final = 12
"""Rows of a list on the overview; the lists that it links to have all."""

DASHBOARDS: Final = (
    ("volsched-overview", "Overview"),
    ("volsched-queues", "Queues"),
    ("volsched-capacity-card", "Cards by model"),
    ("volsched-capacity-dra", "Devices"),
    ("volsched-shared-cards", "Shared cards"),
    ("volsched-cpu-pods", "CPU pods"),
)
"""The shipped Grafana dashboards: uid and name."""


class Segment(NamedTuple):
    """A part of a bar: its state, its number of cards, and its place in percent of the whole bar."""

    state: str
    cards: float
    start: float
    width: float


class QueueShare(NamedTuple):
    """The resource of a queue with the largest share of its bound: what is used, and the bound."""

    queue: QueueState
    figures: Figures
    bound: str
    share: float
    is_deserved: bool


class OverviewView:
    """The overview in one browser: ``show`` a picture, and send the events that it returns."""

    def __init__(self, pages: Pages, values: Mapping[str, Any]) -> None:
        """Begin with nothing. ``values`` are those of all panels."""
        self._now = pages.now
        self._values = values
        self._templates: dict[str, Template] = {
            name: pages.templates.get_template(f"overview_{name}.html") for name in PANELS
        }
        self.panels: dict[str, str] = {}

    @property
    def digest(self) -> str:
        """Return a short name for what is shown."""
        return hashlib.sha256("\0".join(self.panels.values()).encode()).hexdigest()[:16]

    def show(self, seen: VisiblePicture, _: object = None) -> list[Event]:
        """Show something else. The events replace the panels that differ."""
        values = {**self._values, **_shown(seen, self._now())}
        before = self.panels
        self.panels = {name: template.render(values) for name, template in self._templates.items()}
        changed = [_in_place(html) for name, html in self.panels.items() if before.get(name) != html]
        return [("panels", "\n".join(changed))] if changed else []

    def everything(self) -> list[Event]:
        """Return the events that show all panels, whatever is shown."""
        return [("panels", "\n".join(map(_in_place, self.panels.values())))]


class OverviewPage:
    """Serves the overview and its events."""

    def __init__(self, context: PageContext, views: LiveViews) -> None:
        self._context = context
        self._views = views

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the addresses of the page and of its events."""
        return [web.get("/overview", self._overview), web.get("/events/overview", self._events)]

    async def _overview(self, request: web.Request) -> web.Response:
        _, _, seen = await self._context.seen(request)
        view = self._view()
        view.show(seen)
        return self._context.page("overview", panels=view.panels, seen=view.digest)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        return await self._views.events(request, self._view())

    def _view(self) -> OverviewView:
        source, grafana = self._context.source, self._context.grafana_url
        values = {"is_followed": not source.about, "grafana": grafana, "dashboards": DASHBOARDS}
        return OverviewView(self._context.pages, values)


def _in_place(html: str) -> str:
    """Return a panel that takes the place of the one of its id."""
    return html.replace(' id="panel-', ' hx-swap-oob="true" id="panel-', 1)


# --- what panels show -----------------------------------------------------------------------------------------------


def _shown(seen: VisiblePicture, now: float) -> dict[str, Any]:
    overview = seen.overview
    others = sum(seen.others.values())
    tables = {table.name: table for table in overview.tables}
    shares = sorted(shares_of(seen.queues), key=lambda one: (-one.share, one.queue.name))
    return {
        "bars": [(bar, list(segments_of(bar))) for bar in overview.bars],
        "total": _added(overview.bars),
        "computes_stranded": STRANDED_CARDS in tables,
        "jobs": len(seen.waiting) + others,
        "pods": sum(job.pods for job in seen.waiting),
        "others": others,
        "reasons": overview.reasons,
        "recent": overview.recent,
        "shares": shares[:MOST_QUEUES],
        "more_shares": max(0, len(shares) - MOST_QUEUES),
        "queues": len(seen.queues),
        "hidden_queues": seen.hidden_queues,
        "promises": tables.get(RESERVATIONS),
        "tables": [table for name, table in tables.items() if name != RESERVATIONS],
        "hidden": seen.hidden_rows,
        "faults": overview.faults,
        "hidden_faults": seen.hidden_rows.get(FAULTS, 0),
        "most_faults": MOST_FAULTS,
        "most_rows": MOST_ROWS,
        "day": overview.day,
        "day_charts": _charts(overview.day, _added(overview.bars), now),
    }


def _added(bars: Sequence[CardBar]) -> CardBar:
    """Return the bar of all models together."""
    states = ("used", "promised", "stranded", "unavailable", "free", "total")
    sums = {name: round(sum(getattr(bar, name) for bar in bars), 3) for name in states}
    return CardBar("all", **sums, nodes=sum(bar.nodes for bar in bars))


def segments_of(bar: CardBar) -> Iterator[Segment]:
    """Yield the parts of a bar, in the order of their states, without empty ones."""
    start = 0.0
    for state in ("used", "promised", "stranded", "unavailable", "free"):
        cards = getattr(bar, state)
        width = 100 * cards / bar.total if bar.total else 0.0
        if width > 0:
            yield Segment(state, cards, round(start, 2), round(width, 2))
        start += max(0.0, width)


def shares_of(queues: Iterable[QueueState]) -> Iterator[QueueShare]:
    """Yield the share of each queue with a bound: of what it deserves, else of its quota."""
    for queue in queues:
        shares = [*_shares(queue, lambda figures: figures.deserved, is_deserved=True)]
        shares = shares or [*_shares(queue, lambda figures: figures.quota, is_deserved=False)]
        if shares:
            yield max(shares, key=lambda one: one.share)


def _shares(queue: QueueState, bound_of: Callable[[Figures], str | None], *, is_deserved: bool) -> Iterator[QueueShare]:
    for figures in queue.figures:
        bound = bound_of(figures)
        if bound is not None and number(bound) > 0:
            yield QueueShare(queue, figures, bound, number(figures.used) / number(bound), is_deserved)


class DayChart(NamedTuple):
    """A chart of one day: its title, the points for the script, the same in words, and the token of its colour."""

    title: str
    points: str
    words: str
    colour: str


def _charts(day: Sequence[DayPoint], total: CardBar, now: float) -> list[DayChart]:
    if len(day) < 2:
        return []
    times = [point.at for point in day]
    used, waiting = [point.used for point in day], [float(point.waiting) for point in day]
    return [
        DayChart("Used cards", json.dumps([times, used, [total.total] * len(day)]), _words(times, used, now), "--used"),
        DayChart("Waiting jobs", json.dumps([times, waiting]), _words(times, waiting, now), "--c2"),
    ]


def _words(times: Sequence[int], values: Sequence[float], now: float) -> str:
    last, first, low, high = map(cards_text, (values[-1], values[0], min(values), max(values)))
    return f"now {last}, {age(times[0], now)} ago {first}; lowest {low}, highest {high}"
