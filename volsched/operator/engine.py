"""Turns changes into writes: keeps the store, asks the controllers about changes, has their writes carried out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec
import structlog

from volsched.controllers import commands, job_controller, queues
from volsched.controllers.group_controller import failed_group, reconcile_group, reconcile_pod
from volsched.controllers.objects import RawJob
from volsched.controllers.store import Key, Store
from volsched.controllers.writes import COMMAND, GROUP, JOB, POD, QUEUE, Delete, Patch, Write
from volsched.kube.errors import ApiError, ElsewhereError
from volsched.kube.histogram import Histogram
from volsched.mirror.memory_bound import MemoryUse, holds_something
from volsched.model import api
from volsched.model.plan import RecordEvent
from volsched.model.queues.queue import ROOT
from volsched.model.values.bounded import Size
from volsched.operator.event_handlers import EventHandlers
from volsched.operator.options import ControllerOptions
from volsched.operator.work import RateLimit, WorkQueue
from volsched.operator.writer import Writer
from volsched.operator.writing import Writes

QUEUE_INTERVAL_SECONDS: Final = 1.0
"""The numbers of one queue are not written more often. They change with every pod. Its state is written at once."""

JOB_LOOKS: Final = (6, 2.0)
"""The rate of looks at one Volcano Job: so many at once, then so many per second. Each of its pods changes it."""

PODS_OF_A_LOOK: Final = 10_000
"""So many pods of a Volcano Job make a look at it count as one more: its policies cost a glance at each pod."""

LAG_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

KEYS_AT_ONCE: Final = 1000
"""How many keys are queued at the start of writing before others have their turn on the loop.

