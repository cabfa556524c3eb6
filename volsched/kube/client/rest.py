"""Requests to one API server as raw bytes: fast enough for a thousand bindings a second, and strict about failures.

Generated models and helpers of a client library cost a millisecond per pod and hide errors, so there are none. Every
request has a timeout, every answer that is not a success becomes an `ApiError`, every request is counted. Watches and
requests have connections of their own, so that neither waits for the other; the Lease has an `Api` of its own.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

import aiohttp
import msgspec
import structlog
from yarl import URL

from volsched import __version__
from volsched.kube.client.credentials import Credentials, Source, Tls
from volsched.kube.client.wire import Answer, StartWrite, Wire, WireError
from volsched.kube.errors import OVERLOADED, TOO_LARGE, ApiError, CredentialsError
from volsched.kube.fence import Fence
from volsched.kube.histogram import Histogram
from volsched.model.values import json_text

USER_AGENT: Final = f"volsched/{__version__}"

Pool: TypeAlias = Literal["watch", "request"]
Read: TypeAlias = Callable[[], Awaitable[bytes]]

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json"

REQUEST_TIMEOUT_SECONDS: Final = 30.0
CONNECT_TIMEOUT_SECONDS: Final = 10.0
READ_BUFFER_BYTES: Final = 1 << 21
"""The longest line of aiohttp's stream: an object may have 1.5 MiB."""

LONGEST_RETRY_AFTER_SECONDS: Final = 30.0
"""The longest pause that we accept: a server may ask for hours."""

_POOL_LIMITS: Final[dict[Pool, int]] = {"watch": 0, "request": 128}
_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

_log = structlog.get_logger(__name__)


