"""Writes statuses of PodGroups and Queues, and pod conditions: after bindings, only changes, only the latest state.

For each object there is at most one write waiting and one under way. A later state replaces the waiting one; objects
that change often are written at growing intervals, and reasons of waiting pods at a bounded rate, as a gang may have
thousands. Namespaces take turns. A state that the API server has is not written again. All data about an object is one
entry in each table, and ends with it.

``Statuses`` is one class: statuses of all kinds share one order, one budget and one memory of written states.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import msgspec
import structlog

from volsched.kube.client.backoff import Backoff
from volsched.kube.client.rest import MERGE_PATCH, STRATEGIC_PATCH, Api, path_segment
from volsched.kube.errors import ApiError, FenceError
from volsched.kube.fence import Fence
from volsched.kube.tasks import Tasks
from volsched.kube.watch.resources import VOLCANO
from volsched.kube.write.delaying_queue import DelayingQueue
from volsched.kube.write.native_statuses import NativeStatuses
from volsched.kube.write.throttle import TokenBucket
from volsched.kube.write.views import POD_SCHEDULED, PodRefusal, Views
from volsched.model import api
from volsched.model.changes import Change, GroupWriteFailed
from volsched.model.conditions import ADMITTED, REMEMBERED, RESERVATION_RELEASED
from volsched.model.errors import QuantityError
from volsched.model.job import NATIVE, PodGroupCondition
from volsched.model.plan import WriteGroupStatus, WriteNativeStatus, WritePodCondition, WriteQueueStatus
from volsched.model.queues.queue import QueuePast
from volsched.model.values.bounded import Size
from volsched.model.values.in_turns import InTurns
from volsched.model.values.quantity import QuantityText, amount_of

IN_FLIGHT: Final = 8
IN_FLIGHT_BEHIND_BINDS: Final = 2
"""The most writes under way, and while bindings wait."""

WRITE_TIMEOUT_SECONDS: Final = 10.0
GROUP_INTERVAL_SECONDS: Final = 1.0
"""The status of one PodGroup is not written more often. Counts change with every pod."""

QUEUE_INTERVAL_SECONDS: Final = 1.0
"""The shortest time between two writes of one Queue's amounts."""

MENDING_INTERVAL_SECONDS: Final = 10.0
"""The time after our last write until amounts of a Queue that others wrote are corrected.

Two writers with different amounts must not keep the API server busy.
"""

SETTLE_SECONDS: Final = 1.0
"""The wait before a new refusal is written: the pod may be bound in a moment, for example when its gang is being made.
"""

CONDITIONS_PER_SECOND: Final = 200.0
CONDITIONS_AT_ONCE: Final = 400
"""The rate of conditions of waiting pods. Pods with a nominated node do not wait for their turn."""

FIRST_WORDS_INTERVAL_SECONDS: Final = 5.0
LONGEST_WORDS_INTERVAL_SECONDS: Final = 300.0
"""The wait before a condition is written of which only the message changed; it doubles each time.

Messages of pods and PodGroups change whenever a node fills, and every watcher gets each.
"""

OWN_CONDITIONS: Final = ("Unschedulable", "Scheduled", ADMITTED, RESERVATION_RELEASED, *REMEMBERED)
"""Types of PodGroup conditions that the scheduler sets. Others are left as they are."""

_REFUSED_PAUSE_SECONDS: Final = 30.0
_RIGHTS: Final = (401, 403)
"""Forbidden; an API server that has just been started answers so for a moment, too."""

_log = structlog.get_logger(__name__)

Write: TypeAlias = WriteGroupStatus | WriteNativeStatus | WriteQueueStatus | WritePodCondition


@dataclass(slots=True)
class _Pace:
    """The last write of an object and the wait before the next write of a message alone, in seconds."""

    written_at: float
    interval: float


@dataclass(slots=True)
class _PendingStatus:
    """The wanted write of one object. `not_before` is on the monotonic clock."""

    step: Write
    not_before: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(0.5, 30.0))


