"""Cards in `status.allocated` of Queues: under both names, of placed pods alone, in all queues above."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.capacity_card.allocated import PREFIX, as_resource
from tests.plugins.capacity_card.clusters import GPU, MPS, A, H, cards, configuration, rig
from volsched.model.changes import Deleted
from volsched.model.plan import WriteQueueStatus
from volsched.quota.status import QueueStatuses
from volsched.registry import load_profile
from volsched.testing.builders import CycleDecision, Rig, put

QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""What Kubernetes takes as the name of an extended resource behind its domain."""
H200, H800, RTX = "NVIDIA-H200", "NVIDIA-H800", "NVIDIA-GeForce-RTX-4090"


def said(decision: CycleDecision) -> dict[str, dict[str, str]]:
    """What each queue is to say from now on, without what all say."""
    return {
        step.name: {name: text for name, text in step.allocated.items() if name not in ("cpu", "memory", "pods")}
        for step in decision.steps
        if isinstance(step, WriteQueueStatus)
    }


def twice(**amounts: int) -> dict[str, str]:
    return {name: str(count) for card, count in amounts.items() for name in (card, f"{PREFIX}{card}")}


def gone(scheduling: Rig, name: str) -> Deleted:
    task = next(task for task in scheduling.cluster.tasks.values() if task.name == name)
    return Deleted("Pod", task.namespace, name, task.uid)


def test_the_queue_of_the_seed_says_its_cards_by_name() -> None:
    """Whole cards, MPS shares and MIG slices of the queue of seed 001, 2.2.2.1.1, all used up."""
    quota = {
        H200: 3,
        H800: 2,
        RTX: 2,
        f"{H800}/mps-80g*1/2": 2,
        f"{H200}/mig-1g.18gb-mixed": 3,
        f"{H200}/mig-3g.71gb-mixed": 1,
    }
    small, large = "nvidia.com/mig-1g.18gb", "nvidia.com/mig-3g.71gb"
    world = cards().cards("h200", H200, **{GPU: 7, small: 3, large: 1}).cards("rtx", RTX, 4).cards("h800", H800, 8)
    world.cards("shared", H800, labels={"nvidia.com/gpu.replicas": "2"}, **{MPS: 4})
    world.quota("cr-queue1", quota)
    resources = {f"{H800}/mps-80g*1/2": MPS, f"{H200}/mig-1g.18gb-mixed": small, f"{H200}/mig-3g.71gb-mixed": large}
    for index, (card, count) in enumerate(quota.items()):
        world.gang(f"job-{index}", count, card=card, queue="cr-queue1", resource=resources.get(card, GPU))

    found = said(rig(world).cycle())["cr-queue1"]

    by_name = {card: str(count) for card, count in quota.items()}
    assert {name: text for name, text in found.items() if name in by_name} == by_name
    assert {name: text for name, text in found.items() if name.startswith(PREFIX)} == {
        "volsched.io/NVIDIA-H200": "3",
        "volsched.io/NVIDIA-H800": "2",
        "volsched.io/NVIDIA-GeForce-RTX-4090": "2",
        "volsched.io/NVIDIA-H800_mps-80g_1_2": "2",
        "volsched.io/NVIDIA-H200_mig-1g.18gb-mixed": "3",
        "volsched.io/NVIDIA-H200_mig-3g.71gb-mixed": "1",
    }
    assert found[GPU] == "7", "resources are said as ever"


def test_what_a_list_got_is_said_and_what_is_promised_is_not() -> None:
    world = cards().cards("a1", A, 1).cards("h1", H, 2).quota("q", {A: 1, H: 2})
    world.gang("chat", 2, card=f"{A}|{H}").gang("waits", 1, card=A)
    scheduling = rig(world)

    assert said(scheduling.cycle())["q"] == {**twice(**{A: 1, H: 1}), GPU: "2"}
    assert said(scheduling.cycle(gone(scheduling, "chat-0"), gone(scheduling, "chat-1")))["q"] == {
        **twice(**{A: 1}),
        GPU: "1",
    }


def test_queues_above_say_what_those_below_hold() -> None:
    world = cards().cards("a1", A).queue("root").queue("above", parent="root")
    for name in ("x", "y"):
        world.quota(name, {A: 4}, parent="above").gang(f"of-{name}", 2, card=A, queue=name)

    found = said(rig(world).cycle())

    assert found["x"] == found["y"] == {**twice(**{A: 2}), GPU: "2"}
    assert found["above"] == found["root"] == {**twice(**{A: 4}), GPU: "4"}


def test_a_node_that_becomes_another_model_changes_what_is_held() -> None:
    scheduling = rig(cards().cards("n", A, 4).quota("q", {A: 4}).gang("g", 2, card=f"{A}|{H}"))
    assert said(scheduling.cycle())["q"] == {**twice(**{A: 2}), GPU: "2"}

    relabelled = cards().cards("n", H, 4).objects[0]

    assert said(scheduling.cycle(put(relabelled)))["q"] == {**twice(**{H: 2}), GPU: "2"}


def test_only_the_queues_that_something_changed_in_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cards().cards("a1", A, 200)
    for index in range(100):
        world.quota(f"q{index}", {A: 2}).gang(f"g{index}", 1, card=A, queue=f"q{index}")
    scheduling = rig(world)
    scheduling.cycle()
    scheduling.cycle()
    asked: list[str] = []
    recount = QueueStatuses._recount
    monkeypatch.setattr(QueueStatuses, "_recount", lambda self, name: asked.append(name) or recount(self, name))  # type: ignore[func-returns-value]

    scheduling.cycle(gone(scheduling, "g7-0"))

    assert set(asked) == {"q7"}


def test_without_the_plugin_cards_have_no_name_and_the_old_ones_go() -> None:
    scheduling = rig(cards().cards("a1", A).quota("q", {A: 4}).gang("g", 2, card=A))
    assert said(scheduling.cycle())["q"] == {**twice(**{A: 2}), GPU: "2"}

    without = configuration().replace('- {"name": "capacity-card", "arguments": {}}', "- {name: binpack}")
    scheduling.scheduler.reconfigure(load_profile(without)[0])
    assert said(scheduling.cycle())["q"] == {GPU: "2"}

    scheduling.scheduler.reconfigure(load_profile(configuration())[0])
    assert said(scheduling.cycle())["q"] == {**twice(**{A: 2}), GPU: "2"}


@pytest.mark.parametrize("card", ["cpu", "memory", "pods", "hugepages-2Mi", "memory.deviceclass/x"])
def test_a_card_that_is_called_like_a_resource_does_not_take_its_place(card: str) -> None:
    scheduling = rig(cards().cards("n", card).quota("q", {card: 4}).gang("g", 2, card=card, cpu="1", memory="1Gi"))

    steps = [step for step in scheduling.cycle().steps if isinstance(step, WriteQueueStatus) and step.name == "q"]

    held = {"cpu": "2", "memory": "2Gi", "pods": "2", GPU: "2"}
    assert steps[0].allocated == {**held, as_resource(card): "2"}


@given(st.text(max_size=120))
def test_any_name_makes_the_name_of_a_resource(card: str) -> None:
    name = as_resource(card)

    assert name.startswith(PREFIX)
    assert QUALIFIED.fullmatch(name.removeprefix(PREFIX))


def test_names_that_are_too_long_stay_apart() -> None:
    assert len({as_resource("A" * 60 + end) for end in ("", "AAAAA/mig-1g.10gb-mixed", "AAAAA/mig-2g.20gb-mixed")}) == 3
