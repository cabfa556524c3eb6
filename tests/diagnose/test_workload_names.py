"""People are shown the workload of a generated PodGroup, and may ask about it."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.cli.calls import call
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.explain import NotFoundError, explain
from volsched.diagnose.queries import waiting_jobs
from volsched.diagnose.records import Subject
from volsched.diagnose.workload_names import WorkloadName, distinguished, with_workload
from volsched.simulation.documents import documents_in
from volsched.simulation.manifests import read_inventory
from volsched.simulation.runner import Simulation

Json = dict[str, Any]

CONFIGURATION: Final = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}]
"""
REPLICA_SETS: Final = ("web-5d4f", "web-77c9")


def owned_by(kind: str, name: str) -> Json:
    return {"kind": kind, "name": name, "uid": f"uid-{name}", "apiVersion": "apps/v1", "controller": True}


def group(name: str, owner: Json | None = None) -> Json:
    meta = {"name": name, "namespace": "shop", "uid": name, **({"ownerReferences": [owner]} if owner else {})}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": 1, "queue": "default"},
    }


def pod(name: str, in_group: str, owner: Json | None = None, **labels: str) -> Json:
    meta = {
        "name": name,
        "namespace": "shop",
        "labels": labels,
        "annotations": {"scheduling.k8s.io/group-name": in_group} if in_group else {},
        **({"ownerReferences": [owner]} if owner else {}),
    }
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "64"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"schedulerName": "volsched", "containers": [container]},
    }


def of_replica_set(name: str, template: str | None = None) -> list[Json]:
    owner = owned_by("ReplicaSet", name)
    labels = {"pod-template-hash": template if template is not None else name.rpartition("-")[2]}
    return [group(f"podgroup-{name}", owner), pod(f"{name}-x", f"podgroup-{name}", owner, **labels)]


def text_of(*objects: Json) -> str:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "8", "pods": "10"}},
    }
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    return "\n---\n".join(json.dumps(each) for each in (node, queue, *objects))


def run(*objects: Json) -> Simulation:
    inventory = read_inventory(documents_in("test", text_of(*objects)))
    return ClusterSnapshot(tuple(inventory.objects), CONFIGURATION).stage().run()


def names_of(*objects: Json) -> list[str]:
    return [job.workload for job in waiting_jobs(run(*objects))]


@pytest.mark.parametrize(
    ("objects", "name"),
    [
        (of_replica_set("web-5d4f"), "Deployment/web"),
        (of_replica_set("web-5d4f", "77c9"), "ReplicaSet/web-5d4f"),
        (of_replica_set("web", ""), "ReplicaSet/web"),
        ([group("podgroup-1", owned_by("StatefulSet", "db")), pod("db-0", "podgroup-1")], "StatefulSet/db"),
        ([group("podgroup-2", owned_by("PyTorchJob", "fit")), pod("fit-0", "podgroup-2")], "PyTorchJob/fit"),
        ([group("podgroup-3", owned_by("Pod", "alone")), pod("alone", "podgroup-3")], "Pod/alone"),
        ([group("train"), pod("train-0", "train")], "PodGroup/train"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_job_has_the_name_of_its_workload(objects: list[Json], name: str) -> None:
    assert names_of(*objects) == [name]


def test_texts_about_a_job_name_its_workload_and_leave_others_alone() -> None:
    jobs = run(*of_replica_set("web-5d4f"), group("own")).mirror.cluster.jobs
    generated, own = jobs["shop/podgroup-web-5d4f"], jobs["shop/own"]
    text = 'gang of PodGroup "shop/podgroup-web-5d4f" waits; podgroup shop/podgroup-web-5d4f-b too'

    assert with_workload(generated, 'gang of PodGroup "shop/podgroup-web-5d4f" waits') == "gang of Deployment/web waits"
    assert with_workload(generated, "podgroup shop/podgroup-web-5d4f waits") == "Deployment/web waits"
    assert with_workload(own, text) == text


def test_replica_sets_of_one_deployment_are_told_apart() -> None:
    rows = [("shop", WorkloadName("Deployment/web", name)) for name in REPLICA_SETS]
    other = ("bank", WorkloadName("Deployment/web", "web-1"))

    assert distinguished([*rows, other], lambda row: row[0], lambda row: row[1]) == [
        "Deployment/web (ReplicaSet/web-5d4f)",
        "Deployment/web (ReplicaSet/web-77c9)",
        "Deployment/web",
    ]


@pytest.mark.parametrize(
    ("kind", "name"), [("deployment", "web"), ("replicaset", "web-5d4f"), ("pytorchjob", "fit"), ("pod", "web-5d4f-x")]
)
def test_a_workload_of_any_kind_is_explained(kind: str, name: str) -> None:
    fit = [group("podgroup-2", owned_by("PyTorchJob", "fit")), pod("fit-0", "podgroup-2")]
    answer = explain(run(*of_replica_set("web-5d4f"), *fit), Subject(kind, name, "shop"))

    assert answer.state == "waits"
    assert answer.workload == ("PyTorchJob/fit" if name == "fit" else "Deployment/web")


def test_of_two_replica_sets_the_one_that_waits_is_explained() -> None:
    small, waits = of_replica_set("web-5d4f"), of_replica_set("web-77c9")
    small[1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    for objects in ([*small, *waits], [*waits, *small]):
        answer = explain(run(*objects), Subject("deployment", "web", "shop"))

        assert [found.pod for found in answer.pods] == ["shop/web-77c9-x"]


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("deployment", "wbe", "; did you mean shop/web?"),
        ("deploiment", "web", "; did you mean deployment?"),
        ("node", "n", "statefulset"),
    ],
)
def test_an_unknown_workload_is_refused_with_the_one_that_was_meant(kind: str, name: str, meant: str) -> None:
    with pytest.raises(NotFoundError) as refused:
        explain(run(*of_replica_set("web-5d4f")), Subject(kind, name, "shop"))

    assert str(refused.value).endswith(meant)


WEB: Final = text_of(*of_replica_set("web-5d4f"))


@pytest.mark.parametrize("words", [("Deployment/web",), ("deploy", "web"), ("DEPLOYMENT", "web")])
def test_a_workload_is_named_as_tables_and_kubectl_name_it(words: tuple[str, ...]) -> None:
    said = call(
        "explain", *words, "-n", "shop", "-f", "-", "--help-seconds", "0", given=text_of(*of_replica_set("web-5d4f"))
    )

    assert said.exit_code == 3, said.stderr
    assert "deployment shop/web waits" in said.stdout


@pytest.mark.parametrize("words", [("deployment",), ("deployment/web", "web"), ("deployment/",), ("-x-", "y")])
def test_a_name_that_is_missing_or_stated_twice_is_refused(words: tuple[str, ...]) -> None:
    assert call("explain", "-f", "-", "--", *words, given=text_of()).exit_code == 2
