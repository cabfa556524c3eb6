"""Queues: their state, and what is counted about them.

After Volcano's pkg/controllers/queue. A queue is opened and closed by `spec.state`, by a Command, or by writing
`status.state`; one that is being closed is Closing while it has PodGroups and Closed when it has none. Closing one
closes those below it, which are annotated, so that they open again with it and those that somebody closed himself do
not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from volsched.controllers.writes import QUEUE, Create, Patch, Write, merge_patch
from volsched.model import api
from volsched.model.errors import QuantityError
from volsched.model.quantity import amount_of, format_amount

ROOT: Final = "root"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"
NOT_OPEN: Final = (CLOSING, CLOSED)

PHASES: Final = ("pending", "inqueue", "running", "unknown", "completed")
"""Phases of PodGroups in the spelling of a queue's status and of its metrics."""

_ALWAYS_SHOWN: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Standing:
    """What a queue holds: its PodGroups by phase, and what its placed pods use, queues below it included."""

    phases: Mapping[str, int]
    allocated: Mapping[str, int]

    @property
    def groups(self) -> int:
        """How many PodGroups it has."""
        return sum(self.phases.values())


def standing_queue(name: str) -> Create:
    """Return a queue that always exists, as it is made where it is missing."""
    spec: dict[str, Any] = {"weight": 1, "reclaimable": name != ROOT}
    if name != ROOT:
        spec["parent"] = ROOT
    body = {"apiVersion": QUEUE.group_version, "kind": QUEUE.name, "metadata": {"name": name}, "spec": spec}
    return Create(QUEUE, "", name, body)


def parent_of(queue: api.Queue) -> str:
    """Return the name of the queue above; empty for the root."""
    return "" if queue.metadata.name == ROOT else queue.spec.parent or ROOT


def reconcile(queue: api.Queue, parent: api.Queue | None, standing: Standing) -> Iterator[Write]:
    """Yield the next write about a queue, if there is one; `parent` is None where it has none, or none that exists.

    One at a time, each for the version that was seen: a queue is marked before it is closed with its parent, and
    opened before the mark goes.
    """
    if queue.metadata.deletion_timestamp is not None:
        return
    name, version = queue.metadata.name, {"resourceVersion": queue.metadata.resource_version}
    status = _status(queue, wanted_state(queue, parent, standing.groups), standing)
    main = _main_patch(queue, parent)
    if main and not ("state" in status and _opens_with(queue, parent)):
        yield Patch(QUEUE, "", name, {**main, "metadata": {**version, **main.get("metadata", {})}})
    elif status:
        yield Patch(QUEUE, "", name, {"metadata": version, "status": status}, subresource="status")


def commanded(queue: api.Queue, action: str) -> Iterator[Patch]:
    """Yield what a Command asks for, said where the queue's state is said: in `spec.state`, or only in its status."""
    state = {"OpenQueue": OPEN, "CloseQueue": CLOSED}.get(action)
    if state is None:
        return
    name, meta = queue.metadata.name, {"uid": queue.metadata.uid}
    if queue.spec.state:
        yield Patch(QUEUE, "", name, {"metadata": meta, "spec": {"state": state}})
    else:
        state = CLOSING if state == CLOSED else state
        yield Patch(QUEUE, "", name, {"metadata": meta, "status": {"state": state}}, subresource="status")


def _opens_with(queue: api.Queue, parent: api.Queue | None) -> bool:
    """Whether a queue was closed by its parent, which is not closed any more."""
    return CLOSED_BY_PARENT in queue.metadata.annotations and not _is_closed(parent)


def _main_patch(queue: api.Queue, parent: api.Queue | None) -> dict[str, Any]:
    """Return what has to change of a queue outside its status: its parent, and the mark that its parent closed it."""
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


