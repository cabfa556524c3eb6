"""Queues that may hold fewer devices than there are; Kubernetes' and Volcano's controllers make the pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.controlling import AT_WORK, Controlled
from tests.cluster.scheduling import GROUPS, Json, SchedulerProcess, eventually
from tests.cluster.signals import BINDS, STATUSES, after_round, after_session
from tests.cluster.test_resource_claims import Fleet, devices_of, fleet, from_template, reserved_for

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

__all__ = ["fleet"]

CONFIGURATION = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
  - name: capacity-dra
    enableHierarchy: {hierarchy}
"""


class Shop:
    """A fleet of four devices, queues with quotas of them, and work in a namespace whose pods want one each."""

    def __init__(self, controlled: Controlled, namespace: str, fleet: Fleet) -> None:
        self.controlled, self.api, self.fleet = controlled, controlled.api, fleet
        self.namespace = namespace
        fleet.make_template("one")

    def start(self, *, hierarchy: bool = False) -> SchedulerProcess:
        """Start a scheduler that minds quotas of devices."""
        path = self.controlled.folder / "scheduler.conf"
        path.write_text(CONFIGURATION.format(hierarchy=str(hierarchy).lower()))
        return self.controlled.start("--scheduler-conf", str(path)).wait_leading()

    def open(self, *, hierarchy: bool = False) -> SchedulerProcess:
        """Start that, and controllers."""
        scheduler = self.start(hierarchy=hierarchy)
        self.controlled.control().wait_for(AT_WORK)
        return scheduler

    def queue(self, name: str, devices: int, **spec: Any) -> str:
        """Make a queue that may hold so many devices."""
        return self.controlled.queue(f"{name}-{self.namespace}", dra=self._quota(devices), **spec)

    def limit(self, queue: str, devices: int) -> None:
        self.api.patch(f"{GROUPS}/queues/{queue}", {"spec": {"dra": self._quota(devices)}})

    def _quota(self, devices: int) -> Json:
        return {"capability": {self.fleet.name: {"count": devices}}}

    def submit(self, name: str, queue: str) -> None:
        """Make a PodGroup and its only pod, of this name."""
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
        body = {**group, "spec": {"minMember": 1, "queue": queue}}
        self.api.create(f"{GROUPS}/namespaces/{self.namespace}/podgroups", body)
        pod = self.controlled.pod(name, group=name, cpu="1", spec=from_template("one"))
        self.controlled.make_pods(self.namespace, [pod])

    def submit_gang(self, name: str, queue: str, size: int) -> None:
        """Make a PodGroup and pods of that many, all its minimum, that want one device each and nothing else."""
        self.controlled.make_gang(self.namespace, name, size, queue=queue, spec=from_template("one"))

    def conditions(self, group: str) -> list[str]:
        """The types of what is true of a PodGroup."""
        found = self.controlled.group(self.namespace, group).get("status", {}).get("conditions", [])
        return [condition["type"] for condition in found if condition["status"] == "True"]

    def deploy(self, name: str, queue: str, replicas: int) -> None:
        """Make a Deployment; Kubernetes' own controllers make its pods, and a claim for each from the template."""
        named = {"scheduling.volcano.sh/queue-name": queue}
        template = self.controlled.template(named, cpu="1", spec=from_template("one"))
        self.controlled.workload(self.namespace, "Deployment", name, replicas, template=template)

    def scale(self, name: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}"
        self.api.patch(path, {"spec": {"replicas": replicas}})

    def wait_placed(self, **expected: int) -> None:
        """Wait until just so many pods of each piece of work have a node."""
        what = f"{expected} have nodes"
        eventually(lambda: {name: len(self._pods(name, placed=True)) for name in expected} == expected, what=what)

    def wait_waiting(self, words: str, **expected: int) -> None:
        """Wait until just so many pods of each piece of work have no node, and each of them is told these words."""

        def is_so() -> bool:
            waiting = {name: self._pods(name, placed=False) for name in expected}
            told = [words in self.told(pod, "Pod") for pods in waiting.values() for pod in pods]
            return {name: len(pods) for name, pods in waiting.items()} == expected and all(told)

        eventually(is_so, what=f"{expected} wait since {words}")

    def _pods(self, work: str, *, placed: bool) -> list[str]:
        pods = self.controlled.pods(self.namespace)
        mine = [name for name in pods if name.partition("-")[0] == work]
        return [name for name in mine if ("nodeName" in pods[name]["spec"]) == placed]

    def told(self, name: str, kind: str) -> str:
        """What Warnings say of a quota on a Pod or a PodGroup."""
        events = self.controlled.events(self.namespace, name)
        mine = [event for event in events if event["involvedObject"]["kind"] == kind and event["type"] == "Warning"]
        return "\n".join(event["message"] for event in mine if event["reason"] == "InsufficientDRAQuota")

    def wait_given(self, devices: int) -> None:
        """Wait until just so many devices are given out, each to a pod that is there and has a node."""

        def is_so() -> bool:
            pods = self.controlled.pods(self.namespace)
            placed = sorted(name for name, pod in pods.items() if "nodeName" in pod["spec"])
            claims = [found for found in self.api.items(self.fleet.claims) if devices_of(found)]
            given = [one for found in claims for one in devices_of(found)]
            users = sorted(name for found in claims for name in reserved_for(found))
            return len(set(given)) == len(given) == devices and users == placed

        eventually(is_so, what=f"{devices} devices are given out")


@pytest.fixture
def shop(controlled: Controlled, namespace: str, fleet: Fleet) -> Shop:
    return Shop(controlled, namespace, fleet)


