"""Follows one kind of object: lists it, watches it, and reports changes, through all failures of the connection.

Client libraries get these cases wrong: an object that was deleted during an interruption is reported as gone after the
next list; a silent watch is closed after a while and resumed where it was; an expired version means listing again, not
stopping; an answer that is no JSON is a failure, not an event. Objects are decoded whole network chunks at a time, and
chunks are not kept.

The list comes as a stream of events if the server supports that (`sendInitialEvents`), so that neither side holds it in
memory; otherwise it comes in pages.

The informer is one class: a state machine of one connection, whose states share its cache and its version.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from volsched.kube.client.backoff import Backoff
from volsched.kube.client.rest import Api
from volsched.kube.errors import TOO_LARGE, ApiError
from volsched.kube.watch.decoding import KindReader, Unread, WatchEvent
from volsched.kube.watch.resources import Resource, Trim, trim_nothing
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put, Unreadable

SILENCE_SECONDS: Final = 75.0
"""The longest silence of a watch before it is closed: the server sends a bookmark every minute."""

BOOKMARK_SECONDS: Final = 60.0
BLIND_SECONDS: Final = 150.0
"""The longest time without news of a kind, not even a bookmark, before the known state counts as outdated."""

BYTES_AT_ONCE: Final = 1 << 17
"""Bytes of a watch that are taken in before others have their turn on the loop: some fifty pods, or one large object.

After a stall, megabytes of one kind may wait to be read.
"""

ITEMS_AT_ONCE: Final = 50
"""The same for a page of a list, as a number of objects."""

WATCH_SECONDS: Final = (300, 600)
"""Bounds of the random time after which the server ends a watch, so that watches spread over its replicas."""

PAGE: Final = 500
"""Objects in one page of a list."""

LONGEST_PAUSE_SECONDS: Final = 5.0
"""The time between two tries after failures.

It is short: a dozen watches do not burden the server, and an outage ends for us soon after it ends.
"""

MISSING_PAUSE_SECONDS: Final = 2.0
"""The time between two checks for a required kind that the server does not have yet."""

SHORT_WATCH_SECONDS: Final = 1.0
"""A watch that ended sooner than this without events counts as a failure, or the loop would run hot."""

FULL_PAUSE_SECONDS: Final = 0.01
CATCH_UP_SILENCE_SECONDS: Final = 5.0

_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

Sink = Callable[[Sequence[Change]], None]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a kind cannot be followed at present, and since when, in seconds since the epoch."""

    message: str
    since: float


