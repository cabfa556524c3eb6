"""A cluster that is followed: whatever came one after the other, it looks as one that is read at once."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ui.worlds import GPU, NOW, PRODUCT, gone, group, known_of, live_of, made, node, pod, puts, queue
from volsched.model import api
from volsched.testing.recount import faults
from volsched.ui.picture import Live, Picture
from volsched.ui.waiting import GRACE_SECONDS, STARTS

PROPORTION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: proportion}, {name: predicates}, {name: nodeorder}]
"""
PREEMPTING = PROPORTION.replace("backfill", "backfill, preempt").replace("{name: proportion}, ", "")


def base() -> list[api.ApiObject]:
    return [node("n1"), node("n2", 4, "T4"), queue("default"), queue("a", gpus="4"), queue("b")]


def lists(picture: Picture) -> tuple[object, ...]:
    return picture.queues, picture.cards, picture.waiting, picture.overview.bars, picture.overview.reasons


def job(key: str, gpus: int, on: str = "", in_queue: str = "default") -> list[api.ApiObject]:
    return [group(key, in_queue), pod(key, gpus, on)]


# --- changes --------------------------------------------------------------------------------------------------------

_JOBS = st.tuples(st.integers(0, 5), st.integers(1, 9), st.sampled_from(["", "", "n1", "n2"]), st.sampled_from("ab"))
_STEPS = st.lists(
    st.one_of(
        _JOBS.map(lambda one: ("job", *one)),
        st.tuples(st.just("gone"), st.integers(0, 5)),
        st.tuples(st.just("quota"), st.integers(0, 9)),
        st.tuples(st.just("node"), st.integers(1, 3), st.integers(0, 8)),
        st.tuples(st.just("look")),
    ),
    max_size=14,
)


class Story:
    """Objects that come and go, told to a cluster that is followed."""

    def __init__(self) -> None:
        self.objects = {(type(each).__name__, each.key): each for each in base()}
        self.live = live_of(known_of(self.objects.values(), PROPORTION))

    def put(self, *objects: api.ApiObject) -> None:
        for each in objects:
            self.objects[type(each).__name__, each.key] = each
        self.live.take(puts(*objects))

    def drop(self, kind: str, key: str) -> None:
        found = self.objects.pop((kind, key), None)
        if found is not None:
            self.live.take([gone(found)])

    def tell(self, step: tuple[object, ...]) -> None:
        match step:
            case ("job", number, gpus, on, in_queue):
                key = f"team/j{number}"
                self.drop("Pod", key)
                self.put(*job(key, int(str(gpus)), str(on), str(in_queue)))
            case ("gone", number):
                self.drop("Pod", f"team/j{number}")
                self.drop("PodGroup", f"team/j{number}")
            case ("quota", gpus):
                self.put(queue("a", gpus=str(gpus)))
            case ("node", number, gpus):
                self.put(node(f"n{number}", int(str(gpus))))
            case _:
                self.live.look(NOW)


@pytest.mark.slow(reason="hundreds of random inputs")
@settings(max_examples=60, deadline=None)
@given(_STEPS)
def test_what_came_bit_by_bit_looks_as_what_is_read_at_once(steps: list[tuple[object, ...]]) -> None:
    story = Story()
    for step in steps:
        story.tell(step)

    found = story.live.look(NOW)

    assert lists(found) == lists(live_of(known_of(story.objects.values(), PROPORTION)).look(NOW))
    assert faults(story.live.cluster) == []


# --- sessions leave nothing behind ----------------------------------------------------------------------------------


def placed(live: Live) -> dict[str, str]:
    return {task.key: task.node.name for task in live.cluster.tasks.values() if task.node is not None}


def test_what_a_session_would_do_has_not_happened() -> None:
    """One pod would be bound, and one evicted for another."""
    high = made("PriorityClass", "high", version="scheduling.k8s.io/v1", value=1000)
    urgent = [important(each) for each in job("team/urgent", 8)]
    runs = [group("team/runs", minimum=0), pod("team/runs", 8, "n1")]
    live = live_of(known_of([*base(), *runs, *job("team/small", 2), high, *urgent], PREEMPTING))

    first = live.look(NOW)

    said = {each.name: each.message for each in first.waiting}
    assert "can go to node" in said["urgent"]
    assert placed(live) == {"team/runs": "n1"}
    assert [task.status.name for task in live.cluster.tasks.values() if task.node is not None] == ["RUNNING"]
    assert [task.nominated for task in live.cluster.tasks.values()] == [""] * 3
    assert faults(live.cluster) == []
    assert live.look(NOW) is first


