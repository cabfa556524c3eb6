import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.objects import container, pod
from volsched.model import api
from volsched.model.errors import ObjectError


def decode(kind: str, version: str = "v1", **fields: Any) -> api.ApiObject:
    return api.decode_object({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields})


def test_a_pod_is_read_with_the_fields_that_matter() -> None:
    found = api.decode_object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "p",
                "namespace": "ns",
                "creationTimestamp": None,
                "ownerReferences": [{"kind": "Job", "name": "j", "uid": "u", "controller": True}],
                "managedFields": [{"anything": 1}],
            },
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "command": ["x"],
                        "resources": {"requests": {"cpu": 1.5, "memory": "1Gi", "nvidia.com/gpu": 1}},
                        "ports": [{"containerPort": 80, "hostIP": "10.0.0.1", "hostPort": 8080}],
                    }
                ],
                "volumes": [
                    {"name": "a", "awsElasticBlockStore": {"volumeID": "vol-1"}},
                    {"name": "b", "gcePersistentDisk": {"pdName": "d"}},
                    {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
                ],
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
                },
            },
        }
    )

    assert isinstance(found, api.Pod)
    assert found.key == "ns/p"
    assert found.metadata.controller == api.OwnerReference("Job", "j", "u", controller=True)
    assert found.spec.containers[0].resources.requests == {"cpu": 1.5, "memory": "1Gi", "nvidia.com/gpu": 1}
    assert found.spec.containers[0].ports == (api.ContainerPort(80, 8080, "10.0.0.1"),)
    assert found.spec.volumes[0].aws_elastic_block_store == api.AWSElasticBlockStore("vol-1")
    assert found.spec.volumes[1].gce_persistent_disk == api.GCEPersistentDisk("d")
    assert found.spec.affinity is not None
    assert found.spec.affinity.pod_anti_affinity is not None
    assert found.spec.affinity.pod_anti_affinity.required[0].topology_key == "zone"


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"spec": {"nodeSelector": [1]}}, "$.spec.nodeSelector", "Expected `object`, got `array`"),
        (
            {"spec": {"nodeSelector": {"a": "b", "example.com/c": True}}},
            "$.spec.nodeSelector[example.com/c]",
            "Expected `str`, got `bool`",
        ),
        ({"spec": {"containers": [{"ports": "x"}]}}, "$.spec.containers[0].ports", "Expected `array`, got `str`"),
        ({"spec": {"containers": [{}, 3]}}, "$.spec.containers[1]", "Expected `object`, got `int`"),
        ({"spec": {"priority": "high"}}, "$.spec.priority", "Expected `int | null`, got `str`"),
        (
            {"spec": {"overhead": {"memory": 1, "cpu": [1]}}},
            "$.spec.overhead[cpu]",
            "Expected `int | float | str`, got `array`",
        ),
        (
            {"spec": {"containers": [{}, {"resources": {"limits": {"nvidia.com/gpu": True}}}]}},
            "$.spec.containers[1].resources.limits[nvidia.com/gpu]",
            "Expected `int | float | str`, got `bool`",
        ),
        ({"metadata": {"name": "x", "labels": 1}}, "$.metadata.labels", "Expected `object`, got `int`"),
        ({"spec": 1}, "$.spec", "Expected `object`, got `int`"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(fields: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(ObjectError) as caught:
        decode("Pod", **fields)

    assert (caught.value.kind, caught.value.name) == ("Pod", "x")
    assert (caught.value.field, caught.value.message) == (path, message)


def test_a_wrong_type_in_json_names_its_path_too() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.nodeSelector"):
        msgspec.json.decode(b'{"metadata":{"name":"x"},"spec":{"nodeSelector":[]}}', type=api.Pod)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"kind": "Pod"},
        {"apiVersion": "v1", "kind": "Deployment"},
        {"apiVersion": "v2", "kind": "Pod"},
        {"apiVersion": ["v1"], "kind": {"a": 1}},
        {"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "ns"}},
        [],
        None,
        "Pod",
    ],
)
def test_what_is_no_known_kind_is_an_error(raw: Any) -> None:
    with pytest.raises(ObjectError):
        api.decode_object(raw)


