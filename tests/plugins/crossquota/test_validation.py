"""What `volsched validate` says of the annotations of crossquota."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.crossquota.validation import validate
from tests.plugins.crossquota.worlds import ANN, PART, STRATEGY, gpu_node
from tests.simulation.clusters import pod
from volsched.framework.validation import Surroundings
from volsched.simulation.manifests import completed, decode, subject_of
from volsched.validation.objects import problems_of


def said(manifest: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = completed(decode(manifest))
    return [(problem.field, problem.message, problem.severity) for problem in problems_of([found], subject_of)]


@pytest.mark.parametrize(
    ("annotations", "field", "message"),
    [
        ({f"{ANN}cpu": "six"}, f"{ANN}cpu", 'not the text "six"; it is passed over'),
        ({f"{ANN}cpu": "-1"}, f"{ANN}cpu", 'not the text "-1"; it is passed over'),
        ({f"{PART}memory": "150"}, f"{PART}memory", 'not the text "150"; it is passed over'),
        (
            {f"{ANN}example.com/fpga": "2"},
            f"{ANN}example.com/fpga",
            "arguments only (quota.example.com/fpga); it is passed over",
        ),
        ({f"{PART}example.com/fpga": "2"}, f"{PART}example.com/fpga", "(quota.example.com/fpga); it is passed over"),
        ({f"{ANN}memory": "64"}, f"{ANN}memory", "64 is less than 1Mi; quotas count bytes: write a suffix, as 64Gi"),
    ],
)
def test_annotations_of_a_node_are_warned_of(annotations: dict[str, str], field: str, message: str) -> None:
    ((path, words, severity),) = said(gpu_node("g1", annotations))

    assert (path, severity) == (f"metadata.annotations[{field}]", "warning")
    assert words.endswith(message)


def test_annotations_that_hold_are_not() -> None:
    right = {f"{ANN}cpu": "6", f"{PART}memory": " 12.5 ", f"{ANN}memory": "", f"{ANN}hugepages-2Mi": "4Mi"}

    assert said(gpu_node("g1", {**right, STRATEGY: "whatever"})) == []


def test_a_strategy_that_is_unknown_is_warned_of_with_the_nearest() -> None:
    wrong = pod("p", annotations={STRATEGY: "Least-Allocated"}, containers=[{"name": "main"}])

    ((path, words, severity),) = said(wrong)

    assert (path, severity) == (f"metadata.annotations[{STRATEGY}]", "warning")
    assert words == (
        'the text "Least-Allocated" is none of most-allocated, least-allocated and counts as most-allocated; '
        "did you mean least-allocated?"
    )


@given(st.dictionaries(st.sampled_from([f"{ANN}cpu", f"{PART}cpu", ANN, PART, STRATEGY]), st.text(max_size=30)))
def test_any_annotations_are_judged(annotations: dict[str, str]) -> None:
    node = completed(decode(gpu_node("g1", annotations)))

    assert all(fault.severity == "warning" and fault.message for fault in validate(node, Surroundings()))
