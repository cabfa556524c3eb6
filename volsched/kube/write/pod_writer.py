"""Binds pods, evicts pods and lifts gates: the writes that users wait for.

A bounded number is in flight, and namespaces take turns, each with its writes in the order of their decision: thousands
of writes of one team do not delay those of another. Waits (a back-off, a missing answer) are outside that number, so
one pod that is refused for ever delays no other. The result of a binding is reported only when it is known: after a
timeout, a reset or a conflict the pod is read first. The API server accepts bindings to nodes that do not exist, so the
node is checked right before the write, and once more after it.

That no pod is bound twice, also by two leaders, is guaranteed by the API server: it refuses a second Binding. The fence
only makes such attempts rare.

The writer is one class: a pod passes through its steps in order, and each has to undo those before it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import structlog

from volsched.kube.client.backoff import Backoff
from volsched.kube.client.rest import STRATEGIC_PATCH, Api, path_segment
from volsched.kube.errors import ApiError, FenceError
from volsched.kube.fence import Fence
from volsched.kube.histogram import WAITING_SECONDS, Histogram
from volsched.kube.tasks import Tasks
from volsched.kube.write.pod_bodies import binding_body, delete_body, disruption_body, gate_body, ungated_body
from volsched.kube.write.throttle import Throttle
from volsched.kube.write.views import Views
from volsched.model.changes import BindFailed, Bound, Change, EvictFailed
from volsched.model.plan import Bind, Evict, LiftGate, RecordEvent
from volsched.model.values.bounded import Bounded, Size
from volsched.model.values.in_turns import InTurns

IN_FLIGHT: Final = 32
WRITE_TIMEOUT_SECONDS: Final = 10.0
ATTEMPTS: Final = 5
"""The number of tries when the server is in trouble, before the scheduler gets the failure."""

FIRST_RETRY_SECONDS: Final = 0.1
LONGEST_RETRY_SECONDS: Final = 5.0
FIRST_BACKOFF_SECONDS: Final = 1.0
LONGEST_BACKOFF_SECONDS: Final = 10.0
"""A pod whose binding is refused comes back after 1 s, 2 s, 4 s, 8 s, then every 10 s."""
LONGEST_GATE_PAUSE_SECONDS: Final = 30.0
"""A gate that may not be lifted is tried again after 1 s, 2 s, 4 s and so on, then every 30 s."""

REMEMBERED: Final = 16384
"""The most pods whose refusals are counted, also beyond their end if that was missed."""

MOST_QUEUES: Final = 1024
"""The most queues with waiting times. The queue without a binding for longest is dropped."""

_log = structlog.get_logger(__name__)

Write: TypeAlias = Bind | Evict | LiftGate


class Prebinder(Protocol):
    """Work before a pod is bound that may take minutes."""

    def is_needed(self, step: Bind) -> bool:
        """True if there is something to do for this pod."""

    async def prepare(self, step: Bind) -> None:
        """Do it and return when it is done. Raises PrebindError or FenceError."""

    async def withdraw(self, step: Bind) -> None:
        """Undo the preparation of a pod that is not bound after all, as far as it disturbs others. Raises nothing."""


class PrebindError(Exception):
    """The preparation of a pod failed on this node. Another try may succeed."""


@dataclass(slots=True, eq=False)
class _PodWrite:
    """A write on its way: its start, its tries, and whether it may have happened already.

    ``refused_for`` is the last reported reason of a write that is refused and tried again.
    """

    step: Write
    backoff: Backoff
    since: float = field(default_factory=time.monotonic)
    attempts: int = 0
    in_doubt: bool = False
    prepared: bool = False
    refused_for: str = ""


class PodWriter:
    """Carries out `Bind`, `Evict` and `LiftGate` steps, some at a time; lives on the I/O loop.

    Those of one namespace go in the order given, and namespaces take turns, with retries as well.

    `report` takes the result of each step; `record_event` takes Events and pod conditions; `under_way` returns another
    write on the same pod that is still under way, to be awaited. `durations` are the seconds from a decision to its
    binding, `waits` by queue those from a pod's creation to its binding.
    """

    def __init__(
        self,
        api: Api,
        fence: Fence,
        views: Views,
        report: Callable[[Change], None],
        record_event: Callable[[RecordEvent], None],
        under_way: Callable[[str], Awaitable[object] | None],
        *,
        prebinder: Prebinder | None = None,
        in_flight: int = IN_FLIGHT,
    ) -> None:
        self._api = api
        self._fence = fence
        self._views = views
        self._report = report
        self._record_event = record_event
        self._under_way = under_way
        self._prebinder = prebinder
        self._limit = in_flight
        self._queue: InTurns[_PodWrite] = InTurns()
        self._workers = Tasks()
        self._preparing = Tasks()
        self._refused_gates: dict[_PodWrite, asyncio.TimerHandle] = {}
        self._delayed: dict[_PodWrite, asyncio.TimerHandle] = {}
        self._throttle = Throttle()
        self._stopped = False
        self._refusals: Bounded[str, Backoff] = Bounded(REMEMBERED)
        self.bound = 0
        self.refused = 0
        self.dropped = 0
        self.lost_nodes = 0
        self.evicted = 0
        self.evictions_refused = 0
        self.durations = Histogram()
        self.waits: Bounded[tuple[str, ...], Histogram] = Bounded(MOST_QUEUES)

    @property
    def backlog(self) -> int:
        """Return how many writes wait or are under way; not those that wait for claims or volumes, or for a right."""
        return len(self._queue) + len(self._workers) + len(self._delayed)

    @property
    def waiting(self) -> int:
        """Return how many writes wait for their turn."""
        return len(self._queue)

    @property
    def preparing(self) -> int:
        """Return how many pods wait for their claims or volumes."""
        return len(self._preparing)

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of what is kept here."""
        return {
            "binder.queue": lambda: self.backlog,
            "binder.preparing": lambda: len(self._preparing),
            "binder.refused_gates": lambda: len(self._refused_gates),
            "binder.refusals": lambda: len(self._refusals),
            "binder.waits": lambda: len(self.waits),
        }

    def add(self, step: Write) -> None:
        """Take a step over."""
        self._queue_up(_PodWrite(step, Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)))

    def forget_pod(self, uid: str) -> None:
        """Forget how often a pod was refused."""
        self._refusals.pop(uid, None)

    async def drain(self, timeout: float) -> bool:  # noqa: ASYNC109 - what is left then is reported, not an error
        """Wait until nothing is left to write, at most `timeout` seconds. Return True if that was reached."""
        deadline = time.monotonic() + timeout
        while self.backlog and time.monotonic() < deadline:  # noqa: ASYNC110 - polled once in a life
            await asyncio.sleep(0.02)
        return self.backlog == 0

    async def stop(self) -> None:
        """Give up what is not under way and cancel what is. Nothing more is taken over."""
        self._stopped = True
        self.dropped += len(self._queue) + len(self._delayed)
        self._queue = InTurns()
        for timer in (*self._refused_gates.values(), *self._delayed.values()):
            timer.cancel()
        self._delayed.clear()
        await self._workers.stop()
        await self._preparing.stop()

    # -- flow -----------------------------------------------------------------------------------------------------

    def _queue_up(self, write: _PodWrite) -> None:
        if self._stopped:
            self.dropped += 1
            return
        self._queue.put(write.step.namespace, write)
        self._fill()

    def _fill(self) -> None:
        """Have one more worker look at what waits, if there may be one.

        Another look when a worker has gone: until then it counts, though it may have seen that nothing waited.
        """
        if self._queue and len(self._workers) < self._limit and not self._stopped:
            self._workers.start(self._work(), "write of pods").add_done_callback(lambda _: self._fill())

    def _queue_up_later(self, write: _PodWrite, seconds: float) -> None:
        def enqueue() -> None:
            del self._delayed[write]
            self._queue_up(write)

        self._delayed[write] = asyncio.get_running_loop().call_later(seconds, enqueue)

    async def _work(self) -> None:
        while self._queue:
            if self._throttle.pause:
                await asyncio.sleep(self._throttle.pause)
                continue
            write = self._queue.take()
            try:
                await self._carry_out(write)
            except FenceError:
                self.dropped += 1
            except Exception:
                _log.exception("a write failed in an unforeseen way", pod=f"{write.step.namespace}/{write.step.name}")
                self._give_up(write, "internal error, see the scheduler's log")

    async def _carry_out(self, write: _PodWrite) -> None:
        match write.step:
            case Bind():
                await self._bind(write, write.step)
            case Evict():
                await self._evict(write, write.step)
            case LiftGate():
                await self._lift_gate(write, write.step)

    def _retry(self, write: _PodWrite, error: ApiError) -> None:
        """Try again later: after what the server asked for, or a little longer each time."""
        wait = self._throttle.refused(error) if error.status == 429 else error.retry_after or 0.0
        if error.is_overload:
            self._queue_up_later(write, wait)
            return
        write.attempts += 1
        self._queue_up_later(write, max(write.backoff.next(), wait))

    def _give_up(self, write: _PodWrite, message: str) -> None:
        """Report a failed write to the scheduler. A pod comes back after its own back-off."""
        step = write.step
        if isinstance(step, Evict):
            self.evictions_refused += 1
            self._report(EvictFailed(step.uid, message))
            return
        if isinstance(step, LiftGate):
            self._gate_stays(write, step, message)
            return
        backoff = self._refusals.setdefault(step.uid, Backoff(FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS))
        self._failed(step, message, time.time() + backoff.next())

    def _failed(self, step: Bind, message: str, retry_at: float | None, *, is_placed: bool = False) -> None:
        """Report a failure to the scheduler after undoing the preparation; not for a pod that has a node already."""
        self.refused += 1
        _log.warning("binding failed", pod=f"{step.namespace}/{step.name}", node=step.node, error=message)
        failed = BindFailed(step.uid, step.node, message, retry_at)
        if self._prebinder is None or is_placed or not self._prebinder.is_needed(step):
            self._report(failed)
            return
        self._preparing.start(self._withdraw(step, failed, self._prebinder), "withdrawal of a pod's claims")

    async def _withdraw(self, step: Bind, failed: BindFailed, prebinder: Prebinder) -> None:
        try:
            await prebinder.withdraw(step)
        except Exception:
            _log.exception("taking back failed in an unforeseen way", pod=f"{step.namespace}/{step.name}")
        self._report(failed)

    # -- bind -----------------------------------------------------------------------------------------------------

    async def _bind(self, write: _PodWrite, step: Bind) -> None:
        if write.in_doubt:
            await self._look(write, step, "")
            return
        if self._prebinder is not None and not write.prepared and self._prebinder.is_needed(step):
            self._prepare(write, step, self._prebinder)
            return
        if (other := self._under_way(step.uid)) is not None:
            await other
        if not self._views.node_exists(step.node, step.node_uid):
            self._failed(step, "the node is gone", time.time())
            return
        try:
            await self._write("POST", _pod_path(step, "/binding"), "pods/binding", binding_body(step))
        except ApiError as error:
            await self._judge(write, step, error)
        else:
            self._succeeded(write, step)

    def _prepare(self, write: _PodWrite, step: Bind, prebinder: Prebinder) -> None:
        """Prepare claims and volumes outside the number of writes in flight: that may take minutes."""

        async def prepare() -> None:
            try:
                await prebinder.prepare(step)
            except FenceError:
                self.dropped += 1
            except PrebindError as error:
                self._give_up(write, str(error))
            except Exception:
                _log.exception("preparing failed in an unforeseen way", pod=f"{step.namespace}/{step.name}")
                self._give_up(write, "internal error, see the scheduler's log")
            else:
                write.prepared = True
                self._queue_up(write)

        self._preparing.start(prepare(), "preparation of a pod")

    def _succeeded(self, write: _PodWrite, step: Bind) -> None:
        self.bound += 1
        self.durations.add(time.monotonic() - write.since)
        waited = max(0.0, time.time() - step.created)
        self.waits.setdefault((step.queue,), Histogram(WAITING_SECONDS)).add(waited)
        self._refusals.pop(step.uid, None)
        self._report(Bound(step.uid, step.node))
        self._record_event(
            _about(step, "Normal", "Scheduled", f"Successfully assigned {_key(step)} to {step.node}", "Binding")
        )
        if not self._views.node_exists(step.node, step.node_uid):
            self.lost_nodes += 1
            message = f"node {step.node} was deleted while the pod was being bound to it; the pod will be collected"
            _log.warning("a node went while a pod was bound to it", pod=_key(step), node=step.node)
            self._record_event(_about(step, "Warning", "NodeLost", message, "Binding"))

    async def _judge(self, write: _PodWrite, step: Bind, error: ApiError) -> None:
        """Decide the meaning of an unconfirmed binding."""
        if error.is_overload or ((error.status == 429 or error.status >= 500) and write.attempts < ATTEMPTS):
            self._retry(write, error)
        elif error.status in (404, 409) or error.is_transient:
            write.in_doubt = True
            await self._look(write, step, error.message)
        else:
            self._give_up(write, error.message)

    async def _look(self, write: _PodWrite, step: Bind, why: str) -> None:
        """Read the pod to learn the result of its binding; while it cannot be read nothing is known, so try on."""
        try:
            pod: Any = await self._api.get(_pod_path(step), "pods", within=WRITE_TIMEOUT_SECONDS)
        except ApiError as error:
            self._fence.check()
            if error.status == 404:
                self._failed(step, "the pod is gone", None)
            elif error.is_transient:
                self._retry(write, error)
            else:
                self._give_up(write, error.message)
            return
        write.in_doubt = False
        final = _final_reason(pod, step)
        if pod["metadata"]["uid"] == step.uid and pod["spec"].get("nodeName") == step.node:
            self._succeeded(write, step)
        elif final:
            self._failed(step, final, None, is_placed=bool(pod["spec"].get("nodeName")))
        elif write.attempts < ATTEMPTS:
            write.attempts += 1
            self._queue_up_later(write, write.backoff.next())
        else:
            self._give_up(write, why or "the API server did not answer")

    # -- evict ----------------------------------------------------------------------------------------------------

    async def _evict(self, write: _PodWrite, step: Evict) -> None:
        """Mark the pod as disrupted, then delete it with its own grace period."""
        if (other := self._under_way(step.uid)) is not None:
            await other
        try:
            await self._write(
                "PATCH", _pod_path(step, "/status"), "pods/status", disruption_body(step), STRATEGIC_PATCH
            )
            await self._write("DELETE", _pod_path(step), "pods", delete_body(step))
        except ApiError as error:
            if error.is_deleted:
                return
            if error.is_overload or (error.is_transient and write.attempts < ATTEMPTS):
                self._retry(write, error)
            else:
                _log.warning("eviction failed", pod=_key(step), error=str(error))
                self._give_up(write, error.message)
        else:
            self.evicted += 1
            _log.info("evicted a pod", pod=_key(step), action=step.action, preemptor=step.preemptor)

    # -- gates ----------------------------------------------------------------------------------------------------

    async def _lift_gate(self, write: _PodWrite, step: LiftGate) -> None:
        """Remove a gate from a pod, and retry until it is off or the pod is gone: its queue took it.

        The condition is written first: a pod without the gate and without the condition would not be counted after a
        takeover.
        """
        try:
            await self._write("PATCH", _pod_path(step, "/status"), "pods/status", ungated_body(step), STRATEGIC_PATCH)
            await self._write("PATCH", _pod_path(step), "pods", gate_body(step), STRATEGIC_PATCH)
        except ApiError as error:
            if error.is_deleted:
                return
            if error.is_transient:
                self._retry(write, error)
            else:
                self._gate_stays(write, step, error.message)
        else:
            self._refusals.pop(step.uid, None)

    def _gate_stays(self, write: _PodWrite, step: LiftGate, why: str) -> None:
        """Report why a gate may not be removed, and retry after a growing pause. Other pods do not wait for that."""
        if why != write.refused_for:
            write.refused_for = why
            _log.warning("a scheduling gate could not be lifted", pod=_key(step), gate=step.gate, error=why)
            message = f'the gate "{step.gate}" stays on the pod: {why}'
            self._record_event(_about(step, "Warning", "GateNotLifted", message, "Scheduling"))
        backoff = self._refusals.setdefault(step.uid, Backoff(FIRST_BACKOFF_SECONDS, LONGEST_GATE_PAUSE_SECONDS))

        def again() -> None:
            del self._refused_gates[write]
            self._queue_up(write)

        self._refused_gates[write] = asyncio.get_running_loop().call_later(backoff.next(), again)

    async def _write(
        self, method: str, path: str, resource: str, body: bytes, content_type: str = "application/json"
    ) -> None:
        await self._api.request(
            method,
            path,
            resource,
            body=body,
            content_type=content_type,
            within=WRITE_TIMEOUT_SECONDS,
            fence=self._fence,
        )


