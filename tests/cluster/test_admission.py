"""Admission on a real API server: what kubectl shows, what is never asked, and what happens when nobody answers."""

from __future__ import annotations

import json
import re
import socket
import ssl
import uuid
from typing import Any

import yaml
from cryptography import x509

from plugins.mgpu.devices import POLICY
from tests.cluster.admitting import (
    HOOKS,
    NO_QUOTA,
    QUOTA,
    SECRET,
    Admitting,
    a_queue,
    run_certificates,
)
from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import AT_WORK
from tests.cluster.scheduling import CONFIG, GROUPS, MANIFESTS, SYSTEM, Json, eventually
from tests.validation.test_fields import SEED
from tools.controlplane import a_pod
from tools.patience import PATIENCE
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES

pytest_plugins = [
    "tests.cluster.scheduling_fixtures",
    "tests.cluster.controlling_fixtures",
    "tests.cluster.admitting_fixtures",
]

CORE = "vke.volcengine.com/mgpu-core"
MEMORY = "vke.volcengine.com/mgpu-memory"
MULTIPLE = "vke.volcengine.com/container-multiple-gpu"


def a_group(namespace: str, **spec: Any) -> Json:
    metadata = {"name": f"group-{uuid.uuid4().hex[:6]}", "namespace": namespace}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def a_configuration(text: str) -> Json:
    metadata = {"name": CONFIG, "namespace": SYSTEM}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"volsched.conf": text}}


def sharing(scheduler: str, namespace: str, cards: str | None, *containers: Json) -> Json:
    """A pod of containers that ask for so much of shared cards."""
    made = [
        {"name": f"c{number}", "image": "x", "resources": {"limits": asks, "requests": asks}}
        for number, asks in enumerate(containers)
    ]
    annotations = {} if cards is None else {MULTIPLE: cards}
    pod = a_pod("shared", scheduler=scheduler, annotations=annotations, spec={"containers": made})
    pod["metadata"]["namespace"] = namespace
    return pod


# --- what people see ------------------------------------------------------------------------------------------------


REFUSED = [
    (None, [{CORE: "20", MEMORY: "128"}], "MGPU102", "mgpu-memory must be >= 256 MiB for a shared card"),
    (None, [{CORE: "120"}], "MGPU103", "mgpu-core above 100 must be a multiple of 100"),
    (None, [{CORE: "200", MEMORY: "6k"}], "MGPU104", "mgpu-memory must not be set with whole cards"),
    (None, [{CORE: "0", MEMORY: "1024"}], "MGPU101", "mgpu-core must be > 0"),
    ("3,2", [{CORE: "200", MEMORY: "6k"}], "MGPU201", "2 counts for 1 container"),
    ("-1,2", [{CORE: "200", MEMORY: "6k"}] * 2, "MGPU202", "is not a card count"),
    ("2", [{CORE: "200", MEMORY: "6k"}], "MGPU203", "memory must not be set"),
    ("3", [{CORE: "90", MEMORY: "600"}], "MGPU204", "memory per card must be >= 256 MiB"),
    ("3", [{CORE: "130", MEMORY: "6k"}], "MGPU205", "not divisible by the card count"),
    ("2", [{CORE: "300", MEMORY: "8192"}], "MGPU206", "core per card must be <= 100"),
    ("2,0", [{CORE: "60", MEMORY: "4096"}, {CORE: "60", MEMORY: "4096"}], "MGPU207", "count and request disagree"),
]


def test_kubectl_shows_every_rule_of_shared_cards_with_code_and_text(asked: Admitting, namespace: str) -> None:
    name = asked.controlled.name
    for cards, containers, code, text in REFUSED:
        said = asked.apply(sharing(name, namespace, cards, *containers))

        assert said.is_refusal, (code, said)
        assert 'admission webhook "pods.volsched.io" denied the request: Pod/' in said.text
        assert f"[{code}]" in said.text
        assert text in said.text
    assert not asked.apply(sharing(name, namespace, "2", {CORE: "100", MEMORY: "8192"})).is_refusal
    assert asked.reviews("pods") == len(REFUSED) + 1


