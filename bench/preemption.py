"""What it costs to make room: a full cluster of pods of low priority, and preemptors that arrive all at once.

Every node is full of one-card pods of low priority, eight to a node, of jobs of 16 in 20 queues. Then gangs of pods of
high priority arrive, each pod wanting four cards. In process, without a network: victims leave one session after they
were evicted, and what was bound runs.

  gangs       preemptors in gangs of 5: a gang gets its room at once or not at all
  single      preemptors one by one
  hopeless    as many that nobody may be evicted for: they are of the same priority as those that run
"""

from __future__ import annotations

import cProfile
import gc
import pstats
from collections.abc import Iterator
from typing import Any

from bench import worlds
from bench.common import Report, Stopwatch, parser
from volsched.framework.engine.fast import FastEngine
from volsched.model.changes import Bound, Change, Deleted
from volsched.model.plan import Bind, Evict, StepRecorder
from volsched.registry import load_profile
from volsched.scheduler import Scheduler

QUEUES = 20
CONFIGURATION = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: predicates
  - name: nodeorder
"""
LEVELS = {"low": 10, "high": 1000}


def a_class(name: str, value: int) -> worlds.Json:
    """Return a PriorityClass."""
    meta = {"name": name, "uid": name, "resourceVersion": "1"}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}


def at_level(item: worlds.Json, level: str) -> worlds.Json:
    """Give a PodGroup or a pod a priority."""
    item["spec"]["priorityClassName"] = level
    if item["kind"] == "Pod":
        item["spec"]["priority"] = LEVELS[level]
    return item


def full_cluster(nodes: int) -> Iterator[worlds.Json]:
    """Return nodes full of pods of low priority, and queues."""
    yield from worlds.nodes(nodes)
    yield from (worlds.a_queue(index) for index in range(QUEUES))
    yield from (a_class(name, value) for name, value in LEVELS.items())
    for index in range(nodes // 2):
        name = f"low-{index:05}"
        yield at_level(worlds.a_group(name, f"queue-{index % QUEUES}", 1, "Running"), "low")
        for member in range(16):
            node = 2 * index + member // 8
            pod = worlds.a_pod(f"{name}-{member}", name, 1, "8", 32, worlds.MODELS[node % 4], on=f"node-{node:05}")
            yield at_level(pod, "low")


def preemptors(count: int, size: int, level: str) -> Iterator[worlds.Json]:
    """Return gangs that want half of a node for each of their pods."""
    for index in range(count // size):
        name = f"high-{index:05}"
        yield at_level(worlds.a_group(name, f"queue-{index % QUEUES}", size), level)
        for member in range(size):
            yield at_level(worlds.a_pod(f"{name}-{member}", name, 4, "16", 64, worlds.MODELS[2 * index % 4]), level)


def run(nodes: int, count: int, variant: str, *, profiled: bool = False) -> dict[str, Any]:
    """Let preemptors arrive and be placed; what it took."""
    scheduler, recorder = worlds.a_scheduler(full_cluster(nodes), load_profile(CONFIGURATION)[0])
    scheduler.cycle()
    recorder.steps.clear()
    size, level = (5 if variant == "gangs" else 1), ("low" if variant == "hopeless" else "high")
    arriving: list[Change] = list(worlds.puts(preemptors(count, size, level)))
    before = _asked(scheduler)
    profile = cProfile.Profile()
    if profiled:
        profile.enable()
    watch = Stopwatch()
    sessions = victims = bound = 0
    while arriving or sessions < 2:
        scheduler.mirror.apply(arriving)
        scheduler.cycle()
        sessions += 1
        arriving = _came_of(recorder)
        victims += sum(isinstance(step, Evict) for step in recorder.steps)
        bound += sum(isinstance(step, Bind) for step in recorder.steps)
        recorder.steps.clear()
    cpu, wall = watch.cpu(), watch.wall()
    if profiled:
        profile.disable()
        pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
    gc.unfreeze()
    return {
        "sessions": sessions,
        "victims": victims,
        "bound": bound,
        "cpu": cpu,
        "wall": wall,
        "callbacks": _asked(scheduler) - before,
    }


def _came_of(recorder: StepRecorder) -> list[Change]:
    """What the API server would show next: victims are gone, bindings are made."""
    found: list[Change] = []
    for step in recorder.steps:
        match step:
            case Evict():
                found.append(Deleted("Pod", step.namespace, step.name, step.uid))
            case Bind():
                found.append(Bound(step.uid, step.node))
    return found


def _asked(scheduler: Scheduler) -> int:
    engine = scheduler.engine
    return engine.nodes.callbacks_asked if isinstance(engine, FastEngine) else 0


def main() -> None:
    """Run the bench."""
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, nargs="*", default=[1_000, 5_000])
    options.add_argument("--preemptors", type=int, default=500)
    options.add_argument("--variants", nargs="*", default=["gangs", "single", "hopeless"])
    options.add_argument("--profile", action="store_true", help="show where the time goes")
    given = options.parse_args()
    report = Report("preemption", f"{given.preemptors} preemptors arrive at a cluster full of pods of low priority")
    for variant in given.variants:
        for nodes in given.nodes:
            found = run(nodes, given.preemptors, variant, profiled=given.profile)
            report.add(
                variant=variant,
                nodes=nodes,
                sessions=found["sessions"],
                victims=found["victims"],
                bound=found["bound"],
                cpu_s=found["cpu"],
                wall_s=found["wall"],
                sessions_per_s=found["sessions"] / found["wall"],
                ms_per_preemptor=found["cpu"] / given.preemptors * 1e3,
                callbacks_per_preemptor=found["callbacks"] / given.preemptors,
            )
    report.note("wall_s is the time until all have room and are bound, victims gone one session after their eviction")
    report.finish()


if __name__ == "__main__":
    main()
