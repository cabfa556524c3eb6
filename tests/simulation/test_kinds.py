"""Folders as teams have them: what has no part in scheduling is left out and counted, a slip of the pen is a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.clusters import Manifest, node, pod, pod_spec, workload
from volsched.framework.validation import Fault
from volsched.simulation.documents import Document, InputError, read_documents
from volsched.simulation.kinds import Why, judged
from volsched.simulation.manifests import Inventory, read_inventory


def thing(version: Any, kind: Any, **rest: Any) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **rest}


def verdict(version: Any, kind: Any, **rest: Any) -> Why | str | None:
    found = judged(Document("test", "document 1", thing(version, kind, **rest)))
    return found.message if isinstance(found, Fault) else found


def read(folder: Path, **options: bool) -> Inventory:
    return read_inventory(read_documents([str(folder)]), **options)


def put(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(content if isinstance(content, str) else yaml.safe_dump_all(content))
    return folder


OF_A_TEAM = {
    "v1": "Secret ServiceAccount Endpoints LimitRange ResourceQuota PodTemplate",
    "networking.k8s.io/v1": "Ingress NetworkPolicy IngressClass",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "admissionregistration.k8s.io/v1": "ValidatingWebhookConfiguration",
    "networking.k8s.io/v1beta1": "Ingress",
    "extensions/v1beta1": "Ingress",
    "policy/v1beta1": "PodSecurityPolicy",
    "bus.volcano.sh/v1alpha1": "Command",
    "topology.volcano.sh/v1alpha1": "HyperNode",
}


@pytest.mark.parametrize(("version", "kind"), [(v, k) for v, kinds in OF_A_TEAM.items() for k in kinds.split()])
def test_kinds_of_kubernetes_and_volcano_without_a_part_in_scheduling_are_left_out(version: str, kind: str) -> None:
    assert verdict(version, kind) is Why.NO_PART


@pytest.mark.parametrize("version", ["autoscaling/v1", "autoscaling/v2", "autoscaling/v2beta2"])
def test_autoscalers_and_cron_jobs_are_read_when_the_most_is_asked_about(version: str) -> None:
    for manifest in (thing(version, "HorizontalPodAutoscaler"), thing("batch/v1", "CronJob")):
        document = Document("test", "document 1", manifest)
        assert judged(document) is Why.AT_MAX
        assert judged(document, plays_at_max=True) is None


def test_kinds_of_others_are_left_out_and_those_with_pods_stand_out() -> None:
    template = {"template": {"spec": {"containers": [{"name": "c"}]}}}
    assert verdict("networking.istio.io/v1", "VirtualService", spec={"hosts": ["a"]}) is Why.FOREIGN
    assert verdict("rabbitmq.com/v1beta1", "Queue", spec={"name": "q"}) is Why.FOREIGN
    assert verdict("argoproj.io/v1alpha1", "Rollout", spec=template) is Why.FOREIGN_PODS
    assert verdict("v1", "ReplicationController") is Why.FOREIGN_PODS
    assert verdict("flow.volcano.sh/v1alpha1", "JobFlow") is Why.FOREIGN_PODS


OF_OTHER_CONTROLLERS = [
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup"),
    ("scheduling.incubator.k8s.io/v1alpha1", "Queue"),
    ("scheduling.run.ai/v2", "Queue"),
    ("kueue.x-k8s.io/v1beta1", "Workload"),
    ("topology.x-k8s.io/v1", "Node"),
    ("batch.tutorial.kubebuilder.io/v1", "CronJob"),
    ("snapshot.storage.k8s.io/v1", "VolumeSnapshot"),
    ("networking.serving.volcano.sh/v1alpha1", "ModelRoute"),
]


@pytest.mark.parametrize(("version", "kind"), OF_OTHER_CONTROLLERS)
def test_kinds_of_other_controllers_are_no_slip_however_like_ours_they_look(version: str, kind: str) -> None:
    assert verdict(version, kind) is Why.FOREIGN


OPERATED = [
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
    ("sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication"),
    ("spark.apache.org/v1", "SparkApplication"),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
    ("flink.apache.org/v1beta1", "FlinkDeployment"),
    ("ray.io/v1", "RayCluster"),
    ("ray.io/v1", "RayJob"),
    ("ray.io/v1", "RayService"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    ("kubeflow.org/v1", "PyTorchJob"),
    ("kubeflow.org/v2beta1", "MPIJob"),
    ("argoproj.io/v1alpha1", "Workflow"),
    ("apps.kruise.io/v1beta1", "StatefulSet"),
    ("workload.serving.volcano.sh/v1alpha1", "ModelServing"),
]


@pytest.mark.parametrize(("version", "kind"), OPERATED)
def test_kinds_of_which_operators_make_pods_stand_out_whatever_is_in_them(version: str, kind: str) -> None:
    assert verdict(version, kind, spec={"replicas": 2}) is Why.FOREIGN_PODS


@pytest.mark.parametrize(("version", "kind"), [("trainer.kubeflow.org/v1alpha1", "Widget"), ("ray.io/v1", "Thing")])
def test_other_kinds_of_operators_do_not(version: str, kind: str) -> None:
    assert verdict(version, kind) is Why.FOREIGN


@pytest.mark.parametrize(
    ("version", "kind", "said"),
    [
        ("apps/v1", "Pood", "did you mean Pod? It is of v1"),
        ("v1", "Deploymnet", "did you mean Deployment? It is of apps/v1"),
        ("batch/v1", "CronJb", "did you mean CronJob?"),
        ("v1", "Config", "did you mean ConfigMap?"),
    ],
)
def test_a_kind_that_is_suggested_is_one_that_its_version_has(version: str, kind: str, said: str) -> None:
    found = verdict(version, kind)
    assert isinstance(found, str)
    assert said in found
    meant, _, other = said.removeprefix("did you mean ").replace("? It is of ", " ").rstrip("?").partition(" ")
    assert not isinstance(judged(Document("test", "document 1", thing(other or version, meant))), Fault)


SLIPS = [
    ("scheduling.volcano.sh/v1alpha9", "Queue", "it is of scheduling.volcano.sh/v1beta1"),
    ("apps/v1beta1", "Deployment", "Deployment of apps/v1beta1 is not understood; it is of apps/v1"),
    ("extensions/v1beta1", "Deployment", "it is of apps/v1"),
    ("apps/v1", "Deploymnet", "did you mean Deployment?"),
    ("networking.k8s.io/v1", "Ingres", "did you mean Ingress?"),
    ("v1", "Secrt", "did you mean Secret?"),
    ("v1", "Sprocket", "Sprocket of v1 is not understood"),
    ("app/v1", "Deployment", "it is of apps/v1"),
    ("scheduling.volcano.io/v1beta1", "Queue", "it is of scheduling.volcano.sh/v1beta1"),
    ("scheduling.volcano.sh/v1beta1", "Thing", "Thing of scheduling.volcano.sh/v1beta1 is not understood"),
    ("batch.volcano.sh/v1", "Job", "it is of batch/v1 or batch.volcano.sh/v1alpha1"),
    ("scheduling.k8s.io/v1alpha1", "PodGroup", "it is of scheduling.volcano.sh/v1beta1"),
    ("scheduling.k8s.io/v1alpha1", "Workload", "Workload of scheduling.k8s.io/v1alpha1 is not understood"),
    ("example/v1", "Widget", "Widget of example/v1 is not understood"),
    ("", "Secret", "is missing; Secret is of v1"),
    (None, "Pod", "is missing; Pod is of v1"),
]


@pytest.mark.parametrize(("version", "kind", "said"), SLIPS)
def test_what_may_be_a_slip_of_the_pen_stays_a_fault(version: Any, kind: str, said: str) -> None:
    found = verdict(version, kind)
    assert isinstance(found, str), found
    assert said in found


def test_one_line_counts_what_was_left_out(tmp_path: Path) -> None:
    rollout = thing("argoproj.io/v1alpha1", "Rollout", spec={"template": {"spec": {"containers": []}}})
    put(
        tmp_path,
        app=[
            *({**thing("v1", "Secret"), "metadata": {"name": f"s{n}"}} for n in range(2)),
            thing("networking.k8s.io/v1", "Ingress"),
            thing("batch/v1", "CronJob", spec={"schedule": "@daily"}),
            thing("networking.istio.io/v1", "Gateway"),
            rollout,
            pod("p"),
        ],
        values="replicas: 3\nimage: {tag: a}\n",
        kustomization="resources: [app.yaml]\n",
        Chart="apiVersion: v2\nname: web\nversion: 1.0.0\n",
        patch="- {op: replace, path: /spec/replicas, value: 2}\n",
    )
    found = read(tmp_path)

    assert [item.metadata.name for item in found.objects] == ["p"]
    assert str(found.left_out) == (
        "left out: 1 Ingress, 2 Secret (no part in scheduling); 1 CronJob (played by `simulate --at-max`); "
        "1 Gateway.networking.istio.io (of other groups, not known here); "
        "1 Rollout.argoproj.io (not known here; their pods are missing); "
        "Chart.yaml, kustomization.yaml, patch.yaml, values.yaml (no objects)"
    )
    assert found.left_out.has_pods
    assert "CronJob" not in str(read(tmp_path, at_max=True).left_out)


def test_many_files_without_objects_are_counted(tmp_path: Path) -> None:
    put(tmp_path, **{f"values-{n}": "a: 1\n" for n in range(8)})
    assert str(read(tmp_path).left_out).endswith(
        "values-0.yaml, values-1.yaml, values-2.yaml, values-3.yaml, values-4.yaml and 3 more (no objects)"
    )


@pytest.mark.parametrize(
    "text",
    [
        "metadata: {name: web}\nspec: {}\n",
        "apiVersion: apps/v1\nmetadata: {}\n",
        "actions: allocate\n",
        "items: []\n",
        "kind: ''\n",
        "- kind: Pod\n",
        "hello\n",
        "a: [\n",
    ],
)
def test_an_object_that_lost_its_kind_is_a_fault_in_a_folder_too(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        read(put(tmp_path, a=text))


def test_a_file_that_was_named_has_to_hold_objects(tmp_path: Path) -> None:
    put(tmp_path, values="replicas: 3\n", patch="- {op: remove, path: /a}\n")
    for name in ("values", "patch"):
        with pytest.raises(InputError):
            read_and_take(tmp_path / f"{name}.yaml")


def read_and_take(file: Path) -> Inventory:
    return read_inventory(read_documents([str(file)]))


def test_nothing_is_left_out_of_an_ordinary_input() -> None:
    documents = [Document("test", f"document {n}", raw) for n, raw in enumerate((node("n"), pod("p")))]
    found = read_inventory(documents)
    assert not found.left_out
    assert found.doubts == []


# --- unknown fields -------------------------------------------------------------------------------------------------


def test_unknown_fields_are_doubts_and_with_strict_faults() -> None:
    web = workload("Deployment", "web", 1, nodeSelectr={"a": "b"})
    job = thing("batch/v1", "CronJob", spec={"jobTemplate": {"spec": {"paralelism": 1}}})
    documents = [Document("test", f"document {n}", raw) for n, raw in enumerate((web, job), start=1)]

    said = [
        "test: document 1: Deployment/default/web: spec.template.spec.nodeSelectr: unknown field; "
        "did you mean nodeSelector?",
        "test: document 2: CronJob/default/x: spec.jobTemplate.spec.paralelism: unknown field; "
        "did you mean parallelism?",
    ]
    assert list(map(str, read_inventory(documents).doubts)) == said
    with pytest.raises(InputError) as caught:
        read_inventory(documents, strict=True)
    assert list(map(str, caught.value.problems)) == said


ANY = st.none() | st.booleans() | st.integers() | st.text(max_size=12) | st.lists(st.integers(), max_size=2)
VERSIONS = st.sampled_from(["v1", "apps/v1", "apps", "/", "a/b/c", "x.y/v1", "scheduling.volcano.sh/v1", "volcano.sh"])
WORDS = st.sampled_from(["Pod", "Deployment", "CronJob", "Queue", "Secret", "Rollout", "podlist", ""])
SPECS = st.recursive(ANY, lambda inner: st.dictionaries(st.sampled_from(["containers", "a"]), inner) | st.lists(inner))


@pytest.mark.slow(reason="hundreds of random inputs")
@given(VERSIONS | ANY, WORDS | ANY, SPECS, st.booleans(), st.booleans())
def test_any_document_is_read_left_out_or_refused_with_a_reason(
    version: Any, kind: Any, spec: Any, among_others: bool, at_max: bool
) -> None:
    document = Document("x", "y", {"apiVersion": version, "kind": kind, "spec": spec}, among_others)
    found = judged(document, plays_at_max=at_max)
    assert found is None or isinstance(found, Why) or (found.message and found.field in ("kind", "apiVersion"))


def test_a_service_account_beside_pods_does_not_keep_them_from_their_nodes() -> None:
    manifests = [node("n"), thing("v1", "ServiceAccount"), {**pod("p"), "spec": pod_spec()}]
    found = read_inventory([Document("test", f"document {n}", raw) for n, raw in enumerate(manifests)])
    assert [type(item).__name__ for item in found.objects] == ["Node", "Pod"]
