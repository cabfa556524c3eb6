"""The elector on a thread with an event loop and connections of its own.

Users decide how long the program's own loop is busy: with a list, a review, a large Job. None of that may cost the
Lease. So nothing runs here but its renewal, and the fence closes by itself if that fails.

A program that is stuck must not hold the Lease for ever either: it is asked before each renewal.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.fence import Fence
from volsched.kube.lead.elector import Elector, LeaseSettings, Predecessor
from volsched.kube.tasks import Tasks

END_SECONDS: Final = 4.0
"""The time limit of the end, giving the Lease back included. A slower thread ends with the process."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """The program that is to lead; all of this is called on the thread of the lease.

    `stuck` returns why it cannot lead any more, empty while it is well; `lease_metadata` is further metadata of the
    Lease (`Elector`); `ended` is called with the reason when leading is over and the fence is closed.
    """

    stuck: Callable[[], str]
    lease_metadata: Callable[[], Mapping[str, Mapping[str, str]]]
    ended: Callable[[str], None]


class LeaseThread:
    """Has a program lead. Made and asked on the program's loop.

    `api` is what it asks the API server with, for its numbers; None until it has begun.
    """

    def __init__(
        self,
        source: Source,
        settings: LeaseSettings,
        fence: Fence,
        candidate: Candidate,
    ) -> None:
        self.api: Api | None = None
        self._source = source
        self._settings = settings
        self._fence = fence
        self._candidate = candidate
        self._elector: Elector | None = None
        self._releases = False
        self._home = asyncio.get_running_loop()
        self._acquired: asyncio.Future[Predecessor] = self._home.create_future()
        self._ending = threading.Event()
        self._own: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def lease_uid(self) -> str:
        """Return the uid of the Lease while we hold it, else empty."""
        return self._elector.lease_uid if self._elector is not None else ""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    async def acquired(self) -> Predecessor:
        """Return who held the lease before, once this process holds it."""
        return await self._acquired

    async def end(self, *, release: bool) -> None:
        """Stop, and give the lease back first if asked to. Ask for that only when every write is over."""
        if release:
            self._fence.close()
        self._releases = release
        self._ending.set()
        if self._own is not None:
            loop, asked = self._own
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended already
                loop.call_soon_threadsafe(asked.set)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, END_SECONDS)

    # -- on the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:
            self._fence.close()
            _log.exception("the thread of the lease failed")
            self._candidate.ended(f"the thread of the lease failed: {error}")

    async def _live(self) -> None:
        asked = asyncio.Event()
        self._own = (asyncio.get_running_loop(), asked)
        if self._ending.is_set():
            return
        self.api = await Api.connect(self._source)
        candidate = self._candidate
        elector = self._elector = Elector(
            self.api, self._settings, self._fence, stuck=candidate.stuck, lease_metadata=candidate.lease_metadata
        )
        tasks = Tasks(lambda _, error: self._over(f"the elector failed: {error}"))
        try:
            tasks.start(self._lead(elector), "elector")
            await asked.wait()
            await tasks.stop()
            if self._releases:
                await elector.release()
        finally:
            await self.api.close()

    async def _lead(self, elector: Elector) -> None:
        await elector.acquire()
        with contextlib.suppress(RuntimeError):  # the loop is closed: the program has ended
            self._home.call_soon_threadsafe(self._report_acquired, elector.predecessor)
        self._over(f"lost the lease: {await elector.keep()}")

    def _over(self, reason: str) -> None:
        self._fence.close()
        self._candidate.ended(reason)

    def _report_acquired(self, previous: Predecessor) -> None:
        if not self._acquired.done():
            self._acquired.set_result(previous)
