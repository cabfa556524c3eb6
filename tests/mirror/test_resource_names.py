"""Pods may ask for whatever they like: only what somebody offers costs a number on every node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.mirror.objects import Believer, gone, node, pod
from volsched.framework.engine.plain import refusal_of
from volsched.framework.rules import NodeCallbacks
from volsched.model.nodes.columns import OFFERED_NOWHERE


def asks_for(names: list[str]) -> dict[str, object]:
    requests = {f"tenant.example.com/{name}": "1" for name in names}
    return {"containers": [{"name": "c", "resources": {"requests": requests, "limits": requests}}]}


def test_resources_that_nobody_offers_take_no_room_in_memory() -> None:
    believer = Believer(*[node(f"n{number}", cpu=4) for number in range(3)])
    width = len(believer.cluster.columns)

    for number in range(50):
        believer.apply(pod(f"p{number}", spec=asks_for([f"r{number}-{place}" for place in range(50)])))

    assert len(believer.cluster.columns) == width
    assert len(believer.cluster.nodes["n0"].used) == width


def test_such_a_pod_is_told_what_is_missing_by_name() -> None:
    believer = Believer(node("n1", cpu=4), pod("p", spec=asks_for(["b", "a"])))

    verdict, lacking = refusal_of(believer.cluster, NodeCallbacks(), believer.task("p"), believer.cluster.nodes["n1"])

    assert verdict is None
    assert lacking == ["Insufficient tenant.example.com/a", "Insufficient tenant.example.com/b"]


def test_once_a_node_offers_one_it_counts_there_also_for_pods_that_came_before() -> None:
    believer = Believer(
        node("n1", cpu=4),
        pod("waits", spec=asks_for(["card", "other"])),
        pod("runs", on="n1", spec=asks_for(["card"])),
    )
    assert believer.used("n1", "tenant.example.com/card") == 0

    believer.apply(node("n1", cpu=4, **{"tenant.example.com/card": 2}))

    assert believer.used("n1", "tenant.example.com/card") == 1000
    [(card, amount), (nowhere, _)] = sorted(believer.cluster.columns.request(believer.task("waits").template))[::-1]
    assert (believer.cluster.columns.names[card], amount, nowhere) == ("tenant.example.com/card", 1000, OFFERED_NOWHERE)
    believer.apply(gone("Pod", "runs"))
    assert believer.used("n1", "tenant.example.com/card") == 0
    assert believer.cluster.nodes["n1"].used[OFFERED_NOWHERE] == 0


NAMES = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(st.sampled_from(["pod", "bound", "offer", "gone"]), NAMES, NAMES), max_size=14))
def test_in_whatever_order_pods_and_offers_come_accounts_equal_a_recount(steps: list[tuple[str, str, str]]) -> None:
    believer = Believer(node("n1", cpu=4))
    offered: dict[str, int] = {}
    for number, (step, first, second) in enumerate(steps):
        match step:
            case "offer":
                offered[f"tenant.example.com/{first}"] = number
                believer.apply(node("n1", cpu=4, **offered))
            case "gone":
                believer.apply(gone("Pod", f"p-{first}"))
            case _:
                on = "n1" if step == "bound" else None
                believer.apply(pod(f"p-{first}", on=on, version=number, spec=asks_for([first, second])))  # recounted
