"""mgpu in the real scheduler: filter, cards in the Binding, ledger, restart, gangs, configuration, Events, numbers."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.mgpu import series
from plugins.mgpu.devices import MEMORY
from plugins.mgpu.results import ASSUMED, INDEX, written
from tests.plugins.mgpu.cards import T4, M
from tests.plugins.mgpu.clusters import (
    GUARANTEED,
    NATIVE,
    Manifest,
    configuration,
    container,
    gone,
    ledger_of,
    lists,
    node,
    pod,
    rig_of,
    solo,
    states,
)
from volsched.framework.config.loading import ConfigurationError
from volsched.model.changes import BindFailed, Bound
from volsched.model.plan import Bind, RecordEvent
from volsched.registry import load_profile
from volsched.testing.builders import CycleDecision, Rig, a_group, puts
from volsched.testing.contract import ENGINES
from volsched.testing.recount import faults, leftovers

HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
NOT_NATIVE = "mgpu: multi-card needs native-burst-share on pod and node"
NO_FIT = "mgpu: no card combination fits"
UNCLEAR = "mgpu: node card state unknown"


NO_IDS = "predicate.MGPUScheduleMode is id, and annotation volsched.io/mgpu-card-ids is missing: indexes are used"


def told(decision: CycleDecision, name: str = "n1") -> dict[str, str]:
    """Reason and message of Events on a node."""
    return {step.reason: step.message for step in decision.steps if isinstance(step, RecordEvent) and step.name == name}


# -- filter ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wants", "pod_policy", "made", "reason"),
    [
        pytest.param("30/1024", "", node(), "", id="F01"),
        pytest.param("30/1024", GUARANTEED, node(), "mgpu: compute policy mismatch", id="F02"),
        pytest.param("30/1024", GUARANTEED, node(policy=GUARANTEED), "", id="F03"),
        pytest.param("30/1024", NATIVE, node(policy=NATIVE), "", id="native on native"),
        pytest.param("30/1024", "", node(policy="x"), "mgpu: compute policy mismatch", id="a policy that is none"),
        pytest.param("full1", GUARANTEED, node(), "", id="whole cards have no policy"),
        pytest.param("full1 30/1024", GUARANTEED, node(), "mgpu: compute policy mismatch", id="not all are whole"),
        pytest.param("2x50/4096", NATIVE, node(policy=NATIVE), "", id="F06"),
        pytest.param("2x50/4096", NATIVE, node(policy=GUARANTEED), NOT_NATIVE, id="F07"),
        pytest.param("2x50/4096", "", node(), NOT_NATIVE, id="neither"),
        pytest.param("1x100/0", "", node(), NOT_NATIVE, id="multi and whole"),
        pytest.param("3x30/1024", NATIVE, node(policy=NATIVE), "mgpu: container wants 3 cards, node has 2", id="F10"),
        pytest.param("full3", "", node(), "mgpu: container wants 3 cards, node has 2", id="three whole cards"),
        pytest.param(
            "30/1024", "", node(**{"vke.node.gpu.schedule": "nvidia"}), "mgpu: node has no mgpu cards", id="F13"
        ),
        pytest.param("30/1024", "", node(**{"vke.node.gpu.schedule": "mgpu"}), "", id="N07 said to be ours"),
        pytest.param("30/1024", "", node(cards=0), "mgpu: node has no mgpu cards", id="F14"),
        pytest.param("50/1024 50/1024 50/1024", "", node(cards=1), NO_FIT, id="A10"),
        pytest.param("- -", "", node(cards=0), "", id="not our business"),
    ],
)
def test_filter(wants: str, pod_policy: str, made: Manifest, reason: str) -> None:
    found = pod("p", wants, policy=pod_policy)

    decision = rig_of(made, *solo(found)).cycle()

    if reason:
        assert decision.bindings == {}
        assert reason in decision.waiting["p"]
        assert decision.waiting["p"].startswith("0/1 nodes are available: 1 mgpu: ")
    else:
        assert decision.bindings == {"p": "n1"}


def test_filter_changes_nothing_and_is_asked_as_often_as_one_likes() -> None:
    rig = rig_of(*[node(f"n{i}", cards=1) for i in range(5)], *solo(pod("p", "full2")))

    for _ in range(3):
        decision = rig.cycle()

    assert decision.bindings == {}
    assert all(not account.holdings for account in ledger_of(rig).nodes.values())


@pytest.mark.parametrize(
    ("core", "memory", "cards"),
    [
        pytest.param("200", "30218", [T4, T4], id="N01"),
        pytest.param("300", "49151", [16383] * 3, id="N02"),
        pytest.param("800", "655360", [81920] * 8, id="N03"),
        pytest.param("200", "30218k", [15_109_000] * 2, id="N08"),
        pytest.param("250", "30218", [T4, T4], id="half a card is none"),
        pytest.param("99", "30218", [], id="less than a card"),
        pytest.param("200", "0", [0, 0], id="N06 no memory"),
    ],
)
def test_cards_of_a_node(core: str, memory: str, cards: list[int]) -> None:
    made = node()
    made["status"]["allocatable"] |= {"vke.volcengine.com/mgpu-core": core, MEMORY: memory}

    rig = rig_of(made)
    rig.cycle()

    account = ledger_of(rig).nodes.get("n1")
    assert [card.memory for card in account.state.cards] == cards if account else cards == []


@pytest.mark.parametrize(
    ("core", "cards", "said"),
    [
        pytest.param("100", 1, None, id="one card"),
        pytest.param("99", 0, "is 99, no multiple of 100: it counts as 0 cards", id="less than a card"),
        pytest.param("250", 2, "is 250, no multiple of 100: it counts as 2 cards", id="half a card"),
        pytest.param("102400", 1024, None, id="as many as there can be"),
        pytest.param("102500", 0, "is more than 1024 cards have: none is given out", id="one too many"),
        pytest.param("9E", 0, "is more than 1024 cards have: none is given out", id="more than memory could hold"),
    ],
)
def test_a_node_with_an_odd_number_of_cards_is_told(core: str, cards: int, said: str | None) -> None:
    made = node()
    made["status"]["allocatable"] |= {"vke.volcengine.com/mgpu-core": core, MEMORY: "16777216"}
    rig = rig_of(made, *solo(pod("p", "full1")), *solo(pod("b", "full1", on="n1", cards="0")))

    decision = rig.cycle()

    assert told(decision).get("OddCards", "").removeprefix("vke.volcengine.com/mgpu-core ") == (said or "")
    assert "CardStateUnknown" not in told(decision)
    assert lists(decision, "p") == ("1" if cards > 1 else None)


def test_a_node_that_tells_of_cards_that_can_be_gets_pods_again() -> None:
    made = node()
    made["status"]["allocatable"] |= {"vke.volcengine.com/mgpu-core": "9E"}
    rig = rig_of(made, *solo(pod("p", "full2")))
    rig.cycle()

    rig.mirror.apply(puts(node()))

    assert lists(rig.cycle(), "p") == "0,1"


# -- the result --------------------------------------------------------------------------------------------------------


def test_results_travel_in_the_binding_and_nothing_else_is_written() -> None:
    found = pod("p", "full1 2x40/1024 - 3x10/256", policy=NATIVE)

    decision = rig_of(node(cards=4, policy=NATIVE), *solo(found)).cycle()

    (bind,) = [step for step in decision.steps if getattr(step, "name", "") == "p" and isinstance(step, Bind)]
    assert bind.annotations == {
        ASSUMED: "true",
        f"{INDEX}c1": "0",
        f"{INDEX}c2": "1,2",
        f"{INDEX}c4": "1,2,3",
    }
    assert bind.uid == "uid-p"


def test_what_stands_on_a_pod_that_waits_is_not_believed() -> None:
    forged = pod("p", "30/1024", cards="1")
    rig = rig_of(node(), *solo(forged), *solo(pod("other", "full2")))

    assert states(rig_after(rig)) == "70/15360/1 ; 100/16384/0"


def rig_after(rig: Rig) -> Rig:
    rig.cycle()
    return rig


def test_cards_are_told_by_their_ids_where_the_node_tells_them() -> None:
    text = configuration(ScheduleMode="ID", Policy="spread")
    rig = rig_of(node(cards=2, ids="GPU-a,GPU-b"), node("n2", cards=2), *solo(pod("p", "30/1024 30/1024")), text=text)
    rig.mirror.apply(puts(pod("q", "full2", on="n2", cards="0,1", group="p")))

    assert lists(rig.cycle(), "p") == "GPU-a ; GPU-b"


def test_ids_are_read_back() -> None:
    rig = rig_of(node(ids="GPU-a,GPU-b"), a_group("g"), pod("p", "30/1024", on="n1", cards="GPU-b", group="g"))

    assert states(rig_after(rig)) == "100/16384/0 ; 70/15360/1"


def test_ids_that_cannot_be_are_told_and_indexes_used() -> None:
    rig = rig_of(node(ids="GPU-a"), *solo(pod("p", "30/1024")), text=configuration(ScheduleMode="id"))

    decision = rig.cycle()

    assert lists(decision, "p") == "0"
    assert "must name 2 different cards" in told(decision)["OddCards"]


def test_a_node_that_tells_no_ids_is_told_so_where_ids_are_wanted_and_indexes_used() -> None:
    for mode, said in (("id", True), ("index", False)):
        rig = rig_of(
            *(node(cards=2, ids="GPU-a,GPU-b"), node("n2"), *solo(pod("p", "30/1024 30/1024 30/1024", on="n2"))),
            text=configuration(ScheduleMode=mode),
        )
        decision = rig.cycle()

        assert "OddCards" not in told(decision, "n1")
        assert told(decision, "n2").get("OddCards") == (NO_IDS if said else None)


def test_a_node_that_begins_to_tell_ids_is_not_told_again() -> None:
    rig = rig_of(node(), *solo(pod("p", "30/1024")), text=configuration(ScheduleMode="id"))
    decision = rig.cycle()
    assert (lists(decision, "p"), "OddCards" in told(decision)) == ("0", True)

    rig.mirror.apply(puts(node(ids="GPU-a,GPU-b")))

    assert "OddCards" not in told(rig.cycle())
    assert "OddCards" not in told(rig.cycle())


# -- sequences ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "expected", "again"),
    [("binpack", ["0", "0", "1", None], "1"), ("spread", ["0", "1", "0", None], None)],
)
def test_pods_one_after_the_other(policy: str, expected: list[str | None], again: str | None) -> None:
    """Q01 and Q02: 30, 50, 30 and a whole card; then the third pod goes."""
    rig = rig_of(node(memory=T4), text=configuration(Policy=policy))
    wants = {"p1": "30/4096", "p2": "50/4096", "p3": "30/4096", "p4": "full1"}
    got = [lists(rig.cycle(*puts(*solo(pod(name, text)))), name) for name, text in wants.items()]

    assert got == expected
    assert lists(rig.cycle(gone("p3")), "p4") == again
    assert faults(rig.cluster) == []


def test_two_pods_of_one_session_see_each_other() -> None:
    decision = rig_of(node(), *solo(pod("a", "60/1024")), *solo(pod("b", "60/1024"))).cycle()

    assert [lists(decision, name) for name in "ab"] == ["0", "1"]


def test_a_gang_that_does_not_fit_leaves_the_cards_as_they_were() -> None:
    members = [pod(f"g-{i}", "60/1024", group="g") for i in range(3)]
    rig = rig_of(node(), a_group("g", minimum=3), *members)

    decision = rig.cycle()

    assert decision.bindings == {}
    assert NO_FIT in decision.waiting["g-0"]
    assert states(rig) == "100/16384/0 ; 100/16384/0"
    assert all(task.bind_annotations is None for task in rig.cluster.tasks.values())
    assert leftovers(rig.cluster) == []
    assert lists(rig.cycle(*puts(*solo(pod("z", "full2")))), "z") == "0,1"


@pytest.mark.parametrize("engine", ENGINES)
def test_equal_pods_of_a_gang_get_their_cards_one_after_the_other(engine: Any) -> None:
    members = [pod(f"g-{i}", "60/1024", group="g") for i in range(5)]
    rig = rig_of(node("n1"), node("n2", cards=3), a_group("g", minimum=5), *members, engine=engine)

    decision = rig.cycle()

    got = [(decision.bindings[f"g-{i}"], lists(decision, f"g-{i}")) for i in range(5)]
    assert got == [("n1", "0"), ("n1", "1"), ("n2", "0"), ("n2", "1"), ("n2", "2")]
    assert (faults(rig.cluster), leftovers(rig.cluster)) == ([], [])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pod_among_equal_ones_whose_container_has_too_long_a_name_is_refused_alone(engine: Any) -> None:
    members = [pod(f"g-{i}", "60/1024", group="g") for i in range(4)]
    members[2]["spec"]["containers"][0]["name"] = "c" * 44
    rig = rig_of(node(cards=4), a_group("g", minimum=3), *members, engine=engine)

    decision = rig.cycle()

    assert sorted(decision.bindings) == ["g-0", "g-1", "g-3"]
    assert "mgpu: invalid request MGPU302" in decision.waiting["g-2"]
    assert [lists(decision, name) for name in ("g-0", "g-1", "g-3")] == ["0", "1", "2"]
    assert (faults(rig.cluster), leftovers(rig.cluster)) == ([], [])


def test_a_step_that_fails_midway_leaves_no_card_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [pod(f"g-{i}", "60/1024", group="g") for i in range(3)]
    rig = rig_of(node(cards=3), a_group("g", minimum=3), *members)
    told_to: list[Any] = []

    def fail_at_second(*given: Any) -> dict[str, str]:
        told_to.append(given)
        if len(told_to) > 1:
            raise ZeroDivisionError
        return written(*given)

    with monkeypatch.context() as patched:
        patched.setattr("plugins.mgpu.callbacks.written", fail_at_second)
        with pytest.raises(ZeroDivisionError):
            rig.cycle()

    assert states(rig) == "100/16384/0 ; 100/16384/0 ; 100/16384/0"
    assert all(task.bind_annotations is None for task in rig.cluster.tasks.values())


def test_a_binding_that_fails_gives_the_cards_back() -> None:
    rig = rig_of(node(), *solo(pod("p", "full2")))
    rig.cycle()
    assert states(rig) == "0/0/1 ; 0/0/1"

    decision = rig.cycle(BindFailed("uid-p", "n1", "refused", None), *puts(*solo(pod("q", "full2"))))

    assert lists(decision, "q") == "0,1"


def test_a_pod_that_is_deleted_while_it_is_bound_gives_its_cards_back() -> None:
    rig = rig_of(node(), *solo(pod("p", "full2")))
    rig.cycle()

    rig.cycle(gone("p"))
    rig.cycle(gone("p"))

    assert states(rig) == "100/16384/0 ; 100/16384/0"


def test_a_pod_that_is_made_anew_is_another_one() -> None:
    rig = rig_of(node(), *solo(pod("p", "60/1024")))
    rig.cycle()
    again = pod("p", "60/1024")
    again["metadata"]["uid"] = "uid-again"

    assert lists(rig.cycle(*puts(again)), "p") == "1"


def test_what_the_api_server_shows_is_charged_once() -> None:
    rig = rig_of(node(), *solo(pod("p", "30/1024")))
    rig.cycle()
    bound = pod("p", "30/1024", on="n1", cards="0", resourceVersion="5")

    rig.cycle(Bound("uid-p", "n1"), *puts(bound), *puts({**bound, "status": {"phase": "Pending"}}))

    assert states(rig) == "70/15360/1 ; 100/16384/0"
    assert rig.cluster.tasks["uid-p"].bind_annotations is None


def test_a_binding_that_arrives_without_its_annotations_is_not_taken_for_granted() -> None:
    rig = rig_of(node(), *solo(pod("p", "30/1024")))
    rig.cycle()

    decision = rig.cycle(*puts(pod("p", "30/1024", on="n1"), *solo(pod("q", "30/1024"))))

    assert UNCLEAR in decision.waiting["q"]
    assert "is missing" in told(decision)["CardStateUnknown"]


def test_a_pod_that_changes_while_it_is_bound_keeps_its_cards() -> None:
    """Tolerations may be added at any time; the pod is another template then."""
    rig = rig_of(node(), *solo(pod("p", "60/1024")))
    rig.cycle()

    rig.cycle(*puts(pod("p", "60/1024", spec={"tolerations": [{"key": "x"}]}, resourceVersion="2")))
    assert states(rig) == "40/15360/1 ; 100/16384/0"

    rig.cycle(BindFailed("uid-p", "n1", "refused", None))
    assert states(rig) == "100/16384/0 ; 100/16384/0"


def test_an_evicted_pod_makes_room_on_its_very_cards() -> None:
    low = [pod(f"low-{i}", "60/4096", on="n1", cards=str(i), group="low", spec={"priority": 1}) for i in range(2)]
    high = [a_group("high", priorityClassName="high"), pod("high", "full1", spec={"priority": 100})]
    rig = rig_of(HIGH, node(), a_group("low"), *low, *high, text=configuration("enqueue, allocate, preempt"))

    decision = rig.cycle()
    assert len(decision.evictions) == 1
    (victim,) = decision.evictions
    assert states(rig) == "40/12288/1 ; 40/12288/1"

    card = victim.removeprefix("low-")
    assert lists(rig.cycle(gone(victim)), "high") == card


def test_cards_that_were_promised_are_not_given_to_others_while_the_victim_is_leaving() -> None:
    low = [pod(f"low-{i}", "60/4096", on="n1", cards=str(i), group="low", spec={"priority": 1}) for i in range(2)]
    high = [a_group("high", priorityClassName="high"), pod("high", "full1", spec={"priority": 100})]
    rig = rig_of(HIGH, node(), a_group("low"), *low, *high, text=configuration("enqueue, allocate, preempt"))
    (victim,) = rig.cycle().evictions
    number = int(victim.removeprefix("low-"))
    left = {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "2"}
    leaving = pod(victim, "60/4096", on="n1", cards=str(number), group="low", spec={"priority": 1}, **left)

    decision = rig.cycle(*puts(leaving, *solo(pod("small", "40/1024")), *solo(pod("late", "40/1024"))))

    assert sorted(decision.bindings) == ["late"] or sorted(decision.bindings) == ["small"]
    (bound,) = decision.bindings
    assert lists(decision, bound) == str(1 - number)
    decision = rig.cycle(gone(victim))
    assert lists(decision, "high") == str(number)
    assert decision.bindings == {"high": "n1"}


def of_halves(*more: Manifest, engine: Any = None) -> tuple[Rig, str]:
    """Two cards, half of each in use: a whole one was just promised, for which the sums suffice; and who is leaving."""
    low = [pod(f"low-{i}", "50/8192", on="n1", cards=str(i), group="low", spec={"priority": 1}) for i in range(2)]
    high = [a_group("high", priorityClassName="high"), pod("high", "full1", spec={"priority": 100})]
    text = configuration("enqueue, allocate, preempt")
    rig = rig_of(HIGH, *more, node(), a_group("low"), *low, *high, text=text, engine=engine)
    (victim,) = rig.cycle().evictions
    return rig, victim


@pytest.mark.parametrize("engine", ENGINES)
def test_half_of_a_promised_card_is_not_given_away_where_the_sums_suffice(engine: Any) -> None:
    rig, victim = of_halves(engine=engine)
    number = int(victim.removeprefix("low-"))

    waits = rig.cycle(*puts(*solo(pod("small", "40/1024")), *solo(pod("late", "40/1024"))))
    (bound,) = waits.bindings
    assert lists(waits, bound) == str(1 - number)
    assert waits.evictions == []
    assert (faults(rig.cluster), leftovers(rig.cluster)) == ([], [])

    done = rig.cycle(gone(victim))
    assert (done.bindings, lists(done, "high")) == ({"high": "n1"}, str(number))


def test_a_stronger_pod_takes_the_promised_card() -> None:
    top = {**HIGH, "metadata": {"name": "top"}, "value": 1000}
    rig, victim = of_halves(top)

    boss = pod("boss", "full1", spec={"priority": 1000})
    taken = rig.cycle(*puts(a_group("boss", priorityClassName="top"), boss))
    assert taken.evictions == []
    assert {task.name: task.nominated for task in rig.cluster.tasks.values() if task.nominated} == {"boss": "n1"}

    assert rig.cycle(gone(victim)).bindings == {"boss": "n1"}


def test_a_stronger_pod_does_not_go_first_where_the_weaker_one_could_then_not_go_at_all() -> None:
    """The larger part becomes free first. Both fit in the end, but not if the smaller pod takes the larger part."""
    mid = {**HIGH, "metadata": {"name": "mid"}, "value": 50}
    keep = {"volcano.sh/preemptable": "false"}
    fixed = [
        pod(f"fixed-{card}", f"{core}/1024", on="n1", cards=str(card), group="fixed", annotations=keep)
        for card, core in enumerate((60, 40))
    ]
    parts = [
        pod("small", "40/1024", on="n1", cards="0", group="low", spec={"priority": 1}),
        pod("large", "60/1024", on="n1", cards="1", group="low", spec={"priority": 2}),
    ]
    text = configuration("enqueue, allocate, preempt")
    rig = rig_of(HIGH, mid, node(), a_group("fixed"), *fixed, a_group("low", minimum=0), *parts, text=text)
    strong = pod("strong", "40/1024", spec={"priority": 100})
    assert rig.cycle(*puts(a_group("strong", priorityClassName="high"), strong)).evictions == ["small"]
    weak = pod("weak", "60/1024", spec={"priority": 50})
    assert rig.cycle(*puts(a_group("weak", priorityClassName="mid"), weak)).evictions == ["large"]

    assert rig.cycle(gone("large")).bindings == {"weak": "n1"}
    assert (faults(rig.cluster), leftovers(rig.cluster)) == ([], [])
    assert rig.cycle(gone("small")).bindings == {"strong": "n1"}


def test_a_promised_card_is_free_for_others_when_the_pod_is_deleted() -> None:
    rig, victim = of_halves()

    others = rig.cycle(gone("high"), gone(victim), *puts(*solo(pod("other", "full1"))))

    assert (others.bindings, lists(others, "other")) == ({"other": "n1"}, victim.removeprefix("low-"))


def test_an_eviction_that_is_only_tried_leaves_pods_on_their_cards() -> None:
    """A gang wants three whole cards of two, so whoever was taken off for it comes back."""
    low = [
        pod("large", "60/4096", on="n1", cards="0", group="low", spec={"priority": 1}),
        pod("small", "20/1024", on="n1", cards="1", group="low", spec={"priority": 1}),
    ]
    gang = [a_group("high", minimum=3, priorityClassName="high")]
    gang += [pod(f"high-{i}", "full1", group="high", spec={"priority": 100}) for i in range(3)]
    rig = rig_of(HIGH, node(), a_group("low"), *low, *gang, text=configuration("enqueue, allocate, preempt"))

    decision = rig.cycle()

    assert decision.evictions == []
    assert decision.report.victim_searches
    assert states(rig) == "40/12288/1 ; 80/15360/1"
    assert all(task.bind_annotations is None for task in rig.cluster.tasks.values())
    assert faults(rig.cluster) == []


# -- restart -----------------------------------------------------------------------------------------------------------


def running(name: str, wants: str, cards: str | None, **more: Any) -> Manifest:
    return pod(name, wants, on="n1", cards=cards, group="g", **more)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(
            [
                running("p1", "30/4096", "0"),
                running("p2", "50/4096", "0", phase="Pending"),
                running("p3", "50/4096", "1", phase="Succeeded"),
                running("p4", "20/2048", "1", deletionTimestamp="2026-01-01T00:00:00Z"),
            ],
            "20/6917/2 ; 80/13061/1",
            id="B01",
        ),
        pytest.param([running("p", "2x50/4096", "1,0")], "50/11013/1 ; 50/11013/1", id="B02"),
        pytest.param([running("p", "full2", "0,1")], "0/0/1 ; 0/0/1", id="B03"),
        pytest.param([running("p", "50/4096", "1", phase="Failed")], "100/15109/0 ; 100/15109/0", id="B16"),
        pytest.param([running("p", "- 30/4096", " ; 1")], "100/15109/0 ; 70/11013/1", id="the first has no card"),
        pytest.param([running("p", "20/128", "0")], "80/14981/1 ; 100/15109/0", id="a rule is broken"),
        pytest.param(
            [running(f"p{i}", "60/4096", "0") for i in range(2)], "0/6917/2 ; 100/15109/0", id="more than there is"
        ),
    ],
)
def test_books_are_made_from_the_annotations_of_pods_with_a_node(pods: list[Manifest], expected: str) -> None:
    rig = rig_of(node(memory=T4), a_group("g"), *pods)

    rig.cycle()
    assert states(rig) == expected
    rig.cycle(*puts(*pods))
    assert states(rig) == expected


def test_the_name_of_a_container_wins_over_its_place() -> None:
    """B06: container "1" comes first and "0" second."""
    found = running("p", "", None)
    found["spec"]["containers"] = [container("1", 30, 4096), container("0", 50, 2048)]
    found["metadata"]["annotations"] |= {f"{INDEX}1": "0", f"{INDEX}0": "1"}

    assert states(rig_after(rig_of(node(memory=T4), a_group("g"), found))) == "70/11013/1 ; 50/13061/1"


def test_the_place_of_a_container_is_read_where_no_container_has_that_name() -> None:
    found = running("p", "30/4096 20/1024", None)
    found["metadata"]["annotations"] |= {f"{INDEX}0": "0", f"{INDEX}1": "1"}

    assert states(rig_after(rig_of(node(memory=T4), a_group("g"), found))) == "70/11013/1 ; 80/14085/1"


def test_the_place_of_a_container_is_not_read_where_another_has_it_for_a_name() -> None:
    found = running("p", "", None)
    found["spec"]["containers"] = [container("x", 30, 4096), container("0", 50, 2048)]
    found["metadata"]["annotations"] |= {f"{INDEX}0": "1"}

    rig = rig_after(rig_of(node(), a_group("g"), found))

    assert f"{INDEX}x]: is missing" in ledger_of(rig).nodes["n1"].unclear["uid-p"]


def test_other_schedulers_pods_count() -> None:
    found = running("p", "full1", "0")
    found["spec"]["schedulerName"] = "default-scheduler"
    del found["metadata"]["annotations"]["scheduling.k8s.io/group-name"]

    assert states(rig_after(rig_of(node(), found))) == "0/0/1 ; 100/16384/0"


def test_pods_that_come_before_their_node_count_as_soon_as_it_is_there() -> None:
    rig = rig_of(a_group("g"), running("p", "full1", "0"))
    rig.cycle()

    rig.cycle(*puts(node()))

    assert states(rig) == "0/0/1 ; 100/16384/0"


def test_stopping_and_starting_again_changes_nothing() -> None:
    first = {"a": "1x30/4096 1x20/1024", "b": "2x35/2048", "c": "1x60/6144"}
    later = {"d": "1x40/2048", "e": "2x20/1024"}
    text = configuration(MaxContainersPerCard=3)
    whole = rig_of(node(cards=4, policy=NATIVE), text=text)
    decided = {n: lists(whole.cycle(*puts(*solo(pod(n, w, policy=NATIVE)))), n) for n, w in {**first, **later}.items()}
    kept = [pod(n, w, on="n1", cards=decided[n], policy=NATIVE, group="g") for n, w in first.items()]
    again = rig_of(node(cards=4, policy=NATIVE), a_group("g"), *kept, text=text)

    for name, wants in later.items():
        assert lists(again.cycle(*puts(*solo(pod(name, wants, policy=NATIVE)))), name) == decided[name]
    assert states(again) == states(whole)


# -- cards of which too little is known --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wants", "cards", "why"),
    [
        ("30/4096", None, "gpu-index-container-c1]: is missing"),
        ("30/4096", "x", "'x' is no index of a card"),
        ("30/4096", "2", "names card 2, and the node has 2, counted from 0"),
        ("30/4096", "-1", "is no index of a card"),
        ("30/4096", "0,1", "names 2 cards, and the container has 1"),
        ("2x30/4096", "0,0", "names a card twice"),
        ("2x30/4096", "0", "names 1 cards, and the container has 2"),
        ("30/4096 30/4096", "0", "gpu-index-container-c2]: is missing"),
        ("120/4096", "0", "MGPU103"),
    ],
)
def test_a_node_of_whose_cards_too_little_is_known_takes_no_more_until_it_is(
    wants: str, cards: str | None, why: str
) -> None:
    found = running("p", wants, cards)
    if wants == "120/4096":
        found["spec"]["containers"] = [container("c1", 120, 4096)]
    rig = rig_of(node(), a_group("g"), found, *solo(pod("q", "10/256")), *solo(pod("none", "-")))

    decision = rig.cycle()

    assert UNCLEAR in decision.waiting["q"]
    assert decision.bindings == {"none": "n1"}
    assert why in told(decision)["CardStateUnknown"]
    assert told(rig.cycle()) == {}
    decision = rig.cycle(gone("p"))
    assert decision.bindings == {"q": "n1"}
    assert told(decision) == {"CardStateKnown": "the cards of all pods are known again"}


def test_annotations_that_are_put_right_lift_that() -> None:
    rig = rig_of(node(), a_group("g"), running("p", "30/4096", "7"), *solo(pod("q", "full1")))
    assert UNCLEAR in rig.cycle().waiting["q"]

    decision = rig.cycle(*puts(running("p", "30/4096", "0", resourceVersion="2")))

    assert lists(decision, "q") == "1"
    assert states(rig) == "70/12288/1 ; 0/0/1"


@pytest.mark.parametrize("change", ["alone", "with a label", "with a policy"])
@pytest.mark.parametrize("cards", ["1", "9", "x", "0,1", None])
def test_what_a_pod_was_bound_to_counts_whatever_is_written_over_it(cards: str | None, change: str) -> None:
    """Whoever may edit a pod may do so; a label or another policy makes the pod another one, for others to count."""
    rig = rig_of(node(policy=NATIVE), *solo(pod("p", "60/4096", policy=NATIVE)))
    assert lists(rig.cycle(), "p") == "0"
    rig.cycle(*puts(pod("p", "60/4096", on="n1", cards="0", policy=NATIVE)))
    assert states(rig) == "40/12288/1 ; 100/16384/0"

    labels = {"labels": {"team": "b"}} if change == "with a label" else {}
    policy = GUARANTEED if change == "with a policy" else NATIVE
    forged = pod("p", "60/4096", on="n1", cards=cards, policy=policy, resourceVersion="2", **labels)
    decision = rig.cycle(*puts(forged))

    assert states(rig) == "40/12288/1 ; 100/16384/0"
    assert list(told(decision, "p")) == ["CardResultChanged"]
    assert told(decision) == {}
    assert numbers(decision)["volsched_mgpu_changed_results"] == {("n1",): 1.0}
    assert told(rig.cycle(), "p") == {}
    assert lists(rig.cycle(*puts(*solo(pod("q", "60/4096", policy=NATIVE)))), "q") == "1"

    decision = rig.cycle(*puts(pod("p", "60/4096", on="n1", cards="0", policy=NATIVE, resourceVersion="3")))
    assert numbers(decision)["volsched_mgpu_changed_results"] == {}
    rig.cycle(gone("p"), gone("q"))
    assert states(rig) == "100/16384/0 ; 100/16384/0"
    assert ledger_of(rig)._allocations == {}


def test_what_was_bound_is_forgotten_with_a_pod_whose_node_has_lost_its_cards() -> None:
    rig = rig_of(node(), a_group("g"), running("p", "30/4096", "1"))
    rig.cycle()
    ledger = ledger_of(rig)
    assert list(ledger._allocations) == ["uid-p"]

    rig.cycle(*puts(node(cards=0)))
    rig.cycle(gone("p"))

    assert ledger._allocations == {}


def test_what_was_bound_is_forgotten_with_the_cards_that_it_named() -> None:
    """A node that has other cards by now: what the pod shows counts, as nothing else says anything."""
    rig = rig_of(node(cards=2), a_group("g"), running("p", "30/4096", "1"))
    rig.cycle()
    rig.cycle(*puts(running("p", "30/4096", "0", resourceVersion="2")))

    decision = rig.cycle(*puts(node(cards=1)))

    assert states(rig) == "70/12288/1"
    assert numbers(decision)["volsched_mgpu_changed_results"] == {}


def test_a_node_that_shrinks_under_its_pods_is_told_and_takes_no_more() -> None:
    rig = rig_of(node(memory=M), a_group("g"), running("p", "30/8192", "0"), running("q", "30/8192", "0"))
    rig.cycle()

    decision = rig.cycle(*puts(node(memory=4096), *solo(pod("r", "10/256"))))

    assert states(rig) == "40/0/2 ; 100/4096/0"
    assert f"Insufficient {MEMORY}" in decision.waiting["r"]
    assert "more than there is of card 0" in told(decision)["CardsOverdrawn"]
    assert lists(rig.cycle(*puts(node(memory=M))), "r") == "1"
    assert states(rig) == "40/0/2 ; 90/16128/1"


def test_a_node_that_loses_its_cards_for_a_while() -> None:
    rig = rig_of(node(), a_group("g"), running("p", "full1", "1"))
    rig.cycle()

    decision = rig.cycle(*puts(node(cards=0), *solo(pod("q", "10/256"))))
    assert "mgpu: node has no mgpu cards" in decision.waiting["q"]
    assert told(decision) == {}

    assert lists(rig.cycle(*puts(node())), "q") == "0"
    assert states(rig) == "90/16128/1 ; 0/0/1"


# -- node order --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "expected"), [("binpack", "n2"), ("spread", "n1")])
def test_nodes_are_filled_or_used_alike_as_cards_are(policy: str, expected: str) -> None:
    rig = rig_of(
        node("n1"), node("n2"), a_group("g"), pod("p", "30/4096", on="n2", cards="0", group="g"),
        *solo(pod("q", "30/4096")), text=configuration(Policy=policy),
    )  # fmt: skip

    assert rig.cycle().bindings == {"q": expected}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({}, {"n1": 0.38397, "n2": 1.53589}), ({"NodeOrderWeight": 3}, {"n1": 1.15192, "n2": 4.60768})]
)  # fmt: skip
def test_a_node_scores_ten_times_what_the_best_placement_there_does(
    arguments: dict[str, int], expected: dict[str, float]
) -> None:
    rig = rig_of(
        node("n1", memory=T4), node("n2", memory=T4), a_group("g"), pod("p", "30/4096", on="n2", cards="0", group="g"),
        *solo(pod("q", "30/4096")), text=configuration("enqueue", **arguments),
    )  # fmt: skip
    rig.cycle()

    scores = rig.scheduler.engine.scores(rig.cluster.tasks["uid-q"])

    assert {name: plugins["mgpu"] for name, plugins in scores.items()} == pytest.approx(expected, abs=1e-5)


def test_a_weight_of_none_leaves_nodes_alone() -> None:
    rig = rig_of(node("n1"), *solo(pod("q", "30/4096")), text=configuration("enqueue", NodeOrderWeight=0))
    rig.cycle()

    assert rig.scheduler.engine.scores(rig.cluster.tasks["uid-q"]) == {"n1": {}}


def callbacks_asked(nodes: int) -> int:
    """Callbacks that twenty more placements ask where ten were made before."""
    rig = rig_of(
        *[node(f"n{i:03}") for i in range(nodes)], *[m for i in range(10) for m in solo(pod(f"a{i}", "30/1024"))]
    )
    rig.cycle()
    before = rig.scheduler.engine.nodes.callbacks_asked  # type: ignore[attr-defined]
    decision = rig.cycle(*puts(*[m for i in range(20) for m in solo(pod(f"b{i}", "30/1024"))]))
    assert len(decision.bindings) == 20
    return int(rig.scheduler.engine.nodes.callbacks_asked - before)  # type: ignore[attr-defined]


def test_what_a_placement_asks_does_not_grow_with_the_cluster() -> None:
    assert callbacks_asked(20) == callbacks_asked(200)


# -- configuration -----------------------------------------------------------------------------------------------------

UNDER_PREDICATES = """
actions: "allocate, backfill"
tiers:
- plugins: [{name: gang}]
- plugins:
  - name: predicates
    arguments: {predicate.MGPUEnable: true, predicate.MGPUPolicy: Spread}
