"""What queues hold, written by `volsched run` to a real API server: right, rarely, and whoever else is there."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.cluster.clock import Clock
from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import AT_WORK, Controlled, volcano_at_work
from tests.cluster.scheduling import GROUPS, QUICK_LEASE, SYSTEM, Json, eventually
from tests.cluster.signals import STATUSES, after_seen_queues, after_session, after_sessions, ready, touch
from tests.cluster.test_resource_claims import Fleet, fleet, using  # noqa: F401 - a fixture
from tests.plugins.capacity_card.nodes import GPU, MPS, card_labels
from tools.controlplane import ControlPlane
from tools.controlplane.fault_rules import status
from tools.controlplane.faults import FaultProxy, Respond, conflict, server_error
from tools.patience import PATIENCE
from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.fence import Fence
from volsched.kube.watch.informer import Informer
from volsched.kube.watch.resources import watched
from volsched.kube.write import statuses
from volsched.kube.write.executor import ClusterExecutor
from volsched.kube.write.views import Views
from volsched.model import api
from volsched.model.plan import WriteQueueStatus

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

STATUS = "/queues/*/status"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.scheduling.volcano.sh"
NOTHING = {"cpu": "0", "memory": "0"}
CARD_NAME = "volcano.sh/card.name"


@pytest.fixture
def queue(manifests_applied: ControlPlane, namespace: str) -> Iterator[str]:
    """A queue of the test's own."""
    path, name = f"{GROUPS}/queues", f"q-{namespace}"
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    manifests_applied.api.create(path, {**kind, "metadata": {"name": name}, "spec": {"parent": "root"}})
    yield name
    manifests_applied.api.delete(f"{path}/{name}")


# --- the lane -------------------------------------------------------------------------------------------------------


class Lane:
    """An executor that follows Queues, and one of them."""

    def __init__(self, control_plane: ControlPlane, name: str, client: Api) -> None:
        self.path = f"{GROUPS}/queues/{name}"
        self.name = name
        self.api = control_plane.api
        self.views = Views(on_deleted=self._gone, on_queue=self._shown)
        self.executor = ClusterExecutor(client, Fence.always_open(), self.views, lambda _: None)
        [resource] = [found for found in watched(need_groups=False) if found.kind == "Queue"]
        self.informer = Informer(client, resource, self.views.observe)
        self.task = asyncio.ensure_future(self.informer.run())
        self.uid = str(self.api.get(self.path)["metadata"]["uid"])

    def _gone(self, uid: str) -> None:
        self.executor.forget(uid)

    def _shown(self, queue: api.Queue) -> None:
        self.executor.statuses.queue_shown(queue)

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.api.find(self.path)
            await asyncio.sleep(0.02)

    def say(self, uid: str = "", **allocated: str) -> None:
        self.executor.execute([WriteQueueStatus(uid or self.uid, self.name, allocated)])

    async def after_writes(self, count: int) -> None:
        """Return once so many writes were made or found not to be needed, and none waits or is under way."""
        writes = self.executor.statuses
        waiting = writes.tables()["statuses.waiting"]
        await self.until(lambda: not waiting() and writes.written + writes.suppressed >= count)

    @property
    def allocated(self) -> Json | None:
        found: Json | None = self.api.get(self.path).get("status", {}).get("allocated")
        return found


@pytest.fixture
async def lane(manifests_applied: ControlPlane, queue: str, fault_proxy: FaultProxy) -> AsyncIterator[Lane]:
    client = await Api.connect(Source(kubeconfig=str(fault_proxy.kubeconfig())))
    made = Lane(manifests_applied, queue, client)
    await made.until(lambda: made.informer.listed)
    yield made
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)
    await made.executor.stop()
    await client.close()
    await asyncio.sleep(0.05)  # the proxy sees it before it stops


async def test_one_field_is_written_and_only_when_it_says_something_else(lane: Lane, fault_proxy: FaultProxy) -> None:
    lane.api.patch(f"{lane.path}/status", {"status": {"state": "Open", "running": 3, "allocated": {"old": "1"}}})
    await lane.until(lambda: lane.views.queues[lane.name].status.running == 3)

    lane.say(cpu="2", memory="1Gi")
    await lane.until(lambda: lane.allocated == {"cpu": "2", "memory": "1Gi"})

    said = lane.api.get(lane.path)["status"]
    assert (said["state"], said["running"]) == ("Open", 3)
    lane.say(cpu="2000m", memory="1024Mi")
    lane.say(cpu="2", memory="1Gi")
    await lane.after_writes(2)
    assert fault_proxy.counts.count("patch", STATUS) == 1


