"""The chart says what the overlays and components say, object by object; its values are described and checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.readme import CHART, README, described, readme
from tests.manifests.rendering import MANIFESTS, SYSTEM, Json, a_kustomization, identity, of_kind, rendered
from tests.manifests.test_overlays import VERSION
from tools import helm

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
HELMS_OWN = {"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "app.kubernetes.io/name"}
COMPONENTS: dict[str, tuple[str, ...]] = {
    "webhooks": ("webhooks.enabled=true",),
    "webhooks-cert-manager": ("webhooks.enabled=true", "webhooks.certificates=cert-manager"),
    "ssh": ("ssh.enabled=true",),
    "queues": ("queues.create=true",),
    "queue-permissions": ("queuePermissions.enabled=true",),
    "card-results": ("cardResults.enabled=true",),
    "grace-periods": ("gracePeriods.enabled=true",),
    "priority-class": ("priorityClass.protected=true",),
    "own-fields": ("ownFields.enabled=true",),
    "service-monitor": ("serviceMonitor.enabled=true",),
    "alerts": ("alerts.enabled=true",),
    "dashboards": ("dashboards.enabled=true",),
    "ui": ("ui.enabled=true",),
    "metrics-auth": ("metricsAuth.enabled=true",),
}
"""The values that do what a component does."""


def chart_objects(*flags: str, namespace: str = SYSTEM) -> list[Json]:
    done = helm.rendered(CHART, *flags, namespace=namespace)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def refused(*flags: str) -> str:
    done = helm.rendered(CHART, *flags)
    assert done.returncode != 0
    return done.stderr


def comparable(objects: list[Json]) -> dict[Any, Json]:
    """The objects by what they are, without what differs on purpose: Helm's labels, and the order of arguments."""
    return {identity(found): plain(found) for found in map(with_fixed_name, objects)}


def with_fixed_name(found: Json) -> Json:
    """A Job of the chart is named after the revision."""
    name = found["metadata"]["name"].removesuffix("-1") if found["kind"] == "Job" else found["metadata"]["name"]
    return {**found, "metadata": {**found["metadata"], "name": name}}


def plain(found: Json) -> Json:
    labels = {key: value for key, value in found["metadata"].get("labels", {}).items() if key not in HELMS_OWN}
    notes = dict(found["metadata"].get("annotations", {}))
    notes.pop("helm.sh/resource-policy", None)
    metadata = {**found["metadata"], "labels": labels, "annotations": notes}
    body = {**found, "metadata": metadata}
    if found["kind"] == "Deployment":
        [container] = body["spec"]["template"]["spec"]["containers"]
        container["args"] = [container["args"][0], *sorted(container["args"][1:])]
    return body


def assert_same(chart: list[Json], kustomization: list[Json]) -> None:
    ours, theirs = comparable(chart), comparable(kustomization)
    assert ours.keys() == theirs.keys()
    for name, found in theirs.items():
        assert ours[name] == found, name


@pytest.mark.parametrize(
    ("overlay", "flags"),
    [
        ("standalone", ()),
        ("beside-volcano", ("-f", str(CHART / "values-beside-volcano.yaml"))),
        ("dev", ("-f", str(CHART / "values-dev.yaml"))),
    ],
    ids=["standalone", "beside-volcano", "dev"],
)
def test_chart_says_what_the_overlay_says(overlay: str, flags: tuple[str, ...]) -> None:
    assert_same(chart_objects("--set", "namespace.create=true", *flags), rendered(MANIFESTS / "overlays" / overlay))


def test_every_component_has_a_value_or_a_file_of_values() -> None:
    assert {*COMPONENTS, "accelerators"} == {path.name for path in (MANIFESTS / "components").iterdir()}


def test_file_of_values_does_what_the_component_accelerators_does(tmp_path: Path) -> None:
    folder = a_kustomization(tmp_path, [MANIFESTS / "overlays/standalone"], [MANIFESTS / "components/accelerators"])

    chart = chart_objects("--set", "namespace.create=true", "-f", str(CHART / "values-accelerators.yaml"))

    assert_same(chart, rendered(folder))