def test_phase_of_a_job_is_that_of_its_podgroup_whatever_a_session_would_write() -> None:
    """One session admits it, and finds no room for it; then somebody else says that it is over."""
    live = live_of(known_of([*base(), group("team/new", phase="Pending"), pod("team/new", 9)], PROPORTION))

    live.look(NOW)
    assert live.cluster.jobs["team/new"].phase == "Pending"

    live.take(puts(group("team/new", phase="Completed")))
    assert live.cluster.jobs["team/new"].phase == "Completed"


def important(found: api.ApiObject) -> api.ApiObject:
    assert isinstance(found, api.Pod | api.PodGroup)
    spec = msgspec.structs.replace(found.spec, priority_class_name="high")
    if isinstance(found, api.Pod):
        spec = msgspec.structs.replace(spec, priority=1000)
    return msgspec.structs.replace(found, spec=spec)


def test_job_that_nobody_binds_is_listed_after_a_while() -> None:
    live = live_of(known_of([*base(), *job("team/small", 2)], PROPORTION))

    [shown] = live.look(NOW).waiting

    assert (shown.step, shown.name) == (STARTS, "small")
    assert "n1" in shown.message or "n2" in shown.message


def test_job_that_has_just_come_is_not_listed_before_the_scheduler_had_its_turn() -> None:
    live = live_of(known_of([*base(), *job("team/small", 2)], PROPORTION))
    created = live.look(NOW).waiting[0].since
    assert created is not None

    again = live_of(known_of([*base(), *job("team/small", 2)], PROPORTION))

    assert again.look(created + 1).waiting == ()
    assert again.due() == created + GRACE_SECONDS
    assert len(again.look(created + GRACE_SECONDS).waiting) == 1


def test_quota_that_is_raised_lets_a_job_go() -> None:
    live = live_of(known_of([*base(), *job("team/big", 6, in_queue="a")], PROPORTION))
    [before] = live.look(NOW).waiting
    assert GPU in before.message

    live.take(puts(queue("a", gpus="8")))

    assert [each.step for each in live.look(NOW).waiting] == [STARTS]
    assert [reason.step for reason in live.reasons("team", "big")] == [before.step, STARTS]


def test_nodes_that_nothing_happened_to_are_not_listed_again() -> None:
    live = live_of(known_of([*base(), *job("team/small", 2)], PROPORTION))
    before = {each.node: each for each in live.look(NOW).cards}

    live.take(puts(pod("team/other", 1, "n2")))
    after = {each.node: each for each in live.look(NOW).cards}

    assert after["n1"] is before["n1"]
    assert (before["n2"].used, after["n2"].used) == (0, 1)


def test_configuration_is_another_one_from_the_next_look_on() -> None:
    unlimited = PROPORTION.replace("{name: proportion}, ", "")
    live = live_of(known_of([*base(), *job("team/big", 6, in_queue="a")], unlimited))
    assert [each.step for each in live.look(NOW).waiting] == [STARTS]

    live.use(PROPORTION)

    [found] = live.look(NOW).waiting
    assert found.step != STARTS
    assert [f.quota for q in live.look(NOW).queues if q.name == "a" for f in q.figures if f.resource == GPU] == ["4"]


# --- names of cards -------------------------------------------------------------------------------------------------

MAPPED = """
actions: allocate
tiers:
- plugins:
  - {name: predicates}
  - {name: capacity-card, arguments: {cards: [{resource: huawei.com/Ascend910, name: NAME}]}}
"""


def unlabelled(name: str, resource: str, **labels: str) -> api.ApiObject:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", resource: "2"}
    return made("Node", name, labels=labels, status={"allocatable": amounts})


def models(live: Live) -> dict[str, str]:
    return {each.node: each.model for each in live.look(NOW).cards}


def test_cards_have_the_names_that_the_configuration_in_force_maps() -> None:
    live = live_of(known_of([unlabelled("n1", "huawei.com/Ascend910")], MAPPED.replace("NAME", "Ascend910")))
    assert models(live) == {"n1": "Ascend910"}

    live.use(MAPPED.replace("NAME", "NPU"))

    assert models(live) == {"n1": "NPU"}


def test_cards_that_nobody_names_are_shown_too() -> None:
    nodes = [
        unlabelled("n1", "huawei.com/Ascend910"),
        unlabelled("n2", "amd.com/gpu", **{"amd.com/gpu.product-name": "MI300X"}),
        unlabelled("n3", "nvidia.com/gpu", **{PRODUCT: "A100"}),
        unlabelled("n4", "rdma/hca"),
    ]

    assert models(live_of(known_of(nodes, PROPORTION))) == {"n1": "huawei.com/Ascend910", "n2": "MI300X", "n3": "A100"}
