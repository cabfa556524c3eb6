"""How quotas are read: ``spec.dra``, the flat keys, both, and what cannot be read."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.capacity_dra.quota import LAST_APPLIED, amount_of_key, read_quota
from volsched.framework.dra.amounts import Amount
from volsched.framework.dra.charges import named_as
from volsched.mirror.reading import queue_spec
from volsched.model import api
from volsched.model.queues.queue import QueueInfo, QueueProperties

GI = 1 << 30
HAMI = "hami-core-gpu.project-hami.io"


def a_queue(dra: Any = None, **capability: str) -> QueueInfo:
    spec = {"capability": capability, **({"dra": dra} if dra is not None else {})}
    found = api.decode_as(api.Queue, {"metadata": {"name": "q"}, "spec": spec})
    return QueueInfo(queue_spec(found, lambda _path, _message: None))


def flat(limits: Any) -> dict[tuple[str, str], Fraction]:
    return {tuple(key): value for key, value in limits.items()}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {"nvidia-h100": {"count": 8}, HAMI: {"count": 80, "capacity": {"cores": "800", "memory": "80Gi"}}},
            {("nvidia-h100", ""): 8, (HAMI, ""): 80, (HAMI, "cores"): 800, (HAMI, "memory"): 80 * GI},
        ),
        ({"x": {"capacity": {"memory": "8Gi"}}}, {("x", "memory"): 8 * GI}),
        ({"x": {}}, {("x", ""): 0}),
        ({"x": {"count": 0}}, {("x", ""): 0}),
        ({"x": {"count": -3}}, {("x", ""): 0}),
        ({"x": {"count": 2.5}}, {("x", ""): 0}),
        ({"x": {"count": 2.0}}, {("x", ""): 2}),
        ({"x": {"count": 1, "cores": 3}}, {("x", ""): 1}),
        ({"x": {"count": "many"}}, {("x", ""): 0}),
        ({"x": {"count": 1, "capacity": {"memory": "-1Gi"}}}, {("x", ""): 1, ("x", "memory"): 0}),
        ({"x": 7}, {("x", ""): 0}),
        ({"x": None}, {("x", ""): 0}),
        ({"x": {"count": None}}, {("x", ""): 0}),
        ({"x": {"count": None, "capacity": {"memory": None}}}, {("x", ""): 0, ("x", "memory"): 0}),
        ({"x": {"count": 1, "capacity": None}}, {("x", ""): 1}),
        (None, {}),
        ({"a/b": {"count": 1}}, {}),
        ({}, {}),
        ("nonsense", {}),
    ],
)
def test_blocks(block: Any, expected: dict[tuple[str, str], int]) -> None:
    assert flat(read_quota(a_queue({"capability": block})).limits) == expected


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"x": {"count": -3}}, "spec.dra.capability[x].count: -3 is negative; it counts as 0"),
        ({"x": {"count": "many"}}, "spec.dra.capability[x].count: 'many' is not a quantity"),
        ({"x": {}}, "spec.dra.capability[x].count is missing; it counts as 0"),
        ({"x": {"capacity": {"m": "1"}}}, "spec.dra.capability[x].count is missing"),
        ({"a/b": {"count": 1}}, "spec.dra.capability[a/b] is no name of a DeviceClass"),
        ({"x": {"count": 2.5}}, "spec.dra.capability[x].count: 2500m is not a whole number; it counts as 0"),
        ({"x": {"count": 1, "cores": 3}}, "spec.dra.capability[x].cores is not understood; it has no effect"),
        ({"x": None}, "spec.dra.capability[x] must be a mapping with count and capacity; it counts as 0"),
        ({"x": {"count": None}}, "spec.dra.capability[x].count: null is not a quantity; it counts as 0"),
        ({"x": {"count": 1, "capacity": {"m": None}}}, "spec.dra.capability[x].capacity[m]: null is not a quantity"),
    ],
)
def test_what_is_wrong_is_named(block: Any, said: str) -> None:
    [fault] = read_quota(a_queue({"capability": block})).faults

    assert fault.startswith(said)


def test_a_quota_of_zero_is_right() -> None:
    block = {"x": {"count": 0, "capacity": {"m": "0"}}}

    assert read_quota(a_queue({"capability": block})).faults == ()


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("deviceclass/gpu.example.com", Amount("gpu.example.com")),
        ("memory.deviceclass/gpu.example.com", Amount("gpu.example.com", "memory")),
        ("gpu.example.com/memory.deviceclass/gpu", Amount("gpu", "gpu.example.com/memory")),
        ("a.deviceclass/b.deviceclass/c", Amount("b.deviceclass/c", "a")),
        ("deviceclass/", None),
        (".deviceclass/x", None),
        ("memory.deviceclass/", None),
        ("nvidia.com/gpu", None),
        ("cpu", None),
    ],
)
def test_flat_keys(key: str, expected: Amount | None) -> None:
    assert amount_of_key(key) == expected


@pytest.mark.parametrize("key", ["deviceclass/", "memory.deviceclass/", ".deviceclass/", ".deviceclass/x"])
def test_a_flat_key_that_is_none_is_told(key: str) -> None:
    quota = read_quota(a_queue(**{key: "1", "cpu": "4"}))

    assert quota.limits == {}
    assert quota.faults == (f"spec.capability[{key}] names no class, or no dimension of one; it limits nothing",)


@pytest.mark.parametrize(
    ("key", "name"), [("deviceclass/a/b", "a/b"), ("memory.deviceclass/a.deviceclass/b", "a.deviceclass/b")]
)
def test_a_flat_key_of_what_cannot_be_a_class_is_told(key: str, name: str) -> None:
    quota = read_quota(a_queue(**{key: "1"}))

    assert quota.limits == {}
    assert quota.faults == (f"spec.capability[{key}] is of {name}, which is no name of a DeviceClass",)


def test_a_part_of_the_block_that_there_is_not_is_told() -> None:
    assert read_quota(a_queue({"capabilty": {}})).faults == ("spec.dra.capabilty is not understood; it has no effect",)


@pytest.mark.parametrize(
    ("dimension", "listed", "named"),
    [
        ("x/memory", ["x/memory", "memory"], "x/memory"),
        ("x/memory", ["memory"], "memory"),
        ("memory", ["x/memory"], "x/memory"),  # a claim that leaves the domain out does not go round the limit
        ("memory", ["x/memory", "y/memory"], "memory"),
        ("memory", ["x/other-memory"], "memory"),
        ("", ["x/"], ""),
    ],
)
def test_which_limit_a_dimension_is_held_to(dimension: str, listed: list[str], named: str) -> None:
    limits = {Amount("gpu", name): Fraction(1) for name in listed} | {Amount("nic", "x/memory"): Fraction(1)}

    assert named_as(Amount("gpu", dimension), limits) == Amount("gpu", named)


def test_counts_are_rounded_up() -> None:
    assert flat(read_quota(a_queue(**{"deviceclass/gpu": "1500m"})).limits) == {("gpu", ""): 2}


def test_of_two_spellings_the_smaller_counts() -> None:
    block = {"capability": {"gpu": {"count": 4, "capacity": {"memory": "8Gi"}}}}
    quota = read_quota(a_queue(block, **{"deviceclass/gpu": "2", "memory.deviceclass/gpu": "16Gi", "cpu": "4"}))

    assert flat(quota.limits) == {("gpu", ""): 2, ("gpu", "memory"): 8 * GI}
    assert [fault.endswith("the smaller counts") for fault in quota.faults] == [True, True]


def test_a_block_that_the_cluster_drops_is_noticed() -> None:
    written = json.dumps({"spec": {"dra": {"capability": {"gpu": {"count": 1}}}}})
    queue = QueueInfo(QueueProperties("q", annotations={LAST_APPLIED: written}))

    [fault] = read_quota(queue).faults
    assert fault.startswith("spec.dra was written and is not there")
    assert read_quota(queue, is_kept=True).faults == (), "somebody has taken it out"


def test_an_annotation_that_is_nested_too_deep_stops_nobody() -> None:
    written = '{"dra":' + "[" * 5_000 + "]" * 5_000 + "}"
    queue = QueueInfo(QueueProperties("q", annotations={LAST_APPLIED: written}))

    assert read_quota(queue).faults == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@given(JSON, st.dictionaries(st.sampled_from(["capability", "deserved", "guarantee"]), JSON))
def test_nothing_that_users_write_breaks_the_scheduler(whole: Any, blocks: Any) -> None:
    for written in (whole, blocks):
        queue = QueueInfo(QueueProperties("q", dra=written))
        assert all(value >= 0 for value in read_quota(queue).limits.values())
