"""PodGroups and Workloads of scheduling.k8s.io, judged before anybody schedules them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.clusters import Manifest, namespace, queue, volcano_job
from tests.validation.test_objects import permitting, problems, together
from volsched.testing.builders import a_member, a_native_group

QUEUE_NAME = "scheduling.volcano.sh/queue-name"
QUEUE = f"metadata.annotations[{QUEUE_NAME}]"
MEMBER = "spec.schedulingGroup.podGroupName"
FROM_WORKLOAD: dict[str, dict[str, Any]] = {
    "v1alpha2": {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}},
    "v1beta1": {"workloadRef": {"workloadName": "w", "templateName": "t"}},
}


def a_workload(name: str, version: str = "v1alpha2", **annotations: str) -> Manifest:
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": f"scheduling.k8s.io/{version}", "kind": "Workload", "metadata": metadata, "spec": {}}


def in_queue(name: str) -> dict[str, str]:
    return {QUEUE_NAME: name}


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"minimum": 0}, "spec.schedulingPolicy.gang.minCount", "must be at least 1"),
        ({"schedulingPolicy": {}}, "spec.schedulingPolicy", "must say one of basic and gang"),
        ({"disruptionMode": "All"}, "spec.disruptionMode", '"All" is neither Pod nor PodGroup'),
        ({"schedulingConstraints": {"racks": 1}}, "spec.schedulingConstraints", "unknown field `racks`"),
    ],
)
def test_a_group_that_would_not_be_placed_is_wrong(spec: dict[str, Any], field: str, words: str) -> None:
    [problem] = problems(a_native_group("g", **{"minimum": 2, **spec}))
    assert (problem.object, problem.field, problem.severity) == ("PodGroup/default/g", field, "error")
    assert words in problem.message


@pytest.mark.parametrize("kind", ["PodGroup", "Workload"])
def test_its_queue_is_judged_beside_those_that_are_given(kind: str) -> None:
    def naming(name: str) -> Manifest:
        if kind == "Workload":
            return a_workload("g", **in_queue(name))
        return a_native_group("g", 2, annotations=in_queue(name))

    about = f"{kind}/default/g"
    assert together(queue("team"), naming("team")) == []
    assert together(queue("team"), naming("taem")) == [(about, QUEUE, "warning")]
    assert together(naming("root")) == [(about, QUEUE, "error")]
    assert together(permitting("team", "vision"), namespace("default"), naming("team")) == [(about, QUEUE, "error")]


@pytest.mark.parametrize("version", FROM_WORKLOAD)
def test_its_workload_is_looked_for_where_some_are_given(version: str) -> None:
    [reference] = FROM_WORKLOAD[version]
    group = a_native_group("g", 2, version=version, **FROM_WORKLOAD[version])
    assert together(group) == []
    assert together(group, a_workload("w", version)) == []
    [(about, field, severity)] = together(group, a_workload("other", version))
    assert (about, severity) == ("PodGroup/default/g", "warning")
    assert field.startswith(f"spec.{reference}.")


def test_the_group_of_a_pod_is_looked_for_where_some_are_given() -> None:
    group = a_native_group("g", 2)
    assert together(a_member("p", "h")) == []
    assert together(group, a_member("p", "g")) == []
    assert together(group, a_member("p", "h")) == [("Pod/default/p", MEMBER, "warning")]


def test_a_member_is_judged_by_the_queue_that_it_names_whatever_podgroup_of_volcano_it_names() -> None:
    names = {**in_queue("team"), "scheduling.k8s.io/group-name": "g"}
    found = together(permitting("team", "vision"), namespace("default"), a_member("p", "g", annotations=names))
    assert found == [("Pod/default/p", QUEUE, "error")]


def test_pods_of_a_volcano_job_have_one_group() -> None:
    job = volcano_job("train", {"worker": 1})
    job["spec"]["tasks"][0]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    assert together(job) == [("Job/default/train", "spec.tasks[0].template.spec.schedulingGroup", "error")]
