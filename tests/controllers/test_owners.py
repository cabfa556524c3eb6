"""An owner is matched by namespace, group, kind, name and uid: who names another's uid is nobody's pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.controllers.cases import (
    NOW,
    Cluster,
    Json,
    a_group,
    a_job,
    a_pod,
    a_task,
    a_workload,
    annotations_of,
    reference,
)
from volsched.controllers.group_controller import reconcile_group, reconcile_pod
from volsched.controllers.grouping import GROUP_MIN_MEMBER
from volsched.controllers.job_controller import reconcile
from volsched.controllers.store import Key
from volsched.controllers.writes import Create
from volsched.model import api
from volsched.model.changes import Deleted

JOB = reference("Job", "train", "batch.volcano.sh/v1alpha1")
WEB = reference("ReplicaSet", "web")
FORGED_JOBS = [
    {**JOB, "name": "other"},
    {**JOB, "uid": "other"},
    {**JOB, "kind": "ReplicaSet"},
    {**JOB, "apiVersion": "batch/v1"},
    {**JOB, "apiVersion": "v1"},
]
FORGED_OWNERS = [{**WEB, "name": "other"}, {**WEB, "kind": "StatefulSet"}, {**WEB, "apiVersion": "example.com/v1"}]


def in_namespace(found: Any, namespace: str, owner: Json | None = None) -> Any:
    changes: dict[str, Any] = {"namespace": namespace}
    if owner is not None:
        changes["owner_references"] = api.decode_as(
            api.PodGroup, {"metadata": {"ownerReferences": [owner]}}
        ).metadata.owner_references
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, **changes))


def a_cluster_with_a_job(**spec: Any) -> Cluster:
    cluster = Cluster()
    cluster.store.put_job("ns/train", a_job(a_task("worker", 1), phase="Running", **spec))
    cluster.keys.clear()
    return cluster


def a_failed_pod(name: str, owner: Json) -> api.Pod:
    annotations = {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": "0", "volcano.sh/job-version": "0"}
    return a_pod(name, owner=owner, annotations=annotations, phase="Failed")


@pytest.mark.parametrize("owner", FORGED_JOBS, ids=str)
def test_a_pod_that_does_not_name_a_job_rightly_is_none_of_its_pods(owner: Json) -> None:
    cluster = a_cluster_with_a_job(policies=[{"event": "*", "action": "RestartJob"}])
    cluster.put(a_failed_pod("train-worker-0", owner))
    cluster.store.gone(Deleted("Pod", "ns", "train-worker-0", "uid-train-worker-0"))
    cluster.put(a_failed_pod("another", owner))

    view = cluster.store.jobs["ns/train"]
    around = cluster.store.around(view)

    assert list(around.pods) == []
    assert list(view.losses) == []
    assert Key("Job", "ns/train") not in cluster.keys
    assert not reconcile(view, around, NOW).acted


def test_nor_is_one_of_another_namespace() -> None:
    cluster = a_cluster_with_a_job(policies=[{"event": "*", "action": "RestartJob"}])
    cluster.put(in_namespace(a_failed_pod("train-worker-0", JOB), "tenant"))

    view = cluster.store.jobs["ns/train"]

    assert not reconcile(view, cluster.store.around(view), NOW).acted
    assert list(cluster.store.around(view).pods) == []


def test_one_that_does_is_one() -> None:
    cluster = a_cluster_with_a_job(policies=[{"event": "*", "action": "RestartJob"}])
    cluster.put(a_failed_pod("train-worker-0", JOB))

    view = cluster.store.jobs["ns/train"]

    assert reconcile(view, cluster.store.around(view), NOW).acted


@pytest.mark.parametrize("owner", [*FORGED_JOBS[:2], WEB, None], ids=str)
def test_a_podgroup_of_the_name_of_a_jobs_that_is_not_the_jobs_is_not_used(owner: Json | None) -> None:
    cluster = a_cluster_with_a_job()
    cluster.put(in_namespace(a_group("train-uid-train", phase="Inqueue"), "ns", owner))

    view = cluster.store.jobs["ns/train"]
    writes = reconcile(view, cluster.store.around(view), NOW).writes

    [create] = [write for write in writes if isinstance(write, Create)]
    assert (create.kind.name, create.is_own) == ("PodGroup", True)


@pytest.mark.parametrize("owner", FORGED_OWNERS, ids=str)
def test_what_a_workload_says_reaches_no_pod_that_names_another(owner: Json) -> None:
    said = {GROUP_MIN_MEMBER: "7", "volcano.sh/card.request": "{}"}
    cluster = Cluster().put(a_workload("web", 7, said), a_pod("web-0", owner=owner))

    writes = list(reconcile_group(cluster.store, "ns/podgroup-uid-web"))

    for write in writes:  # one of a kind that is not followed has a PodGroup of its own, as any other of such a kind
        assert isinstance(write, Create)
        assert write.body["spec"]["minMember"] == 1
        assert annotations_of(write.body) == {}


def test_nor_one_of_another_namespace_and_its_going_deletes_nothing_there() -> None:
    cluster = Cluster().put(a_workload("web", 0, {GROUP_MIN_MEMBER: "7"}))
    cluster.put(in_namespace(a_pod("web-0", owner=WEB), "tenant"))
    assert list(reconcile_group(cluster.store, "tenant/podgroup-uid-web")) == []
    cluster.put(in_namespace(a_group("podgroup-uid-web"), "tenant", WEB))
    assert list(reconcile_group(cluster.store, "tenant/podgroup-uid-web")) == []

    cluster.store.gone(Deleted("ReplicaSet", "ns", "web", "uid-web"))

    assert list(reconcile_group(cluster.store, "tenant/podgroup-uid-web")) == []


@pytest.mark.parametrize("owner", [*FORGED_OWNERS, None], ids=str)
def test_a_pod_is_not_put_into_a_podgroup_of_its_name_that_is_not_its_owners(owner: Json | None) -> None:
    cluster = Cluster().put(a_workload("web"), a_pod("web-0", owner=WEB))
    cluster.put(in_namespace(a_group("podgroup-uid-web"), "ns", owner))

    assert list(reconcile_pod(cluster.store, "uid-web-0")) == []


def test_tables_end_with_the_pods_that_they_are_about() -> None:
    cluster = a_cluster_with_a_job()
    names = [("a", None), ("b", WEB), ("train-worker-0", JOB), ("c", FORGED_JOBS[1])]
    for name, owner in names:
        cluster.put(a_pod(name, owner=owner))
    cluster.put(a_pod("a", owner=WEB))  # adopted

    for name, _ in names:
        cluster.store.gone(Deleted("Pod", "ns", name, f"uid-{name}"))

    store = cluster.store
    assert (store.pods, store._pods_of_group, store._pod_indexes) == ({}, {}, {})
