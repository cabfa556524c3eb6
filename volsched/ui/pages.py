"""HTML of pictures: whole pages, and views that are updated live, row by row."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from volsched.diagnose.card_states import states_in
from volsched.diagnose.cards import NodeCards
from volsched.diagnose.records import Figures, QueueState, WaitingJob
from volsched.diagnose.workload_names import names_of
from volsched.mirror.reading import seconds
from volsched.ui.history import Moment, number
from volsched.ui.redaction import VisiblePicture
from volsched.ui.table import Event, Table
from volsched.ui.words import cards_first, expected, share, short_bar

VIEWS: Final = ("queues", "cards")
"""The views that are followed live."""

PAGE: Final = 200
"""Rows of a page: what a browser on a phone lays out at once."""

Filters = Mapping[str, str]
Row = TypeVar("Row")
HistoryOf = Callable[[str, str], Sequence[Moment]]


class Bar(NamedTuple):
    """The lengths of the parts of a bar, in percent; None for missing parts."""

    used: int
    reserved: int
    deserved: int | None
    quota: int | None
    guarantee: int | None


class JobRow(NamedTuple):
    """A waiting job in a list, and the name of its workload there."""

    job: WaitingJob
    workload: str


class QueueRow(NamedTuple):
    """A queue in the list: its depth, and since when its job that waits longest has waited."""

    queue: QueueState
    depth: int
    longest: float | None


@dataclass(slots=True)
class View:
    """One view in one browser: ``show`` a picture, and send the events that it returns."""

    name: str
    table: Table
    filters: Filters
    summary: Callable[..., str]
    _caption: str = ""

    def show(self, seen: VisiblePicture, history: HistoryOf) -> list[Event]:
        """Show something else. The events that do so where it was shown before."""
        rows = _ROWS[self.name](seen, self.filters, history)
        first = PAGE * (min(self.page, max(1, -(-len(rows) // PAGE))) - 1)
        shown = rows[first : first + PAGE]
        events = self.table.show([(row_id(*_NAMES[self.name](row)), row) for row in shown])
        before, self._caption = self._caption, self._summary(seen, first, len(rows))
        return [*events, self.caption()] if self._caption != before else events

    @property
    def digest(self) -> str:
        """Return a short name for what is shown."""
        return self.table.digest

    def everything(self) -> list[Event]:
        """Return the events that show all rows and the words above them, whatever is shown."""
        return [self.table.everything(), self.caption()]

    def caption(self) -> Event:
        """Return the event that shows the words above the table."""
        return "said", self._caption

    @property
    def page(self) -> int:
        """Return the requested page, from 1."""
        text = self.filters.get("page", "1")
        return max(1, int(text)) if text.isdecimal() and len(text) < 7 else 1

    def _summary(self, seen: VisiblePicture, first: int, rows: int) -> str:
        others = sum(seen.others.values()) if self.name != "cards" else 0
        last = min(first + PAGE, rows)
        filters = {name: text for name, text in self.filters.items() if name in FILTERS[self.name] and text}
        pages = {"before": first // PAGE if first else 0, "after": first // PAGE + 2 if last < rows else 0}
        return self.summary(
            view=self.name, first=first + 1, last=last, rows=rows, others=others, filters=filters, pages=pages,
            hidden_queues=seen.hidden_queues if self.name == "queues" else 0,
        ).strip()  # fmt: skip


FILTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "queues": ("queue",),
    "cards": ("model", "node", "holder", "state"),
}
"""The filters of each view."""


NAVIGATION: Final = (
    ("overview", "Overview"),
    ("jobs", "Jobs"),
    ("queues", "Queues"),
    ("nodes", "Nodes"),
    ("what-if", "What if"),
)
"""The pages in the header: their addresses and names."""

SHORT_NAME: Final = 16
"""Characters of a name that is not broken."""

_PARTS: Final = re.compile(r"[^-/._:,]*[-/._:,]+|[^-/._:,]+")

_SECTIONS: Final = {"job": "jobs", "queue": "queues", "node": "nodes", "cards": "nodes"}
"""The page in the header to which another template belongs."""


def environment(now: Callable[[], float] = time.time) -> Environment:
    """Return the templates. Everything that they print is escaped. ``now`` is the time for ages."""
    made = Environment(
        loader=PackageLoader("volsched.ui"), autoescape=True, undefined=StrictUndefined, extensions=["jinja2.ext.do"]
    )
    made.filters.update(
        bar=bar,
        age=lambda since: age(since, now()),
        moment=moment,
        points=points,
        course=lambda moments: course(moments, now()),
        link=link,
        job_address=job_address,
        name=name,
        stamp=stamp_seconds,
        expected=lambda at: expected(at, now()),
        until=lambda at: until(at, now()),
        number=cards_text,
        words_of=words_of,
        cards_first=cards_first,
        short_bar=short_bar,
        share=share,
    )
    made.globals.update(filters_of=FILTERS, words=SORT_WORDS, navigation=NAVIGATION, now=now)
    made.trim_blocks = made.lstrip_blocks = True
    return made


SORT_WORDS: Final[Mapping[str, str]] = {
    "starts": "would start",
    "waits": "would wait",
    "moves": "would be on other nodes",
    "evicted": "would be evicted",
    "spared": "would not be evicted",
    "reason": "would wait for another reason",
}
"""The counts of pods, by the sorts of ``diff``."""


@dataclass(frozen=True, slots=True)
class Pages:
    """Renders pages and views. ``now`` is the time for ages, in seconds since the epoch."""

    now: Callable[[], float] = time.time
    templates: Environment = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "templates", environment(self.now))

    def page(self, template: str, /, **values: Any) -> str:
        """Return a whole page, or a part of one."""
        return self.templates.get_template(f"{template}.html").render(
            page=template, section=_SECTIONS.get(template, template), **values
        )

    def view(self, name: str, filters: Filters) -> View:
        """Return a view that shows nothing yet."""
        row = self.templates.get_template(f"{name}_row.html")
        table = Table(lambda id_, value: row.render(id=id_, row=value).strip())
        return View(name, table, filters, self.templates.get_template("summary.html").render)


# --- rows -----------------------------------------------------------------------------------------------------------


def _matching(view: str, filters: Filters, rows: Sequence[Row], texts: Callable[[Row], Iterable[str]]) -> Sequence[Row]:
    """Return the rows that have in each of their texts what the view's filters ask for."""
    wanted = [filters.get(name, "").lower() for name in FILTERS[view]]
    if not any(wanted):
        return rows
    return [
        row for row in rows if all(part in text.lower() for part, text in zip(wanted, texts(row), strict=True) if part)
    ]


