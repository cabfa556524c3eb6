"""Sharing the cluster out: tables by hand, and rules that hold whatever the queues."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.proportion.shares import QueueShare, share_out
from volsched.model.queues.queue import QueueInfo, QueueProperties
from volsched.quota.amounts import limits, share

Amounts = Mapping[str, int]


def a_queue(name: str, weight: int = 1, **spec: Amounts) -> QueueInfo:
    return QueueInfo(QueueProperties(name, weight=weight, **spec))


def shared(total: Amounts, **queues: Mapping[str, Any]) -> dict[str, dict[str, Fraction]]:
    """What each queue deserves. A queue: ``asks``, and ``weight``, ``capability``, ``guarantee`` if it has them."""
    made = {
        name: a_queue(name, **{key: value for key, value in spec.items() if key != "asks"})
        for name, spec in queues.items()
    }
    guaranteed: dict[str, int] = {}
    for queue in made.values():
        for resource, amount in queue.spec.guarantee.items():
            guaranteed[resource] = guaranteed.get(resource, 0) + amount
    queue_shares = [
        QueueShare(queue, queues[name]["asks"], limits(queue, total, guaranteed))
        for name, queue in made.items()
        if queues[name]["asks"] is not None
    ]
    share_out(queue_shares, total)
    return {queue_share.queue.name: queue_share.deserved for queue_share in queue_shares}


MUCH = {"cpu": 1000, "memory": 1000}
TEN = {"cpu": 10}

TABLE: dict[str, tuple[Amounts, dict[str, Mapping[str, Any]], dict[str, dict[str, Any]]]] = {
    # what: (the cluster, the queues, what each deserves)
    "one queue gets what it asks for": (TEN, {"a": {"asks": {"cpu": 4}}}, {"a": {"cpu": 4}}),
    "one queue gets no more than there is": (TEN, {"a": {"asks": {"cpu": 40}}}, {"a": {"cpu": 10}}),
    "equal weights, equal parts": (TEN, {"a": {"asks": MUCH}, "b": {"asks": MUCH}}, {"a": {"cpu": 5}, "b": {"cpu": 5}}),
    "parts by weight": (
        TEN,
        {"a": {"weight": 1, "asks": MUCH}, "b": {"weight": 4, "asks": MUCH}},
        {"a": {"cpu": 2}, "b": {"cpu": 8}},
    ),
    "parts are not rounded": (
        TEN,
        {"a": {"asks": MUCH}, "b": {"asks": MUCH}, "c": {"asks": MUCH}},
        {name: {"cpu": Fraction(10, 3)} for name in "abc"},
    ),
    "what one does not ask for goes to the others": (
        TEN,
        {"a": {"asks": {"cpu": 1}}, "b": {"asks": MUCH}, "c": {"weight": 2, "asks": MUCH}},
        {"a": {"cpu": 1}, "b": {"cpu": 3}, "c": {"cpu": 6}},
    ),
    "in several rounds": (
        {"cpu": 12},
        {"a": {"asks": {"cpu": 1}}, "b": {"asks": {"cpu": 4}}, "c": {"asks": MUCH}},
        {"a": {"cpu": 1}, "b": {"cpu": 4}, "c": {"cpu": 7}},
    ),
    "one queue after the other has all that it asks for": (
        {"cpu": 28},
        {"a": {"asks": {"cpu": 1}}, "b": {"asks": {"cpu": 8}}, "c": {"asks": {"cpu": 9}}, "d": {"asks": MUCH}},
        {"a": {"cpu": 1}, "b": {"cpu": 8}, "c": {"cpu": 9}, "d": {"cpu": 10}},
    ),
    "each resource by itself": (
        {"cpu": 10, "memory": 10},
        {"a": {"asks": {"cpu": 9, "memory": 1}}, "b": {"asks": {"cpu": 2, "memory": 9}}},
        {"a": {"cpu": 8, "memory": 1}, "b": {"cpu": 2, "memory": 9}},
    ),
    "a resource that nobody asks for is nobody's": (
        {"cpu": 10, "memory": 10},
        {"a": {"asks": {"cpu": 20}}},
        {"a": {"cpu": 10}},
    ),
    "a resource that the cluster has not": (TEN, {"a": {"asks": {"cpu": 1, "gpu": 1}}}, {"a": {"cpu": 1}}),
    "capability ends a part, the rest goes on": (
        TEN,
        {"a": {"asks": MUCH, "capability": {"cpu": 2}}, "b": {"asks": MUCH}},
        {"a": {"cpu": 2}, "b": {"cpu": 8}},
    ),
    "a capability of no cpu is none": (TEN, {"a": {"asks": MUCH, "capability": {"cpu": 0}}}, {"a": {"cpu": 10}}),
    "a capability of no cards is one": ({"gpu": 4}, {"a": {"asks": {"gpu": 4}, "capability": {"gpu": 0}}}, {"a": {}}),
    "a guarantee is kept from the others": (
        TEN,
        {"a": {"asks": {"cpu": 8}, "guarantee": {"cpu": 8}}, "b": {"weight": 9, "asks": MUCH}},
        {"a": {"cpu": 8}, "b": {"cpu": 2}},
    ),
    "even when its queue has no jobs": (
        TEN,
        {"a": {"asks": None, "guarantee": {"cpu": 8}}, "b": {"asks": MUCH}},
        {"b": {"cpu": 2}},
    ),
    "a guarantee is deserved unasked": (
        TEN,
        {"a": {"asks": {}, "guarantee": {"cpu": 3}}, "b": {"asks": MUCH}},
        {"a": {"cpu": 3}, "b": {"cpu": 7}},
    ),
    "a guarantee of devices is no part of the cluster": (
        TEN,
        {"a": {"asks": MUCH, "guarantee": {"deviceclass/x": 2}}},
        {"a": {"cpu": 10}},
    ),
    "guarantees above what there is stop nobody": (
        TEN,
        {"a": {"asks": MUCH, "guarantee": {"cpu": 8}}, "b": {"asks": MUCH, "guarantee": {"cpu": 8}}},
        {"a": {"cpu": 8}, "b": {"cpu": 8}},
    ),
    "weight 0 gets nothing": (
        TEN,
        {"a": {"weight": 0, "asks": MUCH}, "b": {"asks": {"cpu": 3}}},
        {"a": {}, "b": {"cpu": 3}},
    ),
    "nobody has a weight": (TEN, {"a": {"weight": 0, "asks": MUCH}}, {"a": {}}),
    "no cluster": ({}, {"a": {"asks": MUCH}}, {"a": {}}),
    "nobody asks": (TEN, {"a": {"asks": {}}, "b": {"asks": {}}}, {"a": {}, "b": {}}),
}


@pytest.mark.parametrize("what", TABLE)
def test_the_cluster_is_shared_out(what: str) -> None:
    total, queues, expected = TABLE[what]

    assert shared(total, **queues) == expected


def test_the_order_of_the_queues_does_not_matter() -> None:
    queues: dict[str, Mapping[str, Any]] = {
        "a": {"weight": 3, "asks": {"cpu": 7, "memory": 2}},
        "b": {"weight": 2, "asks": MUCH, "capability": {"cpu": 3}},
        "c": {"asks": MUCH, "guarantee": {"memory": 4}},
    }
    total = {"cpu": 11, "memory": 13}

    forward = shared(total, **queues)

    assert shared(total, **dict(reversed(queues.items()))) == forward


amounts = st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 40), "memory": st.integers(0, 40)})
some_queues = st.dictionaries(
    st.sampled_from("abcde"),
    st.fixed_dictionaries({"weight": st.integers(0, 5), "asks": amounts}, optional={"capability": amounts}),
    min_size=1,
)


@given(st.fixed_dictionaries({"cpu": st.integers(0, 60), "memory": st.integers(0, 60)}), some_queues)
def test_nobody_deserves_more_than_it_asks_for_or_may_have_and_nothing_is_given_twice(
    total: Amounts, queues: dict[str, dict[str, Any]]
) -> None:
    found = shared(total, **queues)

    for name, deserved in found.items():
        limit = limits(a_queue(name, capability=queues[name].get("capability", {})), total, {})
        assert all(amount <= queues[name]["asks"].get(resource, 0) for resource, amount in deserved.items())
        assert all(amount <= limit[resource] for resource, amount in deserved.items())
        if not queues[name]["weight"]:
            assert deserved == {}
    for resource, amount in total.items():
        given_out = sum(deserved.get(resource, 0) for deserved in found.values())
        assert given_out <= amount
        hungry = [
            name
            for name in found
            if queues[name]["weight"] and "capability" not in queues[name] and not _has_all(found[name], queues[name])
        ]
        if any(queues[name]["asks"].get(resource, 0) > found[name].get(resource, 0) for name in hungry):
            assert given_out == amount  # somebody still wants it, so none of it is left


def _has_all(deserved: Mapping[str, Fraction], queue: Mapping[str, Any]) -> bool:
    return all(deserved.get(resource, 0) >= amount for resource, amount in queue["asks"].items())


def test_thirds_of_a_cluster_that_does_not_divide_by_three_are_thirds() -> None:
    found = shared({"memory": 2**40 + 1}, **{name: {"asks": {"memory": 2**41}} for name in "abc"})

    assert {share({"memory": 2**40 + 1}, deserved) for deserved in found.values()} == {Fraction(3)}
    assert sum(deserved["memory"] for deserved in found.values()) == 2**40 + 1


def in_rounds(total: Amounts, queue_shares: list[QueueShare], rounds: int = 200) -> dict[str, dict[str, float]]:
    """Volcano's way: round after round, everybody's part of what remains."""
    remaining: dict[str, float] = dict(total)
    deserved: dict[str, dict[str, float]] = {queue_share.queue.name: {} for queue_share in queue_shares}
    unfinished = list(queue_shares)
    for _ in range(rounds):
        weight = sum(queue_share.queue.spec.weight for queue_share in unfinished)
        if not weight or not any(remaining.values()):
            break
        parts = {name: amount / weight for name, amount in remaining.items()}
        going_on = []
        for queue_share in unfinished:
            before = deserved[queue_share.queue.name]
            now = {
                name: max(
                    min(before.get(name, 0.0) + part * queue_share.queue.spec.weight, float(queue_share.most(name))),
                    float(queue_share.queue.spec.guarantee.get(name, 0)),
                )
                for name, part in parts.items()
            }
            for name, amount in now.items():
                remaining[name] = max(0.0, remaining[name] - amount + before.get(name, 0.0))
            deserved[queue_share.queue.name] = now
            covered = all(now.get(name, 0.0) >= amount for name, amount in queue_share.request.items())
            if now != before and not covered:
                going_on.append(queue_share)
        unfinished = going_on
    return deserved


@given(
    st.fixed_dictionaries({"cpu": st.integers(0, 60), "memory": st.integers(0, 60)}),
    st.dictionaries(
        st.sampled_from("abcde"),
        st.fixed_dictionaries(
            {"weight": st.integers(0, 5), "asks": amounts}, optional={"capability": amounts, "guarantee": amounts}
        ),
        min_size=1,
    ),
)
def test_shares_are_what_endless_rounds_come_to(total: Amounts, queues: dict[str, dict[str, Any]]) -> None:
    guaranteed = {name: sum(q.get("guarantee", {}).get(name, 0) for q in queues.values()) for name in total}
    queue_shares = []
    for name, spec in queues.items():
        queue = a_queue(name, **{key: value for key, value in spec.items() if key != "asks"})
        queue_shares.append(QueueShare(queue, spec["asks"], limits(queue, total, guaranteed)))
    expected = in_rounds(total, queue_shares)

    share_out(queue_shares, total)

    for queue_share in queue_shares:
        for name, amount in total.items():
            if amount:
                mine = float(queue_share.deserved.get(name, 0))
                assert mine == pytest.approx(expected[queue_share.queue.name].get(name, 0.0), abs=1e-6)


def test_queues_that_want_different_things_do_not_share_out_for_ever() -> None:
    found = shared({"a100": 8, "h100": 8}, a={"asks": {"a100": 20}}, b={"asks": {"h100": 20}})

    assert found == {"a": {"a100": 8}, "b": {"h100": 8}}
