"""Small clusters and what one session of Volcano itself did with each, in a compact form.

``worlds.jsonl`` has one world a line. Times are seconds after the start of 2026, amounts as in manifests, and what most
objects agree in is left out::

    conf    actions, then tiers of plugins; one that ends in - has no say in reclaim, one that ends in +n minds the
            hierarchy of queues, with n as its ancestorReclaimLevel
    nodes   name: [cpu, memory, pods, example.com/gpu if it has any]
    classes name: value of a PriorityClass
    queues  name: [created, weight, reclaimable, priority, capability, deserved, guarantee, parent], null for none, ends
            at the last that there is
    groups  name: [created, queue, minMember, phase, class or null, minResources or null, minTaskMember or null]
    pods    name: [created, group, phase, requests, node or null, role or null, class or null, deleted at or null,
                   the annotation volcano.sh/preemptable if it has one]
    bound, pipelined, evicted, pending    what Volcano did: pods, and PodGroups that stayed Pending

Names begin with ``vc-base``, ``vc-fair`` (drf and proportion too), ``vc-evict`` (preempt and reclaim too),
``vc-capacity`` and ``vc-tree`` (capacity in the place of proportion, without and over a hierarchy of queues) or
``vc-made``: small worlds in which volsched once decided otherwise, found by comparing thousands of made-up ones with
Volcano's own session (v1.15.1, sixty times alike). Those with capacity are of that version, too.

The other facts were recorded with Volcano's scheduler (development version of August 2026), each world eight times
alike.
Nodes of a world are equal or single, so that its random choice among the best nodes plays no part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("worlds.jsonl")
START = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = "scheduling.k8s.io/group-name"
ROLE = "volcano.sh/task-spec"
PREEMPTABLE = "volcano.sh/preemptable"


@dataclass(frozen=True)
class World:
    """One world: its objects and configuration, and Volcano's decisions."""

    id: str
    configuration: str
    objects: tuple[dict[str, Any], ...]
    bound: frozenset[str]
    pipelined: frozenset[str]
    evicted: frozenset[str]
    pending: frozenset[str]

    @property
    def kind(self) -> str:
        """Which plugins and actions it is about: base, fair or evict; or made, see above."""
        return self.id.split("-")[1]


def worlds() -> list[World]:
    """All worlds of the file."""
    return [_world(json.loads(line)) for line in FILE.read_text(encoding="utf-8").splitlines()]


def _world(raw: Mapping[str, Any]) -> World:
    objects = [
        *(_node(name, *rest) for name, rest in raw["nodes"].items()),
        *(_class(name, value) for name, value in raw["classes"].items()),
        *(_queue(name, *rest) for name, rest in raw["queues"].items()),
        *(_group(name, *rest) for name, rest in raw["groups"].items()),
        *(_pod(name, raw["classes"], *rest) for name, rest in raw["pods"].items()),
    ]
    said = (frozenset(raw.get(what, ())) for what in ("bound", "pipelined", "evicted", "pending"))
    return World(raw["id"], _configuration(*raw["conf"]), tuple(objects), *said)


def _configuration(actions: str, *tiers: str) -> str:
    return "\n".join([f"actions: {actions}", "tiers:", *_lines(tiers), ""])


def _lines(tiers: tuple[str, ...]) -> Iterator[str]:
    for tier in tiers:
        yield "- plugins:"
        for word in tier.split():
            name, hierarchy, level = word.rstrip("-").partition("+")
            yield f"  - name: {name}"
            if word.endswith("-"):
                yield "    enableReclaimable: false"
            if hierarchy:
                yield f"    enableHierarchy: true\n    arguments: {{ancestorReclaimLevel: {level}}}"


def _stamp(seconds: int) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _node(name: str, cpu: str, memory: str, pods: str, gpu: str | None = None) -> dict[str, Any]:
    amounts = _given(cpu=cpu, memory=memory, pods=pods, **{"example.com/gpu": gpu})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _class(name: str, value: int) -> dict[str, Any]:
    meta = {"name": name, "uid": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}


def _queue(  # noqa: PLR0917 - the columns of the file
    name: str,
    created: int,
    weight: int,
    reclaimable: bool,
    priority: int | None = None,
    capability: Mapping[str, str] | None = None,
    deserved: Mapping[str, str] | None = None,
    guarantee: Mapping[str, str] | None = None,
    parent: str | None = None,
) -> dict[str, Any]:
    spec = _given(weight=weight, reclaimable=reclaimable, priority=priority, capability=capability, deserved=deserved)
    kept = None if guarantee is None else {"resource": guarantee}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": name, "creationTimestamp": _stamp(created)},
        "spec": {**spec, **_given(guarantee=kept, parent=parent)},
        "status": {"state": "Open"},
    }


def _group(
    name: str,
    created: int,
    queue: str,
    minimum: int,
    phase: str,
    of_class: str | None,
    resources: Mapping[str, str] | None,
    roles: Mapping[str, int] | None,
) -> dict[str, Any]:
    spec = _given(
        minMember=minimum, queue=queue, priorityClassName=of_class, minResources=resources, minTaskMember=roles
    )
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": _stamp(created)},
        "spec": spec,
        "status": {"phase": phase},
    }


def _pod(  # noqa: PLR0917 - the columns of the file
    name: str,
    classes: Mapping[str, int],
    created: int,
    group: str,
    phase: str,
    requests: Mapping[str, str],
    node: str | None,
    role: str | None,
    of_class: str | None,
    deleted: int | None,
    preemptable: str | None = None,
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "i"}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _given(
            name=name,
            namespace="default",
            uid=name,
            creationTimestamp=_stamp(created),
            deletionTimestamp=None if deleted is None else _stamp(deleted),
            annotations=_given(**{GROUP: group, ROLE: role or None, PREEMPTABLE: preemptable}),
        ),
        "spec": _given(
            schedulerName="volcano",
            containers=[container],
            nodeName=node,
            priorityClassName=of_class,
            priority=None if of_class is None else classes[of_class],
        ),
        "status": {"phase": phase},
    }


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
