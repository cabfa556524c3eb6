"""Clusters whose queues say what they deserve of cards."""

from __future__ import annotations

import json
from typing import Any

from tests.plugins.capacity_card.clusters import CREATED, Cards
from volsched.testing.builders import CycleDecision, a_rig

DESERVED, GUARANTEE = "volsched.io/card.deserved", "volsched.io/card.guarantee"
ACTIONS = "enqueue, allocate, preempt, reclaim, backfill"


def elastic(actions: str = ACTIONS, *, tree: bool = False, switches: str = "", **arguments: Any) -> str:
    """gang and conformance in the tier before capacity-card, as Volcano's configurations have it."""
    told = json.dumps({"name": "capacity-card", "arguments": arguments, **({"enableHierarchy": True} if tree else {})})
    return f"""
actions: "{actions}"
tiers:
- plugins:
  - name: priority
  - name: gang
{switches}
  - name: conformance
- plugins:
  - name: predicates
  - {told}
"""


class Elastic(Cards):
    """A cluster under construction."""

    def due(
        self,
        name: str,
        quota: Any,
        deserved: dict[str, int] | None = None,
        guarantee: dict[str, int] | None = None,
        **spec: Any,
    ) -> Elastic:
        """Add a queue with a quota, and what it deserves and is guaranteed, as far as it says so."""
        self.quota(name, quota, **spec)
        notes = self.objects[-1]["metadata"].setdefault("annotations", {})
        for annotation, cards in ((DESERVED, deserved), (GUARANTEE, guarantee)):
            if cards is not None:
                notes[annotation] = json.dumps(cards)
        return self

    def of_priority(self, name: str, value: int) -> Elastic:
        """Give a gang, the last that was added, and its pods a priority."""
        meta = {"name": name, "uid": name}
        self.add({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value})
        for item in self.objects:
            if item["kind"] == "PodGroup" and item["metadata"]["name"] == name:
                item["spec"]["priorityClassName"] = name
            if item["kind"] == "Pod" and item["metadata"]["name"].rpartition("-")[0] == name:
                item["spec"] |= {"priority": value, "priorityClassName": name}
        return self

    def starting(self, name: str) -> Elastic:
        """Have the pods of a gang, the last that was added, be on their nodes and not run yet."""
        for item in self.objects:
            if item["kind"] == "Pod" and item["metadata"]["name"].rpartition("-")[0] == name:
                item["status"]["phase"] = "Pending"
        return self

    def runs(self, name: str, count: int, card: str, queue: str, on: str, **more: Any) -> Elastic:
        """Add a gang of one and its pods, which run on a node."""
        self.gang(name, count, card=card, queue=queue, on=on, **more)
        return self

    def wants(self, name: str, count: int, card: str, queue: str, **more: Any) -> Elastic:
        """Add a gang that waits, younger than those that run; it starts with one pod if not told otherwise."""
        self.gang(name, count, card=card, queue=queue, created=30, **more)
        return self


def world() -> Elastic:
    return Elastic([])


def decided(cluster: Elastic, text: str | None = None, **told: Any) -> CycleDecision:
    return a_rig(cluster, text or elastic(**told)).cycle()


def by_job(decision: CycleDecision) -> dict[str, int]:
    """How many pods of each job are evicted."""
    found: dict[str, int] = {}
    for name in decision.evictions:
        job = name.rpartition("-")[0]
        found[job] = found.get(job, 0) + 1
    return found


__all__ = ["ACTIONS", "CREATED", "DESERVED", "GUARANTEE", "Elastic", "by_job", "decided", "elastic", "world"]