"""


@pytest.mark.parametrize("listed", ["", "  - {name: mgpu}\n"])
def test_arguments_under_predicates_count(listed: str) -> None:
    rig = rig_of(node(), *solo(pod("a", "30/1024")), *solo(pod("b", "30/1024")), text=UNDER_PREDICATES + listed)

    decision = rig.cycle()

    assert [lists(decision, name) for name in "ab"] == ["0", "1"]


def test_arguments_of_its_own_win() -> None:
    own = "  - {name: mgpu, arguments: {predicate.MGPUPolicy: BinPack}}\n"
    rig = rig_of(node(), *solo(pod("a", "30/1024")), *solo(pod("b", "30/1024")), text=UNDER_PREDICATES + own)

    decision = rig.cycle()

    assert [lists(decision, name) for name in "ab"] == ["0", "0"]


@pytest.mark.parametrize("enable", ["false", None])
def test_a_plugin_that_is_off_does_nothing(enable: str | None) -> None:
    text = configuration(Enable=enable or "false")
    if enable is None:
        text = text[: text.index("    arguments:")]
    rig = rig_of(node(), *solo(pod("p", "20/128")), text=text)

    decision = rig.cycle()

    assert lists(decision, "p") == ""
    warnings = [str(warning) for warning in load_profile(text)[1]]
    said = "plugin mgpu: predicate.MGPUEnable: is not given and counts as false: Whether the plugin does anything."
    assert warnings == ([said] if enable is None else [])


@pytest.mark.parametrize("place", ["mgpu", "predicates"])
@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("Policy", "random", "must be one of binpack, spread"),
        ("WeightOfCore", "0.2", "must be a whole number"),
        ("WeightOfCore", "101", "must be from 0 to 100"),
        ("WeightOfCore", "-1", "must be from 0 to 100"),
        ("ScheduleMode", "uuid", "must be one of index, id"),
        ("MaxContainersPerCard", "0", "must be at least 1"),
        ("Enable", "maybe", "must be true or false"),
        ("WeightOfCores", "20", "did you mean predicate.MGPUWeightOfCore?"),
    ],
)
def test_wrong_values_are_errors_that_name_their_line(place: str, key: str, value: str, words: str) -> None:
    text = f"""
