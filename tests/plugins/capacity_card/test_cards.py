"""Discovery: from labels and allocatable amounts to cards by name, whatever the labels say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.model.cards.names import resource_by_name
from volsched.model.cards.node_cards import CardOffer, cards_of, gigabytes

A100 = {"p": "NVIDIA-A100", "c": "8", "m": "81920"}
GPU = "nvidia.com/gpu"
SHARING = "nvidia.com/gpu.sharing-strategy"


def nvidia(p: str | None = None, c: str | None = None, m: str | None = None, r: str | None = None) -> dict[str, str]:
    named = {"product": p, "count": c, "memory": m, "replicas": r}
    return {f"nvidia.com/gpu.{key}": value for key, value in named.items() if value is not None}


def labelled(key: str, product: str, count: str = "8", memory: str = "65536") -> dict[str, str]:
    return {f"{key}.product": product, f"{key}.count": count, f"{key}.memory": memory}


def found(labels: dict[str, str], **amounts: Any) -> dict[str, int]:
    """Whole cards by name."""
    return {card.name: card.amount // 1000 for card in _cards(labels, amounts)}


def _cards(labels: dict[str, str], amounts: dict[str, Any]) -> tuple[CardOffer, ...]:
    return cards_of(labels, {name: amount * 1000 for name, amount in amounts.items()}).cards


@pytest.mark.parametrize(
    ("labels", "amounts", "expected"),
    [
        pytest.param(nvidia(**A100, r="8"), {"nvidia.com/gpu.shared": 64}, {"NVIDIA-A100/mps-80g*1/8": 64}, id="mps"),
        pytest.param(nvidia(**A100), {GPU: 8}, {"NVIDIA-A100": 8}, id="whole"),
        pytest.param(nvidia("Tesla-V100", "2", "32768"), {GPU: 2}, {"Tesla-V100": 2}, id="another product"),
        pytest.param(
            nvidia("Tesla-A100", "2", "40960"),
            {"nvidia.com/mig-1g.10gb": 4, "nvidia.com/mig-2g.20gb": 2},
            {"Tesla-A100/mig-1g.10gb-mixed": 4, "Tesla-A100/mig-2g.20gb-mixed": 2},
            id="mig",
        ),
        pytest.param(nvidia("Tesla-V100", "2", "a"), {GPU: 2}, {"Tesla-V100": 2}, id="memory is no number"),
        pytest.param(nvidia("Tesla-V100", "many", "32768"), {GPU: 2}, {"Tesla-V100": 2}, id="count is no number"),
        pytest.param(labelled("nvidia-invalid.com/gpu", "Tesla-V100"), {GPU: 2}, {}, id="another prefix"),
        pytest.param(
            labelled("huawei.com/ascend-910", "Ascend-910B"), {"huawei.com/ascend-910": 8}, {}, id="hyphen in the type"
        ),
        pytest.param(
            labelled("huawei.com/ascend", "Ascend-910B"),
            {"huawei.com/ascend-910": 8},
            {"Ascend-910B": 8},
            id="a resource that begins like the type",
        ),
        pytest.param(
            labelled("huawei.com/npu", "Ascend-910B"),
            {"huawei.com/Ascend910": 8},
            {"Ascend-910B": 8},
            id="any of the vendor",
        ),
        pytest.param(nvidia(**A100), {GPU: 8, "nvidia.com/hostdev": 4}, {"NVIDIA-A100": 8}, id="several of the vendor"),
        pytest.param(nvidia(**A100), {"nvidia.community/gpu": 8}, {}, id="the prefix ends at the slash"),
        pytest.param({}, {"nvidia.com/gpu.shared": 8, "nvidia.com/mig-1g.5gb": 7}, {}, id="shares of no product"),
        pytest.param(nvidia(p="NVIDIA-A100", c="8"), {GPU: 8}, {}, id="no memory"),
        pytest.param(nvidia(p="NVIDIA-A100", m="81920"), {GPU: 8}, {}, id="no count"),
        pytest.param(nvidia(p="NVIDIA-A100", c="", m="81920"), {GPU: 8}, {}, id="empty count"),
        pytest.param(nvidia(p="", c="8", m="81920"), {GPU: 8}, {}, id="empty product"),
        pytest.param(nvidia(**A100), {GPU: 0}, {}, id="none is healthy"),
        pytest.param(nvidia(**A100), {"nvidia.com/gpu.shared": 8}, {}, id="mps without replicas"),
        pytest.param(nvidia(**A100, r="0"), {"nvidia.com/gpu.shared": 8}, {}, id="mps with 0 replicas"),
        pytest.param(
            nvidia(**A100, r="two"), {"nvidia.com/gpu.shared": 8, GPU: 4}, {"NVIDIA-A100": 4}, id="bad replicas"
        ),
        pytest.param(
            nvidia("X", "8", "none", "2"), {"nvidia.com/gpu.shared": 8, GPU: 4}, {"X": 4}, id="mps without memory"
        ),
        pytest.param(nvidia(**A100), {"nvidia.com/mig-": 8}, {}, id="mig without a profile"),
        pytest.param(
            {**nvidia("Quadro-P2000", "1", "5120", "4"), SHARING: "time-slicing"},
            {GPU: 0, "nvidia.com/gpu.shared": 4},
            {"Quadro-P2000/time-slicing*1/4": 4},
            id="time slices that were renamed",
        ),
        pytest.param(
            {**nvidia("Quadro-P2000", "1", "5120", "4"), SHARING: "mps"},
            {"nvidia.com/gpu.shared": 4},
            {"Quadro-P2000/mps-5g*1/4": 4},
            id="mps says that it is",
        ),
        pytest.param(
            {**nvidia("Quadro-P2000", "1", "5120", "4"), SHARING: "none"},
            {"nvidia.com/gpu.shared": 4},
            {},
            id="shared in a way that labels deny",
        ),
        pytest.param(
            {**nvidia("Quadro-P2000", "1", "none", "4"), SHARING: "time-slicing"},
            {"nvidia.com/gpu.shared": 4},
            {"Quadro-P2000/time-slicing*1/4": 4},
            id="slices of time have no memory of their own",
        ),
        pytest.param(
            nvidia("NVIDIA-H200", "8", "143771"),
            {GPU: 7, "nvidia.com/mig-3g.71gb": 1, "nvidia.com/mig-1g.18gb": 3},
            {"NVIDIA-H200": 7, "NVIDIA-H200/mig-3g.71gb-mixed": 1, "NVIDIA-H200/mig-1g.18gb-mixed": 3},
            id="seven whole and one cut up",
        ),
        pytest.param(
            nvidia("NVIDIA-H800", "8", "81559", "2"),
            {GPU: 4, "nvidia.com/gpu.shared": 4, "nvidia.com/mig-1g.10gb": 7},
            {"NVIDIA-H800": 4, "NVIDIA-H800/mps-80g*1/2": 4, "NVIDIA-H800/mig-1g.10gb-mixed": 7},
            id="whole, mps and mig",
        ),
        pytest.param(
            {**labelled("nvidia.com/mig-1g.5gb", "slice", "7", "5120"), **nvidia(**A100)},
            {GPU: 8},
            {"NVIDIA-A100": 8},
            id="labels of slices name no product",
        ),
        pytest.param(
            {**labelled("amd.com/gpu", "MI300"), **nvidia(**A100)},
            {GPU: 8, "amd.com/gpu": 4},
            {"MI300": 4},
            id="two products",
        ),
        pytest.param(labelled("nvidia.com/gpu\n", "X"), {GPU: 8}, {}, id="a newline is part of no type"),
        pytest.param(labelled("nvidia.com/gpü", "X"), {GPU: 8}, {}, id="types are ASCII"),
    ],
)
def test_cards_of_a_node(labels: dict[str, str], amounts: dict[str, int], expected: dict[str, int]) -> None:
    assert found(labels, **amounts) == expected


@pytest.mark.parametrize(
    ("megabytes", "expected"),
    [
        (81920, 80),
        (97871, 96),
        (81559, 80),
        (46068, 45),
        (32768, 32),
        (24564, 24),
        (22882, 22),
        (11441, 11),
        (2560, 3),
        (512, 1),
        (511, 0),
    ],
)
def test_gigabytes_round_half_up(megabytes: int, expected: int) -> None:
    assert gigabytes(megabytes) == expected


def test_a_part_of_a_card_counts_as_a_card() -> None:
    assert cards_of(nvidia(**A100), {GPU: 7500}).cards == (CardOffer("NVIDIA-A100", GPU, 8000),)


@pytest.mark.parametrize(
    ("labels", "amounts", "words"),
    [
        (
            nvidia(p="NVIDIA-A100", c="8"),
            {GPU: 8},
            "label nvidia.com/gpu.product needs nvidia.com/gpu.memory beside it",
        ),
        (nvidia(p="NVIDIA-A100"), {}, "needs nvidia.com/gpu.count and nvidia.com/gpu.memory"),
        (nvidia("V100", "2", "a"), {GPU: 2}, 'label nvidia.com/gpu.memory is "a", which is no whole number'),
        (nvidia(**A100), {"nvidia.com/gpu.shared": 8}, "label nvidia.com/gpu.replicas is not a whole number above 0"),
        (nvidia("X", "1", "0", "2"), {"nvidia.com/gpu.shared": 8}, "label nvidia.com/gpu.memory is not above 0"),
        ({}, {"nvidia.com/mig-1g.5gb": 7}, "offers nvidia.com/mig-1g.5gb and has no label"),
        (
            {**labelled("amd.com/gpu", "MI300"), **nvidia(**A100)},
            {},
            "amd.com/gpu.product counts, nvidia.com/gpu.product",
        ),
        (
            {**nvidia(**A100, r="4"), SHARING: "time-slicing"},
            {"nvidia.com/gpu.shared": 4},
            'label nvidia.com/gpu.sharing-strategy says: the card is "NVIDIA-A100/time-slicing*1/4", not MPS',
        ),
        ({**nvidia(**A100, r="4"), SHARING: "odd"}, {"nvidia.com/gpu.shared": 4}, 'is "odd", neither mps nor time-sl'),
        (labelled("huawei.com/npu", "N"), {"huawei.com/b": 1, "huawei.com/a": 1}, "huawei.com/a counts as the card"),
    ],
)
def test_what_labels_lack_is_said(labels: dict[str, str], amounts: dict[str, int], words: str) -> None:
    (warning,) = cards_of(labels, {name: amount * 1000 for name, amount in amounts.items()}).warnings

    assert words in warning


def test_complete_labels_are_no_reason_to_warn() -> None:
    assert cards_of(nvidia(**A100), {GPU: 8000, "cpu": 64000}).warnings == ()
    assert cards_of({}, {"cpu": 64000, "rdma/hca": 8000, "example.com/input": 1000}).warnings == ()


@pytest.mark.parametrize(
    ("card", "resource"),
    [
        ("NVIDIA-A100/mps-80g*1/8", "nvidia.com/gpu.shared"),
        ("NVIDIA-A100/mig-1g.5gb-mixed", "nvidia.com/mig-1g.5gb"),
        ("NVIDIA-A100", None),
        ("NVIDIA-H800/mps-80*1/2", None),
        ("Quadro-P2000/time-slicing*1/4", "nvidia.com/gpu.shared"),
    ],
)
def test_names_of_shared_cards_tell_their_resource(card: str, resource: str | None) -> None:
    assert resource_by_name(card) == resource


KEYS = st.sampled_from(
    [*nvidia("", "", "", ""), "nvidia.com/mig-1g.5gb.product", "a/b.product", "a/b.count", "a/b.memory", SHARING]
)
RESOURCES = st.sampled_from(
    [GPU, "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-", "a/b", "a/c", "cpu"]
)


@given(
    st.dictionaries(KEYS | st.text(), st.sampled_from(["", "8", "-1", "x", "81920"]) | st.text()),
    st.dictionaries(RESOURCES | st.text(), st.integers(-5000, 10_000)),
)
def test_any_labels_give_cards_that_the_node_has(labels: dict[str, str], amounts: dict[str, int]) -> None:
    node = cards_of(labels, amounts)

    assert len({card.name for card in node.cards}) == len(node.cards)
    assert len({card.resource for card in node.cards}) == len(node.cards)
    for card in node.cards:
        assert card.amount >= amounts[card.resource] > card.amount - 1000
        assert card.name.split("/mi")[0].split("/mps")[0].split("/time")[0]
        assert resource_by_name(card.name) in (None, card.resource) or "/" in card.name.split("/m")[0]
    assert cards_of(dict(reversed(labels.items())), dict(reversed(amounts.items()))) == node
