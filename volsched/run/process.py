"""The common parts of long-running verbs: an event loop, signals, tasks, a lease, and an orderly end.

How a process ends:

* SIGTERM or SIGINT: in good order, the lease is given back, all of it within `END_SECONDS`; status 0.
* The lease is lost or could not be renewed in time: no further write begins; a plain message; status 1.
* A task of the program dies, or ends although it should not: a message that names it; status 1.
* The configuration, a flag or an address is wrong at the start: status 2.
* Anything unforeseen: status 1.
* The API server's store was put back to an earlier state: all known objects may be wrong. Everything starts again
  inside the same process, as after a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from volsched import logs
from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError, CredentialsError, KubeSetupError
from volsched.kube.fence import Fence
from volsched.kube.lead.elector import LeaseSettings, Predecessor
from volsched.kube.lead.lease_thread import Candidate, LeaseThread
from volsched.kube.serve.loop_lag import LoopLagMonitor
from volsched.kube.tasks import Tasks
from volsched.kube.watch.informer import Informer
from volsched.mirror.memory_bound import MemoryUse
from volsched.model.errors import ConfigError
from volsched.model.values.bounded import Tables
from volsched.run import memory

STOPPED, FAILED, MISUSED = 0, 1, 2
"""Exit statuses."""

_ANEW: Final = -1
"""In place of an exit status: begin again, knowing nothing."""

HISTORY_SECONDS: Final = 15.0
"""The time between two checks whether the API server's store was put back; one small request."""

END_SECONDS: Final = 25.0
"""The time from the signal to the end. The Deployments give a process 30 s before they kill it."""

