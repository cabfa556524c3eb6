"""Which pods to restart so that whole nodes of cards are free."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.calls import call
from tests.diagnose.test_explain import known
from volsched.diagnose.defragment import Move, suggest_moves

CARD = "nvidia.com/gpu"


def node(name: str, cards: int = 8) -> str:
    return f"""
---
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
status: {{allocatable: {{cpu: "64", memory: 512Gi, pods: "110", {CARD}: "{cards}"}}}}"""


def pod(name: str, on: str, cards: int = 1, *, scheduler: str = "volsched", owner: str = "ReplicaSet") -> str:
    return f"""
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: {name[0]}}}
  ownerReferences: [{{apiVersion: apps/v1, kind: {owner}, name: o, uid: o, controller: true}}]
spec:
  schedulerName: {scheduler}
  nodeName: {on}
  containers: [{{name: main, image: i, resources: {{requests: {{{CARD}: "{cards}"}}, limits: {{{CARD}: "{cards}"}}}}}}]
status: {{phase: Running}}"""


def budget(app: str, allowed: int) -> str:
    return f"""
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {app}}}
spec: {{minAvailable: 1, selector: {{matchLabels: {{app: {app}}}}}}}
status: {{disruptionsAllowed: {allowed}}}"""


NODES = node("n1") + node("n2") + node("n3")
SCATTERED = NODES + pod("c-1", "n1") + pod("b-1", "n2") + pod("b-2", "n2") + pod("a-1", "n3", 4)


def test_the_node_with_the_fewest_pods_is_opened() -> None:
    moves = suggest_moves(known(SCATTERED), 1)

    assert moves.nodes == ("n1",)
    assert [move.pod for move in moves.moves] == ["default/c-1"]
    assert moves.moves[0].to in ("n2", "n3")
    assert (moves.tried, moves.passed_over) == (1, ())


def test_cards_of_every_vendor_are_opened() -> None:
    moves = suggest_moves(known(SCATTERED.replace(CARD, "huawei.com/Ascend910")), 1)

    assert (moves.nodes, [move.pod for move in moves.moves]) == (("n1",), ["default/c-1"])


def test_of_several_nodes_no_pod_goes_to_one_that_is_to_be_free() -> None:
    moves = suggest_moves(known(SCATTERED), 2)

    assert moves.nodes == ("n1", "n3")
    assert moves.moves == (
        Move("default/a-1", "n3", "n2", "ReplicaSet/o"),
        Move("default/c-1", "n1", "n2", "ReplicaSet/o"),
    )


def test_a_node_whose_pods_fit_nowhere_else_stays_and_it_is_said_why() -> None:
    moves = suggest_moves(known(node("n1") + node("n2", 4) + pod("a-1", "n1", 6) + pod("b-1", "n2", 4)), 2)

    assert moves.nodes == ()
    assert {each.node: each.why for each in moves.passed_over} == dict.fromkeys(
        ("n1", "n2"), "its pods find no other place"
    )


def test_pods_that_would_come_back_or_are_not_ours_or_protected_are_left_alone() -> None:
    world = NODES + pod("a-1", "n1", owner="DaemonSet") + pod("b-1", "n2", scheduler="other") + pod("c-1", "n3")

    moves = suggest_moves(known(world + budget("c", 0)), 1)

    assert (moves.nodes, moves.tried) == ((), 0)
    assert [each.why for each in moves.passed_over] == [
        "pod default/a-1 of a DaemonSet would come back to it",
        "pod default/b-1 is another scheduler's (other)",
        "PodDisruptionBudget default/c lets only 0 of its pods go now",
    ]


def test_without_time_nothing_is_tried() -> None:
    assert suggest_moves(known(SCATTERED), 1, lambda: False).tried == 0


def test_the_command_line_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    file.write_text(SCATTERED)

    shown = call("cards", "-f", file, "--suggest-moves", "1").stdout
    result = json.loads(call("cards", "-f", file, "--suggest-moves", "2", "-o", "json").stdout)

    assert "Restart 1 pod to free all cards of 1 node: n1. Before: kubectl cordon n1" in shown
    assert result["nodes"] == ["n1", "n3"]
    assert {move["pod"]: (move["node"], move["to"]) for move in result["moves"]} == {
        "default/a-1": ("n3", "n2"),
        "default/c-1": ("n1", "n2"),
    }
