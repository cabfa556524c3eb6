"""Tens of thousands of pods come, run and go while others always wait: neither memory nor any table grows.

Pods come as Volcano Jobs and by themselves, each of them runs for a second and is deleted. Of those that wait some find
no node that suits them, some belong to a queue that is full, and some to gangs that lack a member; now and then a gang
of them is deleted and another one made.

What counts as growth: over the samples after the warm-up a straight line is laid through the sizes of each table (least
squares, over the pods that were bound). Tables end with their objects, so it may rise over the whole run by a tenth of
what there is at the mean, and by three times as many entries as pods are on their way at once: of a wave that has ended
some are not deleted yet. Those that remember what is gone (`drills.tables`) may fill up to their bounds.
"""

from __future__ import annotations

import argparse
import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.common import memory_mib
from drills.reading import QUEUE_NAME
from drills.report import Report
from drills.tables import BOUNDED, BY_TEMPLATE, MOST_BY_TEMPLATE, SWEPT
from drills.world import Replica, World, wait_until, world
from tests.cluster.scheduling import GROUPS, PATIENT_LEASE
from tools.controlplane.stages import RUN_FOR
from tools.patience import PATIENCE

NAME: Final = "soak"
WHAT: Final = "pods come and go while others wait"

CONFIGURATION: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: capacity
  - name: predicates
  - name: nodeorder
