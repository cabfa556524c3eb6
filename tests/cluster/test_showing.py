"""``volsched cards`` and ``volsched queue`` on a real API server, with the rights that we ship for them, no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.forks import run_volsched
from tests.cluster.scheduling import CONFIGMAP, GROUPS, LEASE, SYSTEM, Installed, Json, eventually, wait_allowed
from tests.cluster.scheduling_fixtures import forget_configuration
from tests.cluster.test_resource_claims import Fleet, fleet, using  # noqa: F401 - a fixture
from tests.cluster.test_shared_cards import CORE, MEMORY
from tests.plugins.capacity_card.nodes import GPU, MIG, MPS, card_labels
from tools.controlplane import ControlPlane
from tools.controlplane.faults import FaultProxy, gone, server_error, too_many_requests
from volsched.kube.client.credentials import Source
from volsched.kube.watch.informer import PAGE
from volsched.kube.watch.listing import read_cluster
from volsched.kube.watch.resources import Resource
from volsched.model import api

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
READER = "volsched-queue-reader"
CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - name: predicates
  - name: capacity-card
    arguments: {cardUnlimitedCpuMemory: true}
"""


@pytest.fixture
def product() -> str:
    """A model of cards that no other test has."""
    return f"Card-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def reader(manifests_applied: ControlPlane, namespace: str) -> Iterator[Path]:
    """The kubeconfig of somebody who may read what these verbs read, and nothing else."""
    server, name = manifests_applied.api, f"reader-{namespace}"
    forget_configuration(manifests_applied)
    server.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "reader"}})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER}
    server.create(f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    own = f"{RBAC}/namespaces/{SYSTEM}/rolebindings"
    server.create(own, {"metadata": {"name": name}, "roleRef": {**role, "kind": "Role"}, "subjects": [subject]})
    leases = {"verb": "list", "resource": "leases", "group": "coordination.k8s.io", "namespace": SYSTEM}
    wait_allowed(manifests_applied, f"system:serviceaccount:{namespace}:reader", verb="list", resource="nodes")
    wait_allowed(manifests_applied, f"system:serviceaccount:{namespace}:reader", **leases)
    yield manifests_applied.kubeconfig_for("reader", namespace)
    server.delete(f"{RBAC}/clusterrolebindings/{name}")
    server.delete(f"{own}/{name}")


FORGED: Final = {
    "metadata": {
        "name": "forged",
        "labels": {"volsched.io/lease": "scheduler"},
        "annotations": {
            "volsched.io/scheduler-names": "volsched",
            "volsched.io/default-queue": "stolen",
            "volsched.io/configuration": "built-in default",
            "volsched.io/configuration-hash": "0",
        },
    },
    "spec": {"holderIdentity": "me", "renewTime": "2099-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15},
}
"""A Lease by which a tenant says what is in force."""


@pytest.fixture
def forged(manifests_applied: ControlPlane, namespace: str) -> Iterator[str]:
    """That Lease in a namespace of the tenant, and a ConfigMap that it could mean; yields what is said of it."""
    server = manifests_applied.api
    lease = json.loads(json.dumps(FORGED))
    lease["metadata"]["annotations"]["volsched.io/configuration"] = f"ConfigMap {namespace}/volsched-config"
    server.create(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease)
    data = {"metadata": {"name": "volsched-config"}, "data": {"volsched.conf": "tiers: [] # forged"}}
    server.create(f"/api/v1/namespaces/{namespace}/configmaps", data)
    yield f"note: Leases outside of {SYSTEM} do not count ({namespace}/forged); --system-namespace names another"
    server.delete(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/forged")


@pytest.fixture
def stranger(manifests_applied: ControlPlane, namespace: str) -> Path:
    """The kubeconfig of somebody who may do nothing."""
    server = manifests_applied.api
    server.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "stranger"}})
    return manifests_applied.kubeconfig_for("stranger", namespace)


