"""Who may use a queue, tried without a cluster."""

from __future__ import annotations

import pytest

from tests.simulation.clusters import Manifest, group, namespace, node, pending, pod, queue, result, volcano_job
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES

WORDS = (
    'namespace "default" may not use queue "q": its annotation volsched.io/allowed-namespaces lets in namespace vision '
    "only; name another queue, or have whoever runs the cluster let the namespace in"
)


def permitting(rule: str) -> Manifest:
    found = queue("q")
    found["metadata"]["annotations"] = {ALLOWED_NAMESPACES: rule}
    return found


def elsewhere(found: Manifest, name: str) -> Manifest:
    return {**found, "metadata": {**found["metadata"], "namespace": name}}


def test_a_job_that_may_not_use_its_queue_waits_and_says_why() -> None:
    job = volcano_job("train", {"worker": 2}, queue="q")

    found = result(node("n1"), permitting("vision"), job, elsewhere(job, "vision"))

    assert {bind["pod"] for bind in found["binds"]} == {"vision/train-worker-0", "vision/train-worker-1"}
    [entry] = found["pending"]
    assert (entry["pod"], entry["step"], entry["reason"], entry["message"]) == (
        None,
        "enqueue",
        "QueueNotAllowed",
        WORDS,
    )
    assert found["podGroups"][entry["podGroup"]]["phase"] == "Pending"
    assert {"QueueNotAllowed"} == {e["reason"] for e in found["events"] if e["object"].startswith("PodGroup/default")}


def test_admitted_and_running_pods_of_the_input_are_told_apart() -> None:
    found = result(
        node("n1"),
        permitting("vision"),
        group("g", 2, q="q", phase="Inqueue", minResources={"cpu": "8"}),
        pod("waits", "g"),
        pod("runs", "g", on="n1"),
    )

    assert found["binds"] == found["evictions"] == []
    assert pending(found)["waits"]["message"] == WORDS
    assert found["queues"]["q"]["allocated"]["cpu"] == "1"
    assert found["queues"]["q"]["inqueue"] == {}


@pytest.mark.parametrize("rule", ["kubernetes.io/metadata.name=default", "team!=ml", "team=red"])
def test_a_namespace_has_the_label_that_the_api_server_gives_it_declared_or_not(rule: str) -> None:
    work = (node("n1"), permitting(rule), group("g", q="q"), pod("p", "g"))

    undeclared, declared = result(*work), result(*work, namespace("default", team="red"))

    assert bool(undeclared["binds"]) == ("red" not in rule)
    assert bool(declared["binds"])