def _card_rows(seen: VisiblePicture, filters: Filters, _: HistoryOf) -> Sequence[NodeCards]:
    def texts(cards: NodeCards) -> Iterable[str]:
        return cards.model, cards.node, " ".join(cell.holder for cell in cards.cells), states_in(cards)

    return _matching("cards", filters, seen.cards, texts)


def job_rows(jobs: Sequence[WaitingJob]) -> tuple[JobRow, ...]:
    """Return the rows of some jobs, with names that tell their workloads apart."""
    return tuple(map(JobRow, jobs, names_of(jobs)))


def _queue_rows(seen: VisiblePicture, filters: Filters, _: HistoryOf) -> Sequence[QueueRow]:
    rows = [QueueRow(queue, depth, seen.longest.get(queue.name)) for queue, depth in tree(seen.queues)]
    return _matching("queues", filters, rows, lambda row: (row.queue.name,))


_ROWS: Final[Mapping[str, Callable[[VisiblePicture, Filters, HistoryOf], Sequence[Any]]]] = {
    "queues": _queue_rows,
    "cards": _card_rows,
}
_NAMES: Final[Mapping[str, Callable[[Any], tuple[str, ...]]]] = {
    "queues": lambda row: (row.queue.name,),
    "cards": lambda row: (row.model, row.node, row.sort),
}
"""The keys of the rows of each view."""