actions: allocate
tiers:
- plugins:
  - name: {place}
    arguments: {{predicate.MGPU{key}: {value}}}
"""

    with pytest.raises(ConfigurationError) as caught:
        load_profile(text)

    assert "line 6: " in str(caught.value)
    assert words in str(caught.value)


def test_a_new_configuration_takes_over_what_is_there() -> None:
    rig = rig_of(node(), *solo(pod("a", "30/1024")))
    rig.cycle()
    rig.cycle(Bound("uid-a", "n1"), *puts(pod("a", "30/1024", on="n1", cards="0", resourceVersion="2")))

    rig.scheduler.reconfigure(load_profile(configuration(Policy="spread"))[0])

    assert lists(rig.cycle(*puts(*solo(pod("b", "30/1024")))), "b") == "1"


def test_a_binding_under_way_counts_under_a_new_configuration() -> None:
    rig = rig_of(node(), *solo(pod("a", "30/1024")))
    rig.cycle()

    rig.scheduler.reconfigure(load_profile(configuration(Policy="spread"))[0])

    assert lists(rig.cycle(*puts(*solo(pod("b", "30/1024")))), "b") == "1"


# -- numbers -----------------------------------------------------------------------------------------------------------


def numbers(decision: CycleDecision) -> dict[str, dict[tuple[str, ...], float]]:
    return {found.name: dict(values) for found, values in decision.report.series}


def test_numbers_of_each_card_and_of_each_node() -> None:
    rig = rig_of(node(memory=1024), a_group("g"), running("p", "30/512", "0"))
    shown = numbers(rig.cycle())

    assert shown[series.CORE_USED.name] == {("n1", "0"): 0.3, ("n1", "1"): 0.0}
    assert shown[series.MEMORY_USED.name] == {("n1", "0"): 512 * 2**20, ("n1", "1"): 0.0}
    assert shown[series.MEMORY_SIZE.name] == {("n1", "0"): 2**30, ("n1", "1"): 2**30}
    assert shown[series.INSTANCES.name] == {("n1", "0"): 1.0, ("n1", "1"): 0.0}
    assert shown[series.FRAGMENTATION.name] == {("n1",): 70 / 170}
    assert shown[series.UNKNOWN.name] == {}


def test_numbers_follow_what_a_session_decides_and_end_with_the_node() -> None:
    rig = rig_of(node(), *solo(pod("p", "full1")), a_group("g"), pod("x", "30/512", on="n2", group="g"))
    shown = numbers(rig.cycle())
    assert shown[series.CORE_USED.name] == {("n1", "0"): 1.0, ("n1", "1"): 0.0}
    assert shown[series.FRAGMENTATION.name] == {("n1",): 0.0}

    rig.cycle()
    shown = numbers(rig.cycle(*puts(*solo(pod("q", "30/1024")))))
    assert shown[series.INSTANCES.name] == {("n1", "0"): 1.0, ("n1", "1"): 1.0}

    shown = numbers(rig.cycle(*puts(node("n2"))))
    assert shown[series.UNKNOWN.name] == {("n2",): 1.0}

    before = rig.cycle().report.series
    assert all(one is other for (_, one), (_, other) in list(zip(before, rig.cycle().report.series, strict=True))[:6])
    shown = numbers(rig.cycle(*puts(node(cards=0)), *puts(node("n2", cards=0))))
    assert shown[series.CORE_USED.name] == {}


def test_searches_that_are_given_up_are_counted() -> None:
    many = " ".join(f"8x{3 + n % 3}/{256 + n}" for n in range(16))
    rig = rig_of(node(cards=16, policy=NATIVE), *solo(pod("p", many, policy=NATIVE)))

    decision = rig.cycle()

    assert decision.bindings == {"p": "n1"}
    assert numbers(decision)[series.TRUNCATED.name] == {(): 2.0}
    assert numbers(decision)[series.SEARCHES.name] == {(): 2.0}


def test_a_nodes_event_names_no_pod_and_the_log_has_it_whole() -> None:
    rig = rig_of(node(), a_group("g"), running("p", "30/4096", "7"))

    decision = rig.cycle()

    said = told(decision)["CardStateUnknown"]
    assert "another job: " in said
    assert "default/p" not in said
    (whole,) = decision.report.whole
    assert (whole.kind, whole.name, whole.reason) == ("Node", "n1", "CardStateUnknown")
    assert 'pod "default/p": ' in whole.message
    assert rig.cycle().report.whole == ()
