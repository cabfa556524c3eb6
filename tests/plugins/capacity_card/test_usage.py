"""What queues hold and may still take, as people are shown it: the scheduler's own accounts, and what it would do."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plugins.capacity_card.plugin import ANCESTORS, SPARES_CPU
from tests.plugins.capacity_card.nodes import GPU, card_node
from tests.simulation.clusters import Manifest, group, pod, queue, result, stock
from volsched.cli.inputs.in_force import InForce
from volsched.cli.inputs.look import Look, look
from volsched.framework.quota_report import Dimension, Usage
from volsched.registry import load_profile

CARDS = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity-card}]
"""
NODES = (card_node("a1", "A"), card_node("b1", "B"))


def seen(*manifests: Manifest, **arguments: bool) -> Look:
    """What there is to be seen with these arguments of capacity-card."""
    text = CARDS.replace("{name: capacity-card}", json.dumps({"name": "capacity-card", "arguments": arguments}))
    flags = {"scheduler_names": ("volsched",), "default_queue": "default"}
    return look(stock(*manifests), InForce(load_profile(text)[0], "cards.conf"), flags)


def usage(*manifests: Manifest, **arguments: bool) -> Usage:
    return seen(*manifests, **arguments).usage


def team(name: str = "team", quota: dict[str, int] | None = None, **spec: Any) -> Manifest:
    return {
        **queue(name, **spec),
        "metadata": {"name": name, "annotations": {"volcano.sh/card.quota": json.dumps(quota or {})}},
    }


def asking(name: str, request: dict[str, int], phase: str = "Inqueue", q: str = "team", least: Any = None) -> Manifest:
    """A PodGroup that asks for cards in advance."""
    found = group(name, 9, q=q, phase=phase, **({"minResources": least} if least else {}))
    found["metadata"]["annotations"] = {"volcano.sh/card.request": json.dumps(request)}
    return found


def member(name: str, of: str, card: str, on: str | None = None, count: int = 1, cpu: str = "1") -> Manifest:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}, "limits": {GPU: count}}}]
    return pod(name, of, on, annotations={"volcano.sh/card.name": card}, containers=containers)


def whole(dimension: Dimension) -> tuple[int, ...]:
    amounts = (dimension.quota, dimension.used, dimension.reserved, dimension.headroom)
    return tuple((amount or 0) // 1000 for amount in amounts)


def test_each_card_of_a_queue_has_quota_used_reserved_and_headroom() -> None:
    found = usage(
        *NODES,
        team(quota={"A": 6, "B": 4}),
        group("serve", q="team", phase="Running"),
        member("serve-0", "serve", "A", on="a1", count=3),
        asking("train", {"A": 1}),
    )

    cards = found.queues["team"].cards
    assert {name: whole(dimension) for name, dimension in cards.items()} == {"A": (6, 3, 1, 2), "B": (4, 0, 0, 4)}
    assert [job.name for job in found.queues["team"].jobs] == ["default/serve", "default/train"]
    (use,) = found.queues["team"].jobs[0].pods
    assert (use.pod, use.node, use.card, use.amount) == ("default/serve-0", "a1", "A", 3000)


def test_what_a_list_has_reserved_is_taken_from_the_cards_that_it_needs() -> None:
    found = usage(*NODES, team(quota={"A": 2, "B": 4}), asking("any", {"A|B": 3}))

    use = found.queues["team"]
    assert use.lists == {("A", "B"): 3000}
    assert {name: dimension.headroom for name, dimension in use.cards.items()} == {"A": 2000, "B": 3000}


def test_a_quota_below_what_is_held_has_no_headroom() -> None:
    found = usage(
        *NODES, team(quota={"A": 1}), group("g", q="team", phase="Running"), member("p", "g", "A", on="a1", count=3)
    )

    assert whole(found.queues["team"].cards["A"]) == (1, 3, 0, 0)


def test_cpu_and_memory_count_unless_cards_spare_them() -> None:
    world = (
        *NODES,
        team(quota={"A": 8}, capability={"cpu": "8"}),
        group("g", q="team", phase="Running"),
        member("p", "g", "A", on="a1", cpu="3"),
    )

    assert usage(*world).queues["team"].cpu.used == 3000
    assert usage(*world, **{SPARES_CPU: True}).queues["team"].cpu.used == 0


def test_an_ancestor_bounds_headroom_where_it_counts() -> None:
    few, many = {"cpu": "3", "memory": "1Gi"}, {"cpu": "8", "memory": "8Gi"}
    world = (*NODES, team("top", {"A": 2}, capability=few), team("team", {"A": 6}, parent="top", capability=many))

    alone, bounded = (usage(*world, **{ANCESTORS: on}).queues["team"] for on in (False, True))

    assert (alone.cards["A"].headroom, alone.cpu.headroom, alone.memory.headroom) == (6000, 8000, 8 << 30)
    assert (bounded.cards["A"].headroom, bounded.cpu.headroom, bounded.memory.headroom) == (2000, 3000, 1 << 30)
    assert (bounded.cards["A"].quota, bounded.cpu.quota) == (6000, 8000)


def test_every_card_of_the_cluster_has_total_idle_quota_and_used() -> None:
    found = usage(
        *NODES,
        team(quota={"A": 6, "C": 1}),
        team("other", {"A": 6}),
        group("g", q="team", phase="Running"),
        member("p", "g", "A", on="a1", count=3),
        pod("stranger", on="b1", scheduler="else", containers=[{"name": "m", "resources": {"limits": {GPU: 2}}}]),
    )

    assert {name: (c.total, c.idle, c.quota, c.used) for name, c in found.cards.items()} == {
        "A": (8000, 5000, 12000, 3000),
        "B": (8000, 6000, 0, 0),
        "C": (0, 0, 1000, 0),
    }


LISTS = st.sampled_from(["A", "B", "C", "A|B", "B|C", "A|B|C"])


@given(
    quota=st.fixed_dictionaries({card: st.integers(0, 6) for card in "ABC"}),
    held=st.fixed_dictionaries({card: st.integers(0, 4) for card in "ABC"}),
    reserved=st.lists(st.tuples(LISTS, st.integers(1, 4)), max_size=4),
    card=st.sampled_from("ABC"),
)
def test_a_job_within_headroom_is_admitted_and_one_beyond_it_is_not(
    quota: dict[str, int], held: dict[str, int], reserved: list[tuple[str, int]], card: str
) -> None:
    world = [
        *(card_node(f"{name}1", name) for name in "ABC"),
        team(quota=quota),
        group("g", q="team", phase="Running"),
        *(member(f"p{name}", "g", name, on=f"{name}1", count=count) for name, count in held.items() if count),
        *(asking(f"r{number}", {names: amount}) for number, (names, amount) in enumerate(reserved)),
    ]
    headroom = usage(*world).queues["team"].cards[card].headroom // 1000

    for amount, phase in ((headroom, "Inqueue"), (headroom + 1, "Pending")):
        if amount:
            probe = asking("probe", {card: amount}, phase="Pending", least={GPU: amount})
            found = result(*world, probe, config=CARDS, cycles=1)
            assert found["podGroups"]["default/probe"]["phase"] == phase, (headroom, amount)
