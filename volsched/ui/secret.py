"""Access to a page on the user's own machine: the link has a secret.

Every user of the same machine reaches the page's port, and so does every page on the internet, through the browser. So
the printed link has a secret. It is handed over once, for a cookie that the browser sends to this page alone, and
requests of other pages are refused: the browser marks those.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

PARAMETER: Final = "secret"
LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
"""The hosts that a request may name: a name that others point here is none of them."""

_OF_OTHERS: Final = ("cross-site", "same-site")
"""The browser's marks of a request by another page; one at another port of the machine is of the same site."""

_GO_ON: Final = '<!doctype html><meta http-equiv="refresh" content="0; url=/overview"><a href="/overview">The page</a>'
"""A page instead of a redirection for a link on another page: a redirected request counts as that page's."""


class LinkSecret:
    """The secret of one run, and what it lets in."""

    def __init__(self) -> None:
        self._secret = secrets.token_urlsafe(32)

    def link(self, address: str) -> str:
        """Return the link to a page at `host:port`."""
        return f"http://{address}/?{urlencode({PARAMETER: self._secret})}"

    def check(self, request: web.Request) -> None:
        """Raise HTTPForbidden for who may not ask."""
        self.check_origin(request)
        if not (self._is_right(request.cookies.get(_cookie(request), "")) or self._is_right(_bearer(request))):
            raise web.HTTPForbidden(text="open the link that volsched ui has printed: it has the secret of this page\n")

    def check_origin(self, request: web.Request) -> None:
        """Raise HTTPForbidden where the request names another host, or another page makes it."""
        host, _ = _split(request.host)
        if host not in LOCAL:
            raise web.HTTPForbidden(text="this page is for this machine alone\n")
        origin = request.headers.get("Origin", "")
        is_foreign = _is_of_another(request) and not self.is_handed_over(request)
        if is_foreign or origin not in ("", f"http://{request.host}"):
            raise web.HTTPForbidden(text="this request comes from another page\n")

    def is_handed_over(self, request: web.Request) -> bool:
        """Return whether the request is the link itself, opened as a page."""
        return request.path == "/" and self._is_right(request.query.get(PARAMETER, ""))

    def hand_over(self, request: web.Request) -> web.Response:
        """Return the answer with which the browser keeps the secret, and goes on to the page."""
        if _is_of_another(request):
            answer = web.Response(text=_GO_ON, content_type="text/html")
        else:
            answer = web.Response(status=302, headers={"Location": "/overview"})
        answer.set_cookie(_cookie(request), self._secret, httponly=True, samesite="Strict", path="/")
        return answer

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="surrogatepass"), self._secret.encode())


def _cookie(request: web.Request) -> str:
    """Return the cookie's name. Cookies do not know ports, and pages may be open at several."""
    return f"volsched-ui-{_split(request.host)[1] or '80'}"


def _is_of_another(request: web.Request) -> bool:
    return request.headers.get("Sec-Fetch-Site", "") in _OF_OTHERS


def _bearer(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _split(host: str) -> tuple[str, str]:
    name, _, port = host.rpartition(":")
    return (name, port) if port.isdigit() else (host, "")
