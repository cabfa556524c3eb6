"""Pods with ResourceClaims: how fast claims are allocated and pods are bound, by whom, in one run.

  decisions        nothing is sent: one session places gangs of 16, and single pods, over the CPU time of the session
  bare             a program that sends the same requests as volsched and decides nothing (`bench.bare_claims`)
  volsched         `volsched run` with its default configuration, on a real control plane
  kube-scheduler   v1.36.3, its own limit of requests raised out of the way

`bench.claim_worlds` lists the variants. On the control plane slices, claims and pods are there before a contestant
starts, and each has a fresh control plane. Timed is from the first to the last bind, as a watch of this process sees
them; when there are more claims than devices, until these are gone. So is the CPU time; what is used before the first
bind is told as the start. All share the same cores, this watch, etcd and the API server too.

The floors that Kubernetes publishes for kube-scheduler (test/integration/scheduler_perf, dra) are 40 to 70 pods a
second in its workloads with claims, on other machines.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from bench import claim_worlds, live, worlds
from bench.claim_worlds import CONDITION, EXTENDED, LIVE, VARIANTS, ClaimVariant
from bench.common import Report, Stopwatch, garbage_as_in_run, parser
from bench.devices import PER_NODE, VERSION, device_class
from tools.controlplane import ApiServerError, ControlPlane, a_pod
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.framework.engine.fast import FastEngine
from volsched.model.plan import Bind
from volsched.registry import load_profile

DEVICES: Final = f"/apis/{VERSION}"
NAMESPACE: Final = "dra"
CLAIMS: Final = f"{DEVICES}/namespaces/{NAMESPACE}/resourceclaims"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUPS: Final = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
GANGS: Final = (16, 1)
DECIDED: Final = {500: 4_000, 5_000: 16_000}
"""Pods of a backlog that a session decides about, by nodes."""
CONTESTANTS: Final = ("bare", "volsched", "kube-scheduler")
IN_FLIGHT: Final = (32, 64)
"""Pods in flight of the bare claim binder; the faster counts."""
Json = dict[str, Any]


# -- decisions --------------------------------------------------------------------------------------------------------


def decide(name: str, nodes: int, count: int, gang: int) -> dict[str, Any]:
    """Let one session place a backlog, and send nothing; what it took."""
    variant = VARIANTS[name]
    count = min(count, nodes * variant.per_node)
    scheduler, recorder = worlds.a_scheduler(
        claim_worlds.infrastructure(variant, nodes), load_profile(DEFAULT_CONFIGURATION)[0]
    )
    scheduler.cycle()
    scheduler.mirror.apply(worlds.puts(claim_worlds.backlog(variant, count, gang)))
    with garbage_as_in_run():
        watch = Stopwatch()
        scheduler.cycle()
        cpu = watch.cpu()
    placed = sum(isinstance(step, Bind) for step in recorder.steps)
    engine = scheduler.engine
    return {
        "decisions": name,
        "nodes": nodes,
        "gang": gang,
        "pods": placed,
        "cpu_s": cpu,
        "pods_per_cpu_s": round(placed / cpu),
        "rows_per_pod": engine.nodes.rows_scored / placed if isinstance(engine, FastEngine) else 0.0,
    }


def best_decision(name: str, nodes: int, gang: int, repeats: int) -> dict[str, Any]:
    """Return the run that took least CPU time."""
    count = DECIDED.get(nodes, nodes * PER_NODE)
    return min((decide(name, nodes, count, gang) for _ in range(repeats)), key=lambda row: row["cpu_s"])


# -- on a control plane -----------------------------------------------------------------------------------------------


def make_devices(cluster: ControlPlane, name: str, nodes: int) -> None:
    """Create the DeviceClass, and for each node the slice of its devices."""
    found = device_class()
    if name == "extended":
        found["spec"]["extendedResourceName"] = EXTENDED
    cluster.api.create(f"{DEVICES}/deviceclasses", found)
    cluster.api.create_many(f"{DEVICES}/resourceslices", list(claim_worlds.slices(LIVE[name], nodes)))


def make_backlog(cluster: ControlPlane, name: str, scheduler: str, count: int) -> None:
    """Create the claims, and the pods that use them."""
    variant = LIVE[name]
    if variant.shared_by > 1:
        spec = {"minMember": variant.shared_by, "queue": "default"}
        groups = [{"metadata": {"name": f"gang-{n:05}"}, "spec": spec} for n in range(count // variant.shared_by)]
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
        cluster.api.create_many(GROUPS, [body | group for group in groups])
    claims = [] if name == "extended" else list(_claims(variant, count))
    if not variant.from_template:
        cluster.api.create_many(CLAIMS, claims)
    pods = cluster.api.create_many(PODS, list(_pods(name, count, scheduler)))
    if variant.from_template:
        _make_as_controller(cluster, claims, pods)


def _claims(variant: ClaimVariant, count: int) -> Iterator[Json]:
    for number in range(count // variant.shared_by):
        yield {"metadata": {"name": f"claim-{number:05}", "namespace": NAMESPACE}, "spec": variant.spec()}


def _pods(name: str, count: int, scheduler: str) -> Iterator[Json]:
    variant = LIVE[name]
    extended: dict[str, Any] = {EXTENDED: "1"} if name == "extended" else {}
    for number in range(count):
        claim = number // variant.shared_by
        annotations = {live.GROUP_NAME: f"gang-{claim:05}"} if variant.shared_by > 1 else {}
        pod = a_pod(
            f"pod-{number:05}", scheduler=scheduler, annotations=annotations, cpu="100m", memory="200Mi", **extended
        )
        pod["metadata"]["namespace"] = NAMESPACE
        pod["spec"]["automountServiceAccountToken"] = False
        if variant.from_template:
            pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        elif not extended:
            pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"claim-{claim:05}"}]
        yield pod


def _make_as_controller(cluster: ControlPlane, claims: list[Json], pods: list[Json]) -> None:
    """Make the claims of pods from their template, as Kubernetes' controller does, which does not run."""
    for claim, pod in zip(claims, pods, strict=True):
        meta = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
        claim["metadata"]["ownerReferences"] = [owner]
    cluster.api.create_many(CLAIMS, claims)

    def tell(pair: tuple[Json, Json]) -> Json:
        claim, pod = pair
        told = [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]
        path = f"{PODS}/{pod['metadata']['name']}/status"
        return cluster.api.patch(path, {"status": {"resourceClaimStatuses": told}})

    cluster.api.for_each(tell, list(zip(claims, pods, strict=True)))


