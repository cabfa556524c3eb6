"""`volsched run` against a real control plane, with exactly the rights of `manifests/rbac`."""

from __future__ import annotations

import json
import signal
from datetime import timedelta
from pathlib import Path

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import (
    CONFIG,
    CONFIGMAP,
    CONFIGURATION,
    GROUPS,
    LEASE,
    SYSTEM,
    Installed,
    eventually,
    moment,
)
from tests.cluster.signals import BINDS, STATUSES, after_session
from tools.controlplane import a_node
from volsched.diagnose import snapshot
from volsched.run.process import END_SECONDS

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

EVICTING = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def test_a_plain_pod_is_bound_and_told_about_within_its_rights(
    installed: Installed, namespace: str, make_nodes: MakeNodes
) -> None:
    [node] = make_nodes(1, cpu="4")
    scheduler = installed.start("--plain-pods", "direct").wait_leading()
    installed.make_pods(namespace, [installed.pod("small", cpu="1"), installed.pod("large", cpu="100")])

    assert installed.wait_bound(namespace, 1) == {"small": node}

    scheduled = installed.wait_event(namespace, "small", "Scheduled")
    assert scheduled["type"] == "Normal"
    assert f"Successfully assigned {namespace}/small to {node}" in scheduled["message"]
    refused = installed.wait_event(namespace, "large", "FailedScheduling")
    assert refused["type"] == "Warning"
    assert refused["metadata"]["name"].startswith("large")
    assert "Insufficient cpu" in refused["message"]
    eventually(lambda: installed.condition(namespace, "large").get("reason") == "Unschedulable")
    assert installed.condition(namespace, "large")["status"] == "False"
    assert installed.condition(namespace, "small")["status"] == "True"
    described = installed.control_plane.kubectl("describe", "pod", "-n", namespace, "large")
    assert "FailedScheduling" in described
    assert "Insufficient cpu" in described
    eventually(lambda: scheduler.metric("volsched_pods_bound_total") == 1)
    assert not scheduler.said("not allowed")
    assert scheduler.terminate() == 0


def test_a_gang_is_bound_runs_and_completes(installed: Installed, namespace: str, make_nodes: MakeNodes) -> None:
    make_nodes(2, cpu="4")
    installed.start().wait_leading()
    installed.make_gang(
        namespace,
        "train",
        4,
        cpu="2",
        spec={"restartPolicy": "Never"},
    )

    placed = installed.wait_bound(namespace, 4)

    assert sorted(placed) == ["train-0", "train-1", "train-2", "train-3"]
    status = installed.wait_group(namespace, "train", "Running")["status"]
    assert any(c["type"] == "Scheduled" and c["status"] == "True" for c in status["conditions"])
    assert all(c["transitionID"] and c["lastTransitionTime"] for c in status["conditions"])
    for name in placed:
        installed.api.patch(
            f"/api/v1/namespaces/{namespace}/pods/{name}/status",
            {"status": {"phase": "Succeeded"}},
        )
    assert installed.wait_group(namespace, "train", "Completed")["status"]["succeeded"] == 4


def test_a_gang_of_four_with_room_for_three_waits_until_a_node_comes(
    installed: Installed, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="3")
    installed.start().wait_leading()
    installed.make_gang(namespace, "train", 4, cpu="1")

    event = installed.wait_event(namespace, "train", "Unschedulable")
    after_session(installed)
    assert not any("nodeName" in pod["spec"] for pod in installed.pods(namespace).values())
    assert event["involvedObject"]["kind"] == "PodGroup"
    conditions = installed.group(namespace, "train")["status"]["conditions"]
    assert [c["status"] for c in conditions if c["type"] == "Unschedulable"] == ["True"]
    assert {installed.condition(namespace, f"train-{i}").get("reason") for i in range(4)} == {"Unschedulable"}

    make_nodes(1, cpu="3")

    assert len(installed.wait_bound(namespace, 4)) == 4
    installed.wait_group(namespace, "train", "Running")


def test_a_pod_whose_group_nobody_made_says_so(installed: Installed, namespace: str, make_nodes: MakeNodes) -> None:
    make_nodes(1)
    installed.start().wait_leading()
    installed.make_pods(namespace, [installed.pod("lonely", cpu="1")])

    event = installed.wait_event(namespace, "lonely", "FailedScheduling")

    assert "PodGroup" in event["message"]


