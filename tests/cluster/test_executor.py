"""The executor against a real API server: what came of each write is known, whatever the answer was."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.cluster.clock import Clock
from tests.cluster.control_plane import MakeNodes
from tools.controlplane import ControlPlane, a_pod
from tools.controlplane.faults import (
    BlackHole,
    FaultProxy,
    InjectedFault,
    Latency,
    Reset,
    Respond,
    conflict,
    server_error,
    too_many_requests,
)
from tools.patience import PATIENCE
from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.fence import Fence
from volsched.kube.watch.informer import Informer
from volsched.kube.watch.resources import watched
from volsched.kube.write import events as events_module
from volsched.kube.write import statuses
from volsched.kube.write.executor import ClusterExecutor
from volsched.kube.write.pod_writer import PrebindError
from volsched.kube.write.throttle import TokenBucket
from volsched.kube.write.views import Views
from volsched.model.changes import BindFailed, Bound, Change, Deleted, EvictFailed
from volsched.model.plan import Bind, Evict, LiftGate, PlanStep, RecordEvent, VolumeWrite, WritePodCondition

BINDING = "/api/v1/namespaces/*/pods/*/binding"
Json = dict[str, Any]


class Harness:
    """An executor with informers behind a proxy, and the pods of one namespace."""

    def __init__(self, control_plane: ControlPlane, namespace: str, api: Api, fence: Fence) -> None:
        self.control_plane = control_plane
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.fence = fence
        self.changes: list[Change] = []
        self.views = Views(on_deleted=self._forget)
        self.executor = ClusterExecutor(api, fence, self.views, self.changes.append)
        self.volumes = self.executor.volumes
        wanted = ("Node", "Pod", "PersistentVolumeClaim", "ResourceClaim")
        self.informers = [
            Informer(api, resource, self.views.observe)
            for resource in watched(need_groups=False)
            if resource.kind in wanted
        ]
        self.tasks = [asyncio.ensure_future(informer.run()) for informer in self.informers]

    def _forget(self, uid: str) -> None:
        self.executor.forget(uid)

    async def ready(self) -> None:
        await self.until(lambda: all(informer.listed for informer in self.informers))

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.changes
            await asyncio.sleep(0.02)

    def has_no_status_to_write(self) -> bool:
        """Whether no write of a status waits or is under way."""
        return not self.executor.statuses.tables()["statuses.waiting"]()

    def make(self, name: str, **keywords: Any) -> Json:
        return self.control_plane.api.create(self.path, a_pod(name, scheduler="nobody", **keywords))

    def get(self, name: str) -> Json | None:
        return self.control_plane.api.find(f"{self.path}/{name}")

    def bind(self, pod: Json, node: str, **keywords: Any) -> Bind:
        meta = pod["metadata"]
        return Bind(meta["uid"], meta["namespace"], meta["name"], node, **keywords)

    async def do(self, *steps: PlanStep, changes: int = 1) -> list[Change]:
        """Execute steps and return what was reported, once so many changes have come."""
        self.changes.clear()
        self.executor.execute(steps)
        await self.until(lambda: len(self.changes) >= changes)
        return list(self.changes)


@pytest.fixture
async def harness(control_plane: ControlPlane, namespace: str, fault_proxy: FaultProxy) -> AsyncIterator[Harness]:
    api = await Api.connect(Source(kubeconfig=str(fault_proxy.kubeconfig())))
    made = Harness(control_plane, namespace, api, Fence.always_open())
    await made.ready()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)
    await made.executor.stop()
    await api.close()
    await asyncio.sleep(0.05)  # the proxy sees it before it stops


@pytest.fixture
async def node(harness: Harness, make_nodes: MakeNodes) -> str:
    """A node that the executor knows of."""
    [name] = make_nodes(1)
    await harness.until(lambda: harness.views.node_exists(name))
    return name


async def test_a_binding_carries_its_annotations(harness: Harness, node: str) -> None:
    pod = harness.make("one", annotations={"kept": "yes", "replaced": "old"})
    annotations = {"replaced": 'new "quoted" \u00fc', "volsched.io/cards": "0,1"}

    [change] = await harness.do(harness.bind(pod, node, annotations=annotations))

    assert change == Bound(pod["metadata"]["uid"], node)
    there = harness.get("one")
    assert there is not None
    assert there["spec"]["nodeName"] == node
    assert there["metadata"]["annotations"] == {"kept": "yes", **annotations}


FAULTS: dict[str, tuple[InjectedFault, int]] = {
    "never answered": (BlackHole(), 1),
    "never answered, yet done": (BlackHole(after=True), 1),
    "reset": (Reset(), 2),
    "reset, yet done": (Reset(after=True), 1),
    "a server error": (server_error(), 3),
    "a server error, yet done": (server_error(after=True), 1),
    "a conflict": (conflict(), 2),
    "a conflict, yet done": (conflict(after=True), 1),
    "put off": (too_many_requests(1), 2),
    "a page": (Respond(503, "<html>", content_type="text/html"), 2),
}


@pytest.mark.no_retry(reason="double binding")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_a_binding_that_was_not_confirmed_ends_as_bound_once(
    harness: Harness, node: str, fault_proxy: FaultProxy, fault: tuple[InjectedFault, int]
) -> None:
    trouble, times = fault
    pod = harness.make("one")
    fault_proxy.inject(trouble, method="POST", path="/binding$", times=times)

    changes = await harness.do(harness.bind(pod, node))

    assert changes == [Bound(pod["metadata"]["uid"], node)]
    assert fault_proxy.counts.count("create", BINDING, status=201) == 1


async def test_what_cannot_be_bound_until_it_changes_is_said_to_be_so(harness: Harness, make_nodes: MakeNodes) -> None:
    here, there = make_nodes(2)
    gated = harness.make("gated", spec={"schedulingGates": [{"name": "example.com/gate"}]})
    elsewhere = harness.make("elsewhere", spec={"nodeName": there})
    gone = harness.make("gone")
    harness.control_plane.api.delete(f"{harness.path}/gone", grace_seconds=0)
    harness.make("gone")
    deleted = harness.make("deleted")
    harness.control_plane.api.patch(f"{harness.path}/deleted", {"metadata": {"finalizers": ["example.com/keep"]}})
    harness.control_plane.api.delete(f"{harness.path}/deleted", grace_seconds=0)

    await harness.until(lambda: harness.views.node_exists(here))
    steps = [harness.bind(pod, here) for pod in (gated, elsewhere, gone, deleted)]
    changes = await harness.do(*steps, changes=4)
    harness.control_plane.api.patch(f"{harness.path}/deleted", {"metadata": {"finalizers": None}})

    said = {change.uid: change for change in changes if isinstance(change, BindFailed)}
    assert len(said) == 4
    assert all(change.retry_at is None for change in said.values())
    assert "gated by example.com/gate" in said[gated["metadata"]["uid"]].message
    assert there in said[elsewhere["metadata"]["uid"]].message
    assert "made again" in said[gone["metadata"]["uid"]].message
    assert "being deleted" in said[deleted["metadata"]["uid"]].message


async def test_a_refused_pod_comes_back_later_each_time_and_others_do_not_wait(
    harness: Harness, node: str, fault_proxy: FaultProxy
) -> None:
    denied = Respond(422, '{"kind":"Status","reason":"Invalid","message":"denied by a policy"}')
    rule = fault_proxy.inject(denied, method="POST", path="/pods/refused/binding$")
    refused = harness.bind(harness.make("refused"), node)

    for longest in (1, 2, 4, 8, 10):
        before = time.time()
        [change] = await harness.do(refused)
        after = time.time()  # the wait began some time between the two
        assert isinstance(change, BindFailed)
        assert change.retry_at is not None
        assert "denied by a policy" in change.message
        assert before + longest / 2 <= change.retry_at <= after + longest
    rule.remove()

    assert await harness.do(refused) == [Bound(refused.uid, node)]


async def test_one_binding_that_is_put_off_for_long_stops_no_other(
    harness: Harness, node: str, fault_proxy: FaultProxy
) -> None:
    """As by a webhook that a tenant has made; the others are there before it is tried again."""
    rule = fault_proxy.inject(too_many_requests(3000), method="POST", path="/pods/refused/binding$")
    harness.executor.execute([harness.bind(harness.make("refused"), node)])
    await asyncio.to_thread(rule.wait, 1)
    others = [harness.bind(harness.make(f"p{number}"), node) for number in range(40)]

    changes = await harness.do(*others, changes=40)

    assert {change.uid for change in changes if isinstance(change, Bound)} == {step.uid for step in others}
    await harness.until(lambda: harness.executor.pod_writer.backlog == 1)
    assert rule.hits == 1


async def test_an_eviction_that_is_put_off_stops_no_binding(
    harness: Harness, node: str, fault_proxy: FaultProxy
) -> None:
    victims = [harness.make(f"victim-{number}", spec={"nodeName": node}) for number in range(50)]
    rule = fault_proxy.inject(too_many_requests(3000), method="DELETE", path="/victim-")
    evictions = [
        Evict(victim["metadata"]["uid"], harness.namespace, victim["metadata"]["name"], "preempt", "p", "")
        for victim in victims
    ]
    harness.executor.execute(evictions)
    await asyncio.to_thread(rule.wait, 50)
    pod = harness.make("one")

    assert await harness.do(harness.bind(pod, node)) == [Bound(pod["metadata"]["uid"], node)]
    assert rule.hits == 50


async def test_a_write_that_is_put_off_again_and_again_is_given_up(
    harness: Harness, node: str, fault_proxy: FaultProxy
) -> None:
    """Else it would hold its room for as long as a tenant's webhook likes."""
    fault_proxy.inject(too_many_requests(1), method="POST", path="/pods/refused/binding$")
    pod = harness.make("refused")

    [change] = await harness.do(harness.bind(pod, node))

    assert isinstance(change, BindFailed)
    assert change.retry_at is not None


