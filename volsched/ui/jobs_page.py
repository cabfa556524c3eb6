"""The page of all jobs: a table by state, which is sorted and filtered here over all rows, and followed live."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from aiohttp import web

from volsched.diagnose.workload_names import distinguished
from volsched.ui.context import PageContext
from volsched.ui.job_lines import STATES, WAITING, BlockKey, Blocks, JobLine
from volsched.ui.live_views import LiveViews
from volsched.ui.pages import PAGE, HistoryOf, Pages, row_id
from volsched.ui.redaction import VisibleJobs, VisiblePicture
from volsched.ui.table import Event, Table

FILTERS: Final = ("namespace", "queue", "reason", "text")
_FAR: Final = float("inf")

Key = Callable[[JobLine], tuple[Any, ...]]

ORDERS: Final[Mapping[str, Key]] = {
    "job": lambda line: (line.workload, line.namespace),
    "queue": lambda line: (line.queue, line.position),
    "since": lambda line: (line.since is None, line.since or 0.0),
    "pods": lambda line: (line.pods,),
    "cards": lambda line: (line.cards,),
}
"""The columns by which jobs can be sorted, and their keys."""

DEFAULT_ORDERS: Final[Mapping[str, str]] = {"": "since", "waiting": "since", "running": "-since", "ended": "-since"}
"""The order of each state where none is chosen: those that have waited longest first, else the newest."""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """What a reader wants to see: ``state`` is empty for all; ``order`` begins with a minus for the reverse."""

    state: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)
    order: str = "since"
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> JobQuery:
        """Return the query of an address. Unknown states and orders count as absent."""
        state = query.get("state", "")
        state = state if state in STATES else ""
        filters = {name: text for name in FILTERS if (text := query.get(name, "").strip())}
        order, page = query.get("sort", ""), query.get("page", "1")
        order = order if order.removeprefix("-") in ORDERS else DEFAULT_ORDERS[state]
        return cls(state, filters, order, max(1, int(page)) if page.isdecimal() and len(page) < 7 else 1)

    def address(self, path: str = "/jobs", **more: str) -> str:
        """Return the address that shows this, without what goes without saying."""
        values = {"state": self.state, **self.filters}
        if self.order != DEFAULT_ORDERS[self.state]:
            values["sort"] = self.order
        if self.page > 1:
            values["page"] = str(self.page)
        text = urlencode({name: value for name, value in (values | more).items() if value})
        return f"{path}?{text}" if text else path

    def of_state(self, state: str) -> JobQuery:
        """Return the same for another state, in its usual order."""
        return JobQuery(state, self.filters, DEFAULT_ORDERS[state])

    def by(self, order: str) -> JobQuery:
        """Return the same in another order: the reverse if it is the present one."""
        is_present = self.order == order
        return replace(self, order=f"-{order}" if is_present else order, page=1)

    def on(self, page: int) -> JobQuery:
        """Return the same on another page."""
        return replace(self, page=page)


class JobRow(NamedTuple):
    """A job in the table, and the name of its workload there."""

    line: JobLine
    workload: str


@dataclass(slots=True)
class _Block:
    """The jobs of a block that match the filters. ``ordered`` is the same in the order of the view."""

    source: tuple[JobLine, ...]
    matching: list[JobLine]
    ordered: list[JobLine] | None = None


class JobsView:
    """The table in one browser. An update filters and sorts only the blocks that have changed."""

    def __init__(self, pages: Pages, query: JobQuery) -> None:
        row = pages.templates.get_template("jobs_row.html")
        self.query = query
        self.table = Table(lambda id_, value: row.render(id=id_, row=value).strip())
        self._said = pages.templates.get_template("jobs_said.html")
        self._wanted = {name: text.lower() for name, text in query.filters.items()}
        self._key, self._is_reverse = _order(query.order)
        self._blocks: dict[BlockKey, _Block] = {}
        self._namespaces: frozenset[str] | None = None
        self._shown: Blocks | None = None
        self._caption = ""

    def show(self, seen: VisiblePicture, history: HistoryOf) -> list[Event]:
        """Show something else. The events that do so where it was shown before."""
        jobs = seen.jobs
        if jobs.blocks is self._shown and jobs.scope.namespaces == self._namespaces:
            return []
        self._shown = jobs.blocks
        self._follow(jobs)
        counts = Counter[str]()
        for key, block in self._blocks.items():
            counts[key.state] += len(block.matching)
        total = counts[self.query.state] if self.query.state else counts.total()
        page = min(self.query.page, max(1, -(-total // PAGE)))
        shown = [jobs.redacted(line) for line in islice(self._ordered(), PAGE * (page - 1), PAGE * page)]
        names = distinguished(shown, lambda line: line.namespace, lambda line: line.called)
        rows = [
            (row_id(line.namespace, line.name), JobRow(line, name)) for line, name in zip(shown, names, strict=True)
        ]
        events = self.table.show(rows)
        before, self._caption = self._caption, self._words(jobs, counts, total, page)
        return [*events, self.caption()] if self._caption != before else events

    @property
    def digest(self) -> str:
        """Return a short name for what is shown."""
        return self.table.digest

    def everything(self) -> list[Event]:
        """Return the events that show all rows and the words above them, whatever is shown."""
        return [self.table.everything(), self.caption()]

    def caption(self) -> Event:
        """Return the event that shows the states with their counts, and the words above the table."""
        return "said", self._caption

    def _follow(self, jobs: VisibleJobs) -> None:
        """Take over the blocks, and filter those that are new or have changed."""
        if jobs.scope.namespaces != self._namespaces:
            self._blocks, self._namespaces = {}, jobs.scope.namespaces
        before, self._blocks = self._blocks, {}
        for key, lines in jobs.blocks.items():
            block = before.get(key)
            if block is None or block.source is not lines:
                block = _Block(lines, self._matching(jobs, lines))
            self._blocks[key] = block

    def _matching(self, jobs: VisibleJobs, lines: tuple[JobLine, ...]) -> list[JobLine]:
        if not self._wanted:
            return list(lines)
        return [line for line in lines if self._matches(jobs, line)]

    def _matches(self, jobs: VisibleJobs, line: JobLine) -> bool:
        return all(
            any(text in part.lower() for part in _PARTS[name](jobs, line)) for name, text in self._wanted.items()
        )

    def _ordered(self) -> Iterator[JobLine]:
        """Return the matching jobs of the state in order. Only as many are put in order as are read."""
        if self.query.state:
            return self._merged(self.query.state)
        return (line for state in STATES for line in self._merged(state))

    def _merged(self, state: str) -> Iterator[JobLine]:
        blocks = [block for key, block in self._blocks.items() if key.state == state and block.matching]
        for block in blocks:
            if block.ordered is None:
                block.ordered = sorted(block.matching, key=self._key, reverse=self._is_reverse)
        ordered = (block.ordered or [] for block in blocks)
        return heapq.merge(*ordered, key=self._key, reverse=self._is_reverse)

    def _words(self, jobs: VisibleJobs, counts: Mapping[str, int], total: int, page: int) -> str:
        first = PAGE * (page - 1)
        others = jobs.others.get(self.query.state, 0) if self.query.state else sum(jobs.others.values())
        return self._said.render(
            query=self.query,
            states=[(state, counts[state], self.query.of_state(state)) for state in STATES],
            everything=sum(counts.values()),
            total=total,
            first=first + 1,
            last=min(first + PAGE, total),
            others=others,
            before=self.query.on(page - 1) if page > 1 else None,
            after=self.query.on(page + 1) if first + PAGE < total else None,
        ).strip()


def _order(order: str) -> tuple[Key, bool]:
    """Return the key of an order, complete so that equal jobs have one order, and whether it is reversed."""
    key, is_reverse = ORDERS[order.removeprefix("-")], order.startswith("-")

    def complete(line: JobLine) -> tuple[Any, ...]:
        return (*key(line), line.queue, line.position, line.namespace, line.name)

    if order == "-since":
        return lambda line: (line.since or 0.0, line.queue, line.position, line.namespace, line.name), True
    return complete, is_reverse


_PARTS: Final[Mapping[str, Callable[[VisibleJobs, JobLine], Iterable[str]]]] = {
    "namespace": lambda _, line: (line.namespace,),
    "queue": lambda _, line: (line.queue,),
    "reason": lambda jobs, line: (line.step, line.reason, line.end, jobs.message(line)),
    "text": lambda jobs, line: (line.workload, line.replica_set, line.key, line.queue, jobs.message(line)),
}
"""The texts of a job in which each filter looks."""

COLUMNS: Final = (
    ("job", "Job"),
    ("", "State"),
    ("queue", "Queue"),
    ("since", "Since"),
    ("pods", "Pods"),
    ("cards", "Requests"),
    ("", "Details"),
)
"""The columns of the table: the order of each, if it has one, and its name."""


class JobsPage:
    """Serves the list of jobs."""

    def __init__(self, context: PageContext, views: LiveViews) -> None:
        self._context = context
        self._views = views

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the addresses of the list, of its events, and the former one."""
        return [
            web.get("/jobs", self._jobs),
            web.get("/events/jobs", self._events),
            web.get("/waiting", self._waiting),
        ]

    async def _jobs(self, request: web.Request) -> web.Response:
        query = JobQuery.of(request.query)
        _, picture, seen = await self._context.seen(request)
        view = JobsView(self._context.pages, query)
        view.show(seen, picture.history)
        live = query.address("/events/jobs", seen=view.table.digest)
        answer = self._context.page("jobs", view=view, query=query, live=live, columns=COLUMNS)
        if "HX-Request" in request.headers:
            answer.headers["HX-Push-Url"] = query.address()
        return answer

    async def _events(self, request: web.Request) -> web.StreamResponse:
        view = JobsView(self._context.pages, JobQuery.of(request.query))
        return await self._views.events(request, view)

    async def _waiting(self, request: web.Request) -> web.Response:
        former = {name: text for name, text in request.query.items() if name in (*FILTERS, "page")}
        raise web.HTTPFound(JobQuery.of({**former, "state": WAITING}).address())
