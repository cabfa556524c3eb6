"""What if: the quotas and nodes that can be changed, and what a change makes of a cluster."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.manifests.rendering import MANIFESTS
from tests.ui.worlds import GPU, group, known_of, made, node, pod, queue, read
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.diff import diff
from volsched.diagnose.records import Figures, QueueState
from volsched.model import api
from volsched.ui.changes import ChangeError, changed, limits_of, models_of

CARDS = "volcano.sh/card.quota"


def rich() -> api.Queue:
    found = made(
        "Queue",
        "rich",
        version="scheduling.volcano.sh/v1beta1",
        annotations={CARDS: '{"A100": 4}'},
        spec={
            "capability": {"cpu": "1500m", "memory": "8Gi"},
            "deserved": {GPU: "2"},
            "dra": {"capability": {"gpu.example.com": {"count": 3}}},
        },
    )
    assert isinstance(found, api.Queue)
    return found


def in_queue(known: ClusterSnapshot, name: str) -> api.Queue:
    return next(each for each in known.objects if isinstance(each, api.Queue) and each.metadata.name == name)


def test_every_sort_of_quota_has_a_slider() -> None:
    used = QueueState("rich", "", "Open", (Figures(GPU, "1", "0"), Figures("H100", "5", "0", "40")), 0, 0)

    limits = limits_of(rich(), used)
    found = {limit.key: (limit.now, limit.unit) for limit in limits}

    assert limits[-1].most == 40
    assert found == {
        "capability:cpu": (2, ""),
        "capability:memory": (8, "GiB"),
        f"deserved:{GPU}": (2, ""),
        "cards:A100": (4, ""),
        "devices:gpu.example.com": (3, ""),
        f"capability:{GPU}": (None, ""),
        "cards:H100": (None, ""),
    }


def test_quotas_of_every_sort_become_others() -> None:
    amounts = {"capability:memory": 9, f"deserved:{GPU}": 1, "cards:A100": 7, "devices:gpu.example.com": 0}

    after = in_queue(changed(known_of([rich()]), "rich", amounts, {}), "rich")

    assert after.spec.capability == {"cpu": "1500m", "memory": "9Gi"}
    assert after.spec.deserved == {GPU: "1"}
    assert json.loads(after.metadata.annotations[CARDS]) == {"A100": 7}
    assert after.spec.dra["capability"] == {"gpu.example.com": {"count": 0}}
    assert in_queue(known_of([rich()]), "rich").spec.dra["capability"] == {"gpu.example.com": {"count": 3}}


@pytest.mark.parametrize(
    ("of", "amounts", "nodes", "said"),
    [
        ("nobody", {"capability:cpu": 1}, {}, "no queue nobody"),
        ("rich", {"devices:none": 1}, {}, "no quota none of devices"),
        ("rich", {"else:cpu": 1}, {}, "no quota cpu of else"),
        ("rich", {"capability:cpu": -1}, {}, "must be from 0"),
        ("rich", {}, {"n1": -3}, "no nodes like n1"),
        ("rich", {}, {"n1": 65}, "no nodes like n1"),
        ("rich", {}, {"absent": 1}, "no nodes like absent"),
    ],
)
def test_what_is_not_there_is_refused(of: str, amounts: dict[str, int], nodes: dict[str, int], said: str) -> None:
    with pytest.raises(ChangeError, match=said):
        changed(known_of([rich(), node("n1"), node("n2")]), of, amounts, nodes)


def test_nodes_of_a_model_are_one_slider() -> None:
    nodes = [node("n2"), node("n1"), node("t1", 4)]

    found = models_of(each for each in nodes if isinstance(each, api.Node))

    names = [(model.name, model.nodes, model.lowest_change) for model in found]
    assert names == [("n1", ("n1", "n2"), -2), ("t1", ("t1",), -1)]
    assert found[0].offers.startswith(f"8 {GPU}")


def test_more_nodes_let_more_pods_start() -> None:
    known = read(MANIFESTS / "examples")

    found = diff(known.stage().run(), changed(known, "", {}, {"a100-1": 2}).stage().run())

    assert found.summary["starts"] >= 3


def test_fewer_nodes_are_drained_the_emptiest_first() -> None:
    jobs = [group("team/a"), pod("team/a", 6, "n1"), group("team/b"), pod("team/b", 1, "n2"), pod("team/c", 1, "n1")]
    known = known_of([node("n1"), node("n2"), queue("default"), *jobs])

    after = changed(known, "", {}, {"n1": -1})

    closed = [each.metadata.name for each in after.objects if isinstance(each, api.Node) and each.spec.unschedulable]
    assert closed == ["n2"]
    assert diff(known.stage().run(), after.stage().run()).summary == {"moves": 1}


def test_annotation_that_cannot_be_read_has_no_sliders() -> None:
    broken = msgspec.structs.replace(
        rich(), metadata=msgspec.structs.replace(rich().metadata, annotations={CARDS: "{"}), spec=api.QueueSpec()
    )

    assert limits_of(broken, None) == ()
