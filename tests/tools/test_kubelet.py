"""The containers and the kubelet that other tests use are as narrow as those of a node.

`tests/container.py` makes the containers, `tests/manifests/kubelet.py` what a kubelet would put into them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.control_plane import running_control_plane
from tests.container import why_not
from tests.manifests.applying import installed
from tests.manifests.dockerfile import Image, folder_of_run, shared_image
from tests.manifests.kubelet import Kubelet
from tests.manifests.processes import pods_of
from tests.manifests.rendering import MANIFESTS, SYSTEM, Json
from tools.controlplane import ControlPlane

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"no containers by hand: {why_not()}")

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"
FACTS = """
import os, pwd
print("ids", *os.getresuid(), *os.getresgid(), *os.getgroups())
try:
    print("name", pwd.getpwuid(os.getuid()).pw_name)
except KeyError:
    print("name")
print("variables", *sorted(os.environ))
print("status", *(line.split(None, 1)[1].strip() for line in open("/proc/self/status")
                  if line.startswith(("CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"))))
def can_write(folder):
    try:
        open(folder + "/probe", "w").close()
    except OSError:
        return False
    return True
print("writable", *(f for f, _, _ in os.walk("/") if not f.startswith("/proc") and can_write(f)))
"""

Facts = Callable[[str], dict[str, list[str]]]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with shared_image(folder_of_run(tmp_path_factory.getbasetemp())) as image:
        yield image


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of these tests alone, since they install and remove what other tests need."""
    with running_control_plane(request, tmp_path_factory.mktemp("controlplane"), kwok=False) as found:
        yield found


@pytest.fixture(scope="module")
def pods(cluster: ControlPlane) -> Iterator[dict[str, Json]]:
    """One pod of each Deployment."""
    with installed(cluster, MANIFESTS / "overlays/standalone"):
        found = cluster.api.items(DEPLOYMENTS)
        yield {deployment["metadata"]["name"]: pods_of(cluster, deployment)[0] for deployment in found}


@pytest.fixture
def facts(cluster: ControlPlane, image: Image, pods: dict[str, Json], tmp_path: Path) -> Facts:
    """What a program finds out in the container of a pod."""
    kubelet = Kubelet(cluster, image, tmp_path)

    def facts(name: str) -> dict[str, list[str]]:
        python = ["/opt/volsched/bin/python", "-c", FACTS]
        done = dataclasses.replace(kubelet.container(pods[name]), words=python).run(kubelet.root(pods[name]))
        assert done.returncode == 0, done.stderr
        return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}

    return facts


@pytest.mark.parametrize("name", ["volsched-scheduler", "volsched-controllers"])
def test_the_process_is_nobody_and_has_no_rights(facts: Facts, name: str) -> None:
    found = facts(name)

    assert found["ids"] == ["65532"] * 6
    assert found["name"] == []
    assert found["status"] == [*["0000000000000000"] * 4, "1"]


_OF_NODES: Final = frozenset({"HOSTNAME", "VOLSCHED_HOST_IP"})


def test_the_only_variables_are_those_of_the_image_of_the_manifest_and_of_kubernetes(
    facts: Facts, image: Image
) -> None:
    for name, own in (("volsched-scheduler", {"POD_NAMESPACE"}), ("volsched-controllers", set[str]())):
        variables = set(facts(name)["variables"])
        rest = {variable for variable in variables if not variable.startswith("KUBERNETES_")}
        assert rest - {"LC_CTYPE"} == image.stage.environment.keys() | _OF_NODES | own  # Python sets LC_CTYPE itself
        assert {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} < variables


@pytest.mark.parametrize("name", ["volsched-scheduler", "volsched-controllers"])
def test_only_the_volume_that_the_manifest_gives_can_be_written(facts: Facts, pods: dict[str, Json], name: str) -> None:
    [volume] = [volume["name"] for volume in pods[name]["spec"]["volumes"] if "emptyDir" in volume]
    [mounts] = [container["volumeMounts"] for container in pods[name]["spec"]["containers"]]

    assert facts(name)["writable"] == [mount["mountPath"] for mount in mounts if mount["name"] == volume]


def test_arguments_are_word_for_word_those_of_the_manifest(
    cluster: ControlPlane, image: Image, pods: dict[str, Json], tmp_path: Path
) -> None:
    pod = pods["volsched-scheduler"]

    words = Kubelet(cluster, image, tmp_path).container(pod).words

    [spec] = pod["spec"]["containers"]
    assert words == ["volsched", *(text.replace("$(POD_NAMESPACE)", SYSTEM) for text in spec["args"])]
    assert "--listen-address=:8080" in words