def _final_reason(pod: Any, step: Bind) -> str:
    """Return why a pod cannot be bound until it changes; empty when it can."""
    if pod["metadata"]["uid"] != step.uid:
        return "the pod was deleted and made again"
    if pod["metadata"].get("deletionTimestamp"):
        return "the pod is being deleted"
    if pod["spec"].get("nodeName"):
        return f"the pod is on node {pod['spec']['nodeName']} already"
    gates = [gate.get("name", "") for gate in pod["spec"].get("schedulingGates") or ()]
    if gates:
        return f"scheduling is gated by {', '.join(gates)}"
    return ""


def _about(step: Write, kind: str, reason: str, message: str, action: str) -> RecordEvent:
    return RecordEvent("Pod", "v1", step.namespace, step.name, step.uid, kind, reason, message, action)


def _key(step: Write) -> str:
    return f"{step.namespace}/{step.name}"


def _pod_path(step: Write, subresource: str = "") -> str:
    return f"/api/v1/namespaces/{path_segment(step.namespace)}/pods/{path_segment(step.name)}{subresource}"


class Preparations:
    """A `Prebinder` made of others, in order."""

    def __init__(self, *parts: Prebinder) -> None:
        self._parts = parts

    def is_needed(self, step: Bind) -> bool:
        """True if any of them has something to do."""
        return any(part.is_needed(step) for part in self._parts)

    async def prepare(self, step: Bind) -> None:
        """Let each do its part. Raises PrebindError or FenceError."""
        for part in self._parts:
            if part.is_needed(step):
                await part.prepare(step)

    async def withdraw(self, step: Bind) -> None:
        """Take back what belongs to this pod alone."""
        for part in self._parts:
            if part.is_needed(step):
                await part.withdraw(step)
