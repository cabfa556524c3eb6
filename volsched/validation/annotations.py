"""Faults of Volcano's annotations and labels of pods and workloads that the scheduler and controllers read.

They are free texts to the API server, and readers replace nonsense by some value; these warnings state the value, and
the keys that are not read at all. Validators of plugins check their own annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from volsched.controllers.grouping import GROUP_MIN_MEMBER, min_member_in
from volsched.framework.validation import INVALID, NOT_SUPPORTED, WORKLOADS, Faults, pods_in, warning
from volsched.mirror.reading import PREEMPTABLE, TASK_PRIORITY, task_priority_in, truth_in
from volsched.model import api
from volsched.model.held_nodes import EXPECTED_DURATION, RESERVE_AFTER
from volsched.model.pods import workload
from volsched.model.values.duration import seconds_of
from volsched.model.waiting_time import WAITING_TIME, WAITING_TIMES
from volsched.validation.volcano_keys import unread_keys

_GROUP_MIN_MEMBER: Final = f"metadata.annotations[{GROUP_MIN_MEMBER}]"


def annotation_faults(found: api.ApiObject) -> Faults:
    """Yield a warning for each annotation or label that cannot be read."""
    for pod in pods_in(found):
        yield from pod.under(_of_pod(pod.metadata))
        if pod.prefix:
            yield from pod.under(_of_any(pod.metadata))
    yield from _of_any(found.metadata)
    if isinstance(found, WORKLOADS):
        if WAITING_TIME in found.metadata.annotations:
            message = f"is not handed on to the PodGroup of its pods, as in Volcano; write {WAITING_TIMES[0]}"
            yield warning(f"metadata.annotations[{WAITING_TIME}]", NOT_SUPPORTED, message)
        text = found.metadata.annotations.get(GROUP_MIN_MEMBER)
        if text is not None and min_member_in(text) is None:
            yield warning(_GROUP_MIN_MEMBER, INVALID, f"{text!r} is not a whole number of at least 1; 1 counts")


def _of_any(metadata: api.ObjectMeta) -> Faults:
    yield from _durations(metadata)
    yield from unread_keys(metadata)


def _of_pod(metadata: api.ObjectMeta) -> Faults:
    yield from _preemptable("metadata.annotations", metadata.annotations)
    yield from _preemptable("metadata.labels", metadata.labels)
    for key in WAITING_TIMES:
        if key in metadata.annotations:
            message = "is not read of pods, as in Volcano; write it on their PodGroup, Job or workload"
            yield warning(f"metadata.annotations[{key}]", NOT_SUPPORTED, message)
    text = metadata.annotations.get(TASK_PRIORITY)
    if text is not None and task_priority_in(text) is None:
        field = f"metadata.annotations[{TASK_PRIORITY}]"
        yield warning(field, INVALID, f"{text!r} is not a whole number of 32 bits; the pod's own priority counts")
    given = metadata.labels.get(workload.LABEL)
    if given is not None and given not in workload.WORKLOADS:
        known = " nor ".join(workload.WORKLOADS)
        yield warning(
            f"metadata.labels[{workload.LABEL}]", INVALID, f"{given!r} is neither {known}; the kind of the owner counts"
        )


def _preemptable(field: str, texts: Mapping[str, str]) -> Faults:
    text = texts.get(PREEMPTABLE)
    if text is not None and truth_in(text) is None:
        yield warning(f"{field}[{PREEMPTABLE}]", INVALID, f"{text!r} is neither true nor false; false counts")


def _durations(metadata: api.ObjectMeta) -> Faults:
    for key in (EXPECTED_DURATION, RESERVE_AFTER, *WAITING_TIMES):
        text = metadata.annotations.get(key)
        if text is not None and seconds_of(text) is None:
            field = f"metadata.annotations[{key}]"
            yield warning(field, INVALID, f"{text!r} is no duration, and counts for nothing; write it as 4h30m or 90s")