def volsched(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return run_volsched(*map(str, args))


def shown(*args: str | Path) -> Json:
    done = volsched(*args, "-o", "json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return dict(json.loads(done.stdout))


# --- cards ----------------------------------------------------------------------------------------------------------


def test_cards_of_a_cluster_are_those_of_its_nodes(reader: Path, make_nodes: MakeNodes, product: str) -> None:
    whole = make_nodes(2, labels=card_labels(product), **{GPU: 8})
    shared = make_nodes(1, labels=card_labels(product, replicas="8"), **{MPS: 64})
    sliced = make_nodes(1, labels=card_labels(product), **{GPU: 7, f"{MIG}1g.10gb": 7})
    wanting = make_nodes(1, labels={f"{GPU}.product": product}, **{GPU: 8})

    found = shown("cards", "--kubeconfig", reader)

    mps, mig = f"{product}/mps-80g*1/8", f"{product}/mig-1g.10gb-mixed"
    assert {card: found["total"][card] for card in (product, mps, mig)} == {product: 23, mps: 64, mig: 7}
    assert {card: found["resourceNames"][card] for card in (product, mps, mig)} == {
        product: GPU,
        mps: MPS,
        mig: f"{MIG}1g.10gb",
    }
    assert [found["nodes"][name] for name in (*whole, *shared, *sliced)] == [
        {product: 8},
        {product: 8},
        {mps: 64},
        {product: 7, mig: 7},
    ]
    mine = {*whole, *shared, *sliced, *wanting}  # nodes of other tests may be on their way out
    assert [warning["node"] for warning in found["warnings"] if warning["node"] in mine] == wanting


def test_kubectl_has_the_verbs_as_a_plugin(control_plane: ControlPlane, reader: Path) -> None:
    command = [str(control_plane.binaries["kubectl"]), "volsched", "cards", "-o", "json"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "KUBECONFIG": str(reader)}

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"nodes", "total", "resourceNames", "warnings"}


# --- queues ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def team(installed: Installed, product: str) -> Iterator[str]:
    """A queue that may hold four cards of the product."""
    name = f"team-{uuid.uuid4().hex[:6]}"
    quota = {"volcano.sh/card.quota": json.dumps({product: 4})}
    body = {"metadata": {"name": name, "annotations": quota}, "spec": {"weight": 1, "capability": {"cpu": "2"}}}
    installed.api.create(f"{GROUPS}/queues", {"apiVersion": GROUPS.removeprefix("/apis/"), "kind": "Queue", **body})
    yield name
    installed.api.delete(f"{GROUPS}/queues/{name}")


def make_group(installed: Installed, namespace: str, name: str, queue: str) -> None:
    body = {
        "apiVersion": GROUPS.removeprefix("/apis/"),
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": 1, "queue": queue, "minResources": {"cpu": "1", GPU: "1"}},
    }
    installed.api.create(f"{GROUPS}/namespaces/{namespace}/podgroups", body)


def make_members(installed: Installed, namespace: str, group: str, card: str, numbers: range) -> None:
    """Pods of a PodGroup with one card each."""
    made = [installed.pod(f"{group}-{number}", group=group, cpu="1", **{GPU: 1}) for number in numbers]
    for pod in made:
        pod["metadata"]["annotations"]["volcano.sh/card.name"] = card
    installed.make_pods(namespace, made)


def test_queue_describe_shows_what_the_scheduler_did(
    installed: Installed, namespace: str, make_nodes: MakeNodes, reader: Path, product: str, team: str
) -> None:
    (node,) = make_nodes(1, labels=card_labels(product), **{GPU: 8})
    installed.configure(CONFIGURATION)
    scheduler = installed.start("--scheduler-configmap", CONFIGMAP).wait_leading()
    make_group(installed, namespace, "serve", team)
    make_members(installed, namespace, "serve", product, range(4))
    bound = installed.wait_bound(namespace, 4)
    installed.wait_group(namespace, "serve", "Running")
    make_members(installed, namespace, "serve", product, range(4, 6))
    config = installed.folder / "scheduler.conf"
    config.write_text(CONFIGURATION)
    cluster = ("--kubeconfig", reader, "--scheduler-name", installed.name, "--config", config)

    found = shown("queue", "describe", team, *cluster)

    queue = found["queues"][team]
    assert queue["cards"] == {product: {"quota": 4, "used": 4, "reserved": 0, "headroom": 0}}
    assert (queue["cpu"]["used"], queue["state"]) == ("0", "Open")
    assert found["cards"][product] == {"total": 8, "idle": 4, "quota": 4, "used": 4}
    job = queue["jobs"][f"{namespace}/serve"]
    assert job["waitsFor"] == {product: 2}
    assert {pod["pod"].split("/")[1]: pod["node"] for pod in job["pods"]} == bound
    series = f'volcano_queue_card_allocated{{card="{product}",queue_name="{team}"}}'
    eventually(lambda: scheduler.metric(series) == queue["cards"][product]["used"])

    page = volsched("queue", "describe", team, *cluster).stdout
    assert f"4 on {node}; 2 waiting" in page

    for name in list(bound)[:2]:
        installed.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", grace_seconds=0)
    installed.wait_bound(namespace, 4)
    after = shown("queue", "list", *cluster)["queues"][team]["cards"][product]
    assert after == {"quota": 4, "used": 4, "reserved": 0, "headroom": 0}


def test_the_configmap_of_the_scheduler_decides_what_counts(
    installed: Installed, control_plane: ControlPlane, team: str
) -> None:
    installed.configure(CONFIGURATION)
    admin = ("--kubeconfig", control_plane.kubeconfig, "--scheduler-configmap", CONFIGMAP)

    assert shown("queue", "list", *admin)["arguments"]["cardUnlimitedCpuMemory"] is True

    missing = volsched("queue", "list", *admin[:3], "volsched-system/none")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "ConfigMap/volsched-system/none: there is no such object in the cluster" in missing.stderr


def test_pods_that_are_scheduled_by_themselves_count_for_the_default_queue(
    installed: Installed, namespace: str, make_nodes: MakeNodes, reader: Path, product: str
) -> None:
    (node,) = make_nodes(1, labels=card_labels(product), **{GPU: 8})
    installed.configure(CONFIGURATION)
    installed.start("--scheduler-configmap", CONFIGMAP).wait_leading()
    pod = installed.pod("alone", cpu="1", **{GPU: 2})
    pod["metadata"]["annotations"] = {"volcano.sh/card.name": product}
    pod["spec"]["nodeName"] = node
    installed.make_pods(namespace, [pod])

    found = shown("queue", "describe", "default", "--kubeconfig", reader)

    assert found["queues"]["default"]["cards"][product]["used"] == 2


# --- the configuration that is in force -----------------------------------------------------------------------------


WITHOUT_QUOTAS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}]
"""
OTHER_QUOTAS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: predicates}]
- plugins:
  - {name: capacity-dra}
  - name: crossquota
    arguments: {gpu-resource-names: nvidia.com/gpu, quota.cpu: "4"}
  - name: mgpu
    arguments: {predicate.MGPUEnable: true}
"""


