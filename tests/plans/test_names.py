"""What is told on an object names nothing of another namespace: the recorded scenarios, with a tenant for each job."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.plans.scenarios import CHUNKS, Plan, Scenario, plan_of, some_scenarios

SHARED = ("tests", "default")
"""The namespaces of the scenarios."""

JOB = re.compile(r"^(j|old)(\d+)(?![a-z0-9])")
NAMED = re.compile(r"(?<![\w.])(j|old)\d+(?![a-z0-9])")
KEYED = re.compile(r"(?<![\w.-])(tests|default)/((j|old)\d+)(?![a-z0-9])")


def of_tenants(scenario: Scenario) -> Scenario:
    """Return a scenario in which the objects of each job are in a namespace of their own."""
    chapters = [[_moved(happening) for happening in chapter] for chapter in scenario.chapters]
    return Scenario(scenario.name, scenario.configuration, [_moved(found) for found in scenario.objects], chapters)


def _moved(found: Any) -> Any:
    """Return a tree in which objects named after a job, and references to them, are in its namespace."""
    if isinstance(found, list):
        return [_moved(each) for each in found]
    if isinstance(found, str):
        return KEYED.sub(lambda key: f"of-{key[2]}/{key[2]}", found)
    if not isinstance(found, dict):
        return found
    moved = {_moved(key): _moved(value) for key, value in found.items()}
    name = JOB.match(str(moved.get("name", "")))
    if name is not None and moved.get("namespace") in SHARED:
        moved["namespace"] = f"of-{name[0]}"
    return moved


def told(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what is told on objects of namespaces, with the namespace and name of the object."""
    for cycle in plan:
        for about, events in cycle.get("events", {}).items():
            kind, _, key = about.partition("/")
            if "/" in key or kind == "Node":
                yield from ((key, message) for _, _, message in events)
        yield from ((about, said["message"]) for about, said in cycle.get("conditions", {}).items())
        for what in ("podGroups", "nativePodGroups"):
            for about, said in cycle.get(what, {}).items():
                conditions = said["conditions"] if what == "podGroups" else said
                yield from ((about, message) for _, _, _, message in conditions)
        yield from ((found["pod"], found["message"]) for found in cycle.get("evictions", ()))


@pytest.mark.slow(reason="two hundred scenarios")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_of_another_namespace_is_named(chunk: int) -> None:
    for scenario in some_scenarios(chunk, one_in=10):
        plan = json.loads(json.dumps(plan_of(of_tenants(scenario))))
        for about, message in told(plan):
            own = JOB.match(about.partition("/")[2])
            others = {found[0] for found in NAMED.finditer(message)} - ({own[0]} if own is not None else set())
            assert not others, (scenario.name, about, message)
