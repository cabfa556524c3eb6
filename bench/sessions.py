"""What a session costs when little or nothing changed, what the mirror weighs, and how long a restart takes.

The cluster: 10,000 nodes with eight cards, 20 queues, 80,000 running pods and 10,000 gangs of two that wait for more
cards than any node has; pods are 4.6 KB of JSON each, as an API server sends them, and are decoded as the informers do
it.

  restart   decoding all of that, taking it into the mirror, and the first session; network excluded
  idle      a session when nothing has changed
  changed   a session after one pod finished on each of 500 nodes, which frees room that no waiting gang can use, and
            ten gangs of 16 came and are placed

Each of these with the configuration that volsched has without any other (default), and with quotas by card model
(card): the base plugins and capacity-card, pods name their cards, half of them two models, and four of the queues hold
more cards than they may. Each configuration has a process of its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import Any, Final

import msgspec

from bench import cards, worlds
from bench.common import Report, Stopwatch, memory_mib, parser, quantile
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.framework.engine.fast import FastEngine
from volsched.mirror.apply import Mirror
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put
from volsched.model.plan import Bind, StepRecorder
from volsched.registry import load_profile
from volsched.run.loop import GC_THRESHOLDS, GC_THRESHOLDS_LISTING
from volsched.scheduler import Scheduler
from volsched.testing.builders import SteadyClock

CHUNK = 200
QUEUES = 20
CONFIGURATIONS: Final = {"default": DEFAULT_CONFIGURATION, "card": cards.CONFIGURATION}
RICH: Final = [queue for queue in range(QUEUES) if not cards.runs_dry(queue)]
"""Queues in which what comes can be placed, with quotas too."""
Objects = Iterable[worlds.Json]
Row = dict[str, Any]


class Restart:
    """A scheduler that starts: it takes objects in as they come over the wire, and counts the CPU time of just that."""

    def __init__(self, variant: str) -> None:
        self.mirror = Mirror()
        self.recorder = StepRecorder()
        self.decode_seconds = self.apply_seconds = 0.0
        self.bytes = 0
        profile = load_profile(CONFIGURATIONS[variant])[0]
        self.scheduler = Scheduler(self.mirror, profile, self.recorder, SteadyClock(), FastEngine)

    def take(self, objects: Objects, struct: type[Any]) -> None:
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


def _in_chunks(objects: Objects) -> Iterator[bytes]:
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


def waiting(count: int) -> tuple[Objects, Objects]:
    """Return the PodGroups and the pods of gangs of two that no node has cards for."""
    groups = (worlds.a_group(f"wait-{index}", f"queue-{index % QUEUES}", 2) for index in range(count))
    too_many = 2 * worlds.CARDS_PER_NODE
    pods = (
        worlds.as_stored(
            worlds.a_pod(f"wait-{index}-{member}", f"wait-{index}", too_many, "4", 32, worlds.MODELS[index % 4])
        )
        for index in range(count)
        for member in range(2)
    )
    return groups, pods


def start(variant: str, nodes: int, running: int, gangs: int) -> tuple[Restart, float]:
    """Fill a mirror; bytes of memory for each pod."""
    gc.set_threshold(*GC_THRESHOLDS_LISTING)  # as volsched run does from its start
    restart, dress = Restart(variant), dressed(variant)
    groups, pods = waiting(gangs)
    running_groups = (
        worlds.a_group(f"running-{index}", f"queue-{index % QUEUES}", 16, "Running") for index in range(running // 16)
    )
    restart.take(dress(worlds.a_queue(index) for index in range(QUEUES)), api.Queue)
    restart.take(dress(worlds.nodes(nodes)), api.Node)
    restart.take(running_groups, api.PodGroup)
    restart.take(groups, api.PodGroup)
    gc.collect()
    before = memory_mib()
    restart.take(dress(running_pods(running, nodes)), api.Pod)
    restart.take(dress(pods), api.Pod)
    gc.collect()
    return restart, (memory_mib() - before) * 2**20 / (running + 2 * gangs)


def dressed(variant: str) -> Callable[[Objects], Objects]:
    """Return what gives objects the labels and annotations that the variant needs."""
    return cards.with_quotas if variant == "card" else iter


def arrivals(turn: int) -> Iterator[worlds.Json]:
    """Return ten gangs of 16 that fit."""
    for index in range(10):
        name = f"new-{10 * turn + index}"
        yield worlds.a_group(name, f"queue-{RICH[index]}", 16)
        for member in range(16):
            yield worlds.a_pod(f"{name}-{member}", name, 1, "2", 8, worlds.MODELS[index % 4])


def changed_session(restart: Restart, changes: list[Change]) -> tuple[float, float, int]:
    """Let a session follow changes; CPU seconds of taking them in, of the session, and pods placed."""
    restart.recorder.steps.clear()
    watch = Stopwatch()
    restart.mirror.apply(changes)
    taken = watch.cpu()
    watch = Stopwatch()
    restart.scheduler.cycle()
    return taken, watch.cpu(), sum(isinstance(step, Bind) for step in restart.recorder.steps)


def changes_of(variant: str, turn: int, nodes: int) -> list[Change]:
    """Let pods finish on 500 nodes and gangs come."""
    gone = [f"run-{(turn * 500 + index * 7) % nodes + 4 * nodes}" for index in range(500)]
    return [
        *(Deleted("Pod", "default", name, f"pod-{name}") for name in dict.fromkeys(gone)),
        *worlds.puts(dressed(variant)(arrivals(turn))),
    ]


def idle_sessions(scheduler: Scheduler, turns: int, after: str = "") -> Row:
    """Measure sessions when nothing has changed."""
    costs = []
    for _ in range(turns):
        watch = Stopwatch()
        scheduler.cycle()
        costs.append(watch.cpu() * 1e3)
    return {
        "session": f"idle{after}",
        "ms": median(costs),
        "p90": quantile(costs, 0.9),
        "taking_in_ms": 0.0,
        "placed": 0,
    }


def changed_sessions(restart: Restart, variant: str, nodes: int, turns: int) -> Row:
    """Measure sessions after changes."""
    runs = [changed_session(restart, changes_of(variant, turn, nodes)) for turn in range(turns)]
    costs = [session * 1e3 for _, session, _ in runs]
    return {
        "session": "500 nodes changed, 160 pods placed",
        "ms": median(costs),
        "p90": quantile(costs, 0.9),
        "taking_in_ms": median(taken * 1e3 for taken, _, _ in runs),
        "placed": min(placed for _, _, placed in runs),
    }


def measured(variant: str, given: argparse.Namespace) -> list[Row]:
    """Measure one configuration in this process."""
    restart, per_pod = start(variant, given.nodes, given.running, given.gangs)
    watch = Stopwatch()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.freeze()  # as volsched run does once it has listed everything
    restart.scheduler.cycle()
    first = watch.cpu()
    row = {
        "restart": f"{given.nodes:,} nodes, {given.running + 2 * given.gangs:,} pods, {restart.bytes / 2**20:,.0f} MiB",
        "decode_s": restart.decode_seconds,
        "mirror_s": restart.apply_seconds,
        "first_session_s": first,
        "total_s": restart.decode_seconds + restart.apply_seconds + first,
        "resident_mib": memory_mib(),
        "bytes_per_pod": round(per_pod),
    }
    idle_sessions(restart.scheduler, 3)
    return [
        row,
        idle_sessions(restart.scheduler, given.turns),
        changed_sessions(restart, variant, given.nodes, given.turns),
        idle_sessions(restart.scheduler, given.turns, " after that"),
    ]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--variants", nargs="+", choices=CONFIGURATIONS, default=list(CONFIGURATIONS))
    options.add_argument("--nodes", type=int, default=10_000)
    options.add_argument("--running", type=int, default=80_000, help="running pods")
    options.add_argument("--gangs", type=int, default=10_000, help="waiting gangs of two")
    options.add_argument("--turns", type=int, default=15, help="sessions of each kind")
    given = options.parse_args()
    report = Report("sessions", "the cost of sessions, memory and restart; milliseconds are CPU time")
    for variant in given.variants:
        for row in in_own_process(variant, given):
            report.add(variant=variant, **row)
    report.note("bars: restart 6 s, 350 MiB, 1,500 bytes per pod; idle 2 ms; changed 25 ms")
    report.finish()


def in_own_process(variant: str, given: argparse.Namespace) -> list[Row]:
    """Measure one configuration where no other has left anything."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measured, variant, given).result()


if __name__ == "__main__":
    main()
