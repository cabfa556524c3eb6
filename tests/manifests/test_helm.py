"""The chart on a real API server: installed, upgraded with another configuration, and uninstalled."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator

import pytest

from charts.readme import CHART
from tests.cluster.scheduling import eventually
from tests.manifests.applying import reminded_of_crds
from tests.manifests.rendering import SYSTEM
from tests.manifests.test_applied import may, wait_until_available
from tools import helm
from tools.controlplane import ControlPlane

Helm = Callable[..., str]


@pytest.fixture
def run(cluster: ControlPlane) -> Iterator[Helm]:
    """Helm with the administrator's kubeconfig, and a namespace as the chart's README has it made."""

    def helm_says(verb: str, *flags: str) -> str:
        command = [helm.find(), verb, "volsched", *flags, "--namespace", SYSTEM, "--kubeconfig", cluster.kubeconfig]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    cluster.kubectl("create", "namespace", SYSTEM)
    try:
        yield helm_says
    finally:
        with contextlib.suppress(AssertionError):  # the test may have done it
            helm_says("uninstall")
        with reminded_of_crds(cluster):
            cluster.kubectl("delete", "namespace", SYSTEM)
            cluster.kubectl("delete", "crd", "-l", "app.kubernetes.io/instance=volsched", "--ignore-not-found")


def schedulers(cluster: ControlPlane) -> int:
    """How many pods of the scheduler there are that are not going; Deployments are scaled after they were available."""
    found = json.loads(cluster.kubectl("get", "pods", "-n", SYSTEM, "-o", "json"))["items"]
    staying = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return sum(pod["spec"]["serviceAccountName"] == "volsched-scheduler" for pod in staying)


def test_chart_is_installed_upgraded_and_uninstalled(cluster: ControlPlane, run: Helm) -> None:
    said = run("install", str(CHART))
    first = wait_until_available(cluster)
    again = run(
        "upgrade", str(CHART), "--reuse-values",
        "--set-string", "scheduler.configuration=actions: allocate", "--set", "ssh.enabled=true,scheduler.replicas=1",
    )  # fmt: skip
    wait_until_available(cluster)
    eventually(lambda: schedulers(cluster) == 1, what="one scheduler")
    configuration = json.loads(cluster.kubectl("get", "configmap", "-n", SYSTEM, "volsched-config", "-o", "json"))

    assert "pod-security.kubernetes.io/enforce=restricted" in said
    assert {pod["spec"]["serviceAccountName"] for pod in first} == {"volsched-scheduler", "volsched-controllers"}
    assert configuration["data"] == {"volsched.conf": "actions: allocate"}
    assert "REVISION: 2" in again
    assert may(cluster, "volsched-controllers", "create", "secrets", namespace="default")

    run("uninstall")

    assert cluster.kubectl("get", "clusterroles", "-l", "app.kubernetes.io/instance=volsched", "-o", "name") == ""
    kept = cluster.kubectl("get", "crd", "-l", "app.kubernetes.io/instance=volsched", "-o", "name").split()
    assert len(kept) == 3  # one for each file of manifests/crds