It takes a few milliseconds.
"""

_log = structlog.get_logger(__name__)


def is_in_use(found: api.ApiObject) -> bool:
    """True if something of an object runs: a Volcano Job that has begun, or a PodGroup."""
    return bool(found.phase) and found.phase not in _AT_REST if isinstance(found, RawJob) else holds_something(found)


_AT_REST: Final = frozenset({"Pending", "Completed", "Failed", "Terminated", "Aborted"})
"""Phases of a Volcano Job that has no pods that run."""


def bytes_of(found: api.ApiObject) -> int | None:
    """Return the estimated size of a kept Volcano Job: its templates as text, and its read fields."""
    return 4 * len(msgspec.json.encode(found)) if isinstance(found, RawJob) else None


_LARGE_JOB: Final = 128 << 10
"""Bytes that are kept of a large Volcano Job: its spec has 32 KiB."""


class ControllerEngine:
    """The controllers at work. `record_event` takes Events; nothing is written before `begin` and after `pause`."""

    def __init__(self, options: ControllerOptions, writer: Writer, record_event: Callable[[RecordEvent], None]) -> None:
        self._options = options
        self._record_event = record_event
        self._is_active = False
        self._reported: dict[str, tuple[str, str]] = {}
        self._written_at: dict[str, float] = {}
        self._pace = RateLimit(*JOB_LOOKS, time.monotonic)
        self.queue = WorkQueue(self._work, lambda: self._is_active, self._failed, self._namespace_of)
        self.store = Store(
            self._dirty, time.time, default_queue=options.default_queue, inherit=options.inherit_owner_annotations
        )
        self.memory_use = MemoryUse(
            options.kept_bytes, is_in_use, bytes_of, _LARGE_JOB, may_go=lambda found: isinstance(found, RawJob)
        )
        self.event_handlers = EventHandlers(options, self.store, record_event, self._dirty, self._forget_job)
        self.writes = Writes(writer, self.store, self.event_handlers, options.workers)
        self.lag = Histogram(LAG_SECONDS)
        self._controllers = {
            POD.name: self._work_on_pod,
            GROUP.name: self._work_on_group,
            QUEUE.name: self._work_on_queue,
            JOB.name: self._work_on_job,
            COMMAND.name: self._work_on_command,
        }

    # -- activity -------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """True if it writes."""
        return self._is_active

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of tables here, in the store and in the queue of work."""
        return {
            **self.store.tables(),
            **self.memory_use.tables(),
            "engine.commands": lambda: len(self.event_handlers.commands),
            "engine.told": lambda: len(self._reported),
            "engine.paces": lambda: len(self._pace),
            "engine.written": lambda: len(self._written_at),
            "work.waiting": lambda: self.queue.size,
        }

    async def begin(self) -> None:
        """Look at all later changes, and at all known objects, some at a time."""
        self._is_active = True
        self._written_at.clear()
        self.queue.wake()
        keys = self._everything()
        while some := list(islice(keys, KEYS_AT_ONCE)):
            for key in some:
                self.queue.add(key)
            await asyncio.sleep(0)

    def _everything(self) -> Iterator[Key]:
        yield from (Key(QUEUE.name, name) for name in self._builtin_queues())
        yield from self.store.everything()
        yield from [Key(COMMAND.name, name) for name in self.event_handlers.commands]

    def pause(self) -> None:
        """Write nothing more."""
        self._is_active = False
        self.queue.clear()

    def _dirty(self, key: Key) -> None:
        if not self._is_active:
            return
        is_job = key.kind == JOB.name and key.name in self.store.jobs  # its pods may tell of one that is gone
        wait = self._pace.wait(key, 1 + self.store.size_of_job(key.name) // PODS_OF_A_LOOK) if is_job else 0.0
        if wait:
            self.queue.add_later(key, wait)
        else:
            self.queue.add(key)

    def _forget_job(self, key: Key) -> None:
        self._reported.pop(key.name, None)
        self._pace.forget(key)
        self.queue.forget(key)

    def _failed(self, key: Key, error: Exception) -> None:
        self.event_handlers.quarantine_key(key, error)

    def _builtin_queues(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((ROOT, self._options.default_queue)))

    def _namespace_of(self, key: Key) -> str:
        pod = self.store.pods.get(key.name) if key.kind == POD.name else None
        return pod.namespace if pod is not None else key.name.rpartition("/")[0]

    def groups_in(self, queue: str) -> int:
        """Return how many PodGroups of a queue have not completed."""
        phases = self.store.pod_group_counts.phases(queue)
        return sum(phases.values()) - phases.get("completed", 0)

    # -- work -----------------------------------------------------------------------------------------------------

    async def _work(self, key: Key) -> None:
        if self._is_ours(key):
            await self._controllers[key.kind](key)
        self.event_handlers.understood(key)

    def _is_ours(self, key: Key) -> bool:
        """True if the controller of a kind is switched on; for a Command, that of its target."""
        if key.kind != COMMAND.name:
            return self._options.looks_after(key.kind)
        command = self.event_handlers.commands.get(key.name)
        kind = command.target.kind if command is not None else ""
        return kind not in (JOB.name, QUEUE.name) or self._options.looks_after(kind)

    async def _work_on_pod(self, key: Key) -> None:
        writes = list(reconcile_pod(self.store, key.name))
        await self.writes.all(writes)
        pod = self.store.pods.get(key.name)
        if writes and pod is not None:
            self.lag.add(self.store.clock() - pod.seen)

    async def _work_on_group(self, key: Key) -> None:
        try:
            await self.writes.all(list(reconcile_group(self.store, key.name)))
        except ApiError as error:
            if not error.is_transient:
                for event in failed_group(self.store, key.name, str(error)):
                    self._record_event(event)
            raise

    async def _work_on_queue(self, key: Key) -> None:
        name = key.name
        queue = self.store.queues.get(name)
        if queue is None:
            self._written_at.pop(name, None)
            if name in self._builtin_queues():
                await self.writes.all([queues.builtin_queue(name)])
            return
        parent = self.store.queues.get(queues.parent_of(queue))
        for write in queues.reconcile(queue, parent, self.store.pod_group_counts.phases(name)):
            left = self._written_at.get(name, -QUEUE_INTERVAL_SECONDS) + QUEUE_INTERVAL_SECONDS - time.monotonic()
            if left > 0 and _is_only_numbers(write):
                self.queue.add_later(key, left)
                return
            await self.writes.all([write])
            self._written_at[name] = time.monotonic()

    async def _work_on_job(self, key: Key) -> None:
        view = self.store.jobs.get(key.name)
        if view is None:
            return
        if self.store.condemn_some(view):
            self.queue.add(key)  # others come first
            return
        now = self.store.clock()
        outcome = job_controller.reconcile(view, self.store.around(view), now, self._options.job_pods_at_once)
        self._report(key.name, outcome.events)
        view.obeyed = outcome.command
        try:
            await self.writes.all(outcome.writes)
        except ApiError as error:
            self._report_failure(view.job, error)
            raise
        current = self.store.jobs.get(key.name)
        if current is None:
            return
        if outcome.prepared is not None:
            current.prepared = outcome.prepared
        if not outcome.room:
            self.queue.add(key)  # others come first
        if outcome.wake_at is not None:
            self.queue.add_later(key, outcome.wake_at - now)

    def _report(self, key: str, events: Sequence[RecordEvent]) -> None:
        """Record a change about a Job. An unchanged refusal is not recorded again."""
        for event in events:
            news = (event.reason, event.message)
            if self._reported.get(key) != news:
                self._reported[key] = news
                self._record_event(event)

    def _report_failure(self, job: api.Job, error: ApiError) -> None:
        """Record that an object of a Job was refused for a reason that its user can change."""
        if error.is_transient and not isinstance(error, ElsewhereError):
            return
        self._record_event(job_controller.failed_create(job, str(error)))

    async def _work_on_command(self, key: Key) -> None:
        """Carry out a Command at most once: it is deleted first, and its deleter carries it out."""
        command = self.event_handlers.commands.get(key.name)
        if command is None:
            return
        meta, target = command.metadata, command.target
        was_there = await self.writes.one(Delete(COMMAND, meta.namespace, meta.name, meta.uid))
        self.event_handlers.commands.pop(key.name, None)
        if not was_there:
            return
        why_not = commands.why_not(command, self.store, self._options.command_namespaces)
        _log.info("command", action=command.action, target=f"{target.kind}/{target.name}", refused=why_not)
        if why_not:
            self._record_event(commands.refused(command, why_not))
        elif target.kind == JOB.name:
            self.store.jobs[f"{meta.namespace}/{target.name}"].command = command.action
            self.queue.add(Key(JOB.name, f"{meta.namespace}/{target.name}"))
        else:
            await self.writes.all(list(queues.commanded(self.store.queues[target.name], command.action)))


def _is_only_numbers(write: Write) -> bool:
    """True if a write to a queue has only counts and amounts."""
    return isinstance(write, Patch) and write.subresource == "status" and "state" not in write.body["status"]