class Statuses:
    """The lane of status writes; lives on the I/O loop.

    `report` takes changes for the mirror; `binds_waiting` states how many bindings wait for their turn.
    """

    def __init__(
        self,
        api_server: Api,
        fence: Fence,
        views: Views,
        report: Callable[[Change], None],
        binds_waiting: Callable[[], int],
    ) -> None:
        self._api = api_server
        self._fence = fence
        self._views = views
        self._report = report
        self._binds_waiting = binds_waiting
        self._entries: dict[str, _PendingStatus] = {}
        self._ready: InTurns[str] = InTurns()
        self._ready_pods: InTurns[str] = InTurns()
        self._conditions = TokenBucket(CONDITIONS_PER_SECOND, CONDITIONS_AT_ONCE)
        self._pods_are_next = False
        self._later: DelayingQueue[str] = DelayingQueue()
        self._tasks = Tasks()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._gone: set[str] = set()
        self._paces: dict[str, _Pace] = {}
        self._queues: dict[str, WriteQueueStatus] = {}
        self._refused: dict[str, asyncio.TimerHandle] = {}
        self._groups_have_status: bool | None = None
        self._natives = NativeStatuses(views, self._patch)
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self.written = 0
        self.suppressed = 0
        self.dropped = 0

    @property
    def depth(self) -> int:
        """Return how many writes wait."""
        return len(self._entries)

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of what is kept here."""
        return {
            "statuses.waiting": lambda: len(self._entries) + len(self._under_way),
            "statuses.due": lambda: len(self._ready) + len(self._ready_pods) + self._later.weight,
            "statuses.paces": lambda: len(self._paces),
            "statuses.queues": lambda: len(self._queues),
            "statuses.refused": lambda: len(self._refused),
        }

    def add(self, step: Write) -> None:
        """Take a step over. It replaces one that waits for the same object."""
        key = step.uid
        if isinstance(step, WriteQueueStatus):
            self._queues[key] = step
        waiting = self._entries.get(key)
        if waiting is None:
            settle = SETTLE_SECONDS if isinstance(step, WritePodCondition) and not step.nominated else 0.0
            self._entries[key] = _PendingStatus(step, time.monotonic() + settle)
        else:
            waiting.step = step
        self._route(key)
        self._pump()

    def queue_shown(self, queue: api.Queue) -> None:
        """Compare the amounts of a Queue with our last write, and correct those that others wrote."""
        key = queue.metadata.uid
        word = self._queues.get(key)
        if word is None or key in self._entries or key in self._under_way or _holds(queue, word):
            return
        pace = self._paces.get(key)
        self._entries[key] = _PendingStatus(
            word, pace.written_at + MENDING_INTERVAL_SECONDS if pace is not None else 0.0
        )
        self._route(key)
        self._pump()

    def cancel(self, uid: str) -> None:
        """Forget what waits to be written to a pod: it is being bound."""
        if self._entries.pop(uid, None) is not None:
            self._unroute(uid)
            self.suppressed += 1

    def under_way(self, uid: str) -> Awaitable[object] | None:
        """Return the write to a pod that is under way, if one is, to wait for."""
        task = self._under_way.get(uid)
        return None if task is None else asyncio.wait((task,))

    def forget(self, uid: str) -> None:
        """Forget a deleted object, or one that needs no status any more."""
        for known in (self._entries, self._paces, self._queues):
            known.pop(uid, None)
        self._unroute(uid)
        if (timer := self._refused.pop(uid, None)) is not None:
            timer.cancel()
        if uid in self._under_way:
            self._gone.add(uid)

    async def stop(self, timeout: float = WRITE_TIMEOUT_SECONDS) -> None:  # noqa: ASYNC109 - what is left is cancelled
        """Drop what waits and let what is under way end, for at most `timeout` seconds."""
        self._stopped = True
        self.dropped += len(self._entries)
        self._entries.clear()
        for timer in (self._timer, *self._refused.values()):
            if timer is not None:
                timer.cancel()
        await self._tasks.finish(timeout)

    # -- flow -----------------------------------------------------------------------------------------------------

    def _route(self, key: str) -> None:
        """Put an object's waiting write among those that may go, or those that wait for their time."""
        entry = self._entries.get(key)
        if entry is None or key in self._under_way:
            return
        due = max(entry.not_before, self._due(entry.step))
        if due > time.monotonic():
            self._unroute(key)
            self._later.put(key, due)
            return
        ready = self._ready_pods if _can_wait(entry.step) else self._ready
        if key not in ready:  # else it keeps its turn
            self._unroute(key)
            ready.put(_owner_of(entry.step), key)

    def _unroute(self, key: str) -> None:
        self._ready.drop(key)
        self._ready_pods.drop(key)
        self._later.drop(key)

    def _due(self, step: Write) -> float:
        """Return when a step may be written, on the monotonic clock."""
        pace = self._paces.get(step.uid)
        if pace is None:
            return 0.0
        match step:
            case WritePodCondition() | WriteNativeStatus():
                least = 0.0
            case WriteGroupStatus():
                least = GROUP_INTERVAL_SECONDS
            case WriteQueueStatus():
                least = QUEUE_INTERVAL_SECONDS
        return pace.written_at + (pace.interval if self._changes_words_alone(step) else least)

    def _changes_words_alone(self, step: Write) -> bool:
        """True if a step has the state of the API server, messages aside."""
        if isinstance(step, WritePodCondition):
            seen = self._views.refusal(step.uid)
            return (seen.reason, seen.nominated) == (step.reason, step.nominated)
        if isinstance(step, WriteGroupStatus):
            known = self._views.groups.get(f"{step.namespace}/{step.name}")
            return known is not None and _differs_in_words_alone(known.status, step)
        if isinstance(step, WriteNativeStatus):
            group = self._views.native_groups.get(f"{step.namespace}/{step.name}")
            return group is not None and _unworded(step.conditions) <= _unworded(group.status.conditions)
        return False

    def _pump(self) -> None:
        """Start as many writes as may be under way, and look again when the next one is due."""
        if self._stopped:
            return
        now = time.monotonic()
        for key in list(self._later.take(now)):
            self._route(key)
        limit = IN_FLIGHT_BEHIND_BINDS if self._binds_waiting() else IN_FLIGHT
        while len(self._under_way) < limit and (ready := self._next_ready()) is not None:
            entry = None if ready in self._under_way else self._entries.pop(ready, None)
            if entry is not None:
                self._start(ready, entry)
        self._look_again(now)

    def _next_ready(self) -> str | None:
        """Take the next object that may be written.

        Pods that only wait have their own pace, and every second turn: statuses of one namespace must not put off what
        is stated of the pods of another.
        """
        if self._ready_pods and (self._pods_are_next or not self._ready) and self._conditions.take():
            self._pods_are_next = False
            return self._ready_pods.take()
        if not self._ready:
            return None
        self._pods_are_next = True
        return self._ready.take()

    def _look_again(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waits = [due - now] if (due := self._later.next()) is not None else []
        if self._ready_pods and (wait := self._conditions.wait()):
            waits.append(wait)
        if waits:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, min(waits)), self._pump)

    def _start(self, key: str, entry: _PendingStatus) -> None:
        task = self._tasks.start(self._write(key, entry), "write of a status")
        self._under_way[key] = task

        def ended(_: object) -> None:
            del self._under_way[key]
            if key in self._gone:
                self._gone.discard(key)
                self.forget(key)
            self._route(key)
            self._pump()

        task.add_done_callback(ended)

    async def _write(self, key: str, entry: _PendingStatus) -> None:
        step = entry.step
        is_words = self._changes_words_alone(step)
        try:
            done = await self._carry_out(step)
        except FenceError:
            self.dropped += 1
        except ApiError as error:
            self._failed(key, entry, error)
        except Exception:
            self.dropped += 1
            _log.exception("a status was not written, in an unforeseen way", object=_name(step))
        else:
            if done:
                self.written += 1
                self._note_pace(key, step, is_words=is_words)
            else:
                self.suppressed += 1

    async def _carry_out(self, step: Write) -> bool:
        match step:
            case WriteGroupStatus():
                return await self._write_group(step)
            case WriteNativeStatus():
                return await self._natives.write(step)
            case WriteQueueStatus():
                return await self._write_queue(step)
            case WritePodCondition():
                return await self._write_condition(step)

    def _note_pace(self, key: str, step: Write, *, is_words: bool) -> None:
        """Lengthen the wait for messages. Another reason does not reset it."""
        before = self._paces.get(key)
        grows = before is not None and (is_words or isinstance(step, WritePodCondition))
        interval = before.interval * 2 if before is not None and grows else FIRST_WORDS_INTERVAL_SECONDS
        self._paces[key] = _Pace(time.monotonic(), min(interval, LONGEST_WORDS_INTERVAL_SECONDS))

    def _failed(self, key: str, entry: _PendingStatus, error: ApiError) -> None:
        """Retry a transient failure unless there is a later state. Deleted objects need no status.

        An API server that has just been started answers 404 for custom kinds for a moment: a Queue is gone only when
        the watch reports it.
        """
        is_shown = isinstance(entry.step, WriteQueueStatus) and self._known_queue(entry.step) is not None
        if error.is_deleted and not is_shown:
            self._paces.pop(key, None)
            self._groups_have_status = None  # a 404 may also mean that the kind was installed anew, without or with it
        elif error.is_deleted or error.is_transient or error.status in _RIGHTS:
            if error.status in _RIGHTS and entry.backoff.failures == 0:
                _log.warning("not allowed to write a status", object=_name(entry.step), error=str(error))
            entry.not_before = time.monotonic() + max(entry.backoff.next(), error.retry_after or 0.0)
            self._entries.setdefault(key, entry)
        else:
            _log.warning("a status was refused", object=_name(entry.step), error=str(error))
            if isinstance(entry.step, WriteGroupStatus):
                self._report_later(key, GroupWriteFailed(entry.step.namespace, entry.step.name))
            elif isinstance(entry.step, WriteNativeStatus):
                self._report_later(key, GroupWriteFailed(entry.step.namespace, f"{NATIVE}{entry.step.name}"))

    def _report_later(self, key: str, failed: GroupWriteFailed) -> None:
        """Write the status of a PodGroup again later. Once, however often it is refused meanwhile."""

        def report() -> None:
            del self._refused[key]
            self._report(failed)

        if key not in self._refused:
            self._refused[key] = asyncio.get_running_loop().call_later(_REFUSED_PAUSE_SECONDS, report)

    # -- PodGroups ------------------------------------------------------------------------------------------------

    async def _write_group(self, step: WriteGroupStatus) -> bool:
        """Write a PodGroup's status if it differs from what is there. Return True if it was written."""
        known = self._views.groups.get(f"{step.namespace}/{step.name}")
        if known is None or known.metadata.uid != step.uid:
            return False
        conditions = merged_conditions(known.status.conditions, step.conditions)
        if _same_status(known.status, step, conditions):
            return False
        path = f"/apis/{VOLCANO}/namespaces/{path_segment(step.namespace)}/podgroups/{path_segment(step.name)}"
        if await self._has_status_subresource():
            path += "/status"
        answer = await self._patch(path, "podgroups/status", _group_body(step, conditions), MERGE_PATCH)
        self._views.wrote(api.decode_text(api.PodGroup, answer))
        return True

    async def _has_status_subresource(self) -> bool:
        """Check once: Volcano's own CRD has no status subresource, ours has one."""
        if self._groups_have_status is None:
            listed = await self._api.get(f"/apis/{VOLCANO}", "discovery")
            names = {entry.get("name") for entry in listed.get("resources") or ()}
            self._groups_have_status = "podgroups/status" in names
            _log.debug("asked for the status subresource of PodGroups", there=self._groups_have_status)
        return self._groups_have_status

    # -- Queues ---------------------------------------------------------------------------------------------------

    def _known_queue(self, step: WriteQueueStatus) -> api.Queue | None:
        known = self._views.queues.get(step.name)
        return known if known is not None and known.metadata.uid == step.uid else None

    async def _write_queue(self, step: WriteQueueStatus) -> bool:
        """Write the amounts of a Queue if they differ from the present ones. Return True if they were written."""
        known = self._known_queue(step)
        if known is None:
            self._queues.pop(step.uid, None)
            return False
        if _holds(known, step) and _states_past(known, step):
            return False
        path = f"/apis/{VOLCANO}/queues/{path_segment(step.name)}/status"
        answer = await self._patch(
            path, "queues/status", queue_body(step, known.status.allocated, known.status.usage), MERGE_PATCH
        )
        self._views.wrote(api.decode_text(api.Queue, answer))
        return True

    # -- pods -----------------------------------------------------------------------------------------------------

    async def _write_condition(self, step: WritePodCondition) -> bool:
        """Write a pod's refusal if it differs from what is there. Return True if it was written."""
        wanted = PodRefusal(step.reason, step.message, step.nominated)
        known = self._views.refusal(step.uid)
        if known == wanted:
            return False
        path = f"/api/v1/namespaces/{path_segment(step.namespace)}/pods/{path_segment(step.name)}/status"
        answer = await self._patch(path, "pods/status", condition_body(step, known), STRATEGIC_PATCH)
        version = api.decode_text(api.ApiObject, answer).metadata.resource_version
        self._views.wrote_refusal(step.uid, wanted, version)
        return True

    async def _patch(self, path: str, resource: str, body: bytes, content_type: str) -> bytes:
        within, fence = WRITE_TIMEOUT_SECONDS, self._fence
        return await self._api.request(
            "PATCH", path, resource, body=body, content_type=content_type, within=within, fence=fence
        )


