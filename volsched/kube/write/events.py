"""Events on the objects of users. Bindings go first, and no message is repeated.

Why a pod waits matters more than where it went. So when too many Events wait, `Scheduled` is dropped first, and is
counted. A refusal is replaced by a later one on the same object, and ends with the object. It is dropped only when tens
of thousands wait before it. Namespaces take turns. Events about the configuration do not replace one another. The same
message on the same object counts up the present Event; new messages come at growing intervals. A scheduler without any
rights to Events schedules all the same.

``Events`` is one class: waiting, written and refused Events are one queue, with one budget.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import msgspec
import structlog

from volsched.kube.client.backoff import Backoff
from volsched.kube.client.rest import JSON, MERGE_PATCH, Api, path_segment
from volsched.kube.errors import ApiError, FenceError
from volsched.kube.fence import Fence
from volsched.kube.tasks import Tasks
from volsched.kube.write.delaying_queue import DelayingQueue
from volsched.kube.write.throttle import TokenBucket
from volsched.model.plan import RecordEvent
from volsched.model.values.bounded import Bounded, Size
from volsched.model.values.in_turns import InTurns
from volsched.model.values.visible import visible_lines
from volsched.model.verdict import truncated

COMPONENT: Final = "volsched"
SCHEDULED: Final = "Scheduled"

LANE_LIMIT: Final = 8192
"""`Scheduled` Events that may wait. Older ones are dropped."""

WAITING_LIMIT: Final = 65536
"""Other Events that may wait. Those that have waited longest are dropped then."""

REMEMBERED: Final = 16384
"""The most objects whose last Event is remembered, until they are gone."""

REMEMBERED_OF_ONE: Final = 64
"""The most remembered reasons of one object. Some count by their message."""

QPS: Final = 100.0
BURST: Final = 200
IN_FLIGHT: Final = 4
WRITE_TIMEOUT_SECONDS: Final = 10.0
SCHEDULED_PER_SECOND: Final = 10.0
"""The rate of `Scheduled` Events beside all other Events and bindings.

Refusals and bindings of one team must not delay the Events of another.
"""

SETTLE_SECONDS: Final = 1.0
"""A refusal waits this long: a pod that is bound meanwhile needs none."""

FIRST_INTERVAL_SECONDS: Final = 2.0
LONGEST_INTERVAL_SECONDS: Final = 300.0
"""New words about an object wait this long since the last ones, doubling each time."""

QUIET_SECONDS: Final = 900.0
"""The time without an Event after which an object's next Event is written at once."""

_FORBIDDEN_PAUSES: Final = (2.0, 300.0)
"""Seconds without Events after they were refused for want of rights: at first, and at most."""

_SCHEDULED_ATTEMPTS: Final = 3
_LONGEST_PREFIX: Final = 230

_log = structlog.get_logger(__name__)

Key: TypeAlias = tuple[str, str]
"""An object's uid and a reason; with a digest of the message where each message counts by itself."""


@dataclass(slots=True)
class _LastEvent:
    """The Event in which something was stated last: how often, and when (on the monotonic clock)."""

    path: str
    digest: bytes
    """Of the message, which may be long."""
    count: int
    at: float
    interval: float


@dataclass(slots=True)
class _Talk:
    """An Event to write, `times` over, under a fixed name, so that sending it twice does no harm."""

    event: RecordEvent
    recorded_at: str
    name: str
    times: int = 1
    attempts: int = 0
    not_before: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(0.5, 30.0))

    def continues(self, before: _Talk) -> None:
        """Include an earlier waiting Event, under its name: a try of it may have succeeded unseen."""
        self.name, self.attempts, self.backoff = before.name, before.attempts, before.backoff
        self.times += before.times


def _digest(message: str) -> bytes:
    return hashlib.sha256(message.encode()).digest()[:8]


