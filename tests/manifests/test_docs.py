"""The commands of docs/install.md and docs/operations.md, run as they stand, on a real API server.

Left out is what needs an engine for images or a kubelet: building, reading logs, running something in a pod.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, Block, blocks
from tests.manifests.applying import delete, reminded_of_crds
from tests.manifests.rendering import ROOT, SYSTEM, container, of_kind, rendered
from tools.controlplane import ControlPlane
from tools.patience import PATIENCE

INSTALL, OPERATIONS = DOCS / "install.md", DOCS / "operations.md"
NOT_HERE = ("docker ", "kubectl logs", "kubectl exec")
RUN = {
    "install": (INSTALL, "kubectl apply -k mine"),
    "run samples": (INSTALL, "kubectl apply -f"),
    "tell Volcano's controllers": (INSTALL, "--scheduler-name=volsched"),
    "share nodes out": (INSTALL, "kubectl taint nodes"),
    "remove": (INSTALL, "kubectl delete -k mine"),
    "remove the rights": (INSTALL, "kubectl delete -k manifests/rbac"),
    "upgrade": (OPERATIONS, "kubectl diff -k mine"),
    "try before the move": (OPERATIONS, "volsched simulate"),
    "move": (OPERATIONS, "volcano-scheduler --replicas=0"),
    "move back": (OPERATIONS, "volcano-scheduler --replicas=1"),
}
"""The blocks of commands that are run: on which page, and a word that is in no other."""

VOLCANO = "volcano-system"


def kustomization(page: Path) -> Block:
    [block] = [block for block in blocks(page) if "file=kustomization.yaml" in block.words]
    return block


def commands(what: str) -> str:
    page, word = RUN[what]
    [block] = [block for block in blocks(page) if "sh" in block.words and word in block.text]
    return block.text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout and a folder `mine` beside it, and what the commands call."""
    (tmp_path / "volsched").symlink_to(ROOT)
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    (tmp_path / "mine").mkdir()
    script = tmp_path / "bin" / "volsched"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m volsched "$@"\n')
    script.chmod(0o755)
    return tmp_path


class Shell:
    """A shell of the cluster's administrator in a folder."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        path = os.pathsep.join([str(folder / "bin"), str(cluster.binaries["kubectl"].parent), os.environ["PATH"]])
        self._environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig), "PATH": path, "PYTHONPATH": str(ROOT)}

    def __call__(self, text: str) -> str:
        command = ["timeout", str(PATIENCE), "sh", "-exc", text]
        with reminded_of_crds(self._cluster):
            done = subprocess.run(
                command, cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False
            )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def sh(cluster: ControlPlane, monitoring_kinds: None, folder: Path) -> Iterator[Shell]:
    shell = Shell(cluster, folder)
    yield shell
    if (folder / "mine/kustomization.yaml").exists():
        delete(cluster, "-k", folder / "mine")


@pytest.fixture
def volcano(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """What the commands name of Volcano: Deployments, and the ConfigMap of its Helm chart's name."""
    cluster.create_namespace(VOLCANO)
    for name in ("volcano-scheduler", "volcano-controllers"):
        pod = {"containers": [{"name": name, "image": "none", "args": ["--logtostderr"]}]}
        labels = {"app": name}
        spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
        cluster.api.create(
            f"/apis/apps/v1/namespaces/{VOLCANO}/deployments", {"metadata": {"name": name}, "spec": spec}
        )
    body = {"metadata": {"name": "volcano-scheduler-configmap"}, "data": {"volcano-scheduler.conf": VOLCANOS_OWN}}
    cluster.api.create(f"/api/v1/namespaces/{VOLCANO}/configmaps", body)
    cluster.kubectl("apply", "-k", str(ROOT / "manifests/crds"))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")
    yield cluster
    delete(cluster, "-k", ROOT / "manifests/crds")
    cluster.kubectl("delete", "namespace", VOLCANO, "--timeout=300s")


VOLCANOS_OWN = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


def replicas(cluster: ControlPlane, namespace: str, name: str) -> int:
    found = cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    return int(found["spec"]["replicas"])


def test_it_is_installed_upgraded_and_removed(cluster: ControlPlane, sh: Shell, folder: Path) -> None:
    (folder / "mine/kustomization.yaml").write_text(kustomization(INSTALL).text)

    sh(commands("install"))
    shown = sh(commands("run samples").replace("describe pods -l app=crawler --show-events", "get deployment crawler"))
    sh(commands("upgrade"))

    assert "podgroup.scheduling.volcano.sh/train" in shown
    kept = sh("kubectl get -n volsched-system configmap volsched-config -o yaml")
    assert "binpack.resources: nvidia.com/gpu" in kept
    assert cluster.api.items("/apis/monitoring.coreos.com/v1/servicemonitors")
    sh("kubectl delete -f manifests/examples/workloads/gang.yaml -f manifests/examples/workloads/queue.yaml")
    sh(commands("remove"))
    assert sh("kubectl get -k mine --ignore-not-found") == ""


def test_removing_the_rights_keeps_the_queues(cluster: ControlPlane, sh: Shell, folder: Path) -> None:
    (folder / "mine/kustomization.yaml").write_text(kustomization(INSTALL).text)
    sh("kubectl apply -k mine")
    sh("kubectl apply -f manifests/examples/workloads/queue.yaml")

    sh(commands("remove the rights"))

    assert cluster.api.find(f"/api/v1/namespaces/{SYSTEM}") is None
    assert cluster.api.find("/apis/scheduling.volcano.sh/v1beta1/queues/small") is not None
    sh("kubectl delete -f manifests/examples/workloads/queue.yaml")


def test_volcanos_controllers_are_told_the_name_and_nodes_are_shared_out(volcano: ControlPlane, sh: Shell) -> None:
    sh("kubectl label nodes plain-2 pool=volsched")
    sh(commands("tell Volcano's controllers"))
    sh(commands("share nodes out"))

    found = volcano.api.get(f"/apis/apps/v1/namespaces/{VOLCANO}/deployments/volcano-controllers")
    assert container(found)["args"] == ["--scheduler-name=volcano", "--scheduler-name=volsched", "--logtostderr"]
    sh("kubectl taint nodes plain-2 scheduler- && kubectl label nodes plain-2 pool-")


def test_the_move_from_volcanos_scheduler_and_back(volcano: ControlPlane, sh: Shell, folder: Path) -> None:
    (folder / "mine/kustomization.yaml").write_text(kustomization(OPERATIONS).text)
    deployment = of_kind(rendered(folder / "mine"), "Deployment")["volsched-scheduler"]
    names = [word for word in container(deployment)["args"] if word.startswith("--scheduler-name")]
    assert names == ["--scheduler-name=volsched", "--scheduler-name=volcano"]

    shown = sh(commands("try before the move"))
    assert "placed" in shown

    sh(commands("move"))
    assert replicas(volcano, VOLCANO, "volcano-scheduler") == 0
    assert replicas(volcano, SYSTEM, "volsched-scheduler") == 2

    sh(commands("move back"))
    assert replicas(volcano, SYSTEM, "volsched-scheduler") == 0
    assert replicas(volcano, VOLCANO, "volcano-scheduler") == 1


def test_all_commands_of_the_pages_are_run_here() -> None:
    for page in (INSTALL, OPERATIONS):
        for block in blocks(page):
            if "sh" in block.words and not any(word in block.text for word in NOT_HERE):
                assert any((page, word) in RUN.values() for _, word in RUN.values() if word in block.text), str(block)