def test_what_is_ours_of_the_rules_is_shown_too(asked: Admitting, namespace: str) -> None:
    name = asked.controlled.name
    early = sharing(name, namespace, None, {CORE: "20", MEMORY: "512"})
    containers = early["spec"]["containers"]
    early["spec"]["initContainers"], early["spec"]["containers"] = containers, [{"name": "main", "image": "x"}]
    long = sharing(name, namespace, None, {CORE: "20", MEMORY: "512"})
    long["spec"]["containers"][0]["name"] = "x" * 44
    odd = sharing(name, namespace, None, {CORE: "20", MEMORY: "512"})
    odd["metadata"]["annotations"] = {POLICY: "whatever"}

    for pod, code in ((early, "MGPU301"), (long, "MGPU302"), (odd, "MGPU303")):
        assert f"[{code}]" in asked.apply(pod).text, code


def test_workloads_and_volcano_jobs_are_refused_where_their_pods_would_be(asked: Admitting, namespace: str) -> None:
    pod = sharing(asked.controlled.name, namespace, None, {CORE: "120"})
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod["spec"]}
    metadata = {"name": "web", "namespace": namespace}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    tasks = [{"name": "a", "replicas": 1, "template": template}]
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata}
    job["spec"] = {"schedulerName": asked.controlled.name, "minAvailable": 2, "tasks": tasks}

    refused, also = asked.apply(deployment), asked.apply(job)

    assert "Deployment/" in refused.text
    assert "spec.template.spec.containers[0]" in refused.text
    assert "[MGPU103]" in refused.text
    assert "spec.minAvailable: 2 is more than the 1 replicas of all tasks" in also.text
    assert "[MGPU103]" in also.text


def a_job_of(asked: Admitting, namespace: str, **container: Any) -> Json:
    """A Volcano Job whose template may say anything, as the CRD lets it."""
    template = {"spec": {"containers": [{"name": "c", "image": "i", **container}]}}
    spec = {"schedulerName": asked.controlled.name, "tasks": [{"name": "w", "replicas": 1, "template": template}]}
    metadata = {"name": f"job-{uuid.uuid4().hex[:6]}", "namespace": namespace}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}


def test_a_volcano_job_of_which_no_pods_can_be_made_is_refused(asked: Admitting, namespace: str) -> None:
    for spoilt in ("env", "volumeMounts"):
        said = asked.apply(a_job_of(asked, namespace, **{spoilt: 5}))

        assert said.is_refusal
        assert f"template.spec.containers[0].{spoilt}: Expected `array`, got `int` [WrongType]" in said.text
    assert not asked.apply(a_job_of(asked, namespace, env=[{"name": "A", "value": "b"}])).is_refusal


def test_of_1000_bad_tolerations_the_first_are_named(asked: Admitting, namespace: str) -> None:
    job = a_job_of(asked, namespace)
    bad = [{"key": "a", "operator": "Odd", "effect": f"Effect{number}"} for number in range(1000)]
    job["spec"]["tasks"][0]["template"]["spec"]["tolerations"] = bad

    said = asked.apply(job)

    assert said.is_refusal
    assert "spec.tasks[0].template.spec.tolerations[0].operator" in said.text
    assert re.search(r": \d{3} more$", said.text.strip())


def test_what_is_too_large_to_be_read_is_let_in(asked: Admitting, namespace: str) -> None:
    large = a_job_of(asked, namespace, env=[{"name": f"N{number}", "value": "x" * 1000} for number in range(1100)])

    assert not asked.apply(large).is_refusal

    [process] = asked.ports.values()
    answered = 'volsched_admission_reviews_total{answer="too_large",operation="",resource=""}'
    assert process.metric(answered) == 1
    assert asked.apply(a_job_of(asked, namespace, env=5)).is_refusal


