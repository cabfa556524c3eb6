"""Turns changes into writes: keeps the store, asks the controllers about what changed, has their writes carried out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, Final

import structlog

from volsched.controllers import commands, job_controller, queues
from volsched.controllers.group_controller import failed_group, reconcile_group, reconcile_pod
from volsched.controllers.objects import Command, RawJob
from volsched.controllers.store import Key, Store
from volsched.controllers.writes import COMMAND, GROUP, JOB, POD, QUEUE, Condemn, Delete, Kind, Patch, Write
from volsched.kube.errors import ApiError, ElsewhereError, FenceError
from volsched.kube.serve.histogram import Histogram
from volsched.mirror.quarantine import (
    DECODING,
    MIRROR,
    RECONCILING,
    Quarantine,
    SetAside,
    identity_of,
    said_of,
    stopped_by,
    unreadable,
)
from volsched.model import api
from volsched.model.changes import Change, Gone, Put, Unreadable
from volsched.model.errors import ObjectError
from volsched.model.plan import Tell
from volsched.model.queues.queue import ROOT
from volsched.model.values import json_text
from volsched.model.values.bounded import Size
from volsched.operator.options import Options
from volsched.operator.reading import job_view
from volsched.operator.work import Pace, WorkQueue
from volsched.operator.writer import Writer

QUEUE_INTERVAL_SECONDS: Final = 1.0
"""The numbers of one queue are not written more often; they change with every pod. Its state is written at once."""

JOB_LOOKS: Final = (6, 2.0)
"""How often one Volcano Job is looked at: so often at once, then so often in a second. Each of its pods changes it."""

LAG_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

KEYS_AT_ONCE: Final = 1000
"""Of all that is known when writing begins, so many are put into the queue before others have their turn on the loop:
a few milliseconds."""

KINDS: Final = {kind.name: kind for kind in (POD, GROUP, QUEUE, JOB, COMMAND)}

_STRUCTS: Final[dict[str, type[api.ApiObject]]] = {POD.name: api.Pod, GROUP.name: api.PodGroup, QUEUE.name: api.Queue}

Json = dict[str, Any]

_SHARE: Final = 4
"""The part of all writes at once that may be of one object: one in so many."""

_log = structlog.get_logger(__name__)


class Engine:
    """The controllers at work. `tell` takes Events; nothing is written before `begin` and after `pause`."""

    def __init__(self, options: Options, writer: Writer, tell: Callable[[Tell], None]) -> None:
        self._options = options
        self._writer = writer
        self._tell = tell
        self._is_active = False
        self._told: dict[str, tuple[str, str]] = {}
        self._written_at: dict[str, float] = {}
        self._commands: dict[str, Command] = {}
        self._at_once = asyncio.Semaphore(options.workers)
        self._pace = Pace(*JOB_LOOKS, time.monotonic)
        self.quarantine = Quarantine()
        self.queue = WorkQueue(self._work, lambda: self._is_active, self._work_failed, self._namespace_of)
        self.store = Store(
            self._dirty, time.time, default_queue=options.default_queue, inherit=options.inherit_owner_annotations
        )
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
        """Whether it writes."""
        return self._is_active

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of what is kept here, in the store and in the queue of work."""
        return {
            **self.store.tables(),
            "engine.commands": lambda: len(self._commands),
            "engine.told": lambda: len(self._told),
            "engine.paces": lambda: len(self._pace),
            "engine.written": lambda: len(self._written_at),
            "work.waiting": lambda: self.queue.size,
        }

    async def begin(self) -> None:
        """Look at whatever changes from now on, and at everything that is known; it is found out some at a time."""
        self._is_active = True
        self._written_at.clear()
        self.queue.wake()
        keys = self._everything()
        while some := list(islice(keys, KEYS_AT_ONCE)):
            for key in some:
                self.queue.add(key)
            await asyncio.sleep(0)

    def _everything(self) -> Iterator[Key]:
        yield from (Key(QUEUE.name, name) for name in self._standing_queues())
        yield from self.store.everything()
        yield from [Key(COMMAND.name, name) for name in self._commands]

    def pause(self) -> None:
        """Write nothing more."""
        self._is_active = False
        self.queue.clear()

    def _dirty(self, key: Key) -> None:
        if not self._is_active:
            return
        is_job = key.kind == JOB.name and key.name in self.store.jobs  # its pods may tell of one that is gone
        wait = self._pace.wait(key) if is_job else 0.0
        if wait:
            self.queue.add_later(key, wait)
        else:
            self.queue.add(key)

    def _standing_queues(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((ROOT, self._options.default_queue)))

    # -- changes --------------------------------------------------------------------------------------------------

    def observe(self, changes: Sequence[Change]) -> None:
        """Take in what an informer found."""
        for change in changes:
            self._guarded(self._observe, change)

    def observe_jobs(self, changes: Sequence[Change]) -> None:
        """Take in what the informer of Volcano Jobs found."""
        for change in changes:
            match change:
                case Put(RawJob() as found):
                    self.see(JOB, True, found.as_json())
                case Gone():
                    identity = {"namespace": change.namespace, "name": change.name, "uid": change.uid}
                    self.see(JOB, False, {"metadata": identity})
                case Unreadable():
                    self._set_aside(unreadable(change))

    def _guarded(self, take: Callable[[Change], None], change: Change) -> None:
        """Take a change in; what fails over an object ends with that object."""
        try:
            take(change)
        except Exception as error:
            self._set_aside(stopped_by(change, error))
        else:
            identity = identity_of(change)
            if self.quarantine and identity is not None:
                self.quarantine.drop(identity)

    def _work_failed(self, key: Key, error: Exception) -> None:
        namespace, name, uid = self._identity(key)
        if not uid:
            _log.error(
                "a controller failed over an object that is gone", kind=key.kind, object=key.name, exc_info=error
            )
            return
        whose = (key.kind, KINDS[key.kind].group_version, namespace, name, uid)
        self._set_aside(SetAside(*whose, RECONCILING, said_of(error), error=error))

    def _namespace_of(self, key: Key) -> str:
        pod = self.store.pods.get(key.name) if key.kind == POD.name else None
        return pod.namespace if pod is not None else key.name.rpartition("/")[0]

    def _identity(self, key: Key) -> tuple[str, str, str]:
        """Return namespace, name and uid of the object that a key stands for."""
        if key.kind == POD.name and (pod := self.store.pods.get(key.name)) is not None:
            return pod.namespace, pod.name, pod.uid
        namespace, _, name = key.name.rpartition("/")
        known: dict[str, Callable[[], api.ApiObject | None]] = {
            GROUP.name: lambda: self.store.groups.get(key.name),
            QUEUE.name: lambda: self.store.queues.get(key.name),
            JOB.name: lambda: view.job if (view := self.store.jobs.get(key.name)) is not None else None,
        }
        found = known.get(key.kind, lambda: None)()
        return namespace, name, found.metadata.uid if found is not None else ""

    def _set_aside(self, found: SetAside | None) -> None:
        """Say once of an object that it is set aside."""
        if found is None:
            return
        self.quarantine.add(found)
        for failed in self.quarantine.take_errors():
            where = f"{failed.namespace}/{failed.name}"
            _log.error("an object is set aside", kind=failed.kind, object=where, exc_info=failed.error)
        for news in self.quarantine.take_news():
            self._tell(news.tell())

    def _set_aside_quietly(self, found: SetAside) -> None:
        """Set an object aside of a kind that the scheduler follows as well: it tells."""
        self.quarantine.add(found)
        self.quarantine.take_news()

    def _observe(self, change: Change) -> None:
        match change:
            case Put(found):
                self.store.put(found)
            case Gone():
                self.store.gone(change)
            case Unreadable():
                self._set_aside_quietly(unreadable(change))

    def see(self, kind: Kind, is_there: bool, raw: Json) -> None:
        """Take in what kopf, or an answer to a write, shows."""
        meta = api.identity_of(raw)
        try:
            self._see(kind, is_there, raw, meta)
        except Exception as error:
            whose = (kind.name, kind.group_version, meta.namespace, meta.name, meta.uid)
            self._set_aside(SetAside(*whose, MIRROR, said_of(error), error=error))
        else:
            if not is_there:
                self.quarantine.drop((kind.name, meta.namespace, meta.name))

    def _see(self, kind: Kind, is_there: bool, raw: Json, meta: api.ObjectMeta) -> None:
        if kind is QUEUE:
            self._see_queue(is_there, raw, Gone(QUEUE.name, "", meta.name, meta.uid))
        elif kind is JOB:
            self._see_job(is_there, raw, f"{meta.namespace}/{meta.name}", meta.uid)
        else:
            self._see_command(is_there, raw, f"{meta.namespace}/{meta.name}")

    def _see_queue(self, is_there: bool, raw: Json, gone: Gone) -> None:
        if not is_there:
            self.store.gone(gone)
            return
        try:
            self.store.put(api.decode_as(api.Queue, raw))
        except ObjectError as error:
            self._set_aside_quietly(_undecodable(error, QUEUE, api.identity_of(raw)))

    def _see_job(self, is_there: bool, raw: Json, key: str, uid: str) -> None:
        if is_there:
            options = self._options
            view = job_view(raw, options.scheduler_names, options.default_queue, options.job_bytes)
            self.store.put_job(key, view)
        else:
            self._drop_job(key, uid)

    def _drop_job(self, key: str, uid: str) -> None:
        self.store.drop_job(key, uid)
        self._told.pop(key, None)
        self._pace.forget(Key(JOB.name, key))
        self.queue.forget(Key(JOB.name, key))

    def _see_command(self, is_there: bool, raw: Json, key: str) -> None:
        if not is_there:
            self._commands.pop(key, None)
            return
        try:
            self._commands[key] = api.decode_as(Command, raw)
        except ObjectError as error:
            self._set_aside(_undecodable(error, COMMAND, api.identity_of(raw)))
        else:
            self._dirty(Key(COMMAND.name, key))

    def groups_in(self, queue: str) -> int:
        """Return how many PodGroups of a queue have not completed."""
        phases = self.store.books.phases(queue)
        return sum(phases.values()) - phases.get("completed", 0)

    # -- work -----------------------------------------------------------------------------------------------------

    async def _work(self, key: Key) -> None:
        if self._is_ours(key):
            await self._controllers[key.kind](key)
        if self.quarantine:
            namespace, name, _ = self._identity(key)
            self.quarantine.drop((key.kind, namespace, name))

    def _is_ours(self, key: Key) -> bool:
        """Whether the controller of a kind is switched on; a Command is the business of its target's."""
        if key.kind != COMMAND.name:
            return self._options.looks_after(key.kind)
        command = self._commands.get(key.name)
        kind = command.target.kind if command is not None else ""
        return kind not in (JOB.name, QUEUE.name) or self._options.looks_after(kind)

    async def _work_on_pod(self, key: Key) -> None:
        writes = list(reconcile_pod(self.store, key.name))
        await self._write_all(writes)
        pod = self.store.pods.get(key.name)
        if writes and pod is not None:
            self.lag.add(self.store.clock() - pod.seen)

    async def _work_on_group(self, key: Key) -> None:
        try:
            await self._write_all(list(reconcile_group(self.store, key.name)))
        except ApiError as error:
            if not error.is_transient:
                for tell in failed_group(self.store, key.name, str(error)):
                    self._tell(tell)
            raise

    async def _work_on_queue(self, key: Key) -> None:
        name = key.name
        queue = self.store.queues.get(name)
        if queue is None:
            self._written_at.pop(name, None)
            if name in self._standing_queues():
                await self._write_all([queues.standing_queue(name)])
            return
        parent = self.store.queues.get(queues.parent_of(queue))
        for write in queues.reconcile(queue, parent, self.store.books.phases(name)):
            left = self._written_at.get(name, -QUEUE_INTERVAL_SECONDS) + QUEUE_INTERVAL_SECONDS - time.monotonic()
            if left > 0 and _is_only_numbers(write):
                self.queue.add_later(key, left)
                return
            await self._write_all([write])
            self._written_at[name] = time.monotonic()

    async def _work_on_job(self, key: Key) -> None:
        view = self.store.jobs.get(key.name)
        if view is None:
            return
        now = self.store.clock()
        outcome = job_controller.reconcile(view, self.store.around(view), now, self._options.job_pods_at_once)
        self._say(key.name, outcome.tells)
        try:
            await self._write_all(outcome.writes)
        except ApiError as error:
            self._say_failure(view.job, error)
            raise
        current = self.store.jobs.get(key.name)
        if current is None:
            return
        if outcome.acted:
            current.losses, current.command = {}, ""
        if outcome.prepared is not None:
            current.prepared = outcome.prepared
        if not outcome.room:
            self.queue.add(key)  # others come first
        if outcome.wake_at is not None:
            self.queue.add_later(key, outcome.wake_at - now)

    def _say(self, key: str, tells: Sequence[Tell]) -> None:
        """Tell what is new about a Job; a refusal that stands is not told again with every look."""
        for tell in tells:
            said = (tell.reason, tell.message)
            if self._told.get(key) != said:
                self._told[key] = said
                self._tell(tell)

    def _say_failure(self, job: api.Job, error: ApiError) -> None:
        """Tell that something a Job needs was refused for a reason that its user can do something about."""
        if error.is_transient and not isinstance(error, ElsewhereError):
            return
        self._tell(job_controller.failed_create(job, str(error)))

    async def _work_on_command(self, key: Key) -> None:
        """Carry out a Command: it is deleted first, so that it is carried out at most once, by whoever did that."""
        command = self._commands.get(key.name)
        if command is None:
            return
        meta, target = command.metadata, command.target
        was_there = await self._write(Delete(COMMAND, meta.namespace, meta.name, meta.uid))
        self._commands.pop(key.name, None)
        if not was_there:
            return
        why_not = commands.why_not(command, self.store, self._options.command_namespaces)
        _log.info("command", action=command.action, target=f"{target.kind}/{target.name}", refused=why_not)
        if why_not:
            self._tell(commands.refused(command, why_not))
        elif target.kind == JOB.name:
            self.store.jobs[f"{meta.namespace}/{target.name}"].command = command.action
            self.queue.add(Key(JOB.name, f"{meta.namespace}/{target.name}"))
        else:
            await self._write_all(list(queues.commanded(self.store.queues[target.name], command.action)))

    # -- writes ---------------------------------------------------------------------------------------------------

    async def _write_all(self, writes: Sequence[Write]) -> None:
        """Carry writes out in order; those of one kind that follow each other go some at a time.

        The first that is refused stops those that have not begun: the next would be refused, too. That somebody else
        has what was to be made is about that one alone. One object has a share of all writes at once: the two pods of a
        small Job do not stand in line behind the hundreds of a large one.
        """
        share = asyncio.Semaphore(max(1, self._options.workers // _SHARE))
        for _, alike in groupby(writes, key=lambda write: (type(write), getattr(write, "kind", None))):
            together = list(alike)
            if len(together) == 1:
                await self._write(together[0])
                continue
            refused = asyncio.Event()
            results = await asyncio.gather(
                *(self._write_some(write, refused, share) for write in together), return_exceptions=True
            )
            for failed in _errors(results):
                raise failed

    async def _write_some(self, write: Write, refused: asyncio.Event, share: asyncio.Semaphore) -> None:
        async with share, self._at_once:
            if refused.is_set():
                return
            try:
                await self._write(write)
            except ElsewhereError:
                raise
            except (ApiError, FenceError):
                refused.set()
                raise

    async def _write(self, write: Write) -> bool:
        """Carry out a write; return whether there was anything to write to."""
        if isinstance(write, Condemn):
            for uid in write.uids:
                self._kill(uid)
            return True
        if isinstance(write, Delete) and write.kind is POD:
            answer = await self._delete_pod(write)
        else:
            answer = await self._writer.write(write)
        if answer:
            self._take_in(write.kind, answer)
        elif answer is None and isinstance(write, Patch):
            self._lost(write)
        return answer is not None

    async def _delete_pod(self, write: Delete) -> bytes | None:
        """Delete a pod; that it goes is known before anybody sees it, and that it is to, until it was asked."""
        self._kill(write.uid)
        answer = await self._writer.write(write)
        roster = self.store.roster_of(write.uid)
        if roster is not None:
            roster.asked(write.uid)
        return answer

    def _kill(self, uid: str) -> None:
        roster = self.store.roster_of(uid)
        if roster is not None:
            roster.kill(uid)

    def _take_in(self, kind: Kind, answer: bytes) -> None:
        """See at once what was written, and not only when the watch shows it."""
        struct = _STRUCTS.get(kind.name)
        if kind is JOB:
            self.see(JOB, True, json_text.decode(answer))
        elif struct is not None:
            self.store.put(api.decode_text(struct, answer))

    def _lost(self, write: Patch) -> None:
        """Forget what is not there any more; kopf does not say so when it was away meanwhile."""
        if write.kind is QUEUE and (queue := self.store.queues.get(write.name)) is not None:
            self.store.gone(Gone(QUEUE.name, "", write.name, queue.metadata.uid))
        elif write.kind is JOB and (job := self.store.jobs.get(f"{write.namespace}/{write.name}")) is not None:
            self._drop_job(f"{write.namespace}/{write.name}", job.job.metadata.uid)


def _undecodable(error: ObjectError, kind: Kind, meta: api.ObjectMeta) -> SetAside:
    why = f"{error.field.removeprefix('$.')}: {error.message}"
    return SetAside(kind.name, kind.group_version, meta.namespace, meta.name, meta.uid, DECODING, why)


def _is_only_numbers(write: Write) -> bool:
    """Whether a write to a queue says nothing but counts and amounts."""
    return isinstance(write, Patch) and write.subresource == "status" and "state" not in write.body["status"]


def _errors(results: Sequence[object]) -> Iterator[BaseException]:
    yield from (result for result in results if isinstance(result, BaseException))
