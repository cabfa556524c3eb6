"""The HTTP side of the page: access, pages, and server-sent events with changes."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from volsched.diagnose.redaction import redacted
from volsched.kube.serve.reader_access import AccessRefusal
from volsched.kube.serve.reviews import Person
from volsched.model import api
from volsched.model.job import NATIVE
from volsched.model.values.names import is_name
from volsched.model.values.visible import visible
from volsched.ui.access import WHOLE, AccessReviews, Visibility
from volsched.ui.changes import ChangeError, EditableQuota, limits_of, models_of
from volsched.ui.pages import VIEWS, Pages, View
from volsched.ui.picture import Picture
from volsched.ui.questions import LONE, ClusterQuestions, QuestionError
from volsched.ui.redaction import VisiblePicture, difference_for, namespaces_in, seen_by, without_names
from volsched.ui.secret import LinkSecret
from volsched.ui.source import PictureSource
from volsched.ui.table import Event

STATIC: Final = Path(__file__).parent / "static"

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
STREAM: Final = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
"""Of events: a proxy in front hands on each as it comes."""

MOST_ROWS: Final = 500
STREAMS_OF_ONE: Final = 32
MOST_STREAMS: Final = 512
"""Open pages of one person, and of all."""

HEARTBEAT_SECONDS: Final = 15.0
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,9}")
_LONGEST_PART: Final = 255
"""The longest part of a path: more than a name has, and as much as a file name."""
_NO_JOB: Final = "there is no such job, or it is not for you to see\n"
_OPEN: Final = ("/healthz", "/static/")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Ui:
    """The application. With ``access`` each reader is reviewed; without, the reader needs the ``link``."""

    def __init__(self, source: PictureSource, access: AccessReviews | None = None) -> None:
        self._source = source
        self._access = access
        self._secret = LinkSecret()
        self._pages = Pages()
        self._questions = ClusterQuestions(source)
        self._streams: Counter[str] = Counter()

    def application(self) -> web.Application:
        """Return what serves it."""
        app = web.Application(middlewares=[self._guard])
        app.on_cleanup.append(self._stop)
        app.add_routes(
            [
                web.get("/", self._home),
                web.get("/healthz", _healthy),
                web.get("/what-if", self._what_if),
                web.get("/what-if/quotas", self._quotas),
                web.get("/what-if/result", self._what_if_result),
                web.get("/job/{namespace}/{name}", self._job),
                web.get("/job/{namespace}/{name}/explanation", self._explanation),
                web.get("/events/{view}", self._events),
                *(web.get(f"/{view}", self._view) for view in VIEWS),
                web.static("/static", STATIC),
            ]
        )
        return app

    def link(self, address: str) -> str:
        """Return what to open in a browser, for a page at `host:port`."""
        return f"https://{address}" if self._access is not None else self._secret.link(address)

    async def _stop(self, _: web.Application) -> None:
        await self._questions.stop()

    # -- who looks ----------------------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if self._access is None:
                self._secret.check_origin(request)
            if not (request.path.startswith(_OPEN) or self._is_handed_over(request) or _is_no_page(request)):
                await self._who(request)
            if any(len(os.fsencode(part)) > _LONGEST_PART for part in request.path.split("/")):
                raise web.HTTPNotFound
            answer = await handler(request)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    async def _who(self, request: web.Request) -> Person | None:
        """Return the reader, None on the own machine. Raises an HTTP error without access."""
        if self._access is None:
            self._secret.check(request)
            return None
        found = await self._access.who(request.headers.get("Authorization", ""), request.remote or "")
        if isinstance(found, AccessRefusal):
            raise _refused(found)
        return found

    def _is_handed_over(self, request: web.Request) -> bool:
        return self._access is None and self._secret.is_handed_over(request)

    async def _asker(self, request: web.Request) -> str:
        """Return the name by which the reader takes turns."""
        person = await self._who(request)
        return person.asker if person is not None else ""

    async def _scope(self, request: web.Request, picture: Picture) -> Visibility:
        """Return the names that the reader may see. It is asked each time; answers are kept for a minute."""
        person = await self._who(request)
        if person is None or self._access is None:
            return WHOLE
        return await self._access.scope(person, namespaces_in(picture), [queue.name for queue in picture.queues])

    async def _scope_of_job(self, request: web.Request) -> tuple[Visibility, str, str]:
        """Return the scope and the job in question. A hidden one does not exist."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if not is_name(namespace) or not is_name(name.removeprefix(LONE).removeprefix(NATIVE)):
            raise web.HTTPNotFound(text=_NO_JOB)
        person = await self._who(request)
        if person is None or self._access is None:
            return WHOLE, namespace, name
        scope = await self._access.scope(person, [namespace], [])
        if not scope.names(namespace):
            raise web.HTTPNotFound(text=_NO_JOB)
        return scope, namespace, name

    async def _seen(self, request: web.Request) -> tuple[Visibility, Picture, VisiblePicture]:
        _, picture = await self._source.picture()
        scope = await self._scope(request, picture)
        return scope, picture, seen_by(scope, picture)

    # -- pages --------------------------------------------------------------------------------------------------------

    async def _home(self, request: web.Request) -> web.Response:
        if self._is_handed_over(request):
            return self._secret.hand_over(request)
        raise web.HTTPFound("/queues")

    async def _view(self, request: web.Request) -> web.Response:
        name = request.path.strip("/")
        _, picture, seen = await self._seen(request)
        view = self._pages.view(name, request.query)
        view.show(seen, picture.history)
        live = urlencode({**request.query, "seen": view.table.digest})
        return self._page(name, view=view, filters=request.query, live=live)

    def _page(self, template: str, **values: Any) -> web.Response:
        text = self._pages.page(template, notice=self._source.notice, about=self._source.about, **values)
        return web.Response(text=text, content_type="text/html")

    async def _job(self, request: web.Request) -> web.Response:
        scope, namespace, name = await self._scope_of_job(request)
        _, picture = await self._source.picture()
        job = picture.job(namespace, name)
        reasons = [
            (reason.since, reason.step, without_names(scope, reason.message))
            for reason in self._source.reasons(namespace, name)
        ]
        message = "" if job is None else without_names(scope, job.message)
        return self._page("job", namespace=namespace, name=name, job=job, message=message, reasons=reasons)

    async def _explanation(self, request: web.Request) -> web.Response:
        scope, namespace, name = await self._scope_of_job(request)
        try:
            answer = await self._questions.explanation(await self._asker(request), namespace, name)
        except QuestionError as error:
            problem = str(error) if scope.is_whole else "It could not be worked out."
            return self._page("job_explanation", answer=None, problem=problem)
        if answer is None:
            return self._page("job_explanation", answer=None, problem=f"There is no job {namespace}/{name} any more.")
        return self._page(
            "job_explanation", answer=answer if scope.is_whole else redacted(answer, scope.names), problem=""
        )

    # -- what if ------------------------------------------------------------------------------------------------------

    async def _what_if(self, request: web.Request) -> web.Response:
        scope, _, seen = await self._seen(request)
        _, known = await self._source.known()
        nodes = [each for each in known.objects if isinstance(each, api.Node)] if scope.nodes else []
        return self._page("what-if", queues=seen.queues, models=models_of(nodes))

    async def _quotas(self, request: web.Request) -> web.Response:
        """Return the sliders of a queue."""
        name = request.query.get("queue", "")
        return self._page("what-if_quotas", queue=name, limits=await self._limits(request, name) if name else ())

    async def _limits(self, request: web.Request, name: str) -> tuple[EditableQuota, ...]:
        _, _, seen = await self._seen(request)
        _, known = await self._source.known()
        state = next((queue for queue in seen.queues if queue.name == name), None)
        queues = (each for each in known.objects if isinstance(each, api.Queue) and each.metadata.name == name)
        queue = next(queues, None)
        if state is None or queue is None:
            raise web.HTTPNotFound(text=f"there is no queue {visible(name)}, or it is not for you to see\n")
        return limits_of(queue, state)

    async def _what_if_result(self, request: web.Request) -> web.Response:
        scope, _, _ = await self._seen(request)
        queue = request.query.get("queue", "")
        limits = await self._limits(request, queue) if queue else ()
        nodes = {name: count for name, count in numbers_in(request.query, "nodes:").items() if count}
        if nodes and not scope.nodes:
            raise web.HTTPForbidden(text="nodes are not for you to see: that takes the verb list on nodes\n")
        amounts = _that_differ(limits, numbers_in(request.query, "quota:"))
        if not (amounts or nodes):
            return self._page("what-if_result", difference=None, problem="", others={}, asked=[])
        asked = [*((f"{key.partition(':')[2]} of queue {queue}", str(n)) for key, n in amounts.items())]
        asked += [(f"nodes like {name}", f"{count:+d}") for name, count in nodes.items()]
        try:
            found = await self._questions.difference(await self._asker(request), queue, amounts, nodes)
        except (ChangeError, QuestionError) as error:
            problem = str(error) if scope.is_whole or isinstance(error, ChangeError) else "It could not be worked out."
            return self._page("what-if_result", difference=None, problem=problem, others={}, asked=asked)
        shown, others = difference_for(scope, found)
        return self._page("what-if_result", difference=shown, problem="", others=others, asked=asked, most=MOST_ROWS)

    # -- what has changed ---------------------------------------------------------------------------------------------

    async def _events(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["view"]
        if name not in VIEWS:
            raise web.HTTPNotFound
        view = self._pages.view(name, request.query)
        number, picture = await self._source.picture()
        scope = await self._scope(request, picture)
        with self._streaming(await self._asker(request)):
            return await self._stream(request, view, number, scope, picture)

    @contextmanager
    def _streaming(self, asker: str) -> Iterator[None]:
        """Count a stream of a reader. Raises an HTTP error if there are too many."""
        if self._streams[asker] >= STREAMS_OF_ONE or self._streams.total() >= MOST_STREAMS:
            raise web.HTTPTooManyRequests(text="too many pages are open; close one\n", headers={"Retry-After": "10"})
        self._streams[asker] += 1
        try:
            yield
        finally:
            self._streams[asker] -= 1
            if not self._streams[asker]:
                del self._streams[asker]

    async def _stream(
        self, request: web.Request, view: View, number: int, scope: Visibility, picture: Picture
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers={**HEADERS, **STREAM})
        await answer.prepare(request)
        view.show(seen_by(scope, picture), picture.history)
        if "Last-Event-ID" in request.headers or request.query.get("seen") != view.table.digest:
            await answer.write(_event(view.table.everything(), number) + _event(view.caption(), number))
        try:
            while True:
                number, picture = await self._next(answer, request, number)
                events = view.show(seen_by(await self._scope(request, picture), picture), picture.history)
                if events:
                    await answer.write(b"".join(_event(event, number) for event in events))
        except (web.HTTPException, ConnectionResetError):
            return answer  # who looked may look no more, and hears why when the browser asks again; or has gone

    async def _next(self, answer: web.StreamResponse, request: web.Request, number: int) -> tuple[int, Picture]:
        """Wait for the next picture. A line now and then finds readers that have gone, or lost access."""
        while True:
            try:
                return await asyncio.wait_for(self._source.after(number), HEARTBEAT_SECONDS)
            except TimeoutError:
                await self._who(request)
                await answer.write(b": still here\n\n")


def _refused(refusal: AccessRefusal) -> web.HTTPException:
    kinds = {401: web.HTTPUnauthorized, 403: web.HTTPForbidden, 429: web.HTTPTooManyRequests}
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}.get(refusal.status)
    return kinds.get(refusal.status, web.HTTPServiceUnavailable)(text=refusal.message + "\n", headers=headers)


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


def _event(event: Event, number: int) -> bytes:
    name, data = event
    lines = "\n".join(f"data: {line}" for line in data.splitlines() or [""])
    return f"event: {name}\nid: {number}\n{lines}\n\n".encode()


def _is_no_page(request: web.Request) -> bool:
    """True if the request is refused for every reader: pages can only be read."""
    return isinstance(request.match_info.http_exception, web.HTTPMethodNotAllowed)


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")
