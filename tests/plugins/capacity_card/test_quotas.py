"""Queues and cards, case by case: admission, placing, nodes, charges, Events. Ids of cases are those of the design."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.capacity_card.clusters import (
    GPU,
    MPS,
    A,
    Cards,
    H,
    T,
    cards,
    configuration,
    decided,
    events,
    nodes_of,
    refusal,
    rig,
    some,
)
from volsched.model.changes import Deleted
from volsched.registry import load_profile
from volsched.testing.builders import a_rig, put, puts

OK = None


def farm() -> Cards:
    return cards().cards("a1", A).cards("h1", H)


def sentence(card: str, requested: int, total: int, capability: int, queue: str = "q") -> str:
    return (
        f"Queue <{queue}> has insufficient <{card}> quota: requested <{requested}>, total would be <{total}>, "
        f"but capability is <{capability}>"
    )


# -- what a pod asks for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("card", "requests", "words"),
    [
        pytest.param("NVIDIA-B200", {GPU: 1}, "no resource name found for card <NVIDIA-B200>", id="C02 unknown"),
        pytest.param(
            A, {"cpu": 1}, f"no resource <{GPU}> defined in requests/limits for card <{A}>", id="C03 none asked"
        ),
        pytest.param(f"{A}|{A}/mps-80g*1/8", {GPU: 1}, "must be of one resource", id="C14 of two resources"),
    ],
)
def test_a_pod_that_cannot_be_understood_is_refused_by_name(card: str, requests: dict[str, Any], words: str) -> None:
    cluster = farm().cards("m1", A, labels={f"{GPU}.replicas": "8"}, **some({MPS: 32})).quota("q", {A: 4})
    cluster.group("j", "q").pod("p", "j", annotations={"volcano.sh/card.name": card}, **requests)

    decision = decided(cluster)

    assert decision.bindings == {}
    reason, message = refusal(decision, "p")
    assert (reason, message.startswith("Get request resource failed, Queue <q>, error: ")) == (
        "GetTaskRequestResourceFailed",
        True,
    )
    assert words in message
    assert events(decision, "Pod") == [("p", "Warning", reason, message)]


def test_a_pod_that_names_a_card_and_asks_for_nothing_at_all_is_refused_too() -> None:
    decision = decided(
        farm().quota("q", {A: 4}).gang("j").gang("k", 0).pod("p", "k", annotations={"volcano.sh/card.name": A})
    )

    assert refusal(decision, "p")[0] == "GetTaskRequestResourceFailed"


@pytest.mark.parametrize(
    ("card", "node"),
    [
        (f"{A} | {H}", "a1"),
        (f"|{H}", "h1"),
        (f"{H}|", "h1"),
        (f"Nobody|{H}", "h1"),
        (f"{H}|{H}|{A}", "h1"),
    ],
)
def test_lists_are_read_kindly(card: str, node: str) -> None:
    decision = decided(farm().quota("q", {A: 1, H: 1}).gang("j", card=card))

    assert decision.bindings == {"j-0": node}


def test_containers_add_up_and_init_containers_count_at_their_most() -> None:
    containers = [{"name": f"c{n}", "image": "x", "resources": {"limits": {GPU: str(n)}}} for n in (1, 2)]
    inits = [{"name": "i", "image": "x", "resources": {"limits": {GPU: "2"}}}]
    cluster = farm().quota("q", {A: 3}).group("j", "q")
    cluster.pod(
        "p", "j", annotations={"volcano.sh/card.name": A}, spec={"containers": containers, "initContainers": inits}
    )
    tight = farm().quota("q", {A: 2}).group("j", "q")
    tight.objects.append(cluster.objects[-1])

    assert decided(cluster).bindings == {"p": "a1"}
    assert sentence(A, 3000, 3000, 2000) in refusal(decided(tight), "p")[1]


@pytest.mark.parametrize(
    ("main", "init", "amount"),
    [
        ([({GPU: "1"}, {GPU: "2"})], [], 2),
        ([({GPU: "3"}, {GPU: "2"})], [], 2),
        ([({GPU: "1"}, {GPU: "2"}), ({GPU: "1"}, {})], [], 3),
        ([({GPU: "1"}, {GPU: "1"})], [({GPU: "1"}, {GPU: "4"})], 4),
        ([({GPU: "500m"}, {})], [], 1),
    ],
)
def test_limits_come_before_requests_and_a_part_of_a_card_is_a_whole_one(main: Any, init: Any, amount: int) -> None:
    containers, inits = (
        [
            {"name": f"c{place}", "image": "x", "resources": {"requests": requests, "limits": limits}}
            for place, (requests, limits) in enumerate(listed)
        ]
        for listed in (main, init)
    )
    cluster = farm().quota("q", {A: 0}).group("j", "q")
    cluster.pod(
        "p", "j", annotations={"volcano.sh/card.name": A}, spec={"containers": containers, "initContainers": inits}
    )

    assert sentence(A, amount * 1000, amount * 1000, 0) in refusal(decided(cluster), "p")[1]


# -- task mode --------------------------------------------------------------------------------------------------------

HOLD = {"G": "g", "H": "h", "K": "k"}


def holding(quota: dict[str, int], used: dict[str, int]) -> Cards:
    cluster = cards().quota("q", quota)
    for card, node in HOLD.items():
        cluster.cards(node, card, 32)
    for card, amount in used.items():
        cluster.gang(f"r-{card.lower()}", card=card, each=amount, on=HOLD[card])
    return cluster


@pytest.mark.parametrize(
    ("quota", "used", "card", "each", "expect"),
    [
        pytest.param({"G": 5}, {"G": 1}, "G", 2, "g", id="D01"),
        pytest.param({"G": 5}, {"G": 4}, "G", 2, sentence("G", 2000, 6000, 5000), id="D02"),
        pytest.param({"G": 10, "H": 8}, {"G": 3, "H": 5}, "G|H", 2, "g", id="D03"),
        pytest.param({"G": 10, "H": 8}, {"G": 9, "H": 5}, "G|H", 2, "h", id="D04"),
        pytest.param({"G": 10, "H": 8}, {"G": 9, "H": 7}, "G|H", 2, sentence("G|H", 2000, 9000, 8000), id="D05"),
        pytest.param({"G": 5}, {"G": 3}, "G", 2, "g", id="D07 equality passes"),
        pytest.param({}, {"H": 1}, "H", 2, sentence("H", 2000, 3000, 0), id="D09 a card without a quota"),
    ],
)
def test_a_task_uses_one_card_of_its_list(
    quota: dict[str, int], used: dict[str, int], card: str, each: int, expect: str
) -> None:
    decision = decided(holding(quota, used).gang("j", card=card, each=each))

    if expect in HOLD.values():
        assert decision.bindings == {"j-0": expect}
    else:
        reason, message = refusal(decision, "j-0")
        assert (decision.bindings, reason) == ({}, "InsufficientScalarQuota")
        assert message.startswith(expect)


def test_a_refusal_counts_in_cards_too() -> None:
    decision = decided(holding({"G": 10, "H": 8}, {"G": 9, "H": 7}).gang("j", card="G|H", each=2))

    assert "(G: requested 2, held 9, quota 10; H: requested 2, held 7, quota 8)" in refusal(decision, "j-0")[1]


# -- cpu and memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "used", "pod", "unlimited", "expect"),
    [
        pytest.param({"cpu": 10}, {"cpu": 8}, {"cpu": 3}, False, "InsufficientCPUQuota", id="E03"),
        pytest.param({"cpu": 10}, {"cpu": 8}, {"cpu": 2}, False, OK, id="E04"),
        pytest.param(
            {"memory": "10Gi"}, {"memory": "8Gi"}, {"memory": "3Gi"}, False, "InsufficientMemoryQuota", id="E06"
        ),
        pytest.param(
            {"cpu": 16, "cards": {A: 8}}, {"cpu": 16}, {"cpu": 4, "card": A}, False, "InsufficientCPUQuota", id="E07"
        ),
        pytest.param({"cpu": 16, "cards": {A: 8}}, {"cpu": 16}, {"cpu": 4, "card": A}, True, OK, id="E08"),
        pytest.param(
            {"cpu": 16, "cards": {A: 8}},
            {"cpu": 16},
            {"cpu": 4, GPU: 1},
            True,
            "InsufficientCPUQuota",
            id="cards without a name are spared nothing",
        ),
        pytest.param({}, {}, {"cpu": 1}, False, "EmptyQueueCapability", id="E11 no capability is 0"),
        pytest.param(
            {"cards": {A: 1}}, {}, {"cpu": 1}, False, "InsufficientCPUQuota", id="cpu without a capability is 0"
        ),
        pytest.param({"cpu": "0"}, {}, {"cpu": 1}, False, "InsufficientCPUQuota", id="0 is said, not left out"),
        pytest.param({}, {}, {"card": A}, False, "EmptyQueueCapability", id="a queue that says nothing"),
        pytest.param({"cards": ""}, {}, {"card": A}, False, "EmptyQueueCapability", id="blank says nothing"),
        pytest.param({"cards": {}}, {}, {"card": A}, False, "InsufficientScalarQuota", id="no cards at all are said"),
        pytest.param({"cards": {A: 0}}, {}, {"card": A}, False, "InsufficientScalarQuota", id="0 cards are said"),
        pytest.param({"cards": "{"}, {}, {"card": A}, False, "InsufficientScalarQuota", id="a broken quota is 0"),
        pytest.param({}, {}, {GPU: 1}, False, OK, id="E14 cards without a name count for nothing"),
    ],
)
def test_cpu_and_memory(
    queue: dict[str, Any], used: dict[str, Any], pod: dict[str, Any], unlimited: bool, expect: str | None
) -> None:
    cluster = farm().quota("q", **{"cpu": None, "memory": None, **queue})
    if used:
        cluster.gang("r", on="h1", **used)

    decision = decided(cluster.gang("j", **pod), cardUnlimitedCpuMemory=unlimited)

    if expect is OK:
        assert list(decision.bindings) == ["j-0"]
    else:
        assert (decision.bindings, refusal(decision, "j-0")[0]) == ({}, expect)


def test_sentences_about_cpu_and_memory() -> None:
    cpu = decided(farm().quota("q", cpu=10).gang("r", on="h1", cpu=8).gang("j", cpu=3))
    memory = decided(farm().quota("q", memory="10Gi").gang("r", on="h1", memory="8Gi").gang("j", memory="3Gi"))
    nothing = decided(farm().quota("q", {A: 1}, cpu=None, memory=None).gang("j", cpu="500m"))

    assert refusal(cpu, "j-0")[1] == (
        "Queue <q> has insufficient CPU quota: requested <3000>, total would be <11000>, but capability is <10000> "
        "(cpu: requested 3, held 8, quota 10)"
    )
    assert refusal(memory, "j-0")[1] == (
        "Queue <q> has insufficient memory quota: requested <3072 Mi>, total would be <11264 Mi>, but capability is "
        "<10240 Mi> (memory: requested 3Gi, held 8Gi, quota 10Gi)"
    )
    assert "what spec.capability does not name counts as 0: set cpu there" in refusal(nothing, "j-0")[1]


def test_other_resources_are_not_limited() -> None:
    cluster = cards().cards("a1", A, **some({GPU: 8, "rdma/ib": 8})).quota("q", {A: 1})

    assert decided(cluster.gang("j", card=A, **some({"rdma/ib": 8}))).bindings == {"j-0": "a1"}


def test_strict_reading_wants_cards_named() -> None:
    cluster = farm().quota("q", {A: 4}).gang("j", **some({GPU: 1}))

    assert decided(cluster).bindings == {"j-0": "a1"}
    reason, message = refusal(decided(cluster, strictCardName=True), "j-0")
    assert reason == "GetTaskRequestResourceFailed"
    assert f"{GPU} is asked for and no annotation volcano.sh/card.name says which card" in message


# -- admission --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quota", "used", "reserved", "wanted", "expect"),
    [
        pytest.param({"G": 5, "H": 4}, {"G": 4, "H": 3}, [], {"G|H": 2}, OK, id="D10 sums over the list"),
        pytest.param({"G": 6, "H": 5}, {"G": 5, "H": 4}, [], {"G|H": 3}, sentence("G|H", 3000, 12000, 11000), id="D11"),
        pytest.param({"G": 5, "H": 4}, {"H": 3}, [], {"G|H": 2}, OK, id="D12"),
        pytest.param({"G": 5, "H": 3}, {"G": 2, "H": 1}, [], {"G|H": 4}, OK, id="D14 the design's example"),
        pytest.param({"G": 4, "H": 4}, {}, [{"G|H": 6}], {"G|H": 6}, sentence("G|H", 6000, 12000, 8000), id="D16"),
        pytest.param({"G": 4}, {}, [], {"G|G": 6}, sentence("G", 6000, 6000, 4000), id="D17 a name counts once"),
        pytest.param({"G": 4, "H": 4}, {}, [{"G|H": 6}], {"G": 4}, sentence("G|H", 4000, 10000, 8000), id="D18"),
        pytest.param({"G": 4, "H": 4}, {}, [], {"G": 4, "G|H": 4}, OK, id="D19"),
        pytest.param({"G": 4, "H": 4}, {}, [], {"G": 4, "G|H": 5}, sentence("G|H", 5000, 9000, 8000), id="D20"),
        pytest.param(
            {"G": 2, "H": 2, "K": 2}, {}, [{"G|H": 4}], {"H|K": 4}, sentence("H|K|G", 4000, 8000, 6000), id="union"
        ),
        pytest.param({"G": 4}, {"G": 4}, [], {"Nobody": 1}, sentence("Nobody", 1000, 1000, 0), id="a card of no node"),
        pytest.param({"G": 4}, {"G": 4}, [], {"G": 0}, OK, id="nothing is wanted"),
        pytest.param({"G": 4}, {}, [], "{", OK, id="what cannot be read keeps nobody out"),
    ],
)
def test_jobs_are_admitted_by_sums(
    quota: dict[str, int], used: dict[str, int], reserved: list[dict[str, int]], wanted: Any, expect: str | None
) -> None:
    cluster = holding(quota, used)
    for number, before in enumerate(reserved):
        cluster.gang(f"b{number}", 0, request=before, phase="Inqueue")

    decision = decided(cluster.probe("j", wanted))

    job = decision.cluster.jobs["default/j"]
    if expect is OK:
        assert (job.phase, job.refusal) == ("Inqueue", None)
    else:
        reason, message = refusal(decision, "j")
        assert (job.phase, reason) == ("Pending", "InsufficientScalarQuota")
        assert message.startswith(expect)
        assert ("j", "Warning", reason, message) in events(decision, "PodGroup")


@pytest.mark.parametrize(
    ("queue", "used", "least", "wanted", "unlimited", "expect"),
    [
        pytest.param({"cpu": 10}, {"cpu": 2}, {"cpu": 8}, None, False, OK, id="F01"),
        pytest.param({"cpu": 10}, {"cpu": 2}, {"cpu": 9}, None, False, "InsufficientCPUQuota", id="F02"),
        pytest.param(
            {"memory": "10Gi"}, {"memory": "2Gi"}, {"memory": "9Gi"}, None, False, "InsufficientMemoryQuota", id="F03"
        ),
        pytest.param({"cards": {A: 4}}, {}, None, {A: 5}, False, "InsufficientScalarQuota", id="no minResources"),
        pytest.param({"cpu": 10, "cards": {A: 4}}, {"cpu": 2}, {"cpu": 10}, {A: 1}, True, OK, id="F09"),
        pytest.param(
            {"cpu": 10, "cards": {A: 4}}, {"cpu": 2}, {"cpu": 10}, {A: 1}, False, "InsufficientCPUQuota", id="F11"
        ),
        pytest.param({"cpu": None, "memory": None}, {}, {"cpu": 1}, None, False, "EmptyQueueCapability", id="nothing"),
        pytest.param({"cpu": 1}, {}, {"cpu": 2, GPU: 1}, None, True, OK, id="pods to come may name their cards"),
        pytest.param({"cpu": 1}, {}, {"cpu": 2, GPU: 1}, None, False, "InsufficientCPUQuota", id="spared nothing"),
        pytest.param({"cpu": 1}, {}, {"cpu": 2, "a/b": 1}, None, True, "InsufficientCPUQuota", id="no card"),
    ],
)
def test_jobs_are_admitted_by_cpu_and_memory(
    queue: dict[str, Any],
    used: dict[str, Any],
    least: dict[str, Any] | None,
    wanted: Any,
    unlimited: bool,
    expect: str | None,
) -> None:
    cluster = farm().quota("q", **queue)
    if used:  # of its minimum, so that nothing of it is elastic
        cluster.gang("r", on="h1", least=used, **used)

    decision = decided(cluster.probe("j", wanted, **(least or {})), cardUnlimitedCpuMemory=unlimited)

    assert decision.cluster.jobs["default/j"].phase == ("Inqueue" if expect is OK else "Pending")
    if expect is not OK:
        assert refusal(decision, "j")[0] == expect


def test_pods_that_are_there_and_name_no_card_are_spared_no_cpu() -> None:
    cluster = farm().quota("q", cpu=1).gang("j", least={"cpu": 2, GPU: 1}, phase="Pending", cpu=2, **{GPU: 1})

    assert refusal(decided(cluster, cardUnlimitedCpuMemory=True), "j")[0] == "InsufficientCPUQuota"


def test_reserved_is_what_an_admitted_job_does_not_hold_yet() -> None:
    """F05, H02: its minimum counts once, whether it holds a part of it or none."""
    cluster = farm().quota("q", cpu=10).gang("r", 2, on="h1", minimum=4, least={"cpu": 8}, phase="Inqueue", cpu=2)

    assert decided(cluster.probe("j", cpu=2)).cluster.jobs["default/j"].phase == "Inqueue"
    assert decided(cluster.probe("k", cpu=3)).cluster.jobs["default/k"].phase == "Pending"


def test_jobs_that_are_admitted_together_reserve_for_one_another() -> None:
    decision = decided(farm().quota("q", {A: 4}).probe("one", {A: 3}).probe("two", {A: 2}).probe("three", {A: 1}))

    assert {name: job.phase for name, job in decision.cluster.jobs.items()} == {
        "default/one": "Inqueue",
        "default/two": "Pending",
        "default/three": "Inqueue",
    }


def test_pods_that_exist_win_over_the_annotation_once_the_minimum_is_there() -> None:
    """2-#12: a job of four is not admitted for the one pod that exists, and not kept out for pods it does not have."""
    few = farm().quota("q", {A: 2}).gang("j", 1, card=A, minimum=4, request={A: 4}, phase="Pending")
    all_of_them = farm().quota("q", {A: 4}).gang("j", 4, card=A, minimum=4, request={A: 40}, phase="Pending")
    unknown = farm().quota("q", {A: 1}).gang("j", 1, card="Nobody", request={A: 2}, phase="Pending")
    others = farm().quota("q", {A: 4, H: 1}).gang("j", 4, card=A, minimum=6, request={A: 1, H: 2}, phase="Pending")

    assert refusal(decided(others), "j")[1].startswith(sentence(H, 2000, 2000, 1000))
    assert refusal(decided(few), "j")[1].startswith(sentence(A, 4000, 4000, 2000))
    assert decided(all_of_them).bindings == {f"j-{n}": "a1" for n in range(4)}
    assert refusal(decided(unknown), "j")[1].startswith(sentence(A, 2000, 2000, 1000))


