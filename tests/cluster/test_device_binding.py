"""Devices with binding conditions on a real API server: the test is their driver, and says when they are ready."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import CONFIGURATION, QUICK_LEASE, Installed, eventually
from tests.cluster.signals import after_writes
from tests.cluster.test_resource_claims import (
    DEVICES,
    DIRECT,
    Fleet,
    devices_of,
    pod_with,
    reserved_for,
    using,
)
from tests.framework.dra.worlds import device, part
from tools.controlplane import ControlPlane

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

Json = dict[str, Any]
PREPARING = 'volsched_lane_depth{lane="volumes"}'
CONDITIONS = {"bindingConditions": ["example.com/Attached"], "bindingFailureConditions": ["example.com/Broken"]}
QUICK = CONFIGURATION.replace(
    "- name: predicates", "- name: predicates\n    arguments: {dynamicresources.bindingTimeoutSeconds: 6}"
)


class Fabric(Fleet):
    """One device on each node, which has to be attached to it first; and the driver's word on that."""

    def __init__(self, control_plane: ControlPlane, namespace: str, make_nodes: MakeNodes) -> None:
        super().__init__(control_plane, namespace, make_nodes)
        for node in self.nodes:
            self.write_slice(node)

    def write_slice(self, node: str, **more: Any) -> None:
        """Write the slice of a node; `more` is about its device."""
        path = f"{DEVICES}/resourceslices/{node}-{self.name}"
        version = self.api.get(path)["metadata"]["resourceVersion"]
        devices = [device("d0", more={**CONDITIONS, **more})]
        body = part(f"{node}-{self.name}", devices, node=node, pool=node, driver=self.name)
        body["metadata"]["resourceVersion"] = version
        self.api.replace(path, body)

    def say(self, claim: str, **conditions: str) -> None:
        """Report conditions of all devices of a claim."""
        when = "2026-01-01T00:00:00Z"
        said = [
            {
                "type": f"example.com/{kind}",
                "status": status,
                "reason": "Said",
                "message": "",
                "lastTransitionTime": when,
            }
            for kind, status in conditions.items()
        ]
        results = self.get(claim)["status"]["allocation"]["devices"]["results"]
        reports = [{**{key: r[key] for key in ("driver", "pool", "device")}, "conditions": said} for r in results]
        self.api.patch(f"{self.claims}/{claim}/status", {"status": {"devices": reports}})

    def wait_reserved(self, claim: str, pod: str) -> Json:
        eventually(lambda: reserved_for(self.get(claim)) == [pod], what=f"{claim} is reserved for {pod}")
        return self.get(claim)


@pytest.fixture
def fabric(control_plane: ControlPlane, namespace: str, make_nodes: MakeNodes) -> Iterator[Fabric]:
    made = Fabric(control_plane, namespace, make_nodes)
    yield made
    made.close()


def is_unbound(installed: Installed, namespace: str, name: str = "p") -> bool:
    return "nodeName" not in installed.pods(namespace)[name]["spec"]


def after_claims(installed: Installed, namespace: str, fabric: Fabric) -> None:
    """Return once the scheduler has heard of all that was said about claims, and has written.

    It binds a pod of the other device, of whose claim was heard last.
    """
    fabric.make_claim("later")
    installed.make_pods(namespace, [installed.pod("later", cpu="1", spec=using("later"))])
    fabric.wait_reserved("later", "later")
    fabric.say("later", Attached="True")
    eventually(lambda: not is_unbound(installed, namespace, "later"), what="the later pod is bound")
    after_writes(installed.processes[-1], ("bind",))


def test_the_pod_is_bound_once_its_device_is_ready(installed: Installed, namespace: str, fabric: Fabric) -> None:
    fabric.make_claim("c")
    scheduler = installed.start(*DIRECT).wait_leading()

    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=using("c"))])
    found = fabric.wait_reserved("c", "p")
    [result] = found["status"]["allocation"]["devices"]["results"]
    assert {key: result[key] for key in CONDITIONS} == CONDITIONS
    said = installed.wait_event(namespace, "p", "BindingConditionsPending")
    assert said["message"] == f"waiting for binding conditions for device on node {result['pool']}"

    fabric.say("c", Attached="False")
    after_claims(installed, namespace, fabric)
    assert is_unbound(installed, namespace)
    assert scheduler.metric(PREPARING) == 1
    fabric.say("c", Attached="True")

    assert installed.wait_bound(namespace, 2)["p"] == result["pool"]