def said(*args: str | Path) -> str:
    """What stands on standard error of an answer for programs."""
    done = volsched("queue", "list", *args, "-o", "json")
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_what_is_in_force_is_found_without_being_told(
    installed: Installed, namespace: str, make_nodes: MakeNodes, reader: Path, product: str, team: str
) -> None:
    """Eight cards are taken, and no plugin limits anybody: no quota is 0, and the cards are used by a queue."""
    make_nodes(1, labels=card_labels(product), **{GPU: 8})
    installed.configure(WITHOUT_QUOTAS)
    scheduler = installed.start("--scheduler-configmap", CONFIGMAP).wait_leading()
    make_group(installed, namespace, "serve", team)
    make_members(installed, namespace, "serve", product, range(8))
    installed.wait_bound(namespace, 8)
    installed.wait_group(namespace, "serve", "Running")

    found = json.loads(volsched("queue", "list", "--kubeconfig", reader, "-o", "json").stdout)

    assert found["configuration"] == f"ConfigMap/{CONFIGMAP}"
    queue = found["queues"][team]
    assert queue["resources"][GPU] == {"quota": None, "used": "8", "reserved": "0", "headroom": None}
    assert (queue["cpu"]["quota"], queue["cards"]) == (None, {})
    assert found["cards"][product] == {"total": 8, "idle": 0, "quota": None, "used": 8}
    page = volsched("queue", "list", "--kubeconfig", reader)
    assert f"No plugin in force limits queues by resource or card (ConfigMap/{CONFIGMAP})." in page.stdout
    assert "does not use capacity-card, so quotas of cards limit nobody" in page.stderr

    installed.configure(CONFIGURATION)
    scheduler.wait_for("configuration loaded", count=2)
    eventually(lambda: said("--kubeconfig", reader) == "", what="the Lease says what is in force now")
    now = shown("queue", "list", "--kubeconfig", reader)["queues"][team]
    assert now["cards"] == {product: {"quota": 4, "used": 8, "reserved": 0, "headroom": 0}}


def test_a_text_that_is_not_in_force_is_said_to_be_none(installed: Installed, reader: Path) -> None:
    installed.configure(CONFIGURATION)
    scheduler = installed.start("--scheduler-configmap", CONFIGMAP).wait_leading()
    eventually(lambda: said("--kubeconfig", reader) == "")

    installed.configure(CONFIGURATION.replace("allocate", "alocate"))
    scheduler.wait_for("configuration refused; the configuration before it")

    done = volsched("queue", "list", "--kubeconfig", reader)
    assert done.returncode == 2
    assert f"warning: ConfigMap/{CONFIGMAP} says something else than what is in force" in done.stderr
    assert 'there is no action "alocate"; did you mean allocate?' in done.stderr
    cards = volsched("cards", "--kubeconfig", reader)
    assert (cards.returncode, "says something else than what is in force" in cards.stderr) == (0, True)


