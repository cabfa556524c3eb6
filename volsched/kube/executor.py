"""Carries out what sessions decide: steps come from the scheduling thread and go into lanes on the I/O loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence

from volsched.kube.binder import IN_FLIGHT, Binder
from volsched.kube.client import Api
from volsched.kube.events import Events
from volsched.kube.fence import Fence
from volsched.kube.preparations import Preparations
from volsched.kube.resource_claims import ResourceClaims
from volsched.kube.statuses import Statuses
from volsched.kube.views import Views
from volsched.kube.volumes import Volumes
from volsched.model.changes import Change
from volsched.model.plan import (
    Bind,
    Evict,
    LiftGate,
    ReleaseClaim,
    Step,
    Tell,
    WriteGroupStatus,
    WritePodCondition,
    WriteQueueStatus,
)


class ClusterExecutor:
    """An `Executor` that writes to the API server. Made on the I/O loop; `execute` may be called from any thread.

    Bindings and evictions come first, statuses and Events when there is time. What came of them reaches the mirror
    through `report`.
    """

    def __init__(
        self,
        api: Api,
        fence: Fence,
        views: Views,
        report: Callable[[Change], None],
        *,
        in_flight: int = IN_FLIGHT,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._incoming: deque[Sequence[Step]] = deque()
        self._called = False
        self.events = Events(api, fence, lambda: self.binder.waiting)
        self.statuses = Statuses(api, fence, views, report, lambda: self.binder.waiting)
        self.claims = ResourceClaims(api, fence, views, report, self._take)
        self.volumes = Volumes(api, fence, views)
        self.binder = Binder(
            api,
            fence,
            views,
            report,
            self._take,
            self.statuses.under_way,
            prebinder=Preparations(self.claims, self.volumes),
            in_flight=in_flight,
        )

    @property
    def backlog(self) -> int:
        """How many bindings and evictions are not done yet; may be read from any thread."""
        return self.binder.backlog + sum(map(len, tuple(self._incoming)))

    def execute(self, steps: Sequence[Step]) -> None:
        """Take steps over for execution, without waiting for them."""
        if not steps:
            return
        self._incoming.append(steps)
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
                self._loop.call_soon_threadsafe(self._sort)

    def forget(self, uid: str) -> None:
        """Forget everything about an object that is no longer there."""
        self.binder.forget_pod(uid)
        self.statuses.forget(uid)
        self.events.cancel(uid)

    async def drain(self, timeout: float) -> bool:  # noqa: ASYNC109 - what is left then is dropped, not an error
        """Finish the bindings that were decided, at most `timeout` seconds, and stop; tell whether all were made."""
        self._sort()
        finished = await self.binder.drain(timeout)
        await self.binder.stop()
        await self.claims.stop()
        await self.statuses.stop()
        await self.events.drain(1.0)
        return finished

    async def stop(self) -> None:
        """Stop at once: the right to write is lost."""
        await self.binder.stop()
        await self.claims.stop()
        await self.statuses.stop()
        await self.events.drain(0.0)

    def _sort(self) -> None:
        self._called = False
        while self._incoming:
            for step in self._incoming.popleft():
                self._take(step)

    def _take(self, step: Step) -> None:
        match step:
            case Bind():
                self.statuses.cancel(step.uid)
                self.events.cancel(step.uid)
                self.binder.add(step)
            case Evict() | LiftGate():
                self.binder.add(step)
            case ReleaseClaim():
                self.claims.release(step)
            case WriteGroupStatus() | WriteQueueStatus() | WritePodCondition():
                self.statuses.add(step)
            case Tell():
                self.events.tell(step)
