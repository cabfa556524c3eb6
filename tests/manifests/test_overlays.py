"""What the overlays are made of: nothing forgotten, nothing that fits another overlay, and flags that exist."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.manifests.examples import EXAMPLES, FLEET, NATIVE_GANGS, SCENES, WORKLOADS
from tests.manifests.rendering import (
    MANIFESTS,
    OVERLAYS,
    ROOT,
    SYSTEM,
    Json,
    a_kustomization,
    container,
    identity,
    kustomize,
    of_kind,
    overlay,
    rendered,
    the,
)
from volsched.cli import volsched
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.registry import load_configuration

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
COMPONENTS = ("scheduler", "controllers")
CLUSTER_WIDE = {"Namespace", "CustomResourceDefinition", "PriorityClass", "ClusterRole", "ClusterRoleBinding"}


def component(found: Json) -> str:
    labels = found["metadata"].get("labels", {})
    return str(labels.get("app.kubernetes.io/component", ""))


def deployments(name: str) -> list[Json]:
    return list(of_kind(overlay(name), "Deployment").values())


def pod_of(deployment: Json) -> Json:
    return dict(deployment["spec"]["template"]["spec"])


# --- which objects there are ----------------------------------------------------------------------------------------


READERS = ("volsched-queue-reader", "volsched-explain-reader")
"""Of people: bound to nobody."""


def test_standalone_has_all_that_a_cluster_without_volcano_needs() -> None:
    objects = overlay("standalone")

    assert set(of_kind(objects, "Deployment")) == {"volsched-scheduler", "volsched-controllers"}
    crds = of_kind(rendered(MANIFESTS / "crds"), "CustomResourceDefinition")
    assert set(of_kind(objects, "CustomResourceDefinition")) == set(crds)
    for kind in ("ServiceAccount", "RoleBinding", "PodDisruptionBudget", "NetworkPolicy", "Service"):
        assert set(of_kind(objects, kind)) == {"volsched-scheduler", "volsched-controllers"}, kind
    assert set(of_kind(objects, "Role")) == {"volsched-scheduler", "volsched-controllers", *READERS}


def test_beside_volcano_has_nothing_that_is_volcanos_to_have() -> None:
    objects = overlay("beside-volcano")

    assert of_kind(objects, "CustomResourceDefinition") == {}
    assert set(of_kind(objects, "Deployment")) == {"volsched-scheduler"}
    assert {component(found) for found in objects} == {"", "scheduler"}
    assert {identity(found) for found in objects} < {identity(found) for found in overlay("standalone")}


def test_overlays_of_the_same_process_differ_only_in_what_they_say() -> None:
    """Whoever goes from one overlay to another changes arguments, replicas and requests, and nothing else."""
    standalone = of_kind(overlay("standalone"), "Deployment")
    for name in ("beside-volcano", "dev"):
        for deployment in deployments(name):
            other = standalone[deployment["metadata"]["name"]]
            assert [container(deployment)["args"][: len(container(other)["args"])]] == [container(other)["args"]]
            assert without_what_differs(deployment) == without_what_differs(other)


def without_what_differs(deployment: Json) -> Json:
    spec = {**deployment["spec"], "replicas": None}
    kept = {key: value for key, value in container(deployment).items() if key not in {"args", "resources"}}
    return spec | {"template": {**spec["template"], "spec": {**pod_of(deployment), "containers": [kept]}}}


def test_dev_is_one_replica_each_with_debug_lines_for_people_and_no_requests() -> None:
    for deployment in deployments("dev"):
        assert deployment["spec"]["replicas"] == 1
        assert container(deployment)["args"][-2:] == ["--log-level=debug", "--log-format=console"]
        assert "resources" not in container(deployment)


def test_no_manifest_is_forgotten() -> None:
    """Every file is an example, or is named in the kustomization beside it."""
    for path in MANIFESTS.rglob("*.yaml"):
        if path.is_relative_to(MANIFESTS / "examples") or path.name == "kustomization.yaml":
            continue
        beside = path.parent / "kustomization.yaml"
        assert beside.exists(), f"{path} has no kustomization beside it"
        assert path.name in beside.read_text(), f"{path} is not named in its kustomization"


FOLDERS = sorted({path.parent for path in MANIFESTS.rglob("kustomization.yaml")})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.relative_to(MANIFESTS).as_posix())
def test_every_kustomization_renders(folder: Path, tmp_path: Path) -> None:
    kind = yaml.safe_load((folder / "kustomization.yaml").read_text())["kind"]
    if kind == "Component":
        folder = a_kustomization(tmp_path, [MANIFESTS / "overlays/standalone"], [folder])

    assert rendered(folder)


def test_rights_alone_are_those_of_the_overlays() -> None:
    def rights(objects: list[Json]) -> dict[Any, Any]:
        return {identity(found): found.get("rules") for found in objects if "Role" in found["kind"]}

    assert rights(rendered(MANIFESTS / "rbac")) == rights(overlay("standalone"))


def test_a_namespace_of_ones_own_takes_one_line(tmp_path: Path) -> None:
    mine = a_kustomization(tmp_path, [MANIFESTS / "overlays/standalone"], namespace="batch-system")

    text = kustomize(mine)

    assert SYSTEM not in text
    for found in yaml.safe_load_all(text):
        assert found["kind"] in CLUSTER_WIDE or found["metadata"]["namespace"] == "batch-system"
        assert {s["namespace"] for s in found.get("subjects", ())} <= {"batch-system"}


def test_a_registry_of_ones_own_takes_one_entry(tmp_path: Path) -> None:
    images = [{"name": "volsched", "newName": "registry.example/tools/volsched", "newTag": "mine"}]
    mine = a_kustomization(tmp_path, [MANIFESTS / "overlays/standalone"], images=images)

    used = {container(found)["image"] for found in of_kind(rendered(mine), "Deployment").values()}

    assert used == {"registry.example/tools/volsched:mine"}


# --- what the processes are given -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OVERLAYS)
def test_image_is_of_this_version(name: str) -> None:
    assert {container(deployment)["image"] for deployment in deployments(name)} == {f"volsched:{VERSION}"}


@pytest.mark.parametrize("name", OVERLAYS)
def test_arguments_are_taken_by_the_command_line(name: str) -> None:
    for deployment in deployments(name):
        verb, *arguments = container(deployment)["args"]
        command = volsched.get_command(click.Context(volsched), verb)
        assert command is not None
        given = command.make_context(verb, list(arguments)).params
        assert not [flag for flag, value in given.items() if flag.startswith("ignored_") and value is not None]


def test_default_configuration_is_the_built_in_one_with_fair_shares() -> None:
    data = the(overlay("standalone"), "ConfigMap", "volsched-config")["data"]
    given = load_configuration(data["volsched.conf"]).configuration
    built_in = load_configuration(DEFAULT_CONFIGURATION).configuration

    assert given.actions == built_in.actions
    added = {"drf", "proportion"}
    assert [[option.name for option in tier if option.name not in added] for tier in given.tiers] == [
        [option.name for option in tier] for tier in built_in.tiers
    ]
    assert added <= {option.name for tier in given.tiers for option in tier}


def test_rights_name_the_lease_and_the_configmap_that_the_arguments_mean() -> None:
    roles = of_kind(overlay("standalone"), "Role")
    names = {name: {r for rule in role["rules"] for r in rule.get("resourceNames", ())} for name, role in roles.items()}

    assert names == {
        "volsched-scheduler": {"volsched", "volsched-config"},
        "volsched-controllers": {"volsched-controllers"},
        **{reader: set() for reader in READERS},
    }


# --- how they are kept ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_port_is_open_where_it_is_needed_and_nowhere_else(name: str) -> None:
    objects = overlay(name)
    for deployment in deployments(name):
        own = deployment["metadata"]["name"]
        ports = {port["name"]: port["containerPort"] for port in container(deployment)["ports"]}
        arguments = container(deployment)["args"]
        assert f"--listen-address=:{ports['metrics']}" in arguments
        assert f"--healthz-address=:{ports['probes']}" in arguments
        probes = {
            kind: container(deployment)[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")
        }
        assert {kind: probe["path"] for kind, probe in probes.items()} == {
            "startup": "/healthz",
            "liveness": "/livez",
            "readiness": "/readyz",
        }
        assert {probe["port"] for probe in probes.values()} == {"probes"}
        policy = the(objects, "NetworkPolicy", own)["spec"]
        assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == set(ports)
        assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {443, 6443, 53}
        service = the(objects, "Service", own)["spec"]
        assert [port["targetPort"] for port in service["ports"]] == ["metrics"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_metrics_are_for_namespaces_that_read_them_and_probes_for_nodes(name: str) -> None:
    for policy in (found for found in overlay(name) if found["kind"] == "NetworkPolicy"):
        by_port = {port["port"]: rule.get("from") for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert by_port["probes"] is None
        assert [list(peer) for peer in by_port["metrics"]] == [["namespaceSelector"], ["namespaceSelector"]]


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_class_of_its_pods_has_a_quota_in_its_namespace(name: str) -> None:
    quota = the(overlay(name), "ResourceQuota", "volsched-critical")
    [scope] = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert (quota["metadata"]["namespace"], scope["values"]) == (SYSTEM, ["volsched-critical"])
    replicas = sum(found["spec"]["replicas"] for found in deployments(name))
    assert int(quota["spec"]["hard"]["pods"]) >= 4 * replicas  # a rollout, and Jobs of certificates beside it


def test_guarded_metrics_are_asked_for_by_tls_with_a_token(tmp_path: Path) -> None:
    components = [MANIFESTS / "components" / name for name in ("service-monitor", "metrics-auth")]
    objects = rendered(a_kustomization(tmp_path, [MANIFESTS / "overlays/standalone"], components))

    for found in objects:
        if found["kind"] == "Deployment":
            assert "--metrics-auth" in container(found)["args"]
    [endpoint] = the(objects, "ServiceMonitor", "volsched")["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == ("https", {"insecureSkipVerify": True})
    assert endpoint["bearerTokenFile"].endswith("/token")
    binding = the(objects, "ClusterRoleBinding", "volsched-asks-about-readers")
    assert {subject["name"] for subject in binding["subjects"]} == {"volsched-scheduler", "volsched-controllers"}


@pytest.mark.parametrize("name", OVERLAYS)
def test_selectors_select_the_pods_of_their_own_process(name: str) -> None:
    objects = overlay(name)
    for deployment in deployments(name):
        own = deployment["metadata"]["name"]
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"] == labels
        assert the(objects, "Service", own)["spec"]["selector"] == labels
        assert the(objects, "NetworkPolicy", own)["spec"]["podSelector"]["matchLabels"] == labels
        assert the(objects, "PodDisruptionBudget", own)["spec"]["selector"]["matchLabels"] == labels
        for spread in pod_of(deployment)["topologySpreadConstraints"]:
            assert spread["labelSelector"]["matchLabels"] == labels


def test_both_processes_are_kept_alike() -> None:
    """Except for who they are, what they are told, and how much they take."""
    scheduler, controllers = (the(overlay("standalone"), "Deployment", f"volsched-{name}") for name in COMPONENTS)

    def kept(deployment: Json) -> Json:
        own = {"labelSelector", "name", "args", "env", "resources"}
        pod = pod_of(deployment)
        spreads = [{k: v for k, v in spread.items() if k not in own} for spread in pod["topologySpreadConstraints"]]
        only = {k: v for k, v in container(deployment).items() if k not in own}
        rest = {k: v for k, v in pod.items() if k not in {"serviceAccountName", "volumes"}}
        return rest | {"topologySpreadConstraints": spreads, "containers": [only]}

    assert kept(scheduler) == kept(controllers)
    assert scheduler["spec"]["strategy"] == controllers["spec"]["strategy"]
    assert scheduler["spec"]["replicas"] == controllers["spec"]["replicas"] == 2


@pytest.mark.parametrize("name", OVERLAYS)
def test_tokens_are_given_to_our_own_pods_and_to_no_other(name: str) -> None:
    for account in of_kind(overlay(name), "ServiceAccount").values():
        assert account["automountServiceAccountToken"] is False
    for deployment in deployments(name):
        assert pod_of(deployment)["automountServiceAccountToken"] is True


def test_every_object_says_whose_it_is() -> None:
    for found in overlay("standalone"):
        if found["kind"] not in {"Namespace", "CustomResourceDefinition", "PriorityClass", "ResourceQuota"}:
            assert component(found) in {*COMPONENTS, "users"}, identity(found)


def test_every_example_is_tried_on_a_cluster_or_replayed() -> None:
    """The whole example cluster and the workloads in `test_processes`, those of plugins in `test_scenes`.

    The trace and its policies are replayed in `tests/docs/test_replay.py`, the fleet is simulated in
    `tests/simulation/test_fleet.py`.
    """
    others = [*(EXAMPLES / "replay").iterdir(), *FLEET.iterdir()]
    tried = {*EXAMPLES.glob("*.yaml"), *WORKLOADS, *SCENES, NATIVE_GANGS, *others}

    assert {path for path in EXAMPLES.rglob("*") if path.is_file()} == tried
