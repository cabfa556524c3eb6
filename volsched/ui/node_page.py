"""The page of a node: its cards with their holders, pods, promises, amounts, taints, labels and conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from aiohttp import web

from volsched.diagnose.nodes import CardOwner, HeldFor, NodeDetails, PodOnNode
from volsched.ui.access import Visibility
from volsched.ui.context import PageContext
from volsched.ui.node_map import Colouring, Query, Tile, tiles_of
from volsched.ui.picture import Picture
from volsched.ui.streams import Sections, Streams

_NO_NODE: Final = "there is no such node, or it is not for you to see\n"
_PARTS: Final = ("head", "cards", "amounts", "pods", "promises", "about")
"""The sections of the page, in their order."""


class VisibleNode(NamedTuple):
    """A node without the names that the reader may not see. Others' pods and jobs are counted."""

    details: NodeDetails
    cards: Sequence[tuple[str, Tile]]
    pods: Sequence[PodOnNode]
    others: int
    promised: Sequence[PodOnNode]
    others_promised: int
    held_for: Sequence[HeldFor]
    others_held_for: int


class NodePage:
    """Serves a node. Without the right to list nodes there is none."""

    def __init__(self, context: PageContext, streams: Streams) -> None:
        self._context = context
        self._streams = streams

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the addresses of the page and of its events."""
        return [web.get("/node/{name}", self._node), web.get("/events/node/{name}", self._events)]

    async def _node(self, request: web.Request) -> web.Response:
        scope, picture, _ = await self._context.seen(request)
        sections = self._sections(request)
        await sections.show(scope, picture)
        name, live = request.match_info["name"], urlencode({"seen": sections.digest})
        return self._context.page("node", name=name, sections=sections.html, live=live)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        return await self._streams.serve(request, self._sections(request))

    def _sections(self, request: web.Request) -> Sections:
        name, templates = request.match_info["name"], self._context.pages.templates

        async def make(scope: Visibility, picture: Picture) -> Mapping[str, str]:
            details = await self._context.source.ask(lambda live: live.node(name)) if scope.nodes else None
            if details is None:
                raise web.HTTPNotFound(text=_NO_NODE)
            node = visible_node(scope, details, [queue.name for queue in picture.queues])
            return {part: templates.get_template(f"node_{part}.html").render(node=node) for part in _PARTS}

        return Sections(make)


def visible_node(scope: Visibility, details: NodeDetails, queues: Iterable[str]) -> VisibleNode:
    """Return a node without the names that the reader may not see."""
    colours = Colouring("queue", (queue for queue in queues if scope.names_queue(queue)))
    pods = [_pod(scope, pod) for pod in details.pods if scope.names(_namespace(pod.pod))]
    promised = [_pod(scope, pod) for pod in details.promised if scope.names(_namespace(pod.pod))]
    held_for = [
        msgspec.structs.replace(held, owner=_owner(scope, held.owner))
        for held in details.held_for
        if scope.names(_namespace(held.owner.job))
    ]
    return VisibleNode(
        details,
        list(tiles_of(details.state, Query(), scope, colours).items()),
        pods,
        len(details.pods) - len(pods),
        promised,
        len(details.promised) - len(promised),
        held_for,
        len(details.held_for) - len(held_for),
    )


def _pod(scope: Visibility, pod: PodOnNode) -> PodOnNode:
    owner = _owner(scope, pod.owner) if pod.owner is not None else None
    return msgspec.structs.replace(pod, owner=owner)


def _owner(scope: Visibility, owner: CardOwner) -> CardOwner:
    return owner if scope.names_queue(owner.queue) else msgspec.structs.replace(owner, queue="")


def _namespace(key: str) -> str:
    return key.partition("/")[0]
