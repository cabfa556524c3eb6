"""Reading manifests: files, folders and lists, and what is said of what cannot be read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.clusters import group, node, pod, queue, stock, volcano_job, workload
from volsched.model import api
from volsched.simulation.documents import InputError, read_documents
from volsched.simulation.manifests import completed, decode, derived_uid, read_inventory

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


def faults(*paths: str | Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_inventory(read_documents([str(path) for path in paths]))
    return [str(problem) for problem in caught.value.problems]


def names(*paths: str | Path) -> list[str]:
    return [found.metadata.name for found in read_inventory(read_documents([str(path) for path in paths])).objects]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_byte_order_mark_and_the_ends_of_lines_of_another_system_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, end: str
) -> None:
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    data = (mark + (POD % "p").replace("\n", end)).encode(encoding)
    file = tmp_path / "p.yaml"
    file.write_bytes(data)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    plain = tmp_path / "plain.yaml"
    plain.write_text(POD % "p")

    [wanted] = read_documents([str(plain)])
    assert [found.raw for found in read_documents([str(file), "-"])] == [wanted.raw, wanted.raw]


def test_a_folder_is_read_in_the_order_of_its_names_and_only_what_has_the_right_ending(tmp_path: Path) -> None:
    for file, name in (("b.yaml", "two"), ("a.yml", "one"), ("c.json", "three"), ("d.txt", "no")):
        (tmp_path / file).write_text(POD % name)
    assert names(tmp_path) == ["one", "two", "three"]


def test_a_folder_without_manifests_is_a_fault(tmp_path: Path) -> None:
    assert faults(tmp_path) == [f"{tmp_path}: the folder has no *.yaml, *.yml, *.json"]


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((POD % "p").encode())))
    assert names("-") == ["p"]


def test_documents_lists_and_lists_of_one_kind_are_taken_apart(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(
        f"{POD % 'a'}---\n# nothing here\n---\napiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n"
        "- {apiVersion: v1, kind: PodList, items: [{metadata: {name: c}}]}\n"
    )
    assert names(file) == ["a", "b", "c"]
    file.write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    assert names(file) == []


def test_times_without_quotes_stay_texts(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p, creationTimestamp: 2026-01-31T10:00:00Z}\n")
    (found,) = read_inventory(read_documents([str(file)])).objects
    assert found.metadata.creation_timestamp == "2026-01-31T10:00:00Z"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no such file or folder"),
        ("a: [", ": is not YAML: "),
        ("a: 1\na: 2", "document 1: kind: is missing"),
        ("a: !!timestamp x", "cannot be read: "),
        ("[" * 5000, "cannot be read: "),
        ('{"kind": "Pod", "metadata": {"name": "\\ud800"}}', "document 1: has a text that is no Unicode"),
        ("hello", "document 1: is no object: it must be a mapping with a kind"),
        ("kind: Pod\n---\n- a", "document 2: is no object"),
        ("kind: List\napiVersion: v1\nitems: {}", ""),
        ("kind: List\napiVersion: v1\nitems: 3", "document 1: List: items: must be a list"),
        ("kind: List\napiVersion: v1\nitems: [3]", "document 1, item 1: is no object"),
        ("metadata: {}", "document 1: kind: is missing"),
        ("actions: allocate", "kind: is missing; a scheduler configuration is given with --config"),
        ("kind: Sprocket\napiVersion: v1", "document 1: kind: Sprocket of v1 is not understood"),
        ("kind: Deploymnt\napiVersion: apps/v1", "is not understood; did you mean Deployment?"),
        ("kind: Job\napiVersion: v1", "Job of v1 is not understood; it is of batch/v1 or batch.volcano.sh/v1alpha1"),
        ("kind: Sprocket\nmetadata: {name: s}", "document 1: Sprocket/default/s: kind: Sprocket is not understood"),
        ("kind: Pod\nmetadata: {name: p}", "document 1: Pod/default/p: apiVersion: is missing; Pod is of v1"),
        ("kind: Pod\napiVersion: 1", "document 1: apiVersion: must be a text; Pod is of v1"),
        ("kind: [Pod]\nmetadata: {name: p}", "document 1: object/default/p: kind: must be a text"),
        ("kind: Pod\napiVersion: v1", "Pod: metadata.name: is missing"),
        (
            "kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {nodeSelector: [a]}",
            "Pod/default/p: spec.nodeSelector: ",
        ),
        ("kind: Pod\napiVersion: v1\nmetadata: 3", "document 1: Pod: metadata: "),
    ],
)
def test_what_cannot_be_read_is_said_with_file_and_document(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "x.yaml"
    if text is not None:
        file.write_text(text)
    if not said:
        assert names(file) == []
        return
    assert all(line.startswith(str(file)) for line in faults(file))
    assert any(said in line for line in faults(file)), faults(file)


def test_a_file_that_is_no_text_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    assert faults(tmp_path / "x.yaml") == [f"{tmp_path / 'x.yaml'}: is not UTF-8 text"]


def test_every_fault_of_every_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Sprocket\napiVersion: v1\n---\nkind: Pod\napiVersion: v1")
    (tmp_path / "b.yaml").write_text("kind: Gear\napiVersion: v1")
    assert len(faults(tmp_path)) == 3


QUANTITIES = [
    (
        {**node("n"), "status": {"allocatable": {"cpu": "12 cores"}}},
        "Node/n: status.allocatable[cpu]: '12 cores' is not a quantity",
    ),
    (pod("p", cpu="two"), "Pod/default/p: spec.containers[0].resources.requests[cpu]: 'two' is not a quantity"),
    (pod("p", cpu="-1"), "spec.containers[0].resources.requests[cpu]: '-1' must not be negative"),
    (queue("q", capability={"cpu": "1x"}), "Queue/q: spec.capability[cpu]: "),
    (group("g", minResources={"cpu": ""}), "PodGroup/default/g: spec.minResources[cpu]: "),
    (group("g", phase="Ready"), "PodGroup/default/g: status.phase: 'Ready' is not one of"),
    (pod("p", status={"phase": "Runing"}), "status.phase: 'Runing' is not one of Pending, Running"),
    ({**queue("q"), "status": {"state": "Shut"}}, "Queue/q: status.state: 'Shut' is not one of Open"),
    (workload("Deployment", "d", -1), "Deployment/default/d: spec.replicas: -1 must be from 0 to 200000"),
    (workload("Job", "j", spec={"parallelism": 10**7}), "Job/default/j: spec.parallelism: 10000000 must be from 0 to"),
    (volcano_job("j", {"a": 1, "b": -1}), "Job/default/j: spec.tasks[1].replicas: -1 must be from 0 to"),
    (pod("p", metadata={"creationTimestamp": "yesterday"}), "metadata.creationTimestamp: 'yesterday' is not a time"),
]


@pytest.mark.parametrize(("manifest", "said"), QUANTITIES)
def test_quantities_states_and_times_that_make_no_sense_are_faults(manifest: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        stock(manifest)
    assert said in str(caught.value)


def test_an_object_that_is_given_twice_is_a_fault() -> None:
    with pytest.raises(InputError, match=r"Pod/default/p: is given twice, first in test, document 1"):
        stock(pod("p"), pod("p", namespace="default"))


def test_namespace_and_uid_are_made_up_where_they_are_missing_and_always_alike() -> None:
    found = completed(decode(pod("p")))
    assert (found.metadata.namespace, found.metadata.uid) == ("default", derived_uid("Pod", "default", "p"))
    assert completed(decode(node("n"))).metadata.namespace == ""
    assert completed(decode(pod("p", namespace="x", metadata={"uid": "u"}))).metadata.uid == "u"
    assert derived_uid("Job", "default", "a") != derived_uid("BatchJob", "default", "a")


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


def test_a_config_map_with_a_configuration_is_found_among_the_objects() -> None:
    other = {**CONFIG, "metadata": {"name": "other"}, "data": {"nginx.conf": "server {}"}}
    found = stock(other, {**CONFIG, "data": {"x.conf": "actions: allocate"}})
    assert found.configuration == "actions: allocate"
    assert found.configuration_source == "test: document 2: ConfigMap/default/c: data[x.conf]"
    assert stock(other).configuration is None


def test_two_configurations_are_a_fault_when_one_of_them_is_wanted() -> None:
    first = {**CONFIG, "data": {"scheduler.conf": "actions: allocate"}}
    second = {**first, "metadata": {"name": "d"}}
    found = stock(first, second)
    with pytest.raises(
        InputError, match=r"ConfigMap/default/d: data\[scheduler.conf\]: holds a scheduler configuration, and so does"
    ):
        found.chosen_configuration()


def test_claims_and_slices_are_understood() -> None:
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    slices = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"a": 1},
    }
    assert [type(found).__name__ for found in stock(claim, slices).objects] == ["ResourceClaim", "ResourceSlice"]


def test_a_node_that_only_says_its_capacity_offers_all_of_it() -> None:
    amounts = {"cpu": "4", "pods": "10"}
    (silent,) = stock({**node("n"), "status": {"capacity": amounts}}).of(api.Node)
    (other,) = stock({**node("n"), "status": {"capacity": amounts, "allocatable": {"cpu": "3"}}}).of(api.Node)
    assert (silent.status.allocatable, other.status.allocatable) == (amounts, {"cpu": "3"})


def test_every_kind_of_the_contract_is_understood() -> None:
    kinds = {
        "v1": "Node Namespace Pod PersistentVolume PersistentVolumeClaim ConfigMap",
        "scheduling.k8s.io/v1": "PriorityClass",
        "scheduling.volcano.sh/v1beta1": "Queue PodGroup",
        "batch.volcano.sh/v1alpha1": "Job",
        "apps/v1": "Deployment ReplicaSet StatefulSet",
        "batch/v1": "Job",
        "resource.k8s.io/v1": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
        "resource.k8s.io/v1beta2": "DeviceTaintRule",
        "storage.k8s.io/v1": "StorageClass",
    }
    manifests = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}}
        for version, listed in kinds.items()
        for kind in listed.split()
    ]
    found = stock(*manifests).objects
    assert len(found) == 20
    assert all(isinstance(item, api.ApiObject) for item in found)
