"""The search of the header: jobs, pods, queues and nodes by a part of their names, as the reader may see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import quote

from aiohttp import web

from volsched.diagnose.workload_names import distinguished
from volsched.ui.context import PageContext
from volsched.ui.job_lines import JobLine
from volsched.ui.pages import link
from volsched.ui.picture import FoundPod
from volsched.ui.redaction import VisiblePicture

MOST_HITS: Final = 50
"""Hits of one kind that are listed."""

LONGEST: Final = 300
"""Characters of a text that are looked for: more than a namespace and a name have."""


class Hit(NamedTuple):
    """Something that was found: its name, where it is, its state in one word, and its address."""

    name: str
    where: str
    state: str
    address: str
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Hits:
    """The hits of one kind: how many there are, and the first of them, exact ones before others."""

    kind: str
    total: int
    first: tuple[Hit, ...]


class SearchPage:
    """Serves the search. One exact hit is opened at once."""

    def __init__(self, context: PageContext) -> None:
        self._context = context

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the address of the search."""
        return [web.get("/search", self._search)]

    async def _search(self, request: web.Request) -> web.Response:
        text = request.query.get("text", "").strip()[:LONGEST]
        found = await self._found(request, text.lower()) if text else ()
        exact = {hit.address for hits in found for hit in hits.first if hit.is_exact}
        if len(exact) == 1:
            raise web.HTTPFound(exact.pop())
        return self._context.page("search", searched=text, found=found)

    async def _found(self, request: web.Request, text: str) -> tuple[Hits, ...]:
        scope, _, seen = await self._context.seen(request)
        queues = [queue.name for queue in seen.queues if text in queue.name.lower()]
        pods, nodes = await self._context.source.ask(lambda live: live.named(text, scope.names))
        return (
            _first("Jobs", _jobs(seen, text)),
            _first("Pods", _pods(pods, text)),
            _first("Queues", (_plain(queue, "queue", text) for queue in queues)),
            _first("Nodes", (_plain(node, "node", text) for node in nodes) if scope.nodes else ()),
        )


def _first(kind: str, hits: Iterable[Hit]) -> Hits:
    found = sorted(hits, key=lambda hit: (not hit.is_exact, len(hit.name), hit.name, hit.where))
    return Hits(kind, len(found), tuple(found[:MOST_HITS]))


def _jobs(seen: VisiblePicture, text: str) -> Iterator[Hit]:
    lines = [line for lines in seen.jobs.blocks.values() for line in lines if _matches(line, text)]
    names = distinguished(lines, lambda line: line.namespace, lambda line: line.called)
    for line, name in zip(lines, names, strict=True):
        known = {line.workload, line.workload.partition("/")[2], line.name, line.key}
        known |= {f"{line.namespace}/{line.workload.partition('/')[2]}"}
        yield Hit(name, line.namespace, line.end or line.state, link(line), text in {each.lower() for each in known})


def _matches(line: JobLine, text: str) -> bool:
    bare = f"{line.namespace}/{line.workload.partition('/')[2]}"
    return any(text in part.lower() for part in (line.workload, line.key, bare))


def _pods(pods: Sequence[FoundPod], text: str) -> Iterator[Hit]:
    for pod in pods:
        address = link({"namespace": pod.namespace, "name": pod.job})
        is_exact = text in (pod.name.lower(), f"{pod.namespace}/{pod.name}".lower())
        yield Hit(pod.name, pod.namespace, pod.state, address, is_exact)


def _plain(name: str, path: str, text: str) -> Hit:
    return Hit(name, "", "", f"/{path}/{quote(name, safe='')}", text == name.lower())