def test_a_gated_pod_keeps_its_reason_and_goes_once_the_gate_does(
    installed: Installed, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    installed.start("--plain-pods", "direct").wait_leading()
    installed.make_pods(
        namespace, [installed.pod("gated", cpu="1", spec={"schedulingGates": [{"name": "example.com/wait"}]})]
    )

    after_session(installed, lanes=(*BINDS, *STATUSES))
    assert installed.condition(namespace, "gated")["reason"] == "SchedulingGated"
    installed.api.patch(f"/api/v1/namespaces/{namespace}/pods/gated", {"spec": {"schedulingGates": []}})

    installed.wait_bound(namespace, 1)


def test_configuration_from_a_configmap_is_followed_and_the_last_good_one_kept(
    installed: Installed, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    scheduler = installed.start("--plain-pods", "direct", "--scheduler-configmap", CONFIGMAP)
    scheduler.wait_for("waiting for the ConfigMap")
    assert scheduler.page("/readyz")[0] == 503
    installed.configure(CONFIGURATION)
    scheduler.wait_leading()
    good = json.loads(scheduler.page("/configz")[1])["configuration"]["hash"]

    installed.configure(CONFIGURATION.replace("allocate", "alocate"))
    refused = installed.wait_event("volsched-system", "volsched-config", "ConfigurationRefused")
    assert "alocate" in refused["message"]
    assert "allocate" in refused["message"]
    assert scheduler.metric("volsched_config_valid") == 0
    after = json.loads(scheduler.page("/configz")[1])["configuration"]
    assert (after["hash"], after["valid"]) == (good, False)
    installed.make_pods(namespace, [installed.pod("under-the-old", cpu="1")])
    installed.wait_bound(namespace, 1)

    installed.configure(CONFIGURATION.replace("  - name: nodeorder\n", ""))
    eventually(lambda: scheduler.metric("volsched_config_valid") == 1)
    assert json.loads(scheduler.page("/configz")[1])["configuration"]["hash"] != good
    installed.make_pods(namespace, [installed.pod("under-the-new", cpu="1")])
    installed.wait_bound(namespace, 2)


def test_each_verdict_on_a_configmap_that_changes_quickly_is_told_that_it_is_gone_too(installed: Installed) -> None:
    installed.configure(CONFIGURATION)
    scheduler = installed.start("--scheduler-configmap", CONFIGMAP).wait_leading()
    wrong = [CONFIGURATION.replace("allocate", f"allocate{number}") for number in range(5)]
    for number, text in enumerate(wrong, 1):
        installed.configure(text)
        eventually(lambda: scheduler.metric('volsched_config_verdicts_total{verdict="refused"}') == number)  # noqa: B023
    installed.api.delete(f"/api/v1/namespaces/{SYSTEM}/configmaps/{CONFIG}")
    eventually(lambda: scheduler.metric('volsched_config_verdicts_total{verdict="missing"}') == 1)
    assert scheduler.metric("volsched_config_valid") == 0

    def told() -> list[str]:
        since = [event for event in installed.events(SYSTEM, CONFIG) if event["reason"] == "ConfigurationRefused"]
        return [event["message"] for event in since if "allocate" in event["message"] or "is gone" in event["message"]]

    eventually(lambda: sum("is gone" in message for message in told()) == 1)
    for number in range(5):
        assert sum(f'"allocate{number}"' in message for message in told()) == 1


def test_a_configuration_file_replaced_by_rename_is_followed(installed: Installed, tmp_path: Path) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text(CONFIGURATION)
    scheduler = installed.start("--scheduler-conf", str(path)).wait_leading()
    first = json.loads(scheduler.page("/configz")[1])["configuration"]["hash"]

    (tmp_path / "new").write_text(CONFIGURATION.replace("  - name: nodeorder\n", ""))
    (tmp_path / "new").rename(path)

    eventually(lambda: json.loads(scheduler.page("/configz")[1])["configuration"]["hash"] != first)


def test_a_wrong_configuration_at_the_start_ends_with_status_two(installed: Installed, tmp_path: Path) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text(CONFIGURATION.replace("gang", "gnag"))
    installed.forks = None  # this test is about a start

    scheduler = installed.start("--scheduler-conf", str(path))

    assert scheduler.wait() == 2
    assert "gang" in scheduler.said("cannot start")[0]["error"]


def test_sigterm_gives_the_lease_back_and_sigusr2_dumps_the_mirror(
    installed: Installed, namespace: str, make_nodes: MakeNodes, tmp_path: Path
) -> None:
    [node] = make_nodes(1)
    installed.forks = None  # this test is about signals
    scheduler = installed.start("--plain-pods", "direct", "--cache-dump-dir", str(tmp_path)).wait_leading()
    installed.make_pods(namespace, [installed.pod("one", cpu="1")])
    installed.wait_bound(namespace, 1)
    assert scheduler.page("/readyz") == (200, "ok\n")
    assert scheduler.page("/livez") == (200, "ok\n")

    scheduler.process.send_signal(signal.SIGUSR2)
    dumped = json.loads(Path(scheduler.wait_for("dumped the mirror")["path"]).read_text())
    assert f"{namespace}/one" in dumped["nodes"][node]["pods"]
    file = scheduler.wait_for("wrote a snapshot")["path"]
    assert f"{namespace}/one" in {found.key for found in snapshot.read(Path(file).read_bytes(), file).objects}

    assert scheduler.terminate() == 0
    [stopped], [released] = scheduler.said("stopped by SIGTERM"), scheduler.said("released the lease")
    assert moment(stopped) < moment(released) < moment(stopped) + timedelta(seconds=END_SECONDS)
    lease = installed.api.get(LEASE)["spec"]
    assert lease["holderIdentity"] == ""
    assert len(lease["renewTime"].split(".")[1]) == 7  # six digits and Z


def test_a_pod_that_is_refused_again_for_the_same_reason_costs_no_write(
    installed: Installed, namespace: str, make_nodes: MakeNodes, tmp_path: Path
) -> None:
    make_nodes(1, cpu="4")
    file = tmp_path / "evicting.conf"
    file.write_text(EVICTING)
    scheduler = installed.start("--plain-pods", "direct", "--scheduler-conf", str(file)).wait_leading()
    installed.make_pods(namespace, [installed.pod("astray", cpu="1", spec={"nodeSelector": {"zone": "nowhere"}})])
    installed.wait_event(namespace, "astray", "FailedScheduling")
    path = f"/api/v1/namespaces/{namespace}/pods"
    eventually(lambda: installed.condition(namespace, "astray").get("reason") == "Unschedulable")
    version = installed.api.get(f"{path}/astray")["metadata"]["resourceVersion"]
    tried = 'volsched_preemption_attempts_total{action="preempt",queue="default"}'
    spared = 'volsched_writes_spared_total{lane="events"}'
    victim_searches, not_needed = scheduler.metric(tried), scheduler.metric(spared)

    for number in range(3):  # each comes and goes, so that the other pod is tried anew
        installed.make_pods(namespace, [installed.pod(f"other-{number}", cpu="1")])
        installed.wait_bound(namespace, 1)
        installed.api.delete(f"{path}/other-{number}")
        eventually(lambda n=number: f"other-{n}" not in installed.pods(namespace))

    eventually(lambda: scheduler.metric(tried) >= victim_searches + 3, what="it was tried again")
    eventually(lambda: scheduler.metric("volsched_events_sent_total") >= 4, what="the others were told about")
    [told] = [event for event in installed.events(namespace, "astray") if event["reason"] == "FailedScheduling"]
    assert (told.get("count") or 1, told.get("series")) == (1, None)
    assert installed.api.get(f"{path}/astray")["metadata"]["resourceVersion"] == version
    assert scheduler.metric(spared) == not_needed


def test_a_pod_evicted_by_its_node_going_away_is_no_trouble(
    installed: Installed, namespace: str, make_nodes: MakeNodes
) -> None:
    [gone, _] = make_nodes(2, cpu="2")
    installed.start("--plain-pods", "direct").wait_leading()
    installed.make_pods(namespace, [installed.pod(f"p{i}", cpu="1") for i in range(4)])
    installed.wait_bound(namespace, 4)

    installed.control_plane.delete_nodes([gone])
    installed.make_pods(namespace, [installed.pod("later", cpu="1")])
    installed.wait_event(namespace, "later", "FailedScheduling")
    installed.control_plane.create_nodes([a_node(gone, cpu="4")])

    installed.wait_bound(namespace, 5)


def test_a_queue_that_goes_under_running_pods_leaves_them_alone_and_takes_no_more_until_it_is_back(
    installed: Installed, namespace: str, make_nodes: MakeNodes, tmp_path: Path
) -> None:
    make_nodes(1, cpu="4")
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": f"q-{namespace}"}}
    name = installed.api.create(f"{GROUPS}/queues", queue)["metadata"]["name"]
    path = tmp_path / "shares.conf"
    path.write_text(CONFIGURATION.replace("- name: gang", "- name: gang\n  - name: proportion"))
    scheduler = installed.start("--scheduler-conf", str(path)).wait_leading()
    installed.make_gang(namespace, "before", 2, queue=name, cpu="1")
    installed.wait_bound(namespace, 2)

    installed.api.delete(f"{GROUPS}/queues/{name}")
    eventually(lambda: scheduler.metric(f'volcano_queue_weight{{queue_name="{name}"}}') == 0, what="the queue is gone")
    installed.make_gang(namespace, "after", 2, queue=name, cpu="1")
    why = f'queue "{name}" of PodGroup "{namespace}/after" does not exist'
    eventually(lambda: installed.condition(namespace, "after-0").get("message") == why, what=why)
    installed.make_gang(namespace, "beside", 2, cpu="1")
    assert installed.wait_bound(namespace, 4).keys() == {"before-0", "before-1", "beside-0", "beside-1"}
    installed.make_gang(namespace, "late", 1, cpu="1")
    assert "Insufficient cpu" in installed.wait_event(namespace, "late-0", "FailedScheduling")["message"]

    installed.api.create(f"{GROUPS}/queues", queue)
    for gone in ("late-0", "before-0", "before-1"):
        installed.api.delete(f"/api/v1/namespaces/{namespace}/pods/{gone}", grace_seconds=0)

    assert {"after-0", "after-1"} < installed.wait_bound(namespace, 4).keys()
    assert scheduler.process.poll() is None
    installed.api.delete(f"{GROUPS}/queues/{name}")
