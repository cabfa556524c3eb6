"""Carries out the steps of sessions, in lanes on the I/O loop.

Bindings and evictions go into their lane at once. Statuses and Events may be tens of thousands after one session; they
go into their lanes some at a time, and the loop does other work in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeGuard

import structlog

from volsched.kube.client.rest import Api
from volsched.kube.fence import Fence
from volsched.kube.write.events import Events
from volsched.kube.write.pod_writer import IN_FLIGHT, PodWriter, Preparations
from volsched.kube.write.resource_claims import ResourceClaims
from volsched.kube.write.statuses import Statuses
from volsched.kube.write.views import Views
from volsched.kube.write.volumes import Volumes
from volsched.model.changes import BindFailed, Change
from volsched.model.plan import (
    Bind,
    Evict,
    LiftGate,
    PlanStep,
    RecordEvent,
    ReleaseClaim,
    WriteGroupStatus,
    WriteNativeStatus,
    WritePodCondition,
    WriteQueueStatus,
)
from volsched.model.values.bounded import Size

AT_ONCE: Final = 500
"""Statuses and Events that are taken over before other work of the loop has its turn."""

EVENTS_SECONDS: Final = 1.0
"""The time for Events at the end."""

_log = structlog.get_logger(__name__)


class ClusterExecutor:
    """An `Executor` that writes to the API server. Made on the I/O loop; `execute` may be called from any thread.

    Bindings and evictions come first, statuses and Events when there is time. Results reach the mirror through
    `report`.
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
        self._number = 0
        self._urgent: deque[tuple[int, PlanStep]] = deque()
        self._others: deque[tuple[int, PlanStep]] = deque()
        self._bound: dict[str, int] = {}
        self._called = False
        self._report = report
        self._stopped = False
        self.events = Events(api, fence, lambda: self.pod_writer.waiting)
        self.statuses = Statuses(api, fence, views, report, lambda: self.pod_writer.waiting)
        self.claims = ResourceClaims(api, fence, views, report, self._take)
        self.volumes = Volumes(api, fence, views)
        self.pod_writer = PodWriter(
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
        """Return how many bindings and evictions are not done yet; for any thread."""
        return self.pod_writer.backlog + len(self._urgent)

    def execute(self, steps: Sequence[PlanStep]) -> None:
        """Take steps over for execution, without waiting for them."""
        if not steps:
            return
        for step in steps:
            self._number += 1
            (self._urgent if isinstance(step, _URGENT) else self._others).append((self._number, step))
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
                self._loop.call_soon_threadsafe(self._sort)

    def forget(self, uid: str) -> None:
        """Forget everything about an object that is no longer there."""
        self.pod_writer.forget_pod(uid)
        self.statuses.forget(uid)
        self.events.forget(uid)

    def placed(self, uid: str) -> None:
        """Forget what was kept of a pod while it waited for a node: it has one."""
        self.pod_writer.forget_pod(uid)
        self.statuses.forget(uid)

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of what is kept here and in the lanes."""
        incoming = {"executor.incoming": lambda: len(self._urgent) + len(self._others) + len(self._bound)}
        parts = (self.pod_writer, self.statuses, self.events, self.claims)
        return incoming | {name: size for part in parts for name, size in part.tables().items()}

    async def drain(self, timeout: float) -> bool:  # noqa: ASYNC109 - what is left then is dropped, not an error
        """Finish the decided writes, bindings first, and stop, in `timeout` seconds; True if all bindings were made.

        Later decisions, as by a session that did not end in time, are dropped.
        """
        deadline = time.monotonic() + timeout
        while self._urgent or self._others:
            self._sort()
        self._stopped = True
        finished = await self.pod_writer.drain(timeout)
        await self._stop(deadline)
        return finished

    async def stop(self) -> None:
        """Stop at once: the right to write is lost."""
        self._stopped = True
        await self._stop(time.monotonic())

    async def _stop(self, deadline: float) -> None:
        await self.pod_writer.stop()
        await self.claims.stop()
        await self.statuses.stop(deadline - time.monotonic())
        await self.events.drain(min(EVENTS_SECONDS, deadline - time.monotonic()))

    def _sort(self) -> None:
        """Take over urgent steps, and some of the rest.

        A pod may be bound before its earlier status was taken over: that is not written any more.
        """
        self._called = False
        while self._urgent:
            number, step = self._urgent.popleft()
            if isinstance(step, Bind) and self._others:
                self._bound[step.uid] = number
            self._take_or_report(step)
        for _ in range(min(AT_ONCE, len(self._others))):
            number, step = self._others.popleft()
            if not (_is_report(step) and self._bound.get(step.uid, 0) > number):
                self._take_or_report(step)
        if self._others:
            self._called = True
            self._loop.call_soon(self._sort)
        else:
            self._bound.clear()

    def _take_or_report(self, step: PlanStep) -> None:
        """Take a step over. A failure over one ends with it, and its pod is not waited for any more."""
        if self._stopped:
            return
        try:
            self._take(step)
        except Exception:
            _log.exception("a step was not taken over, in an unforeseen way", step=type(step).__name__)
            if isinstance(step, Bind):
                self._report(BindFailed(step.uid, step.node, "internal error, see the scheduler's log", time.time()))

    def _take(self, step: PlanStep) -> None:
        match step:
            case Bind():
                self.statuses.cancel(step.uid)
                self.events.cancel(step.uid)
                self.pod_writer.add(step)
            case Evict() | LiftGate():
                self.pod_writer.add(step)
            case ReleaseClaim():
                self.claims.release(step)
            case WriteGroupStatus() | WriteNativeStatus() | WriteQueueStatus() | WritePodCondition():
                self.statuses.add(step)
            case RecordEvent():
                self.events.record(step)


_URGENT: Final = (Bind, Evict, LiftGate, ReleaseClaim)


def _is_report(step: PlanStep) -> TypeGuard[WritePodCondition | RecordEvent]:
    """True if a step only states why a pod waits."""
    return isinstance(step, WritePodCondition) or (isinstance(step, RecordEvent) and step.type == "Warning")
