"""What every long-running verb has: an event loop, signals, tasks that must not fail, a lease, and an orderly end.

How a process ends:

* SIGTERM or SIGINT: in good order, the lease is given back; status 0.
* The lease is lost or could not be renewed in time: nothing more is written; a plain message; status 1.
* The configuration, a flag or an address is wrong at the start: status 2.
* Anything unforeseen: status 1.
* The API server's store was put back to an earlier state: nothing that is known can be believed. Everything is begun
  anew inside the same process, as after a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog

from volsched import logs
from volsched.kube.client import Api
from volsched.kube.elector import Elector, LeaseSettings
from volsched.kube.errors import ApiError, CredentialsError, KubeSetupError
from volsched.kube.fence import Fence
from volsched.kube.informer import Informer
from volsched.model.errors import ConfigError

STOPPED, FAILED, MISUSED = 0, 1, 2
"""Exit statuses."""

_ANEW: Final = -1
"""In place of an exit status: begin again, knowing nothing."""

HISTORY_SECONDS: Final = 15.0
"""How often it is asked whether the API server's store was put back; one small request."""

_log = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class _End:
    """Why the program ends."""

    status: int
    message: str


class Process(ABC):
    """One run of a verb against one cluster: `await process.run()` gives the exit status.

    What `_start` begins is undone by `_cleanup`, the latest first.
    """

    def __init__(self, *, leader_elect: bool) -> None:
        self._fence = Fence() if leader_elect else Fence.always_open()
        self._cleanup = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_clean_end = True
        self._is_hasty_end = False
        self._elector: Elector | None = None
        self._end: asyncio.Future[_End]

    @abstractmethod
    async def _start(self) -> None:
        """Begin everything; raises ConfigError, CredentialsError or KubeSetupError when that cannot be."""

    async def run(self) -> int:
        """Run until a signal, a lost lease or a failure; return the exit status."""
        self._end = asyncio.get_running_loop().create_future()
        self._handle_signals()
        try:
            await self._start()
        except (ConfigError, CredentialsError, KubeSetupError) as error:
            _log.error("cannot start", error=str(error))
            self._finish(MISUSED, "")
        end = await self._end
        await self._shut_down(end)
        return end.status

    # -- leading --------------------------------------------------------------------------------------------------

    async def _lead(self, api: Api, lease: LeaseSettings, begin: Callable[[Elector], Awaitable[None]]) -> None:
        """Become the leader, `begin`, and lead until that is over, which ends the process."""
        elector = self._elector = Elector(api, lease, self._fence, says=self._says_of_itself)
        await elector.acquire()
        await begin(elector)
        reason = await elector.keep()
        self._finish(FAILED, f"lost the lease: {reason}; nothing more is written")

    def _says_of_itself(self) -> Mapping[str, Mapping[str, str]]:
        """Labels and annotations of the Lease by which others find the process and what it does; none by default."""
        return {}

    async def _release(self) -> None:
        if self._elector is not None and self._is_clean_end:
            await self._elector.release()

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
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended already
            self._end.get_loop().call_soon_threadsafe(self._finish, status, message)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something beside everything else; if it fails, the program ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)

        def ended(done: asyncio.Task[T]) -> None:
            if not done.cancelled() and (error := done.exception()) is not None:
                _log.error("a part of the program failed", exc_info=error)
                self._finish(FAILED, f"failed: {error}")

        task.add_done_callback(ended)
        return task

    def _mind_history_of(self, informers: Sequence[Informer]) -> None:
        """Ask for pods: there are always some that change, so an earlier state is told by their version."""
        self._spawn(self._mind_history(next(each for each in informers if each.resource.kind == "Pod")))

    async def _mind_history(self, informer: Informer) -> None:
        """Begin everything anew once the API server's store was put back to an earlier state."""
        while True:
            await asyncio.sleep(HISTORY_SECONDS)
            with contextlib.suppress(ApiError):
                lost = await informer.history_lost()
                if lost:
                    self._finish(_ANEW, f"{lost}: its store was put back; everything is listed anew")

    async def _interruptible(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for something, or for the end of the program if that comes first."""
        task = asyncio.ensure_future(work)
        awaited: set[asyncio.Future[Any]] = {task, self._end}
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            return
        await task

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _shut_down(self, end: _End) -> None:
        """Stop deciding, finish or drop what was decided, give the lease back, close everything."""
        if end.message:
            (_log.info if end.status == STOPPED else _log.error)(end.message)
        self._is_clean_end = end.status == STOPPED
        self._is_hasty_end = end.status not in (STOPPED, _ANEW)
        if not self._is_clean_end:
            self._fence.close()
        await self._cleanup.aclose()


def run_process(make: Callable[[], Process]) -> int:
    """Make a process and run it until it ends, a new one whenever all is to begin anew; return the exit status."""
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
    """Use uvloop where it is installed; it makes requests cheaper."""
    try:
        import uvloop  # noqa: PLC0415 - only there on some platforms
    except ImportError:
        return None
    return uvloop.new_event_loop  # type: ignore[no-any-return,unused-ignore]


def _change_log_level() -> None:
    level = "info" if logs.level_name() == "debug" else "debug"
    logs.set_level(level)
    _log.info("log level changed", level=level)
