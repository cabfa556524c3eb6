"""Which equal tasks of a job are placed in one go: worked out of the rules that are registered.

The engine places many of them at once where the nodes' amounts alone decide. That must not be another outcome than one
by one, so nobody may refuse one of them, or answer otherwise for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

from volsched.framework.callbacks import AppliesFn, LackingFn
from volsched.framework.rules import (
    Allocatable,
    BatchNodeOrder,
    EventHandler,
    JobReady,
    NodeOrder,
    NodeRule,
    Predicate,
    PrePredicate,
    Rule,
)
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo

BATCHED: Final = frozenset({Predicate, NodeOrder, PrePredicate, BatchNodeOrder, Allocatable, JobReady, EventHandler})
"""The rules that may matter."""

_KeyedRule: TypeAlias = tuple[AppliesFn | None, Callable[[TaskInfo], Hashable | None]]
"""For which templates a rule has a key, and the key."""


class Batches:
    """What the rules of a session state about it.

    ``left_out`` names plugins of which a switch left rules out: what their other rules claim of their headroom does not
    hold then.
    """

    def __init__(self) -> None:
        self.left_out: set[str] = set()
        self._lacking: list[LackingFn] = []
        self._one_by_one: list[AppliesFn] = []
        self._keys: list[_KeyedRule] = []
        self._within_headroom: list[tuple[str, _KeyedRule]] = []

    def note(self, rule: Rule, plugin: str) -> None:
        """Take a rule in."""
        if isinstance(rule, NodeRule):
            if rule.key is not None:
                self._note_key(rule, (rule.applies_to, rule.key), plugin)
            return
        templates = rule.one_by_one()
        if templates is not None and templates not in self._one_by_one:
            self._one_by_one.append(templates)
        if isinstance(rule, EventHandler) and rule.within_headroom:
            self._within_headroom.append((plugin, (rule.applies_to, _any)))
        elif isinstance(rule, JobReady) and rule.lacking is not None:
            self._lacking.append(rule.lacking)

    def _note_key(self, rule: NodeRule, keyed: _KeyedRule, plugin: str) -> None:
        if isinstance(rule, Predicate) and rule.within_headroom:
            self._within_headroom.append((plugin, keyed))
        elif not (isinstance(rule, NodeOrder) and rule.within_session):
            self._keys.append(keyed)

    def alone(self, task: TaskInfo) -> bool:
        """Whether tasks that are equal to this one are placed one by one: a rule may answer otherwise for the next."""
        template = task.template
        for templates in self._one_by_one:
            if templates(template):
                return True
        for applies, key in self._keys:
            if (applies is None or applies(template)) and key(task) is not None:
                return True
        return bool(self.left_out) and self._beyond_headroom(task)

    def _beyond_headroom(self, task: TaskInfo) -> bool:
        """Whether a rule counts on a headroom of its plugin that a switch has left out."""
        return any(
            plugin in self.left_out and (applies is None or applies(task.template)) and key(task) is not None
            for plugin, (applies, key) in self._within_headroom
        )

    def lacking(self, job: JobInfo) -> int:
        """How many more tasks a job needs, at least, to be ready; 0 when nobody votes in that."""
        return min((count for fn in self._lacking if (count := fn(job)) is not None), default=0)


def _any(_: TaskInfo) -> bool:
    return True
