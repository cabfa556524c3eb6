"""How long the jobs of a trace wait under several policies: `volsched replay` at a load that is chosen.

The trace is a CSV file as `volsched replay` takes it, or one with the columns timestamp, duration, num_gpus and
cluster, as that of Microsoft's Philly is published in its reduced form: each cluster becomes a queue, and a job of more
than eight cards a gang of nodes of eight. The cluster has as many nodes of eight cards as the load asks for: the
card-seconds of all jobs, over the time from the first submission to the last, over the load. Hours waited, by cards of
the job:

  today    the order of submission; what does not fit is passed over
  shares   the queue with the smallest part of its share first (proportion)
  history  the queue that held the least over time first (drf with usage.halfLife)
  sla      as today; after an hour a job keeps the room that becomes free (sla)
  reserve  reservations for gangs, and the order of shares (the action reserve)
"""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from bench.common import Report, Stopwatch, parser
from volsched import registry
from volsched.replay.jobs import ReplayJob
from volsched.replay.runner import Replay, ReplayProgress, ReplaySettings
from volsched.replay.summary import CARDS, Json, summary_of
from volsched.replay.trace import parse_trace
from volsched.simulation.documents import documents_in
from volsched.simulation.manifests import Inventory, read_inventory

SCHEDULER: Final = "volsched"
PER_NODE: Final = 8
PUBLISHED: Final = ("timestamp", "duration", "num_gpus", "cluster")
DAY: Final = 86400

_PACKED: Final = {"name": "binpack", "arguments": {"binpack.resources": CARDS, f"binpack.resources.{CARDS}": 8}}
_PLUGINS: Final = [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]
_HISTORY: Final = {"name": "drf", "arguments": {"usage.halfLife": "168h"}}
_SLA: Final = {"name": "sla", "arguments": {"sla-waiting-time": "1h"}}


def configuration(actions: str, *plugins: dict[str, Any]) -> str:
    """Return the text of a configuration: these plugins between those that every policy has."""
    listed = [*_PLUGINS, *plugins, {"name": "predicates"}, _PACKED]
    return yaml.safe_dump({"actions": actions, "tiers": [{"plugins": listed}]}, sort_keys=False)


POLICIES: Final = {
    "today": configuration("allocate, backfill"),
    "shares": configuration("allocate, backfill", {"name": "proportion"}),
    "history": configuration("allocate, backfill", _HISTORY),
    "sla": configuration("allocate, backfill", _SLA),
    "reserve": configuration("reserve, allocate, backfill", {"name": "proportion"}),
}


# --- trace and cluster ----------------------------------------------------------------------------------------------


def in_our_columns(text: str, declared: float | None) -> str:
    """Return a trace in our columns; with ``declared`` each job says that many times its duration."""
    rows = list(csv.DictReader(io.StringIO(text)))
    if rows and all(name in rows[0] for name in PUBLISHED):
        start = _start(rows)
        rows = [_from_published(number, row, start) for number, row in enumerate(rows)]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        said = {} if declared is None else {"declared_s": f"{declared * float(row['duration_s']):g}"}
        writer.writerow({**row, **said})
    return out.getvalue()


def _start(rows: Sequence[dict[str, str]]) -> datetime:
    return min(datetime.fromisoformat(row["timestamp"]) for row in rows)


def _from_published(number: int, row: dict[str, str], start: datetime) -> dict[str, str]:
    cards = int(row["num_gpus"])
    pods = max(1, math.ceil(cards / PER_NODE))
    seconds = (datetime.fromisoformat(row["timestamp"]) - start).total_seconds()
    return {
        "name": f"job-{number}",
        "queue": f"vc-{row['cluster']}",
        "submit_s": f"{seconds:g}" if seconds < 1e6 else f"{seconds:.0f}",
        "duration_s": row["duration"],
        "declared_s": "",
        "pods": str(pods),
        CARDS: str(cards if pods == 1 else PER_NODE),
    }


def nodes_for(jobs: Sequence[ReplayJob], load: float) -> int:
    """Return how many nodes of eight cards make jobs a load."""
    work = sum(job.request.get(CARDS, 0) / 1000 * job.duration for job in jobs)
    span = max(job.submit for job in jobs) - min(job.submit for job in jobs)
    return max(1, math.ceil(work / span / PER_NODE / load))