def test_gated_pods_reserve_nothing() -> None:
    cluster = farm().quota("q", {A: 2}).gang("r", 2, card=A, minimum=2, spec={"schedulingGates": [{"name": "x/y"}]})

    assert decided(cluster.probe("j", {A: 2})).cluster.jobs["default/j"].phase == "Inqueue"


# -- nodes and charges ------------------------------------------------------------------------------------------------


def test_the_node_decides_the_card_and_no_quota_is_exceeded_whatever_others_score() -> None:
    """Section 4.1: a quota of 1 + 4, twelve tasks, and plugins that would fill the first node up."""
    cluster = farm().quota("q", {A: 1, H: 4}).gang("j", 12, card=f"{A}|{H}", cpu=1)

    decision = decided(cluster, "binpack", "nodeorder")

    assert nodes_of(decision) == {"a1": 1, "h1": 4}
    assert len(decision.waiting) == 7


def test_a_task_of_one_card_goes_where_that_card_is() -> None:
    """I13: nothing else keeps it off the other node, which others prefer."""
    cluster = cards().cards("a1", A).cards("t1", T).quota("q", {A: 4}).gang("r", on="t1", cpu=100, memory="1Ti")

    decision = decided(cluster.gang("j", card=A, cpu=1), "binpack")

    assert decision.bindings == {"j-0": "a1"}


