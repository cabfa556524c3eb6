"""Reads a user's Volcano Job for the controllers; faults become messages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from volsched.controllers import jobs
from volsched.controllers.counted import FIELD, counted_in
from volsched.controllers.job_controller import JobView
from volsched.controllers.job_parts import parts_of
from volsched.controllers.job_pods import PodMaker
from volsched.controllers.objects import GivenJob
from volsched.model import api
from volsched.model.errors import FieldError, shortened
from volsched.validation.jobs import LONGEST_PROBLEM, job_problem

Json = dict[str, Any]

MOST_BYTES: Final = 256 * 1024
"""The largest spec of a Job, as JSON: it is read within a tenth of a second whatever is in it.

A hundred tasks of some size fit. The API server takes six times as much.
"""


def job_view(
    raw: Json,
    scheduler_names: tuple[str, ...],
    default_queue: str,
    most_bytes: int = MOST_BYTES,
    known: JobView | None = None,
) -> JobView:
    """Return a Volcano Job. An unreadable, wrong, or too large one is only a message.

    The status changes with every pod, so a spec and metadata as `known` has them are not read again.
    """
    unread = api.Job(metadata=api.identity_of(raw))
    spec = msgspec.json.encode(raw.get("spec"))
    if len(spec) > most_bytes:
        message = f"spec: has {len(spec) // 1024} KiB, more than the {most_bytes // 1024} KiB that are looked at"
        return JobView(unread, too_large=f"{message}; make more Jobs, or start volsched with --job-bytes={len(spec)}")
    try:
        digest = _digest(spec, raw)
        if known is not None and known.digest == digest:
            return _with_status_of(known, raw)
        view = _read(raw, scheduler_names, default_queue)
    except FieldError as error:
        return JobView(unread, problem=f"{error.path}: {shortened(error.message, LONGEST_PROBLEM)}")
    view.digest = digest
    return view


def _digest(spec: bytes, raw: Json) -> bytes:
    """Return a digest of all of a Job but its version and its status."""
    meta = api.convert({"metadata": api.as_json(raw.get("metadata"))}, api.ApiObject).metadata
    text = msgspec.json.encode(msgspec.structs.replace(meta, resource_version=""))
    return hashlib.sha256(spec + b"\n" + text).digest()


def _with_status_of(known: JobView, raw: Json) -> JobView:
    """Return a known Job at another version: its status is another one."""
    job = known.job
    meta = msgspec.structs.replace(job.metadata, resource_version=api.identity_of(raw).resource_version)
    if known.problem or known.too_large or known.foreign:
        return JobView(
            msgspec.structs.replace(job, metadata=meta),
            problem=known.problem,
            too_large=known.too_large,
            foreign=known.foreign,
            digest=known.digest,
        )
    read = api.convert(api.as_json({"status": raw.get("status")}), api.Job).status
    status = _status(raw)
    return JobView(
        msgspec.structs.replace(job, metadata=meta, status=read),
        known.parts,
        status,
        counted=counted_in(status.get(FIELD)),
        digest=known.digest,
    )


def _read(raw: Json, scheduler_names: tuple[str, ...], default_queue: str) -> JobView:
    """Return a Volcano Job that is not too large; raises FieldError."""
    read = api.as_json(raw)
    job, given = api.convert(read, api.Job), api.convert(read, GivenJob)
    default = "volcano" if "volcano" in scheduler_names else scheduler_names[0]
    excess, meta = jobs.too_much_handed_on(job.metadata), jobs.with_what_is_handed_on(job.metadata)
    job = jobs.with_defaults(msgspec.structs.replace(job, metadata=meta), default, default_queue)
    problem = job_problem(job)
    if problem:
        return JobView(jobs.identity_only(job), problem=problem)
    named = (job.spec.scheduler_name, *(task.template.spec.scheduler_name for task in job.spec.tasks))
    foreign = next((name for name in named if name and name not in scheduler_names), "")
    if foreign:
        return JobView(jobs.identity_only(job), foreign=shortened(foreign))
    parts = parts_of(raw["spec"], given)
    maker = PodMaker(job, parts)
    misnamed, too_large = maker.misnamed(), excess or maker.too_large()
    if misnamed or too_large:
        return JobView(jobs.identity_only(job), problem=misnamed, too_large=too_large)
    status = _status(raw)
    return JobView(job, parts, status, counted=counted_in(status.get(FIELD)))


def _status(raw: Json) -> Json:
    """Return a Job's status at the API server, without impossible values."""
    found = raw.get("status")
    status = dict(found) if isinstance(found, Mapping) else {}
    conditions = status.get("conditions")
    history = conditions if isinstance(conditions, list) else []
    return status | {"conditions": [entry for entry in history if isinstance(entry, Mapping)]}