def test_a_claim_for_extended_resources_is_waited_for_like_any_other(
    installed: Installed, namespace: str, fabric: Fabric
) -> None:
    installed.start(*DIRECT).wait_leading()
    resource = f"deviceclass.resource.kubernetes.io/{fabric.name}"
    installed.make_pods(namespace, [pod_with(installed, "p", resource, 1)])
    eventually(lambda: any(devices_of(found) for found in fabric.api.items(fabric.claims)), what="a claim is allocated")
    [found] = fabric.api.items(fabric.claims)
    installed.wait_event(namespace, "p", "BindingConditionsPending")
    assert is_unbound(installed, namespace)

    fabric.say(found["metadata"]["name"], Attached="True")

    assert devices_of(found) == [f"{installed.wait_bound(namespace, 1)['p']}/d0"]


def test_others_are_bound_while_one_waits(installed: Installed, namespace: str, fabric: Fabric) -> None:
    fabric.make_claim("c")
    installed.start(*DIRECT, "--binds-in-flight", "1").wait_leading()
    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=using("c"))])
    fabric.wait_reserved("c", "p")

    installed.make_pods(namespace, [installed.pod(f"other-{n}", cpu="1") for n in range(3)])

    assert sorted(installed.wait_bound(namespace, 3)) == ["other-0", "other-1", "other-2"]


def test_a_device_that_fails_is_given_back_and_another_is_taken(
    installed: Installed, namespace: str, fabric: Fabric
) -> None:
    fabric.make_claim("c")
    scheduler = installed.start(*DIRECT).wait_leading()
    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=using("c"))])
    [first] = devices_of(fabric.wait_reserved("c", "p"))
    bad = first.partition("/")[0]
    fabric.write_slice(bad, taints=[{"key": "example.com/broken", "effect": "NoSchedule"}])

    fabric.say("c", Broken="True")
    said = scheduler.wait_for("binding failed")["error"]
    assert said == f"resourceclaim {namespace}/c: device {fabric.name}/{first} has failed (example.com/Broken: Said)"
    [good] = set(fabric.nodes) - {bad}
    eventually(lambda: devices_of(fabric.get("c")) == [f"{good}/d0"], what="the other device is allocated")
    fabric.wait_reserved("c", "p")
    assert "devices" not in fabric.get("c")["status"]
    fabric.say("c", Attached="True")

    assert installed.wait_bound(namespace, 1) == {"p": good}


def test_a_device_that_takes_too_long_is_given_back(
    installed: Installed, namespace: str, fabric: Fabric, tmp_path: Path
) -> None:
    (tmp_path / "quick.conf").write_text(QUICK)
    fabric.make_claim("c")
    installed.start(*DIRECT, "--scheduler-conf", str(tmp_path / "quick.conf")).wait_leading()

    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=using("c"))])
    before = fabric.wait_reserved("c", "p")["status"]["allocation"]
    late = f"resourceclaim {namespace}/c: not true within 6s: example.com/Attached of device {fabric.name}/"
    installed.wait_event(namespace, "p", "FailedScheduling", saying=late)

    eventually(
        lambda: (
            fabric.get("c")["status"].get("allocation", before)["allocationTimestamp"] != before["allocationTimestamp"]
        ),
        what="the claim was released and allocated anew",
    )
    fabric.wait_reserved("c", "p")
    fabric.say("c", Attached="True")
    installed.wait_bound(namespace, 1)


def test_a_scheduler_killed_while_a_pod_waits_is_followed_by_one_that_waits_too(
    installed: Installed, namespace: str, fabric: Fabric
) -> None:
    fabric.make_claim("c")
    first = installed.start(*DIRECT, *QUICK_LEASE).wait_leading()
    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=using("c"))])
    before = fabric.wait_reserved("c", "p")
    first.kill()

    installed.start(*DIRECT).wait_leading()
    after_claims(installed, namespace, fabric)
    assert is_unbound(installed, namespace)
    fabric.say("c", Attached="True")
    bound = installed.wait_bound(namespace, 2)

    assert devices_of(before) == [f"{bound['p']}/d0"]
    assert fabric.get("c")["status"]["allocation"] == before["status"]["allocation"]
    assert reserved_for(fabric.get("c")) == ["p"]


def test_a_pod_that_is_deleted_while_it_waits_is_waited_for_no_longer(
    installed: Installed, namespace: str, fabric: Fabric
) -> None:
    fabric.make_claim("c")
    scheduler = installed.start(*DIRECT).wait_leading()
    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=using("c"))])
    fabric.wait_reserved("c", "p")
    eventually(lambda: scheduler.metric(PREPARING) == 1)

    fabric.api.delete(f"/api/v1/namespaces/{namespace}/pods/p", grace_seconds=0)

    eventually(lambda: scheduler.metric(PREPARING) == 0, what="nothing is waited for")
