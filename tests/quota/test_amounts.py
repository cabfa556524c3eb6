"""What quota plugins share: what a queue may have, and which part of its due it holds."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from volsched.model.queues.queue import QueueInfo, QueueProperties
from volsched.model.values.resources import UNLIMITED
from volsched.model.verdict import Shortfall
from volsched.quota.amounts import guaranteed, limits, not_admitted, of_nodes, room, share, there
from volsched.testing.builders import a_cluster, a_rig

Amounts = Mapping[str, int]
CONFIGURATION = "actions: allocate\ntiers:\n- plugins:\n  - name: predicates\n"


def a_queue(**spec: Amounts) -> QueueInfo:
    return QueueInfo(QueueProperties("q", **spec))


LIMITS: dict[str, tuple[Mapping[str, Any], Amounts, Amounts]] = {
    # what: (the queue, what all queues are guaranteed, what it may have of 10 cpu and 4 cards)
    "all there is": ({}, {}, {"cpu": 10, "gpu": 4}),
    "less what others are guaranteed": ({}, {"cpu": 6}, {"cpu": 4, "gpu": 4}),
    "its own guarantee left out": ({"guarantee": {"cpu": 2}}, {"cpu": 6}, {"cpu": 6, "gpu": 4}),
    "up to its capability": ({"capability": {"cpu": 3}}, {}, {"cpu": 3, "gpu": 4}),
    "no card": ({"capability": {"gpu": 0}}, {}, {"cpu": 10, "gpu": 0}),
    "a capability of what is not there": ({"capability": {"npu": 5}}, {}, {"cpu": 10, "gpu": 4, "npu": 0}),
    "quotas of devices left out": (
        {"guarantee": {"deviceclass/x": 1}, "capability": {"memory.deviceclass/x": 1}},
        {},
        {"cpu": 10, "gpu": 4},
    ),
    "guarantees above what is there": ({"guarantee": {"cpu": 1}}, {"cpu": 30}, {"cpu": 1, "gpu": 4}),
}


@pytest.mark.parametrize("what", LIMITS)
def test_what_a_queue_may_have(what: str) -> None:
    spec, guaranteed, expected = LIMITS[what]

    assert limits(a_queue(**spec), {"cpu": 10, "gpu": 4}, guaranteed) == expected


@pytest.mark.parametrize(
    ("held", "deserved", "expected"),
    [
        ({}, {}, Fraction(0)),
        ({"cpu": 3}, {}, Fraction(0)),
        ({"cpu": 3}, {"cpu": Fraction(4)}, Fraction(3, 4)),
        ({"cpu": 1, "memory": 3}, {"cpu": Fraction(4), "memory": Fraction(4)}, Fraction(3, 4)),
        ({"cpu": 10}, {"cpu": Fraction(10, 3)}, Fraction(3)),
        ({"cpu": 1}, {"cpu": Fraction(0)}, Fraction(1)),
        ({}, {"cpu": Fraction(0)}, Fraction(0)),
        ({"cpu": 1}, {"cpu": 3}, Fraction(1, 3)),
    ],
)
def test_a_share_is_an_exact_fraction(held: Amounts, deserved: Mapping[str, Fraction], expected: Fraction) -> None:
    assert share(held, deserved) == expected


def test_what_is_kept_takes_nothing_off_that_which_has_no_limit() -> None:
    assert room({"cpu": UNLIMITED}, {"cpu": 4}, {"cpu": 1}, {}) == {"cpu": UNLIMITED}


def test_a_list_without_quotas_of_devices_stays_as_it_is() -> None:
    amounts = {"cpu": 1, "example.com/deviceclasses": 2}

    assert of_nodes(amounts) is amounts
    assert of_nodes({**amounts, "deviceclass/x": 3, "memory.deviceclass/x": 4}) == amounts


def test_what_is_there_and_guaranteed_is_that_of_all_nodes_and_queues() -> None:
    given = a_cluster().node("n1", cpu=2, memory="1Gi", pods=3).node("n2", cpu=1, memory="1Gi", pods=4)
    given.queue("a", guarantee={"resource": {"cpu": "1", "deviceclass/x": "2"}})
    given.queue("b", guarantee={"resource": {"cpu": "500m"}})
    cluster = a_rig(given, CONFIGURATION).cluster

    assert there(cluster) == {"cpu": 3000, "memory": 2 << 30, "pods": 7}
    assert guaranteed(cluster) == {"cpu": 1500}


def test_a_refusal_to_admit_has_all_that_is_short_with_figures() -> None:
    verdict = not_admitted("p", "q", (Shortfall("cpu", 2000, 3000, 4000), Shortfall("memory", 1, 0, 0)))

    assert verdict.message == (
        "queue resource quota insufficient: insufficient cpu, insufficient memory "
        '(queue "q": cpu: requested 2, used 3, limit 4; memory: requested 1, used 0, limit 0)'
    )
    assert (verdict.plugin, verdict.reason) == ("p", "Unschedulable")
