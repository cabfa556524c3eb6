"""Queues: their states and counts.

After Volcano's pkg/controllers/queue. A queue is opened and closed by `spec.state`, by a Command, or by writing
`status.state`; a queue that is being closed is Closing while it has PodGroups and Closed without any. Closing one
closes those below it, which are annotated, so that they open again with it and those that a user closed do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from volsched.controllers.writes import QUEUE, Create, Patch, Write
from volsched.model import api
from volsched.model.queues.queue import ROOT

CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"
NOT_OPEN: Final = (CLOSING, CLOSED)

STATE_AFTER: Final = {"OpenQueue": OPEN, "CloseQueue": CLOSED}
"""The states that a Command requests."""

PHASES: Final = ("pending", "inqueue", "running", "unknown", "completed")
"""Phases of PodGroups in the spelling of a queue's status and of its metrics."""


def builtin_queue(name: str) -> Create:
    """Return a queue that always exists, as it is made where it is missing."""
    spec: dict[str, Any] = {"weight": 1, "reclaimable": name != ROOT}
    if name != ROOT:
        spec["parent"] = ROOT
    body = {"apiVersion": QUEUE.group_version, "kind": QUEUE.name, "metadata": {"name": name}, "spec": spec}
    return Create(QUEUE, "", name, body)


def parent_of(queue: api.Queue) -> str:
    """Return the name of the queue above; empty for the root."""
    return "" if queue.metadata.name == ROOT else queue.spec.parent or ROOT


def reconcile(queue: api.Queue, parent: api.Queue | None, phases: Mapping[str, int]) -> Iterator[Write]:
    """Yield the next write about a queue, if there is one. `parent` is None without an existing one.

    `phases` are its PodGroups by phase. One write at a time, a state for the version that was seen: a queue is marked
    before it is closed with its parent, and opened before the mark goes. Counts do not depend on other writers, and the
    scheduler writes to the same object, so they are for any version.
    """
    if queue.metadata.deletion_timestamp is not None:
        return
    name, version = queue.metadata.name, {"resourceVersion": queue.metadata.resource_version}
    status = _status(queue, wanted_state(queue, parent, sum(phases.values())), phases)
    main = _main_patch(queue, parent)
    if main and not ("state" in status and _opens_with(queue, parent)):
        yield Patch(QUEUE, "", name, {**main, "metadata": {**version, **main.get("metadata", {})}})
    elif status:
        meant = version if "state" in status else {"uid": queue.metadata.uid}
        yield _status_patch(queue, meant, status)


def commanded(queue: api.Queue, action: str) -> Iterator[Patch]:
    """Yield the change of a Command, at the place of the queue's state: in `spec.state`, or only in its status."""
    state = STATE_AFTER.get(action)
    if state is None:
        return
    name, meta = queue.metadata.name, {"uid": queue.metadata.uid}
    if queue.spec.state:
        yield Patch(QUEUE, "", name, {"metadata": meta, "spec": {"state": state}})
    else:
        state = CLOSING if state == CLOSED else state
        yield _status_patch(queue, meta, {"state": state})


def _opens_with(queue: api.Queue, parent: api.Queue | None) -> bool:
    """True if a queue was closed by its parent, which is not closed any more."""
    return CLOSED_BY_PARENT in queue.metadata.annotations and not _is_closed(parent)


def _main_patch(queue: api.Queue, parent: api.Queue | None) -> dict[str, Any]:
    """Return the changes of a queue outside its status: its parent, and the mark that its parent closed it."""
    patch: dict[str, Any] = {}
    meta = queue.metadata
    if meta.name != ROOT and not queue.spec.parent:
        patch["spec"] = {"parent": ROOT}
    is_open = not _is_closed(queue) and queue.spec.state != CLOSED
    if _opens_with(queue, parent):
        patch["metadata"] = {"annotations": {CLOSED_BY_PARENT: None}}
    elif is_open and _is_closed(parent) and CLOSED_BY_PARENT not in meta.annotations:
        patch["metadata"] = {"annotations": {CLOSED_BY_PARENT: "true"}}
    return patch


def wanted_state(queue: api.Queue, parent: api.Queue | None, groups: int) -> str:
    """Return the state that a queue should have. The root is always open, since everything is below it."""
    if queue.metadata.name == ROOT:
        return OPEN
    if not _should_close(queue, parent):
        return OPEN
    if queue.status.state == CLOSED:
        return CLOSED  # a PodGroup that was made afterwards waits, and does not make it Closing again
    return CLOSING if groups else CLOSED


def _should_close(queue: api.Queue, parent: api.Queue | None) -> bool:
    if _is_closed(parent):
        return True
    if queue.spec.state:
        return queue.spec.state == CLOSED
    return _is_closed(queue) and CLOSED_BY_PARENT not in queue.metadata.annotations


def _is_closed(queue: api.Queue | None) -> bool:
    return queue is not None and queue.status.state in NOT_OPEN


def _status(queue: api.Queue, state: str, phases: Mapping[str, int]) -> dict[str, Any]:
    """Return the merge patch for a queue's state and counts; empty if they are already written."""
    known = queue.status
    new = {"state": state, **{phase: phases.get(phase, 0) for phase in PHASES}}
    is_new = not known.state  # nothing was written before: zeros are written, too
    return {name: value for name, value in new.items() if is_new or getattr(known, name) != value}


def _status_patch(queue: api.Queue, meta: Mapping[str, str], status: Mapping[str, Any]) -> Patch:
    """Return a patch of a queue's status without its amounts, which the scheduler writes.

    Volcano's CRD requires an object there; merging an empty one changes nothing.
    """
    held: dict[str, Any] = {} if queue.status.allocated else {"allocated": {}}
    return Patch(
        QUEUE, "", queue.metadata.name, {"metadata": dict(meta), "status": {**status, **held}}, subresource="status"
    )


# --- counting -------------------------------------------------------------------------------------------------------


class PodGroupCounts:
    """The PodGroups of queues by phase, kept change by change."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[str, str]] = {}
        self._phases: dict[str, Counter[str]] = {}

    def put_group(self, key: str, queue: str, phase: str) -> None:
        """Note a PodGroup's queue and phase; one without a phase is pending."""
        self.drop_group(key)
        phase = phase.lower() or "pending"
        self._groups[key] = queue, phase
        self._phases.setdefault(queue, Counter())[phase] += 1

    def drop_group(self, key: str) -> None:
        """Note that a PodGroup is gone."""
        queue, phase = self._groups.pop(key, ("", ""))
        if queue:
            counts = self._phases[queue]
            counts[phase] -= 1
            if not counts[phase]:
                del counts[phase]
            if not counts:
                del self._phases[queue]

    def phases(self, queue: str) -> Mapping[str, int]:
        """Return how many PodGroups of a queue are in which phase, without zeros."""
        return self._phases.get(queue, {})


class QueueHierarchy:
    """The children of queues, kept queue by queue."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}
        self._below: dict[str, set[str]] = {}

    def put(self, queue: api.Queue) -> None:
        """Note where a queue is."""
        name, parent = queue.metadata.name, parent_of(queue)
        self.drop(name)
        self._parents[name] = parent
        self._below.setdefault(parent, set()).add(name)

    def drop(self, name: str) -> None:
        """Note that a queue is gone."""
        parent = self._parents.pop(name, None)
        if parent is None:
            return
        self._below[parent].discard(name)
        if not self._below[parent]:
            del self._below[parent]

    def below(self, name: str) -> Collection[str]:
        """Return the names of the queues right below a queue."""
        return self._below.get(name, ())