def test_a_file_is_found_by_the_configmap_that_it_was_mounted_from(
    installed: Installed, reader: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mounted.conf"
    file.write_text(CONFIGURATION)
    installed.configure(CONFIGURATION)
    installed.start("--scheduler-conf", str(file)).wait_leading()

    assert shown("queue", "list", "--kubeconfig", reader)["configuration"] == f"ConfigMap/{CONFIGMAP}"

    installed.configure(WITHOUT_QUOTAS)
    assert f"reads its configuration from the file {file}, and no ConfigMap" in said("--kubeconfig", reader)


def test_without_a_scheduler_it_says_what_was_looked_for(installed: Installed, reader: Path) -> None:
    assert "No scheduler configuration was found in the cluster (in volsched-system neither a Lease" in said(
        "--kubeconfig", reader
    )

    installed.configure(CONFIGURATION)
    assert "No Lease says which configuration is in force; counted with ConfigMap/" in said("--kubeconfig", reader)


@pytest.mark.parametrize(
    "verb", [("queue", "list"), ("cards",), ("snapshot", "-o", "/dev/null"), ("explain", "queue", "q")]
)
def test_a_lease_of_another_namespace_is_named_and_never_used(
    installed: Installed, namespace: str, forged: str, verb: tuple[str, ...]
) -> None:
    everything = installed.control_plane.kubeconfig
    alone = volsched(*verb, "--kubeconfig", everything)
    assert forged in alone.stderr
    nothing = "No scheduler configuration was found in the cluster (in volsched-system neither"
    if verb != ("cards",):  # without cards in the cluster the configuration is nothing to tell of
        assert nothing in " ".join((alone.stdout + alone.stderr).split())
    assert "ConfigMap/" + namespace not in alone.stdout + alone.stderr

    installed.configure(CONFIGURATION)
    installed.start("--scheduler-configmap", CONFIGMAP).wait_leading()
    eventually(lambda: installed.api.find(LEASE) is not None)
    beside = volsched(*verb, "--kubeconfig", everything)
    assert forged in beside.stderr
    assert "ConfigMap/" + namespace not in beside.stdout + beside.stderr
    assert "stolen" not in beside.stdout + beside.stderr

    named = volsched(*verb, "--kubeconfig", everything, "--system-namespace", namespace)
    assert f"ConfigMap/{namespace}/volsched-config" in named.stdout + named.stderr


def test_who_may_read_one_lease_alone_is_told_of_no_other(installed: Installed, forged: str, reader: Path) -> None:
    installed.configure(CONFIGURATION)
    installed.start("--scheduler-configmap", CONFIGMAP).wait_leading()

    eventually(lambda: said("--kubeconfig", reader) == "")
    assert shown("queue", "list", "--kubeconfig", reader)["configuration"] == f"ConfigMap/{CONFIGMAP}"


def test_without_the_right_to_read_the_configuration_it_says_so(
    installed: Installed, manifests_applied: ControlPlane, namespace: str, make_nodes: MakeNodes, product: str
) -> None:
    """With the right to list nodes alone, `cards` shows these, and says what it leaves out."""
    server, name = manifests_applied.api, f"nodes-{namespace}"
    make_nodes(1, labels=card_labels(product), **{GPU: 8})
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
    server.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    server.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "looker"}})
    subject = {"kind": "ServiceAccount", "name": "looker", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    server.create(f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    wait_allowed(manifests_applied, f"system:serviceaccount:{namespace}:looker", verb="list", resource="nodes")

    done = volsched("cards", "--kubeconfig", manifests_applied.kubeconfig_for("looker", namespace), "-o", "json")

    assert json.loads(done.stdout)["total"][product] == 8
    assert "The scheduler's configuration cannot be read: you may not list leases" in done.stderr
    for kind in ("clusterrolebindings", "clusterroles"):
        server.delete(f"{RBAC}/{kind}/{name}")


def test_all_quotas_of_the_scheduler_that_runs(
    installed: Installed,
    namespace: str,
    make_nodes: MakeNodes,
    reader: Path,
    product: str,
    team: str,
    fleet: Fleet,  # noqa: F811 - the fixture
) -> None:
    (gpu,) = make_nodes(1, labels=card_labels(product), cpu="16", **{GPU: 8})
    (shared,) = make_nodes(1, cpu="16", **{CORE: 200, MEMORY: 32768})
    installed.api.patch(f"{GROUPS}/queues/{team}", {"spec": {"dra": {"capability": {fleet.name: {"count": 3}}}}})
    fleet.make_claim("one", 1)
    installed.configure(OTHER_QUOTAS)
    installed.start("--scheduler-configmap", CONFIGMAP, "--plain-pods", "direct").wait_leading()
    for group in ("etl", "part", "holds"):
        make_group(installed, namespace, group, team)
    on_gpu = {"nodeSelector": {f"{GPU}.product": product}}
    pods = [
        installed.pod("etl", group="etl", cpu="1", spec=on_gpu),
        installed.pod("part", group="part", cpu="1", **{CORE: 30, MEMORY: 4096}),
        installed.pod("holds", group="holds", cpu="1", spec=using("one")),
    ]
    installed.make_pods(namespace, pods)
    installed.wait_bound(namespace, 3)

    for verb in (("queue", "list"), ("cards",)):
        found = json.loads(volsched(*verb, "--kubeconfig", reader, "-o", "json").stdout)

        cpu = [row for row in found["cpuPods"] if row["node"] == gpu]
        assert [(row["quota"], row["used"], row["headroom"]) for row in cpu] == [("4", "1", "3")]
        cards = [(row["coreUsed"], row["memoryUsed"]) for row in found["sharedCards"] if row["node"] == shared]
        assert cards == [(30, "4Gi"), (0, "0")]
        mine = [row for row in found["devices"] if (row["queue"], row["dimension"]) == (team, "count")]
        assert [(row["quota"], row["used"], row["headroom"]) for row in mine] == [(3, 1, 2)]


# --- what goes wrong ------------------------------------------------------------------------------------------------


def test_without_rights_it_says_which_are_missing(stranger: Path) -> None:
    for verb in (("cards",), ("queue", "list")):
        done = volsched(*verb, "--kubeconfig", stranger)

        assert (done.returncode, done.stdout) == (1, "")
        assert "error: you may not list nodes of v1 (" in done.stderr
        assert "ask for the right to list them in all namespaces" in done.stderr


def test_a_server_that_is_not_there_or_fails_is_named(
    reader: Path, namespace: str, fault_proxy: FaultProxy, tmp_path: Path
) -> None:
    nowhere = volsched("cards", "--kubeconfig", reader, "--master", "https://127.0.0.1:9")
    assert nowhere.returncode == 1
    assert "https://127.0.0.1:9 does not answer when nodes of v1 are listed" in nowhere.stderr

    fault_proxy.inject(server_error(), path="/nodes")
    failing = volsched("cards", "--kubeconfig", fault_proxy.kubeconfig_for("reader", namespace))
    assert failing.returncode == 1
    assert "cannot list nodes of v1: etcdserver: request timed out" in failing.stderr

    assert volsched("cards", "--kubeconfig", tmp_path / "none").returncode == 1


def test_a_cluster_without_queues_is_told_what_to_install(
    reader: Path, namespace: str, fault_proxy: FaultProxy
) -> None:
    absent = gone()
    fault_proxy.inject(type(absent)(404, absent.body.replace("410", "404")), path="/queues")

    done = volsched("queue", "list", "--kubeconfig", fault_proxy.kubeconfig_for("reader", namespace))

    assert done.returncode == 1
    assert "has no queues of scheduling.volcano.sh/v1beta1; install their CustomResourceDefinition" in done.stderr


def test_a_long_list_comes_in_pages_and_is_begun_anew_when_the_server_says_so(
    control_plane: ControlPlane, namespace: str, fault_proxy: FaultProxy
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    control_plane.api.create_many(path, [{"metadata": {"name": f"c{number:04}"}} for number in range(PAGE + 1)])
    wanted = sorted(found["metadata"]["name"] for found in control_plane.api.items(path))
    resource = Resource("ConfigMap", "v1", "configmaps", api.ConfigMap, namespace=namespace)
    source = Source(kubeconfig=str(fault_proxy.kubeconfig()))
    faults: list[Any] = [
        fault_proxy.inject(gone(), path="configmaps", times=1),
        fault_proxy.inject(too_many_requests(), path="configmaps", times=1),
    ]

    found = [item.metadata.name for item in read_cluster(source, [resource]).objects]

    assert found == wanted
    assert all(fault.hits == 1 for fault in faults)
