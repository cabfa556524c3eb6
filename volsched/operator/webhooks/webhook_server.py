"""Serves admission reviews over TLS to kopf, in the form in which kopf wants a server.

kopf's own server makes its listening socket again when certificates change. Here the socket stays, and new connections
get the new certificate; an unusable one (half of a pair that is being replaced) is logged once, and the former one
stays.

kopf finds the handler of a review, and the handler finds the request in `UNDER_REVIEW`: kopf itself does not see the
objects. It would compare them on its only thread, however large they are, and remember each for good, since nothing
tells it when they are gone.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web

from volsched.kube.errors import KubeSetupError
from volsched.kube.serve.certificates import ends_of
from volsched.kube.serve.listeners import Listeners
from volsched.kube.serve.site import LimitedSites
from volsched.model.values import json_text
from volsched.operator.webhooks.listening import Listening
from volsched.operator.webhooks.reviewers import BusyError, Reviewers
from volsched.validation.admission import AdmissionRequest

PATH: Final = "/validate"

BODY_SECONDS: Final = 3.0
"""The longest wait for a review to arrive: the API server would not wait for its answer either."""

COME_AGAIN_SECONDS: Final = 1

LOOK_SECONDS: Final = 5.0
"""The time between two checks of the files: a mounted Secret changes without notice."""

_SHUTDOWN_SECONDS: Final = 2.0

UNDER_REVIEW: ContextVar[AdmissionRequest] = ContextVar("UNDER_REVIEW")
"""The request that kopf's handler is to judge."""

_WAITING: Final = "waiting for it; a Secret that was made after this pod comes into its files within two minutes"
"""The delay of the kubelet: it checks an optional volume once a round, and caches the result."""

_log = structlog.get_logger(__name__)

Json = dict[str, Any]


class WebhookServer:
    """A server for `settings.admission.server`. `turned_away` gets the reason for a review that was not read.

    `problem` is the reason why it does not serve, empty if it does; `ends` is the expiry of the certificate in use, and
    `reloads` counts replacements; `site` has the connections, once it serves.
    """

    def __init__(self, listening: Listening, turned_away: Callable[[str], None]) -> None:
        self._listening = listening
        self._turned_away = turned_away
        self.reviewers = Reviewers(listening.reviews)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._digest = ""
        self._reported = ""
        self.problem = "webhooks do not serve yet"
        self.reloads = 0
        self.ends: datetime | None = None
        self.site: LimitedSites | None = None

    async def __call__(self, review: Any) -> AsyncIterator[Any]:
        """Serve until cancelled. `review` is kopf's function from a review to its answer."""
        while not self._load():  # noqa: ASYNC110 - changes of files are not announced
            await asyncio.sleep(LOOK_SECONDS)
        app = web.Application(client_max_size=self._listening.largest)
        app.router.add_post(PATH, partial(self._answer, review))
        self.site = LimitedSites(app, "webhooks", self._listening.connections, shutdown=_SHUTDOWN_SECONDS)
        try:
            await self._listen(self.site)
            yield {}  # how the API server reaches it is stated by manifests
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                self._load()
        finally:
            self.problem = self.problem or "webhooks do not serve any more"
            await self.site.stop()

    async def _listen(self, site: LimitedSites) -> None:
        try:
            await site.start(Listeners().take(self._listening.address), self._context)
        except KubeSetupError as error:
            self.problem = f"{error} for webhooks"
            raise
        self.problem = ""
        _log.info("serving webhooks", addresses=site.addresses, certificate=self._listening.certificate)

    def _load(self) -> bool:
        """Use the files if they have changed. Return whether there is a certificate to serve with."""
        certificate, key = Path(self._listening.certificate), Path(self._listening.key)
        try:
            digest = hashlib.sha256(certificate.read_bytes() + b"\0" + key.read_bytes()).hexdigest()
            if digest == self._digest:
                return True
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)  # a pair that fits, or an error
            self._context.load_cert_chain(certificate, key)
            self.ends = ends_of(certificate.read_bytes())
        except (OSError, ValueError) as error:
            message = (error.strerror if isinstance(error, OSError) else None) or error
            self._complain(f"no certificate for webhooks in {certificate} and {key}: {message}")
            return bool(self._digest)
        if self._digest:
            self.reloads += 1
            _log.info("new certificate for webhooks in use", certificate=str(certificate))
        self._digest, self._reported = digest, ""
        return True

    def _complain(self, problem: str) -> None:
        if not self._digest:
            self.problem = problem
        if problem != self._reported:
            self._reported = problem
            _log.warning(f"{problem}; {'the one before stays in use' if self._digest else _WAITING}")

    # -- reviews --------------------------------------------------------------------------------------------------

    async def _answer(self, review: Any, request: web.Request) -> web.Response:
        try:
            with self.reviewers.place():
                return await self._answer_in_place(review, request)
        except BusyError:
            again = {"Retry-After": str(COME_AGAIN_SECONDS)}
            return self._turn_away("busy", 429, "too many reviews at a time; come again", again)
        except web.HTTPRequestEntityTooLarge:
            most = self._listening.largest
            return self._turn_away(
                "too_large", 413, f"a review of more than {most} bytes is not read (--webhook-bytes)"
            )
        except TimeoutError:
            return self._turn_away("slow", 408, f"the review did not come within {BODY_SECONDS:g} s")

    def _turn_away(self, why: str, status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
        self._turned_away(why)
        return web.Response(status=status, text=f"{text}\n", headers=headers)

    async def _answer_in_place(self, review: Any, request: web.Request) -> web.Response:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.read()
        try:
            asked, under_review = await self.reviewers.do(read_review, body)
        except (ValueError, KeyError, TypeError, AttributeError, msgspec.DecodeError) as error:
            return web.Response(status=400, text=f"no admission review: {type(error).__name__}: {error}\n")
        UNDER_REVIEW.set(under_review)
        try:
            return web.json_response(await review(asked))
        except Exception as error:
            _log.warning("a review was not answered", resource=asked["request"].get("resource"), error=str(error))
            return web.Response(status=500, text=f"{type(error).__name__}: {error}\n")


def read_review(body: bytes) -> tuple[Json, AdmissionRequest]:
    """Return a review without its objects, and its operation. Raises many errors for other texts."""
    asked = json_text.decode(body)
    request = asked["request"]
    under_review = AdmissionRequest(str(request.get("operation")), request.get("object"), request.get("oldObject"))
    shown: dict[str, Json] = {name: {} for name in ("object", "oldObject") if request.get(name) is not None}
    return {**asked, "request": {**request, **shown}}, under_review