class Informer:
    """Feeds a sink with the changes of one kind. Run `run` as a task; everything else may be read meanwhile.

    `listed` becomes True when the sink has everything that was there at one moment (or when the server does not have
    an optional kind) and stays so. `restarts` counts by reason how often a watch had to be begun again, `changes` what
    was handed to the sink. `trouble` is the reason while the kind cannot be followed. `is_full` is asked whether the
    sink cannot take more now. `trim` takes out of an object that was just decoded what is not to be kept. `on_trouble`
    is called with each failure that is tried again, and with None when the server answers after it.
    """

    def __init__(
        self,
        api_server: Api,
        resource: Resource,
        sink: Sink,
        *,
        silence: float = SILENCE_SECONDS,
        on_listed: Callable[[], None] = lambda: None,
        is_full: Callable[[], bool] = lambda: False,
        trim: Trim = trim_nothing,
    ) -> None:
        self.resource = resource
        self.listed = False
        self.absent = False
        self.restarts: Counter[str] = Counter()
        self.changes = 0
        self.trouble: Trouble | None = None
        self.on_trouble: Callable[[ApiError | None], None] = lambda _: None
        self._api = api_server
        self._sink = sink
        self._silence = silence
        self._on_listed = on_listed
        self._is_full = is_full
        self._trim = trim
        self._is_to_list = False
        self._reader = KindReader(resource)
        self._known: dict[str, str] = {}
        self._seen: set[str] | None = None
        self._version = ""
        self._in_pages = False
        self._backoff = Backoff(0.25, LONGEST_PAUSE_SECONDS)
        self._progress = 0
        self._heard_at = time.monotonic()
        self._reading: asyncio.Future[None] | None = None
        self._catching_up: asyncio.Future[None] | None = None

    @property
    def count(self) -> int:
        """Return how many objects are known."""
        return len(self._known)

    @property
    def unreadable(self) -> int:
        """Return how many objects could not be read."""
        return self._reader.unreadable

    @property
    def is_blind(self) -> bool:
        """True if there was no news of this kind for so long that the known state may be outdated."""
        return time.monotonic() - self._heard_at > BLIND_SECONDS

    @property
    def version(self) -> str:
        """Return the resource version up to which everything is known; empty before the first list."""
        return self._version

    # -- the loop -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """List and watch for ever; only cancelling ends it."""
        while True:
            began, before = _now(), self._progress
            try:
                await self._once()
                if self._progress == before and _now() - began < SHORT_WATCH_SECONDS:
                    raise ApiError(0, "Broken", "the watch ended at once")
            except ApiError as error:
                await self._recover(error, helped=self._progress > before)
            else:
                self._heard()
                self._backoff.reset()
                if self._version:
                    self.restarts["ended"] += 1

    def _heard(self) -> None:
        self._heard_at = time.monotonic()
        self._answered()

    async def catch_up(self) -> None:
        """Return once everything is known that had happened when this was called.

        The watch, which may lag or stall, is left for a short one that is read to its end.
        """
        if self.absent:
            return
        if self._catching_up is None:
            self._catching_up = asyncio.get_running_loop().create_future()
        if self._reading is not None and self._version:
            self._reading.cancel()
        await asyncio.shield(self._catching_up)

    def list_again(self) -> None:
        """Have everything that is there handed to the sink once more, soon."""
        if self._version and self._reading is not None:
            self._version, self._is_to_list = "", True
            self._reading.cancel()

    async def history_lost(self) -> str:
        """Return a problem if the newest version of the server is older than one we have seen; else nothing.

        That happens when the server's store was put back to an earlier state. A watch does not show it: the server
        waits until it has reached the version from which it is to go on, and is silent. Raises ApiError.
        """
        seen = self._version
        if not seen:
            return ""
        page = self._reader.page(await self._api.request("GET", self.resource.query(limit="1"), self.resource.plural))
        newest = page.metadata.resource_version
        if not newest or _is_newer(newest, seen) or newest == seen:
            return ""
        return f"the API server's newest version of {self.resource.plural} is {newest}, and {seen} was seen before"

    async def _once(self) -> None:
        """Read one watch to its end, after listing where that is due."""
        catching_up = self._catching_up
        if not self._version:
            work = self._list()
        elif catching_up is not None:
            work = self._read(self._watch_query(seconds=1), CATCH_UP_SILENCE_SECONDS)
        else:
            work = self._read(self._watch_query(seconds=random.randint(*WATCH_SECONDS)))  # noqa: S311 - not a secret
        self._reading = asyncio.ensure_future(work)
        try:
            await self._reading
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling() or (self._catching_up is None and not self._is_to_list):
                raise
            self._is_to_list = False
            self._progress += 1
            return
        finally:
            self._reading.cancel()
            self._reading = None
        if catching_up is not None and self._version:
            self._progress += 1
            self._caught_up()

    def _caught_up(self) -> None:
        waiting, self._catching_up = self._catching_up, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def _recover(self, error: ApiError, *, helped: bool) -> None:
        """Find out what a failure means, and wait as long as it asks for."""
        if helped:
            self._backoff.reset()
        if error.status == 410:
            self.restarts["expired"] += 1
            self._version = ""
            await asyncio.sleep(min(1.0, self._backoff.next()))
        elif error.status == 404 or (error.status == 403 and await self._is_absent()):
            await self._wait_for_kind()
        else:
            wait = max(self._backoff.next(), error.retry_after or 0.0)
            self.restarts[error.code] += 1
            self.trouble = Trouble(str(error), self.trouble.since if self.trouble else time.time())
            self._report_trouble(error, wait)
            self.on_trouble(error)
            await asyncio.sleep(wait)

    def _report_trouble(self, error: ApiError, wait: float) -> None:
        plural = self.resource.plural
        if error.status == 403:
            _log.error("not allowed to watch; see manifests/rbac", resource=plural, error=str(error), retry_in=wait)
        elif self._backoff.failures == 2 or self._backoff.failures % 10 == 0:
            _log.warning("watch failed", resource=plural, error=str(error), retry_in=round(wait, 2))

    def _answered(self) -> None:
        """The server answers: a trouble is over."""
        if self.trouble is not None:
            self.trouble = None
            self.on_trouble(None)

    async def _is_absent(self) -> bool:
        """True if an optional kind that we may not read does not exist anyway: the server checks rights first."""
        if not self.resource.optional:
            return False
        try:
            listed = await self._api.get(self.resource.discovery_path, "discovery")
        except ApiError as error:
            return error.status == 404
        return all(entry.get("name") != self.resource.plural for entry in listed.get("resources") or ())

    async def _wait_for_kind(self) -> None:
        """Go on without a kind that the server does not have (any more), or report that it is missing."""
        self._version = ""
        resource = self.resource
        if not self.absent:
            self._begin_list()
            self._end_list("")
            self._caught_up()
            if resource.optional:
                _log.info("the server does not have this kind; going on without", resource=resource.plural)
        if resource.optional:
            self._heard()
            self._set_listed()
        else:
            _log.warning(
                "waiting for a kind that the server does not have yet; apply manifests/crds",
                resource=resource.plural,
                group_version=resource.group_version,
            )
        await asyncio.sleep(resource.look_again if resource.optional else MISSING_PAUSE_SECONDS)

    # -- list -----------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        """List everything, as a stream if possible, and follow the stream if it goes on."""
        if self._in_pages:
            await self._list_pages()
            return
        self._begin_list()
        try:
            await self._read(self._watch_query(seconds=random.randint(*WATCH_SECONDS), initial=True))  # noqa: S311
            self._in_pages = self._seen is not None  # a server that ignores what it does not know
        except ApiError as error:
            if self._seen is None or not _is_refusal_to_stream(error):
                raise
            self._in_pages = error.status != 0
            _log.debug("the list does not come as a stream; using pages", resource=self.resource.plural)
            await self._list_pages()
        finally:
            self._seen = None

    async def _list_pages(self) -> None:
        self._begin_list()
        continued = ""
        while True:
            parameters = {"continue": continued} if continued else {}
            page = self._reader.page(await page_of(self._api, self.resource, **parameters))
            self._heard()
            items = page.items or ()
            for at in range(0, max(1, len(items)), ITEMS_AT_ONCE):
                self._emit(self._changes_of(items[at : at + ITEMS_AT_ONCE]))
                await self._let_others()
            continued = page.metadata.continue_
            if not continued:
                break
        self._end_list(page.metadata.resource_version)
        self._set_listed()

    def _changes_of(self, found: Sequence[api.ApiObject]) -> list[Change]:
        changes: list[Change] = []
        for item in found:
            self._put(item, changes)
        return changes

    def _begin_list(self) -> None:
        self._seen = set()

    def _end_list(self, version: str) -> None:
        """Everything that is known and was not in the list is gone."""
        seen, self._seen = self._seen or set(), None
        lost = [key for key in self._known if key not in seen]
        self._emit([self._forget(key) for key in lost])
        self._version = version
        self.absent = not version
        self._progress += 1
        if version and self._catching_up is not None and self._reading is not None:
            self._reading.cancel()

    def _set_listed(self) -> None:
        if not self.listed:
            self.listed = True
            self._on_listed()

    # -- watch ----------------------------------------------------------------------------------------------------

    def _watch_query(self, *, seconds: int, initial: bool = False) -> str:
        parameters = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        if initial:
            parameters |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            parameters["resourceVersion"] = self._version
        return self.resource.query(**parameters)

    async def _read(self, query: str, timeout: float | None = None) -> None:  # noqa: ASYNC109 - of the bytes, not of us
        """Read one watch to its end."""
        async with self._api.stream(query, self.resource.plural, timeout or self._silence) as read:
            self._answered()
            if self._silence < BOOKMARK_SECONDS:
                self._heard()  # it is left before a bookmark may come, so that it could be opened has to do
            rest = b""
            while chunk := await read():
                lines, newline, chunk_rest = chunk.rpartition(b"\n")
                if not newline:
                    rest += chunk
                    continue
                await self._take_some_at_a_time(rest + lines)
                rest = chunk_rest

    async def _take_some_at_a_time(self, lines: bytes) -> None:
        """Take in whole lines, and let other tasks run in between.

        A cancelled read leaves lines behind; the next watch begins after the last line that was taken in.
        """
        at = 0
        while at < len(lines):
            end = lines.find(b"\n", at + BYTES_AT_ONCE)
            end = len(lines) if end < 0 else end
            self._take(lines[at:end])
            at = end + 1
            await self._let_others()

    async def _let_others(self) -> None:
        """Give others their turn after some objects, and wait while the sink cannot take more."""
        await asyncio.sleep(0)
        while self._is_full():  # noqa: ASYNC110 - the other side is a thread
            await asyncio.sleep(FULL_PAUSE_SECONDS)

    def _take(self, lines: bytes) -> None:
        """Take in whole lines, and pass on their events even if one of them is an error."""
        self._heard()
        changes: list[Change] = []
        try:
            for event in self._reader.events(lines):
                self._on_event(event, changes)
        finally:
            self._emit(changes)

    def _on_event(self, event: WatchEvent[api.ApiObject], changes: list[Change]) -> None:
        found, version = event.object, event.object.metadata.resource_version
        if event.type == "BOOKMARK":
            self._on_bookmark(found, changes)
            return
        if self._seen is None and not _is_newer(version, self._version):
            return
        if event.type == "DELETED":
            if found.key in self._known:
                changes.append(self._forget(found.key))
        else:
            self._put(found, changes)
        if self._seen is None:
            self._version = version
            self._progress += 1

    def _on_bookmark(self, found: api.ApiObject, changes: list[Change]) -> None:
        version = found.metadata.resource_version
        if self._seen is None:
            if _is_newer(version, self._version):
                self._version = version
            self._progress += 1
        elif found.metadata.annotations.get(_INITIAL_EVENTS_END) == "true":
            self._emit(changes)
            changes.clear()
            self._end_list(version)
            self._set_listed()

    # -- changes --------------------------------------------------------------------------------------------------

    def _put(self, found: api.ApiObject, changes: list[Change]) -> None:
        key, uid = found.key, found.metadata.uid
        if not self.resource.keep(found):
            if key in self._known:
                changes.append(self._forget(key))
            return
        if self._known.get(key, uid) != uid:  # made again under the same name during a gap of the watch
            changes.append(self._forget(key))
        self._known[key] = uid
        if self._seen is not None:
            self._seen.add(key)
        self._trim(self.resource.kind, found)
        changes.append(self._unreadable(found) if isinstance(found, Unread) else Put(found))

    def _unreadable(self, found: Unread) -> Unreadable:
        meta, resource = found.metadata, self.resource
        whose = (resource.kind, resource.group_version, meta.namespace, meta.name, meta.uid)
        return Unreadable(*whose, found.field, found.message, found.node)

    def _forget(self, key: str) -> Deleted:
        namespace, _, name = key.rpartition("/")
        return Deleted(self.resource.kind, namespace, name, self._known.pop(key))

    def _emit(self, changes: list[Change]) -> None:
        """Pass on changes. A failure over one ends with that one."""
        if not changes:
            return
        self.changes += len(changes)
        try:
            self._sink(tuple(changes))
        except Exception:
            for change in changes:
                self._emit_one(change)

    def _emit_one(self, change: Change) -> None:
        try:
            self._sink((change,))
        except Exception:
            _log.exception("a change was not taken in, in an unforeseen way", resource=self.resource.plural)


