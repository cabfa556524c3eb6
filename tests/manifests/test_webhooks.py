"""The component of webhooks: what it adds to an overlay, with certificates by the Job and by cert-manager."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import click
import pytest

from tests.docs.pages import DOCS, blocks
from tests.manifests.applying import apply, installed
from tests.manifests.dockerfile import Image
from tests.manifests.kubelet import Kubelet
from tests.manifests.processes import Processes, Replica
from tests.manifests.rendering import (
    MANIFESTS,
    ROOT,
    SYSTEM,
    Json,
    a_kustomization,
    container,
    kustomize,
    of_kind,
    rendered,
    the,
)
from tests.manifests.test_applied import wait_until_available
from tests.manifests.test_overlays import VERSION
from tools.controlplane import ControlPlane
from volsched.cli import volsched
from volsched.operator.webhooks.webhook_server import PATH

WEBHOOKS = MANIFESTS / "components/webhooks"
CERT_MANAGER = MANIFESTS / "components/webhooks-cert-manager"
NAME = "volsched-webhooks"
JOBS = {"Job", "CronJob"}


def with_webhooks(folder: Path, component: Path = WEBHOOKS, **fields: Any) -> Path:
    return a_kustomization(folder, [MANIFESTS / "overlays/standalone"], [component], **fields)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    return rendered(with_webhooks(tmp_path_factory.mktemp("mine")))


def hooks_of(objects: list[Json]) -> dict[str, Json]:
    return {hook["name"]: hook for hook in the(objects, "ValidatingWebhookConfiguration")["webhooks"]}


def defaults_of(verb: str) -> dict[str, Any]:
    command = volsched.get_command(click.Context(volsched), verb)
    assert command is not None
    return {option.opts[0]: option.default for option in command.params}


# --- what there is --------------------------------------------------------------------------------------------------


def test_nothing_is_blocked_or_delayed_when_nobody_answers(objects: list[Json]) -> None:
    for hook in hooks_of(objects).values():
        assert hook["failurePolicy"] == "Ignore"
        assert hook["timeoutSeconds"] <= 5
        assert hook["sideEffects"] == "None"
        assert hook["matchConditions"]
        for rule in hook["rules"]:
            assert all("/" not in resource and resource != "*" for resource in rule["resources"])


def test_what_runs_in_our_own_namespace_and_kube_system_is_not_asked_about(objects: list[Json]) -> None:
    labels = the(objects, "Namespace")["metadata"]["labels"]
    for name, hook in hooks_of(objects).items():
        terms = {term["key"]: term for term in hook.get("namespaceSelector", {}).get("matchExpressions", ())}
        if name == "queues.volsched.io":
            assert {rule["scope"] for rule in hook["rules"]} == {"Cluster"}
        elif name == "configuration.volsched.io":
            assert labels["volsched.io/webhooks"] in terms["volsched.io/webhooks"]["values"]
        else:
            assert terms["volsched.io/webhooks"]["operator"] == "DoesNotExist"
            assert terms["kubernetes.io/metadata.name"]["values"] == ["kube-system"]


def test_service_leads_to_the_port_at_which_the_controllers_answer(objects: list[Json]) -> None:
    controllers = the(objects, "Deployment", "volsched-controllers")
    service = the(objects, "Service", NAME)["spec"]
    [port] = service["ports"]
    ports = {found["name"]: found["containerPort"] for found in container(controllers)["ports"]}

    assert service["selector"] == controllers["spec"]["selector"]["matchLabels"]
    assert (port["port"], port["targetPort"]) == (443, "webhooks")
    assert f"--webhook-address=:{ports['webhooks']}" in container(controllers)["args"]
    ingress = the(objects, "NetworkPolicy", "volsched-controllers")["spec"]["ingress"]
    assert "webhooks" in {found["port"] for rule in ingress for found in rule["ports"]}
    for hook in hooks_of(objects).values():
        assert hook["clientConfig"]["service"] == {"name": NAME, "namespace": SYSTEM, "path": PATH}


def test_certificate_is_written_where_the_controllers_read_it(objects: list[Json]) -> None:
    controllers = the(objects, "Deployment", "volsched-controllers")
    [volume] = [found for found in controllers["spec"]["template"]["spec"]["volumes"] if found["name"] == "webhooks"]
    [mount] = [found for found in container(controllers)["volumeMounts"] if found["name"] == "webhooks"]
    made, read = defaults_of("certificates"), defaults_of("controllers")

    assert volume["secret"]["secretName"] == made["--secret"]
    assert volume["secret"]["optional"], "PodGroups and Queues are looked after without a certificate"
    assert {read["--webhook-certificate"], read["--webhook-key"]} == {
        f"{mount['mountPath']}/tls.crt",
        f"{mount['mountPath']}/tls.key",
    }
    assert the(objects, "Service", NAME)["metadata"]["name"] == made["--service"]
    assert the(objects, "ValidatingWebhookConfiguration")["metadata"]["name"] == made["--webhook-configuration"]


def test_jobs_are_of_the_image_of_the_overlay_and_of_yours(objects: list[Json], tmp_path: Path) -> None:
    images = [{"name": "volsched", "newName": "registry.example/tools/volsched", "newTag": "mine"}]

    assert images_of(objects) == {f"volsched:{VERSION}"}
    assert images_of(rendered(with_webhooks(tmp_path, images=images))) == {"registry.example/tools/volsched:mine"}


def images_of(objects: list[Json]) -> set[str]:
    pods = [found["spec"]["template"] for found in objects if found["kind"] in {"Deployment", "Job"}]
    pods += [found["spec"]["jobTemplate"]["spec"]["template"] for found in of_kind(objects, "CronJob").values()]
    assert len(pods) == 4
    return {found["image"] for pod in pods for found in pod["spec"]["containers"]}


def test_a_namespace_of_ones_own_takes_one_line(tmp_path: Path) -> None:
    assert SYSTEM not in kustomize(with_webhooks(tmp_path, namespace="batch-system"))


def test_beside_volcano_it_comes_with_the_controllers(tmp_path: Path) -> None:
    resources = [MANIFESTS / "overlays/beside-volcano", MANIFESTS / "base/controllers"]

    objects = rendered(a_kustomization(tmp_path, resources, [WEBHOOKS]))

    assert "--webhook-address=:9443" in container(the(objects, "Deployment", "volsched-controllers"))["args"]
    assert images_of(objects) == {f"volsched:{VERSION}"}


def test_with_cert_manager_nothing_of_the_job_is_left(tmp_path: Path) -> None:
    objects = rendered(with_webhooks(tmp_path, CERT_MANAGER))

    assert not [found for found in objects if found["kind"] in JOBS or "volsched-certificates" in str(found)]
    certificate = the(objects, "Certificate", NAME)
    assert certificate["spec"]["secretName"] == defaults_of("certificates")["--secret"]
    assert certificate["spec"]["dnsNames"] == [f"{NAME}.{SYSTEM}.svc"]
    hooks = the(objects, "ValidatingWebhookConfiguration")
    assert hooks["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": f"{SYSTEM}/{NAME}"}


@pytest.mark.parametrize("block", [b for b in blocks(DOCS / "admission.md") if "yaml" in b.words], ids=str)
def test_kustomizations_of_the_page_render(block: Any, tmp_path: Path) -> None:
    (tmp_path / "volsched").symlink_to(ROOT)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/kustomization.yaml").write_text(block.text)

    hooks = hooks_of(rendered(tmp_path / "mine"))

    if "'mine'" in block.text:
        ours = [c["expression"] for hook in hooks.values() for c in hook["matchConditions"] if c["name"] == "ours"]
        assert len(ours) == 3
        assert all("'mine'" in expression and "'volsched'" not in expression for expression in ours)


# --- on a cluster ---------------------------------------------------------------------------------------------------


def test_it_is_applied_twice_and_the_job_runs_with_its_own_rights(cluster: ControlPlane, tmp_path: Path) -> None:
    folder = with_webhooks(tmp_path)

    with installed(cluster, folder):
        pods = wait_until_available(cluster)
        again = apply(cluster, folder)
        jobs = cluster.api.wait_for(
            f"/api/v1/namespaces/{SYSTEM}/pods?labelSelector=app.kubernetes.io/component=certificates",
            lambda found: bool(found["items"]),
        )

    changed = {name for name, done in again.items() if done == "configured"}
    assert not [name for name in changed if not name.startswith("poddisruptionbudget")], changed
    assert {pod["spec"]["serviceAccountName"] for pod in pods} >= {"volsched-controllers", "volsched-scheduler"}
    assert {pod["spec"]["serviceAccountName"] for pod in jobs["items"]} == {"volsched-certificates"}


def test_as_the_image_the_job_makes_the_certificate_and_every_controllers_pod_answers_with_it(
    cluster: ControlPlane, image: Image, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    with installed(cluster, with_webhooks(mine)):
        jobs = cluster.api.wait_for(
            f"/api/v1/namespaces/{SYSTEM}/pods?labelSelector=app.kubernetes.io/component=certificates",
            lambda found: bool(found["items"]),
        )
        made = Kubelet(cluster, image, tmp_path).run(jobs["items"][0])
        assert made.returncode == 0, made.stdout + made.stderr
        processes = Processes(cluster, image, tmp_path)
        try:
            processes.wait_ready()
            answers = [reviewed(cluster, replica) for replica in processes.replicas["volsched-controllers"]]
        finally:
            processes.close()

    assert [answer["allowed"] for answer in answers] == [False, False]
    assert ["capability" in answer["status"]["message"] for answer in answers] == [True, True]


def reviewed(cluster: ControlPlane, replica: Replica) -> Json:
    """What a replica answers when it is asked as the API server asks, about a queue with a negative capability."""
    hooks = cluster.api.get(f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{NAME}")["webhooks"]
    authority = base64.b64decode(hooks[0]["clientConfig"]["caBundle"]).decode()
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "wrong"}}
    resource = {"group": "scheduling.volcano.sh", "version": "v1beta1", "resource": "queues"}
    request = {"uid": "1", "operation": "CREATE", "resource": resource, "userInfo": {"username": "somebody"}}
    request["object"] = queue | {"spec": {"capability": {"cpu": "-1"}}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return replica.network.inside(_post, json.dumps(review), authority)


def _post(review: str, authority: str) -> Json:
    trusted = ssl.create_default_context(cadata=authority)
    connection = http.client.HTTPConnection("localhost")
    connection.sock = trusted.wrap_socket(
        socket.create_connection(("127.0.0.1", 9443)), server_hostname=f"{NAME}.{SYSTEM}.svc"
    )
    connection.request("POST", PATH, review, {"Content-Type": "application/json"})
    return dict(json.loads(connection.getresponse().read())["response"])
