"""Pods with a ResourceClaim each: how fast their claims are allocated and they are bound, by whom, in one run.

  decisions        nothing is sent: one session places pods that name a claim of their own each, and another one pods
                   whose claims were made from one ResourceClaimTemplate; over the CPU time of the session
  volsched         `volsched run` with its default configuration, on a real control plane
  kube-scheduler   v1.36.3, its own limit of requests raised out of the way

Each pod wants one device; nodes have eight, in a ResourceSlice each, and a DeviceClass selects them by CEL.
On the control plane each pod names a claim of its own, and slices, claims and pods are there before a contestant
starts. Timed is from the first to the last bind, as a watch of this process sees them; when there are more claims than
devices, until these are gone. All share the same cores, this watch, etcd and the API server too.

The floors that Kubernetes publishes for kube-scheduler (test/integration/scheduler_perf, dra) are 40 to 70 pods a
second in its workloads with claims, on other machines.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import live, worlds
from bench.common import Report, Stopwatch, garbage_as_in_run, parser
from bench.devices import PER_NODE, VERSION, device_class, slices, spec
from tools.controlplane import ControlPlane, a_pod
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.framework.engine.fast import FastEngine
from volsched.mirror.settings import MirrorSettings
from volsched.testing.builders import ClusterBuilder, a_rig

DEVICES = f"/apis/{VERSION}"
NAMESPACE = "dra"
Json = dict[str, Any]


def claims(count: int) -> Iterator[Json]:
    """Yield so many claims, all alike."""
    for number in range(count):
        yield {"metadata": {"name": f"claim-{number:05}", "namespace": NAMESPACE}, "spec": spec()}


def pods(count: int, scheduler: str) -> Iterator[Json]:
    """Yield pods of which each names a claim of its own."""
    for number in range(count):
        pod = a_pod(f"pod-{number:05}", scheduler=scheduler, cpu="100m", memory="200Mi")
        pod["metadata"]["namespace"] = NAMESPACE
        pod["spec"]["automountServiceAccountToken"] = False
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"claim-{number:05}"}]
        yield pod


def make_devices(cluster: ControlPlane, nodes: int) -> None:
    """Create the DeviceClass, and for each node the slice of its devices."""
    cluster.api.create(f"{DEVICES}/deviceclasses", device_class())
    cluster.api.create_many(f"{DEVICES}/resourceslices", list(slices(nodes)))


def make_backlog(cluster: ControlPlane, scheduler: str, count: int) -> None:
    """Create the claims, and a pod for each."""
    cluster.api.create_many(f"{DEVICES}/namespaces/{NAMESPACE}/resourceclaims", list(claims(count)))
    cluster.api.create_many(f"/api/v1/namespaces/{NAMESPACE}/pods", list(pods(count, scheduler)))


def decide(nodes: int, count: int, *, from_template: bool) -> dict[str, Any]:
    """Let one session place the backlog, and send nothing; what it took."""
    objects = [*worlds.nodes(nodes), *_backlog(nodes, count, from_template)]
    rig = a_rig(ClusterBuilder(objects), DEFAULT_CONFIGURATION, settings=MirrorSettings(plain_pods=True))
    engine = rig.scheduler.engine
    with garbage_as_in_run():
        watch = Stopwatch()
        placed = len(rig.cycle().bindings)
        cpu = watch.cpu()
    return {
        "decisions": "claims from one template" if from_template else "a claim of its own each",
        "pods": placed,
        "cpu_s": cpu,
        "pods_per_cpu_s": placed / cpu,
        "rows_per_pod": engine.nodes.rows_scored / placed if isinstance(engine, FastEngine) else 0.0,
    }


def _backlog(nodes: int, count: int, from_template: bool) -> Iterator[Json]:
    yield {"apiVersion": VERSION, "kind": "DeviceClass", **device_class()}
    for found in slices(nodes):
        yield {"apiVersion": VERSION, "kind": "ResourceSlice", **found}
    for claim, pod in zip(claims(count), pods(count, live.SCHEDULER_NAMES["volsched"]), strict=True):
        uid, name = f"uid-{pod['metadata']['name']}", claim["metadata"]["name"]
        claim["metadata"]["uid"], pod["metadata"]["uid"] = f"uid-{name}", uid
        if from_template:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid, "controller": True}
            claim["metadata"]["ownerReferences"] = [owner]
            pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
            pod["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}
        yield {"apiVersion": VERSION, "kind": "ResourceClaim", **claim}
        yield {"apiVersion": "v1", "kind": "Pod", **pod}


def run(cluster: ControlPlane, contestant: str, count: int, devices: int) -> dict[str, Any]:
    """Let one contestant serve the backlog; what it took."""
    live.make_namespace(cluster, NAMESPACE)
    make_backlog(cluster, live.SCHEDULER_NAMES[contestant], count)
    before, served = live.writes(cluster), min(count, devices)
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
    everybody = ("decisions", "volsched", "kube-scheduler")
    options.add_argument("--contestants", nargs="+", choices=everybody, default=list(everybody), help="in this order")
    given = options.parse_args()
    report = Report("dra", f"{given.claims:,} claims with a pod each, {given.nodes:,} nodes with {PER_NODE} devices")
    for contestant in given.contestants:
        if contestant == "decisions":
            for from_template in (True, False):
                report.add(**decide(given.nodes, given.claims, from_template=from_template))
            continue
        with live.control_plane() as cluster:
            live.make_nodes(cluster, given.nodes)
            make_devices(cluster, given.nodes)
            report.add(**run(cluster, contestant, given.claims, given.nodes * PER_NODE))
    report.note("kube-scheduler's published floors with claims: 40 to 70 pods a second")
    report.note("cpu_per_1000: CPU seconds of the contestant per 1,000 pods bound, its start included")
    report.finish()


if __name__ == "__main__":
    main()