def beyond(queue: str, device_class: str, limit: int) -> str:
    """What a pod is told that wants one device more than its queue, or one above, may hold."""
    numbers = f"requested 1, used {limit}, total would be {limit + 1}, but capability is {limit}"
    return f'queue "{queue}" has insufficient DRA quota: DeviceClass {device_class}: {numbers}'


@pytest.mark.no_retry(reason="quota overrun")
def test_a_queue_holds_no_more_devices_than_its_quota(shop: Shop) -> None:
    """The CRD keeps spec.dra; the second pod waits, with Warnings on it and its PodGroup, until the first is gone."""
    queue = shop.queue("q", 1)
    shop.start()
    full = beyond(queue, shop.fleet.name, 1)

    shop.submit("first", queue)
    shop.wait_placed(first=1)
    shop.submit("second", queue)
    shop.wait_waiting(full, second=1)
    eventually(lambda: full in shop.told("second", "PodGroup"), what="its PodGroup is told as well")
    shop.api.delete(f"/api/v1/namespaces/{shop.namespace}/pods/first", grace_seconds=0)

    shop.wait_placed(first=0, second=1)


def test_a_deployment_has_as_many_replicas_as_its_queue_may_hold_devices_and_gives_them_back(shop: Shop) -> None:
    queue = shop.queue("q", 2)
    scheduler = shop.open()
    full = beyond(queue, shop.fleet.name, 2)

    shop.deploy("train", queue, 3)
    shop.wait_placed(train=2)
    shop.deploy("serve", queue, 2)
    shop.wait_waiting(full, train=1, serve=2)
    shop.wait_placed(train=2, serve=0)
    shop.wait_given(2)

    shop.scale("train", 1)
    shop.wait_waiting(full, train=0, serve=1)
    shop.wait_placed(train=1, serve=1)
    shop.wait_given(2)

    shop.scale("train", 0)
    shop.wait_placed(train=0, serve=2)
    shop.wait_given(2)
    held = f'volcano_queue_dra_allocated{{device_class="{shop.fleet.name}",dimension="count",queue_name="{queue}"}}'
    eventually(lambda: scheduler.metric(held) == 2, what=scheduler.page("/metrics")[1])


def test_gangs_that_ask_for_devices_alone_start_whole_or_not_at_all(shop: Shop) -> None:
    """Three pods and a quota of two; then two pods and room for one. Neither PodGroup is called ready meanwhile."""
    queue, wide = shop.queue("q", 2), shop.queue("wide", 9)
    shop.open()

    shop.submit_gang("three", queue, 3)
    eventually(lambda: shop.conditions("three") == ["Unschedulable"], what="the gang is told")
    after_session(shop.controlled, lanes=(*BINDS, *STATUSES), devices=True)
    assert shop.conditions("three") == ["Unschedulable"]
    assert len(shop._pods("three", placed=True)) == 0
    shop.limit(queue, 3)
    shop.wait_placed(three=3)
    eventually(lambda: shop.conditions("three") == ["Scheduled"], what="the gang is ready")

    shop.submit_gang("two", wide, 2)
    eventually(lambda: shop.conditions("two") == ["Unschedulable"], what="the other gang is told")
    after_session(shop.controlled, devices=True)
    assert len(shop._pods("two", placed=True)) == 0
    shop.wait_given(3)


@pytest.mark.no_retry(reason="quota overrun")
def test_a_scheduler_that_takes_over_counts_the_devices_that_are_held(shop: Shop) -> None:
    queue = shop.queue("q", 2)
    first = shop.open()
    shop.deploy("train", queue, 2)
    shop.wait_placed(train=2)
    assert first.terminate() == 0

    shop.scale("train", 4)
    shop.start()

    shop.wait_waiting(beyond(queue, shop.fleet.name, 2), train=2)
    shop.wait_placed(train=2)
    shop.wait_given(2)


def test_the_quota_of_a_queue_above_bounds_the_deployments_of_those_below_together(shop: Shop) -> None:
    above = shop.queue("above", 3)
    left, right = (shop.queue(name, 2, parent=above) for name in ("left", "right"))
    shop.open(hierarchy=True)
    name = shop.fleet.name

    shop.deploy("a", left, 3)
    shop.wait_waiting(beyond(left, name, 2), a=1)
    shop.deploy("b", right, 3)
    shop.wait_waiting(beyond(above, name, 3), b=2)
    shop.wait_placed(a=2, b=1)
    shop.wait_given(3)

    shop.scale("a", 1)
    shop.wait_waiting(beyond(right, name, 2), b=1)
    shop.wait_placed(a=1, b=2)
    shop.wait_given(3)

    shop.limit(above, 4)
    shop.scale("a", 2)
    shop.wait_placed(a=2, b=2)
    shop.wait_given(4)


def test_a_job_whose_claims_are_above_the_quota_has_no_pods_until_they_are_not(shop: Shop) -> None:
    controlled, namespace = shop.controlled, shop.namespace
    queue = shop.queue("q", 2, weight=1)
    shop.open()
    task = controlled.task("worker", 3)
    task["template"]["spec"] |= from_template("one")

    controlled.job(namespace, "train", [task], queue=queue)

    [group] = controlled.wait_groups(namespace, 1)
    told = json.loads(group["metadata"]["annotations"]["volsched.io/resource-claims"])
    assert told == {"worker": [{"name": "gpu", "template": "one"}]}
    name = group["metadata"]["name"]
    refusal = controlled.wait_event(namespace, name, "InsufficientDRAQuota")
    assert "requested 3, used 0, total would be 3, but capability is 2" in refusal["message"]
    after_session(controlled, lanes=(*BINDS, *STATUSES), devices=True)
    after_round(controlled)
    assert controlled.pods(namespace) == {}

    shop.limit(queue, 3)

    controlled.wait_bound(namespace, 3)
    shop.wait_given(3)
