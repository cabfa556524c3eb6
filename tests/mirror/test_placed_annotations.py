"""What a pod was placed as goes on counting, whatever is written into its annotations later."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.plugins.capacity_card.clusters import A, T, cards, refusal, rig
from volsched.model.changes import Put
from volsched.testing.builders import Rig, put


def a_rig_with(pod: dict[str, Any] | None = None) -> tuple[Rig, dict[str, Any]]:
    """A queue with two cards of each of two models, both A100 in use by one pod."""
    cluster = cards().cards("a1", A, 8).cards("t1", T, 8).quota("q", {A: 2, T: 2})
    cluster.gang("runs", 1, card=A, each=2, on="a1")
    [manifest] = [found for found in cluster.objects if found["metadata"]["name"] == "runs-0"]
    return rig(cluster), copy.deepcopy(manifest)


def changed(manifest: dict[str, Any], **how: Any) -> Put:
    found = copy.deepcopy(manifest)
    found["metadata"]["annotations"]["volcano.sh/card.name"] = T
    found["metadata"]["resourceVersion"] = "99"
    found["metadata"]["labels"] = how.get("labels", {})
    found["spec"] |= how.get("spec", {})
    return put(found)


@pytest.mark.parametrize(
    "how",
    [{}, {"labels": {"team": "b"}}, {"spec": {"tolerations": [{"key": "x"}]}}],
    ids=["alone", "label", "toleration"],
)
def test_a_running_pod_that_names_another_card_goes_on_counting_as_the_one_that_it_has(how: dict[str, Any]) -> None:
    """Its quota would be free again, and the next pod would get cards above it."""
    on, manifest = a_rig_with()
    on.cycle()
    on.cycle(changed(manifest, **how))

    waits = cards().gang("more", 1, card=A, each=2)
    decision = on.cycle(*waits.changes()[-2:])

    assert decision.bindings == {}
    assert "insufficient <NVIDIA-A100> quota" in refusal(decision, "more-0")[1]


def test_a_pod_that_waits_counts_as_what_it_says_now() -> None:
    cluster = cards().cards("a1", A, 1).cards("t1", T, 8).quota("q", {A: 8, T: 2})
    cluster.gang("waits", 1, card=A, each=2)
    [manifest] = [found for found in cluster.objects if found["metadata"]["name"] == "waits-0"]
    on = rig(cluster)
    assert on.cycle().bindings == {}

    assert on.cycle(changed(manifest)).bindings == {"waits-0": "t1"}