LAST_SECONDS: Final = 7.0
"""The part of it for the last steps: giving the lease back, closing servers and connections."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _End:
    """The reason for the end of the program."""

    status: int
    message: str


LOOK_AGAIN_SECONDS: Final = 30.0
"""The time between two checks whether there is room for refused objects."""


async def look_again(memory_use: MemoryUse, informers: Sequence[Informer]) -> None:
    """List kinds again whose objects were refused for lack of memory, when there is room. Never ends."""
    while True:
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        if memory_use.has_room_again:
            kinds = memory_use.kinds_refused()
            for informer in informers:
                if not kinds.isdisjoint((informer.resource.kind, informer.resource.struct.__name__)):
                    informer.list_again()


class Process(ABC):
    """One run of a verb against one cluster: `await process.run()` returns the exit status.

    `_cleanup` undoes the steps of `_start`, the latest first.
    """

    def __init__(self, *, leader_elect: bool) -> None:
        self._fence = Fence() if leader_elect else Fence.always_open()
        self._cleanup = contextlib.AsyncExitStack()
        self._tasks = Tasks(lambda what, error: self._finish(FAILED, f"{what} failed: {error}"))
        self._tables = Tables()
        self._loop_lag = LoopLagMonitor()
        self._is_clean_end = True
        self._is_hasty_end = False
        self._ends_at = math.inf
        self._lease: LeaseThread | None = None
        self._end: asyncio.Future[_End]

    @abstractmethod
    async def _start(self) -> None:
        """Begin everything. Raises ConfigError, CredentialsError or KubeSetupError when that cannot be."""

    async def run(self) -> int:
        """Run until a signal, a lost lease or a failure. Return the exit status."""
        self._end = asyncio.get_running_loop().create_future()
        self._handle_signals()
        asyncio.get_running_loop().set_exception_handler(_log_unforeseen)
        self._spawn(self._loop_lag.beat(), "pulse")
        self._spawn(memory.give_back(), "memory")
        try:
            await self._start()
        except (ConfigError, CredentialsError, KubeSetupError) as error:
            _log.error("cannot start", error=str(error))
            self._finish(MISUSED, "")
        end = await self._end
        await self._shut_down(end)
        return end.status

    # -- leading --------------------------------------------------------------------------------------------------

    def _lead(self, source: Source, lease: LeaseSettings, begin: Callable[[Predecessor], Awaitable[None]]) -> None:
        """Wait for leadership, then call `begin` with the former leader. The process ends with leadership."""
        program = Candidate(self._loop_lag.problem, self._lease_metadata, self._lead_no_more)
        thread = self._lease = LeaseThread(source, lease, self._fence, program)
        thread.start()

        async def lead() -> None:
            await begin(await thread.acquired())

        self._spawn(lead(), "leading", ends=True)

    def _lease_metadata(self) -> Mapping[str, Mapping[str, str]]:
        """Return labels and annotations of the Lease that describe the process; none by default.

        Called on the thread of the lease.
        """
        return {}

    def _lead_no_more(self, reason: str) -> None:
        """Note that the lease is lost, and the fence closed; called on the thread of the lease."""
        self._finish_from_thread(FAILED, f"{reason}; nothing more is written")

    async def _end_lease(self) -> None:
        if self._lease is not None:
            await self._lease.end(release=self._is_clean_end)

    def _apis(self, api: Api) -> list[Api]:
        """Return all that ask the API server, for their numbers."""
        return [api, *([self._lease.api] if self._lease is not None and self._lease.api is not None else ())]

    # -- tasks and the end ----------------------------------------------------------------------------------------

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._finish, STOPPED, f"stopped by {number.name}")
        loop.add_signal_handler(signal.SIGUSR1, _change_log_level)

    def _finish(self, status: int, message: str) -> None:
        if not self._end.done():
            self._end.set_result(_End(status, message))

    def _finish_from_thread(self, status: int, message: str) -> None:
        """End the program; may be called on any thread."""
        self._call_from_thread(self._finish, status, message)

    def _call_from_thread(self, call: Callable[..., object], *arguments: object) -> None:
        """Call something on the loop, from any thread, unless the program has ended."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._end.get_loop().call_soon_threadsafe(call, *arguments)

    def _spawn(self, work: Coroutine[Any, Any, None], what: str, *, ends: bool = False) -> None:
        """Run a task beside everything else; if it fails, or ends although it should not, the program ends."""
        self._tasks.start(work, what, ends=ends)

    def _follow_history_of(self, informers: Sequence[Informer]) -> None:
        """Read pods: some always change, so their version shows an earlier state."""
        pods = next(each for each in informers if each.resource.kind == "Pod")
        self._spawn(self._follow_history(pods), "history of the store")

    async def _follow_history(self, informer: Informer) -> None:
        """Begin everything again once the API server's store was put back to an earlier state."""
        while True:
            await asyncio.sleep(HISTORY_SECONDS)
            with contextlib.suppress(ApiError):
                lost = await informer.history_lost()
                if lost:
                    self._finish(_ANEW, f"{lost}: its store was put back; everything is listed anew")

    async def _interruptible(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for a result, or for the end of the program if that comes first. Raises the exception of either."""
        task = asyncio.get_running_loop().create_task(work)
        awaited: set[asyncio.Future[Any]] = {task, self._end}
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            return
        await task

    async def _cancel_tasks(self) -> None:
        await self._tasks.stop()

    @property
    def _time_left(self) -> float:
        """Return how many seconds the end may still take so that its last steps have theirs."""
        return max(0.0, self._ends_at - LAST_SECONDS - time.monotonic())

    async def _shut_down(self, end: _End) -> None:
        """Stop deciding, finish or drop what was decided, give the lease back, close everything."""
        self._ends_at = time.monotonic() + END_SECONDS
        if end.message:
            (_log.info if end.status == STOPPED else _log.error)(end.message)
        self._is_clean_end = end.status == STOPPED
        self._is_hasty_end = end.status not in (STOPPED, _ANEW)
        if not self._is_clean_end:
            self._fence.close()
        await self._cleanup.aclose()
        await self._tasks.stop()


def run_process(make: Callable[[], Process]) -> int:
    """Make a process and run it until it ends, a new one whenever everything starts again. Return the exit status."""
    status = _run_once(make)
    while status == _ANEW:
        gc.unfreeze()
        gc.collect()
        status = _run_once(make)
    return status


def _run_once(make: Callable[[], Process]) -> int:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(make().run())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Use uvloop where it is installed. It makes requests cheaper."""
    try:
        import uvloop  # noqa: PLC0415 - only there on some platforms
    except ImportError:
        return None
    return uvloop.new_event_loop  # type: ignore[no-any-return,unused-ignore]


def _log_unforeseen(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log a failure that no code waits for, as in a callback, without its values."""
    message, error = str(context.get("message")), context.get("exception")
    if _is_cut_off(message, error):
        _log.info("a connection was cut off while it was read")
    else:
        _log.error("unforeseen on the event loop", said=message, exc_info=error)


def _is_cut_off(message: str, error: BaseException | None) -> bool:
    """True if uvloop answers the last bytes of a connection that is closed: the request fails by itself.

    uvloop reports other ends of connections to the request alone, as these are OSErrors.
    """
    return "SSL protocol" in message and isinstance(error, RuntimeError) and "handler is closed" in str(error)


def _change_log_level() -> None:
    level = "info" if logs.level_name() == "debug" else "debug"
    logs.set_level(level)
    _log.info("log level changed", level=level)
