"""reserve: nodes are held for gangs that starve else, the promise is kept, and others may fill the gaps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.actions.rigs import conf, cycle, echo, events, rig
from volsched.model.changes import Change, Gone
from volsched.model.plan import Bind, WriteGroupStatus, WritePodCondition
from volsched.model.reservation import condition_of, promise_in
from volsched.testing.builders import ClusterBuilder, Decision, Rig, a_cluster, a_group, a_pod, put

PLAIN = conf("enqueue, allocate, backfill")
RESERVING = conf("enqueue, reserve, allocate, backfill")
START = 1_767_225_600.0
CREATED = "2026-01-01T00:00:00Z"
HOUR = 3600.0


class Stream:
    """Two nodes of eight cards, and a gang of two that needs both under a steady stream of small jobs."""

    def __init__(self, configuration: str, declared: str | None = None, **gang: Any) -> None:
        self._declared = declared
        self.given = a_cluster().node("n1", **{"nvidia.com/gpu": 8}).node("n2", **{"nvidia.com/gpu": 8})
        self.given.queue("default")
        self.rig = rig(self.given, configuration)
        self.running: dict[str, float] = {}
        self.started: dict[str, float] = {}
        self.last: Decision | None = None
        self._count = 0
        self._gang = gang

    def submit_gang(self) -> None:
        self._put(a_group("gang", minMember=2, metadata={"creationTimestamp": CREATED}, **self._gang))
        for number in range(2):
            self._put(a_pod(f"gang-{number}", group="gang", created=CREATED, **{"nvidia.com/gpu": 8}))

    def small(self, cards: int = 4) -> None:
        name = f"small-{self._count}"
        self._count += 1
        notes = {"volsched.io/expected-duration": self._declared} if self._declared else None
        self._put(a_group(name, minMember=1, annotations=notes))
        self._put(a_pod(f"{name}-0", group=name, **{"nvidia.com/gpu": cards}))

    def _put(self, manifest: Any) -> None:
        self.given.add(manifest)
        self.rig.mirror.apply([put(manifest)])

    def at(self, hours: float, *ended: Change) -> Decision:
        self.rig.clock.time = START + hours * HOUR
        decision = cycle(self.rig, *ended)
        for step in decision.steps:
            if isinstance(step, Bind):
                self.started[step.name] = hours
        self.rig.mirror.apply(echo(self.rig, self.given, decision))
        self.last = decision
        return decision
