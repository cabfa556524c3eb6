"""The page "What if": the form with quotas and nodes, and the differences that a change makes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from aiohttp import web

from volsched.model import api
from volsched.model.values.visible import visible
from volsched.ui.changes import ChangeError, EditableQuota, limits_of, models_of
from volsched.ui.context import PageContext
from volsched.ui.questions import QuestionError
from volsched.ui.redaction import difference_for

MOST_ROWS: Final = 500
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,9}")


class WhatIfPage:
    """Serves the form and its results."""

    def __init__(self, context: PageContext) -> None:
        self._context = context

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the addresses of the form, of the quotas of a queue, and of the result."""
        return [
            web.get("/what-if", self._what_if),
            web.get("/what-if/quotas", self._quotas),
            web.get("/what-if/result", self._what_if_result),
        ]

    async def _what_if(self, request: web.Request) -> web.Response:
        scope, _, seen = await self._context.seen(request)
        _, known = await self._context.source.known()
        nodes = [each for each in known.objects if isinstance(each, api.Node)] if scope.nodes else []
        return self._context.page("what-if", queues=seen.queues, models=models_of(nodes))

    async def _quotas(self, request: web.Request) -> web.Response:
        """Return the sliders of a queue."""
        name = request.query.get("queue", "")
        return self._context.page(
            "what-if_quotas", queue=name, limits=await self._limits(request, name) if name else ()
        )

    async def _limits(self, request: web.Request, name: str) -> tuple[EditableQuota, ...]:
        _, _, seen = await self._context.seen(request)
        _, known = await self._context.source.known()
        state = next((queue for queue in seen.queues if queue.name == name), None)
        queues = (each for each in known.objects if isinstance(each, api.Queue) and each.metadata.name == name)
        queue = next(queues, None)
        if state is None or queue is None:
            raise web.HTTPNotFound(text=f"there is no queue {visible(name)}, or it is not for you to see\n")
        return limits_of(queue, state)

    async def _what_if_result(self, request: web.Request) -> web.Response:
        scope, _, _ = await self._context.seen(request)
        queue = request.query.get("queue", "")
        limits = await self._limits(request, queue) if queue else ()
        nodes = {name: count for name, count in numbers_in(request.query, "nodes:").items() if count}
        if nodes and not scope.nodes:
            raise web.HTTPForbidden(text="nodes are not for you to see: that takes the verb list on nodes\n")
        amounts = _that_differ(limits, numbers_in(request.query, "quota:"))
        if not (amounts or nodes):
            return self._context.page("what-if_result", difference=None, problem="", others={}, asked=[])
        asked = [*((f"{key.partition(':')[2]} of queue {queue}", str(n)) for key, n in amounts.items())]
        asked += [(f"nodes like {name}", f"{count:+d}") for name, count in nodes.items()]
        try:
            found = await self._context.questions.difference(await self._context.asker(request), queue, amounts, nodes)
        except (ChangeError, QuestionError) as error:
            problem = str(error) if scope.is_whole or isinstance(error, ChangeError) else "It could not be worked out."
            return self._context.page("what-if_result", difference=None, problem=problem, others={}, asked=asked)
        shown, others = difference_for(scope, found)
        return self._context.page(
            "what-if_result", difference=shown, problem="", others=others, asked=asked, most=MOST_ROWS
        )


def numbers_in(query: Mapping[str, str], prefix: str) -> dict[str, int]:
    """Return the whole numbers of a form under names with a prefix, by the rest of the name."""
    found = {}
    for name, text in query.items():
        if name.startswith(prefix):
            if not _WHOLE_NUMBER.fullmatch(text):
                raise web.HTTPBadRequest(text=f"{visible(name)} must be a whole number of nine digits at most\n")
            found[name.removeprefix(prefix)] = int(text)
    return found


def _that_differ(limits: tuple[EditableQuota, ...], amounts: Mapping[str, int]) -> dict[str, int]:
    """Return the changed amounts. An absent quota is added once its slider was moved."""
    now = {limit.key: limit.most if limit.now is None else limit.now for limit in limits}
    return {key: amount for key, amount in amounts.items() if now.get(key) != amount}