def _owner_of(step: Write) -> str:
    """Return the namespace by which writes take turns; that of queues is none."""
    return "" if isinstance(step, WriteQueueStatus) else step.namespace


def _can_wait(step: Write) -> bool:
    """True if a step only states why a pod waits."""
    return isinstance(step, WritePodCondition) and not step.nominated


def merged_conditions(known: Iterable[api.Condition], wanted: Iterable[PodGroupCondition]) -> list[api.Condition]:
    """Return the conditions to write: others' as they are, ours as wanted, with old times where nothing changed."""
    before = {condition.type: condition for condition in known}
    merged = [condition for condition in before.values() if condition.type not in OWN_CONDITIONS]
    foreign = {condition.type for condition in merged}
    for condition in wanted:
        if condition.type in foreign:
            continue
        old = before.get(condition.type)
        if old is not None and _content_of(old) == _content_of(condition):
            merged.append(old)
        else:
            merged.append(
                api.Condition(
                    type=condition.type,
                    status=condition.status,
                    reason=condition.reason,
                    message=condition.message,
                    last_transition_time=_now_text(),
                    transition_id=str(uuid.uuid4()),
                )
            )
    return merged


def condition_body(step: WritePodCondition, known: PodRefusal) -> bytes:
    """Return the patch for a waiting pod. It fails for another pod of the same name."""
    condition = {"type": POD_SCHEDULED, "status": "False", "reason": step.reason, "message": step.message}
    if not known.reason:
        condition["lastTransitionTime"] = _now_text()
    status: dict[str, Any] = {"conditions": [condition]}
    if step.nominated != known.nominated:
        status["nominatedNodeName"] = step.nominated or None
    return msgspec.json.encode({"metadata": {"uid": step.uid}, "status": status})


