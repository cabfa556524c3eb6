"""Of what the API server sends of any kind, no more stays in memory than is read."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from volsched import registry
from volsched.controllers import objects
from volsched.controllers.store import Store
from volsched.kube.watch.decoding import KindReader
from volsched.kube.watch.resources import Resource, watched
from volsched.kube.watch.served_kinds import POD_GROUPS, WORKLOADS
from volsched.kube.write.views import Views
from volsched.mirror.apply import Mirror
from volsched.mirror.kept import kept_annotations
from volsched.mirror.settings import MirrorSettings
from volsched.model import api
from volsched.model.changes import Put
from volsched.operator import program
from volsched.operator.reading import job_view

BIG = 200_000
LISTS = [[]] * 3_000
MOST_KEPT = 60_000
"""Bytes: a quarter of one text that must not stay."""

KEPT = kept_annotations(registry.installed_annotations())
OF_THE_SCHEDULER = (
    *watched(need_groups=True),
    *(served.resource(version) for served in (POD_GROUPS, WORKLOADS) for version in served.structs),
)
OF_THE_CONTROLLERS = tuple(found for found in program.watched(("volsched",)) if found.kind != "Namespace")
OF_TENANTS = (
    *("Pod", "PodGroup", "NativePodGroup", "NativeWorkload", "PersistentVolumeClaim", "PodDisruptionBudget"),
    *("ResourceClaim", "ResourceClaimTemplate", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"),
)
"""Kinds of which a tenant may write labels, owners and finalizers, as many as fit into an object."""
SPECS: dict[str, Any] = {
    "ResourceClaim": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
    "ResourceClaimTemplate": {"spec": {"devices": {"requests": []}}},
    "Queue": {"weight": 1},
    "NativePodGroup": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}


def bulky(kind: str, number: int) -> dict[str, Any]:
    """An object of which every part has something large that nobody reads."""
    text = f"{number}" + "x" * BIG
    meta = {
        "name": f"n{number}",
        "namespace": "" if kind in ("Node", "Queue", "Namespace") else "evil",
        "uid": f"u{number}",
        "resourceVersion": "7",
        "annotations": {"example.com/unread": text, f"volcano.sh/{number}": text},
        "managedFields": [{"manager": "me", "fieldsV1": {"f:metadata": {text: {}}}}],
    }
    if kind in OF_TENANTS:
        meta["labels"] = {f"volcano.sh/k{each}": f"{number}{'v' * 60}" for each in range(BIG // 60)}
        owners = [{"apiVersion": "v1", "kind": "K", "name": text, "uid": f"{number}.{each}"} for each in range(3)]
        meta["ownerReferences"] = [*owners, {"apiVersion": "v1", "kind": "K", "name": "n", "controller": True}]
        meta["finalizers"] = [f"{text}/{each}" for each in range(3)]
    config = [{"requests": ["r"], "opaque": {"driver": "d", "parameters": {"a": [text, *LISTS]}}}]
    spec = {"unread": [text, *LISTS], **SPECS.get(kind, {})}
    status: dict[str, Any] = {"unread": [text, *LISTS]}
    if kind.startswith("ResourceClaim"):
        spec = msgspec.json.decode(msgspec.json.encode(SPECS[kind]))  # of these an unknown field is a fault
        (spec["spec"] if kind.endswith("Template") else spec)["devices"]["config"] = config
        if kind.endswith("Template"):
            spec["metadata"] = {"annotations": {"a": text}}
        results = [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]
        given = {"results": results, "config": [{"source": "FromClaim", **one} for one in config]}
        status = {"allocation": {"devices": given}, "devices": [{"driver": "d", "data": {"a": LISTS, "b": text}}]}
    return {"kind": kind, "metadata": meta, "spec": spec, "status": status, "unread": [text, *LISTS]}


def sent(resource: Resource, number: int) -> bytes:
    return msgspec.json.encode({"type": "ADDED", "object": bulky(resource.kind, number)}) + b"\n"


def decoded(resource: Resource, lines: bytes) -> Iterator[api.ApiObject]:
    for event in KindReader(resource).events(lines):
        KEPT.trim(resource.kind, event.object)
        yield event.object


def kept_of(take: Any, count: int = 4) -> float:
    """Bytes that stay of each object, once a first one has filled what is filled at first use."""
    take(0)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1, count + 1):
            take(number)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / count
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("resource", OF_THE_SCHEDULER, ids=lambda found: f"{found.kind} {found.group_version}")
def test_the_scheduler_keeps_nothing_of_an_object_that_nobody_reads(resource: Resource) -> None:
    mirror, views = Mirror(MirrorSettings(annotations=KEPT)), Views()

    def take(number: int) -> None:
        changes = mirror.memory_use.of([Put(found) for found in decoded(resource, sent(resource, number))])
        views.observe(changes)
        mirror.apply(changes)

    assert kept_of(take) < MOST_KEPT
    assert not mirror.quarantine.counts


@pytest.mark.parametrize("resource", OF_THE_CONTROLLERS, ids=lambda found: found.kind)
def test_the_controllers_keep_nothing_of_an_object_that_nobody_reads(resource: Resource) -> None:
    store = Store(lambda _: None, lambda: 0.0)
    read = KindReader(resource)

    def take(number: int) -> None:
        for event in read.events(sent(resource, number)):
            store.put(event.object)

    assert kept_of(take) < MOST_KEPT


def test_of_a_command_the_controllers_keep_what_it_says() -> None:
    found = api.decode_as(objects.Command, {"metadata": {"name": "c"}, "action": "AbortJob", "target": {"kind": "Job"}})
    assert {*objects.Command.__struct_fields__} == {"metadata", "action", "target"}
    assert found.target.kind == "Job"


@pytest.mark.parametrize("key", ["volcano.sh/sla-waiting-time", "volsched.io/expected-duration"])
def test_a_job_with_a_long_annotation_that_may_decide_is_refused_with_words(key: str) -> None:
    view = job_view(a_job({key: "x" * 5_000}), ("volsched",), "default")
    assert "has 5000 characters, more than 4096" in view.too_large
    assert len(msgspec.json.encode(view.job)) < 1_000


def test_a_job_hands_on_what_is_not_very_long_and_keeps_nothing_else() -> None:
    given = {
        "kubectl.kubernetes.io/last-applied-configuration": "y" * BIG,
        "example.com/note": "z" * BIG,
        "example.com/owner": "me",
        "volcano.sh/sla-waiting-time": "1h",
    }
    view = job_view(a_job(given), ("volsched",), "default")
    assert not view.too_large
    assert view.job.metadata.annotations == {"example.com/owner": "me", "volcano.sh/sla-waiting-time": "1h"}


def test_a_job_with_many_labels_is_refused_with_words_and_owners_and_finalizers_are_not_kept() -> None:
    raw = a_job({})
    raw["metadata"]["labels"] = {f"k{number}": "v" * 60 for number in range(200)}
    view = job_view(raw, ("volsched",), "default")
    assert view.too_large.startswith("metadata.labels: have 12690 characters, more than the 8192 ")
    assert len(msgspec.json.encode(view.job)) < 1_000
    raw["metadata"] |= {"labels": {"a": "b"}, "finalizers": ["f" * BIG], "ownerReferences": [{"name": "o" * BIG}]}
    view = job_view(raw, ("volsched",), "default")
    assert not view.too_large
    assert len(msgspec.json.encode(view.job)) < 1_000


def a_job(annotations: dict[str, str]) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    task = {"name": "w", "replicas": 1, "template": template}
    meta = {"name": "j", "namespace": "ns", "uid": "u", "annotations": annotations}
    return {"metadata": meta, "spec": {"schedulerName": "volsched", "minAvailable": 1, "tasks": [task]}}
