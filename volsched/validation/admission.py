"""The answers of admission: the rules of `volsched validate` for one request to the API server.

No object is locked. An old fault that stays only warns, so an object that became wrong (its queue was closed, a rule is
new) can still be changed, labelled and freed of finalizers; a terminating object is not judged at all. The scheduler
checks every object again, also those that no webhook saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from volsched.controllers.grouping import DEFAULT_QUEUE
from volsched.framework.config.loading import PREFERRED_KEYS, find_in_data
from volsched.framework.validation import REQUIRED, WRONG_TYPE, Fault, Faults, Severity, Surroundings
from volsched.model import api
from volsched.model.errors import ConfigError, ObjectError, shortened
from volsched.model.queues.kept_queue import QUEUE_KEPT
from volsched.validation.fields import field_faults
from volsched.validation.objects import faults_of, read_object
from volsched.validation.queues import deletion_faults

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"

MOST_REPORTED: Final = 20
"""Faults, and warnings, that one answer names. The rest is a number."""

LONGEST_MESSAGE: Final = 1000
"""Letters of each."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """The request; `new` is absent from a deletion, `old` from a creation."""

    operation: str
    new: Json | None = None
    old: Json | None = None


@dataclass(frozen=True, slots=True)
class AdmissionContext:
    """The objects beside a request, and the unfinished PodGroups in a queue.

    ``unknown_field`` is the severity of an unknown field.
    """

    beside: Surroundings
    groups_in: Callable[[str], int] = lambda _: 0
    unknown_field: Severity = "warning"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer: refused when there are `errors`, which state why. `warnings` are shown to the user either way."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """True if the request is allowed."""
        return not self.errors

    @property
    def message(self) -> str:
        """Return why it is refused, in one line."""
        return "; ".join(self.errors)


ALLOWED: Final = Judgement()


def judge(request: AdmissionRequest, world: AdmissionContext) -> Judgement:
    """Return whether a request is allowed. Raises ConfigError if an installed validator cannot be loaded."""
    if request.operation == DELETE:
        return _judge_deletion(request.old, world)
    if request.new is None or _is_being_deleted(request.new):
        return ALLOWED
    known = set(_faults(request.old, world)) if request.old is not None else set()
    errors: list[Fault] = []
    warnings: list[Fault] = []
    for fault in dict.fromkeys((*_faults(request.new, world), *_move_faults(request.old, request.new))):
        (errors if fault.severity == "error" and fault not in known else warnings).append(fault)
    return _judgement(request.new, errors, warnings)


def _judge_deletion(old: Json | None, world: AdmissionContext) -> Judgement:
    if old is None:
        return ALLOWED
    try:
        found = api.decode_object(old)
    except ObjectError:
        return ALLOWED  # what cannot be read may go
    if not isinstance(found, api.Queue):
        return ALLOWED
    name = found.metadata.name
    return _judgement(old, list(deletion_faults(found, world.beside.queues, world.groups_in(name))), [])


def _faults(raw: Json, world: AdmissionContext) -> Faults:
    try:
        found = read_object(raw)
    except ObjectError as error:
        yield Fault(error.field.removeprefix("$").removeprefix("."), WRONG_TYPE, error.message)
        return
    if isinstance(found, api.ConfigMap):
        yield from _absence(found)
    yield from faults_of(found, world.beside)
    yield from field_faults(raw, world.unknown_field)


def _move_faults(old: Json | None, new: Json) -> Faults:
    """Yield that a PodGroup names another queue while its pods run, which does not move them."""
    try:
        before, now = api.decode_object(old or {}), api.decode_object(new)
    except ObjectError:
        return
    if isinstance(before, api.PodGroup) and isinstance(now, api.PodGroup) and before.status.running:
        queue, named = (found.spec.queue or DEFAULT_QUEUE for found in (before, now))
        if queue != named:
            words = f'{before.status.running} of its pods run and count in queue "{queue}"'
            message = f'{words}: it moves to queue "{named}" once none of them runs'
            yield Fault("spec.queue", QUEUE_KEPT, message, "warning")


def _absence(found: api.ConfigMap) -> Faults:
    """Yield that the scheduler's own ConfigMap holds nothing for it."""
    try:
        key = find_in_data(found.data)
    except ConfigError:
        return
    if key is None:
        yield Fault("data", REQUIRED, f"holds no scheduler configuration; put it under {PREFERRED_KEYS[0]}")


def _is_being_deleted(raw: Json) -> bool:
    metadata = raw.get("metadata")
    return isinstance(metadata, Mapping) and bool(metadata.get("deletionTimestamp"))


# --- words ----------------------------------------------------------------------------------------------------------


def _judgement(raw: Json, errors: Iterable[Fault], warnings: Iterable[Fault]) -> Judgement:
    subject = subject_of(raw)
    return Judgement(tuple(_lines(subject, errors)), tuple(_lines(subject, warnings)))


def _lines(subject: str, faults: Iterable[Fault]) -> Iterable[str]:
    listed = list(faults)
    for fault in listed[:MOST_REPORTED]:
        where = f"{subject}: {fault.field}" if fault.field else subject
        yield shortened(f"{where}: {fault.message} [{fault.code}]", LONGEST_MESSAGE)
    if len(listed) > MOST_REPORTED:
        yield f"{subject}: {len(listed) - MOST_REPORTED} more"


def subject_of(raw: Json) -> str:
    """Return `Kind/namespace/name` as a user wrote it. A name that the API server is to make ends in `*`."""
    metadata = raw.get("metadata")
    found = metadata if isinstance(metadata, Mapping) else {}
    name = found.get("name") or (f"{found['generateName']}*" if found.get("generateName") else "")
    parts = (raw.get("kind"), found.get("namespace"), name)
    return "/".join(shortened(str(part), 253) for part in parts if part)
