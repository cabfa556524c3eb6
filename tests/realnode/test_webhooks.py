"""Admission through its Service, with certificates that a Job has made, on the very pod network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.realnode.cluster import PROJECT, SYSTEM, Cluster, KubectlError, eventually

KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{project}/manifests/overlays/standalone]
components: [{project}/manifests/components/webhooks]
"""


@pytest.fixture(scope="module")
def guarded(installed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster with webhooks; they go with the module."""
    folder: Path = tmp_path_factory.mktemp("mine")
    up = "/".join([".."] * (len(folder.parts) - 1)) + str(PROJECT)  # kustomize takes relative paths only
    (folder / "kustomization.yaml").write_text(KUSTOMIZATION.format(project=up))
    installed.kubectl("apply", "-k", str(folder))
    installed.kubectl("rollout", "status", "deployment", "volsched-controllers", "-n", SYSTEM, "--timeout=300s")
    eventually(lambda: _refusal(installed))
    yield installed
    installed.kubectl("delete", "-k", str(folder), "--timeout=180s")
    installed.kubectl("apply", "-k", "manifests/overlays/standalone")
    for name in ("volsched-scheduler", "volsched-controllers"):
        installed.kubectl("rollout", "status", "deployment", name, "-n", SYSTEM, "--timeout=180s")


def _refusal(cluster: Cluster) -> str:
    """What the API server says of a Queue that cannot be; empty while it takes it."""
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "impossible", "annotations": {"volsched.io/allowed-namespaces": "[]]"}},
        "spec": {"weight": 1},
    }
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(queue))
    except KubectlError as error:
        return str(error)
    return ""


def test_what_cannot_be_is_refused_at_apply(guarded: Cluster) -> None:
    assert "admission webhook" in _refusal(guarded)
    assert "allowed-namespaces" in _refusal(guarded)
