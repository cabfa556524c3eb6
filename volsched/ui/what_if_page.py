"""The page "What if": a form with quotas and nodes, and beside it what the change would make of each job.

The address holds the question, so it can be shared. It has nothing but the names and numbers of the form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from volsched.model import api
from volsched.model.values.visible import visible
from volsched.ui.access import Visibility
from volsched.ui.changes import ChangeError, EditableQuota, limits_of, models_of
from volsched.ui.context import PageContext
from volsched.ui.questions import QuestionError
from volsched.ui.redaction import VisiblePicture, difference_for
from volsched.ui.what_if_result import lists_of

MOST_ROWS: Final = 200
"""Jobs of one list of the result."""

QUOTA, NODES = "quota:", "nodes:"
"""What the names of the form's numbers begin with."""

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: other quotas of a queue by ``EditableQuota.key``, and more or fewer nodes by the name of one."""

    queue: str
    amounts: Mapping[str, int]
    nodes: Mapping[str, int]

    @property
    def is_empty(self) -> bool:
        """True if nothing is changed."""
        return not (self.amounts or self.nodes)

    @property
    def query(self) -> str:
        """Return the query of its address: names and numbers of the form, and nothing else."""
        words = {"queue": self.queue} if self.queue else {}
        words |= {f"{QUOTA}{key}": str(amount) for key, amount in self.amounts.items()}
        return urlencode(words | {f"{NODES}{name}": str(count) for name, count in self.nodes.items()})

    def words(self) -> list[tuple[str, str]]:
        """Return each change for people: the subject and its new number."""
        quotas = [(f"{key.partition(':')[2]} of queue {self.queue}", str(n)) for key, n in self.amounts.items()]
        return quotas + [(f"nodes like {name}", f"{count:+d}") for name, count in self.nodes.items()]


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
        """Return the form with the numbers of the question in the address."""
        scope, _, seen = await self._context.seen(request)
        _, known = await self._context.source.known()
        nodes = [each for each in known.objects if isinstance(each, api.Node)] if scope.nodes else []
        question = Question(
            request.query.get("queue", ""), numbers_in(request.query, QUOTA), numbers_in(request.query, NODES)
        )
        limits = await self._limits(seen, question.queue)
        return self._context.page(
            "what-if",
            queues=seen.queues,
            models=models_of(nodes),
            question=question,
            queue=question.queue if limits is not None else "",
            limits=limits or (),
            missing=question.queue if limits is None else "",
            amounts=question.amounts,
        )

    async def _quotas(self, request: web.Request) -> web.Response:
        """Return the sliders of a queue."""
        _, _, seen = await self._context.seen(request)
        name = request.query.get("queue", "")
        return self._context.page("what-if_quotas", queue=name, limits=await self._found(seen, name), amounts={})

    async def _found(self, seen: VisiblePicture, name: str) -> tuple[EditableQuota, ...]:
        """Return the quotas of a queue. Raises HTTPNotFound if the reader sees no such queue."""
        limits = await self._limits(seen, name)
        if limits is None:
            raise web.HTTPNotFound(text=f"there is no queue {visible(name)}, or it is not for you to see\n")
        return limits

    async def _limits(self, seen: VisiblePicture, name: str) -> tuple[EditableQuota, ...] | None:
        """Return the quotas of a queue, none without a name; None if the reader sees no such queue."""
        if not name:
            return ()
        _, known = await self._context.source.known()
        state = next((queue for queue in seen.queues if queue.name == name), None)
        queues = (each for each in known.objects if isinstance(each, api.Queue) and each.metadata.name == name)
        queue = next(queues, None)
        return limits_of(queue, state) if state is not None and queue is not None else None

    async def _what_if_result(self, request: web.Request) -> web.Response:
        """Return the result, and have the browser show the address of the question."""
        scope, _, seen = await self._context.seen(request)
        question = await self._question(request, scope, seen)
        answer = await self._answer(request, scope, question)
        answer.headers["HX-Replace-Url"] = f"/what-if?{question.query}".removesuffix("?")
        return answer

    async def _question(self, request: web.Request, scope: Visibility, seen: VisiblePicture) -> Question:
        """Read the question: numbers that differ from what is. Raises an HTTP error for what the reader may not ask."""
        queue = request.query.get("queue", "")
        limits = await self._found(seen, queue)
        nodes = {name: count for name, count in numbers_in(request.query, NODES).items() if count}
        if nodes and not scope.nodes:
            raise web.HTTPForbidden(text="nodes are not for you to see: that takes the verb list on nodes\n")
        return Question(queue, _that_differ(limits, numbers_in(request.query, QUOTA)), nodes)

    async def _answer(self, request: web.Request, scope: Visibility, question: Question) -> web.Response:
        asked = question.words()
        if question.is_empty:
            return self._context.page("what-if_result", difference=None, problem="", asked=asked)
        asker = await self._context.asker(request)
        try:
            found = await self._context.questions.difference(asker, question.queue, question.amounts, question.nodes)
        except (ChangeError, QuestionError) as error:
            problem = str(error) if scope.is_whole or isinstance(error, ChangeError) else "It could not be worked out."
            return self._context.page("what-if_result", difference=None, problem=problem, asked=asked)
        shown, others = difference_for(scope, found)
        _, known = await self._context.source.known()
        return self._context.page(
            "what-if_result",
            difference=shown,
            lists=lists_of(shown, known),
            problem="",
            others=others,
            asked=asked,
            most=MOST_ROWS,
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
