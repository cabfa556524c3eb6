"""Names of a real cluster, as three shells complete them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.calls import call
from tests.cli.test_completion import completed
from tools.controlplane import ControlPlane, a_pod
from tools.shells import Shell
from volsched.cli.completion import SHELLS

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

GROUP = "scheduling.volcano.sh/v1beta1"


@pytest.fixture
def names(manifests_applied: ControlPlane, namespace: str) -> Iterator[str]:
    """A pod, a PodGroup, a Job and a Queue whose names begin with that of the namespace; the beginning."""
    stem, api = f"{namespace}-train", manifests_applied.api
    container = {"name": "main", "image": "example.com/main"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    api.create(f"/api/v1/namespaces/{namespace}/pods", a_pod(f"{stem}-0", scheduler="nobody"))
    api.create(f"/api/v1/namespaces/{namespace}/pods", a_pod("another", scheduler="nobody"))
    group = {"apiVersion": GROUP, "kind": "PodGroup", "metadata": {"name": f"{stem}-group"}, "spec": {"minMember": 1}}
    api.create(f"/apis/{GROUP}/namespaces/{namespace}/podgroups", group)
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"{stem}-job"}}
    api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", job | {"spec": {"suspend": True, "template": template}})
    queue = {"apiVersion": GROUP, "kind": "Queue", "metadata": {"name": f"{stem}-queue"}, "spec": {"weight": 1}}
    api.create(f"/apis/{GROUP}/queues", queue)
    yield stem
    api.delete(f"/apis/{GROUP}/queues/{stem}-queue")


@pytest.mark.parametrize("shell", SHELLS)
def test_names_are_completed_in_the_namespace_of_the_line(
    shell: str, control_plane: ControlPlane, namespace: str, names: str, tmp_path: Path
) -> None:
    script = tmp_path / f"volsched.{shell}"
    script.write_text(call("completion", shell).stdout)
    path = f"{Path('.venv/bin').absolute()}:{os.environ['PATH']}"
    asked = Shell(shell, script, {"PATH": path, "HOME": str(tmp_path), "KUBECONFIG": str(control_plane.kubeconfig)})

    assert f"{names}-0" in asked.completed(f"volsched explain -n {namespace} pod {names[:-2]}")
    assert f"{names}-0" not in asked.completed(f"volsched explain pod {names[:-2]}")


def test_names_of_every_kind_are_completed(control_plane: ControlPlane, namespace: str, names: str) -> None:
    flags = f"--kubeconfig {control_plane.kubeconfig} -n {namespace}"

    assert completed(f"volsched explain {flags} podgroup {names}") == [f"plain,{names}-group"]
    assert completed(f"volsched explain {flags} job {names}") == [f"plain,{names}-job"]
    assert completed(f"volsched explain {flags} queue {names}") == [f"plain,{names}-queue"]
    assert completed(f"volsched explain {flags.removesuffix(namespace)}{namespace}") == [f"plain,{namespace}"]
