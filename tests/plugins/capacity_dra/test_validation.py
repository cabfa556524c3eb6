"""Quotas of devices are judged before anybody schedules by them."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.capacity_dra.validation import validate
from volsched.framework.validation import Surroundings
from volsched.model import api


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"gpu": {"count": 1}}, None),
        ({"gpu": {"capacity": {"memory": "1Gi"}}}, "spec.dra.capability[gpu].count"),
        ({"gpu": {"count": -1}}, "spec.dra.capability[gpu].count"),
        ({"gpu": {"count": 1, "capacity": {"memory": "much"}}}, "spec.dra.capability[gpu].capacity[memory]"),
        ([], "spec.dra.capability"),
    ],
)
def test_what_a_queue_says_of_devices(block: Any, field: str | None) -> None:
    queue = api.decode_as(api.Queue, {"metadata": {"name": "q"}, "spec": {"dra": {"capability": block}}})

    found = list(validate(queue, Surroundings([queue])))

    assert [fault.field for fault in found] == ([field] if field else [])
    assert all(fault.severity == "error" for fault in found)
