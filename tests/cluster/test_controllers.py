"""`volsched controllers` beside `volsched run` on a real control plane, each with exactly the rights it ships with."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import Any

from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import (
    AT_WORK,
    GROUP_NAME,
    LEASE,
    VOLCANO,
    Controlled,
    make_volcano_pod,
    volcano_at_work,
)
from tests.cluster.scheduling import GROUPS, QUICK_LEASE, SYSTEM, Json, eventually, still
from tests.cluster.signals import after_round, after_seen_pods, after_session, ready
from tests.controllers.cases import annotations_of
from tools.controlplane import a_pod
from tools.controlplane.faults import FaultProxy, Respond, conflict
from tools.controlplane.request_counts import path_shape

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

CARD_REQUEST = "volcano.sh/card.request"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


def controller_of(found: Json) -> Json:
    [owner] = [owner for owner in found["metadata"]["ownerReferences"] if owner.get("controller")]
    return dict(owner)


def scale(controlled: Controlled, namespace: str, kind: str, name: str, replicas: int) -> None:
    controlled.api.patch(f"/apis/apps/v1/namespaces/{namespace}/{kind}/{name}", {"spec": {"replicas": replicas}})


# --- plain pods and workloads ---------------------------------------------------------------------------------------


def test_a_bare_pod_gets_a_podgroup_of_its_own_and_runs_and_both_go_together(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4")
    controlled.both()
    pod = controlled.pod("alone", cpu="1")
    pod["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "default", "volcano.sh/preemptable": "true"}
    pod["metadata"]["labels"] = {"volcano.sh/preemptable": "true", "app": "x"}
    controlled.make_pods(namespace, [pod])

    controlled.wait_bound(namespace, 1)

    made = controlled.pods(namespace)["alone"]["metadata"]
    [group] = controlled.wait_groups(namespace, 1)
    assert group["metadata"]["name"] == f"podgroup-{made['uid']}" == made["annotations"][GROUP_NAME]
    assert (controller_of(group)["kind"], controller_of(group)["uid"]) == ("Pod", made["uid"])
    assert annotations_of(group) == {"volcano.sh/preemptable": "true"}
    assert group["metadata"]["labels"] == {"volcano.sh/preemptable": "true"}
    assert group["spec"] == {"minMember": 1, "queue": "default", "minResources": {"cpu": "1"}}
    controlled.wait_group(namespace, group["metadata"]["name"], "Running")
    controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/alone", grace_seconds=0)
    controlled.wait_groups(namespace, 0)


def test_a_deployment_runs_as_a_gang_and_what_it_says_reaches_its_podgroup(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    controlled.both()
    controlled.workload(
        namespace,
        "Deployment",
        "web",
        3,
        annotations={MIN_MEMBER: "3", CARD_REQUEST: '{"NVIDIA-A100":1}', "example.com/not-ours": "x"},
    )

    controlled.wait_bound(namespace, 3)

    [replicas] = controlled.api.items(f"/apis/apps/v1/namespaces/{namespace}/replicasets")
    [group] = controlled.wait_groups(namespace, 1)
    assert group["metadata"]["name"] == f"podgroup-{replicas['metadata']['uid']}"
    assert controller_of(group)["kind"] == "ReplicaSet"
    assert annotations_of(group) == {CARD_REQUEST: '{"NVIDIA-A100":1}'}
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["minResources"] == {"cpu": "3"}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    controlled.api.patch(path, {"metadata": {"annotations": {CARD_REQUEST: '{"NVIDIA-A100":2}'}}})
    name = group["metadata"]["name"]
    eventually(lambda: annotations_of(controlled.group(namespace, name)) == {CARD_REQUEST: '{"NVIDIA-A100":2}'})


def test_a_gang_of_a_deployment_with_room_for_less_waits_as_a_whole(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="2")
    controlled.both()
    controlled.workload(namespace, "Deployment", "web", 3, annotations={MIN_MEMBER: "3"})

    [group] = controlled.wait_groups(namespace, 1)
    eventually(lambda: len(controlled.pods(namespace)) == 3)

    named = lambda pod: GROUP_NAME in pod["metadata"].get("annotations", {})  # noqa: E731
    eventually(lambda: all(map(named, controlled.pods(namespace).values())), what="every pod names its PodGroup")
    after_session(controlled)
    assert not any("nodeName" in pod["spec"] for pod in controlled.pods(namespace).values())
    make_nodes(1, cpu="1")
    assert len(controlled.wait_bound(namespace, 3)) == 3
    name = group["metadata"]["name"]
    controlled.wait_group(namespace, name, "Running")
    # A PodGroup whose pods are bound is Running; its pods run once the kubelet has started them.
    eventually(lambda: controlled.group(namespace, name)["status"].get("running") == 3)


def test_a_replicaset_that_is_scaled_to_zero_has_no_podgroup_and_gets_one_again(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    controlled.both()
    controlled.workload(namespace, "ReplicaSet", "plain", 2)
    controlled.wait_bound(namespace, 2)
    [before] = controlled.wait_groups(namespace, 1)

    scale(controlled, namespace, "replicasets", "plain", 0)
    controlled.wait_groups(namespace, 0)
    scale(controlled, namespace, "replicasets", "plain", 1)

    [after] = controlled.wait_groups(namespace, 1)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    controlled.wait_bound(namespace, 1)


def test_a_rollout_leaves_no_podgroup_of_the_old_replicaset(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    controlled.both()
    controlled.workload(namespace, "Deployment", "web", 2)
    controlled.wait_bound(namespace, 2)
    [before] = controlled.wait_groups(namespace, 1)

    template = {"metadata": {"annotations": {"example.com/version": "2"}}}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    controlled.api.patch(path, {"spec": {"template": template}})

    eventually(lambda: set(controlled.groups(namespace)).isdisjoint({before["metadata"]["name"]}))
    [after] = controlled.wait_groups(namespace, 1)
    controlled.wait_group(namespace, after["metadata"]["name"], "Running")


def test_a_statefulset_a_daemonset_and_a_batch_job_run(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(2, cpu="8")
    controlled.both()
    controlled.workload(namespace, "StatefulSet", "db", 2, serviceName="db")
    controlled.workload(namespace, "DaemonSet", "agent", None)
    template = controlled.template(cpu="1", spec={"restartPolicy": "Never"})
    batch = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sum", "annotations": {MIN_MEMBER: "2"}},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }
    controlled.api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", batch)

    controlled.wait_bound(namespace, 6)

    by_kind = {controller_of(group)["kind"]: group for group in controlled.wait_groups(namespace, 3)}
    assert sorted(by_kind) == ["DaemonSet", "Job", "StatefulSet"]
    assert by_kind["Job"]["spec"]["minMember"] == 2
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/sum"
    controlled.api.wait_for(path, lambda job: job["status"].get("succeeded") == 2)
    scale(controlled, namespace, "statefulsets", "db", 0)
    eventually(lambda: by_kind["StatefulSet"]["metadata"]["name"] not in controlled.groups(namespace))


def test_a_podgroup_goes_with_its_owner_and_comes_back_when_somebody_else_deletes_it(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    controlled.both()
    controlled.workload(namespace, "ReplicaSet", "plain", 2)
    controlled.wait_bound(namespace, 2)
    [group] = controlled.wait_groups(namespace, 1)
    name, uid = group["metadata"]["name"], group["metadata"]["uid"]

    controlled.api.delete(f"{GROUPS}/namespaces/{namespace}/podgroups/{name}")
    eventually(lambda: controlled.groups(namespace).get(name, group)["metadata"]["uid"] != uid)
    controlled.api.delete(f"/apis/apps/v1/namespaces/{namespace}/replicasets/plain")

    controlled.wait_groups(namespace, 0)


def test_a_namespace_names_the_queue_of_what_names_none(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4")
    queue = controlled.queue(f"team-{namespace}")
    annotations = {"scheduling.volcano.sh/queue-name": queue}
    controlled.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"annotations": annotations}})
    controlled.both()
    controlled.make_pods(namespace, [controlled.pod("one", cpu="1")])

    controlled.wait_bound(namespace, 1)

    [group] = controlled.wait_groups(namespace, 1)
    assert group["spec"]["queue"] == queue
    controlled.wait_queue(queue, running=1, allocated={"cpu": "1", "memory": "0", "pods": "1"})
    controlled.api.delete(f"{GROUPS}/queues/{queue}")


def test_pods_cost_one_patch_each_and_nothing_else_is_written_to_what_users_made(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    make_nodes(1, cpu="32")
    controlled.both(proxy=fault_proxy)
    controlled.wait_queue("default", state="Open")
    fault_proxy.counts.clear()
    fault_proxy.counts.keep_journal()
    controlled.make_pods(namespace, [controlled.pod(f"bare-{number}", cpu="100m") for number in range(5)])
    controlled.workload(namespace, "Deployment", "web", 5, template=controlled.template(cpu="100m"))
    controlled.make_pods(namespace, [a_pod("others", cpu="100m")])

    controlled.wait_bound(namespace, 10)
    eventually(
        lambda: all(g.get("status", {}).get("phase") == "Running" for g in controlled.groups(namespace).values())
    )
    controlled.api.patch(f"/api/v1/namespaces/{namespace}/pods/bare-0", {"metadata": {"labels": {"touched": "yes"}}})
    eventually(lambda: fault_proxy.counts.count("patch", "/queues/*/status") > 0)

    elsewhere = f"/namespaces/(?!{namespace}/)"  # Leases, and what earlier tests left
    written = Counter(
        f"{write.verb} {path_shape(write.path)[0]}"
        for write in fault_proxy.counts.take_journal()
        if not re.search(f"{elsewhere}|/events|/queues$|/queues/[^/]+/status", write.path)
    )
    assert written == {
        "patch /api/v1/namespaces/*/pods/*": 10,
        f"create {GROUPS}/namespaces/*/podgroups": 6,
    }
    assert "group-name" not in str(controlled.pods(namespace)["others"]["metadata"].get("annotations"))


def test_nothing_is_written_while_nothing_happens(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    make_nodes(1, cpu="8")
    process = controlled.both(proxy=fault_proxy)
    controlled.workload(namespace, "Deployment", "web", 2)
    controlled.wait_bound(namespace, 2)
    everywhere = f"{GROUPS}/podgroups"
    controlled.api.wait_for(everywhere, lambda found: len(found["items"]) == 1, 240)  # those of earlier tests are gone
    used = {"cpu": "2", "memory": "0", "pods": "2"}
    controlled.wait_queue("default", running=1, pending=0, inqueue=0, allocated=used)
    controlled.wait_queue("root", allocated=used)
    eventually(lambda: process.metric('volcano_queue_pod_group_running_count{queue_name="default"}') == 1)

    counts = fault_proxy.counts

    def has_settled() -> bool:
        counts.clear()
        time.sleep(1.0)
        return counts.writes() == 0

    eventually(has_settled)  # what earlier tests left behind in the queues goes when it goes
    still(lambda: counts.writes() == 0, 3.0, counts.table)  # no signal: what is written again and again has no cause


# --- queues ---------------------------------------------------------------------------------------------------------


def test_default_and_root_are_made_and_made_again_and_every_queue_has_a_state_and_a_parent(
    controlled: Controlled, namespace: str
) -> None:
    for name in ("default", "root"):
        controlled.api.delete(f"{GROUPS}/queues/{name}")
    controlled.control().wait_for(AT_WORK)
    mine = controlled.queue(f"mine-{namespace}")

    for name in ("default", "root", mine):
        controlled.wait_queue(name, state="Open", pending=0, allocated={})
    assert controlled.api.get(f"{GROUPS}/queues/{mine}")["spec"]["parent"] == "root"
    assert "parent" not in controlled.api.get(f"{GROUPS}/queues/root")["spec"]
    controlled.api.delete(f"{GROUPS}/queues/default")
    eventually(lambda: controlled.api.find(f"{GROUPS}/queues/default") is not None)
    controlled.api.delete(f"{GROUPS}/queues/{mine}")


def test_a_queue_counts_its_podgroups_and_what_their_pods_use_and_so_do_those_above(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4", **{"nvidia.com/gpu": 4})
    process = controlled.both()
    above = controlled.queue(f"above-{namespace}")
    below = controlled.queue(f"below-{namespace}", parent=above)
    pods = []
    for number in range(2):
        pod = controlled.pod(f"p{number}", cpu="1", **{"nvidia.com/gpu": 2})
        pod["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": below}
        pods.append(pod)
    controlled.make_pods(namespace, pods)

    used = {"cpu": "2", "memory": "0", "nvidia.com/gpu": "4", "pods": "2"}
    controlled.wait_queue(below, running=2, pending=0, inqueue=0, allocated=used)
    controlled.wait_queue(above, running=0, allocated=used)
    eventually(lambda: process.metric(f'volcano_queue_pod_group_running_count{{queue_name="{below}"}}') == 2)
    controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/p0", grace_seconds=0)

    half = {"cpu": "1", "memory": "0", "nvidia.com/gpu": "2", "pods": "1"}
    controlled.wait_queue(below, running=1, allocated=half)
    controlled.wait_queue(above, allocated=half)
    for name in (below, above):
        controlled.api.delete(f"{GROUPS}/queues/{name}")


def test_a_queue_closes_once_it_is_empty_takes_nothing_meanwhile_and_opens_again(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4")
    controlled.both()
    queue = controlled.queue(f"q-{namespace}")

    def pod(name: str) -> Json:
        made = controlled.pod(name, cpu="1")
        made["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": queue}
        return made

    controlled.make_pods(namespace, [pod("first")])
    controlled.wait_queue(queue, state="Open", running=1)

    controlled.api.patch(f"{GROUPS}/queues/{queue}", {"spec": {"state": "Closed"}})
    controlled.wait_queue(queue, state="Closing")
    controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/first", grace_seconds=0)
    controlled.wait_queue(queue, state="Closed", running=0)
    controlled.make_pods(namespace, [pod("second")])
    controlled.wait_queue(queue, state="Closed", pending=1)
    after_session(controlled)
    assert "nodeName" not in controlled.pods(namespace)["second"]["spec"]

    controlled.api.patch(f"{GROUPS}/queues/{queue}", {"spec": {"state": "Open"}})
    controlled.wait_queue(queue, state="Open", running=1)
    controlled.wait_bound(namespace, 1)
    controlled.api.delete(f"{GROUPS}/queues/{queue}")


def test_closing_a_queue_closes_those_below_and_opening_it_opens_just_those(
    controlled: Controlled, namespace: str
) -> None:
    controlled.control().wait_for(AT_WORK)
    above = controlled.queue(f"above-{namespace}")
    open_one = controlled.queue(f"open-{namespace}", parent=above)
    closed_one = controlled.queue(f"closed-{namespace}", parent=above)
    controlled.wait_queue(open_one, state="Open")
    controlled.wait_queue(closed_one, state="Open")
    status = {"status": {"state": "Closing"}}
    controlled.api.patch(f"{GROUPS}/queues/{closed_one}/status", status)
    controlled.wait_queue(closed_one, state="Closed")

    controlled.api.patch(f"{GROUPS}/queues/{above}/status", status)
    closed = controlled.wait_queue(open_one, state="Closed")
    assert closed["metadata"]["annotations"]["volcano.sh/closed-by-parent"] == "true"
    controlled.api.patch(f"{GROUPS}/queues/{above}/status", {"status": {"state": "Open"}})

    opened = controlled.wait_queue(open_one, state="Open")
    eventually(
        lambda: "annotations" not in controlled.api.get(f"{GROUPS}/queues/{open_one}")["metadata"], what=str(opened)
    )
    after_round(controlled)
    assert controlled.api.get(f"{GROUPS}/queues/{closed_one}")["status"]["state"] == "Closed"
    for name in (open_one, closed_one, above):
        controlled.api.delete(f"{GROUPS}/queues/{name}")


# --- several processes, faults, Volcano -----------------------------------------------------------------------------


def test_when_the_leader_is_killed_another_takes_over(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    controlled.start().wait_leading()
    first = controlled.control(*QUICK_LEASE)
    first.wait_for(AT_WORK)
    second = controlled.control()
    ready(second)
    controlled.make_pods(namespace, [controlled.pod("before", cpu="1")])
    controlled.wait_bound(namespace, 1)
    assert (first.metric("volsched_leader"), second.metric("volsched_leader")) == (1, 0)

    first.kill()
    controlled.make_pods(namespace, [controlled.pod("between", cpu="1")])

    second.wait_for(AT_WORK)
    controlled.wait_bound(namespace, 2)
    assert second.metric("volsched_controllers_active") == 1


def test_a_lost_lease_ends_the_process_and_sigterm_gives_it_back(controlled: Controlled) -> None:
    process = controlled.control()
    process.wait_for(AT_WORK)
    assert process.page("/readyz") == (200, "ok\n")
    assert process.page("/livez") == (200, "ok\n")
    assert process.terminate() == 0
    assert process.said("released the lease")
    assert controlled.api.get(LEASE)["spec"]["holderIdentity"] == ""

    robbed = controlled.control("--leader-elect-retry-period", "500ms")
    robbed.wait_for(AT_WORK)
    controlled.api.patch(LEASE, {"spec": {"holderIdentity": "somebody-else"}})
    assert robbed.wait() == 1
    assert robbed.said("lost the lease")


def test_refused_writes_are_tried_again(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    make_nodes(1, cpu="8")
    controlled.start().wait_leading()
    process = controlled.control(proxy=fault_proxy)
    process.wait_for(AT_WORK)
    fault_proxy.inject(Respond(500), method="POST", path="/podgroups$", times=2)
    fault_proxy.inject(Respond(500), method="PATCH", path="/pods/", times=2)
    queue = controlled.queue(f"q-{namespace}")
    controlled.wait_queue(queue, state="Open")
    fault_proxy.inject(conflict(), method="PATCH", path=f"/queues/{queue}/status$", times=1)

    pods = [controlled.pod(f"p{number}", cpu="1") for number in range(3)]
    for pod in pods:
        pod["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": queue}
    controlled.make_pods(namespace, pods)

    controlled.wait_bound(namespace, 3)
    assert process.metric('volsched_controllers_reconcile_errors_total{kind="PodGroup"}') == 2
    assert process.metric('volsched_controllers_reconcile_errors_total{kind="Pod"}') == 2
    controlled.wait_queue(queue, running=3, allocated={"cpu": "3", "memory": "0", "pods": "3"})
    # the scheduler writes the same status, so that there may be conflicts beside the one that is made here
    kinds = fault_proxy.counts.all().items()
    conflicts = sum(number for kind, number in kinds if "/queues/" in kind.shape and kind.status == 409)
    assert process.metric('volsched_controllers_reconcile_errors_total{kind="Queue"}') == conflicts >= 1
    controlled.api.delete(f"{GROUPS}/queues/{queue}")


def test_an_api_server_that_was_away_finds_them_at_work(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    process = controlled.both()
    controlled.control_plane.restart(down_seconds=1.0)

    queue = controlled.queue(f"after-{namespace}")
    controlled.make_pods(namespace, [controlled.pod("after", cpu="1")])

    controlled.wait_bound(namespace, 1)
    controlled.wait_queue(queue, state="Open")
    assert process.process.poll() is None
    controlled.api.delete(f"{GROUPS}/queues/{queue}")


def test_it_stands_aside_while_volcano_holds_its_lease_and_takes_over_when_that_is_not_renewed(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    with volcano_at_work(controlled):
        controlled.start().wait_leading()
        process = controlled.control("--volcano-grace", "6s")

        process.wait_for("standing aside")
        assert process.metric("volsched_controllers_standing_aside") == 1
        told = controlled.wait_event(SYSTEM, "volsched-controllers", "StandingAside")
        assert "vc-controller-manager" in told["message"]
        controlled.make_pods(namespace, [controlled.pod("waits", cpu="1")])
        still(lambda: not controlled.groups(namespace), 2.0)  # no signal: each second they look anew whether they may

    process.wait_for("taking over")
    controlled.wait_bound(namespace, 1)
    assert process.metric("volsched_controllers_standing_aside") == 0
    controlled.wait_event(SYSTEM, "volsched-controllers", "TakingOver")

    with volcano_at_work(controlled, "vc-1"):
        process.wait_for("standing aside", count=2)
        eventually(lambda: process.metric("volsched_controllers_active") == 0)


def test_it_stands_aside_while_a_pod_of_volcanos_controllers_is_ready(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    [node] = make_nodes(1, cpu="8")
    make_volcano_pod(controlled, VOLCANO, node)
    told_not_to_look = controlled.control("--stand-aside", "never")
    assert "is not asked" in told_not_to_look.wait_for(AT_WORK)["event"]
    assert told_not_to_look.terminate() == 0

    process = controlled.control("--volcano-grace", "1s")
    assert "volcano-controllers-0" in process.wait_for("standing aside")["event"]

    controlled.api.delete(f"/api/v1/namespaces/{VOLCANO}/pods/volcano-controllers-0", grace_seconds=0)
    process.wait_for("taking over")


def test_what_tenants_make_is_no_sign_of_volcanos_controllers(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    [node] = make_nodes(1, cpu="8")
    make_volcano_pod(controlled, namespace, node)
    make_volcano_pod(controlled, VOLCANO, node, account="default")  # not of Volcano's controllers, whatever its label

    with volcano_at_work(controlled, "forged", namespace):
        process = controlled.both()
        controlled.make_pods(namespace, [controlled.pod("placed", cpu="1")])
        eventually(lambda: "nodeName" in controlled.pods(namespace)["placed"]["spec"])

    assert not process.said("standing aside")
    assert process.metric("volsched_controllers_standing_aside") == 0
    controlled.api.delete(f"/api/v1/namespaces/{VOLCANO}/pods/volcano-controllers-0", grace_seconds=0)


def test_it_stands_aside_for_ever_when_it_is_told_to(controlled: Controlled, namespace: str) -> None:
    process = controlled.control("--stand-aside", "always")

    assert process.wait_for("standing aside")["event"] == "--stand-aside=always: standing aside"
    controlled.make_pods(namespace, [controlled.pod("waits", cpu="1")])
    after_seen_pods(process, 1)
    assert not controlled.groups(namespace)
    assert process.metric("volsched_controllers_active") == 0


def test_a_wrong_flag_ends_with_status_two(controlled: Controlled) -> None:
    process: Any = controlled.control("--leader-elect-renew-deadline", "100s")

    assert process.wait() == 2
