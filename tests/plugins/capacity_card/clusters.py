"""Small clusters of card nodes, and what is asked of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from volsched.model.plan import RecordEvent
from volsched.testing.builders import GROUP_NAME, ClusterBuilder, CycleDecision, Rig, a_cluster, a_rig

GPU, MPS = "nvidia.com/gpu", "nvidia.com/gpu.shared"
A, H, T = "NVIDIA-A100", "NVIDIA-H100", "NVIDIA-T4"
CREATED = "2026-01-01T00:00:{:02}Z"


def configuration(*others: str, actions: str = "enqueue, allocate, backfill", **arguments: Any) -> str:
    """gang and capacity-card, then other plugins."""
    plugins = ["{name: priority}", "{name: gang}", "{name: predicates}"]
    plugins.append(json.dumps({"name": "capacity-card", "arguments": arguments}))
    plugins += [f"{{name: {name}}}" for name in others]
    listed = "\n".join(f"  - {plugin}" for plugin in plugins)
    return f'actions: "{actions}"\ntiers:\n- plugins:\n{listed}\n'


class Cards(ClusterBuilder):
    """A cluster under construction, in the words of cards."""

    def cards(
        self, name: str, product: str, count: Any = 8, labels: Mapping[str, str] | None = None, **more: Any
    ) -> Cards:
        """Add a node; ``more`` are its resources in place of so many whole cards."""
        known = {f"{GPU}.product": product, f"{GPU}.count": str(count), f"{GPU}.memory": "81920"}
        self.node(name, cpu="1000", memory="4Ti", labels={**known, **(labels or {})}, **(more or {GPU: count}))
        return self

    def quota(self, name: str, cards: Any = None, cpu: Any = 1000, memory: Any = "4Ti", **spec: Any) -> Cards:
        """Add a queue; None leaves a limit out."""
        capability = {key: str(value) for key, value in {"cpu": cpu, "memory": memory}.items() if value is not None}
        text = cards if cards is None or isinstance(cards, str) else json.dumps(cards)
        notes = {"volcano.sh/card.quota": text} if text is not None else None
        self.queue(name, notes, capability=capability, **spec)
        return self

    def gang(
        self,
        name: str,
        count: int = 1,
        *,
        card: str | None = None,
        each: int = 1,
        minimum: int = 1,
        queue: str = "q",
        on: str | None = None,
        request: Any = None,
        phase: str | None = None,
        resource: str = GPU,
        least: Mapping[str, Any] | None = None,
        created: int = 0,
        **requests: Any,
    ) -> Cards:
        """Add a PodGroup and its pods, on a node or waiting."""
        spec: dict[str, Any] = {"minResources": dict(least)} if least is not None else {}
        phase = phase or ("Running" if on else "Inqueue")
        text = request if request is None or isinstance(request, str) else json.dumps(request)
        notes = {"volcano.sh/card.request": text} if text is not None else None
        self.group(name, queue, minimum, phase, CREATED.format(created), notes, **spec)
        if card is not None:
            requests = {resource: each, **requests}
        named = {"volcano.sh/card.name": card} if card is not None else {}
        for index in range(count):
            self.pod(f"{name}-{index}", name, on=on, annotations={GROUP_NAME: name, **named}, **requests)
        return self

    def probe(self, name: str, request: Any = None, queue: str = "q", minimum: int = 1, **least: Any) -> Cards:
        """Add a Pending PodGroup without pods."""
        return self.gang(name, 0, request=request, queue=queue, minimum=minimum, phase="Pending", least=least or None)


def some(amounts: dict[str, Any]) -> dict[str, Any]:
    """Amounts of resources whose names are no Python names, to be given as keywords."""
    return amounts


def cards() -> Cards:
    """An empty cluster."""
    return Cards(a_cluster().objects)


def decided(cluster: ClusterBuilder, *others: str, **arguments: Any) -> CycleDecision:
    """One cycle."""
    return rig(cluster, *others, **arguments).cycle()


def rig(cluster: ClusterBuilder, *others: str, **arguments: Any) -> Rig:
    """A scheduler with capacity-card on a cluster."""
    return a_rig(cluster, configuration(*others, **arguments))


def nodes_of(decision: CycleDecision) -> dict[str, int]:
    """How many pods each node holds."""
    return {node.name: len(node.tasks) for node in decision.cluster.rows if node.tasks}


def refusal(decision: CycleDecision, name: str) -> tuple[str, str]:
    """Reason and message of why a pod or a PodGroup waits."""
    job = decision.cluster.jobs.get(f"default/{name}")
    found = job.refusal if job is not None else decision.task(name).refusal
    assert found is not None, f"{name} is not refused"
    return found.reason, found.message


def events(decision: CycleDecision, kind: str) -> list[tuple[str, str, str, str]]:
    """Name, type, reason and message of the Events on objects of a kind."""
    return [
        (step.name, step.type, step.reason, step.message)
        for step in decision.steps
        if isinstance(step, RecordEvent) and step.kind == kind
    ]