async def test_the_latest_word_is_written_once_a_second(lane: Lane, fault_proxy: FaultProxy) -> None:
    began = time.monotonic()
    for number in range(1, 121):
        lane.say(cpu=str(number))
        await asyncio.sleep(0.02)
    await lane.until(lambda: lane.allocated == {"cpu": "120"})

    assert fault_proxy.counts.count("patch", STATUS) <= 2 + (time.monotonic() - began)


async def test_what_somebody_else_wrote_is_put_right_and_not_fought_over(
    lane: Lane, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(statuses, "time", clock)
    monkeypatch.setattr(statuses, "MENDING_INTERVAL_SECONDS", 2.0)
    lane.say(cpu="2")
    await lane.until(lambda: lane.executor.statuses.written == 1)

    for number in range(10):
        lane.api.patch(f"{lane.path}/status", {"status": {"allocated": {"cpu": "9", "other": str(number)}}})
        await lane.until(lambda: lane.views.queues[lane.name].status.allocated.get("other") == str(number))  # noqa: B023
        clock.now += 0.19
    await clock.read(1)
    assert lane.executor.statuses.depth == 1, "the next look leaves it waiting"
    assert fault_proxy.counts.count("patch", STATUS) == 1

    clock.now += 0.2
    await lane.until(lambda: lane.executor.statuses.written == 2)
    assert lane.allocated == {"cpu": "2"}
    assert fault_proxy.counts.count("patch", STATUS) == 2
    clock.now += 1.5
    lane.say(cpu="3")
    await lane.until(lambda: lane.allocated == {"cpu": "3"})


@pytest.mark.parametrize(
    "fault",
    [
        conflict(),
        server_error(),
        Respond(404, "404 page not found\n", "text/plain"),
        Respond(403, json.dumps(status(403, "Forbidden", "not yet"))),
    ],
)
async def test_a_write_that_fails_is_made_again(lane: Lane, fault_proxy: FaultProxy, fault: Respond) -> None:
    fault_proxy.inject(fault, method="PATCH", path="/status$", times=2)

    lane.say(cpu="2")

    await lane.until(lambda: lane.allocated == {"cpu": "2"})


async def test_a_queue_that_is_gone_is_forgotten_and_another_of_its_name_left_alone(
    lane: Lane, fault_proxy: FaultProxy
) -> None:
    fault_proxy.inject(Respond(503), method="PATCH", path="/status$", times=1)
    lane.say(cpu="2")
    lane.api.delete(lane.path)
    await lane.until(lambda: lane.name not in lane.views.queues)
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": lane.name}}
    lane.api.create(f"{GROUPS}/queues", kind)
    await lane.until(lambda: lane.name in lane.views.queues)

    await lane.after_writes(0)
    before = lane.executor.statuses.written + lane.executor.statuses.suppressed
    lane.say(cpu="2")
    await lane.after_writes(before + 1)

    assert lane.allocated is None
    assert lane.executor.statuses.depth == 0


# --- the scheduler --------------------------------------------------------------------------------------------------


def make_jobs(
    controlled: Controlled,
    namespace: str,
    queue: str,
    *names: str,
    annotations: Mapping[str, str] | None = None,
    **pod: Any,
) -> None:
    """PodGroups of one pod each, as a controller would have made them."""
    for name in names:
        body = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"minMember": 1, "queue": queue},
        }
        controlled.api.create(f"{GROUPS}/namespaces/{namespace}/podgroups", body)
    pods = [controlled.pod(name, group=name, **pod) for name in names]
    for made in pods:
        made["metadata"]["annotations"].update(annotations or {})
    controlled.make_pods(namespace, pods)


def allocated(controlled: Controlled, queue: str) -> Json | None:
    found: Json | None = controlled.api.get(f"{GROUPS}/queues/{queue}").get("status", {}).get("allocated")
    return found


def wait_settled(controlled: Controlled, node: str, proxy: FaultProxy) -> None:
    """Begin to count anew once all is written that sessions have to say about queues."""
    after_sessions(controlled.processes[-1], 1, lambda: touch(controlled, node), lanes=STATUSES)
    proxy.counts.clear()


@pytest.fixture
def volcanos_crd(manifests_applied: ControlPlane) -> Iterator[None]:
    """Queues as in Volcano's CRD, where a status that does not say what the queue holds is refused."""
    server = manifests_applied.api
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/status/required"
    patch = "application/json-patch+json"
    server.patch(CRD, [{"op": "add", "path": path, "value": ["allocated"]}], patch)
    probe = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "probe"}}
    server.create(f"{GROUPS}/queues", probe)
    eventually(lambda: _is_refused(manifests_applied), what="the CRD wants status.allocated")
    server.delete(f"{GROUPS}/queues/probe")
    yield
    server.patch(CRD, [{"op": "remove", "path": path}], patch)


