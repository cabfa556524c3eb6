"""Passes changes of watches, kopf's events, and answers to writes to the store.

A failure over one object ends with that object: it is quarantined, and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import structlog

from volsched.controllers.objects import Command, RawJob
from volsched.controllers.store import Key, Store
from volsched.controllers.writes import COMMAND, GROUP, JOB, POD, QUEUE, ApiKind
from volsched.mirror.events import MirrorEvents
from volsched.mirror.quarantine import (
    DECODING,
    MEMORY,
    MIRROR,
    RECONCILING,
    Quarantine,
    QuarantinedObject,
    identity_of,
    message_of,
    refused,
    stopped_by,
    unreadable,
)
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put, Refused, Unreadable
from volsched.model.errors import ObjectError
from volsched.model.plan import RecordEvent
from volsched.operator.options import ControllerOptions
from volsched.operator.reading import job_view

KINDS: Final = {kind.name: kind for kind in (POD, GROUP, QUEUE, JOB, COMMAND)}

Json = dict[str, Any]

_log = structlog.get_logger(__name__)


class EventHandlers:
    """Feeds a store. ``changed`` takes the keys of Commands, ``on_job_deleted`` those of Volcano Jobs that are gone."""

    def __init__(
        self,
        options: ControllerOptions,
        store: Store,
        record_event: Callable[[RecordEvent], None],
        changed: Callable[[Key], None],
        on_job_deleted: Callable[[Key], None],
    ) -> None:
        self._options = options
        self._store = store
        self._record_event = record_event
        self._changed = changed
        self._on_job_deleted = on_job_deleted
        self._events = MirrorEvents()
        self.quarantine = Quarantine(self._events)
        self.commands: dict[str, Command] = {}

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
                case Deleted():
                    identity = {"namespace": change.namespace, "name": change.name, "uid": change.uid}
                    self.see(JOB, False, {"metadata": identity})
                case Unreadable():
                    self._quarantine_object(unreadable(change))
                case Refused():
                    self._observe(change)

    def see(self, kind: ApiKind, is_there: bool, raw: Json) -> None:
        """Take in what kopf, or an answer to a write, shows."""
        meta = api.identity_of(raw)
        try:
            self._see(kind, is_there, raw, meta)
        except Exception as error:
            whose = (kind.name, kind.group_version, meta.namespace, meta.name, meta.uid)
            self._quarantine_object(QuarantinedObject(*whose, MIRROR, message_of(error), error=error))
        else:
            if not is_there:
                self.quarantine.drop((kind.name, meta.namespace, meta.name))

    def drop_job(self, key: str, uid: str) -> None:
        """Forget a Volcano Job, and what is kept beside it."""
        self._store.drop_job(key, uid)
        self._on_job_deleted(Key(JOB.name, key))

    def quarantine_key(self, key: Key, error: Exception) -> None:
        """Set the object aside over which a controller failed."""
        namespace, name, uid = self.identity(key)
        if not uid:
            _log.error(
                "a controller failed over an object that is gone", kind=key.kind, object=key.name, exc_info=error
            )
            return
        whose = (key.kind, KINDS[key.kind].group_version, namespace, name, uid)
        self._quarantine_object(QuarantinedObject(*whose, RECONCILING, message_of(error), error=error))

    def understood(self, key: Key) -> None:
        """End the quarantine of the object of a key: its controller has done its work."""
        if self.quarantine:
            namespace, name, _ = self.identity(key)
            identity = (key.kind, namespace, name)
            if self.quarantine.where_of(identity) != MEMORY:
                self.quarantine.drop(identity)

    def identity(self, key: Key) -> tuple[str, str, str]:
        """Return namespace, name and uid of the object that a key stands for."""
        if key.kind == POD.name and (pod := self._store.pods.get(key.name)) is not None:
            return pod.namespace, pod.name, pod.uid
        namespace, _, name = key.name.rpartition("/")
        known: dict[str, Callable[[], api.ApiObject | None]] = {
            GROUP.name: lambda: self._store.groups.get(key.name),
            QUEUE.name: lambda: self._store.queues.get(key.name),
            JOB.name: lambda: view.job if (view := self._store.jobs.get(key.name)) is not None else None,
        }
        found = known.get(key.kind, lambda: None)()
        return namespace, name, found.metadata.uid if found is not None else ""

    def _guarded(self, take: Callable[[Change], None], change: Change) -> None:
        """Take a change in. A failure over an object ends with that object."""
        try:
            take(change)
        except Exception as error:
            self._quarantine_object(stopped_by(change, error))
        else:
            identity = identity_of(change)
            if self.quarantine and identity is not None:
                self.quarantine.drop(identity)

    def _observe(self, change: Change) -> None:
        match change:
            case Put(found):
                self._store.put(found)
            case Deleted():
                self._store.gone(change)
            case Unreadable():
                self._quarantine_quietly(unreadable(change))
            case Refused():
                self._store.refuse(change)
                self._quarantine_object(refused(change))

    def _see(self, kind: ApiKind, is_there: bool, raw: Json, meta: api.ObjectMeta) -> None:
        if kind is QUEUE:
            self._see_queue(is_there, raw, Deleted(QUEUE.name, "", meta.name, meta.uid))
        elif kind is JOB:
            self._see_job(is_there, raw, f"{meta.namespace}/{meta.name}", meta.uid)
        else:
            self._see_command(is_there, raw, f"{meta.namespace}/{meta.name}")

    def _see_queue(self, is_there: bool, raw: Json, gone: Deleted) -> None:
        if not is_there:
            self._store.gone(gone)
            return
        try:
            self._store.put(api.decode_as(api.Queue, raw))
        except ObjectError as error:
            self._quarantine_quietly(_undecodable(error, QUEUE, api.identity_of(raw)))

    def _see_job(self, is_there: bool, raw: Json, key: str, uid: str) -> None:
        if is_there:
            options, known = self._options, self._store.jobs.get(key)
            if known is not None and known.is_at(api.identity_of(raw)):
                return  # its watch shows what the answer to a write has shown
            view = job_view(raw, options.scheduler_names, options.default_queue, options.job_bytes, known)
            self._store.put_job(key, view)
        else:
            self.drop_job(key, uid)

    def _see_command(self, is_there: bool, raw: Json, key: str) -> None:
        if not is_there:
            self.commands.pop(key, None)
            return
        try:
            found = api.decode_as(Command, raw)
            self.commands[key] = msgspec.structs.replace(found, metadata=api.identity_of(raw))
        except ObjectError as error:
            self._quarantine_object(_undecodable(error, COMMAND, api.identity_of(raw)))
        else:
            self._changed(Key(COMMAND.name, key))

    def _quarantine_object(self, found: QuarantinedObject | None) -> None:
        """Report once of an object that it is set aside."""
        if found is None:
            return
        self.quarantine.add(found)
        for failed in self.quarantine.take_errors():
            where = f"{failed.namespace}/{failed.name}"
            _log.error("an object is set aside", kind=failed.kind, object=where, exc_info=failed.error)
        for event in self._events.take():
            self._record_event(event)

    def _quarantine_quietly(self, found: QuarantinedObject) -> None:
        """Set an object aside of a kind that the scheduler follows as well: it tells."""
        self.quarantine.add(found)
        self._events.take()


def _undecodable(error: ObjectError, kind: ApiKind, meta: api.ObjectMeta) -> QuarantinedObject:
    why = f"{error.field.removeprefix('$.')}: {error.message}"
    return QuarantinedObject(kind.name, kind.group_version, meta.namespace, meta.name, meta.uid, DECODING, why)
