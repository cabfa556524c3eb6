"""Labels, owners and finalizers of objects: what is kept of them, and what a pod with too many labels is told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from volsched.mirror.apply import Mirror
from volsched.mirror.kept import kept_annotations
from volsched.model import api, labels
from volsched.model.dra import observed
from volsched.testing.builders import a_group, a_pod, put

MANY = {f"k{number:04}": "v" * 60 for number in range(5000)}
OWNER = {"apiVersion": "v1", "kind": "K", "name": "n"}
OWNERS = [*({**OWNER, "uid": str(number)} for number in range(5000)), {**OWNER, "uid": "its", "controller": True}]
NAMES = {"Pod": api.Pod, "PodGroup": api.PodGroup, "PersistentVolumeClaim": api.PersistentVolumeClaim}


def trimmed(kind: type[api.ApiObject], name: str, **meta: Any) -> api.ObjectMeta:
    found = msgspec.convert({"metadata": {"name": "p", "namespace": "ns", **meta}}, kind)
    kept_annotations(()).trim(name, found)
    return found.metadata


@pytest.mark.parametrize("name", NAMES)
def test_an_object_keeps_no_megabyte_of_metadata(name: str) -> None:
    meta = trimmed(
        NAMES[name], name, labels=dict(MANY), annotations=dict(MANY), ownerReferences=OWNERS, finalizers=list(MANY)
    )
    assert len(msgspec.json.encode(meta)) < 2 * labels.MOST_LABELS
    assert meta.controller is not None
    assert meta.controller.uid == "its"


def test_finalizers_of_claims_stay_until_these_are_allocated_as_they_are_written_again_then() -> None:
    raw = {"metadata": {"name": "c", "finalizers": ["a/b", "c/d"], "labels": {"a": "b"}}}
    waits = msgspec.convert(raw, observed.ResourceClaim)
    given = msgspec.convert({**raw, "status": {"allocation": {"devices": {"results": []}}}}, observed.ResourceClaim)
    for found in (waits, given):
        kept_annotations(()).trim("ResourceClaim", found)
    assert waits.metadata.finalizers == ("a/b", "c/d")
    assert given.metadata.finalizers == ()
    assert waits.metadata.labels == given.metadata.labels == {}


def test_labels_of_an_ordinary_pod_and_its_owner_stay() -> None:
    meta = trimmed(api.Pod, "Pod", labels={f"k{number}": "v" for number in range(50)}, ownerReferences=OWNERS[-1:])
    assert len(meta.labels) == 50
    assert len(meta.owner_references) == 1


@pytest.mark.parametrize(("kind", "name"), [(api.Node, "Node"), (api.Namespace, "Namespace"), (api.Queue, "Queue")])
def test_labels_of_what_is_in_no_namespace_all_stay(kind: type[api.ApiObject], name: str) -> None:
    """Node-feature-discovery writes many, and the zone of a node comes after them."""
    meta = trimmed(kind, name, namespace="", labels={**MANY, "topology.kubernetes.io/zone": "a"})

    assert meta.labels == {**MANY, "topology.kubernetes.io/zone": "a"}


def test_a_pod_with_too_many_labels_has_the_first_ones_and_is_told() -> None:
    """The same of what a watch sends, of which some are dropped at once, and of what a file has."""
    looked_at = []
    for is_trimmed in (False, True):
        mirror, pod = Mirror(), put(a_pod("p", on="n", labels=dict(MANY)))
        if is_trimmed:
            kept_annotations(()).trim("Pod", pod.object)
        mirror.apply([pod])
        [task] = mirror.cluster.tasks.values()
        looked_at.append(dict(task.spec.labels))
        [problem] = mirror.events.take_findings()
        assert (problem.field, problem.kind) == ("metadata.labels", "Pod")
    assert looked_at[0] == looked_at[1]
    assert list(looked_at[0]) == sorted(MANY)[: len(looked_at[0])]
    assert (
        labels.MOST_LABELS - 65 <= sum(len(key) + len(text) for key, text in looked_at[0].items()) <= labels.MOST_LABELS
    )


def test_a_pod_group_with_too_many_labels_is_told() -> None:
    mirror = Mirror()
    mirror.apply([put(a_group("g", metadata={"labels": MANY}))])

    [problem] = mirror.events.take_findings()
    assert (problem.field, problem.kind, problem.name) == ("metadata.labels", "PodGroup", "g")
