"""Online and offline work: the kinds of owners that seed 001 names, and the label that says otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.model.pods.workload import LABEL, OFFLINE, ONLINE, WORKLOADS, workload_of


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        ("Deployment", ONLINE),
        ("ReplicaSet", ONLINE),
        ("StatefulSet", ONLINE),
        ("DaemonSet", ONLINE),
        ("Job", OFFLINE),  # of batch/v1, also one that a CronJob made, and of Volcano
        ("CronJob", OFFLINE),
        ("", OFFLINE),
        ("PyTorchJob", OFFLINE),
        ("Whatever", OFFLINE),
    ],
)
def test_the_kind_of_the_owner_tells_unless_the_label_does(owner: str, expected: str) -> None:
    assert workload_of({}, owner) == expected
    for said in WORKLOADS:
        assert workload_of({LABEL: said}, owner) == said
    assert workload_of({LABEL: "Online"}, owner) == expected


@given(label=st.text(), owner=st.text())
def test_whatever_is_written_it_is_one_of_the_two(label: str, owner: str) -> None:
    assert workload_of({LABEL: label}, owner) in WORKLOADS