@pytest.mark.parametrize("component", COMPONENTS)
def test_value_does_what_the_component_does(component: str, tmp_path: Path) -> None:
    folder = a_kustomization(tmp_path, [MANIFESTS / "overlays/standalone"], [MANIFESTS / "components" / component])

    chart = chart_objects("--set", ",".join(("namespace.create=true", *COMPONENTS[component])))

    assert_same(chart, rendered(folder))


def test_all_components_together(tmp_path: Path) -> None:
    """Those that change what others bring are in the order that their kustomizations ask for."""
    names = ["webhooks-cert-manager", *(name for name in COMPONENTS if not name.startswith("webhooks"))]
    folder = a_kustomization(
        tmp_path, [MANIFESTS / "overlays/standalone"], [MANIFESTS / "components" / name for name in names]
    )

    chart = chart_objects(
        "--set", ",".join(["namespace.create=true", *(v for name in names for v in COMPONENTS[name])])
    )

    assert_same(chart, rendered(folder))


def test_another_namespace_is_named_everywhere() -> None:
    flags = ("--set", ",".join(value for values in COMPONENTS.values() for value in values))

    assert SYSTEM not in json.dumps(chart_objects(*flags, namespace="batch-system"))


def test_values_reach_the_pods() -> None:
    objects = chart_objects(
        "--set", "image.repository=registry.example/volsched,image.pullSecrets={pull},image.pullPolicy=Always",
        "--set", "scheduler.tolerations[0].key=gpu,scheduler.nodeSelector.pool=system,scheduler.podLabels.team=infra",
        "--set", "scheduler.extraArgs={--settle=1s},scheduler.replicas=3",
    )  # fmt: skip
    deployment = of_kind(objects, "Deployment")["volsched-scheduler"]
    spec = deployment["spec"]["template"]["spec"]
    [container] = spec["containers"]

    assert deployment["spec"]["replicas"] == 3
    assert container["image"] == f"registry.example/volsched:{VERSION}"
    assert (container["imagePullPolicy"], container["args"][-1]) == ("Always", "--settle=1s")
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert spec["tolerations"] == [{"key": "gpu"}]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "system"}
    assert deployment["spec"]["template"]["metadata"]["labels"]["team"] == "infra"


def test_digest_goes_before_the_tag() -> None:
    digest = "sha256:" + "0" * 64

    assert f"image: volsched@{digest}" in helm.rendered(CHART, "--set", f"image.tag=x,image.digest={digest}").stdout


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("scheduler.replica=3", "replica"),
        ("webhooks.certificates=own", "certificates"),
        ("scheduler.extraArgs={settle}", "extraArgs"),
        ("webhooks.enabled=true,controllers.enabled=false", "the controllers serve the webhooks"),
    ],
)
def test_wrong_values_are_refused_by_name(values: str, words: str) -> None:
    assert words in refused("--set", values)


def test_lint_finds_nothing() -> None:
    assert helm.main(["lint", "--strict", str(CHART)]) == 0


def test_schema_knows_the_values_and_no_others() -> None:
    known = {
        f"{section}.{name}" for section, found in SCHEMA["properties"].items() for name in found.get("properties", {})
    }

    assert known == {f"{section}.{name}" for section, found in VALUES.items() for name in found}


def test_every_value_is_described() -> None:
    assert [name for name, _, comment in described() if not comment] == []


def test_readme_is_made_of_the_values() -> None:
    assert README.read_text() == readme(), "run `make chart`"


def test_versions_are_the_projects() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_the_page_has_the_name_of_the_cluster_and_the_address_of_grafana() -> None:
    flags = ("ui.enabled=true", "ui.clusterName=eu west", "ui.grafanaUrl=https://g.example")
    found = chart_objects(*(word for flag in flags for word in ("--set", flag)))

    [page] = [each for name, each in of_kind(found, "Deployment").items() if name.endswith("ui")]
    arguments = page["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[-2:] == ["--cluster-name=eu west", "--grafana-url=https://g.example"]
