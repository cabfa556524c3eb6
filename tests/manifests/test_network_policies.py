"""The NetworkPolicies, as kustomize and the chart render them: who reaches which port."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.charts.test_chart import chart_objects
from tests.manifests.network_policy import Source, admits
from tests.manifests.rendering import MANIFESTS, OVERLAYS, SYSTEM, Json, a_kustomization, overlay, rendered

API_SERVER = Source("10.250.0.4")
KUBELET = Source("192.168.7.21")
PROMETHEUS = Source("10.244.3.9", "monitoring", labels={"app.kubernetes.io/name": "prometheus"})
OTHER_PROMETHEUS = Source("10.244.3.8", "observability", {"volsched.io/reads-metrics": "true"})
PROXY = Source("10.244.5.5", "login", {"volsched.io/reads-ui": "true"})
POD = Source("10.244.1.17", "team", labels={"app.kubernetes.io/name": "volsched"})
NEIGHBOUR = Source("10.244.1.18", SYSTEM)
SOURCES = {
    "API server": API_SERVER,
    "kubelet": KUBELET,
    "Prometheus": PROMETHEUS,
    "another Prometheus": OTHER_PROMETHEUS,
    "proxy of the page": PROXY,
    "ordinary pod": POD,
    "pod of the same namespace": NEIGHBOUR,
}
READERS = {"Prometheus", "another Prometheus"}
ALL = set(SOURCES)
WHO = {"metrics": READERS, "probes": ALL, "webhooks": ALL, "page": {"proxy of the page"}}
"""Who reaches a port by default. Kubelets ask the page from the pod's own node, which no policy keeps out."""

COMPONENTS = [MANIFESTS / "components" / name for name in ("webhooks", "ui")]


def by_kustomize(folder: Path) -> list[Json]:
    return rendered(a_kustomization(folder, [MANIFESTS / "overlays/standalone"], COMPONENTS))


def by_chart(_: Path) -> list[Json]:
    return chart_objects("--set=webhooks.enabled=true", "--set=ui.enabled=true")


def reach(objects: list[Json]) -> dict[tuple[str, str], set[str]]:
    """Who reaches each port of each Deployment."""
    policies = [found for found in objects if found["kind"] == "NetworkPolicy"]
    found = {}
    for deployment in (each for each in objects if each["kind"] == "Deployment"):
        template = deployment["spec"]["template"]
        pod = {**template, "metadata": {**template["metadata"], "namespace": deployment["metadata"]["namespace"]}}
        for port in (entry["name"] for entry in template["spec"]["containers"][0]["ports"]):
            names = {name for name, source in SOURCES.items() if admits(policies, pod, source, port)}
            found[deployment["metadata"]["name"].removeprefix("volsched-"), port] = names
    return found


@pytest.mark.parametrize("render", [by_kustomize, by_chart])
def test_each_port_is_reached_by_who_needs_it(render: Callable[[Path], list[Json]], tmp_path: Path) -> None:
    found = reach(render(tmp_path))

    assert {port for _, port in found} == set(WHO)
    assert found == {key: WHO[key[1]] for key in found}
    assert ("controllers", "webhooks") in found
    assert ("scheduler", "webhooks") not in found


@pytest.mark.parametrize("name", OVERLAYS)
def test_without_webhooks_their_port_is_not_there(name: str) -> None:
    found = reach(overlay(name))

    assert found
    assert found == {key: WHO[key[1]] for key in found}
    assert "webhooks" not in {port for _, port in found}


def test_a_value_of_the_chart_narrows_who_sends_reviews() -> None:
    objects = chart_objects("--set=webhooks.enabled=true", "--set=webhooks.clients={10.250.0.0/28,fd00:1::/64}")

    assert reach(objects)["controllers", "webhooks"] == {"API server"}
    assert reach(objects)["controllers", "probes"] == ALL
    [container] = [
        found["spec"]["template"]["spec"]["containers"][0]
        for found in objects
        if found["kind"] == "Deployment" and found["metadata"]["name"] == "volsched-controllers"
    ]
    assert {"--webhook-client=10.250.0.0/28", "--webhook-client=fd00:1::/64"} <= set(container["args"])


def test_a_patch_narrows_who_sends_reviews(tmp_path: Path) -> None:
    narrow = "- {op: add, path: /spec/ingress/2/from, value: [{ipBlock: {cidr: 10.250.0.0/28}}]}"
    patch = {"target": {"kind": "NetworkPolicy", "name": "volsched-controllers"}, "patch": narrow}
    folder = a_kustomization(tmp_path, [MANIFESTS / "overlays/standalone"], COMPONENTS, patches=[patch])

    found = reach(rendered(folder))

    assert found["controllers", "webhooks"] == {"API server"}
    assert found["controllers", "metrics"] == READERS


def test_the_pods_learn_the_address_of_their_node(tmp_path: Path) -> None:
    for render in (by_kustomize, by_chart):
        for deployment in (each for each in render(tmp_path) if each["kind"] == "Deployment"):
            name = deployment["metadata"]["name"]
            env = {
                entry["name"]: entry for entry in deployment["spec"]["template"]["spec"]["containers"][0].get("env", ())
            }
            if name != "volsched-ui":
                where = {"fieldRef": {"fieldPath": "status.hostIP"}}
                assert env["VOLSCHED_HOST_IP"]["valueFrom"] == where, name