"""
FLAGS: Final = (*PATIENT_LEASE, "--log-level", "info")
"""A machine that is full to the brim makes nobody lose the Lease: who leads is to lead all the time."""

WAVE: Final = 100
JOB: Final = 20
GANG: Final = 10

POD_LIST: Final = "/api/v1/namespaces/{}/pods"


@dataclass(frozen=True, slots=True)
class Settings:
    """How much: pods that run, pods that wait, nodes, how many pods are on their way at once, and the bars.

    `minutes` ends it early (0: it does not); `slope` is in MiB per 10,000 pods; `warm_up` is a part of the pods;
    `sample_seconds` lie between two looks at memory and tables.
    """

    pods: int = 50_000
    waiting: int = 20_000
    nodes: int = 500
    on_their_way: int = 600
    warm_up: float = 0.4
    slope: float = 1.0
    minutes: float = 0.0
    sample_seconds: float = 5.0


@dataclass(slots=True)
class Samples:
    """Of one process: pods bound at each sample, its resident memory in MiB then, and the sizes of its tables."""

    at: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    tables: dict[str, list[float]] = field(default_factory=dict)

    def add(self, bound: float, memory: float, tables: Mapping[str, float]) -> None:
        """Add a sample; a table that was not there before was empty."""
        for name in tables.keys() | self.tables.keys():
            known = self.tables.setdefault(name, [0.0] * len(self.at))
            known.append(tables.get(name, 0.0))
        self.at.append(bound)
        self.memory.append(memory)

    def since(self, bound: float) -> Samples:
        """Those that were taken once so many pods were bound."""
        first = next((index for index, at in enumerate(self.at) if at >= bound), len(self.at))
        rest = {name: sizes[first:] for name, sizes in self.tables.items()}
        return Samples(self.at[first:], self.memory[first:], rest)


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """How much the straight line of least squares rises with each unit of x; 0 where there is no line."""
    if len(xs) < 3:
        return 0.0
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - middle_x) ** 2 for x in xs)
    return sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0


def growing(samples: Samples, settings: Settings) -> list[str]:
    """Name the tables that grow, by the criterion of this module."""
    found = []
    for table, sizes in sorted(samples.tables.items()):
        mean = sum(sizes) / max(1, len(sizes))
        rise = slope(samples.at, sizes) * (samples.at[-1] - samples.at[0]) if samples.at else 0.0
        bound = _bound_of(table, settings)
        is_over = max(sizes, default=0) > bound if bound else rise > max(0.1 * mean, 3 * settings.on_their_way)
        if is_over:
            last = sizes[-1]
            found.append(f"{table}: rises by {rise:.0f}, mean {mean:.0f}, last {last:.0f}, bound {bound or 'none'}")
    return found


def _bound_of(table: str, settings: Settings) -> int:
    """Return how many entries a table may have; 0 when it must not grow at all."""
    if table in SWEPT:
        return SWEPT[table] + 2 * settings.waiting
    return MOST_BY_TEMPLATE + 2 * settings.waiting if table.startswith(BY_TEMPLATE) else BOUNDED.get(table, 0)


class Soak:
    """The cluster under load: those that wait, and the waves that go through."""

    def __init__(self, there: World, report: Report, settings: Settings) -> None:
        self.made = 0
        self.samples: dict[str, Samples] = {}
        self._there = there
        self._report = report
        self._settings = settings
        self._gangs = 0
        self._oldest = 0
        self._bound: dict[str, float] = {}
        self._waves = 0

    @property
    def bound(self) -> float:
        """How many pods were bound so far; of a scheduler that has ended, by what it said last."""
        for name, replica in self.replicas():
            if name.startswith("scheduler") and not replica.has_ended:
                with contextlib.suppress(OSError, AssertionError):
                    self._bound[name] = replica.scrape()["volsched_pods_bound_total"]
        return sum(self._bound.values())

    def furnish(self) -> None:
        """Make nodes, queues, and all that waits."""
        there, settings = self._there, self._settings
        there.queue("full", weight=1, capability={"cpu": "1"})
        there.queue("crowded", weight=1)
        there.nodes(settings.nodes, cpu="16", memory="64Gi")
        for namespace in ("flow", "waiting"):
            there.control_plane.create_namespace(namespace)
        made = there.api.for_each(self.make_waiting, range(settings.waiting // GANG), in_flight=12)
        self._gangs = len(made)
        self._report.progress(f"{settings.nodes} nodes, and {GANG * self._gangs} pods that wait")

    def make_waiting(self, number: int) -> None:
        """Make ten pods that wait, each time for something else; the tenth time ten without a PodGroup."""
        name, kind = f"w{number}", number % 10
        requests: dict[str, Any] = {"cpu": "1", "labels": {"gang": name}}
        if kind in (0, 1, 2, 9):
            requests["spec"] = {"nodeSelector": {"nobody": "has-this"}}
        pods = [self._there.pod(f"{name}-{i}", group="" if kind == 9 else name, **requests) for i in range(GANG)]
        if kind == 9:
            for pod in pods:
                pod["metadata"]["annotations"] = {QUEUE_NAME: "crowded"}
        else:
            minimum = GANG + 1 if kind in (3, 4, 5) else GANG
            queue, asks = ("full", {"minResources": {"cpu": str(GANG)}}) if kind > 5 else ("crowded", {})
            self._there.make_group("waiting", name, minMember=minimum, queue=queue, **asks)
        self._pods("waiting", pods)

    def flow(self) -> None:
        """Send waves of pods through until there were as many as wanted, or the time is over."""
        settings, began = self._settings, time.monotonic()
        said = 0.0
        while self.made < settings.pods and not self._is_late(began) and not self._there.exits():
            bound = self.bound
            if self.made - bound > settings.on_their_way - WAVE:
                time.sleep(0.2)
                continue
            self._wave()
            if time.monotonic() - said > 60:
                said = time.monotonic()
                self._report.progress(f"{self.made} pods made, {bound:.0f} bound, {self._memory()}")
        wait_until(lambda: self.bound >= self.made or bool(self._there.exits()), PATIENCE)
        self._report.figure("pods a second", self.made / (time.monotonic() - began))

    def unbound(self) -> list[str]:
        """Pods that should have gone through and have no node."""
        found = self._there.pods("flow")
        return sorted(name for name, pod in found.items() if "nodeName" not in pod["spec"])

    def sample(self) -> None:
        """Look at memory and tables of every process."""
        bound = self.bound
        for name, replica in self.replicas():
            samples = self.samples.setdefault(name, Samples())
            with contextlib.suppress(OSError, AssertionError):  # it has ended, which is told by itself
                samples.add(bound, memory_mib(replica.pid), tables_of(replica))

    def replicas(self) -> Iterator[tuple[str, Replica]]:
        """All processes by name."""
        for kind, replicas in (("scheduler", self._there.schedulers), ("controllers", self._there.managers)):
            for number, replica in enumerate(replicas):
                yield f"{kind} {number}", replica

    def _is_late(self, began: float) -> bool:
        return 0 < self._settings.minutes * 60 < time.monotonic() - began

    def _wave(self) -> None:
        """A hundred pods, most of them in Jobs; a gang of those that wait makes room for another."""
        self._waves += 1
        ending = {RUN_FOR: "1s"}
        for number in range(WAVE * 4 // 5 // JOB):
            task = self._there.task("work", JOB, ending)
            name = f"j{self._waves}-{number}"
            self._there.job("flow", name, [task], minAvailable=JOB, queue="default", ttlSecondsAfterFinished=0)
        pods = []
        for number in range(WAVE // 5):
            pod = self._there.pod(f"p{self._waves}-{number}", cpu="1", spec={"restartPolicy": "Never"})
            pod["metadata"] |= {"annotations": ending, "labels": {"plain": "yes"}}
            pods.append(pod)
        self._pods("flow", pods)
        self.made += WAVE
        self._turn_over()
        if self._waves % 5 == 0:
            self._there.api.delete(
                f"{POD_LIST.format('flow')}?labelSelector=plain&fieldSelector=status.phase=Succeeded"
            )

    def _turn_over(self) -> None:
        name = f"w{self._oldest}"
        self._oldest += 1
        self._there.api.delete(f"{POD_LIST.format('waiting')}?labelSelector=gang={name}")
        self._there.api.delete(f"{GROUPS}/namespaces/waiting/podgroups/{name}")
        self.make_waiting(self._gangs)
        self._gangs += 1

    def _pods(self, namespace: str, pods: list[dict[str, Any]]) -> None:
        for pod in pods:
            self._there.api.create(POD_LIST.format(namespace), pod)

    def _memory(self) -> str:
        return ", ".join(
            f"{name} {memory_mib(replica.pid):.0f} MiB" for name, replica in self.replicas() if not replica.has_ended
        )


def tables_of(replica: Replica) -> dict[str, float]:
    """The sizes of the tables of a process, as its metrics say."""
    found = replica.scrape().items()
    return {name.split('"')[1]: size for name, size in found if name.startswith("volsched_memory_objects{")}


@contextlib.contextmanager
def _sampled(soak: Soak, seconds: float) -> Iterator[None]:
    """Take samples all the time within a ``with`` block."""
    is_over = threading.Event()

    def keep_on() -> None:
        while not is_over.wait(seconds):
            soak.sample()

    sampling = threading.Thread(target=keep_on, daemon=True)
    sampling.start()
    try:
        yield
    finally:
        is_over.set()
        sampling.join()


def run(report: Report, settings: Settings) -> None:
    """Have the pods go through, and judge what was seen."""
    with world(CONFIGURATION) as there:
        there.populate(flags=FLAGS)
        soak = Soak(there, report, settings)
        soak.furnish()
        with _sampled(soak, settings.sample_seconds):
            soak.flow()
        _judge(report, settings, soak)
        waits = [pod for pod in there.pods("waiting").values() if "nodeName" not in pod["spec"]]
        report.must("pods that wait in the end, all the time", len(waits), ">=", settings.waiting // GANG * GANG)
        exits = there.exits()
        report.must("processes that ended", len(exits), "==", 0, tuple(exits))


def _judge(report: Report, settings: Settings, soak: Soak) -> None:
    report.figure("pods that went through", soak.made)
    report.must("pods made", soak.made, ">=", settings.pods)
    unbound = soak.unbound()
    report.must("pods that were not bound", max(soak.made - soak.bound, len(unbound)), "<=", 0, tuple(unbound))
    for name, replica in soak.replicas():
        if replica.has_ended:
            continue
        role = "leader" if replica.scrape()["volsched_leader"] == 1 else "follower"
        samples = soak.samples.get(name, Samples()).since(settings.warm_up * soak.made)
        report.must(f"{name} ({role}): samples after the warm-up", len(samples.at), ">=", 3)
        report.figure(f"{name} ({role}): MiB at the end", samples.memory[-1] if samples.memory else 0.0)
        rise = slope(samples.at, samples.memory) * 10_000
        report.must(f"{name} ({role}): MiB per 10,000 pods after the warm-up", rise, "<", settings.slope)
        tables = growing(samples, settings)
        report.must(f"{name} ({role}): tables that grow", len(tables), "==", 0, tuple(tables))


def main() -> int:
    """Run the drill as the command line says, and return its exit status."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pods", type=int, default=50_000, help="pods that go through (%(default)s)")
    options.add_argument("--waiting", type=int, default=20_000, help="pods that wait all the time (%(default)s)")
    options.add_argument("--nodes", type=int, default=500, help="nodes of 16 cores (%(default)s)")
    options.add_argument("--on-their-way", type=int, default=600, help="pods made and not bound at most (%(default)s)")
    options.add_argument("--warm-up", type=float, default=0.4, help="which part is the warm-up (%(default)s)")
    options.add_argument("--slope", type=float, default=1.0, help="bar in MiB per 10,000 pods (%(default)s)")
    options.add_argument("--minutes", type=float, default=0.0, help="end it after so many; 0: never (%(default)s)")
    given = options.parse_args()
    report = Report(NAME, WHAT)
    run(report, Settings(**vars(given)))
    return report.finish()
