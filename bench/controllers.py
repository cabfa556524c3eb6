"""How long a burst of pods waits for its PodGroups, on a real control plane, and what `volsched controllers` takes.

Pods come as fast as this machine creates them: bare ones, each of which gets a PodGroup of its own, and ones of
ReplicaSets, which share one. One watch sees them appear and get the annotation that names their PodGroup; the time
between the two is the lag. Events are what the process read from its watches while it was at it.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from bench import live
from bench.common import Report, memory_mib, parser, quantile
from bench.latency import Load
from tools.controlplane import ControlPlane

SCHEDULER = live.SCHEDULER_NAMES["volsched"]
IN_GROUP = f'"{live.GROUP_NAME}":"podgroup-'.encode()
_CHANGES = re.compile(r"^volsched_watch_changes_total\{.*\} (\S+)$", re.MULTILINE)
AS_FAST_AS_POSSIBLE = 1e6


def command(cluster: ControlPlane, port: int) -> list[str]:
    """Run controllers that are alone, with their numbers on a port."""
    return [
        *(sys.executable, "-m", "volsched", "controllers", "--kubeconfig", str(cluster.kubeconfig)),
        *("--scheduler-name", SCHEDULER, "--leader-elect", "false"),
        *("--listen-address", f"127.0.0.1:{port}", "--healthz-address", ""),
    ]


def workloads(cluster: ControlPlane, namespace: str, count: int) -> list[dict[str, Any]]:
    """Create ReplicaSets that want pods, and return references to them; nobody makes their pods but we."""
    path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    made = []
    for number in range(count):
        labels = {"app": f"set-{number}"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
        spec = {"replicas": 100, "selector": {"matchLabels": labels}, "template": template}
        found = cluster.api.create(path, {"metadata": {"name": f"set-{number}"}, "spec": spec})
        meta = found["metadata"]
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": meta["name"], "uid": meta["uid"]}
        made.append(owner | {"controller": True})
    return made


def events_read(port: int) -> float:
    """Say how many changes the process has read from its watches so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return sum(float(value) for value in _CHANGES.findall(answer.read().decode()))


def wait_ready(port: int, patience: float = 30.0) -> None:
    """Wait until everything is listed."""
    deadline = time.monotonic() + patience
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            time.sleep(1.5)
            return


def run(cluster: ControlPlane, port: int, pid: int, kind: str, count: int) -> dict[str, Any]:
    """Create a burst and see it grouped."""
    namespace = f"burst-{kind.replace(' ', '-').lower()}"
    live.make_namespace(cluster, namespace)
    pods = live.pods_of(SCHEDULER, count, 0)
    if kind != "bare":
        owners = workloads(cluster, namespace, max(1, count // 100))
        for number, pod in enumerate(pods):
            pod["metadata"]["ownerReferences"] = [owners[number % len(owners)]]
    load = Load(cluster, namespace, pods, IN_GROUP)
    before, began = events_read(port), time.perf_counter()
    asyncio.run(load.run(AS_FAST_AS_POSSIBLE))
    took = max(load.bound.values(), default=time.perf_counter()) - min(load.created.values(), default=began)
    lags = [(load.bound[name] - created) * 1e3 for name, created in load.created.items() if name in load.bound]
    return {
        "pods": kind,
        "count": count,
        "created_per_s": count / load.creating_seconds,
        "grouped": len(lags),
        "grouped_per_s": len(lags) / took,
        "events_per_s": (events_read(port) - before) / took,
        "lag_p50_ms": quantile(lags, 0.5),
        "lag_p99_ms": quantile(lags, 0.99),
        "lag_max_ms": max(lags, default=float("nan")),
        "memory_mib": memory_mib(pid),
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--pods", type=int, default=2_000, help="pods of one burst")
    given = options.parse_args()
    report = Report("controllers", "from a pod's appearance to the annotation that names its PodGroup")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with live.control_plane() as cluster:
        log = Path(tempfile.gettempdir()) / "volsched-controllers.log"
        with live.running(command(cluster, port), cluster, log) as process:
            wait_ready(port)
            idle = memory_mib(process.pid)
            usage = live.Usage(process, cluster)
            for kind in ("bare", "of ReplicaSets"):
                report.add(**run(cluster, port, process.pid, kind, given.pods))
            report.add(
                memory_idle_mib=idle,
                memory_peak_mib=usage.peak_mib(),
                cpu_per_1000=usage.cpu() / given.pods / 2 * 1000,
                server_cpu_per_1000=usage.server_cpu() / given.pods / 2 * 1000,
            )
    report.note("lag is what one watch sees, so it has the API server's own time for two writes in it")
    report.finish()


if __name__ == "__main__":
    main()
