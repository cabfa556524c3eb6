"""The configuration is broken and repaired again and again while pods come: the last good one is in force all the time.

Only the good configuration has the plugin that keeps quotas, and one queue always wants more than its quota. So when a
broken text counts for one session, more of that queue's pods run than may, and an event of the watch shows it. Each
round waits for both replicas' verdicts; in the end the Events on the ConfigMap are held against what was done.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from drills.broken import KEY, WAYS, Data
from drills.report import Report
from drills.world import World, wait_until, world
from tests.cluster.scheduling import CONFIG, PATIENT_LEASE, SYSTEM, SchedulerProcess
from tools.controlplane import a_node
from tools.controlplane.stages import RUN_FOR
from tools.patience import PATIENCE
from volsched.kube.watch.config_source import text_hash
from volsched.kube.watch.config_state import LOADED, MISSING, REFUSED
from volsched.kube.write.events import LONGEST_INTERVAL_SECONDS
from volsched.model.verdict import truncated

NAME: Final = "configuration"
WHAT: Final = "the configuration is broken and repaired while pods come"

GOOD: Final = """\
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
CONFIGMAPS: Final = f"/api/v1/namespaces/{SYSTEM}/configmaps"
NAMESPACE: Final = "steady"
QUOTA: Final = 4
"""Pods of one core that the queue `capped` may run; the nodes have room for many times as many."""

AGAIN: Final = 8
"""Every so many rounds the one before is done again, word for word: that is a verdict, too."""

SLOW_BIND_SECONDS: Final = 30.0
"""A pod without a quota that waits so long was not placed while the configuration was broken."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is tried: rounds of breaking and mending, pods a second, and what the ways are drawn with."""

    times: int = 100
    rate: float = 6.0
    nodes: int = 5
    seed: int = 17


@dataclass(slots=True)
class Told:
    """What was done, and so what has to be told: Events by reason and message, verdicts by kind."""

    events: Counter[tuple[str, str]] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0


