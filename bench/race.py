"""The backlog race: how fast a queue of pods is emptied, by whom, on one real control plane, in one run.

  bare             the ceiling: lists pods and binds them to nodes in turn, 32 in flight, without any decision
  kube-scheduler   v1.36.3, its own limit of requests raised out of the way
  volsched         `volsched run` with its default configuration; gangs have PodGroups, plain pods are jobs of one

Nodes and pods are there before a contestant starts. Timed is from the first to the last bind, as a watch of this
process sees them. CPU time is that of the contestant's whole life until the last bind, start and lists included.
All run on the same cores, this watch, etcd and the API server too, and each is the same user of system:masters.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import live, native_gangs
from bench.common import Report, parser
from tools.controlplane import ControlPlane


@dataclass(frozen=True)
class Workload:
    """A backlog: ``gang`` 0 means plain pods, else pods with a card each in gangs of that many."""

    pods: int
    nodes: int
    gang: int = 0

    def __str__(self) -> str:
        return f"{self.pods:,} {'in gangs of ' + str(self.gang) if self.gang else 'plain'} on {self.nodes:,}"


WORKLOADS = [Workload(5_000, 1_000), Workload(5_000, 1_000, 50), Workload(10_000, 5_000), Workload(10_000, 5_000, 50)]
LARGE = [Workload(20_000, 5_000, 50)]
SMALL = [Workload(1_000, 200), Workload(1_000, 200, 50)]


def run(cluster: ControlPlane, contestant: str, workload: Workload, turn: str) -> dict[str, Any]:
    """Let one contestant empty one backlog; what it took."""
    namespace = f"race-{turn}"
    live.make_namespace(cluster, namespace)
    live.make_backlog(cluster, namespace, live.SCHEDULER_NAMES[contestant], workload.pods, workload.gang)
    time.sleep(1.0)
    writes_before = live.writes(cluster)
    log = Path(tempfile.gettempdir()) / f"volsched-race-{contestant}.log"
    command = live.command_of(contestant, cluster, namespace)
    with live.Watch(cluster, namespace) as watch, live.running(command, cluster, log) as process:
        usage, started = live.Usage(process, cluster), time.perf_counter()
        while not watch.binds and process.poll() is None and time.perf_counter() - started < 60:
            time.sleep(0.002)
        cpu_first = usage.cpu() if watch.binds else 0.0
        if not watch.wait(workload.pods, process):
            raise SystemExit(f"{contestant} bound {len(watch.binds)} of {workload.pods} pods; see {log}")
        cpu, server_cpu, peak = usage.cpu(), usage.server_cpu(), usage.peak_mib()
    written = {name: count - writes_before.get(name, 0) for name, count in live.writes(cluster).items()}
    live.clear(cluster, namespace)
    events = written.get("events", 0)
    return {
        "contestant": contestant,
        "seconds": watch.binds[-1] - watch.binds[0],
        "binds_per_s": workload.pods / (watch.binds[-1] - watch.binds[0]),
        "start_s": watch.binds[0] - started,
        "cpu_per_1000": cpu / workload.pods * 1000,
        "racing": (cpu - cpu_first) / workload.pods * 1000,
        "peak_mib": peak,
        "server_cpu_per_1000": server_cpu / workload.pods * 1000,
        "writes_per_pod": (sum(written.values()) - events) / workload.pods,
        "events": events,
    }


def race(report: Report, cluster: ControlPlane, workload: Workload, contestants: list[str], rounds: int) -> None:
    """Let the contestants take turns; the fastest turn of each counts."""
    runs: dict[str, list[dict[str, Any]]] = {contestant: [] for contestant in contestants}
    for turn in range(rounds):
        for place, contestant in enumerate(contestants):
            number = f"{workload.nodes}-{workload.gang}-{turn}-{place}"
            runs[contestant].append(run(cluster, contestant, workload, number))
    best = {contestant: max(found, key=lambda row: row["binds_per_s"]) for contestant, found in runs.items()}
    ceiling = best["bare"]["binds_per_s"] if "bare" in best else float("nan")
    for row in best.values():
        report.add(workload=str(workload), **row, share=row["binds_per_s"] / ceiling)


def main() -> None:
    options = parser(f"{__doc__}\n--native-gangs\n\n{native_gangs.__doc__}")
    options.add_argument("--small", action="store_true", help="1,000 pods on 200 nodes, for a quick look")
    options.add_argument("--large", action="store_true", help="20,000 pods in gangs on 5,000 nodes, too")
    options.add_argument("--contestants", nargs="+", choices=live.CONTESTANTS, default=list(live.CONTESTANTS))
    options.add_argument("--rounds", type=int, default=1, help="turns of each contestant; the fastest counts")
    options.add_argument("--workloads", type=int, nargs="+", help="only these, counted from 1")
    options.add_argument("--native-gangs", action="store_true", help="PodGroups of scheduling.k8s.io, see below")
    given = options.parse_args()
    if given.native_gangs:
        report = Report("race-native-gangs", "Kubernetes' own gangs on one real control plane, and what waiting costs")
        size = native_gangs.SMALL if given.small else native_gangs.LARGE
        native_gangs.race(report, *size)
        report.finish()
        return
    workloads = SMALL if given.small else WORKLOADS + (LARGE if given.large else [])
    if given.workloads:
        workloads = [workloads[number - 1] for number in given.workloads]
    report = Report("race", "binds per second of a backlog on one real control plane, first to last bind")
    for nodes in dict.fromkeys(workload.nodes for workload in workloads):
        with live.control_plane() as cluster:
            live.make_nodes(cluster, nodes)
            for workload in workloads:
                if workload.nodes == nodes:
                    race(report, cluster, workload, given.contestants, given.rounds)
    report.note(
        "share: of the bare binder's rate in the same run; cpu_per_1000: CPU seconds per 1,000 pods, from the start"
    )
    report.note("of the process, racing: from the first bind; bars: share 0.70, 0.8 CPU s per 1,000 pods, 250 MiB")
    report.finish()


if __name__ == "__main__":
    main()
