"""Pods with a ResourceClaim each, on one real control plane: how fast their claims are allocated and they are bound.

Each pod names a claim of its own for one device; nodes have eight devices, in a ResourceSlice each, and a DeviceClass
selects them by a CEL expression. Slices, claims and pods are there before a contestant starts. Timed is from the first
to the last bind, as a watch of this process sees them; when there are more claims than devices, until these are gone.

The floors that Kubernetes publishes for kube-scheduler (test/integration/scheduler_perf, dra) are 40 to 70 pods a
second in its workloads with claims, on other machines; `--contestants kube-scheduler` lets it run here.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from bench import live
from bench.common import Report, parser
from volsched.testing.controlplane import ControlPlane, a_pod

DEVICES = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"
PER_NODE = 8
NAMESPACE = "dra"


def make_devices(cluster: ControlPlane, nodes: int) -> None:
    """Create the DeviceClass, and for each node the slice of its devices."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    cluster.api.create(f"{DEVICES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}})
    devices = [{"name": f"gpu-{number}"} for number in range(PER_NODE)]
    slices = []
    for number in range(nodes):
        node = f"node-{number:05}"
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        slices.append({"metadata": {"name": f"slice-{number:05}"}, "spec": spec})
    cluster.api.create_many(f"{DEVICES}/resourceslices", slices)


def make_backlog(cluster: ControlPlane, scheduler: str, count: int) -> None:
    """Create the claims, and a pod for each."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    spec = {"devices": {"requests": [request]}}
    claims = [{"metadata": {"name": f"claim-{number:05}"}, "spec": spec} for number in range(count)]
    cluster.api.create_many(f"{DEVICES}/namespaces/{NAMESPACE}/resourceclaims", claims)
    pods = []
    for number in range(count):
        pod = a_pod(f"pod-{number:05}", scheduler=scheduler, cpu="100m", memory="200Mi")
        pod["spec"]["automountServiceAccountToken"] = False
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"claim-{number:05}"}]
        pods.append(pod)
    cluster.api.create_many(f"/api/v1/namespaces/{NAMESPACE}/pods", pods)


def run(cluster: ControlPlane, contestant: str, claims: int, devices: int) -> dict[str, Any]:
    """Let one contestant serve the backlog; what it took."""
    live.make_namespace(cluster, NAMESPACE)
    make_backlog(cluster, live.SCHEDULER_NAMES[contestant], claims)
    before, served = live.writes(cluster), min(claims, devices)
    log = Path(tempfile.gettempdir()) / f"volsched-dra-{contestant}.log"
    command = live.command_of(contestant, cluster, NAMESPACE)
    with live.Watch(cluster, NAMESPACE) as watch, live.running(command, cluster, log) as process:
        usage, started = live.Usage(process, cluster), time.perf_counter()
        if not watch.wait(served, process):
            raise SystemExit(f"{contestant} bound {len(watch.binds)} of {served} pods; see {log}")
        cpu, server_cpu, peak = usage.cpu(), usage.server_cpu(), usage.peak_mib()
    written = {name: count - before.get(name, 0) for name, count in live.writes(cluster).items()}
    seconds = watch.binds[served - 1] - watch.binds[0]
    return {
        "contestant": contestant,
        "pods": served,
        "seconds": seconds,
        "pods_per_s": served / seconds,
        "start_s": watch.binds[0] - started,
        "cpu_per_1000": cpu / served * 1000,
        "peak_mib": peak,
        "server_cpu_per_1000": server_cpu / served * 1000,
        "claim_writes_per_pod": sum(n for name, n in written.items() if name.startswith("resourceclaims")) / served,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=500, help="nodes, with eight devices each")
    options.add_argument("--claims", type=int, default=5_000, help="claims, with a pod each")
    options.add_argument(
        "--contestants", nargs="+", choices=("volsched", "kube-scheduler"), default=["volsched"], help="in this order"
    )
    given = options.parse_args()
    report = Report("dra", f"{given.claims:,} claims with a pod each, {given.nodes:,} nodes with {PER_NODE} devices")
    for contestant in given.contestants:
        with live.control_plane() as cluster:
            live.make_nodes(cluster, given.nodes)
            make_devices(cluster, given.nodes)
            report.add(**run(cluster, contestant, given.claims, given.nodes * PER_NODE))
    report.note("kube-scheduler's published floors with claims: 40 to 70 pods a second")
    report.note("cpu_per_1000: CPU seconds of the contestant per 1,000 pods bound, its start included")
    report.finish()


if __name__ == "__main__":
    main()
