"""`volsched run` while the network, the API server, another leader or a node lets it down."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import GROUPS, LEASE, QUICK_LEASE, Installed, eventually, moment, still
from tests.cluster.signals import after_session, ready
from tools.controlplane import a_node
from tools.controlplane.faults import (
    BlackHole,
    EndWatch,
    FailWatch,
    FaultProxy,
    InjectedFault,
    Latency,
    Reset,
    ResetWatch,
    Respond,
    StallWatch,
    Truncate,
    bad_gateway_page,
    conflict,
    gone,
    server_error,
    too_many_requests,
)
from tools.controlplane.request_counts import WRITES
from volsched.kube.write.statuses import MENDING_INTERVAL_SECONDS

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

DIRECT = ("--plain-pods", "direct")
BINDING = "/api/v1/namespaces/*/pods/*/binding"


def overcommitted(installed: Installed, namespace: str, cpu: int) -> dict[str, int]:
    """Nodes that have more pods of one CPU than they have CPUs."""
    pods = installed.pods(namespace).values()
    counts = Counter(pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"])
    return {node: count for node, count in counts.items() if count > cpu}


@pytest.mark.no_retry(reason="double binding")
def test_a_leader_killed_while_it_binds_is_followed_by_another_and_each_pod_is_bound_once(
    installed: Installed, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    make_nodes(4, cpu="32")
    first = installed.start(*DIRECT, *QUICK_LEASE, "--binds-in-flight", "4", proxy=fault_proxy).wait_leading()
    second = installed.start(*DIRECT, proxy=fault_proxy)
    ready(second)
    with fault_proxy.inject(Latency(0.5), method="POST", path="/binding$"):  # all of them would take a quarter minute
        installed.make_pods(namespace, [installed.pod(f"p{i}", cpu="1") for i in range(120)])
        eventually(lambda: fault_proxy.counts.count("create", BINDING, status=201) > 20)
        first.kill()
    bound_by_first = fault_proxy.counts.count("create", BINDING, status=201)
    assert bound_by_first < 120

    placed = installed.wait_bound(namespace, 120)

    assert len(placed) == 120
    assert fault_proxy.counts.count("create", BINDING, status=201) <= 120
    assert not overcommitted(installed, namespace, 32)
    assert second.said("caught up with the leader before")
    assert installed.api.get(LEASE)["spec"]["leaseTransitions"] == 1
    assert second.terminate() == 0


@pytest.mark.no_retry(reason="double binding")
def test_a_leader_whose_lease_cannot_be_renewed_stops_before_another_may_begin(
    installed: Installed, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    """Everything but the Lease gets through, so only the fence keeps the old leader from writing.

    What it did is judged by the order in which the processes say things, not by how long this test takes.
    """
    make_nodes(4, cpu="64")
    lease = (*QUICK_LEASE, "--leader-elect-lease-duration", "20s", "--leader-elect-renew-deadline", "4s")
    first = installed.start(*DIRECT, *lease, proxy=fault_proxy).wait_leading()
    second = installed.start(*DIRECT, *lease)
    ready(second)

    fault_proxy.inject(BlackHole(), path="/leases/")
    number = 0

    def has_lost_it() -> bool:
        nonlocal number
        installed.make_pods(namespace, [installed.pod(f"p{number + i}", cpu="10m") for i in range(5)])
        number += 5
        return bool(first.said("lost the lease"))

    eventually(has_lost_it)
    late = fault_proxy.inject(Latency(0.0), method="POST", path=r"/pods/late\d+/binding$")
    installed.make_pods(namespace, [installed.pod(f"late{i}", cpu="10m") for i in range(10)])

    tried_at, lost_at = moment(first.wait_for("could not renew the lease")), moment(first.wait_for("lost the lease"))
    assert tried_at < lost_at < moment(second.wait_for("leading"))
    assert "could not be renewed for 4s" in first.said("lost the lease")[0]["event"]
    assert first.wait() == 1
    installed.wait_bound(namespace, number + 10)
    assert fault_proxy.counts.count("create", BINDING) > 0, "all but the Lease gets through"
    assert late.hits == 0


def test_a_leader_cut_off_from_everything_exits_and_the_other_takes_over(
    installed: Installed, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    make_nodes(1)
    first = installed.start(*DIRECT, *QUICK_LEASE, proxy=fault_proxy).wait_leading()
    second = installed.start(*DIRECT)
    ready(second)

    fault_proxy.partition(True)
    installed.make_pods(namespace, [installed.pod("one", cpu="1")])

    assert first.wait() == 1
    assert "lost the lease" in first.log.read_text()
    installed.wait_bound(namespace, 1)
    fault_proxy.partition(False)


FAULTS: dict[str, list[tuple[InjectedFault, dict[str, Any]]]] = {
    "watches end": [(EndWatch(after_events=3), {})],
    "watches are reset": [(ResetWatch(after_events=3), {})],
    "watches stall": [(StallWatch(after_events=3), {"times": 40})],
    "watches expire": [(FailWatch(after_events=2), {"times": 60})],
    "watches break off within a line": [(Truncate(900), {"watch": True, "times": 60})],
    "lists and watches are refused with 410": [(gone(), {"watch": True, "times": 40})],
    "a proxy answers with a page": [(bad_gateway_page(), {"times": 60, "path": "^/api(s)?/.*"})],
    "server errors everywhere": [(server_error(), {"times": 80})],
    "writes are made and not confirmed": [
        (server_error(after=True), {"method": "POST", "path": "/binding$", "times": 60})
    ],
    "writes are made and never answered": [
        (BlackHole(after=True), {"method": "POST", "path": "/binding$", "times": 20})
    ],
    "connections are reset": [(Reset(), {"path": "/binding$", "times": 60})],
    "connections are reset after the write": [(Reset(after=True), {"path": "/binding$", "times": 60})],
    "conflicts": [(conflict(), {"method": "POST", "path": "/binding$", "times": 60})],
    "too many requests": [(too_many_requests(1), {"method": "POST", "path": "/binding$", "times": 3})],
}


@pytest.mark.no_retry(reason="data loss")
@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS.keys())
def test_whatever_happens_on_the_way_the_same_pods_are_bound_in_the_end(
    installed: Installed,
    namespace: str,
    make_nodes: MakeNodes,
    fault_proxy: FaultProxy,
    faults: list[tuple[InjectedFault, dict[str, Any]]],
) -> None:
    """There is room for exactly these pods, so binding all of them without overcommitting is one outcome only."""
    make_nodes(3, cpu="8")
    scheduler = installed.start(*DIRECT, "--watch-silence", "3s", proxy=fault_proxy).wait_leading()

    rules = [fault_proxy.inject(fault, **where) for fault, where in faults]
    installed.make_gang(namespace, "first", 6, cpu="1")
    installed.make_pods(namespace, [installed.pod(f"plain-{i}", cpu="1") for i in range(8)])
    installed.make_gang(namespace, "second", 10, cpu="1")
    for rule in rules:
        rule.wait(1)
    time.sleep(3)  # no signal: this is how long the faults last
    for rule in rules:
        rule.remove()

    assert len(installed.wait_bound(namespace, 24)) == 24
    assert not overcommitted(installed, namespace, 8)
    installed.wait_group(namespace, "first", "Running")
    installed.wait_group(namespace, "second", "Running")
    # no pod twice; an answer that came too late for the scheduler, as on a slow machine, is not counted
    assert fault_proxy.counts.count("create", BINDING, status=201) <= 24
    assert scheduler.process.poll() is None
    assert not scheduler.said("unforeseen")


LISTING: dict[str, InjectedFault] = {
    "lists end": EndWatch(after_events=15),
    "lists are reset": ResetWatch(after_events=15),
    "lists stall": StallWatch(after_events=15),
    "lists break off within a line": Truncate(30_000),
    "lists are refused with 410": gone(),
    "server errors": server_error(),
}


@pytest.mark.no_retry(reason="data loss")
@pytest.mark.parametrize("fault", LISTING.values(), ids=LISTING.keys())
def test_whatever_happens_while_pods_are_listed_for_the_first_time_all_of_them_count(
    installed: Installed, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy, fault: InjectedFault
) -> None:
    """Two nodes and a half are full of pods that a list cut short does not show; the others need all the rest."""
    nodes = make_nodes(5, cpu="8")
    old = [installed.pod(f"old-{i}", cpu="1", spec={"nodeName": nodes[i // 8]}) for i in range(20)]
    installed.make_pods(namespace, old)
    installed.make_pods(namespace, [installed.pod(f"first-{i:02}", cpu="1") for i in range(12)])
    installed.make_gang(namespace, "gang", 8, cpu="1")
    rule = fault_proxy.inject(fault, path="^/api/v1/pods$", times=3)

    scheduler = installed.start(*DIRECT, "--watch-silence", "3s", proxy=fault_proxy)
    rule.wait(3)

    assert len(installed.wait_bound(namespace, 40)) == 40
    assert not overcommitted(installed, namespace, 8)
    installed.wait_group(namespace, "gang", "Running")
    assert scheduler.process.poll() is None
    assert not scheduler.said("unforeseen")


def test_what_was_deleted_while_a_watch_stalled_gives_its_room_back(
    installed: Installed, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    make_nodes(1, cpu="2")
    installed.start(*DIRECT, "--watch-silence", "3s", proxy=fault_proxy).wait_leading()
    installed.make_pods(namespace, [installed.pod(f"old-{i}", cpu="1") for i in range(2)])
    installed.wait_bound(namespace, 2)

    with fault_proxy.inject(StallWatch(), path="/pods$") as rule:
        rule.wait(1)  # the watch stays stalled: what is sent by it does not come any more
        for index in range(2):
            installed.api.delete(f"/api/v1/namespaces/{namespace}/pods/old-{index}", grace_seconds=0)
    fault_proxy.inject(gone(), path="/pods$", watch=True, times=1)
    installed.make_pods(namespace, [installed.pod(f"new-{i}", cpu="1") for i in range(2)])

    assert set(installed.wait_bound(namespace, 2)) == {"new-0", "new-1"}


def test_a_bind_that_is_refused_for_ever_starves_nobody(
    installed: Installed, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    make_nodes(2, cpu="32")
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()
    policy = Respond(403, '{"kind":"Status","reason":"Forbidden","message":"denied by policy"}')
    rule = fault_proxy.inject(policy, method="POST", path="/pods/aaa-refused/binding$")
    began = time.monotonic()
    installed.make_pods(namespace, [installed.pod("aaa-refused", cpu="1")])
    rule.wait(1)

    undisturbed = 0
    for wave in range(10):
        before = rule.hits
        installed.make_pods(namespace, [installed.pod(f"p{wave}-{i}", cpu="1") for i in range(4)])
        installed.wait_bound(namespace, 4 * (wave + 1))
        undisturbed += rule.hits == before

    assert undisturbed > 0, "no wave was bound without another attempt at the refused pod"
    rule.wait(3)
    assert rule.hits <= 5 + (time.monotonic() - began) / 5, "at most so many attempts fit between waits of 0.5 to 5 s"
    event = installed.wait_event(namespace, "aaa-refused", "FailedScheduling")
    assert "denied by policy" in event["message"]
    rule.remove()
    assert "aaa-refused" in installed.wait_bound(namespace, 41)


def test_a_node_deleted_between_decision_and_write_is_noticed(
    installed: Installed, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    """The API server accepts a binding to a node that does not exist."""
    [node] = make_nodes(1, cpu="4")
    scheduler = installed.start(*DIRECT, proxy=fault_proxy).wait_leading()
    rule = fault_proxy.inject(Latency(5.0), method="POST", path="/binding$", times=1)
    installed.make_pods(namespace, [installed.pod("one", cpu="1")])
    rule.wait(1)

    installed.control_plane.delete_nodes([node])

    assert installed.wait_bound(namespace, 1) == {"one": node}
    assert node in installed.wait_event(namespace, "one", "NodeLost")["message"]
    assert scheduler.said("a node went while a pod was bound to it")


def test_no_rights_to_events_do_not_stop_scheduling(
    installed: Installed, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    make_nodes(1)
    forbidden = Respond(403, '{"kind":"Status","reason":"Forbidden","message":"events is forbidden"}')
    fault_proxy.inject(forbidden, method="POST", path="/events$")
    scheduler = installed.start(*DIRECT, proxy=fault_proxy).wait_leading()

    installed.make_pods(namespace, [installed.pod(f"p{i}", cpu="1") for i in range(10)])

    installed.wait_bound(namespace, 10)
    scheduler.wait_for("not allowed to write Events")
    assert len(scheduler.said("not allowed to write Events")) == 1


def test_status_is_written_through_the_main_resource_where_the_crd_has_no_status_subresource(
    installed: Installed, namespace: str, make_nodes: MakeNodes
) -> None:
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.volcano.sh"
    versions = installed.api.get(crd)["spec"]["versions"]
    without = [{**version, "subresources": {}} for version in versions]
    installed.api.patch(crd, {"spec": {"versions": without}})
    try:
        eventually(lambda: "podgroups/status" not in resources_of(installed))
        make_nodes(1, cpu="4")
        installed.start().wait_leading()
        installed.make_gang(namespace, "train", 2, cpu="1")

        installed.wait_group(namespace, "train", "Running")
    finally:
        installed.api.patch(crd, {"spec": {"versions": versions}})
        eventually(lambda: "podgroups/status" in resources_of(installed))


def resources_of(installed: Installed) -> set[str]:
    return {resource["name"] for resource in installed.api.get(GROUPS)["resources"]}


def test_hundreds_of_pods_cost_hardly_more_than_their_bindings_and_an_idle_cluster_nothing(
    installed: Installed, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    make_nodes(30, cpu="16")
    installed.make_pods(namespace, [installed.pod(f"p{i}", cpu="1") for i in range(240)])
    for gang in range(3):
        installed.make_gang(namespace, f"gang-{gang}", 20, cpu="1")

    installed.start(*DIRECT, proxy=fault_proxy)
    installed.wait_bound(namespace, 300)
    eventually(lambda: all(pod["status"]["phase"] == "Running" for pod in installed.pods(namespace).values()))
    groups = f"{GROUPS}/namespaces/{namespace}/podgroups"
    eventually(lambda: [g.get("status", {}).get("running") for g in installed.api.items(groups)] == [20] * 3)
    quiet_for(fault_proxy, MENDING_INTERVAL_SECONDS + 2.0)  # nothing that is to be written waits longer

    assert fault_proxy.counts.count("create", BINDING, status=201) == 300
    assert not overcommitted(installed, namespace, 16)
    writes = writes_of(fault_proxy)
    assert sum(writes.values()) <= 330, writes
    fault_proxy.counts.keep_journal()
    written: list[str] = []
    still(lambda: not written_in(namespace, fault_proxy, written), 5.0, lambda: written)  # no signal: it has no cause


def test_no_session_is_held_before_everything_is_listed(
    installed: Installed, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    """The node is full of pods that the scheduler gets to know last."""
    [node] = make_nodes(1, cpu="3")
    installed.make_pods(namespace, [installed.pod(f"old-{i}", cpu="1", spec={"nodeName": node}) for i in range(3)])
    installed.make_pods(namespace, [installed.pod("new", cpu="1")])
    rule = fault_proxy.inject(server_error(), path="^/api/v1/pods$")

    scheduler = installed.start(*DIRECT, proxy=fault_proxy)
    scheduler.wait_for("leading")
    rule.wait()
    status, text = scheduler.page("/readyz")
    assert (status, "pods" in text) == (503, True)
    rule.remove()
    scheduler.wait_leading()

    installed.wait_event(namespace, "new", "FailedScheduling")
    assert "nodeName" not in installed.pods(namespace)["new"]["spec"]


def written_in(namespace: str, proxy: FaultProxy, written: list[str]) -> list[str]:
    """Add what was written in a namespace since the last call, Events aside; what earlier tests left has others."""
    paths = [write.path for write in proxy.counts.take_journal()]
    written += [path for path in paths if f"/namespaces/{namespace}/" in path and "/events" not in path]
    return written


def quiet_for(proxy: FaultProxy, seconds: float) -> None:
    """Wait until nothing was written for so long."""

    def is_quiet() -> bool:
        before = writes_of(proxy)
        time.sleep(seconds)
        return writes_of(proxy) == before

    eventually(is_quiet)


def writes_of(proxy: FaultProxy) -> dict[str, int]:
    """Writes by verb and path, Events and the lease aside."""
    aside = ("/events", "/events/*", "/leases", "/leases/*")
    found: Counter[str] = Counter()
    for kind, number in proxy.counts.all().items():
        if kind.verb in WRITES and not kind.shape.endswith(aside):
            found[f"{kind.verb} {kind.shape}"] += number
    return found


def test_an_outage_of_the_api_server_is_survived(installed: Installed, namespace: str, make_nodes: MakeNodes) -> None:
    """A server that has just come back refuses everybody for a moment, for want of rights."""
    make_nodes(2, cpu="32")
    scheduler = installed.start(*DIRECT).wait_leading()
    installed.make_pods(namespace, [installed.pod("before", cpu="1")])
    installed.wait_bound(namespace, 1)

    installed.control_plane.restart(down_seconds=2.0)
    installed.make_pods(namespace, [installed.pod("after", cpu="1"), installed.pod("large", cpu="100")])

    installed.wait_bound(namespace, 2)
    installed.wait_event(namespace, "large", "FailedScheduling")
    assert scheduler.process.poll() is None


def test_a_node_that_comes_back_under_its_name_is_another_node(
    installed: Installed, namespace: str, make_nodes: MakeNodes
) -> None:
    [node] = make_nodes(1, cpu="2")
    installed.start(*DIRECT).wait_leading()
    installed.control_plane.delete_nodes([node])
    installed.make_pods(namespace, [installed.pod("one", cpu="4")])
    installed.wait_event(namespace, "one", "FailedScheduling")
    after_session(installed)
    assert "nodeName" not in installed.pods(namespace)["one"]["spec"]

    installed.control_plane.create_nodes([a_node(node, cpu="8")])

    assert installed.wait_bound(namespace, 1) == {"one": node}