def test_what_nodes_say_is_told() -> None:
    full = farm().quota("q", {A: 1, H: 9}).gang("r", 8, card=H, on="h1").gang("j", 2, card=f"{A}|{H}", minimum=2)

    message = decided(full).waiting["j-1"]

    assert '1 node(s) had a card of which queue "q" has no quota left' in message
    assert f"1 Insufficient {GPU}" in message


def test_what_nodes_say_of_a_queue_names_the_pods_own() -> None:
    """Pods of both queues may have the same cards, so that nodes are asked for one of them only."""
    full = farm().quota("one", {A: 0, H: 9}).quota("two", {A: 0, H: 9}).gang("r", 8, card=H, queue="one", on="h1")
    for queue in ("one", "two"):
        full.gang(f"in-{queue}", card=f"{A}|{H}", queue=queue)

    waiting = decided(full).waiting

    for queue in ("one", "two"):
        assert f'a card of which queue "{queue}" has no quota left' in waiting[f"in-{queue}-0"]


def test_a_gang_that_fails_gives_both_cards_back_in_the_same_session() -> None:
    cluster = cards().cards("a1", A, 2).cards("h1", H).quota("q", {A: 2, H: 1})
    cluster.gang("gang", 4, card=f"{A}|{H}", minimum=4, created=0).gang("late", card=H, created=1)

    assert decided(cluster).bindings == {"late-0": "h1"}


