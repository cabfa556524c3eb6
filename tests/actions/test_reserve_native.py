"""Promises to Kubernetes' own gangs: as those to Volcano's, on nodes of one topology domain, kept in their status."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.actions.rigs import conf, cycle, events, rig
from volsched.model.api import native_groups as native
from volsched.model.changes import Change, KindServed
from volsched.model.held_nodes import RESERVED, StatedReservation, stated_reservation_of
from volsched.model.plan import WriteNativeStatus
from volsched.testing.builders import (
    ClusterBuilder,
    CycleDecision,
    Rig,
    a_cluster,
    a_member,
    a_native_group,
    a_pod,
    put,
)

RESERVING: Final = conf("enqueue, reserve, allocate, backfill", "priority gang", "predicates")
CARD: Final = "nvidia.com/gpu"
RACK: Final = "example.com/rack"
NOW: Final = 1_767_225_600.0
HOUR: Final = 3600.0
SERVED: Final = KindServed(native.KIND, "scheduling.k8s.io/v1alpha2")
IN_ONE_RACK: Final = {"schedulingConstraints": {"topology": [{"key": RACK}]}}


def nodes(**hours: int) -> ClusterBuilder:
    """Nodes of eight cards, called by rack and number; a job of so many hours has one card of each."""
    made = a_cluster().queue("default")
    for name, length in hours.items():
        declared = {"volsched.io/expected-duration": f"{length}h"}
        made.node(name, labels={RACK: name[0]}, **{CARD: 8})
        made.add(a_pod(f"old-{name}", on=name, annotations=declared, status=_running(), **{CARD: 1}))
    return made


def _running() -> dict[str, Any]:
    return {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}


def a_gang(status: dict[str, Any] | None = None, **spec: Any) -> list[Change]:
    """A gang of two nodes that has waited for hours."""
    group = a_native_group("gang", 2, "2025-12-31T20:00:00Z", status=status, **spec)
    return [put(group), *(put(a_member(f"gang-{number}", "gang", **{CARD: 8})) for number in range(2))]


def started(cluster: ClusterBuilder, *changes: Change, configuration: str = RESERVING) -> Rig:
    made = rig(cluster, configuration)
    made.mirror.apply([SERVED, *changes])
    return made


def promised(on: Rig) -> StatedReservation | None:
    return stated_reservation_of(on.cluster.jobs["default/group/gang"])


def written(decision: CycleDecision) -> dict[str, tuple[str, str]]:
    """What is written of the gang: status and reason, by the type of the condition."""
    found = [step for step in decision.steps if isinstance(step, WriteNativeStatus)]
    return {one.type: (one.status, one.reason) for step in found for one in step.conditions}


def ended(*names: str) -> list[Change]:
    return [put(a_pod(f"old-{name}", on=name, phase="Succeeded", **{CARD: 1})) for name in names]


def test_a_gang_is_told_when_and_where_it_starts_in_its_status_and_in_an_event() -> None:
    made = started(nodes(a1=3, a2=5), *a_gang())
    decision = cycle(made)

    assert promised(made) == StatedReservation(NOW, NOW + 5 * HOUR, ("a1", "a2"))
    assert written(decision)[RESERVED] == ("True", RESERVED)
    assert written(decision)["PodGroupScheduled"] == ("False", "Unschedulable")
    assert "gang default/gang will start by 2026-01-01T05:00:00Z" in decision.waiting["gang-0"]
    assert [reason for about, reason, _ in events(decision) if about == "PodGroup/gang"] == [RESERVED]
    assert written(cycle(made)) == {}


def test_a_gang_that_started_has_its_promise_no_longer() -> None:
    made = started(nodes(a1=3, a2=5), *a_gang())
    cycle(made)
    decision = cycle(made, *ended("a1", "a2"))

    assert decision.bindings == {"gang-0": "a1", "gang-1": "a2"}
    assert promised(made) is None
    assert written(decision)[RESERVED] == ("False", "NotReserved")


@pytest.mark.parametrize(
    "configuration",
    [
        RESERVING,
        conf("reserve, allocate", "priority gang", "predicates"),
        conf("enqueue, reserve, allocate", "priority gang", "predicates overcommit"),
    ],
)
def test_a_new_leader_reads_the_promise_and_holds_the_same_nodes(configuration: str) -> None:
    before = started(nodes(a1=3, a2=5, a3=4), *a_gang(), configuration=configuration)
    first = cycle(before)
    [write] = [step for step in first.steps if isinstance(step, WriteNativeStatus)]
    conditions = [
        {"type": one.type, "status": one.status, "reason": one.reason, "message": one.message}
        for one in write.conditions
    ]
    again = started(nodes(a1=3, a2=5, a3=4), *a_gang(status={"conditions": conditions}), configuration=configuration)
    again.clock.time += 60
    second = cycle(again)

    assert promised(again) == promised(before) == StatedReservation(NOW, NOW + 4 * HOUR, ("a1", "a3"))
    assert RESERVED not in written(second)
    assert ("PodGroup/gang", RESERVED) not in [(about, reason) for about, reason, _ in events(second)]


def test_a_watch_that_is_behind_takes_no_promise_away() -> None:
    made = started(nodes(a1=3, a2=5), *a_gang())
    cycle(made)
    cycle(made, *a_gang(status={"conditions": []})[:1])

    assert promised(made) == StatedReservation(NOW, NOW + 5 * HOUR, ("a1", "a2"))


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ({}, StatedReservation(NOW, NOW + 3 * HOUR, ("a1", "b1"))),
        (IN_ONE_RACK, StatedReservation(NOW, NOW + 5 * HOUR, ("b1", "b2"))),
    ],
)
def test_a_gang_with_a_topology_key_is_promised_nodes_of_the_domain_that_is_free_first(
    constraints: dict[str, Any], expected: StatedReservation
) -> None:
    made = started(nodes(a1=2, a2=9, b1=3, b2=5), *a_gang(**constraints))
    cycle(made)

    assert promised(made) == expected


def test_a_gang_with_a_topology_key_starts_in_its_domain() -> None:
    made = started(nodes(a1=2, a2=9, b1=3, b2=5), *a_gang(**IN_ONE_RACK))
    cycle(made)
    assert cycle(made, *ended("a1", "b1")).bindings == {}

    assert cycle(made, *ended("b2")).bindings == {"gang-0": "b1", "gang-1": "b2"}


def test_a_gang_that_lacks_members_is_promised_nothing_until_it_has_them() -> None:
    group, *members = a_gang()
    made = started(nodes(a1=3, a2=5), group, members[0])
    cycle(made)
    assert promised(made) is None
    cycle(made, members[1])

    assert promised(made) is not None
