"""The cards of Node objects, added up, and names that were meant for them."""

from __future__ import annotations

import pytest

from tests.plugins.capacity_card.nodes import GPU, MIG, MPS, card_node
from tests.simulation.clusters import Manifest, node
from volsched.model import api
from volsched.model.cards.inventory import CardInventory, card_inventory_of

A = "NVIDIA-A100-SXM4-80GB"


def stock(*manifests: Manifest) -> CardInventory:
    nodes = [api.decode_object(raw) for raw in manifests]
    return card_inventory_of([found for found in nodes if isinstance(found, api.Node)])


def test_cards_of_all_nodes_are_added_up_by_name() -> None:
    found = stock(
        card_node("b", A),
        card_node("a", A, {GPU: 7, f"{MIG}1g.10gb": 7}),
        card_node("m", "T4", {MPS: 64}, memory="15360", replicas="8"),
        node("plain"),
    )

    assert list(found.nodes) == ["a", "b", "m"]
    assert found.totals == {A: 15_000, f"{A}/mig-1g.10gb-mixed": 7000, "T4/mps-15g*1/8": 64_000}
    assert found.resources == {A: GPU, f"{A}/mig-1g.10gb-mixed": f"{MIG}1g.10gb", "T4/mps-15g*1/8": MPS}
    assert found.warnings == ()


def test_incomplete_labels_and_cards_of_two_resources_are_warnings_of_their_node() -> None:
    found = stock(
        card_node("n2", "T4", memory=""),
        card_node("n1", A),
        card_node("n3", A, {"nvidia.com/odd": 8}),
    )

    assert [name for name, _ in found.warnings] == ["n2", "n3"]
    assert f"needs {GPU}.memory" in found.warnings[0][1]
    assert f"offers {A} as nvidia.com/odd, and other nodes as {GPU}" in found.warnings[1][1]
    assert found.resources == {A: GPU}


def test_a_quantity_that_is_none_is_left_out() -> None:
    assert stock(card_node("a", A, {GPU: "many"})).totals == {}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NVIDIA-A100", (A, f"{A}/mig-1g.10gb-mixed")),
        ("a100 80gb", (A, f"{A}/mig-1g.10gb-mixed")),
        (f"{A}/mig-1g.10gb", (f"{A}/mig-1g.10gb-mixed",)),
        (f"{MIG}1g.10gb", (f"{A}/mig-1g.10gb-mixed",)),
        (GPU, (A, "NVIDIA-H100")),
        ("NVIDIA-H10O", ("NVIDIA-H100",)),
        ("Ascend-910B", ()),
        ("", ()),
    ],
)
def test_people_write_names_that_labels_do_not_have(name: str, meant: tuple[str, ...]) -> None:
    found = stock(card_node("a", A), card_node("h", "NVIDIA-H100"), card_node("m", A, {f"{MIG}1g.10gb": 7}))

    assert found.meant_by(name) == meant


def test_a_few_names_at_most_are_offered() -> None:
    found = stock(*(card_node(f"n{number}", f"NVIDIA-A100-{number}") for number in range(9)))

    assert found.meant_by("A100") == ("NVIDIA-A100-0", "NVIDIA-A100-1", "NVIDIA-A100-2")
