"""Flags of rules of one minor version ago. They work, with a warning; ``for_each_pod`` replaces them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import Verdict

_FORMER: Final[Mapping[str, frozenset[str]]] = {
    "EventHandler": frozenset({"promises", "within_headroom", "applies_to"}),
    "JobReady": frozenset({"lacking"}),
    "NodeOrder": frozenset({"within_session"}),
    "Predicate": frozenset({"within_headroom"}),
}
"""The flags by rule. ``lacking`` has no effect: tasks are placed one at a time."""


class FormerFlags(msgspec.StructMeta):
    """Makes rules, and understands flags that they no longer have."""

    def __call__(cls, *args: Any, **given: Any) -> Any:  # noqa: N805 - what it is called on is a class
        """Make a rule."""
        former = _FORMER.get(cls.__name__)
        if former is not None and not former.isdisjoint(given):
            return super().__call__(*_translated(cls.__name__, args, given, former), **given)
        return super().__call__(*args, **given)


def _translated(rule: str, args: tuple[Any, ...], given: dict[str, Any], former: frozenset[str]) -> tuple[Any, ...]:
    """Replace former flags among what is given. Return the arguments without a name."""
    flags = {name: given.pop(name) for name in former.intersection(given)}
    for name in sorted(flags):
        message = f"{rule}({name}=) ends with the next minor version; use for_each_pod= (docs/writing-a-plugin.md)"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
    applies = flags.pop("applies_to", None)
    if flags.pop("lacking", None) is None and any(flags.values()):
        given["for_each_pod"] = _never
    elif applies is not None:
        given["for_each_pod"] = applies
    if flags.get("promises"):
        events, *further = args or (given.pop("events"),)
        return (_OfPromises(events), *further)
    return args


def _never(_: object) -> bool:
    return False


class _OfPromises:
    """A handler that hears of promised room alone."""

    def __init__(self, events: Any) -> None:
        self._events = events

    def allocate(self, task: TaskInfo) -> Verdict | None:
        """Tell of promised room."""
        found: Verdict | None = self._events.allocate(task) if task.status is TaskStatus.PIPELINED else None
        return found

    def deallocate(self, task: TaskInfo) -> None:
        """Tell that a promise ends."""
        if task.status is TaskStatus.PIPELINED:
            self._events.deallocate(task)
