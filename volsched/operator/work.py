"""Which objects wait to be looked at: each once, by one worker at a time, again after growing pauses when it failed."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import structlog

from volsched.controllers.store import Key
from volsched.controllers.writes import COMMAND, GROUP, JOB, POD, QUEUE
from volsched.kube.backoff import Backoff
from volsched.kube.errors import ApiError, FenceError

FIRST_PAUSE_SECONDS: Final = 0.25
LONGEST_PAUSE_SECONDS: Final = 60.0

LONGEST_WAIT_SECONDS: Final = 24 * 3600.0
"""A key that is to wait longer, as users may ask for, is looked at in between."""

_FIRST: Final = (POD.name, QUEUE.name, COMMAND.name, JOB.name, GROUP.name)
"""Which kinds are looked at first: what was begun is finished before more is begun, and a burst delays no Queue."""

_log = structlog.get_logger(__name__)


class Pace:
    """How soon a key may be looked at again: `burst` times at once, then `per_second`; a token bucket for each key."""

    def __init__(self, burst: int, per_second: float, clock: Callable[[], float]) -> None:
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._tokens: dict[Key, tuple[float, float]] = {}

    def wait(self, key: Key) -> float:
        """Take a token and return 0, or return how many seconds the next one is away."""
        now = self._clock()
        tokens, at = self._tokens.get(key, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - at) * self._per_second)
        if tokens >= 1:
            self._tokens[key] = (tokens - 1, now)
            return 0.0
        self._tokens[key] = (tokens, now)
        return (1 - tokens) / self._per_second

    def __len__(self) -> int:
        return len(self._tokens)

    def forget(self, key: Key) -> None:
        """Forget a key that is no more."""
        self._tokens.pop(key, None)


class _Timer(NamedTuple):
    """When a key is due, on the loop's clock; the handle does not always say so: uvloop calls soon what is due now."""

    due: float
    handle: asyncio.Handle


class WorkQueue:
    """Keys by kind, in the order in which they came, and workers that take them while `is_active`.

    `work` looks at one key. When it raises ApiError the key comes back after a pause of its own; when it raises
    anything else, which is a fault of ours, `on_fault` is told, and the key comes back when its object changes. A key
    that comes while it is being worked on is worked on once more.
    """

    def __init__(
        self,
        work: Callable[[Key], Awaitable[None]],
        is_active: Callable[[], bool],
        on_fault: Callable[[Key, Exception], None],
    ) -> None:
        self._work = work
        self._on_fault = on_fault
        self._is_active = is_active
        self._waiting: dict[str, OrderedDict[Key, None]] = {kind: OrderedDict() for kind in _FIRST}
        self._under_way: set[Key] = set()
        self._again: set[Key] = set()
        self._timers: dict[Key, _Timer] = {}
        self._backoffs: dict[Key, Backoff] = {}
        self._bell = asyncio.Event()
        self.errors: Counter[str] = Counter()
        self.done: Counter[str] = Counter()

    def depth(self) -> Counter[str]:
        """Return how many keys of each kind wait."""
        return Counter({kind: len(waiting) for kind, waiting in self._waiting.items()})

    @property
    def size(self) -> int:
        """How many keys are kept: those that wait, for a worker or for their time, and those that failed."""
        waiting = sum(map(len, self._waiting.values()))
        return waiting + len(self._under_way) + len(self._timers) + len(self._backoffs)

    def add(self, key: Key) -> None:
        """Have a key looked at as soon as a worker is free."""
        if key in self._under_way:
            self._again.add(key)
            return
        self._waiting[key.kind][key] = None
        self._bell.set()

    def add_later(self, key: Key, seconds: float) -> None:
        """Have a key looked at after so many seconds, or sooner if something else asks for it."""
        known = self._timers.get(key)
        loop = asyncio.get_running_loop()
        wait = min(max(0.0, seconds), LONGEST_WAIT_SECONDS)
        due = loop.time() + wait
        if known is not None and known.due <= due:
            return
        if known is not None:
            known.handle.cancel()
        self._timers[key] = _Timer(due, loop.call_later(wait, self._due, key))

    def forget(self, key: Key) -> None:
        """Forget a key that is no more."""
        self._waiting[key.kind].pop(key, None)
        self._again.discard(key)
        self._backoffs.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.handle.cancel()

    def clear(self) -> None:
        """Forget everything that waits."""
        for waiting in self._waiting.values():
            waiting.clear()
        self._again.clear()
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()
        self._backoffs.clear()

    def wake(self) -> None:
        """Let workers look whether they may work now."""
        self._bell.set()

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def worker(self) -> None:
        """Work for ever; several may do so. Others have their turn between two keys, also if nothing is waited for."""
        while True:
            key = self._next()
            if key is None:
                self._bell.clear()
                await self._bell.wait()
                continue
            self._under_way.add(key)
            try:
                await self._look_at(key)
            finally:
                self._under_way.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)
            await asyncio.sleep(0)

    def _next(self) -> Key | None:
        if not self._is_active():
            return None
        for waiting in self._waiting.values():
            if waiting:
                return waiting.popitem(last=False)[0]
        return None

    async def _look_at(self, key: Key) -> None:
        try:
            await self._work(key)
        except FenceError:
            return
        except ApiError as error:
            self.errors[key.kind] += 1
            wait = self._backoffs.setdefault(key, Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)).next()
            wait = max(wait, error.retry_after or 0.0)
            _log.warning("a write failed", kind=key.kind, object=key.name, error=str(error), retry_in=round(wait, 2))
            self.add_later(key, wait)
        except Exception as error:
            self.errors[key.kind] += 1
            self._backoffs.pop(key, None)
            self._on_fault(key, error)
        else:
            self.done[key.kind] += 1
            self._backoffs.pop(key, None)