@contextmanager
def driver(cluster: ControlPlane, name: str) -> Iterator[None]:
    """Set the binding condition of devices as soon as a claim has them, where they have one."""
    if name != "conditions":
        yield
        return
    is_over = threading.Event()
    thread = threading.Thread(target=_set_conditions, args=(cluster, is_over), daemon=True)
    thread.start()
    yield
    is_over.set()
    thread.join()


def _set_conditions(cluster: ControlPlane, is_over: threading.Event) -> None:
    done: set[str] = set()
    while not is_over.wait(0.02):
        for claim in cluster.api.items(CLAIMS):
            name, allocation = claim["metadata"]["name"], claim.get("status", {}).get("allocation")
            if name in done or not allocation:
                continue
            [result] = allocation["devices"]["results"]
            condition = {"type": CONDITION, "status": "True", "reason": "Set", "message": ""}
            condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
            device = {key: result[key] for key in ("driver", "pool", "device")} | {"conditions": [condition]}
            with suppress(ApiServerError):  # it has changed: the next round finds it
                cluster.api.patch(f"{CLAIMS}/{name}/status", {"status": {"devices": [device]}})
                done.add(name)


def run(cluster: ControlPlane, name: str, contestant: str, count: int, served: int, in_flight: int) -> dict[str, Any]:
    """Let one contestant serve the backlog; what it took."""
    live.make_namespace(cluster, NAMESPACE)
    make_backlog(cluster, name, live.SCHEDULER_NAMES[contestant], count)
    before = live.writes(cluster)
    log = Path(tempfile.gettempdir()) / f"volsched-dra-{contestant}.log"
    command = live.command_of(contestant, cluster, NAMESPACE)
    if contestant == "bare":
        command = _bare(cluster, in_flight)
    with (
        live.Watch(cluster, NAMESPACE) as watch,
        live.running(command, cluster, log) as process,
        driver(cluster, name),
    ):
        started, starting = time.perf_counter(), live.Usage(process, cluster)
        is_bound = watch.wait(1, process)
        start_cpu, usage = starting.cpu(), live.Usage(process, cluster)
        if not (is_bound and watch.wait(served, process)):
            raise SystemExit(f"{contestant} bound {len(watch.binds)} of {served} pods; see {log}")
        cpu, server_cpu, peak = usage.cpu(), usage.server_cpu(), usage.peak_mib()
    written = {what: times - before.get(what, 0) for what, times in live.writes(cluster).items()}
    seconds = watch.binds[served - 1] - watch.binds[0]
    return {
        "variant": name,
        "contestant": contestant if contestant != "bare" else f"bare, {in_flight} in flight",
        "pods": served,
        "seconds": seconds,
        "pods_per_s": served / seconds,
        "start_s": watch.binds[0] - started,
        "start_cpu_s": start_cpu,
        "cpu_per_1000": cpu / served * 1000,
        "peak_mib": peak,
        "server_cpu_per_1000": server_cpu / served * 1000,
        "claim_writes_per_pod": sum(n for what, n in written.items() if what.startswith("resourceclaims")) / served,
    }


