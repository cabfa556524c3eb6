"""What each page needs: the pictures of the cluster, the rights of the reader, and the templates."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from aiohttp import web

from volsched.kube.serve.reader_access import AccessRefusal
from volsched.kube.serve.reviews import Person
from volsched.model.job import LONE, NATIVE
from volsched.model.values.names import is_name
from volsched.ui.access import WHOLE, AccessReviews, Visibility
from volsched.ui.pages import Pages
from volsched.ui.picture import Picture
from volsched.ui.questions import ClusterQuestions
from volsched.ui.redaction import VisiblePicture, seen_by
from volsched.ui.secret import LinkSecret
from volsched.ui.source import PictureSource

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_NO_JOB: Final = "there is no such job, or it is not for you to see\n"


class PageContext:
    """The cluster, and the rights of the readers.

    With ``access``, the API server is asked about each reader. Without, a reader needs the link with the ``secret``.
    """

    def __init__(self, source: PictureSource, access: AccessReviews | None, grafana_url: str = "") -> None:
        """``grafana_url`` is the address of Grafana with the shipped dashboards; empty without."""
        self.source = source
        self.grafana_url = grafana_url.rstrip("/")
        self.access = access
        self.secret = LinkSecret()
        self.pages = Pages(source.now)
        self.questions = ClusterQuestions(source)

    async def who(self, request: web.Request) -> Person | None:
        """Return the reader, None on the own machine. Raises an HTTP error without access."""
        if self.access is None:
            self.secret.check(request)
            return None
        found = await self.access.who(request.headers.get("Authorization", ""), request.remote or "")
        if isinstance(found, AccessRefusal):
            raise _refused(found)
        return found

    async def asker(self, request: web.Request) -> str:
        """Return the name by which the reader takes turns."""
        person = await self.who(request)
        return person.asker if person is not None else ""

    async def scope(self, request: web.Request, picture: Picture) -> Visibility:
        """Return the names that the reader may see. It is asked each time; answers are kept for a minute."""
        person = await self.who(request)
        if person is None or self.access is None:
            return WHOLE
        return await self.access.scope(person, picture.namespaces, [queue.name for queue in picture.queues])

    async def scope_of_job(self, request: web.Request) -> tuple[Visibility, str, str]:
        """Return the scope and the job in question. A hidden one does not exist."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if not is_name(namespace) or not is_name(name.removeprefix(LONE).removeprefix(NATIVE)):
            raise web.HTTPNotFound(text=_NO_JOB)
        person = await self.who(request)
        if person is None or self.access is None:
            return WHOLE, namespace, name
        scope = await self.access.scope(person, [namespace], [])
        if not scope.names(namespace):
            raise web.HTTPNotFound(text=_NO_JOB)
        return scope, namespace, name

    async def seen(self, request: web.Request) -> tuple[Visibility, Picture, VisiblePicture]:
        """Return the rights of the reader, the current picture, and the part of it that the reader may see."""
        _, picture = await self.source.picture()
        scope = await self.scope(request, picture)
        return scope, picture, seen_by(scope, picture)

    @property
    def digest(self) -> str:
        """Return a short name of what the header and the notices show, equal for equal ones."""
        return hashlib.sha256(f"{self.source.state} {self.source.notice}".encode()).hexdigest()[:16]

    def page(self, template: str, **values: Any) -> web.Response:
        """Return a page, or a part of one, made from a template."""
        source = self.source
        text = self.pages.page(
            template,
            notice=source.notice,
            about=source.about,
            cluster=source.cluster,
            state=source.state,
            digest=self.digest,
            is_own=self.access is None,
            **values,
        )
        return web.Response(text=text, content_type="text/html")


def _refused(refusal: AccessRefusal) -> web.HTTPException:
    kinds = {401: web.HTTPUnauthorized, 403: web.HTTPForbidden, 429: web.HTTPTooManyRequests}
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}.get(refusal.status)
    return kinds.get(refusal.status, web.HTTPServiceUnavailable)(text=refusal.message + "\n", headers=headers)
