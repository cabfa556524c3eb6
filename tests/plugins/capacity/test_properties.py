"""Random queues, side by side and in trees, over several sessions: what must hold whatever happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.capacity.dues import DueAmounts, in_a_tree, side_by_side
from tests.actions.evictions import World
from tests.actions.rigs import conf
from tests.plugins.capacity.desk import tree_conf
from tests.properties.test_eviction import QUEUES, Play, build, worlds
from volsched.framework.accounts.quotas import there
from volsched.model.cluster import Cluster
from volsched.model.queues.queue import levels
from volsched.testing.contract import MakeEngine, engine_contract

pytestmark = pytest.mark.slow(reason="thousands of sessions on random clusters")

ACTIONS = "enqueue, allocate, preempt, reclaim, backfill"
MAKE = {"side by side": conf, "in a tree": tree_conf}
TIERS = ("priority conformance gang capacity", "predicates nodeorder")

amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 6), max_size=2)
specs = st.fixed_dictionaries({}, optional={"capability": amounts, "deserved": amounts, "guarantee": amounts})
queues = st.tuples(*[specs] * 5)
"""Of the leaves, then of the two queues above some of them."""

Held = dict[str, dict[str, int]]


def made(raw: Any, listed: Any) -> World:
    """The world with these queues: a and b below the one, that below the other one, and c below none."""
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


def dues(cluster: Cluster, kind: str) -> dict[str, DueAmounts]:
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


def sessions(play: Play, kind: str, count: int = 4) -> Iterator[tuple[Held, list[Any]]]:
    """Sessions with what queues held before each."""
    for number in range(count):
        before = held(play.cluster, kind)
        yield before, play.session(goes=0.6, refused=0.1, seed=number)


@pytest.mark.parametrize("kind", MAKE)
@settings(max_examples=25, deadline=None)
@given(raw=worlds, listed=queues)
def test_the_fast_engine_decides_as_the_naive_one(kind: str, raw: Any, listed: Any) -> None:
    text = MAKE[kind](ACTIONS, *TIERS)

    def history(engine: MakeEngine) -> object:
        play = Play(made(raw, listed), text, engine)
        list(sessions(play, kind))
        return play.history

    engine_contract(history)


@pytest.mark.parametrize("kind", MAKE)
@settings(max_examples=25, deadline=None)
@given(raw=worlds, listed=queues)
def test_nothing_that_is_passed_over_could_have_been_placed(kind: str, raw: Any, listed: Any) -> None:
    """Jobs that wait for the same are asked about together; who forgets that, and tries them all, decides alike."""
    text = MAKE[kind](ACTIONS, *TIERS)
    patient, eager = Play(made(raw, listed), text), Play(made(raw, listed), text)

    for number in range(4):
        patient.session(goes=0.6, refused=0.1, seed=number)
        eager.rig.scheduler.reconfigure(eager.rig.scheduler.profile)
        eager.session(goes=0.6, refused=0.1, seed=number)

    assert patient.history == eager.history


@pytest.mark.parametrize("kind", MAKE)
@settings(max_examples=40, deadline=None)
@given(raw=worlds, listed=queues)
def test_no_queue_comes_to_hold_more_than_it_may_have(kind: str, raw: Any, listed: Any) -> None:
    play = Play(made(raw, listed), MAKE[kind](ACTIONS, *TIERS))

    for before, _ in sessions(play, kind):
        for name, due in dues(play.cluster, kind).items():
            now, was = held(play.cluster, kind).get(name, {}), before.get(name, {})
            for resource, most in due.limit.items():
                assert now.get(resource, 0) <= max(most, was.get(resource, 0))


@pytest.mark.parametrize("kind", MAKE)
@settings(max_examples=40, deadline=None)
@given(raw=worlds, listed=queues)
def test_reclaim_brings_no_queue_below_what_it_is_guaranteed(kind: str, raw: Any, listed: Any) -> None:
    play = Play(made(raw, listed), MAKE[kind]("reclaim, allocate", *TIERS))
    cluster = play.cluster

    for before, steps in sessions(play, kind):
        for _, victim, preemptor in play.victims(steps):
            assert victim.job is not None
            assert preemptor.job is not None
            own = above(cluster, preemptor.job.queue, kind)
            for level in above(cluster, victim.job.queue, kind):
                if level in own:
                    continue
                for resource, amount in dues(cluster, kind)[level].guarantee.items():
                    assert held(cluster, kind)[level].get(resource, 0) >= min(amount, before[level].get(resource, 0))


@pytest.mark.parametrize("kind", MAKE)
@settings(max_examples=25, deadline=None)
@given(raw=worlds, listed=queues)
def test_who_reclaims_is_below_its_due_and_may_have_what_it_gets(kind: str, raw: Any, listed: Any) -> None:
    play = Play(made(raw, listed), MAKE[kind]("reclaim", *TIERS))

    for before, steps in sessions(play, kind, count=1):
        for _, _, preemptor in play.victims(steps):
            assert preemptor.job is not None
            queue = preemptor.job.queue
            due, had = dues(play.cluster, kind)[queue], before.get(queue, {})
            request = preemptor.template.request
            assert any(had.get(name, 0) + amount <= due.deserved.get(name, 0) for name, amount in request.items())
            assert all(had.get(name, 0) + amount <= due.limit.get(name, 0) for name, amount in request.items())