@pytest.mark.parametrize(
    ("names", "weight", "scores"),
    [
        (f"{A}|{H}|{T}", None, {"a1": 100.0, "h1": 50.0, "t1": 25.0}),
        (f"{A}|{H}|{T}", 2.0, {"a1": 200.0, "h1": 100.0, "t1": 50.0}),
        (f"{T}|{A}", None, {"a1": 50.0, "t1": 100.0}),
        (f"{A}|{H}|{T}", 0, {"a1": 100.0, "h1": 50.0, "t1": 25.0}),
        (f"{A}|{H}|{T}", -3, {"a1": 100.0, "h1": 50.0, "t1": 25.0}),
        (f"{A}|{H}|{T}", "2.0", {"a1": 100.0, "h1": 50.0, "t1": 25.0}),
        (A, None, {"a1": 0.0}),
    ],
)
def test_nodes_score_by_the_place_of_their_card_in_the_list(
    names: str, weight: float | str | None, scores: dict[str, float]
) -> None:
    cluster = farm().cards("t1", T).cards("c1", "other").quota("q", {A: 4, H: 4, T: 4}).gang("j", card=names)
    arguments = {"nodeOrderWeight": weight} if weight is not None else {}
    found: dict[str, dict[str, float]] = {}
    scheduling = rig(cluster, **arguments)
    scheduling.scheduler._on_placed = lambda session, task: found.update(session.engine.scores(task))

    scheduling.cycle()

    assert {node: given.get("capacity-card", 0.0) for node, given in found.items()} == scores