def row_id(*names: str) -> str:
    """Return the HTML id of a row, whatever its object is called."""
    return "row-" + hashlib.sha256("\0".join(names).encode()).hexdigest()[:16]


def tree(queues: Iterable[QueueState]) -> Iterator[tuple[QueueState, int]]:
    """Yield queues with their depth, parents before children; one without an existing parent is at the top."""
    by_parent: dict[str, list[QueueState]] = {}
    known = {queue.name: queue for queue in queues}
    for queue in known.values():
        parent = queue.parent if queue.parent in known and queue.parent != queue.name else ""
        by_parent.setdefault(parent, []).append(queue)

    def below(name: str, depth: int) -> Iterator[tuple[QueueState, int]]:
        for queue in sorted(by_parent.pop(name, ()), key=lambda queue: queue.name):
            yield queue, depth
            yield from below(queue.name, depth + 1)

    yield from below("", 0)
    for name in sorted(by_parent):  # circles, which the scheduler refuses, too
        yield from below(name, 0)


# --- words and figures ----------------------------------------------------------------------------------------------


def bar(figures: Figures) -> Bar:
    """Return the lengths of the parts of a resource's bar. The whole is the largest amount."""
    used, reserved = number(figures.used), number(figures.reserved or "0")
    stated = (figures.deserved, figures.quota, figures.guarantee)
    deserved, quota, guarantee = (None if text is None else number(text) for text in stated)
    most = max(used + reserved, deserved or 0, quota or 0, guarantee or 0) or 1

    def part(amount: float | None) -> int | None:
        return None if amount is None else round(100 * amount / most)

    return Bar(part(used) or 0, part(reserved) or 0, part(deserved), part(quota), part(guarantee))


def points(moments: Sequence[Moment]) -> str:
    """Return samples in the form of a chart: lists of times, of usage, and of quotas."""
    return json.dumps([[int(m.at) for m in moments], [m.used for m in moments], [m.quota for m in moments]])


def course(moments: Sequence[Moment], now: float) -> str:
    """Report in words what a chart shows."""
    used = [m.used for m in moments]
    return f"{used[0]:g} {age(moments[0].at, now)} ago, {used[-1]:g} now; from {min(used):g} to {max(used):g}"


def link(job: Any) -> str:
    """Return the address of a job's page."""
    namespace, name = (job["namespace"], job["name"]) if isinstance(job, Mapping) else (job.namespace, job.name)
    return f"/job/{quote(namespace, safe='')}/{quote(name, safe='')}"


def job_address(key: str) -> str:
    """Return the address of the page of a job, by its ``namespace/name``."""
    namespace, _, name = key.partition("/")
    return link({"namespace": namespace, "name": name})


def name(text: str) -> Markup:
    """Return a name in HTML that breaks after `-`, `/`, `.`, `_`, `:` and `,` only, and keeps its own direction."""
    if len(text) <= SHORT_NAME:
        return Markup('<bdi class="short">{}</bdi>').format(text)
    return Markup("<bdi>{}</bdi>").format(Markup("<wbr>").join(_PARTS.findall(text)))


def age(since: float | None, now: float) -> str:
    """Return how long ago a moment was, in one unit; times are in seconds since the epoch."""
    if since is None:
        return ""
    seconds = max(0, int(now - since))
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def until(at: float, now: float) -> str:
    """Return how far a moment is from now: `in 2 h`, or `5 min ago`; times are in seconds since the epoch."""
    return f"in {age(now, at)}" if at > now else f"{age(at, now)} ago"


_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def stamp_seconds(value: object) -> float | None:
    """Return the seconds since the epoch of a time as Kubernetes writes it; None for any other value."""
    return seconds(value) if isinstance(value, str) and _STAMP.fullmatch(value) else None


def words_of(name: str) -> str:
    """Return a name in camel case as words."""
    return _HUMP.sub(" ", name).lower().replace("cpu", "CPU")


def cards_text(amount: float) -> str:
    """Return a number of cards, with three decimals at most."""
    return f"{amount:,.3f}".rstrip("0").rstrip(".")


def moment(seconds: float) -> str:
    """Return a time for people, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))
