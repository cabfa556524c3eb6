"""The faults that the proxy can inject, and the rules that choose the requests."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tools.patience import PATIENCE


@dataclass(frozen=True)
class InjectedFault:
    """The base of all faults."""


@dataclass(frozen=True)
class Latency(InjectedFault):
    """The request is forwarded `seconds` later. Other rules are looked at, too."""

    seconds: float


@dataclass(frozen=True)
class Reset(InjectedFault):
    """The client's connection is reset; with `after`, once the API server has done what was asked."""

    after: bool = False


@dataclass(frozen=True)
class BlackHole(InjectedFault):
    """The request is never answered; with `after`, although the API server has done what was asked."""

    after: bool = False


@dataclass(frozen=True)
class Respond(InjectedFault):
    """The proxy answers by itself; with `after`, once the API server has done what was asked."""

    status: int
    body: str = ""
    content_type: str = "application/json"
    retry_after: int | None = None
    """Seconds, for the header of that name."""
    after: bool = False


@dataclass(frozen=True)
class Truncate(InjectedFault):
    """The API server's answer breaks off after `keep` bytes of its body: the connection ends."""

    keep: int = 10


@dataclass(frozen=True)
class WatchFault(InjectedFault):
    """The base of what happens to watches, to open ones at once; `after_events` more events get through first."""

    after_events: int = 0


@dataclass(frozen=True)
class StallWatch(WatchFault):
    """No byte comes any more, and the connection stays open until the client leaves it."""


@dataclass(frozen=True)
class EndWatch(WatchFault):
    """The watch ends in good order, as it does when the API server's time limit is over."""


@dataclass(frozen=True)
class ResetWatch(WatchFault):
    """The connection of the watch is reset."""


@dataclass(frozen=True)
class FailWatch(WatchFault):
    """An event of type ERROR comes, then the watch ends; only for watches in JSON."""

    code: int = 410
    reason: str = "Expired"
    message: str = "too old resource version: 1 (2)"

    def event(self) -> bytes:
        """Return the event as it is sent."""
        return json.dumps({"type": "ERROR", "object": status(self.code, self.reason, self.message)}).encode() + b"\n"


def conflict(*, after: bool = False) -> Respond:
    """Return a 409 as for an object that has been modified."""
    message = "the object has been modified; please apply your changes to the latest version and try again"
    return Respond(409, json.dumps(status(409, "Conflict", message)), after=after)


def gone() -> Respond:
    """Return a 410 as for a list or a watch from a resource version that is too old."""
    return Respond(410, json.dumps(status(410, "Expired", "The resourceVersion for the provided watch is too old.")))


def too_many_requests(retry_after: int = 1) -> Respond:
    """Return a 429 that asks to come again after some seconds."""
    message = "too many requests, please try again later"
    return Respond(429, json.dumps(status(429, "TooManyRequests", message)), retry_after=retry_after)


def server_error(*, after: bool = False) -> Respond:
    """Return a 500 with a Status object."""
    return Respond(500, json.dumps(status(500, "InternalError", "etcdserver: request timed out")), after=after)


def bad_gateway_page() -> Respond:
    """Return a 503 whose body is no JSON, as a load balancer in front of the API server gives."""
    return Respond(503, "<html><body><h1>503 Service Unavailable</h1></body></html>\n", content_type="text/html")


def status(code: int, reason: str, message: str) -> dict[str, object]:
    """Return a Status object."""
    kind = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    return kind | {"status": "Failure", "message": message, "reason": reason, "code": code}


class FaultRule:
    """One fault and the requests that it meets; as a context manager it is removed at the end."""

    def __init__(
        self,
        fault: InjectedFault,
        *,
        method: str | None,
        path: str | None,
        watch: bool | None,
        times: int | None,
        remove: Callable[[FaultRule], None],
    ) -> None:
        self.fault = fault
        self._method = method
        self._path = re.compile(path) if path else None
        self._watch = True if isinstance(fault, WatchFault) else watch
        self._left = times
        self._remove = remove
        self._changed = threading.Condition()
        self._hits = 0

    @property
    def hits(self) -> int:
        """Return how many requests it has met."""
        return self._hits

    @property
    def is_spent(self) -> bool:
        """True if it has met as many requests as it was made for."""
        return self._left is not None and self._hits >= self._left

    def matches(self, method: str, path: str, *, is_watch: bool) -> bool:
        """Tell whether it meets such a request."""
        return (
            not self.is_spent
            and self._method in {None, method}
            and self._watch in {None, is_watch}
            and (self._path is None or self._path.search(path) is not None)
        )

    def hit(self) -> None:
        """Count a request that it has met."""
        with self._changed:
            self._hits += 1
            self._changed.notify_all()

    def wait(self, hits: int = 1, timeout: float = PATIENCE) -> None:
        """Return once it has met that many requests; raises TimeoutError after `timeout` seconds."""
        began = time.monotonic()
        with self._changed:
            if not self._changed.wait_for(lambda: self._hits >= hits, timeout):
                waited = time.monotonic() - began
                raise TimeoutError(f"{self.fault} met {self._hits} requests in {waited:.1f} s, not {hits}")

    def remove(self) -> None:
        """Let requests pass from now on; what was met before stays as it is (a stalled watch stays stalled)."""
        self._remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