@pytest.mark.parametrize(("weight", "is_warned_of"), [(0, True), (-3, True), (0.5, False), (2, False)])
def test_a_weight_that_counts_as_another_one_is_warned_of(weight: float, is_warned_of: bool) -> None:
    _, warnings = load_profile(configuration(nodeOrderWeight=weight))

    assert [str(warning).rpartition(": ")[2] for warning in warnings] == (
        ["nodeOrderWeight must be above 0; it counts as 1"] if is_warned_of else []
    )


def test_a_relabelled_node_changes_what_its_pods_are_charged_for() -> None:
    cluster = farm().quota("q", {A: 1, H: 1}).gang("r", card=f"{A}|{H}", on="a1")
    scheduling = rig(cluster.gang("j", card=H))
    relabelled = cards().cards("a1", H).objects[0]

    assert scheduling.cycle().bindings == {"j-0": "h1"}
    again = rig(cluster)
    decision = again.cycle(put(relabelled))
    assert refusal(decision, "j-0")[1].startswith(sentence(H, 1000, 2000, 1000))


@pytest.mark.parametrize("lost", ["relabelled", "gone"])
def test_what_a_pod_holds_on_a_node_that_nobody_knows_still_counts(lost: str) -> None:
    """C08, C09: as the first card of its list that there is; and its cpu counts."""
    cluster = farm().cards("a2", A).quota("q", {A: 1}, cpu=4).gang("r", card=f"{A}|{H}", on="a1", cpu=4)
    cluster.gang("j", card=A).gang("k", cpu=1)
    scheduling = rig(cluster)
    other = cards().cards("a1", T).objects[0]
    change = put(other) if lost == "relabelled" else Deleted("Node", "", "a1", "")

    decision = scheduling.cycle(change)

    assert refusal(decision, "j-0")[1].startswith(sentence(A, 1000, 2000, 1000))
    assert refusal(decision, "k-0")[0] == "InsufficientCPUQuota"


