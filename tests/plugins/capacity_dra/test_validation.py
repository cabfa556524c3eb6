"""Quotas of devices are judged before anybody schedules by them."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.capacity_dra.validation import validate
from volsched.framework.validation import Surroundings
from volsched.model import api
from volsched.validation.objects import faults_of


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


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"capability": {"deviceclass/gpu": 2, "memory.deviceclass/gpu": "1Gi"}}, []),
        ({"capability": {"deviceclass/gpu": -1}}, [("error", "spec.capability[deviceclass/gpu]")]),
        ({"deserved": {"deviceclass/gpu": "-1"}}, [("error", "spec.deserved[deviceclass/gpu]")]),
        ({"guarantee": {"resource": {"deviceclass/g": -1}}}, [("error", "spec.guarantee.resource[deviceclass/g]")]),
        ({"capability": {"memory.deviceclass/gpu": "-1Gi"}}, [("error", "spec.capability[memory.deviceclass/gpu]")]),
        ({"capability": {"deviceclass/gpu": "lots"}}, [("error", "spec.capability[deviceclass/gpu]")]),
        ({"capability": {"deviceclass/": 1}}, [("error", "spec.capability[deviceclass/]")]),
        ({"capability": {"deviceclass/a/b": 1}}, [("error", "spec.capability[deviceclass/a/b]")]),
        ({"dra": {"capabilities": {}}}, [("warning", "spec.dra.capabilities")]),
        (
            {"capability": {"deviceclass/gpu": 1}, "dra": {"capability": {"gpu": {"count": 2}}}},
            [("warning", "spec.capability[deviceclass/gpu]")],
        ),
    ],
)
def test_what_a_queue_says_of_devices_by_flat_keys_is_told_once(spec: Any, said: list[tuple[str, str]]) -> None:
    """By whatever is asked of a Queue: `volsched validate` and admission ask the same."""
    queue = api.decode_as(api.Queue, {"metadata": {"name": "q"}, "spec": spec})

    faults = faults_of(queue, Surroundings([queue]))

    assert [(fault.severity, fault.field) for fault in faults] == said
