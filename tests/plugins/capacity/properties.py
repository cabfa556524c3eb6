"""Random queues, side by side and in trees, over several sessions: what must hold whatever happens."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from hypothesis import strategies as st

from plugins.capacity.amounts import in_a_tree, side_by_side
from tests.actions.evictions import World
from tests.actions.rigs import conf
from tests.plugins.capacity.desk import tree_conf
from tests.properties.eviction import QUEUES, Play, build, crowded, raws, victims
from tests.properties.lives import Property
from volsched.model.cluster import Cluster
from volsched.model.plan import PlanStep
from volsched.model.queues.queue import levels
from volsched.plugin.quota import QuotaAmounts
from volsched.quota.amounts import there

ALL = "enqueue, allocate, preempt, reclaim, backfill"
MAKE = {"side by side": conf, "in a tree": tree_conf}
TIERS = ("priority conformance gang capacity", "predicates nodeorder")

Amounts = dict[str, int]


def a_spec(dice: Random, *deserved: int) -> dict[str, Amounts]:
    """What a queue may have, deserves (between two amounts) and is guaranteed, as far as it says so."""
    chances = {"capability": (0.3, 3, 9), "deserved": (0.8, *deserved), "guarantee": (0.3, 1, 3)}
    return {
        field: {name: dice.randint(least, most) for name in ("cpu", "memory") if dice.random() < 0.8}
        for field, (chance, least, most) in chances.items()
        if dice.random() < chance
    }


def specs(seed: int) -> list[dict[str, Amounts]]:
    """Of the leaves, of which the first holds more than it deserves, then of the two queues above some of them."""
    dice = Random(seed)  # noqa: S311 - a game
    return [a_spec(dice, 0, 2), a_spec(dice, 2, 6), a_spec(dice, 2, 6), a_spec(dice, 3, 8), a_spec(dice, 3, 8)]


Held = dict[str, dict[str, int]]


def made(raw: Any, listed: Any) -> World:
    """A world with these queues: a and b below the one, that below the other one, and c below none."""
    world = build(raw)
    found = {item["metadata"]["name"]: item["spec"] for item in world.objects if item["kind"] == "Queue"}
    for name, spec in zip(QUEUES, listed[:3], strict=True):
        found[name].update(_written(spec))
    world.queue("near", parent="far", **_written(listed[3])).queue("far", **_written(listed[4]))
    found["a"]["parent"] = found["b"]["parent"] = "near"
    return world


def _written(spec: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    texts = {field: {name: str(amount) for name, amount in listed.items()} for field, listed in spec.items()}
    if "guarantee" in texts:
        texts["guarantee"] = {"resource": texts["guarantee"]}
    return texts


def dues(cluster: Cluster, kind: str) -> dict[str, QuotaAmounts]:
    make = in_a_tree if kind == "in a tree" else side_by_side
    return make(cluster.queues, there(cluster))


def above(cluster: Cluster, queue: str, kind: str) -> tuple[str, ...]:
    return levels(cluster.queues, queue) if kind == "in a tree" else (queue,)


def held(cluster: Cluster, kind: str) -> Held:
    """What queues hold with those below them, counted from scratch."""
    found: Held = {}
    for queue in cluster.queues.values():
        for level in above(cluster, queue.name, kind):
            account = found.setdefault(level, {})
            for name, amount in queue.allocated.items():
                account[name] = account.get(name, 0) + amount
    return found


def plays(kind: str, actions: str, sessions: int = 4) -> st.SearchStrategy[Play]:
    """Worlds with limits, deserved amounts and guarantees, in which most victims go."""

    def play(raw: Any, listed: Any) -> Play:
        text = MAKE[kind](actions, *TIERS)
        raw = raw if "preempt" in actions else crowded(raw)
        return Play(made(raw, listed), text, sessions, goes=0.6, refused=0.1, told=(raw, listed))

    return st.builds(play, raws, st.integers(0, 1 << 30).map(specs))


def without_minimum(kind: str) -> st.SearchStrategy[Play]:
    """Worlds whose waiting jobs start with nothing, so that all that they reclaim is beyond their minimum."""

    def play(raw: Any, listed: Any) -> Play:
        raw = crowded(raw)
        jobs = [{**job, "least": 0} for job in raw["jobs"]]
        return Play(made({**raw, "jobs": jobs}, listed), MAKE[kind]("reclaim", *TIERS), 1, told=(raw, listed))

    return st.builds(play, raws, st.integers(0, 1 << 30).map(specs))


class _OfQueues(Property):
    """What queues held before a session, with those below them."""

    @property
    def kind(self) -> str:
        return "in a tree" if "enableHierarchy: true" in self.scenario.configuration else "side by side"

    def before(self) -> None:
        self.had = held(self.cluster, self.kind)


class WithinLimits(_OfQueues):
    """No queue comes to hold more than it may have."""

    def after(self, steps: list[PlanStep]) -> None:
        now = held(self.cluster, self.kind)
        for name, due in dues(self.cluster, self.kind).items():
            for resource, most in due.limit.items():
                was = self.had.get(name, {}).get(resource, 0)
                assert now.get(name, {}).get(resource, 0) <= max(most, was)


def with_promises(cluster: Cluster, kind: str) -> Held:
    """What queues hold, and the room that is being made for their pods."""
    found = held(cluster, kind)
    for task in cluster.nominated.values():
        for level in above(cluster, task.queue, kind):
            account = found.setdefault(level, {})
            for name, amount in task.template.request.items():
                account[name] = account.get(name, 0) + amount
    return found


class KeepsGuarantees(_OfQueues):
    """Reclaim brings no queue below what it is guaranteed, where pods of a queue below it may go for one another."""

    def after(self, steps: list[PlanStep]) -> None:
        found, now = victims(self.reader, steps), with_promises(self.cluster, self.kind)
        for _, victim, preemptor in found:
            assert victim.job is not None
            assert preemptor.job is not None
            own = above(self.cluster, preemptor.job.queue, self.kind)
            for level in above(self.cluster, victim.job.queue, self.kind):
                if level in own:
                    continue
                for resource, amount in dues(self.cluster, self.kind)[level].guarantee.items():
                    assert now[level].get(resource, 0) >= min(amount, self.had[level].get(resource, 0))


class ReclaimsItsDue(_OfQueues):
    """A queue that reclaims is below its due, and may have what it gets."""

    def after(self, steps: list[PlanStep]) -> None:
        for _, _, preemptor in victims(self.reader, steps):
            assert preemptor.job is not None
            queue = preemptor.job.queue
            due, had = dues(self.cluster, self.kind)[queue], self.had.get(queue, {})
            request = preemptor.template.request
            assert any(had.get(name, 0) + amount <= due.deserved.get(name, 0) for name, amount in request.items())
            assert all(had.get(name, 0) + amount <= due.limit.get(name, 0) for name, amount in request.items())


class StaysBetweenDues(_OfQueues):
    """Beyond minima, who takes comes to hold no more than its due, and who gives, and those above, no less.

    Queues above lose what those below them take from one another, too.
    """

    def after(self, steps: list[PlanStep]) -> None:
        due, now = dues(self.cluster, self.kind), with_promises(self.cluster, self.kind)
        found = victims(self.reader, steps)
        take = {level for _, _, preemptor in found for level in above(self.cluster, preemptor.queue, self.kind)}
        for _, victim, preemptor in found:
            for level in above(self.cluster, victim.queue, self.kind):
                stated = due[level].stated if level not in take else {}
                for name in stated.keys() & victim.template.request.keys():
                    assert now[level].get(name, 0) >= stated[name]
            mine = due[preemptor.queue].stated
            asked = mine.keys() & preemptor.template.request.keys()
            assert asked
            assert all(now[preemptor.queue].get(name, 0) <= mine[name] for name in asked)