async def page_of(server: Api, resource: Resource, **parameters: str) -> bytes:
    """Return a page of a list; of objects that are large it has fewer. Raises ApiError."""
    limit = PAGE
    while True:
        try:
            path = resource.query(limit=str(limit), **parameters)
            return await server.request("GET", path, resource.plural, verb="list")
        except ApiError as error:
            if error.reason != TOO_LARGE or limit == 1:
                raise
            limit = max(1, limit // 8)


def unlisted(informers: Sequence[Informer]) -> str:
    """Return which kinds were not listed yet, empty when all were."""
    missing = [informer.resource.plural for informer in informers if not informer.listed]
    if missing or not informers:
        return f"not listed yet: {', '.join(dict.fromkeys(missing)) or 'anything'}"
    return ""


def unheard(informers: Sequence[Informer]) -> str:
    """Return the kinds without news for long, empty if there are none."""
    blind = [informer.resource.plural for informer in informers if informer.is_blind]
    return f"nothing heard for {BLIND_SECONDS:g}s: {', '.join(dict.fromkeys(blind))}" if blind else ""


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_newer(version: str, than: str) -> bool:
    """True if an event is news. Versions of one kind are comparable numbers, and other versions count as news."""
    try:
        return int(version) > int(than)
    except ValueError:
        return True


def _is_refusal_to_stream(error: ApiError) -> bool:
    """True if a server does not support `sendInitialEvents`."""
    return error.status in (400, 422) or error.reason == "Timeout"
