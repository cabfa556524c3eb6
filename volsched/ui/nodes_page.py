"""The node map (`/nodes`) and the page of a node (`/node/NAME`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode

from aiohttp import web

from volsched.ui.access import Visibility
from volsched.ui.context import PageContext
from volsched.ui.node_map import COLOURED_BY, MODEL, MapTemplates, MapView, Query
from volsched.ui.picture import Picture
from volsched.ui.streams import Streams
from volsched.ui.table import Event


class NodesPage:
    """Serves the node map."""

    def __init__(self, context: PageContext, streams: Streams) -> None:
        self._context = context
        self._streams = streams
        templates = context.pages.templates
        parts = ("tile", "group", "legend", "caption")
        self._templates = MapTemplates(*(templates.get_template(f"nodes_{part}.html").render for part in parts))

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the addresses of the map and of its events."""
        return [web.get("/nodes", self._nodes), web.get("/events/nodes", self._events)]

    async def _nodes(self, request: web.Request) -> web.Response:
        scope, picture, _ = await self._context.seen(request)
        view = self._view(request)
        view.show(scope, picture)
        kept = _kept(request)
        return self._context.page(
            "nodes",
            view=view,
            query=view.query,
            filters=request.query,
            groups=[MODEL, *view.labels],
            colours=COLOURED_BY,
            has_names=scope.nodes,
            live=urlencode([*kept, ("seen", view.digest)]),
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        return await self._streams.serve(request, _LiveMap(self._view(request)))

    def _view(self, request: web.Request) -> MapView:
        query = Query.read(request.query, request.query.getall("open", ()))
        return MapView(query, self._templates, partial(_address, _kept(request)))


@dataclass(frozen=True, slots=True)
class _LiveMap:
    """The map as a stream shows it."""

    view: MapView

    async def show(self, scope: Visibility, picture: Picture) -> Sequence[Event]:
        """Show another picture."""
        return self.view.show(scope, picture)

    def everything(self) -> Iterable[Event]:
        """Return the events that show all groups."""
        return self.view.everything()

    @property
    def digest(self) -> str:
        """Return a short name for what is shown."""
        return self.view.digest


def _kept(request: web.Request) -> list[tuple[str, str]]:
    """Return the query of an address, as its next addresses keep it."""
    return [(name, value) for name, value in request.query.items() if name != "seen" and value]


def _address(kept: Iterable[tuple[str, str]], group: str, *, is_open: bool) -> str:
    """Return the address of the map with one more group open, or without it if it is open."""
    others = [pair for pair in kept if pair != ("open", group)]
    query = others if is_open else [*others, ("open", group)]
    return f"/nodes?{urlencode(query)}" if query else "/nodes"