class Pods:
    """Follows the pods of the drill by a watch, and counts at each event what runs in the queue that has a quota."""

    def __init__(self, there: World) -> None:
        self.most = 0
        self.overrun: list[str] = []
        self.waits: list[float] = []
        self.bound: set[str] = set()
        self._there = there
        self._waiting: dict[str, tuple[str, float]] = {}
        self._holding: set[str] = set()
        self._lock = threading.Lock()

    def follow(self, is_over: threading.Event) -> None:
        """Follow them until it is over; a watch that ends is begun again where it was. One that fails is an overrun."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        version = self._there.api.get(path)["metadata"]["resourceVersion"]
        try:
            while not is_over.is_set():
                for event in self._there.api.watch(path, resource_version=version, timeout_seconds=2):
                    version = event["object"]["metadata"]["resourceVersion"]
                    with self._lock:
                        self._take(event["type"], event["object"])
        except Exception as error:
            self.overrun.append(f"nobody counted from here on: {error!r}")
            raise

    def waiting(self, queue: str = "") -> int:
        """How many wait for a node, in one queue or in all."""
        with self._lock:
            return sum(1 for of, _ in self._waiting.values() if queue in ("", of))

    def _take(self, kind: str, pod: dict[str, Any]) -> None:
        name, queue = pod["metadata"]["name"], pod["metadata"]["labels"]["queue"]
        has_node = "nodeName" in pod["spec"]
        if has_node and name not in self.bound:
            self.bound.add(name)
            _, since = self._waiting.pop(name, (queue, time.monotonic()))
            if queue == "free":
                self.waits.append(time.monotonic() - since)
        elif not has_node and kind != "DELETED":
            self._waiting.setdefault(name, (queue, time.monotonic()))
        is_running = has_node and kind != "DELETED" and pod["status"]["phase"] not in ("Succeeded", "Failed")
        if queue == "capped":
            self._count(name, is_running)

    def _count(self, name: str, is_running: bool) -> None:
        (self._holding.add if is_running else self._holding.discard)(name)
        self.most = max(self.most, len(self._holding))
        if is_running and len(self._holding) > QUOTA:
            self.overrun.append(f"{len(self._holding)} pods hold a quota of {QUOTA} once {name} has a node")


class Breaking:
    """Changes the ConfigMap, and waits until every scheduler has judged what it says now."""

    def __init__(self, there: World, told: Told) -> None:
        self._there = there
        self._told = told
        self._good = ""

    @property
    def schedulers(self) -> list[SchedulerProcess]:
        """All replicas of the scheduler."""
        return [one.process for one in self._there.schedulers if isinstance(one.process, SchedulerProcess)]

    def begin(self) -> None:
        """Take note of the configuration that the schedulers began with; a leader tells only of the newest one."""
        self._good = GOOD
        self._told.verdicts[LOADED] += 1
        self._told.events[_loaded(GOOD)] += 1
        wait_until(lambda: self._there.events(SYSTEM, CONFIG), PATIENCE)

    def break_it(self, way: str, data: Data) -> None:
        """Break it; whatever was said, what is in force must be what was."""
        verdict = REFUSED if data is not None and _has_text(data) else MISSING
        self._told.verdicts[verdict] += 1
        self._write(data)
        self._judged(way)
        if data is not None:  # an object that changes in other ways is judged once all the same
            self._there.api.patch(f"{CONFIGMAPS}/{CONFIG}", {"metadata": {"annotations": {"touched": way}}})
        problems = {self._in_force(process, way)["problem"] for process in self.schedulers}
        if len(problems) != 1:
            self._told.wrong.append(f"{way}: the replicas do not agree: {sorted(problems)}")
        kept = f"; the configuration before it (hash {text_hash(self._good)}) stays in force"
        self._told.events["ConfigurationRefused", truncated(f"{problems.pop()}{kept}")] += 1

    def mend(self, text: str) -> None:
        """Write one that holds, and wait until it is in force."""
        self._told.verdicts[LOADED] += 1
        self._told.events[_loaded(text)] += 1
        self._write({KEY: text})
        self._judged("mended")
        self._good = text
        for process in self.schedulers:
            self._in_force(process, "mended")

    def _write(self, data: Data) -> None:
        api, path = self._there.api, f"{CONFIGMAPS}/{CONFIG}"
        if data is None:
            api.delete(path)
        elif api.find(path) is None:
            api.create(CONFIGMAPS, {"metadata": {"name": CONFIG}, "data": dict(data)})
        else:
            api.replace(path, {"metadata": {"name": CONFIG}, "data": dict(data)})

    def _judged(self, way: str) -> None:
        """Wait until every replica has judged as often as it has to, each kind of verdict."""
        began = time.monotonic()
        for process in self.schedulers:
            while (found := _verdicts(process)) != self._told.verdicts:
                if time.monotonic() - began > PATIENCE or process.process.poll() is not None:
                    self._told.wrong.append(f"{way}: verdicts {dict(found)} and not {dict(self._told.verdicts)}")
                    break
                time.sleep(0.05)
        self._told.slowest = max(self._told.slowest, time.monotonic() - began)

    def _in_force(self, process: SchedulerProcess, way: str) -> dict[str, Any]:
        """What a replica says of its configuration, which must be the good one by hash, text and metric."""
        status, text = process.page("/configz")
        shown: dict[str, Any] = json.loads(text)["configuration"] if status == 200 else {}
        if shown.get("text") != self._good or shown.get("hash") != text_hash(self._good):
            self._told.wrong.append(f"{way}: in force is {str(shown)[:300]}")
        source = f"ConfigMap {SYSTEM}/{CONFIG}"
        if process.metric(f'volsched_config_info{{hash="{text_hash(self._good)}",source="{source}"}}') != 1:
            self._told.wrong.append(f"{way}: the metric does not say that {text_hash(self._good)} is in force")
        return {"problem": "", **shown}


def run(report: Report, settings: Settings) -> None:
    """Break and mend it so many times, and judge what was seen."""
    rng = random.Random(settings.seed)
    told = Told()
    with world(GOOD) as there:
        there.populate(flags=PATIENT_LEASE)
        _furnish(there, settings)
        pods, breaking = Pods(there), Breaking(there, told)
        with _watch(pods):
            with _load(there, pods, settings):
                breaking.begin()
                idle = _rounds(breaking, pods, report, settings, rng)
                wait_until(lambda: pods.most >= QUOTA, PATIENCE)
            wait_until(lambda: pods.waiting() == 0, PATIENCE)
            seen = _events(there, told)
        _judge(report, settings, told, pods, seen)
        report.must("broken configurations under which no pod was bound", len(idle), "==", 0, tuple(idle), is_time=True)
        exits = there.exits()
        report.must("processes that ended", len(exits), "==", 0, tuple(exits))


def _rounds(breaking: Breaking, pods: Pods, report: Report, settings: Settings, rng: random.Random) -> list[str]:
    """Break it in every way in turn, in an order that is drawn; return the rounds in which no pod was bound."""
    ways: list[str] = []
    idle = []
    for number in range(settings.times):
        if number % AGAIN != AGAIN - 1:
            ways = ways or rng.sample(sorted(WAYS), len(WAYS))
            way, good = ways.pop(), f"{GOOD}# round {number}\n"
        before = len(pods.bound)
        breaking.break_it(way, WAYS[way]())
        if not wait_until(lambda: len(pods.bound) > before + 1, SLOW_BIND_SECONDS):  # noqa: B023 - asked at once
            idle.append(f"{number}: {way}")
        breaking.mend(good)
        if number % 10 == 9:
            report.progress(f"{number + 1} rounds, {len(pods.bound)} pods bound, {pods.waiting()} wait")
    return idle


def _furnish(there: World, settings: Settings) -> None:
    there.queue("capped", weight=1, capability={"cpu": str(QUOTA)})
    there.queue("free", weight=1)
    there.control_plane.create_nodes([a_node(f"node-{index}", cpu="64") for index in range(settings.nodes)])
    there.control_plane.create_namespace(NAMESPACE)
    for replica in there.schedulers:
        replica.process.wait_for("everything is listed")


@contextmanager
def _watch(pods: Pods) -> Iterator[None]:
    """Follow pods within a ``with`` block."""
    is_over = threading.Event()
    watching = threading.Thread(target=pods.follow, args=(is_over,), daemon=True)
    watching.start()
    try:
        yield
    finally:
        is_over.set()
        watching.join()


@contextmanager
def _load(there: World, pods: Pods, settings: Settings) -> Iterator[None]:
    """Have pods come within a ``with`` block."""
    is_done = threading.Event()
    making = threading.Thread(target=_make, args=(there, pods, settings, is_done), daemon=True)
    making.start()
    try:
        yield
    finally:
        is_done.set()
        making.join()


def _make(there: World, pods: Pods, settings: Settings, is_done: threading.Event) -> None:
    """Make pods, of which the queue with the quota has always some more than it may run."""
    for number in itertools.count():
        if is_done.wait(1 / settings.rate):
            return
        queue = "capped" if pods.waiting("capped") < 3 * QUOTA else "free"
        pod = there.pod(f"p{number}", cpu="1", labels={"queue": queue}, spec={"restartPolicy": "Never"})
        pod["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": queue, RUN_FOR: "3s"}
        there.make_pods(NAMESPACE, [pod])


def _events(there: World, told: Told) -> Counter[tuple[str, str]]:
    """What Events on the ConfigMap say, waiting for as many as there have to be: the same words come ever later."""

    def read() -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        for event in there.events(SYSTEM, CONFIG):
            if event["reason"] in ("ConfigurationLoaded", "ConfigurationRefused"):
                found[event["reason"], event["message"]] += event.get("count") or 1
        return found

    wait_until(lambda: read() == told.events, LONGEST_INTERVAL_SECONDS + PATIENCE)
    return read()


def _judge(report: Report, settings: Settings, told: Told, pods: Pods, seen: Counter[tuple[str, str]]) -> None:
    report.figure("seed", settings.seed)
    report.figure("times broken and mended", settings.times)
    report.figure("ways of breaking it", len(WAYS))
    report.figure("pods bound meanwhile", len(pods.bound))
    report.figure("pods that the queue with the quota held at most", pods.most)
    report.figure("seconds until both replicas had judged, at most", told.slowest)
    waits = sorted(pods.waits) or [0.0]
    report.figure("seconds until a pod without a quota was bound, p99", waits[int(len(waits) * 0.99)])
    report.must("rounds in which another was in force than the last good one", len(told.wrong), "==", 0, (*told.wrong,))
    report.must("events of the watch after which the quota was overrun", len(pods.overrun), "==", 0, (*pods.overrun,))
    report.must("pods held by the queue with the quota at most (it has to press)", pods.most, "==", QUOTA)
    report.must("pods that were never bound", pods.waiting(), "==", 0)
    report.must("verdicts that no Event tells", *_total(told.events - seen))
    report.must("verdicts told more than once, or never given", *_total(seen - told.events))


def _total(found: Counter[tuple[str, str]]) -> Any:
    return found.total(), "==", 0, tuple(f"{reason} x {count}: {text[:160]}" for (reason, text), count in found.items())


def _loaded(text: str) -> tuple[str, str]:
    return "ConfigurationLoaded", f"volsched uses this configuration (hash {text_hash(text)})"


def _has_text(data: Data) -> bool:
    return data is not None and KEY in data


def _verdicts(process: SchedulerProcess) -> Counter[str]:
    kinds = (LOADED, REFUSED, MISSING)
    counts = process.metrics(*(f'volsched_config_verdicts_total{{verdict="{kind}"}}' for kind in kinds))
    return Counter({kind: int(count) for kind, count in zip(kinds, counts, strict=True) if count})


def main() -> int:
    """Run the drill as the command line says, and return its exit status."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", type=int, default=100, help="how often it is broken and mended (%(default)s)")
    options.add_argument("--rate", type=float, default=6.0, help="pods made a second meanwhile (%(default)s)")
    options.add_argument("--nodes", type=int, default=5, help="nodes of 64 cores (%(default)s)")
    options.add_argument("--seed", type=int, default=17, help="decides in which order the ways come (%(default)s)")
    given = options.parse_args()
    report = Report(NAME, WHAT)
    run(report, Settings(given.times, given.rate, given.nodes, given.seed))
    return report.finish()
