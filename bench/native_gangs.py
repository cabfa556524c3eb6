"""The race with Kubernetes' own gangs: groups that have room, and then some that have none.

  kube-scheduler   v1.36.3 with the gates of gangs, topology and preemption by groups
  volsched         `volsched run` with its default configuration

First 100 groups of 50 pods wait, a card for each pod, on 1,000 nodes of eight cards. Then groups come whose pods ask
for more cards than a node has. *Attempts* are each scheduler's own count of how often it tried a group:
`scheduler_podgroup_schedule_attempts_total` and `volsched_job_attempts_total`.
"""

from __future__ import annotations

import re
import ssl
import tempfile
import time
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

from bench import live
from bench.common import Report
from tools.controlplane import ControlPlane
from tools.controlplane.plane import free_port

CONTESTANTS = ("kube-scheduler", "volsched")
SIZE = 50
LARGE, SMALL = (100, 1_000), (20, 200)
"""Groups, and nodes."""
HOPELESS, HOPELESS_SIZE, CARDS_OF_NO_NODE = 10, 5, 9
WATCHED_SECONDS = 20.0
SETTLED_SECONDS = 5.0
_ATTEMPTS = {
    "kube-scheduler": re.compile(r"^scheduler_podgroup_schedule_attempts_total(?:\{.*\})? (\S+)$", re.MULTILINE),
    "volsched": re.compile(r"^volsched_job_attempts_total (\S+)$", re.MULTILINE),
}


def race(report: Report, groups: int, nodes: int) -> None:
    """Let both empty the same backlog, on one control plane, and then wait for what has no room."""
    with live.control_plane(native_gangs=True) as cluster:
        live.make_nodes(cluster, nodes)
        for contestant in CONTESTANTS:
            report.add(workload=f"{groups} groups of {SIZE} on {nodes:,}", **_run(cluster, contestant, groups))
    report.note(f"attempts: at a group, until all had started; then {HOPELESS} groups without room wait, and for")
    report.note(f"{WATCHED_SECONDS:.0f} s it is counted how often they are tried, and what CPU that takes")


def _run(cluster: ControlPlane, contestant: str, groups: int) -> dict[str, Any]:
    namespace, port = f"race-{contestant}", free_port()
    scheduler = live.SCHEDULER_NAMES[contestant]
    live.make_namespace(cluster, namespace)
    live.make_native_gangs(cluster, namespace, scheduler, range(groups), SIZE)
    log = Path(tempfile.gettempdir()) / f"volsched-native-{contestant}.log"
    command = live.command_of(contestant, cluster, namespace, metrics_port=port)
    with live.Watch(cluster, namespace) as watch, live.running(command, cluster, log) as process:
        usage = live.Usage(process, cluster)
        if not watch.wait(groups * SIZE, process):
            raise SystemExit(f"{contestant} bound {len(watch.binds)} of {groups * SIZE} pods; see {log}")
        cpu, attempts = usage.cpu(), _attempts(cluster, contestant, port)
        seconds = watch.binds[-1] - watch.binds[0]
        waiting = _wait(cluster, contestant, namespace, port, usage)
        peak = usage.peak_mib()
    live.clear(cluster, namespace)
    return {
        "contestant": contestant,
        "binds_per_s": groups * SIZE / seconds,
        "cpu_per_1000": cpu / (groups * SIZE) * 1000,
        "peak_mib": peak,
        "attempts_per_group": attempts / groups,
        **waiting,
    }


def _wait(cluster: ControlPlane, contestant: str, namespace: str, port: int, usage: live.Usage) -> dict[str, Any]:
    """Make groups that no node has room for; return what waiting for room costs."""
    hopeless = range(1000, 1000 + HOPELESS)
    scheduler = live.SCHEDULER_NAMES[contestant]
    live.make_native_gangs(cluster, namespace, scheduler, hopeless, HOPELESS_SIZE, CARDS_OF_NO_NODE)
    time.sleep(SETTLED_SECONDS)
    cpu, attempts = usage.cpu(), _attempts(cluster, contestant, port)
    time.sleep(WATCHED_SECONDS)
    return {
        "waiting_attempts_per_s": (_attempts(cluster, contestant, port) - attempts) / WATCHED_SECONDS,
        "waiting_cpu_percent": (usage.cpu() - cpu) / WATCHED_SECONDS * 100,
    }


def _attempts(cluster: ControlPlane, contestant: str, port: int) -> float:
    """How often a contestant has tried a group, by its own metric."""
    connection = HTTPConnection("127.0.0.1", port) if contestant == "volsched" else _secured(cluster, port)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {cluster.credentials.admin_token}"})
    text = connection.getresponse().read().decode()
    connection.close()
    return sum(float(number) for number in _ATTEMPTS[contestant].findall(text))


def _secured(cluster: ControlPlane, port: int) -> HTTPConnection:
    """Connect to kube-scheduler, which has made a certificate for itself."""
    context = ssl.create_default_context(cafile=cluster.folder / "kube-scheduler.crt")
    return HTTPSConnection("127.0.0.1", port, context=context)
