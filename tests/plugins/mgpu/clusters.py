"""Nodes and pods with shared cards, for the real scheduler in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plugins.mgpu.devices import CARD_IDS, CORE, MEMORY, POLICY
from plugins.mgpu.requests import MULTIPLE
from plugins.mgpu.results import ASSUMED, INDEX
from plugins.mgpu.usage import NodeCardUsage
from tests.plugins.mgpu.cards import M, asks
from volsched.model.changes import Deleted
from volsched.model.plan import Bind
from volsched.testing.builders import CycleDecision, Rig, a_cluster, a_group, a_node, a_pod, a_rig

NATIVE, GUARANTEED = "native-burst-share", "guaranteed-burst-share"
Manifest = dict[str, Any]


def configuration(actions: str = "enqueue, allocate, backfill", **arguments: object) -> str:
    """The plugins priority, gang, predicates and mgpu; ``Policy="spread"`` is predicate.MGPUPolicy."""
    given = {"Enable": True, **arguments}
    lines = [f'      predicate.MGPU{key}: "{value}"' for key, value in given.items()]
    return "\n".join(
        [
            f'actions: "{actions}"',
            "tiers:",
            "- plugins: [{name: priority}, {name: gang}, {name: conformance}]",
            "- plugins:",
            "  - name: predicates",
            "  - name: mgpu",
            "    arguments:",
            *lines,
        ]
    )


def node(name: str = "n1", cards: int = 2, memory: int = M, policy: str = "", ids: str = "", **labels: str) -> Manifest:
    """A node with cards of so many MiB."""
    kinds = {**({POLICY: policy} if policy else {}), **labels}
    amounts = {CORE: 100 * cards, MEMORY: memory * cards}
    return a_node(name, pods=200, labels=kinds, annotations={CARD_IDS: ids} if ids else {}, **amounts)


def container(name: str, core: object = None, memory: object = None) -> Manifest:
    """A container that asks for core and memory of cards."""
    amounts = {key: str(value) for key, value in ((CORE, core), (MEMORY, memory)) if value is not None}
    return {"name": name, "image": "none", "resources": {"requests": amounts, "limits": amounts} if amounts else {}}


def containers(text: str) -> tuple[list[Manifest], dict[str, str]]:
    """Containers c1, c2, ... of a request text, ``-`` for one without cards, and the annotation that it needs."""
    made, counts = [], []
    for number, part in enumerate(text.split(), 1):
        if part == "-":
            made.append(container(f"c{number}"))
            counts.append(0)
            continue
        (ask,) = asks(part)
        counts.append(ask.cards)
        memory = None if ask.is_whole else ask.cards * ask.memory
        made.append(container(f"c{number}", ask.cards * ask.core, memory))
    return made, {MULTIPLE: ",".join(map(str, counts))} if "x" in text else {}


def pod(
    name: str,
    wants: str = "",
    *,
    on: str = "",
    cards: str | None = None,
    policy: str = "",
    group: str = "",
    phase: str = "",
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> Manifest:
    """A pod; ``cards`` are the lists of its containers as "0 ; 1,2", for one that has a node."""
    listed, counts = containers(wants)
    results = {}
    if cards is not None:
        lists = [text.strip() for text in cards.split(";")]
        results = {ASSUMED: "true", **{f"{INDEX}c{n}": text for n, text in enumerate(lists, 1) if text}}
    notes = {**counts, **results, **({POLICY: policy} if policy else {}), **(annotations or {})}
    body = {"containers": listed, **(spec or {})}
    meta = {"uid": f"uid-{name}", **metadata}
    return a_pod(name, group or name, on or None, phase or None, annotations=notes, spec=body, metadata=meta)


def solo(found: Manifest) -> list[Manifest]:
    """A pod with a PodGroup of its own."""
    return [a_group(found["metadata"]["name"]), found]


def rig_of(*objects: Manifest, text: str = "", engine: Any = None) -> Rig:
    """A scheduler on these objects."""
    cluster = a_cluster()
    for found in objects:
        cluster.add(found)
    return a_rig(cluster, text or configuration(), **({"engine": engine} if engine else {}))


def gone(name: str) -> Deleted:
    """A pod that was deleted."""
    return Deleted("Pod", "default", name, f"uid-{name}")


def lists(decision: CycleDecision, name: str) -> str | None:
    """The card lists that a pod's Binding carries, as "0 ; 1,2"; None when it is not bound."""
    for step in decision.steps:
        if isinstance(step, Bind) and step.name == name:
            return " ; ".join(text for key, text in sorted(step.annotations.items()) if key.startswith(INDEX))
    return None


def ledger_of(rig: Rig) -> NodeCardUsage:
    """The ledger as it is."""
    observers = [o for o in rig.cluster.observers if isinstance(o, NodeCardUsage)]
    (found,) = observers
    return found


def states(rig: Rig, name: str = "n1") -> str:
    """Free core/MiB/instances of each card of a node."""
    return " ; ".join(f"{c.core}/{c.memory}/{c.instances}" for c in ledger_of(rig).nodes[name].state.cards)