class RateLimiter:
    """A token bucket: `qps` requests per second (0: no limit), `burst` of them at once.

    `waited` is how many seconds requests were held back so far, all together.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = max(1, burst)
        self._tokens = float(self._burst)
        self._at = time.monotonic()
        self.waited = 0.0

    async def take(self) -> None:
        """Wait until one more request may go."""
        if self._qps <= 0:
            return
        now = time.monotonic()
        self._tokens = min(float(self._burst), self._tokens + (now - self._at) * self._qps) - 1
        self._at = now
        if self._tokens < 0:
            wait = -self._tokens / self._qps
            self.waited += wait
            await asyncio.sleep(wait)


@dataclass(frozen=True, slots=True)
class _Call:
    """One request as `Api.request` was asked for it."""

    method: str
    path: str
    body: bytes | None
    content_type: str
    within: float
    resource: str
    verb: str
    start_write: StartWrite | None


class Api:
    """One API server. Use `await Api.connect(source)`, and `close` in the end.

    `requests` counts all of them by (verb, resource, code); the code is the HTTP status or what kept it from coming.
    `durations` are the seconds that they took by (verb, resource), those without an answer included and watches not.
    """

    def __init__(self, credentials: Credentials, limiter: RateLimiter) -> None:
        self._credentials = credentials
        self._limiter = limiter
        self._sessions: dict[Pool, aiohttp.ClientSession] = {}
        self._wires: dict[Pool, Wire] = {}
        self._authorization: str | None = None
        self._head = ""
        self._in_use: tuple[Tls, str] | None = None
        self._refused: tuple[Tls, str] | None = None
        self.requests: Counter[tuple[str, ...]] = Counter()
        self.durations: defaultdict[tuple[str, ...], Histogram] = defaultdict(Histogram)

    @classmethod
    async def connect(cls, source: Source, *, qps: float = 0.0, burst: int = 5000) -> Api:
        """Read the configuration and be ready to ask. No request is made yet. Raises CredentialsError."""
        api = cls(await Credentials.load(source), RateLimiter(qps, burst))
        await api._open()
        return api

    @property
    def server(self) -> str:
        """Return the API server's address."""
        return self._credentials.host

    @property
    def throttled_seconds(self) -> float:
        """Return the seconds for which our own limit held requests back, in total."""
        return self._limiter.waited

    @property
    def origin(self) -> str:
        """Return where its address and our credentials came from."""
        return self._credentials.origin

    async def close(self) -> None:
        """Close all connections."""
        sessions, self._sessions = self._sessions, {}
        wires, self._wires = self._wires, {}
        await _close(sessions, wires)

    # -- requests -------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        resource: str,
        *,
        body: bytes | None = None,
        content_type: str = JSON,
        within: float = REQUEST_TIMEOUT_SECONDS,
        verb: str = "",
        fence: Fence | None = None,
    ) -> bytes:
        """Send one request and return the answer's body. Raises ApiError.

        `path` is absolute and encoded, `within` counts in seconds from sending to the last byte; `resource` and `verb`
        are for counting. `fence` is for every write that only the leader may do: it is asked right before the bytes go,
        after all waiting (for our own limit, new credentials, a connection), and limits `within`; raises FenceError if
        it is closed.
        """
        await self._limiter.take()
        start_write = fence.start_write if fence is not None else None
        call = _Call(method, path, body, content_type, within, resource, verb or _VERBS[method], start_write)
        try:
            return await self._counted(call)
        except ApiError as error:
            if error.status != 401 or not await self._credentials.reload():
                raise
        return await self._counted(call)

    async def get(self, path: str, resource: str, *, within: float = REQUEST_TIMEOUT_SECONDS, verb: str = "") -> Any:
        """Return an object or a list as plain JSON values. Raises ApiError."""
        return parsed(await self.request("GET", path, resource, within=within, verb=verb))

    @asynccontextmanager
    async def stream(self, path: str, resource: str, silence: float) -> AsyncIterator[Read]:
        """Open a watch and return a function that returns its bytes as they come, empty at the end.

        Raises ApiError, also for failures while it is read. `silence` is the longest time without bytes, in seconds.
        """
        has_begun = False
        try:
            await self._refresh()
            wire = self._wires.get("watch")
            source = self._wire_stream(path, silence, wire) if wire is not None else self._proxy_stream(path, silence)
            async with source as read:
                has_begun = True
                self.requests["watch", resource, "200"] += 1
                yield read
        except ApiError as error:
            if not has_begun:
                self.requests["watch", resource, error.code] += 1
                if error.status == 401:
                    await self._credentials.reload()
            raise

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _counted(self, call: _Call) -> bytes:
        began = time.monotonic()
        try:
            status, answer = await self._attempt(call)
        except ApiError as error:
            self.requests[call.verb, call.resource, error.code] += 1
            raise
        finally:
            self.durations[call.verb, call.resource].add(time.monotonic() - began)
        self.requests[call.verb, call.resource, str(status)] += 1
        return answer

    async def _attempt(self, call: _Call) -> tuple[int, bytes]:
        await self._refresh()
        wire = self._wires.get("request")
        answer = await (self._by_wire(call, wire) if wire is not None else self._by_aiohttp(call))
        if not 200 <= answer.status < 300:
            raise _refusal(answer)
        if not answer.body.startswith(b"{"):  # a page of a proxy: nothing was done, or that is not known
            raise _not_json(answer.body)
        return answer.status, answer.body

    async def _by_wire(self, call: _Call, wire: Wire) -> Answer:
        content = f"Content-Type: {call.content_type}\r\n" if call.body is not None else ""
        try:
            return await wire.request(
                call.method, call.path, self._head + content, call.body, call.within, call.start_write
            )
        except WireError as error:
            self._note(error)
            raise _of_wire(error) from error

    def _note(self, error: BaseException) -> None:
        """Look at the certificates soon when a connection fails over them."""
        if isinstance(error.__cause__, ssl.SSLError):
            self._credentials.doubt()

    async def _by_aiohttp(self, call: _Call) -> Answer:
        """Send a request through the proxy that is configured."""
        within = call.start_write(call.within) if call.start_write is not None else call.within
        headers = self._headers()
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        try:
            async with self._sessions["request"].request(
                call.method,
                self._url(call.path),
                data=call.body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=max(0.001, within), sock_connect=CONNECT_TIMEOUT_SECONDS),
                proxy=self._credentials.proxy,
                server_hostname=self._credentials.server_name,
                allow_redirects=False,
                trace_request_ctx=call.start_write,
            ) as response:
                return _answer_of(response, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from error

    @asynccontextmanager
    async def _wire_stream(self, path: str, silence: float, wire: Wire) -> AsyncIterator[Read]:
        try:
            answer, stream = await wire.stream(path, self._head, silence)
        except WireError as error:
            self._note(error)
            raise _of_wire(error) from error
        try:
            if answer.status != 200:
                raise _refusal(answer)

            async def read() -> bytes:
                try:
                    return await stream.read(silence)
                except WireError as error:
                    raise _of_wire(error) from error

            yield read
        finally:
            wire.end(stream)

    @asynccontextmanager
    async def _proxy_stream(self, path: str, silence: float) -> AsyncIterator[Read]:
        """Open a watch through the proxy that is configured."""
        try:
            response = await self._sessions["watch"].get(
                self._url(path),
                headers=self._headers(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=silence),
                proxy=self._credentials.proxy,
                server_hostname=self._credentials.server_name,
                allow_redirects=False,
            )
            refusal = b"" if response.status == 200 else await response.content.read(1 << 16)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from error
        try:
            if response.status != 200:
                raise _refusal(_answer_of(response, refusal))

            async def read() -> bytes:
                try:
                    async with asyncio.timeout(silence):  # aiohttp's own may never end, see wire.py
                        return await response.content.readany()
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    raise _no_answer(error) from error

            yield read
        finally:
            response.close()

    def _headers(self) -> dict[str, str]:
        authorization = self._credentials.authorization
        return {"Authorization": authorization} if authorization else {}

    async def _refresh(self) -> None:
        """Note new credentials, and make new connections when those need other ones."""
        credentials = self._credentials
        await credentials.refresh()
        wanted = (credentials.tls, credentials.host)
        if wanted not in (self._in_use, self._refused):
            await self._reopen()
        if self._authorization != credentials.authorization:
            self._authorization = credentials.authorization
            lines = {"User-Agent": USER_AGENT, "Accept": JSON, **self._headers()}
            self._head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    async def _reopen(self) -> None:
        """Use other certificates for new connections. Unusable ones, as half of a file, are ignored for now."""
        try:
            await self._open()
        except CredentialsError as error:
            self._refused = (self._credentials.tls, self._credentials.host)
            self._credentials.doubt()
            _log.warning("new certificates cannot be used; those before stay", error=str(error))
        else:
            _log.info("connections are made with new certificates", server=self.server)

    async def _open(self) -> None:
        """Make fresh connection pools, as at the start and when certificates changed. Raises CredentialsError."""
        credentials = self._credentials
        context = credentials.tls.context()
        sessions: dict[Pool, aiohttp.ClientSession] = {}
        wires: dict[Pool, Wire] = {}
        for pool, limit in _POOL_LIMITS.items():
            if credentials.proxy:
                sessions[pool] = _session(context, limit)
            else:
                wires[pool] = Wire(credentials.host, context, credentials.server_name, limit)
        self._in_use, self._refused = (credentials.tls, credentials.host), None
        self._sessions, sessions = sessions, self._sessions
        self._wires, wires = wires, self._wires
        await _close(sessions, wires)

    def _url(self, path: str) -> URL:
        return URL(self._credentials.host + path, encoded=True)


async def _close(sessions: Mapping[Pool, aiohttp.ClientSession], wires: Mapping[Pool, Wire]) -> None:
    for wire in wires.values():
        wire.close()
    for session in sessions.values():
        await session.close()


async def _ask_the_fence(_: aiohttp.ClientSession, context: Any, __: object) -> None:
    """Ask the fence whether a write may go, now that there is a connection. Its error ends the request."""
    start_write: StartWrite | None = context.trace_request_ctx
    if start_write is not None:
        start_write(0.0)


def _session(context: ssl.SSLContext, limit: int) -> aiohttp.ClientSession:
    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(_ask_the_fence)
    trace.on_connection_reuseconn.append(_ask_the_fence)
    return aiohttp.ClientSession(
        trace_configs=[trace],
        connector=aiohttp.TCPConnector(limit=limit, ssl=context, keepalive_timeout=30.0, ttl_dns_cache=30),
        headers={"User-Agent": USER_AGENT, "Accept": JSON, "Accept-Encoding": "identity"},
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_BUFFER_BYTES,
        auto_decompress=False,
    )


def parsed(answer: bytes) -> Any:
    """Return the JSON value of an answer. Raises ApiError if it is none, for example a page of a proxy."""
    try:
        return json_text.decode(answer)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _not_json(answer) from error


def _not_json(answer: bytes) -> ApiError:
    return ApiError(0, "Broken", f"the answer is not JSON: {answer[:200]!r}")


def path_segment(name: str) -> str:
    """Return a name as part of a path."""
    return quote(name, safe="")


def _of_wire(error: WireError) -> ApiError:
    """Turn an error below HTTP into one of ours; the caller chains it to its cause."""
    if error.too_large:
        return ApiError(0, TOO_LARGE, str(error))
    return ApiError(0, "Unreachable" if not error.sent else "Timeout" if error.late else "Broken", str(error))


def _no_answer(error: BaseException) -> ApiError:
    """Turn a transport error into one of ours; the caller chains it to its cause."""
    text = str(error) or type(error).__name__
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        return ApiError(0, "Timeout", text)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.InvalidURL):
        return ApiError(0, "Unreachable", text)
    return ApiError(0, "Broken", text)


def _answer_of(response: aiohttp.ClientResponse, body: bytes) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status, response.reason or "", headers, body)


def _refusal(answer: Answer) -> ApiError:
    """Read a Status object, or the text that a proxy sent in its place."""
    try:
        status: Any = json_text.decode(answer.body)
    except (msgspec.DecodeError, UnicodeError):
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = answer.body[:200].decode(errors="replace").strip() or "empty answer"
        reason = OVERLOADED if answer.status == 429 else answer.phrase or "Unknown"
        status = {"reason": reason, "message": text}
    details = status.get("details") if isinstance(status.get("details"), dict) else {}
    wait = _seconds(answer.headers.get("retry-after")) or _seconds(details.get("retryAfterSeconds"))
    return ApiError(answer.status, str(status.get("reason") or "Unknown"), str(status.get("message") or ""), wait)


def _seconds(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return min(found, LONGEST_RETRY_AFTER_SECONDS) if found > 0 else None