def cluster(nodes: int, queues: Sequence[str]) -> Inventory:
    """Return a cluster of nodes with eight cards and of queues of equal weight."""
    status = {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", CARDS: str(PER_NODE)}}
    objects = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number:04}"}, "status": status}
        for number in range(nodes)
    ]
    objects += [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": 1},
        }
        for name in queues
    ]
    return read_inventory(documents_in("bench", yaml.safe_dump_all(objects)))


def _queues(text: str) -> list[str]:
    rows = csv.DictReader(io.StringIO(text))
    return sorted({row.get("queue") or "default" for row in rows} - {"default"})


# --- policies -------------------------------------------------------------------------------------------------------


def replayed(policy: str, inventory: Inventory, jobs: Sequence[ReplayJob]) -> tuple[Json, int]:
    """Return the summary of one policy, and how many sessions it took."""
    profile, _ = registry.load_profile(POLICIES[policy])
    replay = Replay(inventory, profile, jobs, ReplaySettings((SCHEDULER,)), _Progress(policy))
    records = replay.run()
    return summary_of(records, replay.cluster), replay.sessions


class _Progress:
    """A line on standard error for each day of the trace."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._day = 0

    def __call__(self, progress: ReplayProgress) -> None:
        day = int(progress.seconds // DAY)
        if day > self._day:
            self._day = day
            print(f"  {self._policy}: day {day}, {progress.over} of {progress.jobs} jobs over", file=sys.stderr)


def row_of(summary: Json) -> Iterator[tuple[str, Any]]:
    """Yield a row of the table: waits in hours, median / p95, of the largest jobs also max."""
    for size, found in summary["sizes"].items():
        wait = found["wait"]
        keys = ("median", "p95", "max") if size == ">8" else ("median", "p95")
        yield f"{size} cards", "-" if wait is None else " / ".join(f"{wait[key] / 3600:.3g}" for key in keys)
    used = summary["use"][CARDS]
    yield "used", f"{100 * used['mean']:.1f} %"
    yield "idle while waiting", f"{100 * used['idle_while_waiting']:.1f} %"
    slowdowns = [(found["bounded_slowdown"] or 0.0, found["started"]) for found in summary["sizes"].values()]
    started = sum(count for _, count in slowdowns)
    yield "slowdown", sum(mean * count for mean, count in slowdowns) / max(1, started)
    jain = summary["jain"] or {"hourly": None, "whole": None}
    yield "jain", f"{jain['hourly']} / {jain['whole']}"
    promises = summary["reservations"]
    yield "promises kept / late", f"{promises['kept']} / {promises['late']}"


def main() -> None:
    """Run the bench."""
    options = parser(__doc__)
    options.add_argument("--trace", required=True, help="the CSV file")
    options.add_argument("--load", type=float, default=0.9, help="the part of the cards that the jobs keep busy")
    options.add_argument("--nodes", type=int, help="this many nodes, whatever the load")
    options.add_argument(
        "--with", dest="policies", action="append", choices=list(POLICIES), help="a policy; repeatable"
    )
    options.add_argument("--declared", type=float, help="jobs say that they run this many times as long as they do")
    options.add_argument("--first", type=int, help="the first jobs of the trace alone")
    given = options.parse_args()
    report = Report("time", "how long the jobs of a trace wait")
    text = in_our_columns(Path(given.trace).read_text(encoding="utf-8"), given.declared)
    queues = _queues(text)
    jobs, classes = parse_trace(text, given.trace, SCHEDULER, cluster(1, queues))
    jobs = jobs[: given.first]
    nodes = given.nodes or nodes_for(jobs, given.load)
    report.note(f"{len(jobs)} jobs on {nodes} nodes of {PER_NODE} cards; waits are hours, median / p95 (/ max)")
    for policy in given.policies or ["today"]:
        inventory = cluster(nodes, queues)
        inventory.objects.extend(classes)
        watch = Stopwatch()
        summary, sessions = replayed(policy, inventory, jobs)
        report.add(policy=policy, nodes=nodes, **dict(row_of(summary)), sessions=sessions, cpu_s=watch.cpu())
    report.finish()


if __name__ == "__main__":
    main()
