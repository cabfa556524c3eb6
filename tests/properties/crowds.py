"""Gangs of equal pods: those that are placed in one go end where they would have been placed one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from tests.properties.lives import Property, Reader
from tests.properties.stories import GROUP, HAPPENINGS, HOST, VOLCANO, Draws, Manifest, Story, World, stamp
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo

GPU: Final = "nvidia.com/gpu"
MODELS: Final = ("NVIDIA-A100", "NVIDIA-H100")
QUEUES: Final = ("q1", "q2")
WORDS: Final = ("nothing", "finish", "delete", "go", "fail binds", "drop node", "ask for less")
BEFORE: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
"""
QUOTAS: Final = {
    "capacity-card": ("capacity-card", "predicates", "nodeorder", "binpack"),
    "cards of ancestors": ("capacity-card: {arguments: {checkAncestors: true}}", "predicates", "binpack"),
    "proportion": ("drf", "proportion", "predicates", "nodeorder"),
    "shares in a tree": ("drf", "proportion: {enableHierarchy: true}", "predicates", "nodeorder"),
    "rescaled shares in a tree": ("drf: {enableHierarchy: true}", "predicates", "nodeorder"),
    "capacity": ("capacity", "predicates", "binpack"),
    "a hierarchy": ("capacity: {enableHierarchy: true}", "predicates", "nodeorder"),
    "devices and cards": (
        "drf",
        "capacity-dra",
        "mgpu: {arguments: {predicate.MGPUEnable: true}}",
        "crossquota",
        "predicates",
        "nodeorder",
        "binpack",
    ),
}


def configuration(plugins: tuple[str, ...]) -> str:
    lines = []
    for plugin in plugins:
        name, _, more = plugin.partition(": ")
        lines.append("  - {name: " + name + (", " + more[1:] if more else "}"))
    return BEFORE + "\n".join(lines) + "\n"


def crowds(plugins: tuple[str, ...]) -> st.SearchStrategy[World]:
    return st.integers(0, 1 << 30).map(lambda seed: World(a_story(Random(seed), plugins)))  # noqa: S311 - a game


def a_story(dice: Random, plugins: tuple[str, ...]) -> Story:
    """Gangs of equal pods, some of them with labels of their own, in queues that may not hold all of them."""
    drawn = Draws(dice, frozenset())
    nodes = [_node(dice, number) for number in range(dice.randint(1, 4))]
    queues = [_queue(dice, name) for name in QUEUES]
    jobs = [item for number in range(dice.randint(1, 4)) for item in _gang(dice, number)]
    told = [[(dice.choice(WORDS), dice.randint(0, 20)) for _ in range(2)] for _ in range(2)]
    chapters = [[HAPPENINGS[word](drawn, number) for word, number in chapter] for chapter in told]
    words = [[f"{word} {number}" for word, number in chapter] for chapter in told]
    return Story(configuration(plugins), [*nodes, *queues, *jobs], chapters, words)


def _node(dice: Random, number: int) -> Manifest:
    name, model = f"n{number}", dice.choice(MODELS)
    cards = dice.randint(0, 8)
    labels = {HOST: name, f"{GPU}.product": model, f"{GPU}.count": str(cards), f"{GPU}.memory": "81920"}
    amounts = {"cpu": str(dice.randint(2, 16)), "memory": "64Gi", "pods": dice.choice(["3", "110"])}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"node-{name}", "labels": labels},
        "spec": {},
        "status": {key: {**amounts, GPU: str(cards)} for key in ("allocatable", "capacity")},
    }


def _queue(dice: Random, name: str) -> Manifest:
    quota = {model: dice.randint(0, 6) for model in MODELS}
    limit = {"cpu": str(dice.randint(1, 20)), "memory": "99Gi", GPU: str(dice.randint(0, 8))}
    meta = {"name": name, "uid": f"queue-{name}", "annotations": {"volcano.sh/card.quota": json.dumps(quota)}}
    spec: Manifest = {"weight": dice.randint(1, 3), "capability": limit}
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": meta, "spec": spec}


def _gang(dice: Random, number: int) -> list[Manifest]:
    name, tasks = f"j{number}", dice.randint(2, 7)
    meta = {"name": name, "namespace": "default", "uid": f"pg-{name}", "creationTimestamp": stamp(number)}
    spec = {"queue": dice.choice(QUEUES), "minMember": dice.randint(1, tasks)}
    group = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": spec, "status": {"phase": "Inqueue"}}
    cards, cpu = dice.randint(0, 2), dice.choice(["500m", "1", "2"])
    notes = {GROUP: name}
    if cards:
        notes["volcano.sh/card.name"] = dice.choice([*MODELS, "|".join(MODELS), "|".join(MODELS[::-1])])
    numbered = dice.choice((False, True))
    amounts = {"cpu": cpu, "memory": "1Gi", **({GPU: str(cards)} if cards else {})}
    pods = []
    for index in range(tasks):
        labels = {"app": "x", **({"index": str(index)} if numbered else {})}
        pods.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-w-{index}",
                    "namespace": "default",
                    "uid": f"pod-{name}-{index}",
                    "labels": labels,
                    "annotations": notes,
                    "creationTimestamp": stamp(100),
                },
                "spec": {
                    "schedulerName": "volsched",
                    "containers": [
                        {"name": "c", "image": "img:1", "resources": {"requests": amounts, "limits": amounts}}
                    ],
                },
                "status": {"phase": "Pending"},
            }
        )
    return [group, *pods]


class PlacedInOneGo(Property):
    """Counts runs of equal tasks: the engines agree about many, and the naive engine knows none."""

    def __init__(self, scenario: Any, reader: Reader) -> None:
        super().__init__(scenario, reader)
        allocate, seen = self.cluster.allocate, reader.seen

        def noted(tasks: Sequence[TaskInfo], nodes: Iterator[NodeInfo]) -> int:
            length = allocate(tasks, nodes)
            seen["runs"] += length > 1
            seen["long runs"] += length > 3
            return length

        self.cluster.allocate = noted  # type: ignore[method-assign]
