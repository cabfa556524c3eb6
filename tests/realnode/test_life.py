"""What only a kubelet does: containers that end in their time, pods that it refuses, sizes that change in place."""

from __future__ import annotations

import json
import signal
import subprocess

from tests.realnode.cluster import Cluster, ProcessOf, a_pod, eventually, phase_of
from tools.realnode import node

PREEMPTING = """\
actions: "allocate, backfill, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


def test_a_victim_has_its_time_to_end_and_then_the_other_starts(installed: Cluster, namespace: str) -> None:
    low, high = (f"{namespace[:40]}-{name}" for name in ("low", "high"))
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    installed.apply(*(kind | {"metadata": {"name": name}, "value": value} for name, value in ((low, 1), (high, 1000))))
    room = f"{installed.free_cpu() - 50}m"
    takes_its_time = ("sh", "-c", "trap 'sleep 3; exit 0' TERM; sleep 3600 & wait")
    victim = a_pod("low", cpu=room, command=takes_its_time, terminationGracePeriodSeconds=30, priorityClassName=low)
    with installed.configured(PREEMPTING):
        installed.apply(victim, namespace=namespace)
        eventually(lambda: phase_of(installed.get("pod", "low", namespace)) == "Running")

        installed.apply(a_pod("high", cpu=room, priorityClassName=high), namespace=namespace)

        eventually(lambda: "deletionTimestamp" in installed.get("pod", "low", namespace).get("metadata", {}))
        assert phase_of(installed.get("pod", "high", namespace)) == "Pending"
        eventually(lambda: phase_of(installed.get("pod", "high", namespace)) == "Running")
    said = installed.events(namespace, "low")
    assert any(line.startswith("Preempted") for line in said)
    assert any(line.startswith("Killing") for line in said)


def test_a_pod_changes_its_size_where_it_is_and_the_accounts_follow(installed: Cluster, namespace: str) -> None:
    installed.apply(a_pod("grows", cpu="100m"), namespace=namespace)
    eventually(lambda: phase_of(installed.get("pod", "grows", namespace)) == "Running")
    before = ProcessOf(installed.get("pod", "grows", namespace)).pid

    wanted = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "300m"}}}]}}
    installed.kubectl("patch", "pod", "grows", "-n", namespace, "--subresource=resize", "-p", json.dumps(wanted))

    def given() -> str:
        [status] = installed.get("pod", "grows", namespace)["status"]["containerStatuses"]
        return str(status.get("resources", {}).get("requests", {}).get("cpu"))

    eventually(lambda: given() == "300m")
    assert ProcessOf(installed.get("pod", "grows", namespace)).pid == before


def test_a_node_that_falls_silent_takes_no_pods_until_it_is_back(installed: Cluster, namespace: str) -> None:
    kubelet = int(subprocess.run(["pgrep", "-x", "kubelet"], capture_output=True, text=True, check=True).stdout)

    def is_ready() -> bool:
        conditions = installed.get("node", node.NAME)["status"]["conditions"]
        return next(c["status"] for c in conditions if c["type"] == "Ready") == "True"

    subprocess.run(["kill", f"-{signal.SIGSTOP.value}", str(kubelet)], check=True)
    try:
        eventually(lambda: not is_ready())
        installed.apply(a_pod("late"), namespace=namespace)
        eventually(lambda: any("FailedScheduling" in said for said in installed.events(namespace, "late")))
        assert phase_of(installed.get("pod", "late", namespace)) == "Pending"
    finally:
        subprocess.run(["kill", f"-{signal.SIGCONT.value}", str(kubelet)], check=True)
    eventually(is_ready)
    eventually(lambda: phase_of(installed.get("pod", "late", namespace)) == "Running")
