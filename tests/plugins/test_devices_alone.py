"""Gangs of pods that ask for devices and for nothing else start whole or not at all, whatever engine decides.

Volcano's rule that pods which want nothing count as ready (best effort) is for pods that want nothing: claims, extended
resources, cards and shares of cards are something.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tests.plugins.capacity_card.clusters import A, cards, configuration
from tests.plugins.capacity_card.clusters import rig as card_rig
from tests.plugins.predicates.test_devices import using
from volsched.model.job import INQUEUE
from volsched.model.plan import RecordEvent
from volsched.registry import load_profile
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_cluster, a_rig
from volsched.testing.contract import ENGINES
from volsched.testing.recount import faults

ASKS = "example.com/gpu"
CORE, MEMORY, COUNT = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory", "vke.volcengine.com/mgpu-count"


def conf(*plugins: str, actions: str = "enqueue, allocate, backfill") -> str:
    listed = "\n".join(f"  - {{name: {plugin}}}" for plugin in plugins)
    return f'actions: "{actions}"\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: predicates\n{listed}\n'


def devices(count: int, node: str = "n1") -> dict[str, Any]:
    return part(f"of-{node}", [device(f"d{number}") for number in range(count)], node=node, pool=node)


def quota(count: int) -> dict[str, Any]:
    return {"dra": {"capability": {"gpu": {"count": count}}}}


def with_claims(there: int, may_have: int) -> ClusterBuilder:
    """Three pods with a claim of their own each."""
    cluster = a_cluster().node("n1").add(device_class()).add(devices(there)).queue("q", **quota(may_have))
    for number in range(3):
        cluster.add(claim(f"c{number}", exactly())).pod(f"p{number}", "gang", spec=using(f"c{number}"))
    return cluster


def with_extended_resources(there: int, may_have: int) -> ClusterBuilder:
    """Three pods that ask for an extended resource that devices serve."""
    cluster = a_cluster().node("n1").add(device_class(extendedResourceName=ASKS)).add(devices(there))
    cluster.queue("q", **quota(may_have))
    for number in range(3):
        cluster.pod(f"p{number}", "gang", **{ASKS: 1})
    return cluster


def with_cards(there: int, may_have: int) -> ClusterBuilder:
    """Three pods that name a card, and ask for its resource."""
    cluster = cards().cards("n1", A, there).quota("q", {A: may_have})
    for number in range(3):
        cluster.pod(f"p{number}", "gang", annotations={"volcano.sh/card.name": A}, **{"nvidia.com/gpu": 1})
    return cluster


BY_CLASS, BY_CARD = conf("capacity-dra"), conf("capacity-card")
WAYS = [
    pytest.param(with_claims, BY_CLASS, id="claims"),
    pytest.param(with_extended_resources, BY_CLASS, id="extended resources from devices"),
    pytest.param(with_cards, BY_CARD, id="cards"),
]


def condition_of(rig: Rig) -> list[tuple[str, str]]:
    return [(c.type, c.status) for c in rig.cluster.jobs["default/gang"].conditions]


def told_of_the_group(decision: CycleDecision) -> list[str]:
    return [step.reason for step in decision.steps if isinstance(step, RecordEvent) and step.kind == "PodGroup"]


WAITS = [("Unschedulable", "True")]
HOPELESS = [("ReservationReleased", "True"), *WAITS]
"""Of a gang that could not start if all others left either."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("phase", ["Pending", INQUEUE])
@pytest.mark.parametrize(("there", "may_have"), [(2, 3), (4, 2)], ids=["room for two", "quota for two"])
@pytest.mark.parametrize(("make", "configuration"), WAYS)
def test_a_gang_of_three_with_room_or_quota_for_two_waits(
    make: Any, configuration: str, there: int, may_have: int, phase: str, engine: Any
) -> None:
    """minMember 3, one ResourceClaim each, room or quota for 2, no cpu."""
    rig = a_rig(make(there, may_have).group("gang", "q", 3, phase), configuration, engine)

    decision = rig.cycle()

    assert decision.bindings == {}
    assert condition_of(rig) == (HOPELESS if there < 3 and configuration == BY_CARD else WAITS)
    assert "Scheduled" not in told_of_the_group(decision)
    assert faults(rig.cluster) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("make", "configuration"), WAYS)
def test_with_room_and_quota_for_three_it_starts(make: Any, configuration: str, engine: Any) -> None:
    rig = a_rig(make(3, 3).group("gang", "q", 3, "Pending"), configuration, engine)

    assert rig.cycle().bindings == {"p0": "n1", "p1": "n1", "p2": "n1"}
    assert condition_of(rig) == [("Scheduled", "True")]


@pytest.mark.parametrize("engine", ENGINES)
def test_shares_of_cards_are_something_too(engine: Any) -> None:
    """One card of 100 percent, three pods that ask for 40 of it each."""
    labels = {COUNT: "1"}
    cluster = a_cluster().node("n1", labels=labels, **{CORE: 100, MEMORY: 10_000})
    cluster.group("gang", minimum=3, phase="Pending")
    for number in range(3):
        cluster.pod(f"p{number}", "gang", **{CORE: 40, MEMORY: 1000})
    rig = a_rig(cluster, conf("mgpu, arguments: {predicate.MGPUEnable: true}"), engine)

    assert rig.cycle().bindings == {}
    assert condition_of(rig) == WAITS


