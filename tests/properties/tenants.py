"""The scenarios of other cells with a namespace for each job, and tenants who write controls where texts are free."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
from hypothesis import strategies as st

from tests.properties.lives import Property, Reader, Scenario
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put
from volsched.model.conditions import LOST_PODS, RESERVATION_RELEASED
from volsched.model.plan import PlanStep, RecordEvent, WriteGroupStatus, WriteNativeStatus, WritePodCondition

GROUP: Final = "scheduling.k8s.io/group-name"
QUEUE: Final = "scheduling.volcano.sh/queue-name"
CARDS: Final = "volcano.sh/card.name"
TENANT: Final = "tenant"
ODD: Final = "\x1b]0;odd\x07\n\u202equeue"
"""What takes a terminal over, ends the line, and turns the direction of writing."""

_WORD: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_NAMESPACED: Final = frozenset({"Pod", "PodGroup", "ResourceClaim"})
_TELLING: Final = {"lost": LOST_PODS, "released": RESERVATION_RELEASED}

A = TypeVar("A", bound=api.ApiObject)


class OfTenants(Scenario):
    """Another scenario, in which each gang and each pod without one is of another tenant.

    ``odd`` are the jobs, by number, whose owners write controls into what the API server does not look at.
    """

    def __init__(self, inner: Scenario, odd: frozenset[int]) -> None:
        self.configuration, self.sessions = inner.configuration, inner.sessions
        self.plain_pods, self.takes_over = inner.plain_pods, inner.takes_over
        self.owners: dict[str, str] = {}
        self._inner, self._odd = inner, odd
        self._spaces: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"{self._odd}\n{self._inner!r}"

    def changes(self) -> list[Change]:
        return [self._moved(change) for change in self._inner.changes()]

    def carry_out(self, reader: Reader) -> None:
        self._inner.carry_out(reader)

    def _moved(self, change: Change) -> Change:
        if isinstance(change, Deleted) and change.kind in _NAMESPACED:
            return replace(change, namespace=self.owners[change.name])
        if isinstance(change, Put) and type(change.object).__name__ in _NAMESPACED:
            return Put(self._of_tenant(change.object))
        return change

    def _of_tenant(self, found: A) -> A:
        """Return an object in the namespace of its tenant, who may have written more into it."""
        name = found.metadata.name
        job = found.metadata.annotations.get(GROUP, name)
        if type(found).__name__ == "ResourceClaim":  # named as the pod whose only one it is
            job = name.partition("-")[0]
        space = self._spaces.setdefault(job, f"{TENANT}{len(self._spaces)}")
        self.owners[name] = space
        annotations, changes = dict(found.metadata.annotations), dict[str, Any]()
        if int(space.removeprefix(TENANT)) in self._odd:
            annotations |= {CARDS: ODD, QUEUE: ODD}
            if isinstance(found, api.PodGroup):
                changes["spec"] = msgspec.structs.replace(found.spec, queue=ODD)
        meta = msgspec.structs.replace(found.metadata, namespace=space, annotations=annotations)
        return msgspec.structs.replace(found, metadata=meta, **changes)


def of_tenants(scenarios: st.SearchStrategy[Any]) -> st.SearchStrategy[OfTenants]:
    """Have scenarios happen to tenants."""
    return st.builds(OfTenants, scenarios, st.frozensets(st.integers(0, 6), max_size=2))


class NamesNobodyElse(Property):
    """What is written on an object names no pod and no job of another namespace, and shows as one line."""

    def after(self, steps: list[PlanStep]) -> None:
        for space, message in _told(steps):
            assert message.isprintable(), (space, message)
            self.reader.seen["odd"] += "\\u202equeue" in message
            self.reader.seen["replaced"] += "a job of queue" in message or "another job" in message
            others = {word for word in _WORD.findall(message) if self._owner(word) not in ("", space)}
            assert not others, (space, message)
        stated = {c.type for step in steps if isinstance(step, WriteGroupStatus) for c in step.conditions}
        self.reader.seen.update(what for what, condition in _TELLING.items() if condition in stated)

    def _owner(self, word: str) -> str:
        return str(self.scenario.owners.get(word, word if word.startswith(TENANT) else ""))


def _told(steps: list[PlanStep]) -> Iterator[tuple[str, str]]:
    """Yield all texts that are written on objects, with the namespace."""
    for step in steps:
        match step:
            case RecordEvent() | WritePodCondition():
                yield step.namespace, step.message
            case WriteGroupStatus() | WriteNativeStatus():
                yield from ((step.namespace, condition.message) for condition in step.conditions)
            case _:
                pass