def test_a_misspelt_field_of_a_pod_in_a_volcano_job_is_shown_or_refused(admitting: Admitting, namespace: str) -> None:
    job = yaml.safe_load(SEED)
    job["metadata"]["namespace"] = namespace
    job["spec"] |= {"schedulerName": admitting.controlled.name, "queue": "default"}
    admitting.make_certificates()
    (lenient, _), (strict, _) = admitting.replica(), admitting.replica("--webhook-strict")
    admitting.ask(lenient)
    warned = admitting.apply(job)
    admitting.ask(strict)
    refused = admitting.apply({**job, "metadata": {**job["metadata"], "name": "other"}})

    meant = "unknown field; did you mean requiredDuringSchedulingIgnoredDuringExecution? [UnknownField]"
    assert not warned.is_refusal
    assert f"Warning: Job/{namespace}/training-job: spec.tasks[0].template.spec.affinity.nodeAffinity." in warned.text
    assert meant in warned.text
    assert "did you mean operator?" in warned.text
    assert refused.is_refusal
    assert meant in refused.text


def test_queues_are_refused_warned_about_and_let_in(asked: Admitting, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    bad = asked.apply(a_queue("q", NO_QUOTA))
    device = asked.apply(a_queue("q", dra={"capability": {"gpu.example.com": {"count": "1.5"}}}))
    doubtful = asked.apply(a_queue("q", '{"A100": 4}'))
    good = asked.apply(a_queue("q"))

    assert bad.is_refusal
    assert 'denied the request: Queue/q: metadata.annotations[volcano.sh/card.quota]["A100"]' in bad.text
    assert device.is_refusal, device
    assert not doubtful.is_refusal
    assert "Warning: Queue/q: " in doubtful.text
    assert 'no node offers the card "A100"' in doubtful.text
    assert not good.is_refusal
    assert "Warning" not in good.text


def test_podgroups_and_the_configuration_are_judged(asked: Admitting, namespace: str) -> None:
    group = asked.apply(a_group(namespace, queue="root"))
    wrong = asked.apply(a_configuration('actions: "allocat"'))
    right = asked.apply(a_configuration('actions: "allocate"\ntiers: [{plugins: [{name: predicates}]}]'))

    assert group.is_refusal
    assert "spec.queue: the root takes no work; use a queue below it [Forbidden]" in group.text
    assert wrong.is_refusal
    assert "did you mean allocate?" in wrong.text
    assert "line 1" in wrong.text
    assert not right.is_refusal


def test_queues_that_are_needed_cannot_be_deleted(asked: Admitting, namespace: str) -> None:
    [process] = asked.ports.values()
    process.wait_for(AT_WORK)
    asked.controlled.api.wait_for(f"{GROUPS}/queues/default", lambda _: True)
    name = asked.controlled.queue(f"team-{uuid.uuid4().hex[:6]}")
    group = a_group(namespace, queue=name, minMember=1)
    asked.controlled.api.create(f"{GROUPS}/namespaces/{namespace}/podgroups", group)
    eventually(lambda: process.metric(f'volcano_queue_pod_group_pending_count{{queue_name="{name}"}}') == 1)

    standing, held = (asked.kubectl("delete", "queue", which, "--wait=false") for which in ("default", name))

    assert "queue 'default' always exists and cannot be deleted [Forbidden]" in standing.text
    assert "1 PodGroup in it not completed; set spec.state to Closed, and delete it once empty" in held.text
    asked.controlled.api.delete(f"{GROUPS}/namespaces/{namespace}/podgroups/{group['metadata']['name']}")
    eventually(lambda: not asked.kubectl("delete", "queue", name, "--wait=false").is_refusal)


# --- nobody is locked out -------------------------------------------------------------------------------------------


def test_what_was_wrong_before_can_still_be_changed_and_deleted(admitting: Admitting) -> None:
    api = admitting.controlled.api
    name = f"old-{uuid.uuid4().hex[:6]}"
    api.create(f"{GROUPS}/queues", a_queue(name, "no json"))
    path = f"{GROUPS}/queues/{name}"
    api.patch(path, {"metadata": {"finalizers": ["example.com/held"]}})
    admitting.make_certificates()
    port, _ = admitting.replica()
    admitting.ask(port)
    before = admitting.reviews("queues", "UPDATE")

    api.patch(f"{path}/status", {"status": {"pending": 1}})
    api.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert admitting.reviews("queues", "UPDATE") == before
    weighted = admitting.kubectl("patch", "queue", name, "--type=merge", "-p", '{"spec":{"weight":3}}')
    annotations = json.dumps({"metadata": {"annotations": {QUOTA: NO_QUOTA}}})
    worse = admitting.kubectl("patch", "queue", name, "--type=merge", "-p", annotations)
    assert not weighted.is_refusal
    assert "Warning: Queue/" in weighted.text
    assert QUOTA in weighted.text
    assert "denied the request" in worse.text
    api.delete(path)
    api.patch(path, {"metadata": {"finalizers": None}})
    assert api.find(path) is None


def test_unrelated_requests_never_reach_the_webhook(asked: Admitting, namespace: str) -> None:
    name = asked.controlled.name
    foreign = sharing("default-scheduler", namespace, "-1", {CORE: "120"})
    plain = a_pod("plain", scheduler=name, cpu="1")
    plain["metadata"] = {"name": "plain", "namespace": namespace}
    elsewhere = a_configuration("actions: nonsense")
    elsewhere["metadata"]["namespace"] = namespace
    ours = sharing(name, SYSTEM, None, {CORE: "120"})
    ours["spec"] = {**ours["spec"], **RESTRICTED}
    for container in ours["spec"]["containers"]:
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

    for unrelated in (foreign, plain, elsewhere, ours):
        said = asked.apply(unrelated)
        assert not said.is_refusal, said

    assert asked.reviews("pods") == asked.reviews("configmaps") == 0


RESTRICTED = {"securityContext": {"runAsNonRoot": True, "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}}}


# --- who answers ----------------------------------------------------------------------------------------------------


def test_the_api_server_goes_on_when_nobody_answers(asked: Admitting, namespace: str) -> None:
    [process] = asked.ports.values()
    process.kill()
    asked.ports.clear()

    said = [
        asked.apply(sharing(asked.controlled.name, namespace, None, {CORE: "120"})),
        asked.apply(a_queue("q", NO_QUOTA)),
        asked.apply(a_group(namespace, queue="root")),
        asked.apply(a_configuration("actions: nonsense")),
    ]

    assert [one.status for one in said] == [0, 0, 0, 0], said


def test_a_replica_that_does_not_lead_answers_too(asked: Admitting, namespace: str) -> None:
    [leader] = asked.ports.values()
    leader.wait_for(AT_WORK)
    port, follower = asked.replica()
    asked.ask(port)
    assert json.loads(follower.page("/configz")[1])["leader"] is False

    said = asked.apply(sharing(asked.controlled.name, namespace, None, {CORE: "120"}))

    assert "[MGPU103]" in said.text
    assert leader.metric('volsched_admission_reviews_total{answer="refused",operation="CREATE",resource="pods"}') == 0


# --- certificates ---------------------------------------------------------------------------------------------------


def serial_at(port: int) -> int:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as raw, context.wrap_socket(raw) as tls:
        found = tls.getpeercert(binary_form=True)
    assert found is not None
    return x509.load_der_x509_certificate(found).serial_number


def test_certificates_are_renewed_without_a_restart_and_nobody_is_turned_away(asked: Admitting, namespace: str) -> None:
    [(port, process)] = asked.ports.items()
    pod = sharing(asked.controlled.name, namespace, None, {CORE: "120"})
    first = serial_at(port)
    assert "nothing to do" in asked.make_certificates()

    said = asked.run_certificates("--valid-for", "8761h", "--renew-before", "8760h")
    new = asked.made()
    assert "made a certificate" in said
    assert "[MGPU103]" in asked.apply(pod).text, "the API server trusts the one before as long as it is served"
    asked.certificate.write_bytes(new[0])
    process.wait_for("no certificate for webhooks")  # the key is still that of the one before
    assert serial_at(port) == first
    asked.key.write_bytes(new[1])
    process.wait_for("new certificate for webhooks in use")

    assert serial_at(port) == x509.load_pem_x509_certificate(new[0]).serial_number != first
    assert "[MGPU103]" in asked.apply(pod).text
    assert process.process.poll() is None


def test_without_the_webhooks_there_is_nothing_to_certify(admitting: Admitting) -> None:
    kubeconfig = admitting.control_plane.kubeconfig_for("volsched-certificates", SYSTEM)
    admitting.controlled.api.delete(f"{HOOKS}/volsched-webhooks")

    done = run_certificates("--kubeconfig", str(kubeconfig))

    assert done.returncode == 1
    assert "there is no ValidatingWebhookConfiguration volsched-webhooks; apply manifests/components" in done.stderr
    assert admitting.controlled.api.find(SECRET) is None


def test_whoever_may_not_use_a_queue_is_told_at_once(asked: Admitting, namespace: str) -> None:
    queue = f"q-{namespace}"
    api, name = asked.controlled.api, asked.controlled.name
    permitting = a_queue(queue)
    permitting["metadata"]["annotations"] = {ALLOWED_NAMESPACES: "team=ml"}
    pod = a_pod("naming", scheduler=name, annotations={"scheduling.volcano.sh/queue-name": queue})
    pod["metadata"]["namespace"] = namespace
    tasks = [{"name": "a", "replicas": 1, "template": {"spec": pod["spec"]}}]
    meta = {"name": "train", "namespace": namespace}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta}
    job["spec"] = {"schedulerName": name, "queue": queue, "tasks": tasks}
    words = f'namespace "{namespace}" may not use queue "{queue}": its annotation volsched.io/allowed-namespaces lets'
    work = (a_group(namespace, queue=queue), job, pod)

    api.create(f"{GROUPS}/queues", permitting)
    try:
        for found in work:
            eventually(lambda found=found: words in asked.apply(found).text)  # it hears of the queue a moment later
        broken = {**permitting, "metadata": {**permitting["metadata"], "name": "broken"}}
        broken["metadata"]["annotations"] = {ALLOWED_NAMESPACES: "*"}
        assert "'*' is no name of a namespace; nobody new may use the queue" in asked.apply(broken).text
        api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"team": "ml"}}})
        for found in work:
            eventually(lambda found=found: not asked.apply(found).is_refusal)
    finally:
        api.delete(f"{GROUPS}/queues/{queue}")


def test_without_its_rights_admission_does_not_hold_up_the_controllers(admitting: Admitting) -> None:
    admitting.make_certificates()
    admitting.control_plane.kubectl("delete", "-k", str(MANIFESTS / "rbac/webhooks"))
    files = ("--webhook-certificate", str(admitting.certificate), "--webhook-key", str(admitting.key))

    process = admitting.controlled.control("--webhook-address", "127.0.0.1:0", *files)

    process.wait_for(AT_WORK)
    assert process.page("/readyz") == (503, "not listed yet: nodes\n")


def test_a_replica_waits_for_its_certificate_and_is_not_ready_before(admitting: Admitting) -> None:
    files = ("--webhook-certificate", str(admitting.certificate), "--webhook-key", str(admitting.key))
    process = admitting.controlled.control("--webhook-address", "127.0.0.1:0", *files)
    process.wait_for(AT_WORK)
    process.wait_for("waiting for it")
    status, problem = process.page("/readyz")
    assert status == 503
    assert "no certificate for webhooks" in problem

    admitting.make_certificates()

    process.wait_for("serving webhooks")
    eventually(lambda: process.page("/readyz")[0] == 200)
