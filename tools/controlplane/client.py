"""A small blocking client for what tests do to the API server beside the program under test.

It speaks plain JSON through the standard library, may be used from any thread, and has a bulk call that keeps a few
requests in flight, since clusters of thousands of objects have to be set up in seconds.
"""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tools.controlplane.errors import ApiServerError
from tools.patience import PATIENCE, looks

Json = dict[str, Any]

T = TypeVar("T")
R = TypeVar("R")

_IDLE_LIMIT_SECONDS = 30.0
"""A kept connection that was idle for longer is not used again: the server may be closing it."""

_PATCH_TYPE = "application/merge-patch+json"


class ApiClient:
    """Requests to one API server with one bearer token; connections are kept for whoever asks next."""

    def __init__(self, url: str, tls: ssl.SSLContext, token: str) -> None:
        parts = urlsplit(url)
        self._connections = _Connections(parts.hostname or "", parts.port or 443, tls)
        self._token = token
        self._impersonated: dict[str, str] = {}

    def as_user(self, name: str, group: str = "") -> ApiClient:
        """Return a client that asks as another user, on the same connections.

        A ServiceAccount has its groups by itself; `group` is one that a user is in.
        """
        found = copy.copy(self)
        found._impersonated = {"Impersonate-User": name} | ({"Impersonate-Group": group} if group else {})
        return found

    def get(self, path: str) -> Json:
        """Return an object or a list; raises ApiServerError, with status 404 when it does not exist."""
        return self._json("GET", path)

    def find(self, path: str) -> Json | None:
        """Return an object, or None when it does not exist."""
        try:
            return self.get(path)
        except ApiServerError as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str) -> list[Json]:
        """Return the items of a list."""
        found: list[Json] = self.get(path)["items"]
        return found

    def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """Create an object in the collection at `path`, and return it as it was stored."""
        return self._json("POST", path, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> Json:
        """Replace an object, and return it as it was stored."""
        return self._json("PUT", path, body)

    def patch(self, path: str, body: Any, content_type: str = _PATCH_TYPE) -> Json:
        """Patch an object (a merge patch unless another type is given), and return it as it was stored."""
        return self._json("PATCH", path, body, content_type)

    def delete(self, path: str, *, grace_seconds: int | None = None) -> None:
        """Delete an object, or a collection; it is no error when it does not exist."""
        body = None if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        try:
            self.request("DELETE", path, body)
        except ApiServerError as error:
            if error.status != 404:
                raise

    def create_many(self, path: str, bodies: Sequence[Mapping[str, Any]], *, in_flight: int = 12) -> list[Json]:
        """Create many objects in one collection, some at a time, and return them in the order given."""
        return self.for_each(lambda body: self.create(path, body), bodies, in_flight=in_flight)

    def for_each(self, call: Callable[[T], R], arguments: Iterable[T], *, in_flight: int = 12) -> list[R]:
        """Call a function with each of the arguments, some at a time, and return the answers in their order."""
        with ThreadPoolExecutor(max_workers=in_flight) as pool:
            return list(pool.map(call, arguments))

    def watch(self, path: str, *, resource_version: str = "", timeout_seconds: int = 300) -> Iterator[Json]:
        """Yield the events of a watch until the server ends it; close the generator to leave earlier.

        Raises http.client.IncompleteRead when the connection breaks, ApiServerError when the watch is refused.
        """
        mark = "&" if "?" in path else "?"
        query = f"{path}{mark}watch=1&resourceVersion={resource_version}&timeoutSeconds={timeout_seconds}"
        connection = self._connections.open(timeout_seconds + 10)
        try:
            connection.request("GET", query, headers=self._headers(None))
            response = connection.getresponse()
            if response.status != 200:
                raise ApiServerError("GET", query, response.status, response.read().decode(errors="replace"))
            for line in lines_of(response):
                yield json.loads(line)
        finally:
            connection.close()

    def wait_for(self, path: str, condition: Callable[[Json], bool], timeout: float = PATIENCE) -> Json:
        """Return the object or list at `path` once the condition holds; what does not exist is waited for, too.

        Raises TimeoutError after `timeout` seconds, with what was there last.
        """
        found = None
        for _ in looks(timeout):
            found = self.find(path)
            if found is not None and condition(found):
                return found
        raise TimeoutError(f"waited {timeout:.0f} s for {path}; last seen: {json.dumps(found)[:2000]}")

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float = 60.0,
    ) -> bytes:
        """Send one request and return the answer's body; raises ApiServerError for a status of 400 and above.

        A body of bytes is sent as it is.
        """
        is_text = body is None or isinstance(body, bytes)
        payload = body if is_text else json.dumps(body, separators=(",", ":")).encode()
        with self._connections.one(timeout) as connection:
            connection.request(method, path, payload, self._headers(content_type if payload else None))
            response = connection.getresponse()
            answer = response.read()
        if response.status >= 400:
            raise ApiServerError(method, path, response.status, answer.decode(errors="replace"))
        return answer

    def forget_connections(self) -> None:
        """Open new connections from now on, as after a restart of the server."""
        self._connections.forget()

    def _json(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Json:
        parsed: Json = json.loads(self.request(method, path, body, content_type))
        return parsed

    def _headers(self, content_type: str | None) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", **self._impersonated}
        return headers | ({"Content-Type": content_type} if content_type else {})


def lines_of(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield an answer's lines as they come; raises http.client.IncompleteRead when it breaks off.

    The response's own readline takes a broken connection for the end.
    """
    rest = b""
    while data := response.read1(65_536):
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
    if rest:
        yield rest


class _Connections:
    """Connections to one server that are free, the one that was used last at the end.

    A thread takes one for each request: one for each thread would cost bulk calls, which have new threads each time, a
    handshake for each of these.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext) -> None:
        self._open = partial(http.client.HTTPSConnection, host, port, context=tls)
        self._free: deque[tuple[http.client.HTTPSConnection, float]] = deque()

    def open(self, timeout: float) -> http.client.HTTPSConnection:
        """Return a new connection, which is not kept."""
        return self._open(timeout=timeout)

    @contextlib.contextmanager
    def one(self, timeout: float) -> Iterator[http.client.HTTPSConnection]:
        """Have a connection within a ``with`` block; it is closed if the block fails."""
        free = self._free
        connection = self._taken(timeout)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        free.append((connection, time.monotonic()))

    def forget(self) -> None:
        """Keep none of the connections that there are, not even those that are in use."""
        self._free = deque()

    def _taken(self, timeout: float) -> http.client.HTTPSConnection:
        with contextlib.suppress(IndexError):
            connection, used = self._free.pop()
            if time.monotonic() - used <= _IDLE_LIMIT_SECONDS:
                connection.timeout = timeout
                if connection.sock:
                    connection.sock.settimeout(timeout)
                return connection
            connection.close()
        return self.open(timeout)