def queue_body(step: WriteQueueStatus, known: Iterable[str], before: api.QueueUsage | None = None) -> bytes:
    """Return the merge patch for a Queue: its amounts, and null for `known` amounts that it no longer has.

    ``before`` is the known past usage in its status.
    """
    allocated = {**dict.fromkeys(known), **step.allocated}
    status: dict[str, Any] = {"allocated": allocated}
    if step.past is not None:
        status["usage"] = _usage(step.past, before)
    return msgspec.json.encode({"metadata": {"uid": step.uid}, "status": status})


def _usage(past: QueuePast, known: api.QueueUsage | None) -> dict[str, Any]:
    """Return the past usage for a status, and null for `known` resources that it no longer has."""
    used = {name: f"{amount:.6g}" for name, amount in past.used.items()}
    gone = dict.fromkeys(known.resource_seconds if known is not None else ())
    time = datetime.fromtimestamp(past.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"time": time, "resourceSeconds": {**gone, **used}}


def _states_past(queue: api.Queue, step: WriteQueueStatus) -> bool:
    """True if the past usage of a Queue is already written. Times are written to the second."""
    stated = _past_time(queue.status.usage)
    return step.past is None or (stated is not None and stated >= int(step.past.at))


def _past_time(usage: api.QueueUsage | None) -> float | None:
    """Return up to when a status states what its queue used."""
    try:
        return datetime.fromisoformat(usage.time).timestamp() if usage is not None and usage.time else None
    except ValueError:
        return None


