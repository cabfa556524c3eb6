"""What a pod accepts by its list of cards, as capacity-card reads it, counts as what it selects by labels."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.fragmentation.worlds import GPU, MIG, MPS, a_plain_rig, demand_of
from volsched.framework.engine.fast import FastEngine
from volsched.testing.builders import ClusterBuilder, a_cluster
from volsched.testing.contract import MakeEngine, engine_contract

QUOTAS = {"volcano.sh/card.quota": '{"A100": 9, "H100": 9, "A100/mps-80g*1/4": 9, "A100/mig-3g.20gb-mixed": 9}'}
CARDS_ALONE = "{name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}}"
PLUGINS = f"[{CARDS_ALONE}, {{name: predicates}}, {{name: fragmentation}}]"
CONFIGURATION = f'actions: "allocate"\ntiers:\n- plugins: {PLUGINS}\n'


def two_models(**offered: Any) -> ClusterBuilder:
    """A node of each of two models, and a queue that may hold them."""
    world = a_cluster().queue("default", cpu=1_000, memory="1000Gi", annotations=QUOTAS)
    for name, model in (("a", "A100"), ("h", "H100")):
        labels = {f"{GPU}.product": model, f"{GPU}.count": "4", f"{GPU}.memory": "81920", f"{GPU}.replicas": "4"}
        world.node(name, cpu=64, memory="256Gi", labels=labels, **(offered or {GPU: 4}))
    return world


def naming(cards: str) -> dict[str, Any]:
    """The keywords of a pod that names cards."""
    return {"annotations": {"volcano.sh/card.name": cards}, "cpu": 1, "memory": "1Gi"}


@pytest.mark.parametrize(("cards", "scarce"), [("A100", [True, False]), ("A100|H100", [False, False])])
def test_cards_that_some_insist_on_by_their_list_are_scarce(cards: str, scarce: list[bool]) -> None:
    rig = a_plain_rig(two_models().pod("insists", **naming(cards), **{GPU: 4}), CONFIGURATION)
    rig.cycle()

    assert [bool(found) for found in demand_of(rig).scarce] == scarce


@pytest.mark.parametrize(("resource", "cards"), [(MPS, "A100/mps-80g*1/4"), (MIG, "A100/mig-3g.20gb-mixed")])
def test_lists_of_shares_and_slices_count(resource: str, cards: str) -> None:
    rig = a_plain_rig(two_models(**{resource: 8}).pod("insists", **naming(cards), **{resource: 4}), CONFIGURATION)
    rig.cycle()

    assert demand_of(rig).scarce[0] > 0
    assert demand_of(rig).scarce[1] == 0


def test_without_capacity_card_a_list_binds_nobody() -> None:
    world = two_models().pod("insists", **naming("A100"), **{GPU: 4})
    rig = a_plain_rig(world, CONFIGURATION.replace("{name: capacity-card", "{name: gang}, {name: binpack").replace(
        "cardUnlimitedCpuMemory: true", "binpack.weight: 1"))  # fmt: skip
    rig.cycle()

    assert not demand_of(rig).scarce.any()


def test_who_takes_any_card_leaves_those_that_others_insist_on() -> None:
    def lived(engine: MakeEngine) -> dict[str, str]:
        world = two_models().pod("any", **naming("A100|H100"), **{GPU: 2})
        for number in range(3):
            world.pod(f"insists-{number}", **naming("A100"), **{GPU: 1})
        return a_plain_rig(world, CONFIGURATION, engine).cycle().bindings

    found = engine_contract(lived)

    assert found["any"] == "h"
    assert [found[f"insists-{number}"] for number in range(3)] == ["a"] * 3
    assert found == lived(FastEngine)


MAPPED = """
actions: "allocate"
tiers:
- plugins:
  - {name: predicates}
  - {name: fragmentation}
  - {name: capacity-card, arguments: {cards: [{resource: huawei.com/Ascend910, name: Ascend910}]}}
"""


@pytest.mark.parametrize(("configuration", "model"), [(MAPPED, "Ascend910"), (MAPPED.replace("huawei", "other"), None)])
def test_cards_that_capacity_card_names_are_cards(configuration: str, model: str | None) -> None:
    """Whole ones, by that name, although no label says so; whichever plugin stands first."""
    world = a_cluster().node("n", cpu=64, memory="256Gi", **{"huawei.com/Ascend910": 8})

    report = a_plain_rig(world, configuration).cycle().report

    shown = {series.name: dict(found) for series, found in report.series}
    assert shown["volsched_cards"] == ({(model,): 8.0} if model else {})