def test_the_error_names_an_unknown_kind_and_its_object() -> None:
    with pytest.raises(ObjectError, match=r"^Widget/ns/w: \$\.kind: v1 Widget is not understood$"):
        api.decode_object({"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "ns"}})


@pytest.mark.parametrize(("version", "kind"), sorted(api.KINDS))
def test_every_kind_reads_an_empty_object(version: str, kind: str) -> None:
    found = decode(kind, version)

    assert type(found) is api.KINDS[version, kind]
    assert found.key == "x"


def test_nulls_count_as_absent_at_every_depth() -> None:
    found = decode("Pod", spec={"nodeSelector": None, "containers": [{"resources": {"limits": None}, "ports": None}]})

    assert isinstance(found, api.Pod)
    assert found.spec == api.PodSpec(containers=(api.Container(),))


def test_nulls_stay_where_a_queue_says_amounts() -> None:
    spec = {
        "weight": None,
        "parent": None,
        "capability": {"cpu": None, "memory": "1Gi"},
        "deserved": None,
        "guarantee": {"resource": {"cpu": None}},
        "dra": {"capability": {"gpu": None, "nic": {"count": None}}, "deserved": None},
    }
    found = decode("Queue", "scheduling.volcano.sh/v1beta1", spec=spec)

    assert isinstance(found, api.Queue)
    assert (found.spec.weight, found.spec.parent, found.spec.deserved) == (1, "", {})
    assert found.spec.capability == {"cpu": None, "memory": "1Gi"}
    assert found.spec.guarantee.resource == {"cpu": None}
    assert found.spec.dra == spec["dra"]
    assert (
        decode("Queue", "scheduling.volcano.sh/v1beta1", spec={"dra": None, "capability": None}).spec == api.QueueSpec()
    )


def test_yaml_niceties_become_what_json_would_hold() -> None:
    found = api.decode_as(
        api.Pod,
        {
            "metadata": {
                "name": "x",
                "creationTimestamp": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
                "labels": {2: "two", True: "yes"},
            }
        },
    )

    assert found.metadata.creation_timestamp == "2026-01-02T03:04:05Z"
    assert found.metadata.labels == {"2": "two", "true": "yes"}


def test_volcano_objects_are_read() -> None:
    queue = decode(
        "Queue",
        "scheduling.volcano.sh/v1beta1",
        spec={
            "weight": 3,
            "capability": {"cpu": 4, "NVIDIA-A100": "8"},
            "guarantee": {"resource": {"cpu": "1"}},
            "reclaimable": False,
            "dra": ["anything", {"at": "all"}],
            "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g"]}},
        },
    )
    group = decode(
        "PodGroup",
        "scheduling.volcano.sh/v1beta1",
        spec={"minMember": 2, "minTaskMember": {"worker": 2}, "minResources": {"cpu": 2}},
        status={"phase": "Inqueue", "conditions": [{"type": "Scheduled", "transitionID": "t"}]},
    )
    job = decode(
        "Job",
        "batch.volcano.sh/v1alpha1",
        spec={
            "minAvailable": 2,
            "plugins": {"svc": [], "env": None},
            "tasks": [
                {"name": "w", "replicas": 2, "template": {"spec": {"containers": [container(requests={"cpu": 1})]}}}
            ],
        },
    )

    assert isinstance(queue, api.Queue)
    assert queue.spec.dra == ["anything", {"at": "all"}]
    assert queue.spec.affinity == api.QueueAffinity(api.NodeGroupAffinity(required=("g",)))
    assert isinstance(group, api.PodGroup)
    assert group.status.conditions[0].transition_id == "t"
    assert isinstance(job, api.Job)
    assert job.spec.tasks[0].template.spec.containers[0].resources.requests == {"cpu": 1}


def test_what_is_written_again_has_only_what_was_given() -> None:
    written = msgspec.json.encode(pod({"hostNetwork": True}, name="p"))

    assert msgspec.json.decode(written) == {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"hostNetwork": True},
        "status": {},
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({field.encode_name for field in msgspec.structs.fields(api.PodSpec)})


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4), JSON, JSON)
def test_any_json_is_a_pod_or_an_object_error(spec: dict[str, Any], metadata: Any, status: Any) -> None:
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
    try:
        found = api.decode_object(raw)
    except ObjectError:
        return
    assert isinstance(found, api.Pod)
