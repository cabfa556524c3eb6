"""The formula, against a second writing of it in fractions that shares nothing with the first."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from plugins.fragmentation.average_demand import AverageDemand, CardSums, average_demand_of, size_of
from plugins.fragmentation.waste import taken
from tests.plugins.fragmentation.worlds import CONFIGURATION, a_plain_rig, cards, demand_of, shared
from volsched.framework.accounts.card_parts import PartRequest
from volsched.testing.builders import a_cluster

ALONE = 'actions: "allocate"\ntiers:\n- plugins: [{name: predicates}, {name: fragmentation}]\n'
A, B, E, MARGIN = Fraction(3), Fraction(1), Fraction(1), Fraction(8, 10)


def waste(each: list[Fraction], cpu: Fraction, memory: Fraction, average_demand: AverageDemand) -> Fraction:
    """What is wasted on a node, as the page of the plugin has it; cards from 0 to 1, cpu in cores, memory in bytes."""
    free, whole = sum(each), sum(1 for card in each if card == 1)
    per_cpu, per_memory = MARGIN * Fraction(average_demand.cpu) / 1000, MARGIN * Fraction(average_demand.memory)
    balance = max(Fraction(0), free - cpu / per_cpu, free - memory / per_memory)
    block = sum((Fraction(share, 32) * (free - n * (whole // n)) for n, share in average_demand.blocks), Fraction(0))
    parts = sum(
        (
            Fraction(share, 32) * sum((c for c in each if 100 * c < size), Fraction(0))
            for size, share in average_demand.sizes
        ),
        Fraction(0),
    )
    return A * balance + B * block + E * parts


@pytest.mark.parametrize("seed", range(20))
def test_scores_are_those_of_the_formula(seed: int) -> None:
    random, world = Random(seed), a_cluster()  # noqa: S311 - nothing here is secret
    nodes = {f"n{n}": (random.choice((1, 2, 4, 8)), random.randint(8, 96), random.randint(32, 512)) for n in range(6)}
    for name, (count, cpu, memory) in nodes.items():
        world.node(name, cpu=cpu, memory=f"{memory}Gi", **cards(count))
    for number in range(6):
        world.pod(f"w{number}", cpu=random.randint(1, 12), memory="8Gi", **cards(random.choice((1, 2, 8))))
    wanted, cores = 1, 2
    world.pod("asked", cpu=cores, memory="4Gi", **cards(wanted))
    rig = a_plain_rig(world, ALONE.replace('"allocate"', '"enqueue"'))
    rig.cycle()
    task = next(task for task in rig.cluster.tasks.values() if task.name == "asked")
    average_demand = demand_of(rig).average_demand

    scores = rig.scheduler.engine.scores(task)

    assert set(scores) == set(nodes)
    for name, (count, cpu, memory) in nodes.items():
        before = waste([Fraction(1)] * count, Fraction(cpu), Fraction(memory << 30), average_demand)
        left = [Fraction(1)] * (count - wanted) + [Fraction(0)] * wanted
        after = waste(left, Fraction(cpu - cores), Fraction((memory - 4) << 30), average_demand)
        expected = before - after - Fraction(3, 100) * (count - wanted) - Fraction(cpu - cores, 100_000)
        assert scores[name]["fragmentation"] == pytest.approx(float(100 * expected), abs=1e-6)


@pytest.mark.parametrize(
    ("free", "wanted", "after"),
    [
        ((30, 50, 100), PartRequest(1, 40), (10, 30, 100)),
        ((100, 100, 100), PartRequest(2, 100), (0, 0, 100)),
        ((20, 45, 45), PartRequest(2, 25), (20, 20, 20)),
        ((10,), PartRequest(1, 50), (10,)),
    ],
)
def test_a_part_goes_on_the_tightest_card(free: tuple[int, ...], wanted: PartRequest, after: tuple[int, ...]) -> None:
    assert taken(free, (wanted,)) == after


def test_nothing_is_lost_on_a_full_node() -> None:
    average_demand = AverageDemand(8000.0, 2.0**35, ((1, 10), (8, 10)), ((50, 12),))

    assert average_demand.block_losses(8)[0] == 0
    assert average_demand.part_losses()[0] == 0
    assert min(average_demand.block_losses(8)) == min(average_demand.part_losses()) == 0


def test_means_are_rounded_so_that_one_pod_more_seldom_changes_them() -> None:
    many = CardSums(1_000_000, 10_000_000, 40 << 40, {1: 900_000, 8: 100_000}, {})
    more = CardSums(1_000_000, 10_000_000, 40 << 40, {1: 900_000, 8: 100_000}, {})
    more.add(CardSums(1000, 14_000, 1 << 36, {1: 1000}, {}), 1)

    assert average_demand_of(many) == average_demand_of(more)
    assert average_demand_of(many).blocks == ((1, 29), (8, 3))
    assert [size_of(percent) for percent in (1, 5, 46, 100)] == [5, 5, 50, 100]


def test_cards_go_where_cpu_is_left_for_the_others() -> None:
    """Two nodes with two cards: a pod with much CPU goes where there is plenty of it."""
    world = a_cluster().node("a-poor", cpu=20, **cards(2)).node("b-rich", cpu=64, **cards(2))
    world.pod("hungry", cpu=18, memory="1Gi", **cards(1))

    assert a_plain_rig(world, ALONE).cycle().bindings == {"hungry": "b-rich"}


def test_pods_without_cards_leave_cards_their_cpu() -> None:
    world = a_cluster().node("a-cards", cpu=64, **cards(8)).node("b-full", cpu=64, **cards(8))
    world.pod("holds", on="b-full", cpu=8, **cards(8)).pod("plain", cpu=4)

    assert a_plain_rig(world, ALONE).cycle().bindings == {"plain": "b-full"}


def test_who_takes_any_model_leaves_the_one_that_others_insist_on() -> None:
    world = a_cluster().node("a", labels={"model": "T4"}, **cards(2)).node("b", labels={"model": "G2"}, **cards(2))
    world.pod("any", cpu=1, **cards(1)).pod("insists", cpu=1, spec={"nodeSelector": {"model": "T4"}}, **cards(2))

    assert a_plain_rig(world, ALONE).cycle().bindings == {"any": "b", "insists": "a"}


def test_an_empty_node_is_not_broken_while_whole_ones_are_wanted() -> None:
    world = a_cluster().node("a-empty", cpu=96, **cards(8)).node("b-begun", cpu=96, **cards(8))
    world.pod("big", on="b-begun", cpu=8, **cards(4)).pod("small", cpu=8, **cards(1))
    world.pod("whole", cpu=8, **cards(8))

    assert a_plain_rig(world, ALONE).cycle().bindings == {"small": "b-begun", "whole": "a-empty"}


def test_a_pod_that_fits_on_no_node_does_not_move_the_means() -> None:
    world = a_cluster().node("a", cpu=64, **cards(8)).pod("p", cpu=8, memory="8Gi", **cards(1))
    odd = a_cluster().node("a", cpu=64, **cards(8)).pod("p", cpu=8, memory="8Gi", **cards(1))
    odd.pod("odd", cpu=4000, memory="1Gi", **cards(64))
    found = []
    for cluster in (world, odd):
        rig = a_plain_rig(cluster, CONFIGURATION)
        rig.cycle()
        found.append(demand_of(rig).average_demand)

    assert found[0] == found[1]


def test_mgpu_keeps_pods_without_cards_off_nodes_with_free_ones() -> None:
    world = a_cluster().node("a", cpu=64, **shared(800, 80_000)).node("b", cpu=64, **shared(100, 10_000))
    world.pod("plain", cpu=4)
    configuration = CONFIGURATION.replace("  - name: fragmentation\n", "")

    assert a_plain_rig(world, configuration).cycle().bindings == {"plain": "b"}
