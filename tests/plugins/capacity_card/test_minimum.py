"""What a gang starts with, weighed by its cheapest pods: admission, what is reserved, and that order decides nothing.

The seeds: pods of a Deployment are there "without queuing" (000), and admission compares what a job needs at least
(001, 2.2.4.4.1), not all that its pods ask for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.capacity_card.cards.matching import first_unmet
from plugins.capacity_card.requests.charges import Charge
from plugins.capacity_card.requests.minimum import Need, RolePods, cheapest, least
from plugins.capacity_card.requests.requests import CardRequest, lists_of
from tests.plugins.capacity_card.clusters import GPU, A, Cards, H, T, cards, configuration, decided, refusal, rig
from volsched.model.changes import Deleted
from volsched.testing.builders import Rig, a_rig, puts
from volsched.testing.contract import ENGINES

ROLE = "volcano.sh/task-spec"


def farm(quota: Any) -> Cards:
    return cards().cards("a1", A, 16).cards("h1", H, 16).quota("q", quota)


def member(
    cluster: Cards, name: str, of: str = "j", card: str = A, each: int = 1, role: str = "", **more: Any
) -> Cards:
    named = {"volcano.sh/card.name": card} if card else {}
    asked = {GPU: each} if card else {}
    cluster.pod(name, of, annotations={**named, **({ROLE: role} if role else {})}, **asked, **more)
    return cluster


def phase(on: Rig, job: str) -> str:
    return on.cluster.jobs[f"default/{job}"].phase


# -- starts and updates of Deployments --------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("first", range(6))
def test_a_deployment_of_five_on_a_quota_of_four_gets_four(first: int, engine: Any) -> None:
    """However many of its pods existed when its PodGroup was first judged."""
    world = farm({A: 4}).gang("j", 5, card=A, phase="Pending")
    *before, pods = world.objects[: len(world.objects) - 5], world.objects[-5:]
    on = a_rig(Cards([*before[0], *pods[:first]]), configuration(), engine)

    bound = {**on.cycle().bindings, **on.cycle(*puts(*pods[first:])).bindings}

    assert len(bound) == 4
    [waits] = [task for task in on.cluster.tasks.values() if task.name not in bound]
    assert waits.refusal is not None
    assert (waits.refusal.step.value, waits.refusal.reason) == ("allocatable", "InsufficientScalarQuota")


def test_an_update_goes_on_while_a_card_is_free() -> None:
    """Defaults for four replicas: the old ReplicaSet holds three, the new one has two pods."""
    world = farm({A: 4}).gang("old", 3, card=A, on="a1").gang("new", 2, card=A, phase="Pending", created=1)
    on = rig(world)

    first = on.cycle()
    assert list(first.bindings) == ["new-0"]
    assert refusal(first, "new-1")[0] == "InsufficientScalarQuota"

    assert list(on.cycle(Deleted("Pod", "default", "old-0", "pod-default-old-0")).bindings) == ["new-1"]


def test_who_finds_the_quota_full_is_admitted_once_a_card_is_free() -> None:
    on = rig(farm({A: 4}).gang("old", 4, card=A, on="a1").gang("new", 1, card=A, phase="Pending", created=1))

    full = on.cycle()
    assert (full.bindings, phase(on, "new")) == ({}, "Pending")
    assert "requested <1000>, total would be <5000>, but capability is <4000>" in refusal(full, "new")[1]

    assert list(on.cycle(Deleted("Pod", "default", "old-0", "pod-default-old-0")).bindings) == ["new-0"]


def test_cards_beyond_a_minimum_are_not_given_away_twice() -> None:
    """A job that holds more than it starts with holds it: nobody would give that back."""
    world = farm({A: 8}).gang("serve", 6, card=A, on="a1", minimum=1)

    assert refusal(decided(world.probe("train", {A: 4})), "train")[0] == "InsufficientScalarQuota"


# -- what is declared, and what exists --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "request_", "minimum", "quota", "admitted"),
    [
        pytest.param([1] * 8, {A: 8}, 1, 5, True, id="the seed's job: pods exist, so the first of eight counts"),
        pytest.param([], {A: 8}, 1, 5, False, id="the same without pods: all that is declared"),
        pytest.param([1], {A: 8}, 2, 5, False, id="one of two: what is declared"),
        pytest.param([1, 1], {A: 8}, 2, 2, True, id="two of two"),
        pytest.param([4, 1, 3], None, 2, 4, True, id="the cheapest two"),
        pytest.param([4, 1, 3], None, 2, 3, False, id="one card short of them"),
        pytest.param([4], None, 2, 1, True, id="nothing is declared, and pods are missing"),
        pytest.param([2, 2], None, 0, 1, True, id="a minimum of nobody"),
    ],
)
def test_admission_weighs_what_the_gang_starts_with(
    pods: list[int], request_: Any, minimum: int, quota: int, admitted: bool
) -> None:
    world = farm({A: quota}).gang("j", 0, request=request_, minimum=minimum, phase="Pending")
    for number, each in enumerate(pods):
        member(world, f"j-{number}", each=each)
    on = a_rig(world, configuration(actions="enqueue"))

    on.cycle()

    assert (on.cluster.jobs["default/j"].refusal is None) == admitted


@pytest.mark.parametrize(
    ("minima", "minimum", "quota", "admitted"),
    [
        pytest.param({"chief": 1, "worker": 2}, 3, 4, True, id="one chief of two cards, two workers"),
        pytest.param({"chief": 1, "worker": 2}, 3, 3, False, id="no chief is as cheap as a worker"),
        pytest.param({"chief": 1, "worker": 2}, 4, 5, True, id="and one more of any role"),
        pytest.param({"chief": 1, "worker": 2}, 4, 4, False, id="which takes a card too"),
        pytest.param({"chief": 1, "worker": 2}, 2, 2, True, id="minima that do not count: any two"),
        pytest.param({"worker": 3}, 3, 3, True, id="no chief is needed"),
    ],
)
def test_roles_have_their_own_cheapest(minima: dict[str, int], minimum: int, quota: int, admitted: bool) -> None:
    world = farm({A: quota}).group("j", "q", minimum, "Pending", minTaskMember=minima)
    for number in range(2):
        member(world, f"c{number}", each=2 + number, role="chief")
    for number in range(4):
        member(world, f"w{number}", role="worker")
    on = a_rig(world, configuration(actions="enqueue"))

    on.cycle()

    assert phase(on, "j") == ("Inqueue" if admitted else "Pending")


@pytest.mark.parametrize(
    ("members", "minimum", "quota", "admitted"),
    [
        pytest.param([f"{A}|{H}"] * 4, 4, {A: 2, H: 2}, True, id="one list"),
        pytest.param([f"{A}|{H}"] * 4, 4, {A: 2, H: 1}, False, id="one list, too little of both"),
        pytest.param([A, A, H, H], 2, {A: 1, H: 1}, True, id="two of whatever card"),
        pytest.param([A, A, H, H], 2, {A: 0, H: 1}, False, id="two cards are not there"),
        pytest.param([A, A, H, H], 3, {A: 2, H: 0}, False, id="two of three are A, and one has to be H"),
        pytest.param([A, A, H, H], 3, {A: 2, H: 1}, True, id="which it may"),
        pytest.param([A, f"{A}|{H}"], 2, {A: 1, H: 1}, True, id="lists that overlap"),
        pytest.param([A, A, f"{A}|{H}"], 3, {A: 1, H: 2}, False, id="and ask for more than there is"),
        pytest.param([A, "", ""], 2, {A: 0}, True, id="those without cards do"),
        pytest.param([A, "Nobody"], 1, {A: 1}, True, id="F16: whose card nobody knows is not there"),
    ],
)
def test_lists_of_cards_have_their_cheapest(members: list[str], minimum: int, quota: Any, admitted: bool) -> None:
    world = farm(quota).gang("j", 0, minimum=minimum, phase="Pending")
    for number, card in enumerate(members):
        member(world, f"j-{number}", card=card)
    on = a_rig(world, configuration(actions="enqueue"))

    on.cycle()

    assert phase(on, "j") == ("Inqueue" if admitted else "Pending")


def test_cpu_is_weighed_by_the_pods_that_exist_too() -> None:
    """minResources counts before there are pods: a total that somebody wrote there keeps no gang of pods out."""
    world = farm({}).gang("j", 3, minimum=2, least={"cpu": 40}, phase="Pending", cpu=4).quota("q", {}, cpu=8)
    none = farm({}).probe("j", cpu=40).quota("q", {}, cpu=8)

    assert sorted(decided(world).bindings) == ["j-0", "j-1"]
    assert refusal(decided(none), "j")[0] == "InsufficientCPUQuota"


# -- what is reserved -------------------------------------------------------------------------------------------------


def test_what_is_reserved_is_what_a_gang_starts_with() -> None:
    """Five pods wait, two of them are the minimum: no promise is counted for the others."""
    world = farm({A: 4}).gang("j", 5, card=A, minimum=2).probe("beside", {A: 2}).probe("late", {A: 1})
    on = a_rig(world, configuration(actions="enqueue"))

    on.cycle()

    assert (phase(on, "beside"), phase(on, "late")) == ("Inqueue", "Pending")


def test_who_waits_for_a_declared_total_is_looked_at_again_when_less_is_needed() -> None:
    """Eight cards are declared; when the first pod is there one is reserved, and nothing else has to happen."""
    world = farm({A: 10}).gang("j", 0, request={A: 8}, created=0).probe("late", {A: 4})
    on = a_rig(world, configuration(actions="enqueue"))
    on.cycle()
    assert phase(on, "late") == "Pending"

    on.cycle(*puts(*member(cards(), "j-0").objects))

    assert phase(on, "late") == "Inqueue"


def test_a_gang_that_takes_what_it_reserved_wakes_nobody() -> None:
    world = farm({A: 4}).gang("j", 4, card=A, minimum=4).probe("late", {A: 1})
    on = rig(world)
    assert len(on.cycle().bindings) == 4
    on.cycle()
    parked, generation = on.cluster.jobs["default/late"].unschedulable_at, on.cluster.generations.requeue

    on.cycle()

    assert (on.cluster.jobs["default/late"].unschedulable_at, on.cluster.generations.requeue) == (
        parked,
        generation,
    )


def test_gated_pods_of_a_minimum_reserve_nothing_and_the_others_do() -> None:
    world = farm({A: 3}).gang("j", 2, card=A, minimum=3)
    member(world, "gated", spec={"schedulingGates": [{"name": "x/y"}]})
    on = a_rig(world.probe("one", {A: 1}).probe("two", {A: 1}), configuration(actions="enqueue"))

    on.cycle()

    assert (phase(on, "one"), phase(on, "two")) == ("Inqueue", "Pending")


# -- properties -------------------------------------------------------------------------------------------------------

LISTS = st.sampled_from([A, A, H, f"{A}|{H}", f"{H}|{A}", ""])


@st.composite
def gangs(draw: st.DrawFn) -> tuple[Cards, list[dict[str, Any]], int]:
    """A quota of which some is held, a PodGroup, and its pods."""
    quota = {A: draw(st.integers(0, 5)), H: draw(st.integers(0, 5))}
    world = farm(quota)
    if held := draw(st.integers(0, 3)):
        world.gang("held", held, card=A, on="a1", minimum=1)
    count = draw(st.integers(1, 5))
    alike = (draw(LISTS), draw(st.integers(1, 2))) if draw(st.booleans()) else None
    minima = {"minTaskMember": {"x": 1, "y": draw(st.integers(0, 2))}} if draw(st.booleans()) else {}
    world.group("j", "q", draw(st.integers(0, count)), "Pending", **minima)
    if draw(st.booleans()):
        said = f'{{"{draw(st.sampled_from([A, H, f"{A}|{H}"]))}": {draw(st.integers(0, 8))}}}'
        world.objects[-1]["metadata"]["annotations"] = {"volcano.sh/card.request": said}
    pods = Cards([])
    for number in range(count):
        card, each = alike or (draw(LISTS), draw(st.integers(1, 3)))
        role = draw(st.sampled_from(["x", "y"])) if minima else ""
        member(pods, f"j-{number}", card=card, each=each, role=role, cpu=draw(st.integers(0, 1)))
    return world, pods.objects, count


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@given(gangs())
def test_how_many_pods_existed_when_a_podgroup_was_first_judged_decides_nothing(
    found: tuple[Cards, list[dict[str, Any]], int],
) -> None:
    world, pods, count = found
    outcomes = []
    for first in range(count + 1):
        on = a_rig(Cards([*world.objects, *pods[:first]]), configuration())
        bound = {**on.cycle().bindings, **on.cycle(*puts(*pods[first:])).bindings, **on.cycle().bindings}
        outcomes.append(bound)

    assert all(outcome == outcomes[0] for outcome in outcomes), outcomes


needs = st.builds(
    lambda roles, more: Need({role: least for role, least in roles.items() if least}, more),
    st.dictionaries(st.sampled_from("xy"), st.integers(0, 2)),
    st.integers(0, 2),
)
kinds = st.lists(
    st.builds(
        lambda role, cpu, names, amount, count: RolePods(
            role, Charge({"cpu": cpu}, names, ()), CardRequest(names, GPU, amount, names) if names else None, count
        ),
        st.sampled_from("xyz"),
        st.integers(0, 3),
        st.sampled_from([(), (A,), (H,), (A, H), (H, T), (A, H, T)]),
        st.integers(1, 3),
        st.integers(1, 2),
    ),
    max_size=4,
)


def startable(need: Need, found: list[RolePods]) -> Iterator[list[RolePods]]:
    """All choices of pods with which a gang can start."""
    pods = [RolePods(kind.role, kind.charge, kind.card_request, 1) for kind in found for _ in range(kind.count)]
    for chosen in combinations(pods, min(need.count, len(pods))):
        by_role = Counter(pod.role for pod in chosen)
        if need.can_be_had(by_role):
            yield list(chosen)


@given(needs, kinds)
def test_the_least_of_an_amount_is_that_of_the_best_choice(need: Need, found: list[RolePods]) -> None:
    sums = [sum(pod.charge.resources["cpu"] for pod in chosen) for chosen in startable(need, found)]

    if sums:
        assert least(need, [(kind.role, kind.charge.resources["cpu"], kind.count) for kind in found]) == min(sums)


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@given(needs, kinds, st.dictionaries(st.sampled_from([A, H, T]), st.integers(0, 6)))
def test_no_gang_is_kept_out_that_could_start(need: Need, found: list[RolePods], room: dict[str, int]) -> None:
    """If the cards of any choice of pods can all be had, what is weighed for the gang can."""
    choices: list[Counter[tuple[str, ...]]] = []
    for chosen in startable(need, found):
        wanted: Counter[tuple[str, ...]] = Counter()
        for pod in chosen:
            if pod.card_request is not None:
                wanted[pod.card_request.names] += pod.card_request.amount
        choices.append(wanted)

    if any(first_unmet(room, (), sorted(wanted.items())) is None for wanted in choices):
        assert first_unmet(room, (), sorted(lists_of(cheapest(need, found)).items())) is None


@pytest.mark.parametrize(("each", "room"), [(1, True), (3, False)])
def test_no_more_is_kept_for_a_gang_that_lacks_pods_than_those_there_ask_for(each: int, room: bool) -> None:
    """Two of four, of a quota of eight: one each keeps four, three each keep all eight that are declared."""
    world = farm({A: 8}).gang("j", 2, card=A, each=each, request={A: 8}, minimum=4, phase="Inqueue")

    assert (decided(world.probe("p", {A: 4})).cluster.jobs["default/p"].phase == "Inqueue") is room
