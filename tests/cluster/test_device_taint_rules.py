"""DeviceTaintRules on a real API server that serves them: watched, applied, and gone when they are."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_plane import OURS, running_control_plane
from tests.cluster.scheduling import Installed, eventually, still
from tests.cluster.served import wait_served
from tests.framework.dra.worlds import claim, device, device_class, exactly, part, taint_rule
from tools.controlplane import ControlPlane, a_node
from volsched.model.dra.api import RULES_VERSION

DEVICES = "/apis/resource.k8s.io/v1"
RULES = f"/apis/{RULES_VERSION}/devicetaintrules"
FLAGS = [f"--runtime-config={RULES_VERSION}=true"]
DIRECT = ("--plain-pods", "direct")


@pytest.fixture(scope="module")
def with_rules(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own: by default an API server does not have the kind."""
    folder = tmp_path_factory.mktemp("controlplane")
    with running_control_plane(request, folder, api_flags=FLAGS, manifests=OURS) as cluster:
        yield wait_served(cluster)


@dataclass
class Site:
    """Two nodes with a device each, of a driver of the test's own, and one namespace."""

    installed: Installed
    name: str
    nodes: list[str]

    def taint(self, rule: str, **more: str) -> None:
        self.installed.api.create(RULES, taint_rule(f"{rule}-{self.name}", driver=f"{self.name}.example.com", **more))

    def make_pod(self, name: str, **request: Any) -> None:
        """A pod with a claim of its name for one device."""
        body = {**claim(name, exactly(cls=self.name, **request)), "metadata": {"name": name}}
        self.installed.api.create(f"{DEVICES}/namespaces/{self.name}/resourceclaims", body)
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
        self.installed.make_pods(self.name, [self.installed.pod(name, cpu="1", spec=spec)])

    def wait_bound(self, count: int) -> dict[str, str]:
        return self.installed.wait_bound(self.name, count)

    def wait_refusal(self, name: str, words: str) -> None:
        eventually(lambda: words in self.installed.condition(self.name, name).get("message", ""), what=words)


@pytest.fixture
def site(with_rules: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    api, name = with_rules.api, with_rules.create_namespace(f"rules-{uuid.uuid4().hex[:6]}")
    nodes = with_rules.create_nodes([a_node(f"{name}-{number}") for number in (1, 2)])
    driver = f"{name}.example.com"
    for node in nodes:
        api.create(f"{DEVICES}/resourceslices", part(node, [device("d0")], node=node, pool=node, driver=driver))
    api.create(f"{DEVICES}/deviceclasses", device_class(name, driver=driver))
    found = Site(Installed(with_rules, tmp_path), name, nodes)
    yield found
    for process in found.installed.processes:
        process.close()


def test_rules_keep_pods_off_devices_until_they_go(site: Site) -> None:
    api, (one, other) = site.installed.api, site.nodes
    site.taint("before", pool=one)
    scheduler = site.installed.start(*DIRECT).wait_leading()
    assert scheduler.said("everything is listed")[0]["devicetaintrules"] >= 1

    site.make_pod("first")
    assert site.wait_bound(1) == {"first": other}

    site.make_pod("second")
    site.wait_refusal("second", "cannot allocate all claims, leaving out devices with untolerated taint {example.com/")

    site.taint("after", key="example.com/hot", device="d0", effect="NoExecute")
    api.delete(f"{RULES}/before-{site.name}")
    is_unbound = lambda: "nodeName" not in site.installed.pods(site.name)["second"]["spec"]  # noqa: E731
    still(is_unbound, 1.5)  # no signal: a refusal that differs in words alone is written ever later

    api.patch(f"{RULES}/after-{site.name}", {"spec": {"taint": {"effect": "None"}}})
    assert site.wait_bound(2) == {"first": other, "second": one}


def test_a_claim_that_tolerates_the_taint_has_the_device(site: Site) -> None:
    site.taint("everything")
    site.installed.start(*DIRECT).wait_leading()

    site.make_pod("none")
    site.wait_refusal("none", "untolerated taint {example.com/broken: yes}")
    site.make_pod("any", tolerations=[{"operator": "Exists"}])

    assert list(site.wait_bound(1)) == ["any"]
