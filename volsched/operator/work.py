"""The queue of objects to look at: each once, by one worker at a time, again after growing pauses if it failed.

Namespaces take turns, and none has all workers: thousands of objects of one team do not delay those of another. All
workers together have a share of each round of the loop: a round with many slow looks would delay every answer.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import structlog

from volsched.controllers.store import Key
from volsched.controllers.writes import COMMAND, GROUP, JOB, POD, QUEUE
from volsched.kube.client.backoff import Backoff
from volsched.kube.errors import ApiError, FenceError

FIRST_PAUSE_SECONDS: Final = 0.25
LONGEST_PAUSE_SECONDS: Final = 60.0

LONGEST_WAIT_SECONDS: Final = 24 * 3600.0
"""The longest wait of a key without a look, as users may ask for longer ones."""

_FIRST: Final = (POD.name, QUEUE.name, COMMAND.name, JOB.name, GROUP.name)
"""The kinds of a namespace that are looked at first: work that was begun is finished first."""

_KEPT_FREE: Final = 4
"""One worker in so many stays free of a namespace that has all others: its writes may be slow ones."""

ROUND_SECONDS: Final = 0.005
"""How long workers begin looks in one round of the loop; the last one may take longer."""

_log = structlog.get_logger(__name__)


class RateLimit:
    """The rate of looks at a key: `burst` at once, then `per_second`; a token bucket for each key."""

    def __init__(self, burst: int, per_second: float, clock: Callable[[], float]) -> None:
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._tokens: dict[Key, tuple[float, float]] = {}

    def wait(self, key: Key, tokens: int = 1) -> float:
        """Take tokens and return 0, or return how many seconds the next one is away; one is enough to begin."""
        now = self._clock()
        left, at = self._tokens.get(key, (float(self._burst), now))
        left = min(float(self._burst), left + (now - at) * self._per_second)
        if left >= 1:
            self._tokens[key] = (left - tokens, now)
            return 0.0
        self._tokens[key] = (left, now)
        return (1 - left) / self._per_second

    def __len__(self) -> int:
        return len(self._tokens)

    def forget(self, key: Key) -> None:
        """Forget a key that is no more."""
        self._tokens.pop(key, None)


class _Timer(NamedTuple):
    """When a key is due, on the loop's clock. The handle does not always tell: uvloop calls soon if it is due now."""

    due: float
    handle: asyncio.Handle