def test_capacity_that_shrinks_lets_nothing_in_and_stops_nobody() -> None:
    scheduling = rig(farm().quota("q", {A: 4}).gang("r", 4, card=A, on="a1").gang("j", card=A))
    less = cards().quota("q", {A: 2}).cards("a1", A, 3).objects

    decision = scheduling.cycle(*puts(*less))

    assert refusal(decision, "j-0")[1].startswith(sentence(A, 1000, 5000, 2000))
    assert nodes_of(decision) == {"a1": 4}


def test_quota_comes_back_when_pods_go() -> None:
    """What an autoscaler does: scaled up it is stopped by the quota, scaled down it gives the quota back."""
    scheduling = rig(farm().quota("q", {A: 2}).gang("up", 3, card=A))
    other = [put(item) for item in cards().gang("other", card=A, created=1).objects]

    first, second = scheduling.cycle(), scheduling.cycle(*other)
    third = scheduling.cycle(*(Deleted("Pod", "default", name, f"pod-default-{name}") for name in ("up-1", "up-2")))

    assert (len(first.bindings), second.bindings) == (2, {})
    assert third.bindings == {"other-0": "a1"}


def test_a_quota_is_of_a_queue_and_all_together_may_be_more_than_there_is() -> None:
    cluster = cards().cards("a1", A, 10).quota("q", {A: 6}).quota("p", {A: 6})
    cluster.gang("one", 6, card=A).gang("two", 6, card=A, queue="p")

    decision = decided(cluster)

    assert nodes_of(decision) == {"a1": 10}
    assert all(f"Insufficient {GPU}" in message for message in decision.waiting.values())