class Events:
    """The lane of Events; lives on the I/O loop. `binds_waiting` states how many bindings wait for their turn."""

    def __init__(self, api: Api, fence: Fence, binds_waiting: Callable[[], int], *, qps: float = QPS) -> None:
        self._api = api
        self._fence = fence
        self._binds_waiting = binds_waiting
        self._bucket = TokenBucket(qps, BURST)
        self._scheduled: InTurns[Key] = InTurns()
        self._scheduled_at_least = TokenBucket(SCHEDULED_PER_SECOND, int(SCHEDULED_PER_SECOND))
        self._where: dict[Key, _Talk] = {}
        self._waiting: dict[Key, _Talk] = {}
        self._owned: InTurns[Key] = InTurns()
        self._warnings: dict[str, set[str]] = {}
        self._ready: InTurns[Key] = InTurns()
        self._later: DelayingQueue[Key] = DelayingQueue()
        self._last: Bounded[str, dict[str, _LastEvent]] = Bounded(REMEMBERED)
        self._tasks = Tasks()
        self._under_way: set[Key] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._paused_until = 0.0
        self._forbidden = Backoff(*_FORBIDDEN_PAUSES)
        self._stopped = False
        self._instance = socket.gethostname()
        self.sent = 0
        self.suppressed = 0
        self.dropped = 0

    @property
    def depth(self) -> int:
        """Return how many Events wait."""
        return len(self._scheduled) + len(self._waiting)

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of what is kept here."""
        return {
            "events.waiting": lambda: self.depth,
            "events.warnings": lambda: len(self._warnings),
            "events.due": lambda: len(self._ready) + self._later.weight,
            "events.said": lambda: len(self._last),
        }

    def record(self, event: RecordEvent) -> None:
        """Take an Event over, to be written."""
        talk = _Talk(event, _now_text(), _event_name(event.name))
        if event.reason == SCHEDULED and event.type == "Normal":
            self._schedule_event_of_binding(talk)
        else:
            self._queue_if_new(talk)
        self._pump()

    def _schedule_event_of_binding(self, talk: _Talk) -> None:
        key = talk.event.uid, talk.name
        self._where[key] = talk
        self._scheduled.put(talk.event.namespace, key)
        if len(self._scheduled) > LANE_LIMIT:
            first = self._scheduled.first_of_most()
            self._scheduled.drop(first)
            del self._where[first]
            self.dropped += 1

    def _queue_if_new(self, talk: _Talk) -> None:
        key = _key(talk.event)
        before = self._waiting.get(key)
        self._wait(key, talk)
        if before is None:
            talk.not_before = time.monotonic() + SETTLE_SECONDS
            self._route(key)
            return
        self.suppressed += 1
        talk.not_before = before.not_before
        if before.event.message == talk.event.message:
            talk.continues(before)

    def cancel(self, uid: str) -> None:
        """Drop the waiting refusals of an object: the pod is being bound, or it is gone."""
        for reason in self._warnings.pop(uid, ()):
            self._drop((uid, reason))
            self.suppressed += 1

    def forget(self, uid: str) -> None:
        """Forget an object that is gone, and tell nothing more about it."""
        self.cancel(uid)
        self._last.pop(uid, None)

    def _last_of(self, key: Key) -> _LastEvent | None:
        uid, reason = key
        return self._last.get(uid, {}).get(reason)

    def _wait(self, key: Key, talk: _Talk) -> None:
        """Let an Event wait; if too many do, drop one of the namespace with most."""
        self._waiting[key] = talk
        self._owned.put(talk.event.namespace, key)
        if talk.event.type == "Warning":
            self._warnings.setdefault(key[0], set()).add(key[1])
        if len(self._waiting) > WAITING_LIMIT:
            self._drop(self._owned.first_of_most())
            self.dropped += 1

    def _drop(self, key: Key) -> _Talk | None:
        """Take something out of all that wait."""
        self._ready.drop(key)
        self._owned.drop(key)
        self._later.drop(key)
        reasons = self._warnings.get(key[0], set())
        reasons.discard(key[1])
        if not reasons:
            self._warnings.pop(key[0], None)
        return self._waiting.pop(key, None)

    async def drain(self, timeout: float) -> None:  # noqa: ASYNC109 - what is left then is dropped, not an error
        """Send what is due, for at most `timeout` seconds, then nothing more."""
        deadline = time.monotonic() + timeout
        while self._has_due and time.monotonic() < deadline:  # noqa: ASYNC110 - polled once in a life
            await asyncio.sleep(0.02)
        self._stopped = True
        self.dropped += self.depth
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.stop()

    @property
    def _has_due(self) -> bool:
        return bool(self._ready or self._scheduled or self._under_way)

    # -- flow -----------------------------------------------------------------------------------------------------

    def _route(self, key: Key) -> None:
        """Put a waiting Event among those to write, or among those that wait for their time."""
        talk = self._waiting.get(key)
        if talk is None or key in self._under_way:
            return
        due = max(talk.not_before, self._due(key))
        if due <= time.monotonic():
            self._later.drop(key)
            self._ready.put(talk.event.namespace, key)
        else:
            self._ready.drop(key)
            self._later.put(key, due)

    def _due(self, key: Key) -> float:
        last = self._last_of(key)
        if last is None or time.monotonic() - last.at > QUIET_SECONDS:
            return 0.0
        return last.at + last.interval

    def _pump(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._stopped:
            return
        now = time.monotonic()
        for key in list(self._later.take(now)):
            self._route(key)
        behind_binds = self._binds_waiting() > 0
        while (self._ready or self._may_write_scheduled(behind_binds)) and self._may_send(behind_binds):
            self._start_next(behind_binds)
        if self.depth:
            due = self._later.next()
            wait = due - now if due is not None and not (self._ready or self._scheduled) else 0.1
            self._timer = asyncio.get_running_loop().call_later(max(0.01, wait), self._pump)

    def _may_send(self, behind_binds: bool) -> bool:
        """Take a token, if one more request may be under way and we have the right to write."""
        if len(self._under_way) >= (1 if behind_binds else IN_FLIGHT) or not self._fence.is_open:
            return False
        if time.monotonic() < self._paused_until:
            return False
        return self._bucket.take()

    def _may_write_scheduled(self, behind_binds: bool) -> bool:
        """True if the next Event is a `Scheduled` one: if no other waits, else some each second."""
        if not self._scheduled:
            return False
        return not (self._ready or behind_binds) or not self._scheduled_at_least.wait()

    def _start_next(self, behind_binds: bool) -> None:
        if self._may_write_scheduled(behind_binds):
            self._scheduled_at_least.take()
            key = self._scheduled.take()
            talk = self._where.pop(key, None)
        else:
            key = self._ready.take()
            talk = self._drop(key)
        if talk is None:
            return
        self._under_way.add(key)

        def ended(_: object) -> None:
            self._under_way.discard(key)
            self._route(key)
            self._pump()

        self._tasks.start(self._send(key, talk), "write of an Event").add_done_callback(ended)

    # -- sending --------------------------------------------------------------------------------------------------

    async def _send(self, key: Key, talk: _Talk) -> None:
        last = self._last_of(key)
        try:
            if last is not None and last.digest == _digest(talk.event.message):
                await self._count_up(key, last, talk)
            else:
                await self._create(key, talk)
        except FenceError:
            self.dropped += 1
        except ApiError as error:
            self._failed(key, talk, error)
        except Exception:
            self.dropped += 1
            _log.exception("an Event was not written, in an unforeseen way", object=talk.event.name)
        else:
            self.sent += 1
            self._forbidden.reset()

    async def _create(self, key: Key, talk: _Talk) -> None:
        namespace = talk.event.namespace or "default"
        path = f"/api/v1/namespaces/{path_segment(namespace)}/events"
        try:
            await self._request("POST", path, self._body(talk, namespace), JSON)
        except ApiError as error:
            if error.status != 409:
                raise
            await self._correct(f"{path}/{talk.name}", talk)
        if talk.event.reason != SCHEDULED:
            before = self._last_of(key)
            fresh = before is None or time.monotonic() - before.at > QUIET_SECONDS
            interval = FIRST_INTERVAL_SECONDS if before is None or fresh else before.interval * 2
            self._remember(key, f"{path}/{talk.name}", talk, talk.times, interval)

    async def _correct(self, path: str, talk: _Talk) -> None:
        """Correct the count of an Event that an earlier try made: the same may have been recorded again since."""
        if talk.times > 1:
            body = msgspec.json.encode({"count": talk.times, "lastTimestamp": talk.recorded_at})
            await self._request("PATCH", path, body, MERGE_PATCH)

    async def _count_up(self, key: Key, last: _LastEvent, talk: _Talk) -> None:
        count = last.count + talk.times
        body = msgspec.json.encode({"count": count, "lastTimestamp": talk.recorded_at})
        try:
            await self._request("PATCH", last.path, body, MERGE_PATCH)
        except ApiError as error:
            if error.status != 404:
                raise
            self._last.get(key[0], {}).pop(key[1], None)  # Events live an hour
            await self._create(key, talk)
            return
        self._remember(key, last.path, talk, count, last.interval * 2)

    def _remember(self, key: Key, path: str, talk: _Talk, count: int, interval: float) -> None:
        interval = min(interval, LONGEST_INTERVAL_SECONDS)
        uid, reason = key
        reasons = self._last.recall(uid)
        if reasons is None:
            reasons = self._last[uid] = {}
        reasons[reason] = _LastEvent(path, _digest(talk.event.message), count, time.monotonic(), interval)
        if len(reasons) > REMEMBERED_OF_ONE:
            del reasons[next(iter(reasons))]

    async def _request(self, method: str, path: str, body: bytes, content_type: str) -> None:
        within, fence = WRITE_TIMEOUT_SECONDS, self._fence
        await self._api.request(
            method, path, "events", body=body, content_type=content_type, within=within, fence=fence
        )

    def _failed(self, key: Key, talk: _Talk, error: ApiError) -> None:
        talk.attempts += 1
        is_forbidden = error.status == 403 and "terminat" not in error.message
        if is_forbidden:
            self._pause(error)
        is_scheduled = talk.event.reason == SCHEDULED
        if not (error.is_transient or is_forbidden) or (is_scheduled and talk.attempts >= _SCHEDULED_ATTEMPTS):
            self.dropped += 1
        elif is_scheduled:
            self._schedule_event_of_binding(talk)
        else:
            self._try_later(key, talk, error)

    def _try_later(self, key: Key, talk: _Talk, error: ApiError) -> None:
        """Let it wait; if a newer equal one waits already, that one stands for both."""
        newer = self._waiting.get(key)
        if newer is None:
            talk.not_before = time.monotonic() + max(talk.backoff.next(), error.retry_after or 0.0)
            self._wait(key, talk)
        elif newer.event.message == talk.event.message:
            newer.continues(talk)
            newer.not_before = time.monotonic() + max(newer.backoff.next(), error.retry_after or 0.0)

    def _pause(self, error: ApiError) -> None:
        """Write no Events for a while. They wait."""
        if self._forbidden.failures == 0:
            _log.warning("not allowed to write Events; going on without them", error=str(error))
        if time.monotonic() >= self._paused_until:
            self._paused_until = time.monotonic() + self._forbidden.next()

    def _body(self, talk: _Talk, namespace: str) -> bytes:
        recorded = talk.event
        involved = {
            "kind": recorded.kind,
            "apiVersion": recorded.api_version,
            "name": recorded.name,
            "uid": recorded.uid,
        }
        if recorded.namespace:
            involved["namespace"] = recorded.namespace
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": talk.name, "namespace": namespace},
            "involvedObject": involved,
            "type": recorded.type,
            "reason": recorded.reason,
            "message": truncated(visible_lines(recorded.message)),
            "action": recorded.action,
            "count": talk.times,
            "firstTimestamp": talk.recorded_at,
            "lastTimestamp": talk.recorded_at,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._instance,
        }
        return msgspec.json.encode(event)


def _key(recorded: RecordEvent) -> Key:
    about = recorded.reason
    if recorded.each:
        about += f" {_digest(recorded.message).hex()}"
    return recorded.uid or f"{recorded.kind}/{recorded.namespace}/{recorded.name}", about


def _event_name(name: str) -> str:
    """Return a name for an Event that begins with its object's and fits."""
    return f"{name[:_LONGEST_PREFIX].rstrip('.-')}.{uuid.uuid4().hex[:16]}"


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