class _Round:
    """The workers' share of the present round of the loop: it is over once `ROUND_SECONDS` are."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends: float | None = None

    def is_over(self) -> bool:
        """True if no worker should begin a look before the next round; the first one of a round always may."""
        if self._ends is None:
            self._ends = self._clock() + ROUND_SECONDS
            asyncio.get_running_loop().call_soon(self._end)
            return False
        return self._clock() >= self._ends

    def _end(self) -> None:
        self._ends = None


class _FairQueue:
    """Keys that wait. Namespaces take turns; in each, kinds go in their order, and the keys of one as they came."""

    def __init__(self) -> None:
        self._by_namespace: OrderedDict[str, dict[str, OrderedDict[Key, None]]] = OrderedDict()
        self._namespaces: dict[Key, str] = {}
        self.depth: Counter[str] = Counter(dict.fromkeys(_FIRST, 0))

    def __len__(self) -> int:
        return len(self._namespaces)

    def add(self, key: Key, namespace: str) -> None:
        """Let a key wait. One that waits already keeps its place."""
        if key in self._namespaces:
            return
        self._namespaces[key] = namespace
        self.depth[key.kind] += 1
        kinds = self._by_namespace.setdefault(namespace, {kind: OrderedDict() for kind in _FIRST})
        kinds[key.kind][key] = None

    def pop(self, may_have: Callable[[str], bool]) -> Key | None:
        """Take the next key of a namespace that may have a worker; None when there is none."""
        namespace = next(filter(may_have, self._by_namespace), None)
        if namespace is None:
            return None
        keys = next(filter(None, self._by_namespace[namespace].values()))
        key = next(iter(keys))
        self._by_namespace.move_to_end(namespace)
        self.drop(key)
        return key

    def drop(self, key: Key) -> None:
        """Let a key wait no longer."""
        namespace = self._namespaces.pop(key, None)
        if namespace is None:
            return
        self.depth[key.kind] -= 1
        kinds = self._by_namespace[namespace]
        del kinds[key.kind][key]
        if not any(kinds.values()):
            del self._by_namespace[namespace]

    def clear(self) -> None:
        """Let nothing wait."""
        for key in list(self._namespaces):
            self.drop(key)


class WorkQueue:
    """Waiting keys, and workers that take them while `is_active`. `namespace_of` returns the namespace of a key's turn.

    `work` looks at one key. If it raises ApiError the key comes back after a pause of its own. If it raises another
    error, a fault of ours, `on_fault` is called, and the key comes back when its object changes. A key that comes
    during its work is worked on once more.
    """

    def __init__(
        self,
        work: Callable[[Key], Awaitable[None]],
        is_active: Callable[[], bool],
        on_fault: Callable[[Key, Exception], None],
        namespace_of: Callable[[Key], str],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._work = work
        self._round = _Round(clock)
        self._namespace_of = namespace_of
        self._on_fault = on_fault
        self._is_active = is_active
        self._waiting = _FairQueue()
        self._workers = 0
        self._under_way: dict[Key, str] = {}
        self._busy: Counter[str] = Counter()
        self._again: set[Key] = set()
        self._timers: dict[Key, _Timer] = {}
        self._backoffs: dict[Key, Backoff] = {}
        self._wake_event = asyncio.Event()
        self.errors: Counter[str] = Counter()
        self.done: Counter[str] = Counter()

    def depth(self) -> Counter[str]:
        """Return how many keys of each kind wait."""
        return self._waiting.depth.copy()

    @property
    def size(self) -> int:
        """Return how many keys are kept: those that wait, for a worker or for their time, and those that failed."""
        return len(self._waiting) + len(self._under_way) + len(self._timers) + len(self._backoffs)

    def add(self, key: Key) -> None:
        """Have a key looked at as soon as a worker is free."""
        if key in self._under_way:
            self._again.add(key)
            return
        self._waiting.add(key, self._namespace_of(key))
        self._wake_event.set()

    def add_later(self, key: Key, seconds: float) -> None:
        """Look at a key after so many seconds, or sooner on another request."""
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
        self._waiting.drop(key)
        self._again.discard(key)
        self._backoffs.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.handle.cancel()

    def clear(self) -> None:
        """Forget everything that waits."""
        self._waiting.clear()
        self._again.clear()
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()
        self._backoffs.clear()

    def wake(self) -> None:
        """Let workers look whether they may work now."""
        self._wake_event.set()

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def worker(self) -> None:
        """Work for ever. Several may do so. Others have their turn between two keys, also if nothing is waited for.

        A namespace that had as many workers as it may needs no wake-up: the worker that ends a look takes its next key.
        """
        self._workers += 1
        try:
            while True:
                if self._waiting and self._round.is_over():
                    await asyncio.sleep(0)
                    continue
                key = self._next()
                if key is None:
                    self._wake_event.clear()
                    await self._wake_event.wait()
                    continue
                await self._take(key)
                await asyncio.sleep(0)
        finally:
            self._workers -= 1

    async def _take(self, key: Key) -> None:
        namespace = self._namespace_of(key)
        self._under_way[key] = namespace
        self._busy[namespace] += 1
        try:
            await self._look_at(key)
        finally:
            self._release(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    def _next(self) -> Key | None:
        return self._waiting.pop(self._may_have_a_worker) if self._is_active() else None

    def _may_have_a_worker(self, namespace: str) -> bool:
        return self._busy[namespace] < max(1, self._workers - self._workers // _KEPT_FREE)

    def _release(self, key: Key) -> None:
        namespace = self._under_way.pop(key)
        self._busy[namespace] -= 1
        if not self._busy[namespace]:
            del self._busy[namespace]

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