def _is_refused(control_plane: ControlPlane) -> bool:
    try:
        control_plane.api.patch(f"{GROUPS}/queues/probe/status", {"status": {"state": "Open"}})
    except Exception as error:
        return "allocated" in str(error)
    control_plane.api.patch(f"{GROUPS}/queues/probe/status", {"status": None})
    return False


def test_without_any_controllers_queues_say_what_their_pods_hold(
    controlled: Controlled, namespace: str, queue: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    [node] = make_nodes(1, cpu="8", **{"nvidia.com/gpu": 8})
    scheduler = controlled.start(proxy=fault_proxy).wait_leading()
    controlled.wait_queue(queue, allocated=NOTHING)

    make_jobs(controlled, namespace, queue, "a", "b", cpu="500m", memory="1Gi", **{"nvidia.com/gpu": 2})

    both = {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "4", "pods": "2"}
    controlled.wait_queue(queue, allocated=both)
    assert "state" not in controlled.api.get(f"{GROUPS}/queues/{queue}")["status"]
    controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/a", grace_seconds=0)
    controlled.wait_queue(queue, allocated={"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2", "pods": "1"})
    controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/b", grace_seconds=0)
    controlled.wait_queue(queue, allocated=NOTHING)
    wait_settled(controlled, node, fault_proxy)
    after_sessions(scheduler, 2, lambda: touch(controlled, node), lanes=STATUSES)
    assert fault_proxy.counts.count("patch", STATUS) == 0


def test_devices_are_said_by_class_whatever_plugins_there_are(
    controlled: Controlled,
    namespace: str,
    queue: str,
    fleet: Fleet,  # noqa: F811 - the fixture
) -> None:
    fleet.make_claim("shared", 2)
    controlled.start().wait_leading()

    make_jobs(controlled, namespace, queue, "a", "b", cpu="1", spec=using("shared"))

    devices = {f"deviceclass/{fleet.name}": "2"}
    controlled.wait_queue(queue, allocated={"cpu": "2", "memory": "0", "pods": "2", **devices})
    controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/a", grace_seconds=0)
    controlled.wait_queue(queue, allocated={"cpu": "1", "memory": "0", "pods": "1", **devices})
    controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/b", grace_seconds=0)
    controlled.wait_queue(queue, allocated=NOTHING)


CARDS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}]
- plugins: [{name: predicates}, {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}}]
"""


def test_cards_are_said_by_name_and_as_resources_and_the_api_server_keeps_both(
    controlled: Controlled, namespace: str, queue: str, make_nodes: MakeNodes, volcanos_crd: None
) -> None:
    """As seed 001 reads them (2.3.1): from the Queue, in whole cards, with no need to add up pods."""
    card = f"Card-{namespace[-6:]}"
    share = f"{card}/mps-80g*1/8"
    make_nodes(1, labels=card_labels(card), cpu="8", **{GPU: 4})
    make_nodes(1, labels=card_labels(card, replicas="8"), cpu="8", **{MPS: 8})
    quota = {"volcano.sh/card.quota": json.dumps({card: 4, share: 3})}
    controlled.api.patch(f"{GROUPS}/queues/{queue}", {"metadata": {"annotations": quota}})
    config = controlled.folder / "cards.conf"
    config.write_text(CARDS)
    controlled.start("--scheduler-conf", str(config)).wait_leading()

    for name, wanted, resource in (("whole", card, GPU), ("part", share, MPS)):
        make_jobs(controlled, namespace, queue, name, cpu="1", annotations={CARD_NAME: wanted}, **{resource: 2})

    whole, part = {card: "2", f"volsched.io/{card}": "2"}, {share: "2", f"volsched.io/{card}_mps-80g_1_8": "2"}
    both = {"cpu": "2", "memory": "0", "pods": "2", GPU: "2", MPS: "2"}
    controlled.wait_queue(queue, allocated={**both, **whole, **part})
    controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/whole", grace_seconds=0)
    controlled.wait_queue(queue, allocated={"cpu": "1", "memory": "0", "pods": "1", MPS: "2", **part})
    controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/part", grace_seconds=0)
    controlled.wait_queue(queue, allocated=NOTHING)


def test_a_follower_writes_nothing_and_says_what_is_right_when_it_leads(
    controlled: Controlled, namespace: str, queue: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    [node] = make_nodes(1, cpu="8")
    first = controlled.start(*QUICK_LEASE).wait_leading()
    second = controlled.start(proxy=fault_proxy)
    ready(second)
    make_jobs(controlled, namespace, queue, "a", "b", "c", cpu="1")
    controlled.wait_queue(queue, allocated={"cpu": "3", "memory": "0", "pods": "3"})
    assert fault_proxy.counts.count("patch", STATUS) == 0

    first.kill()
    controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/a", grace_seconds=0)
    second.wait_for("leading")

    controlled.wait_queue(queue, allocated={"cpu": "2", "memory": "0", "pods": "2"})
    after_sessions(second, 1, lambda: touch(controlled, node), lanes=STATUSES)
    of_mine = fault_proxy.counts.count("patch", STATUS)
    assert 1 <= of_mine <= 3, fault_proxy.counts.table()


def test_a_crowd_of_pods_costs_a_write_a_second_and_queue(
    controlled: Controlled, namespace: str, queue: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    node, *_ = make_nodes(4, cpu="64")
    controlled.start("--plain-pods", "direct", proxy=fault_proxy).wait_leading()
    controlled.wait_queue(queue, allocated=NOTHING)
    wait_settled(controlled, node, fault_proxy)
    began = time.monotonic()
    controlled.api.create(
        f"{GROUPS}/namespaces/{namespace}/podgroups",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "crowd"},
            "spec": {"minMember": 1, "queue": queue},
        },
    )
    controlled.make_pods(namespace, [controlled.pod(f"p{n}", group="crowd", cpu="100m") for n in range(300)])
    controlled.wait_bound(namespace, 300)
    controlled.wait_queue(queue, allocated={"cpu": "30", "memory": "0", "pods": "300"})

    of_queues = fault_proxy.counts.count("patch", STATUS)
    elapsed = time.monotonic() - began

    assert of_queues <= 2 * (2 + elapsed), "the queue's and the root's"
    others = fault_proxy.counts.writes() - of_queues
    assert others <= 1.1 * 300 + elapsed, "bindings, little besides, and what the PodGroup says once a second"


# --- beside controllers ---------------------------------------------------------------------------------------------


def test_beside_volcanos_controllers_the_scheduler_says_what_queues_hold(
    controlled: Controlled, namespace: str, queue: str, make_nodes: MakeNodes, volcanos_crd: None
) -> None:
    make_nodes(1, cpu="8")
    with volcano_at_work(controlled):
        controlled.start().wait_leading()
        process = controlled.control("--volcano-grace", "60s")
        process.wait_for("standing aside")
        theirs = {"status": {"state": "Open", "running": 1, "pending": 0}}

        make_jobs(controlled, namespace, queue, "a", cpu="1")

        held = {"cpu": "1", "memory": "0", "pods": "1"}
        controlled.wait_queue(queue, allocated=held)
        controlled.api.patch(f"{GROUPS}/queues/{queue}/status", theirs)
        after_session(controlled, lanes=STATUSES)
        after_seen_queues(controlled)
        assert allocated(controlled, queue) == held
        assert controlled.api.get(f"{GROUPS}/queues/{queue}")["status"]["running"] == 1
        assert process.metric("volsched_controllers_active") == 0


def test_controllers_make_room_for_it_and_neither_write_nor_clear_it(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy, volcanos_crd: None
) -> None:
    make_nodes(1, cpu="8")
    process = controlled.control(proxy=fault_proxy)
    process.wait_for(AT_WORK)
    queue = controlled.queue(f"mine-{namespace}")
    controlled.wait_queue(queue, state="Open", pending=0, allocated={})

    controlled.start().wait_leading()
    controlled.wait_queue(queue, allocated=NOTHING)
    make_jobs(controlled, namespace, queue, "a", cpu="1")
    held = {"cpu": "1", "memory": "0", "pods": "1"}
    controlled.wait_queue(queue, running=1, allocated=held)

    controlled.api.patch(f"{GROUPS}/queues/{queue}", {"spec": {"state": "Closed"}})
    controlled.wait_queue(queue, state="Closing", allocated=held)
    controlled.api.patch(f"{GROUPS}/queues/{queue}", {"spec": {"state": "Open"}})
    controlled.wait_queue(queue, state="Open", running=1, allocated=held)
    for scheduler in controlled.processes:
        scheduler.kill()
    controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/a", grace_seconds=0)
    controlled.api.delete(f"{GROUPS}/namespaces/{namespace}/podgroups/a")
    controlled.wait_queue(queue, running=0)
    assert allocated(controlled, queue) == held, "nobody but the scheduler says that it is over"
    assert controlled.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/volsched-controllers")
    controlled.api.delete(f"{GROUPS}/queues/{queue}")
