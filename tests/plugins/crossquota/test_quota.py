"""The quota of a node: which of the five places counts, exact parts, and what is said of annotations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.crossquota.quota import NodeQuota, NodeQuotas, part_of, quota_of
from volsched.model.nodes.columns import ResourceColumns
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.values.quantity import amount_of

GI = 1 << 30
ANN, PART = "volcano.sh/crossquota-", "volcano.sh/crossquota-percentage-"


def node(annotations: dict[str, str] | None = None, **allocatable: Any) -> NodeInfo:
    columns = ResourceColumns()
    amounts = {columns.column(name.replace("_", "-")): amount_of(name.replace("_", "-"), text)
               for name, text in allocatable.items()}  # fmt: skip
    found = NodeInfo(NodeProperties("n1", annotations=annotations or {}), columns)
    for column, amount in amounts.items():
        found.allocatable[column] = amount
    return found


def limits(*resources: str, amounts: dict[str, Any] | None = None, **parts: Any) -> NodeQuotas:
    read = {name: amount_of(name, text) for name, text in (amounts or {}).items()}
    return NodeQuotas(resources, read, {name.replace("_", "-"): Fraction(str(text)) for name, text in parts.items()})


# --- the table ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "limit", "allocatable", "expected"),
    [
        ({f"{ANN}cpu": "6"}, limits("cpu"), {"cpu": 8}, (6000,)),  # Q01
        ({f"{PART}memory": "75"}, limits("memory"), {"memory": "16Gi"}, (12884901888,)),  # Q02
        ({f"{ANN}ephemeral-storage": "10Gi"}, limits("ephemeral-storage"), {"ephemeral_storage": "20Gi"}, (10 * GI,)),
        (
            {},
            limits(
                "cpu",
                "memory",
                "ephemeral-storage",
                amounts={"cpu": 4, "memory": "8Gi", "ephemeral-storage": "10Gi"},
                ephemeral_storage=50,
            ),
            {"cpu": 8, "memory": "16Gi", "ephemeral_storage": "20Gi"},
            (4000, 8 * GI, 10 * GI),
        ),  # Q04
        (
            {f"{ANN}cpu": "6", f"{PART}cpu": "10"},
            limits("cpu", amounts={"cpu": "4"}, cpu=50),
            {"cpu": 8},
            (6000,),
        ),  # Q05
        ({f"{PART}cpu": "10"}, limits("cpu", amounts={"cpu": "4"}, cpu=50), {"cpu": 8}, (800,)),
        ({}, limits("cpu", amounts={"cpu": "4"}, cpu=50), {"cpu": 8}, (4000,)),
        ({}, limits("cpu", cpu=50), {"cpu": 8}, (4000,)),
        ({}, limits("cpu", "memory"), {"cpu": 8, "memory": "16Gi"}, (8000, 16 * GI)),  # Q09
        ({}, limits("cpu", cpu="50.5"), {"cpu": 2}, (1010,)),  # Q17
        ({}, limits("cpu", cpu="32.3"), {"cpu": 8}, (2584,)),  # D8: not 2583
        ({}, limits("pods", amounts={"pods": "100"}), {"pods": 110}, (100,)),  # Q20
        ({}, limits("pods", pods="50"), {"pods": 111}, (55,)),
        ({}, limits("cpu", amounts={"cpu": "32"}), {"cpu": 8}, (32000,)),  # never clamped
        ({f"{ANN}cpu": "0"}, limits("cpu"), {"cpu": 8}, (0,)),  # D11
        ({f"{ANN}cpu": "  ", f"{PART}cpu": ""}, limits("cpu"), {"cpu": 8}, (8000,)),  # blank is not given
        ({f"{ANN}hugepages-2Mi": "8Gi"}, limits("hugepages-2Mi"), {}, (8 * GI,)),
        ({}, limits("example.com/fpga"), {}, (0,)),
        (
            {f"{ANN}example.com/fpga": "1", f"{PART}example.com/fpga": "10"},
            limits("example.com/fpga", amounts={"example.com/fpga": "4"}),
            {},
            (4000,),
        ),  # no API server takes such a key
    ],
)
def test_the_first_of_five_places_counts_for_each_resource_by_itself(
    annotations: dict[str, str], limit: NodeQuotas, allocatable: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert quota_of(node(annotations, **allocatable), limit) == NodeQuota(expected)


@pytest.mark.parametrize(
    ("annotations", "amount", "fault"),
    [
        (
            {f"{ANN}cpu": "invalid"},
            4000,
            "metadata.annotations[volcano.sh/crossquota-cpu]: must be a quantity that is not negative, as 500m, 32 or "
            '64Gi, not the text "invalid"; the quota of cpu is 4 (argument quota.cpu)',
        ),  # Q11
        (
            {f"{ANN}cpu": "-1", f"{PART}cpu": "25"},
            2000,
            "metadata.annotations[volcano.sh/crossquota-cpu]: must be a quantity that is not negative, as 500m, 32 or "
            '64Gi, not the text "-1"; the quota of cpu is 2 '
            "(metadata.annotations[volcano.sh/crossquota-percentage-cpu])",
        ),
        (
            {f"{PART}cpu": "150"},
            4000,
            "metadata.annotations[volcano.sh/crossquota-percentage-cpu]: must be a number above 0 and at most 100, "
            'without %, not the text "150"; the quota of cpu is 4 (argument quota.cpu)',
        ),
    ],
)
def test_an_annotation_that_cannot_be_read_falls_through_and_says_to_what(
    annotations: dict[str, str], amount: int, fault: str
) -> None:
    found = quota_of(node(annotations, cpu=8), limits("cpu", amounts={"cpu": 4}))

    assert found == NodeQuota((amount,), (fault,))


def test_a_quota_that_is_hardly_meant_counts_and_is_told() -> None:
    found = quota_of(node({f"{ANN}memory": "64"}, memory="16Gi"), limits("memory"))

    assert found.amounts == (64,)
    assert found.doubts == (
        "metadata.annotations[volcano.sh/crossquota-memory]: 64 is less than 1Mi; quotas count bytes: write a suffix, "
        "as 64Gi",
    )


# --- any annotation -------------------------------------------------------------------------------------------------


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_annotations_give_a_quota(absolute: str, relative: str) -> None:
    found = quota_of(node({f"{ANN}cpu": absolute, f"{PART}cpu": relative}, cpu=8), limits("cpu", amounts={"cpu": 4}))

    assert found.amounts[0] >= 0
    assert found.faults or found.amounts == (4000,) or absolute.strip() or relative.strip()


@given(st.integers(0, 2**62), st.integers(1, 100_000).map(lambda thousandths: Fraction(thousandths, 1000)))
def test_parts_are_exact_and_rounded_down(whole: int, percentage: Fraction) -> None:
    found = part_of(whole, percentage)

    assert 0 <= found <= whole * percentage / 100 < found + 1
