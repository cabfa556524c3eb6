"""PodGroups as Kubernetes 1.37 has them, on a CRD of their fields, since the API server here is older.

The API server has no kind of scheduling.k8s.io of its own then: where it has one, it hides what CRDs add to the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import running_control_plane
from tests.cluster.native.ours import DIRECT, QUOTAS, start_ours
from tests.cluster.native.stage import NativeStage
from tests.cluster.scheduling import Json, eventually
from tests.cluster.served import apply_manifests
from tools.controlplane import ApiServerError, ControlPlane

GROUP = "scheduling.k8s.io"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEDULED = "PodGroupInitiallyScheduled"
VERSIONS = ("v1beta1", "v1alpha3")
ADMISSION_OF_THE_KINDS = "Priority,PodGroupProtection,PodGroupWorkloadExists,JobValidation"
"""Plugins that wait for kinds of the group that the API server serves itself."""


def _definition(kind: str, plural: str, version: str, scope: str) -> Json:
    parts = ("spec", "status") if scope == "Namespaced" else ()
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {**anything, "properties": dict.fromkeys(parts, anything)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/4671"},
        },
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _define(cluster: ControlPlane, definition: Json, served_at: str) -> None:
    cluster.api.create(DEFINITIONS, definition)
    eventually(lambda: _is_served(cluster, served_at), what=f"{served_at} is served")


def _is_served(cluster: ControlPlane, path: str) -> bool:
    """Whether a list answers; a CRD that was just made answers 429 for a moment."""
    try:
        return cluster.api.find(path) is not None
    except ApiServerError as error:
        if error.status == 429:
            return False
        raise


def _undefine(cluster: ControlPlane, definition: Json) -> None:
    path = f"{DEFINITIONS}/{definition['metadata']['name']}"
    cluster.api.delete(path)
    eventually(lambda: cluster.api.find(path) is None, what="the definition is gone")


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose pods have the field ``schedulingGroup``, and that has no kind of the group of its own."""
    flags = (f"--runtime-config={GROUP}/v1=false", f"--disable-admission-plugins={ADMISSION_OF_THE_KINDS}")
    folder = tmp_path_factory.mktemp("versions")
    gates = {"GenericWorkload": True}
    with running_control_plane(request, folder, feature_gates=gates, api_flags=flags) as found:
        classes = _definition("PriorityClass", "priorityclasses", "v1", "Cluster")
        _define(found, classes, f"/apis/{GROUP}/v1/priorityclasses")
        apply_manifests(found)
        yield found


@pytest.fixture(params=VERSIONS)
def stage(request: pytest.FixtureRequest, cluster: ControlPlane) -> Iterator[NativeStage]:
    name = f"newer-{request.param}"
    found = NativeStage(cluster, cluster.create_namespace(name), name, version=f"{GROUP}/{request.param}")
    yield found
    found.clear()


def test_groups_of_1_37_come_and_go_without_a_restart(
    cluster: ControlPlane, stage: NativeStage, tmp_path: Path
) -> None:
    process = start_ours(cluster, tmp_path, stage.scheduler, QUOTAS, *DIRECT, "--leader-elect=false")
    groups = _definition("PodGroup", "podgroups", stage.version.rpartition("/")[-1], "Namespaced")
    try:
        stage.node("n", 3)
        stage.pods("a", 2, group="a")
        stage.expect_held_back("a")
        _define(cluster, groups, f"/apis/{stage.version}/podgroups")
        stage.gang("a", 2, disruptionMode={"all": {}})
        stage.expect(a=2)
        stage.expect_condition("a", "True", "Scheduled", kind=SCHEDULED)
        stage.gang("b", 2)
        stage.pods("b", 2, group="b")
        stage.expect_condition("b", "False", "Unschedulable", kind=SCHEDULED)
        stage.change_minimum("b", 1)
        stage.expect(a=2, b=1)
        stage.expect_condition("b", "True", "Scheduled", kind=SCHEDULED)
        _undefine(cluster, groups)
        eventually(lambda: not _is_served(cluster, f"/apis/{stage.version}/podgroups"), what="nobody serves PodGroups")
        stage.pods("c", 1, group="c")
        stage.expect(a=2, b=1, c=0)
        stage.pod("lone-0", cpu="0")
        stage.expect(lone=1)
    finally:
        process.close()
        _undefine(cluster, groups)