def test_a_claim_that_is_refused_at_admission_keeps_its_podgroup_from_being_ready() -> None:
    rig = a_rig(with_claims(4, 2).group("gang", "q", 3, "Pending"), BY_CLASS)

    decision = rig.cycle()

    assert rig.cluster.jobs["default/gang"].phase == "Pending"
    assert condition_of(rig) == WAITS
    assert told_of_the_group(decision) == ["InsufficientDRAQuota"]


def test_pods_that_want_nothing_are_not_ready_either_while_their_queue_takes_nothing_on() -> None:
    cluster = a_cluster().node("n1").group("gang", "q", 1, "Pending").pod("p0", "gang")
    cluster.add({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q", "uid": "q"},
                 "spec": {"weight": 1}, "status": {"state": "Closed"}})  # fmt: skip
    rig = a_rig(cluster, BY_CLASS)

    decision = rig.cycle()

    assert decision.bindings == {}
    assert condition_of(rig) == WAITS
    assert told_of_the_group(decision) == ["QueueClosed"]


@pytest.mark.parametrize("engine", ENGINES)
def test_cards_that_nobody_can_tell_are_asked_for_all_the_same(engine: Any) -> None:
    """A pod that names a card and asks for nothing of its resource: two others must not start without it."""
    cluster = cards().cards("n1", A, 8).quota("q", {A: 8}).group("gang", "q", 3)
    for number in range(3):
        asks = {"nvidia.com/gpu": 1} if number else {}
        cluster.pod(f"p{number}", "gang", annotations={"volcano.sh/card.name": A}, **asks)
    rig = a_rig(cluster, BY_CARD, engine)

    decision = rig.cycle()

    assert decision.bindings == {}
    assert "no resource <nvidia.com/gpu> defined in requests/limits" in decision.waiting["p0"]
    assert condition_of(rig) == HOPELESS


def test_a_blank_name_of_a_card_asks_for_nothing() -> None:
    cluster = cards().cards("n1", A, 8).quota("q", {}).group("gang", "q", 1)
    rig = a_rig(cluster.pod("p", "gang", annotations={"volcano.sh/card.name": " "}), BY_CARD)

    assert rig.cycle().bindings == {"p": "n1"}
    assert rig.cluster.tasks["pod-default-p"].best_effort


def test_who_names_a_card_is_best_effort_again_without_a_plugin_that_knows_cards() -> None:
    """The count of members that want nothing follows the configuration."""
    named = {"annotations": {"volcano.sh/card.name": A}}
    rig = card_rig(cards().cards("n1", A, 8).quota("q", {A: 8}).group("gang", "q", 1).pod("p", "gang", **named))
    job = rig.cluster.jobs["default/gang"]
    assert job.pending_best_effort == 0

    plain, _ = load_profile(conf())
    with_cards_again = rig.scheduler.profile
    rig.scheduler.reconfigure(plain)
    assert (job.pending_best_effort, faults(rig.cluster)) == (1, [])
    rig.scheduler.reconfigure(with_cards_again)
    assert (job.pending_best_effort, faults(rig.cluster)) == (0, [])
    assert configuration() != conf()


def test_nobody_knows_what_a_pod_wants_whose_request_is_not_understood() -> None:
    cluster = a_cluster().node("n1").group("gang", minimum=2).pod("p0", "gang", cpu=1).pod("p1", "gang", cpu="much")
    rig = a_rig(cluster, BY_CLASS)

    assert rig.cycle().bindings == {}
    assert condition_of(rig) == HOPELESS


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("phase", ["Pending", INQUEUE])
def test_fair_shares_of_amounts_keep_no_devices_from_anybody(engine: Any, phase: str) -> None:
    """A queue whose pods ask for claims alone deserves nothing of what is shared out, and needs nothing of it."""
    rig = a_rig(with_claims(3, 3).group("gang", "q", 3, phase), conf("proportion", "drf"), engine)

    assert rig.cycle().bindings == {"p0": "n1", "p1": "n1", "p2": "n1"}


def test_a_queue_that_has_its_due_says_so_to_its_other_pods() -> None:
    """A pod that asks for cpu waits for its queue's due, one of its gang that asks for a claim alone does not."""
    cluster = a_cluster().node("n1", cpu=4).add(device_class()).add(devices(1)).add(claim("c0", exactly()))
    cluster.queue("q", weight=1, capability={"cpu": "1"})
    cluster.group("old", "q").pod("old", "old", on="n1", cpu=1)
    cluster.group("gang", "q", 1).pod("p0", "gang", spec=using("c0")).pod("p1", "gang", cpu=1)

    decision = a_rig(cluster, conf("proportion")).cycle()

    assert decision.bindings == {"p0": "n1"}
    assert 'queue "q" holds all that it deserves' in decision.waiting["p1"]
