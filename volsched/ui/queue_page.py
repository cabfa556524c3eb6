"""The page of a queue: its place in the tree, quotas, running and waiting jobs, and what it could reclaim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from volsched.diagnose.queues import QueueDetails, ReclaimSource, RunningJob
from volsched.diagnose.records import Figures, QueueState
from volsched.framework.quota_report import QuotaTable
from volsched.ui.access import Visibility
from volsched.ui.context import PageContext
from volsched.ui.history import Moment
from volsched.ui.pages import JobRow, job_rows
from volsched.ui.picture import Picture
from volsched.ui.redaction import VisiblePicture, is_visible_row, seen_by
from volsched.ui.streams import Sections, Streams

MOST_WAITING: Final = 100
"""Waiting jobs that are listed; the list of jobs has all."""

_NO_QUEUE: Final = "there is no such queue, or it is not for you to see\n"
_PARTS: Final = ("tree", "quotas", "reclaim", "usage", "waiting", "running")


@dataclass(frozen=True, slots=True)
class VisibleReclaim:
    """What a queue could reclaim. ``others``: the number of queues that may not be named."""

    resource: str
    short: str
    amount: str
    sources: tuple[ReclaimSource, ...]
    others: int


@dataclass(frozen=True, slots=True)
class VisibleQueue:
    """A queue without the names that the reader may not see. What is hidden is counted."""

    state: QueueState
    above: Sequence[str]
    has_hidden_parent: bool
    children: Sequence[str]
    hidden_children: int
    figures: Sequence[Figures]
    tables: Sequence[QuotaTable]
    reclaims: bool
    reclaimable: Sequence[VisibleReclaim]
    histories: Sequence[tuple[str, Sequence[Moment]]]
    waiting: Sequence[JobRow]
    more_waiting: int
    others_waiting: int
    running: Sequence[RunningJob]
    more_running: int
    others_running: int

    @property
    def states_due(self) -> bool:
        """True if the queue states a deserved share of anything."""
        return any(figures.deserved is not None for figures in self.figures)

    @property
    def all_running(self) -> int:
        """Return the number of running jobs."""
        return len(self.running) + self.more_running + self.others_running


class QueuePage:
    """Serves a queue."""

    def __init__(self, context: PageContext, streams: Streams) -> None:
        self._context = context
        self._streams = streams

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the addresses of the page and of its events."""
        return [web.get("/queue/{name}", self._queue), web.get("/events/queue/{name}", self._events)]

    async def _queue(self, request: web.Request) -> web.Response:
        scope, picture, _ = await self._context.seen(request)
        sections = self._sections(request)
        await sections.show(scope, picture)
        name, live = request.match_info["name"], urlencode({"seen": sections.digest})
        return self._context.page("queue", name=name, sections=sections.html, live=live)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        return await self._streams.serve(request, self._sections(request))

    def _sections(self, request: web.Request) -> Sections:
        name, source, templates = request.match_info["name"], self._context.source, self._context.pages.templates

        async def make(scope: Visibility, picture: Picture) -> Mapping[str, str]:
            details = await source.ask(lambda live: live.queue(name)) if scope.names_queue(name) else None
            queue = visible_queue(seen_by(scope, picture), details, name) if details is not None else None
            if queue is None:
                raise web.HTTPNotFound(text=_NO_QUEUE)
            parts = {part: templates.get_template(f"queue_{part}.html") for part in _PARTS}
            return {part: template.render(queue=queue, name=name) for part, template in parts.items()}

        return Sections(make)


def visible_queue(seen: VisiblePicture, details: QueueDetails, name: str) -> VisibleQueue | None:
    """Return a queue without the names that the reader may not see; None if the reader sees no such queue."""
    states = {state.name: state for state in seen.picture.queues}
    scope, state = seen.scope, states.get(name)
    if state is None or not scope.names_queue(name):
        return None
    above = list(_above(states, name))
    children = sorted(each.name for each in states.values() if each.parent == name and each.name != name)
    own = [job for job in seen.waiting if job.queue == name]
    running = [job for job in details.running if scope.names(job.owner.job.partition("/")[0])]
    others = len(details.running) - len(running)
    return VisibleQueue(
        state,
        [each for each in above if scope.names_queue(each)],
        any(not scope.names_queue(each) for each in above),
        [each for each in children if scope.names_queue(each)],
        sum(not scope.names_queue(each) for each in children),
        [*state.figures, *details.quotas],
        list(_tables(scope, details)),
        details.reclaims,
        list(_reclaimable(scope, details)),
        list(_histories(seen.picture, state)),
        job_rows(own[:MOST_WAITING]),
        max(0, len(own) - MOST_WAITING),
        seen.others.get(name, 0),
        running,
        details.more_running if scope.namespaces is None else 0,
        others if scope.namespaces is None else others + details.more_running,
    )


def _above(states: Mapping[str, QueueState], name: str) -> Iterable[str]:
    """Return the queues above a queue, the highest first."""
    found: list[str] = []
    parent = states[name].parent
    while parent in states and parent not in found and parent != name:
        found.insert(0, parent)
        parent = states[parent].parent
    return found


def _reclaimable(scope: Visibility, details: QueueDetails) -> Iterable[VisibleReclaim]:
    for each in details.reclaimable:
        named = tuple(source for source in each.sources if scope.names_queue(source.queue))
        yield VisibleReclaim(each.resource, each.short, each.amount, named, len(each.sources) - len(named))


def _tables(scope: Visibility, details: QueueDetails) -> Iterable[QuotaTable]:
    for table in details.tables:
        rows = [row for row in table.rows if is_visible_row(scope, table, row)]
        if rows:
            yield replace(table, rows=rows)


def _histories(picture: Picture, state: QueueState) -> Iterable[tuple[str, Sequence[Moment]]]:
    for figures in state.figures:
        moments = picture.history(state.name, figures.resource)
        if len(moments) > 1:
            yield figures.resource, moments
