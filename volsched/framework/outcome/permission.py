"""Refusals of jobs that may not use their queue, or have a rule that volsched cannot keep. Plugins have no vote.

Such a job (``JobInfo.blocked``) is neither admitted nor placed, reserves nothing and evicts nothing. It keeps what it
holds, and that counts.
"""

from __future__ import annotations

from typing import Final

from volsched.model import unserved
from volsched.model.job import INQUEUE, PENDING, JobInfo
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict

QUEUE_NOT_ALLOWED: Final = "QueueNotAllowed"
_BARRING: Final = unserved.REASONS | {QUEUE_NOT_ALLOWED}


def not_allowed(job: JobInfo) -> Verdict | None:
    """Return why a job is not looked at, None when it is."""
    if not job.blocked:
        return None
    if job.spec.unserved is not None and not job.superseded:
        return job.spec.unserved
    step = Step.ENQUEUE if job.spec.has_group and job.phase in ("", PENDING) else Step.ALLOCATABLE
    shown_as = ConditionReason.QUEUE_NOT_ALLOWED
    return Verdict(step, "", Scope.JOB, QUEUE_NOT_ALLOWED, job.blocked, resolvable=False, shown_as=shown_as)


def is_barring(refusal: Verdict | None) -> bool:
    """True if a job has the refusal of a blocked job."""
    return refusal is not None and refusal.reason in _BARRING


def wants_its_queue(job: JobInfo) -> bool:
    """True if a job wants something of its queue: to be admitted, or a node for a pod."""
    if job.superseded:
        return False
    if job.waiting:
        return job.spec.has_group or job.spec.implicit
    return job.spec.has_group and job.phase in ("", PENDING, INQUEUE)