def test_shares_of_a_card_are_cards_of_their_own() -> None:
    mps = f"{A}/mps-80g*1/8"
    cluster = cards().cards("m1", A, 4, labels={f"{GPU}.replicas": "8"}, **some({MPS: 32})).quota("q", {mps: 20})

    decision = decided(cluster.gang("j", 32, card=mps, resource=MPS))

    assert nodes_of(decision) == {"m1": 20}


# -- hierarchy --------------------------------------------------------------------------------------------------------


def test_ancestors_limit_their_subtree_when_they_are_checked() -> None:
    def tree() -> Cards:
        cluster = cards().cards("a1", A).quota("org", {A: 3}, cpu=None, memory=None)
        cluster.quota("q", {A: 8}, parent="org").quota("p", {A: 8}, parent="org")
        return cluster.gang("one", 2, card=A).gang("two", 2, card=A, queue="p", created=1)

    flat, deep = decided(tree()), decided(tree(), checkAncestors=True)

    assert len(flat.bindings) == 4
    assert len(deep.bindings) == 3
    (message,) = deep.waiting.values()
    assert message.startswith(sentence(A, 1000, 4000, 3000, queue="org"))


def test_an_ancestor_without_quotas_limits_nothing_and_a_queue_that_moves_takes_its_charges_along() -> None:
    cluster = cards().cards("a1", A).quota("org", cpu=None, memory=None).quota("q", {A: 2}, parent="org")
    scheduling = rig(
        cluster.gang("one", 2, card=A).probe("more", {A: 1}, queue="p").quota("p", {A: 2}), checkAncestors=True
    )
    assert len(scheduling.cycle().bindings) == 2

    capped = cards().quota("org", {A: 2}).quota("p", {A: 2}, parent="org").objects
    decision = scheduling.cycle(
        *(put(item) for item in capped),
        *(put(item) for item in cards().gang("late", card=A, queue="p").objects),
    )

    assert refusal(decision, "late-0")[1].startswith(sentence(A, 1000, 3000, 2000, queue="org"))


def test_a_queue_that_moves_counts_at_once_in_the_queue_above_also_when_cards_have_changed_before() -> None:
    """Where anything is guaranteed, limits are made again when cards come, before the queue moves."""
    cluster = cards().cards("a1", A).quota("org", {A: 2}, cpu=None, memory=None).quota("q", {A: 2})
    cluster.queue("kept", {"volsched.io/card.guarantee": f'{{"{H}": 1}}'})
    scheduling = rig(cluster.gang("one", 2, card=A).quota("p", {A: 3}, parent="org"), checkAncestors=True)
    assert len(scheduling.cycle().bindings) == 2

    moved = cards().cards("h1", H).quota("q", {A: 2}, parent="org").gang("late", card=A, queue="p").objects
    decision = scheduling.cycle(*map(put, moved))

    assert refusal(decision, "late-0")[1].startswith(sentence(A, 1000, 3000, 2000, queue="org"))


# -- Events on what has a mistake -------------------------------------------------------------------------------------


def test_mistakes_are_told_once_on_the_object_that_has_them() -> None:
    cluster = farm().quota("q", '{"NVIDIA-A100": -1, "NVIDIA-H100": 2}').probe("g", '{"NVIDIA-A100": "2"}')
    cluster.node("n1", labels={f"{GPU}.product": A}, **some({GPU: 8}))
    scheduling = rig(cluster.gang("j", 3, card=H))

    first, second = scheduling.cycle(), scheduling.cycle()

    assert events(first, "Queue") == [
        (
            "q",
            "Warning",
            "InvalidCardQuota",
            'metadata.annotations[volcano.sh/card.quota]["NVIDIA-A100"]: must not be negative (-1); '
            "what is wrong counts as 0",
        )
    ]
    assert [(name, reason) for name, _, reason, _ in events(first, "PodGroup") if reason == "InvalidCardRequest"] == [
        ("g", "InvalidCardRequest")
    ]
    ((name, _, reason, message),) = events(first, "Node")
    assert (name, reason) == ("n1", "IncompleteCardLabels")
    assert f"{GPU}.memory" in message
    assert nodes_of(first) == {"h1": 2}
    assert (events(second, "Queue"), events(second, "Node"), events(second, "Pod")) == ([], [], [])