async def test_a_server_that_has_too_much_to_do_is_given_a_pause_that_ends(
    harness: Harness, node: str, fault_proxy: FaultProxy
) -> None:
    """API priority and fairness answers before it looks at what is asked, in plain words; here it asks for an hour."""
    text = "Too many requests, please try again later."
    busy = Respond(429, text, content_type="text/plain", retry_after=3000)
    rule = fault_proxy.inject(busy, method="POST", path="/binding$", times=1)
    steps = [harness.bind(harness.make(f"p{number}"), node) for number in range(5)]
    harness.executor.execute(steps[:1])
    await asyncio.to_thread(rule.wait, 1)
    await harness.until(lambda: harness.executor.pod_writer._throttle.pause)

    harness.changes.clear()
    harness.executor.execute(steps[1:])
    await asyncio.sleep(1.0)  # no signal: this is the pause itself
    assert harness.changes == []

    await harness.until(lambda: len(harness.changes) == 5)
    assert {change.uid for change in harness.changes if isinstance(change, Bound)} == {step.uid for step in steps}


async def test_what_fails_over_one_write_takes_no_other_with_it(
    harness: Harness, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one worker that there is dies over the first pod, twice: also when it tells that it failed."""
    pod_writer = harness.executor.pod_writer
    monkeypatch.setattr(pod_writer, "_limit", 1)
    odd, *others = [harness.bind(harness.make(f"p{number}"), node) for number in range(4)]

    def report(change: Change) -> None:
        if isinstance(change, Bound | BindFailed) and change.uid == odd.uid:
            raise ZeroDivisionError
        harness.changes.append(change)

    monkeypatch.setattr(pod_writer, "_report", report)

    changes = await harness.do(odd, *others, changes=3)

    assert {change.uid for change in changes if isinstance(change, Bound)} == {step.uid for step in others}


async def test_no_binding_is_sent_to_a_node_that_is_gone_or_another_one(
    harness: Harness, node: str, fault_proxy: FaultProxy
) -> None:
    pod = harness.make("one")

    first = await harness.do(harness.bind(pod, "never-was"))
    second = await harness.do(harness.bind(pod, node, node_uid="of-an-earlier-one"))

    assert [type(change) for change in first + second] == [BindFailed, BindFailed]
    assert fault_proxy.counts.count("create", BINDING, forwarded=None) == 0


async def test_a_node_that_goes_while_a_binding_waits_is_not_bound_to(
    harness: Harness, node: str, fault_proxy: FaultProxy
) -> None:
    """It waits for the nomination of its pod, which is being written."""
    pod = harness.make("one")
    uid = pod["metadata"]["uid"]
    slow = fault_proxy.inject(Latency(1.0), method="PATCH", path="/pods/one/status$")
    harness.executor.execute([WritePodCondition(uid, harness.namespace, "one", "Unschedulable", "x", nominated=node)])
    await asyncio.to_thread(slow.wait, 1)

    harness.executor.execute([harness.bind(pod, node)])
    await harness.until(lambda: harness.executor.backlog == 1 and not harness.executor.pod_writer.waiting)
    harness.views.observe([Deleted("Node", "", node, harness.views.nodes[node])])
    await harness.until(lambda: harness.changes)

    assert [type(change) for change in harness.changes] == [BindFailed]
    assert fault_proxy.counts.count("create", BINDING, forwarded=None) == 0


async def test_nothing_is_written_behind_a_closed_fence(
    harness: Harness, node: str, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "SETTLE_SECONDS", 0.0)
    fault_proxy.inject(Latency(0.3), method="POST", path="/binding$")
    pods = [harness.make(f"p{i}") for i in range(80)]
    harness.executor.execute([harness.bind(pod, node) for pod in pods])
    await harness.until(lambda: harness.changes)

    harness.fence.close()
    written, told = len(harness.changes), fault_proxy.counts.count("create", "/events")
    harness.executor.execute([RecordEvent("Pod", "v1", harness.namespace, "p0", "u", "Warning", "Test", "text")])
    await harness.until(lambda: harness.executor.events.depth)  # it is due: what is sent waits no longer
    await harness.until(lambda: harness.executor.pod_writer.backlog == 0)  # what was in doubt is given up, too

    bound = fault_proxy.counts.count("create", BINDING, status=201)
    assert bound <= written + 2 * 32
    assert harness.executor.pod_writer.dropped == 80 - bound
    assert fault_proxy.counts.count("create", "/events") <= told + 1  # one may have been under way
    events = harness.control_plane.api.items(f"/api/v1/namespaces/{harness.namespace}/events")
    assert not [event for event in events if event["reason"] == "Test"]


async def test_a_victim_is_marked_then_deleted_and_only_itself(harness: Harness) -> None:
    """Its node does not exist, so that nobody but the executor touches it."""
    spec = {"nodeName": f"nowhere-{harness.namespace}", "terminationGracePeriodSeconds": 7}
    victim = harness.make("victim", spec=spec)
    step = Evict(victim["metadata"]["uid"], harness.namespace, "victim", "preempt", "p", "to make room")

    harness.executor.execute([step])
    await harness.until(lambda: (harness.get("victim") or {})["metadata"].get("deletionTimestamp"))

    there = harness.get("victim")
    assert there is not None
    assert there["metadata"]["deletionGracePeriodSeconds"] == 7
    [condition] = [c for c in there["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert condition["message"] == "to make room"
    harness.control_plane.api.delete(f"{harness.path}/victim", grace_seconds=0)
    namesake = harness.make("namesake")
    harness.executor.execute([Evict("other-uid", harness.namespace, "namesake", "preempt", "p", "")])
    await harness.until(lambda: harness.executor.backlog == 0)
    there = harness.get("namesake")
    assert there is not None
    assert there["metadata"]["uid"] == namesake["metadata"]["uid"]
    assert "deletionTimestamp" not in there["metadata"]


async def test_a_victim_that_cannot_be_deleted_is_reported(
    harness: Harness, node: str, fault_proxy: FaultProxy
) -> None:
    victim = harness.make("victim", spec={"nodeName": node})
    fault_proxy.inject(Respond(403, '{"kind":"Status","message":"protected"}'), method="DELETE", path="/victim$")

    changes = await harness.do(Evict(victim["metadata"]["uid"], harness.namespace, "victim", "reclaim", "p", "because"))

    assert changes == [EvictFailed(victim["metadata"]["uid"], "protected")]


async def test_a_gate_is_lifted_and_others_stay(harness: Harness) -> None:
    gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    pod = harness.make("gated", spec={"schedulingGates": gates})

    harness.executor.execute([LiftGate(pod["metadata"]["uid"], harness.namespace, "gated", "example.com/a")])

    await harness.until(lambda: (harness.get("gated") or {})["spec"]["schedulingGates"] == gates[1:])


MAY_NOT = 'pods "gated" is forbidden: User "u" cannot patch resource "pods" in API group "" in the namespace "n"'


async def test_a_gate_that_may_not_be_lifted_is_told_tried_again_and_holds_nobody_up(
    harness: Harness, node: str, fault_proxy: FaultProxy
) -> None:
    gate = "example.com/a"
    pod = harness.make("gated", spec={"schedulingGates": [{"name": gate}]})
    answer = json.dumps({"kind": "Status", "reason": "Forbidden", "message": MAY_NOT})
    rule = fault_proxy.inject(Respond(403, answer), method="PATCH", path="/pods/gated$", times=2)

    harness.executor.execute([LiftGate(pod["metadata"]["uid"], harness.namespace, "gated", gate)])
    await harness.until(lambda: rule.hits >= 1)
    await harness.until(lambda: harness.executor.backlog == 0)
    assert (harness.get("gated") or {})["spec"]["schedulingGates"] == [{"name": gate}]

    await harness.until(lambda: "schedulingGates" not in (harness.get("gated") or {})["spec"])
    assert rule.hits == 2
    events = f"/api/v1/namespaces/{harness.namespace}/events"
    await harness.until(lambda: harness.control_plane.api.items(events))
    told = [(event["type"], event["reason"], event["message"]) for event in harness.control_plane.api.items(events)]
    assert told == [("Warning", "GateNotLifted", f'the gate "{gate}" stays on the pod: {MAY_NOT}')]


async def test_a_gate_is_given_up_when_the_pod_goes_meanwhile(harness: Harness, fault_proxy: FaultProxy) -> None:
    gate = "example.com/a"
    pod = harness.make("gated", spec={"schedulingGates": [{"name": gate}]})
    answer = json.dumps({"kind": "Status", "reason": "Forbidden", "message": MAY_NOT})
    rule = fault_proxy.inject(Respond(403, answer), method="PATCH", path="/pods/gated$", times=1)
    harness.executor.execute([LiftGate(pod["metadata"]["uid"], harness.namespace, "gated", gate)])
    await harness.until(lambda: rule.hits == 1)

    harness.control_plane.api.delete(f"{harness.path}/gated", grace_seconds=0)
    namesake = harness.make("gated", spec={"schedulingGates": [{"name": gate}]})

    await harness.until(lambda: fault_proxy.counts.count("patch", "/pods/*/status") == 2)
    await harness.until(lambda: harness.executor.backlog == 0)
    assert harness.executor.pod_writer.tables()["binder.refused_gates"]() == 0
    assert namesake["spec"]["schedulingGates"] == (harness.get("gated") or {})["spec"]["schedulingGates"]


def condition_of(pod: Json | None) -> Json:
    assert pod is not None
    found = [c for c in pod["status"].get("conditions") or () if c["type"] == "PodScheduled"]
    return found[0] if found else {}


async def test_a_pod_condition_is_written_once_for_each_change_and_keeps_its_time(
    harness: Harness, fault_proxy: FaultProxy
) -> None:
    pod = harness.make("waits")
    shape = "/pods/*/status"

    def step(message: str, nominated: str = "") -> WritePodCondition:
        return WritePodCondition(
            pod["metadata"]["uid"], harness.namespace, "waits", "Unschedulable", message, nominated
        )

    harness.executor.execute([step("first")])
    await harness.until(lambda: condition_of(harness.get("waits")).get("message") == "first")
    first = condition_of(harness.get("waits"))
    assert first["lastTransitionTime"]
    harness.executor.execute([step("first")])
    harness.executor.execute([step("first")])
    await harness.until(lambda: harness.executor.statuses.suppressed and harness.has_no_status_to_write())
    assert fault_proxy.counts.count("patch", shape) == 1

    harness.executor.execute([step("second", nominated="n1")])
    await harness.until(lambda: condition_of(harness.get("waits")).get("message") == "second")
    there = harness.get("waits")
    assert there is not None
    assert there["status"]["nominatedNodeName"] == "n1"
    assert condition_of(there)["lastTransitionTime"] == first["lastTransitionTime"]
    harness.executor.execute([step("second")])
    await harness.until(lambda: "nominatedNodeName" not in (harness.get("waits") or {})["status"])
    await harness.until(lambda: fault_proxy.counts.count("patch", shape) == 3)


async def test_why_many_pods_wait_is_written_at_a_bounded_rate_and_nominations_at_once(
    harness: Harness, fault_proxy: FaultProxy
) -> None:
    pods = [harness.make(f"waits-{number}") for number in range(12)]
    harness.executor.statuses._conditions = TokenBucket(4.0, 3)

    def step(pod: Json, nominated: str = "") -> WritePodCondition:
        meta = pod["metadata"]
        return WritePodCondition(meta["uid"], harness.namespace, meta["name"], "QuotaExceeded", "full", nominated)

    began = time.monotonic()
    harness.executor.execute([step(pod) for pod in pods[:11]])
    await harness.until(lambda: harness.executor.statuses.written)
    harness.executor.execute([step(pods[11], "n1")])
    await harness.until(lambda: condition_of(harness.get("waits-11")).get("message") == "full")
    assert harness.executor.statuses.depth > 0, "others still wait for their turn"
    while harness.executor.statuses.depth:
        written = harness.executor.statuses.written
        assert written <= 1 + 3 + 4.0 * (time.monotonic() - began), fault_proxy.counts.table()
        await asyncio.sleep(0.05)

    await harness.until(lambda: harness.executor.statuses.written == 12)
    assert fault_proxy.counts.count("patch", "/pods/*/status") == 12


async def test_a_pod_that_is_bound_at_once_is_never_called_unschedulable(
    harness: Harness, node: str, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    for module in (statuses, events_module):
        monkeypatch.setattr(module, "time", clock)
    pod = harness.make("quick")
    uid = pod["metadata"]["uid"]
    why = RecordEvent("Pod", "v1", harness.namespace, "quick", uid, "Warning", "FailedScheduling", "for a moment")

    harness.executor.execute([WritePodCondition(uid, harness.namespace, "quick", "Unschedulable", "x"), why])
    events = harness.executor.events
    await harness.until(lambda: harness.executor.statuses.depth == events.depth == 1)
    await harness.do(harness.bind(pod, node))
    clock.now += 10.0
    await harness.until(lambda: harness.has_no_status_to_write() and events.depth == 0)
    await events.drain(PATIENCE)

    assert fault_proxy.counts.count("patch", "/pods/*/status") == 0
    assert condition_of(harness.get("quick"))["status"] == "True"
    reasons = [event["reason"] for event in harness.control_plane.api.items(f"{harness.path[:-5]}/events")]
    assert reasons.count("FailedScheduling") == 0


async def test_events_are_told_once_counted_up_and_spaced(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(events_module, "time", clock)
    monkeypatch.setattr(events_module, "SETTLE_SECONDS", 0.0)
    path = f"/api/v1/namespaces/{harness.namespace}/events"

    def tell(message: str) -> None:
        harness.executor.execute(
            [RecordEvent("Pod", "v1", harness.namespace, "p" * 250, "uid-1", "Warning", "FailedScheduling", message)]
        )

    tell("ü" * 2000)
    await harness.until(lambda: len(harness.control_plane.api.items(path)) == 1)
    [event] = harness.control_plane.api.items(path)
    assert len(event["message"].encode()) <= 1000
    assert event["metadata"]["name"].startswith("p" * 200)
    await harness.until(lambda: harness.executor.events.sent == 1)
    for _ in range(50):
        tell("ü" * 2000)
    await harness.until(lambda: harness.executor.events.suppressed == 49)
    clock.now += events_module.FIRST_INTERVAL_SECONDS
    tell("ü" * 2000)
    await harness.until(lambda: harness.control_plane.api.items(path)[0]["count"] == 52)
    assert len(harness.control_plane.api.items(path)) == 1
    await harness.until(lambda: harness.executor.events.sent == 2)
    for index in range(19):
        tell(f"other words {index}")
    await harness.until(lambda: harness.executor.events.suppressed == 50 + 18)
    clock.now += 2 * events_module.FIRST_INTERVAL_SECONDS
    tell("other words 19")
    await harness.until(lambda: len(harness.control_plane.api.items(path)) == 2)
    assert "other words 19" in {event["message"] for event in harness.control_plane.api.items(path)}
    assert harness.executor.events.suppressed == 50 + 19


async def test_what_was_said_of_an_object_ends_with_it_and_of_one_that_stays_there_is_so_much_and_no_more(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "SETTLE_SECONDS", 0.0)
    events = harness.executor.events
    reasons = events_module.REMEMBERED_OF_ONE + 6
    told = [
        RecordEvent("Pod", "v1", harness.namespace, "p", "u", "Warning", "Test", f"{n}", each=True)
        for n in range(reasons)
    ]
    harness.executor.execute(told)
    await harness.until(lambda: events.sent == reasons)

    assert [len(said) for said in events._last.values()] == [events_module.REMEMBERED_OF_ONE]

    harness.executor.forget("u")
    assert events.tables()["events.said"]() == 0
    harness.executor.execute(told[-1:])
    await harness.until(lambda: events.sent == reasons + 1)
    found = harness.control_plane.api.items(f"/api/v1/namespaces/{harness.namespace}/events")
    assert len(found) == reasons + 1, "nothing is counted up that was forgotten"


async def test_when_there_is_too_much_to_tell_where_pods_went_is_left_out_and_refusals_are_not(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "LANE_LIMIT", 50)
    monkeypatch.setattr(events_module, "SETTLE_SECONDS", 0.0)
    lane = harness.executor.events

    def tell(index: int, reason: str) -> RecordEvent:
        kind = "Normal" if reason == "Scheduled" else "Warning"
        return RecordEvent("Pod", "v1", harness.namespace, f"p{index}", f"uid-{index}", kind, reason, "text")

    for index in range(500):
        lane.record(tell(index, "Scheduled"))
        lane.record(tell(index, "FailedScheduling"))
    await harness.until(lambda: lane.sent + lane.dropped == 1000)

    reasons = [e["reason"] for e in harness.control_plane.api.items(f"/api/v1/namespaces/{harness.namespace}/events")]
    assert reasons.count("FailedScheduling") == 500
    assert lane.dropped == 500 - reasons.count("Scheduled")
    assert lane.dropped > 300


# --- volumes --------------------------------------------------------------------------------------------------------


def a_claim(name: str, storage_class: str) -> Json:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def a_volume(name: str, storage_class: str) -> Json:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": storage_class,
        "hostPath": {"path": "/tmp/none"},  # noqa: S108 - no kubelet is there
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def storage_class(control_plane: ControlPlane, namespace: str) -> Any:
    name = f"class-{namespace}"
    body = {
        "metadata": {"name": name},
        "provisioner": "example.com/made-by-the-test",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    control_plane.api.create("/apis/storage.k8s.io/v1/storageclasses", body)
    yield name
    control_plane.api.delete(f"/apis/storage.k8s.io/v1/storageclasses/{name}")


async def test_a_volume_is_reserved_for_its_claim_and_bound_before_the_pod_is(
    harness: Harness, node: str, storage_class: str
) -> None:
    api, claims = harness.control_plane.api, f"{harness.path[:-5]}/persistentvolumeclaims"
    volume = f"v-{harness.namespace}"
    api.create("/api/v1/persistentvolumes", a_volume(volume, storage_class))
    api.create(claims, a_claim("data", storage_class))
    pod = harness.make("one")
    await harness.until(lambda: f"{harness.namespace}/data" in harness.views.claims)
    write = VolumeWrite("static", f"{harness.namespace}/data", volume, node, 20.0)

    [change] = await harness.do(harness.bind(pod, node, volumes=(write,)))

    assert change == Bound(pod["metadata"]["uid"], node)
    claim = api.get(f"{claims}/data")
    assert claim["spec"]["volumeName"] == volume
    assert claim["status"]["phase"] == "Bound"
    there = api.get(f"/api/v1/persistentvolumes/{volume}")
    assert there["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert there["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    api.delete(f"/api/v1/persistentvolumes/{volume}")


async def test_a_claim_is_provisioned_on_its_node_or_the_pod_comes_back(
    harness: Harness, make_nodes: MakeNodes, storage_class: str
) -> None:
    """The test is the provisioner: it refuses the first node by taking the annotation away."""
    api, claims = harness.control_plane.api, f"{harness.path[:-5]}/persistentvolumeclaims"
    first, second = make_nodes(2)
    api.create(claims, a_claim("data", storage_class))
    pod = harness.make("one")
    await harness.until(lambda: f"{harness.namespace}/data" in harness.views.claims)
    selected = "volume.kubernetes.io/selected-node"

    def annotation() -> str | None:
        found = api.get(f"{claims}/data")["metadata"].get("annotations") or {}
        value: str | None = found.get(selected)
        return value

    harness.executor.execute(
        [harness.bind(pod, first, volumes=(VolumeWrite("dynamic", f"{harness.namespace}/data", "", first, 20.0),))]
    )
    await harness.until(lambda: annotation() == first)
    assert harness.executor.pod_writer.preparing == 1
    api.patch(f"{claims}/data", {"metadata": {"annotations": {selected: None}}})
    await harness.until(lambda: harness.changes)
    [refused] = harness.changes
    assert isinstance(refused, BindFailed)
    assert "cannot make its volume on node" in refused.message
    assert refused.retry_at is not None

    harness.changes.clear()
    harness.executor.execute(
        [harness.bind(pod, second, volumes=(VolumeWrite("dynamic", f"{harness.namespace}/data", "", second, 20.0),))]
    )
    await harness.until(lambda: annotation() == second)
    volume = a_volume(f"made-{harness.namespace}", storage_class)
    volume["spec"]["claimRef"] = {"namespace": harness.namespace, "name": "data"}
    api.create("/api/v1/persistentvolumes", volume)
    await harness.until(lambda: harness.changes)

    assert harness.changes == [Bound(pod["metadata"]["uid"], second)]
    api.delete(f"/api/v1/persistentvolumes/made-{harness.namespace}")


@pytest.mark.parametrize(("other", "said"), [("", "taken by {}/other"), ("else", "by a claim of another namespace")])
async def test_a_volume_that_another_claim_has_is_not_taken(
    harness: Harness, node: str, storage_class: str, other: str, said: str
) -> None:
    api, claims = harness.control_plane.api, f"{harness.path[:-5]}/persistentvolumeclaims"
    volume = a_volume(f"v-{harness.namespace}", storage_class)
    volume["spec"]["claimRef"] = {"namespace": other or harness.namespace, "name": "other"}
    api.create("/api/v1/persistentvolumes", volume)
    api.create(claims, a_claim("data", storage_class))
    pod = harness.make("one")
    await harness.until(lambda: f"{harness.namespace}/data" in harness.views.claims)
    write = VolumeWrite("static", f"{harness.namespace}/data", volume["metadata"]["name"], node, 20.0)

    with pytest.raises(PrebindError, match=said.format(harness.namespace)):
        await harness.volumes.prepare(harness.bind(pod, node, volumes=(write,)))

    api.delete(f"/api/v1/persistentvolumes/v-{harness.namespace}")
