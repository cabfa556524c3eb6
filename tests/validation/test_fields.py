"""Fields that nobody reads: the seed's own misspelt affinity, what is meant, and any input."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from volsched.validation.fields import MOST_FIELDS, field_faults, schemas

SEED = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: training-job
  annotations:
    volcano.sh/card.request: |
      {
        "NVIDIA-A100": 8
      }
spec:
  schedulerName: volcano
  queue: queue-a
  minAvailable: 1
  tasks:
    - replicas: 8
      name: worker
      template:
        metadata:
          annotations:
            volcano.sh/card.name: "NVIDIA-A100"
        spec:
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoreDuringExecution:
                nodeSelectorTerms:
                - matchExpressions:
                  - key: nvidia.com/gpu.product
                    operation: In
                    values:
                    - NVIDIA-A100
          containers:
            - name: trainer
              image: training:latest
              resources:
                limits:
                  nvidia.com/gpu: 1
                requests:
                  nvidia.com/gpu: 1
"""
"""The Volcano Job of seed 000, as it stands there."""

POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


def said(raw: dict[str, Any]) -> list[tuple[str, str]]:
    return [(fault.field, fault.message) for fault in field_faults(raw)]


def test_a_field_that_is_there_already_is_not_what_was_meant() -> None:
    assert said({**POD, "spec": {"nodeSelectr": {}}}) == [
        ("spec.nodeSelectr", "unknown field; did you mean nodeSelector?")
    ]
    [(field, words)] = said({**POD, "spec": {"nodeSelectr": {}, "nodeSelector": {}}})
    assert (field, "nodeSelector?" in words) == ("spec.nodeSelectr", False)


def test_the_affinity_of_the_seed_is_noticed_with_what_was_meant() -> None:
    required = "spec.tasks[0].template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoreDuringExecution"
    assert said(yaml.safe_load(SEED)) == [
        (required, "unknown field; did you mean requiredDuringSchedulingIgnoredDuringExecution?"),
        (
            f"{required}.nodeSelectorTerms[0].matchExpressions[0].operation",
            "unknown field; did you mean operator?",
        ),
    ]
    right = SEED.replace("IgnoreDuring", "IgnoredDuring").replace("operation", "operator")
    assert said(yaml.safe_load(right)) == []


def test_a_fault_weighs_what_is_asked_for() -> None:
    raw = {**POD, "spec": {"nodeselector": {}}}
    assert {fault.severity for fault in field_faults(raw)} == {"warning"}
    assert {fault.severity for fault in field_faults(raw, "error")} == {"error"}


KINDS = [
    ("v1", "Pod", {"spec": {"nodeSelectr": {"a": "b"}}}, "spec.nodeSelectr", "nodeSelector"),
    ("v1", "Pod", {"metadata": {"anotations": {}}}, "metadata.anotations", "annotations"),
    (
        "apps/v1",
        "Deployment",
        {"spec": {"template": {"spec": {"containers": [{"resource": {}}]}}}},
        "spec.template.spec.containers[0].resource",
        "resources",
    ),
    (
        "apps/v1",
        "StatefulSet",
        {"spec": {"volumeClaimTemplate": []}},
        "spec.volumeClaimTemplate",
        "volumeClaimTemplates",
    ),
    ("batch/v1", "Job", {"spec": {"paralelism": 2}}, "spec.paralelism", "parallelism"),
    (
        "batch/v1",
        "CronJob",
        {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"toleration": []}}}}}},
        "spec.jobTemplate.spec.template.spec.toleration",
        "tolerations",
    ),
    ("scheduling.volcano.sh/v1beta1", "PodGroup", {"spec": {"minMembers": 2}}, "spec.minMembers", "minMember"),
    ("scheduling.volcano.sh/v1beta1", "Queue", {"spec": {"capabilty": {}}}, "spec.capabilty", "capability"),
    ("batch.volcano.sh/v1alpha1", "Job", {"spec": {"minAvailble": 2}}, "spec.minAvailble", "minAvailable"),
    ("batch.volcano.sh/v1alpha1", "Job", {"spec": {"tasks": [{"replica": 2}]}}, "spec.tasks[0].replica", "replicas"),
]


@pytest.mark.parametrize(("version", "kind", "rest", "field", "meant"), KINDS)
def test_every_kind_that_matters_is_looked_at(version: str, kind: str, rest: Any, field: str, meant: str) -> None:
    raw = {"apiVersion": version, "kind": kind, **rest}
    assert said(raw) == [(field, f"unknown field; did you mean {meant}?")]


def test_what_keys_are_free_to_name_is_no_field() -> None:
    assert (
        said(
            {
                **POD,
                "metadata": {
                    "labels": {"any.thing/at-all": "x"},
                    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {"nope": 1}}'},
                    "managedFields": [{"fieldsV1": {"f:spec": {"f:nope": {}}}, "manager": "kubectl"}],
                },
                "spec": {
                    "nodeSelector": {"a": "b"},
                    "containers": [{"name": "c", "resources": {"requests": {"example.com/card": 1}}}],
                },
            }
        )
        == []
    )
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    assert said({**job, "spec": {"plugins": {"svc": []}, "networkTopology": {"mode": "hard"}}}) == []


def test_kinds_whose_fields_are_not_known_are_left_alone() -> None:
    assert said({"apiVersion": "example.com/v1", "kind": "Pod", "spec": {"nope": 1}}) == []
    assert said({"kind": ["Pod"], "spec": {"nope": 1}}) == []


def test_the_first_few_are_named_and_the_walk_ends_there() -> None:
    seen: list[str] = []

    class Watched(dict[str, Any]):
        def items(self) -> Any:
            for item in super().items():
                seen.append(item[0])
                yield item

    found = said({**POD, "spec": Watched({f"x{'y' * 5000}{n}": n for n in range(100_000)})})

    assert len(found) == MOST_FIELDS + 1
    assert found[-1] == ("", f"has more than {MOST_FIELDS} unknown fields")
    assert len(seen) == MOST_FIELDS + 1
    assert max(len(field) for field, _ in found) < 150


def test_nesting_is_as_deep_as_the_schema_and_no_deeper() -> None:
    deep: Any = []
    for _ in range(200_000):
        deep = [deep]
    assert said({**POD, "spec": {"containers": deep, "nodeSelector": deep, "affinity": deep}}) == []


def test_no_type_has_itself_inside() -> None:
    types = schemas().types
    inner = {name: {shape.lstrip("[{") for shape in fields.values()} - {""} for name, fields in types.items()}
    assert all(inside <= types.keys() for inside in inner.values())
    ends = {name for name, inside in inner.items() if not inside}
    while more := {name for name, inside in inner.items() if name not in ends and inside <= ends}:
        ends |= more
    assert ends == types.keys()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=8)
            | st.integers()
            | st.none()
            | st.booleans()
            | st.sampled_from(["spec", "containers", "template", "tasks", "affinity"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from(sorted(schemas().kinds)), st.dictionaries(st.sampled_from(["metadata", "spec", "x"]), ANYTHING))
def test_any_object_gets_an_answer_that_names_fields(kind: str, rest: dict[str, Any]) -> None:
    version, name = kind.split(" ")
    raw = {"apiVersion": version, "kind": name, **rest}
    before = copy.deepcopy(raw)
    found = said(raw)
    assert all(message for _, message in found)
    assert repr(raw) == repr(before)
    assert ("x" in rest) == any(field == "x" for field, _ in found) or len(found) > MOST_FIELDS
