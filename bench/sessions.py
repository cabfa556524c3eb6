"""What a session costs when little or nothing changed, what the mirror weighs, and how long a restart takes.

The cluster: 10,000 nodes with eight cards, 80,000 running pods and 10,000 gangs of two that wait for more cards than
any node has; pods are 4.6 KB of JSON each, as an API server sends them, and are decoded as the informers do it.

  restart   decoding all of that, taking it into the mirror, and the first session; network excluded
  idle      a session when nothing has changed
  changed   a session after one pod finished on each of 500 nodes, which frees room that no waiting gang can use, and
            ten gangs of 16 came and are placed
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

import msgspec

from bench import worlds
from bench.common import Report, Stopwatch, memory_mib, parser, quantile
from volsched.cache.mirror import Mirror
from volsched.framework.engine import FastEngine
from volsched.framework.loading import DEFAULT_CONFIGURATION
from volsched.loop import GC_THRESHOLDS
from volsched.model import api
from volsched.model.changes import Gone, Put
from volsched.model.plan import Bind
from volsched.registry import load_profile
from volsched.scheduler import Scheduler
from volsched.testing.builders import Recorder, SteadyClock

CHUNK = 200


class Restart:
    """A scheduler that starts: it takes objects in as they come over the wire, and counts the CPU time of just that."""

    def __init__(self, configuration: str = DEFAULT_CONFIGURATION) -> None:
        self.mirror = Mirror()
        self.recorder = Recorder()
        self.decode_seconds = self.apply_seconds = 0.0
        self.pods = self.bytes = 0
        self._configuration = configuration

    def take(self, objects: Iterable[worlds.Json], struct: type[Any]) -> None:
        """Decode lines and hand them to the mirror, some at a time."""
        decoder = msgspec.json.Decoder(struct)
        for lines in _in_chunks(objects):
            watch = Stopwatch()
            found = decoder.decode_lines(lines)
            self.decode_seconds += watch.cpu()
            watch = Stopwatch()
            self.mirror.apply([Put(item) for item in found])
            self.apply_seconds += watch.cpu()
            self.bytes += len(lines)

    def scheduler(self) -> Scheduler:
        """Return the scheduler, ready for its first session."""
        profile = load_profile(self._configuration)[0]
        return Scheduler(self.mirror, profile, self.recorder, SteadyClock(), FastEngine)


def _in_chunks(objects: Iterable[worlds.Json]) -> Iterator[bytes]:
    lines: list[bytes] = []
    for item in objects:
        lines.append(json.dumps(item).encode())
        if len(lines) == CHUNK:
            yield b"\n".join(lines)
            lines.clear()
    if lines:
        yield b"\n".join(lines)


def running_pods(count: int, nodes: int) -> Iterator[worlds.Json]:
    """Return pods that run, spread over the nodes, four cards taken on each and gangs of sixteen."""
    for index in range(count):
        model = worlds.MODELS[index % nodes % 4]
        cards = 1 if index // nodes < 4 else 0
        pod = worlds.a_pod(
            f"run-{index}", f"running-{index // 16}", cards, "2", 16, model, on=f"node-{index % nodes:05}"
        )
        yield worlds.as_stored(pod)


def waiting(count: int) -> tuple[Iterator[worlds.Json], Iterator[worlds.Json]]:
    """Return the PodGroups and the pods of gangs of two that no node has cards for."""
    groups = (worlds.a_group(f"wait-{index}", f"queue-{index % 20}", 2) for index in range(count))
    cards = 2 * worlds.CARDS_PER_NODE
    pods = (
        worlds.as_stored(
            worlds.a_pod(f"wait-{index}-{member}", f"wait-{index}", cards, "4", 32, worlds.MODELS[index % 4])
        )
        for index in range(count)
        for member in range(2)
    )
    return groups, pods


def start(nodes: int, running: int, gangs: int) -> tuple[Restart, float]:
    """Fill a mirror; bytes of memory for each pod."""
    gc.set_threshold(*GC_THRESHOLDS)  # as volsched run does from its start
    restart = Restart()
    groups, pods = waiting(gangs)
    restart.take((worlds.a_queue(index) for index in range(20)), api.Queue)
    restart.take(worlds.nodes(nodes), api.Node)
    restart.take(
        (worlds.a_group(f"running-{index}", "queue-0", 16, "Running") for index in range(running // 16)), api.PodGroup
    )
    restart.take(groups, api.PodGroup)
    gc.collect()
    before = memory_mib()
    restart.take(running_pods(running, nodes), api.Pod)
    restart.take(pods, api.Pod)
    gc.collect()
    return restart, (memory_mib() - before) * 2**20 / (running + 2 * gangs)


def arrivals(turn: int) -> Iterator[worlds.Json]:
    """Return ten gangs of 16 that fit."""
    for index in range(10):
        name = f"new-{turn}-{index}"
        yield worlds.a_group(name, f"queue-{index}", 16)
        for member in range(16):
            yield worlds.a_pod(f"{name}-{member}", name, 1, "2", 8, worlds.MODELS[index % 4])


def changed_session(scheduler: Scheduler, recorder: Recorder, turn: int, nodes: int) -> tuple[float, float, int]:
    """Let pods finish on 500 nodes and gangs come; CPU seconds of taking that in, of the session, and pods placed."""
    gone = [f"run-{(turn * 500 + index * 7) % nodes + 4 * nodes}" for index in range(500)]
    changes = [Gone("Pod", "default", name, f"pod-{name}") for name in dict.fromkeys(gone)]
    arrived = list(worlds.puts(arrivals(turn)))
    recorder.steps.clear()
    watch = Stopwatch()
    scheduler.mirror.apply([*changes, *arrived])
    taken = watch.cpu()
    watch = Stopwatch()
    scheduler.cycle()
    return taken, watch.cpu(), sum(isinstance(step, Bind) for step in recorder.steps)


def idle_session(scheduler: Scheduler) -> float:
    watch = Stopwatch()
    scheduler.cycle()
    return watch.cpu()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=10_000)
    options.add_argument("--running", type=int, default=80_000, help="running pods")
    options.add_argument("--gangs", type=int, default=10_000, help="waiting gangs of two")
    options.add_argument("--turns", type=int, default=15, help="sessions of each kind")
    given = options.parse_args()
    report = Report("sessions", "the cost of sessions, memory and restart; milliseconds are CPU time")
    restart, per_pod = start(given.nodes, given.running, given.gangs)
    scheduler = restart.scheduler()
    watch = Stopwatch()
    scheduler.cycle()
    first = watch.cpu()
    gc.collect()
    gc.freeze()  # as volsched run does once it has listed everything
    report.add(
        restart=f"{given.nodes:,} nodes, {given.running + 2 * given.gangs:,} pods, {restart.bytes / 2**20:,.0f} MiB",
        decode_s=restart.decode_seconds,
        mirror_s=restart.apply_seconds,
        first_session_s=first,
        total_s=restart.decode_seconds + restart.apply_seconds + first,
        resident_mib=memory_mib(),
        bytes_per_pod=round(per_pod),
    )
    for _ in range(3):
        idle_session(scheduler)
    idle = [idle_session(scheduler) * 1e3 for _ in range(given.turns)]
    report.add(session="idle", ms=median(idle), p90=quantile(idle, 0.9), taking_in_ms=0.0, placed=0)
    runs = [changed_session(scheduler, restart.recorder, turn, given.nodes) for turn in range(given.turns)]
    costs = [session * 1e3 for _, session, _ in runs]
    report.add(
        session="500 nodes changed, 160 pods placed",
        ms=median(costs),
        p90=quantile(costs, 0.9),
        taking_in_ms=median(taken * 1e3 for taken, _, _ in runs),
        placed=runs[-1][2],
    )
    idle = [idle_session(scheduler) * 1e3 for _ in range(given.turns)]
    report.add(session="idle after that", ms=median(idle), p90=quantile(idle, 0.9), taking_in_ms=0.0, placed=0)
    report.note("bars: restart 6 s, 350 MiB, 1,500 bytes per pod; idle 2 ms; changed 25 ms")
    report.finish()


if __name__ == "__main__":
    main()