def _bare(cluster: ControlPlane, in_flight: int) -> list[str]:
    python = live.command_of("bare", cluster, NAMESPACE)[0]
    options = ["--kubeconfig", str(cluster.kubeconfig), "--in-flight", str(in_flight), "--stay"]
    return [python, "-m", "bench.bare_claims", NAMESPACE, *options]


def race(report: Report, name: str, nodes: int, claims: int, contestants: list[str], turns: int) -> None:
    """Let contestants serve one variant in turns, each time on a fresh control plane, and compare them."""
    devices = nodes * LIVE[name].per_node
    count = claims if name == "own" else min(claims, devices) // LIVE[name].shared_by * LIVE[name].shared_by
    entrants = [(each, in_flight) for each in contestants for in_flight in (IN_FLIGHT if each == "bare" else (0,))]
    rates: dict[tuple[str, int], list[float]] = {entrant: [] for entrant in entrants}
    for contestant, in_flight in entrants * turns:
        with live.control_plane() as cluster:
            live.make_nodes(cluster, nodes)
            make_devices(cluster, name, nodes)
            row = run(cluster, name, contestant, count, min(count, devices), in_flight)
        report.add(**row)
        rates[contestant, in_flight].append(row["pods_per_s"])
    bare = [statistics.median(found) for (contestant, _), found in rates.items() if contestant == "bare"]
    if bare and ("volsched", 0) in rates:
        share = statistics.median(rates["volsched", 0]) / max(bare)
        report.note(f"{name}: volsched is {share:.2f} times as fast as the bare claim binder")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=500, help="nodes, with eight devices each")
    options.add_argument("--claims", type=int, default=5_000, help="claims, with a pod each")
    options.add_argument("--variants", nargs="+", choices=LIVE, default=["own"], help="what is raced for")
    options.add_argument("--turns", type=int, default=1, help="how often all contestants take their turn")
    everybody = ("decisions", *CONTESTANTS)
    options.add_argument("--contestants", nargs="+", choices=everybody, default=list(everybody), help="in this order")
    options.add_argument("--decided-nodes", type=int, nargs="+", default=list(DECIDED), help="nodes of the decisions")
    options.add_argument("--repeats", type=int, default=3, help="of the decisions; the best counts")
    given = options.parse_args()
    report = Report("dra", f"{given.claims:,} claims with a pod each, {given.nodes:,} nodes with {PER_NODE} devices")
    if "decisions" in given.contestants:
        for nodes in given.decided_nodes:
            for name in VARIANTS:
                for gang in GANGS:
                    report.add(**best_decision(name, nodes, gang, given.repeats))
    contestants = [name for name in given.contestants if name != "decisions"]
    for name in given.variants if contestants else ():
        race(report, name, given.nodes, given.claims, contestants, given.turns)
    report.note("kube-scheduler's published floors with claims: 40 to 70 pods a second")
    report.note("cpu_per_1000: CPU seconds of the contestant per 1,000 pods bound, from the first to the last bind")
    report.finish()


if __name__ == "__main__":
    main()