def _holds(queue: api.Queue, step: WriteQueueStatus) -> bool:
    """True if the amounts of a Queue are already written, in any spelling."""
    return _amounts(queue.status.allocated) == _amounts(step.allocated)


def _amounts(listed: Mapping[str, QuantityText]) -> dict[str, int | None]:
    """Read a resource list. What cannot be read is unequal to every amount."""
    found: dict[str, int | None] = {}
    for name, text in listed.items():
        try:
            found[name] = amount_of(name, text)
        except QuantityError:
            found[name] = None
    return found


def _group_body(step: WriteGroupStatus, conditions: list[api.Condition]) -> bytes:
    status = {
        "phase": step.phase,
        "running": step.running,
        "succeeded": step.succeeded,
        "failed": step.failed,
        "conditions": conditions,
    }
    return msgspec.json.encode({"metadata": {"uid": step.uid}, "status": status})


def _same_status(known: api.PodGroupStatus, step: WriteGroupStatus, conditions: list[api.Condition]) -> bool:
    stated, wanted = ({_content_of(condition) for condition in found} for found in (known.conditions, conditions))
    return _counted(known) == _counted(step) and stated == wanted


def _differs_in_words_alone(known: api.PodGroupStatus, step: WriteGroupStatus) -> bool:
    """True if a status has the same phase, counts and conditions, messages aside."""
    ours = [condition for condition in known.conditions if condition.type in OWN_CONDITIONS]
    return _counted(known) == _counted(step) and _unworded(ours) == _unworded(step.conditions)


def _counted(status: api.PodGroupStatus | WriteGroupStatus) -> tuple[str, int, int, int]:
    return status.phase, status.running, status.succeeded, status.failed


def _unworded(conditions: Iterable[PodGroupCondition | api.Condition]) -> set[tuple[str, ...]]:
    """Return conditions without messages, but with those that a new leader reads."""
    return {_content_of(one) if one.type in REMEMBERED else _content_of(one)[:3] for one in conditions}


def _content_of(condition: PodGroupCondition | api.Condition) -> tuple[str, str, str, str]:
    """Return what a condition states, apart from when."""
    return condition.type, condition.status, condition.reason, condition.message


def _name(step: Write) -> str:
    if isinstance(step, WriteQueueStatus):
        return f"Queue/{step.name}"
    return f"{'Pod' if isinstance(step, WritePodCondition) else 'PodGroup'}/{step.namespace}/{step.name}"


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