def _status(queue: api.Queue, state: str, standing: Standing) -> dict[str, Any]:
    """Return the merge patch for a queue's status; empty when it says all of it."""
    known = queue.status
    new = {"state": state, **{phase: standing.phases.get(phase, 0) for phase in PHASES}}
    is_new = not known.state  # nobody has written anything: zeros are written, too
    patch = {name: value for name, value in new.items() if is_new or getattr(known, name) != value}
    wanted = {name: amount for name, amount in standing.allocated.items() if amount or name in _ALWAYS_SHOWN}
    for name in _ALWAYS_SHOWN:
        wanted.setdefault(name, 0)
    if _amounts(known.allocated) != wanted:
        shown = {name: format_amount(name, amount) for name, amount in sorted(wanted.items())}
        patch["allocated"] = merge_patch({name: str(text) for name, text in known.allocated.items()}, shown)
    return patch


def _amounts(listed: Mapping[str, Any]) -> dict[str, int | None]:
    """Return a resource list as amounts; one that cannot be read is unequal to every amount."""
    found: dict[str, int | None] = {}
    for name, text in listed.items():
        try:
            found[name] = amount_of(name, text)
        except QuantityError:
            found[name] = None
    return found


# --- counting -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Entry:
    """A PodGroup in the books: where it counts (None: not known yet), how it stands, what its pods use."""

    queue: str | None
    phase: str
    used: Counter[str]


class Books:
    """What queues hold, kept change by change: a pod costs the same in a large queue as in a small one."""

    def __init__(self) -> None:
        self._groups: dict[str, _Entry] = {}
        self._phases: dict[str, Counter[str]] = {}
        self._used: dict[str, Counter[str]] = {}

    def put_group(self, key: str, queue: str, phase: str) -> None:
        """Take note of a PodGroup's queue and phase; one without a phase is pending."""
        self._move(key, queue, phase.lower() or "pending")

    def drop_group(self, key: str) -> None:
        """Take note that a PodGroup is gone; its pods may still be there."""
        if key in self._groups:
            self._move(key, None, "")

    def charge(self, key: str, amounts: Mapping[str, int], by: int) -> str | None:
        """Count a placed pod of a PodGroup (`by` 1), or count it no more (-1); the queue that it counts for."""
        entry = self._groups.setdefault(key, _Entry(None, "", Counter()))
        _add(entry.used, amounts, by)
        if entry.queue is not None:
            _add(self._used.setdefault(entry.queue, Counter()), amounts, by)
        self._forget_empty(key)
        return entry.queue

    def phases(self, queue: str) -> Mapping[str, int]:
        """Return how many PodGroups of a queue are in which phase."""
        return self._phases.get(queue, {})

    def used(self, queue: str) -> Mapping[str, int]:
        """Return what the placed pods of a queue use."""
        return self._used.get(queue, {})

    def queues(self) -> Iterator[str]:
        """Yield the queues that hold something."""
        yield from self._phases

    def _move(self, key: str, queue: str | None, phase: str) -> None:
        entry = self._groups.setdefault(key, _Entry(None, "", Counter()))
        if entry.queue is not None:
            _add(self._phases[entry.queue], {entry.phase: 1}, -1)
            if entry.queue != queue:
                _add(self._used.setdefault(entry.queue, Counter()), entry.used, -1)
        if queue is not None:
            _add(self._phases.setdefault(queue, Counter()), {phase: 1}, 1)
            if entry.queue != queue:
                _add(self._used.setdefault(queue, Counter()), entry.used, 1)
        entry.queue, entry.phase = queue, phase
        self._forget_empty(key)

    def _forget_empty(self, key: str) -> None:
        entry = self._groups[key]
        if entry.queue is None and not entry.used:
            del self._groups[key]


def _add(to: Counter[str], amounts: Mapping[str, int], by: int) -> None:
    for name, amount in amounts.items():
        left = to[name] + by * amount
        if left:
            to[name] = left
        else:
            del to[name]


def standing_of(name: str, books: Books, children: Mapping[str, set[str]]) -> Standing:
    """Return what a queue holds; what it uses is with the queues below it. A circle of parents is counted once."""
    allocated: Counter[str] = Counter()
    seen: set[str] = set()
    left = [name]
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            _add(allocated, books.used(one), 1)
            left.extend(children.get(one, ()))
    return Standing(dict(books.phases(name)), dict(allocated))