def test_a_mistake_in_a_request_is_told_although_all_its_pods_are_there() -> None:
    """They are asked in its place, and nobody reads it."""
    decision = decided(farm().quota("q", {H: 9}).gang("j", 2, card=H, minimum=2, request='{"NVIDIA-H100": "2"}'))

    assert [name for name, _, reason, _ in events(decision, "PodGroup") if reason == "InvalidCardRequest"] == ["j"]


def test_another_mistake_is_told_again() -> None:
    scheduling = rig(farm().quota("q", "{"))
    scheduling.cycle()

    decision = scheduling.cycle(put(cards().quota("q", '{"A": 1.5}').objects[0]))

    ((_, _, reason, message),) = events(decision, "Queue")
    assert (reason, "must be a whole number of cards, not 1.5" in message) == ("InvalidCardQuota", True)


# -- configuration ----------------------------------------------------------------------------------------------------


def test_it_runs_beside_no_other_quota_plugin() -> None:
    with pytest.raises(Exception, match="plugins capacity-card and proportion contradict each other"):
        load_profile(configuration("proportion"))


@pytest.mark.parametrize(
    ("value", "spared"), [(True, True), ("true", True), ("false", False), ("perhaps", False), (1, False)]
)
def test_whether_cpu_is_spared_is_read_kindly_and_what_is_no_bool_is_warned_of(value: Any, spared: bool) -> None:
    text = configuration(cardUnlimitedCpuMemory=value)
    cluster = farm().quota("q", {A: 1}, cpu=None).gang("j", card=A, cpu=1)

    _, warnings = load_profile(text)

    assert bool(warnings) == (value in ("perhaps", 1) and value is not True)
    assert bool(a_rig(cluster, text).cycle().bindings) == spared


def test_queues_take_turns_by_priority_and_share() -> None:
    """H07: the share is the largest part of the quota that is held."""
    cluster = cards().cards("a1", A, 4).quota("q", {A: 4}).quota("p", {A: 8})
    cluster.gang("held", card=A, on="a1").gang("one", 3, card=A).gang("two", 3, card=A, queue="p", created=1)

    decision = decided(cluster)

    assert sorted(decision.bindings) == ["one-0", "two-0", "two-1"]


def test_series() -> None:
    cluster = farm().quota("q", {A: 6, H: 20}).gang("r", 2, card=A, on="a1").gang("o", on="h1", **some({GPU: 3}))
    cluster.gang("j", 1, card=f"{A}|{H}", each=8, minimum=1).probe("w", {T: 1})

    report = decided(cluster).report

    numbers = {series.name: dict(values) for series, values in report.series if "device" not in series.name}
    work = {(A, "online"): 0, (A, "offline"): 2, (H, "online"): 0, (H, "offline"): 0}
    assert numbers == {
        "volcano_queue_card_capacity": {("q", A): 6, ("q", H): 20},
        "volcano_queue_card_deserved": {("q", A): 6, ("q", H): 8},
        "volsched_queue_card_guarantee": {},
        "volsched_queue_card_reclaimable": {},
        "volcano_queue_card_allocated": {("q", A): 2, ("q", H): 0},
        "volcano_queue_card_request": {("q", A): 2, ("q", H): 0, ("q", f"{A}|{H}"): 8},
        "volcano_queue_card_inqueue": {("q", f"{A}|{H}"): 8},
        "volsched_cluster_cards": {(A,): 8, (H,): 8},
        "volsched_cluster_cards_idle": {(A,): 6, (H,): 5},
        "volsched_queue_card_refusals": {("q", "InsufficientScalarQuota"): 1},
        "volsched_cluster_workload_cards": work,
        "volsched_queue_workload_cards": {("q", *labels): count for labels, count in work.items()},
    }


def test_series_are_the_same_mapping_while_nothing_changes() -> None:
    scheduling = rig(farm().quota("q", {A: 6}).gang("r", 2, card=A))
    scheduling.cycle()

    before = [values for _, values in scheduling.cycle().report.series]
    after = [values for _, values in scheduling.cycle().report.series]

    assert all(one is other for one, other in zip(before, after, strict=True))


def test_names_that_nobody_offers_become_no_labels() -> None:
    cluster = farm().quota("q", {A: 4, "X": 2})
    cluster.gang("one", 0, request={f"Nobody|{A}": 1}).gang("two", 0, request={"X": 1, "Y": 1})

    report = decided(cluster).report

    numbers = {series.name: dict(values) for series, values in report.series}
    assert numbers["volcano_queue_card_inqueue"] == {("q", A): 1, ("q", "unknown"): 2}
