"""drf with `enableHierarchy`, as `volsched simulate` shows it: cases F16 to F18 and F20, and what follows from them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.cli.calls import call, text_of
from tests.simulation.clusters import Manifest, group, node, pod, queue

HIERARCHY, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
Queues = Mapping[str, str]
"""The parent of each queue."""


def configured(actions: str = "enqueue, allocate", *, tree: bool = True, **arguments: Any) -> Manifest:
    """The ConfigMap of a scheduler with gang, predicates and drf."""
    drf = {"name": "drf", "enableHierarchy": tree, "arguments": arguments}
    text = json.dumps({"actions": actions, "tiers": [{"plugins": [{"name": "gang"}, drf, {"name": "predicates"}]}]})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"volsched.conf": text}}


def queues(listed: Queues) -> list[Manifest]:
    return [queue(name, parent=parent) for name, parent in listed.items()]


def amounts(cpu: int, memory: int) -> Manifest:
    asked = {name: text for name, text in (("cpu", f"{cpu}"), ("memory", f"{memory}Gi")) if not text.startswith("0")}
    return {"containers": [{"name": "main", "resources": {"requests": asked}}]}


def waiting(name: str, count: int, cpu: int, memory: int) -> list[Manifest]:
    """A job in a queue, of equal pods of cores and GiB, of which the first starts it."""
    pods = [pod(f"{name}-wait-{n:02}", f"{name}-wait", **amounts(cpu, memory)) for n in range(count)]
    return [group(f"{name}-wait", 1, name), *pods]


def running(name: str, count: int, cpu: int, memory: int) -> list[Manifest]:
    pods = [
        pod(f"{name}-run-{n:02}", f"{name}-run", "n1", status={"phase": "Running"}, **amounts(cpu, memory))
        for n in range(count)
    ]
    return [group(f"{name}-run", 0, name, phase="Running"), *pods]


def simulated(*world: Manifest) -> Any:
    done = call("simulate", "-f", "-", "-o", "json", given=text_of(*world))
    assert done.exit_code in (0, 1), done.stderr
    return json.loads(done.stdout)


def counted(listed: list[Any]) -> dict[str, int]:
    return dict(Counter(item["pod"].removeprefix("default/").split("-")[0] for item in listed))


def bound(found: Any) -> dict[str, int]:
    """How many waiting pods of each queue got a node."""
    return counted(found["binds"])


PAPER: dict[str, tuple[int, int, Queues, list[list[Manifest]], Mapping[str, int]]] = {
    # what: (cores, GiB, queues, jobs, how many pods of each queue start)
    "F16": (
        10,
        10,
        {"sci": "", "eng": "", "dev": "eng", "prod": "eng"},
        [waiting("sci", 10, 1, 1), waiting("dev", 10, 1, 0), waiting("prod", 10, 0, 1)],
        {"sci": 5, "dev": 5, "prod": 5},
    ),
    "F17": (
        30,
        30,
        {"p1": "", "p2": "", "p3": "", "p31": "p3", "p32": "p3", "p4": ""},
        [
            *(waiting(name, 30, 1, 0) for name in ("p1", "p2", "p31")),
            *(waiting(name, 30, 0, 1) for name in ("p32", "p4")),
        ],
        {"p1": 10, "p2": 10, "p31": 10, "p32": 15, "p4": 15},
    ),
    "F18: who asks no more does not count": (
        10,
        6,
        {"sci": "", "eng": "", "dev": "eng", "prod": "eng", "ops": ""},
        [running("sci", 5, 1, 0), running("dev", 5, 1, 0), waiting("prod", 10, 0, 1), waiting("ops", 10, 0, 1)],
        {"prod": 3, "ops": 3},
    ),
}


@pytest.mark.parametrize("what", PAPER)
def test_queues_have_what_the_paper_gives_them(what: str) -> None:
    cores, memory, listed, jobs, expected = PAPER[what]
    machine = node("n1", cpu=cores, memory=f"{memory}Gi", pods=400)

    found = simulated(configured(), machine, *queues(listed), *(item for job in jobs for item in job))

    assert bound(found) == expected


def test_without_the_switch_queues_are_in_no_tree() -> None:
    cores, memory, listed, jobs, _ = PAPER["F18: who asks no more does not count"]
    world = [node("n1", cpu=cores, memory=f"{memory}Gi"), *queues(listed), *(item for job in jobs for item in job)]

    flat = bound(simulated(configured(tree=False), *world))

    assert sum(flat.values()) == 6
