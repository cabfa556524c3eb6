"""The API server is killed and restarted, etcd is compacted, and put back to a backup, while pods come all the time.

After each of these a mark is made: a PodGroup in a queue of its own, with a pod that has its node from the beginning.
Every replica, followers as well, has to count it in its metrics within 60 s of the moment at which the API server is
ready again. From time to time no more pods come until all have a node and have ended; then what each scheduler says of
queues, and each Queue's status, has to be what the API server's pods add up to, and every replica has to know of
as many pods as there are.

Compaction alone is noticed by nobody who is up to date. So every other time etcd is compacted while the API server is
down: whoever asks it to go on from where he was is told that this version is expired, and has to list.

A store that was put back has forgotten bindings (and pods). What was bound after the backup counts no more: such a pod
is bound again, and that is right; the auditor begins anew when the API server's versions go back.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar

from drills.audit import Auditor
from drills.reading import GROUP_NAME, QUEUE_NAME, Json, amounts, is_finished, notes_of, requests_of
from drills.report import Report
from drills.world import Replica, World, wait_until, world
from tests.cluster.controlling import JOBS
from tests.cluster.scheduling import GROUPS, PATIENT_LEASE
from tools.controlplane import ApiServerError
from tools.controlplane.stages import RUN_FOR
from tools.patience import PATIENCE

NAME: Final = "restarts"
WHAT: Final = "the API server is killed, etcd compacted and put back while pods come"

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
"""The Lease outlives the time that the API server is down: a leader that cannot renew it ends, as it should. After the
store was put back nobody leads until it is over."""

NODE_LEASE_SECONDS: Final = 60
"""KWOK begins anew when the store is put back, and plays a node's pods once its Lease from before is over."""

RELISTED_SECONDS: Final = 60.0
STUCK_SECONDS: Final = 240.0
"""No pod is bound or ends for so long, although some should. A store that was put back has an old Lease, of 90 s."""

NAMESPACE: Final = "steady"
MARKS: Final = "marks"
MARK_CPU: Final = 0.01
"""Cores of a mark, by which it is counted."""

QUEUES: Final = ("default", "narrow")
NARROW: Final = 6
"""Cores of the queue `narrow`, which always wants more."""

BUILT_IN: Final = 20
"""Pods that run all the time, so that there is something to count."""

EXACT: Final = Decimal("0.0005")
"""Metrics are floats: less than the least of cpu that there is."""

AMOUNTS: Final = ("cpu", "memory", "pods")
ROUNDS_BETWEEN_COUNTS: Final = 10
_BROKEN: Final = (OSError, http.client.HTTPException, ApiServerError)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """How often the API server is killed and the store put back, pods a second, and what is drawn with."""

    times: int = 50
    restores: int = 2
    rate: float = 3.0
    nodes: int = 10
    seed: int = 17


@dataclass(slots=True)
class Found:
    """What was seen."""

    compactions: int = 0
    relisted: list[float] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)
    counts: int = 0


def patiently(call: Callable[[], T]) -> T | None:
    """Ask until the API server answers. What exists already (None) was made by an earlier try."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except _BROKEN as error:
            if isinstance(error, ApiServerError) and error.status == 409:
                return None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


class Load:
    """Pods by themselves, gangs and Volcano Jobs that come all the time, but for while it is held."""

    def __init__(self, there: World, rate: float, rng: random.Random) -> None:
        self.pods = 0
        self.changes_of_store = 0
        self._there = there
        self._pause = 4 / rate
        self._rng = rng
        self._is_over = threading.Event()
        self._held = threading.Lock()
        self._thread = threading.Thread(target=self._keep_on, daemon=True)

    def furnish(self) -> None:
        """Make the pods that run all the time."""
        for number in range(BUILT_IN):
            self._pod(f"standing-{number}", QUEUES[number // 4 % 2 if number < NARROW else 0], {})

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have pods come within a ``with`` block."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have none come within a ``with`` block."""
        with self._held:
            yield

    def _keep_on(self) -> None:
        for number in itertools.count():
            if self._is_over.wait(self._pause):
                return
            with self._held:
                self._make_whole(number)

    def _make_whole(self, number: int) -> None:
        """Make it anew when the store was put back meanwhile: half of it would wait for ever for its other half."""
        before = -1
        while before != self.changes_of_store:
            before = self.changes_of_store
            self._make(number)

    def _make(self, number: int) -> None:
        """Four pods: alone, in a gang, or in a Job."""
        ending = {RUN_FOR: f"{self._rng.randint(1, 6)}s"}
        self.pods = 4 * (number + 1)
        queue = QUEUES[number % 2]
        if number % 3 == 0:
            task = self._there.task("work", 4, ending)
            job: dict[str, Any] = {"minAvailable": 4, "queue": queue, "ttlSecondsAfterFinished": 5}
            patiently(lambda: self._there.job(NAMESPACE, f"j{number}", [task], **job))
            return
        group = f"g{number}" if number % 3 == 1 else ""
        if group:
            make_group(self._there, group, queue, 4)
        for index in range(4):
            self._pod(f"p{number}-{index}", queue, ending, group)

    def _pod(self, name: str, queue: str, notes: dict[str, str], group: str = "") -> None:
        make_pod(self._there, name, notes | ({GROUP_NAME: group} if group else {QUEUE_NAME: queue}), "1")


def make_group(there: World, name: str, queue: str, minimum: int) -> None:
    """Make a PodGroup, however long that takes."""
    patiently(lambda: there.make_group(NAMESPACE, name, minMember=minimum, queue=queue))


def make_pod(there: World, name: str, notes: dict[str, str], cpu: str, node: str = "") -> None:
    """Make a pod, however long that takes; with a node it is bound from the beginning."""
    spec = {"restartPolicy": "Never"} | ({"nodeName": node} if node else {})
    pod = there.pod(name, cpu=cpu, memory="64Mi", spec=spec)
    pod["metadata"]["annotations"] = notes
    patiently(lambda: there.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", pod))


class Trial:
    """What is done to the API server and its store, and what has to be so afterwards."""

    def __init__(self, there: World, load: Load, auditor: Auditor, found: Found, report: Report) -> None:
        self._there = there
        self._load = load
        self._auditor = auditor
        self._found = found
        self._report = report
        self._marks = itertools.count()

    def kill(self, rng: random.Random, *, compact: bool) -> None:
        """Kill the API server, and start it again a moment later."""
        self._there.control_plane.stop_api_server()
        time.sleep(rng.uniform(0.0, 3.0))
        if compact:
            self._compact()
        self._there.control_plane.start_api_server()
        self.follows("killed" + (" and compacted" if compact else ""))

    def compact(self) -> None:
        """Compact etcd while everything goes on."""
        self._compact()
        self.follows("compacted under load")

    def restore(self, folder: Path, seconds: float) -> None:
        """Save the store, have the cluster go on for a while, and put the store back.

        Kubernetes' garbage collector remembers owners that are gone. So the pods of a Job that ended before the store
        was put back may be deleted at once. They are saved with their nodes, so that this is no loss.
        """
        with self._load.held():  # a gang that is saved in half would wait for its other half for ever
            if not wait_until(self._all_have_nodes, PATIENCE):
                raise TimeoutError("before the store was saved: pods of the load have no node")
            self._there.control_plane.save_store(folder)
        self.follows("saved")
        time.sleep(seconds)
        self._load.changes_of_store += 1
        self._there.control_plane.restore_store(folder)
        self._load.changes_of_store += 1
        self.follows("put back", marks=2)

    def _all_have_nodes(self) -> bool:
        jobs = self._there.api.items(f"{JOBS}/namespaces/{NAMESPACE}/jobs")
        has_begun = all(job.get("status", {}).get("state", {}).get("phase", "Pending") != "Pending" for job in jobs)
        return has_begun and all("nodeName" in pod["spec"] for pod in self._there.pods(NAMESPACE).values())

    def follows(self, after: str, marks: int = 1) -> None:
        """Make a mark, and wait until every replica knows of it.

        A store that was put back lacks one mark; two then make a number that nobody could know from before.
        """
        began = time.monotonic()
        for _ in range(marks):
            name = f"mark-{next(self._marks)}"
            make_group(self._there, name, MARKS, 1)
            make_pod(self._there, name, {GROUP_NAME: name}, str(MARK_CPU), node="node-0")
        expected = self._marked()
        waiting = dict(self.replicas())
        while waiting and time.monotonic() - began < RELISTED_SECONDS:
            time.sleep(0.2)
            waiting = {who: replica for who, replica in waiting.items() if _marks_of(who, replica) != expected}
        for who, replica in waiting.items():
            self._found.late.append(f"{after}: {who} counts {_marks_of(who, replica)} marks, and there are {expected}")
        self._found.relisted.append(time.monotonic() - began)

    def count(self, after: str) -> None:
        """With no more pods coming, wait until all are bound and done; then compare what queues hold with the pods."""
        with self._load.held():
            self._found.counts += 1
            if left := self._unsettled():
                self._found.unsettled += [f"{after}: {name}" for name in left]
            deadline = time.monotonic() + RELISTED_SECONDS
            while (unlike := self._unlike()) and time.monotonic() < deadline:
                time.sleep(0.5)
            self._found.unlike += [f"{after}: {words}" for words in unlike]
        self._report.progress(f"{after}: {self._load.pods} pods made, {self._auditor.bound} bindings seen")

    def replicas(self) -> Iterator[tuple[str, Replica]]:
        """All processes by name."""
        for kind, replicas in (("scheduler", self._there.schedulers), ("controllers", self._there.managers)):
            for number, replica in enumerate(replicas):
                yield f"{kind} {number}", replica

    def _compact(self) -> None:
        self._there.control_plane.compact_store()
        self._found.compactions += 1

    def _pods(self) -> list[Json]:
        return patiently(lambda: self._there.api.items(f"/api/v1/namespaces/{NAMESPACE}/pods")) or []

    def _groups(self) -> dict[str, Json]:
        return patiently(lambda: self._there.groups(NAMESPACE)) or {}

    def _marked(self) -> int:
        """How many marks there are; a store that was put back has fewer than were made."""
        return sum(1 for pod in self._pods() if pod["metadata"]["name"].startswith("mark-"))

    def _unsettled(self) -> list[str]:
        """Return pods that have no node, or have not ended although they should, once nothing goes on any more."""
        left, since = self._troubles(), time.monotonic()
        while left and time.monotonic() < since + STUCK_SECONDS:
            time.sleep(0.5)
            before, left = left, self._troubles()
            if left != before:
                since = time.monotonic()
        return left

    def _troubles(self) -> list[str]:
        return [trouble for pod in self._pods() if (trouble := _trouble(pod))]

    def _unlike(self) -> list[str]:
        """Where what is said of queues, or known of pods, is not what the API server has."""
        truth, there = self._truth(), len(self._there.api.items("/api/v1/pods"))
        found = []
        for name, right in truth.items():
            status = self._there.api.get(f"{GROUPS}/queues/{name}").get("status", {})
            said = amounts(status.get("allocated"))
            found += _differs(f"status of queue {name}", {key: said.get(key, Decimal(0)) for key in AMOUNTS}, right)
        for who, replica in self.replicas():
            try:
                samples = replica.scrape()
            except OSError as error:
                found.append(f"{who} does not answer: {error}")
                continue
            if (known := samples.get('volsched_objects{resource="pods"}')) != there:
                found.append(f"{who} knows of {known} pods, and there are {there}")
            for name, right in truth.items() if who.startswith("scheduler") else ():
                held = {key: Decimal(samples.get(_allocated(name, key), 0.0)) for key in ("cpu", "memory")}
                found += _differs(f"{who}, queue {name}", held, right)
        return found

    def _truth(self) -> dict[str, dict[str, Decimal]]:
        """What the pods of each queue hold, from what the API server has."""
        groups = self._groups()
        held: defaultdict[str, defaultdict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
        for pod in self._pods():
            if "nodeName" not in pod["spec"] or is_finished(pod):
                continue
            group = groups.get(notes_of(pod).get(GROUP_NAME, ""))
            queue = group["spec"].get("queue", "default") if group else notes_of(pod).get(QUEUE_NAME, "default")
            for resource, number in requests_of(pod).items():
                held[queue][resource] += number
        return {name: {key: held[name][key] for key in AMOUNTS} for name in (*QUEUES, MARKS)}


def _trouble(pod: Json) -> str:
    """What is still to come of a pod; empty when nothing is."""
    name = pod["metadata"]["name"]
    if "nodeName" not in pod["spec"]:
        return f"{name} has no node"
    if "deletionTimestamp" in pod["metadata"]:
        return f"{name} does not go"
    stays = name.startswith(("standing", "mark"))
    is_done = pod["status"]["phase"] == "Running" if stays else is_finished(pod)
    return "" if is_done else f"{name} is {pod['status']['phase']}"


def _marks_of(who: str, replica: Replica) -> float | None:
    """How many marks a replica counts: their pods or, controllers, their PodGroups; None while it does not answer."""
    try:
        samples = replica.scrape()
    except (OSError, AssertionError):
        return None
    if who.startswith("scheduler"):
        return round(samples.get(_allocated(MARKS, "cpu"), 0.0) / MARK_CPU)
    phases = ("pending", "inqueue", "running", "unknown", "completed")
    return sum(samples.get(f'volcano_queue_pod_group_{phase}_count{{queue_name="{MARKS}"}}', 0.0) for phase in phases)


def _allocated(queue: str, resource: str) -> str:
    return f'volsched_queue_allocated{{queue="{queue}",resource="{resource}"}}'


def _differs(what: str, held: dict[str, Decimal], right: dict[str, Decimal]) -> list[str]:
    wrong = [f"{key} {held[key]:f} and not {right[key]:f}" for key in held if abs(held[key] - right[key]) > EXACT]
    return [f"{what}: {', '.join(wrong)}"] if wrong else []


def run(report: Report, settings: Settings) -> None:
    """Do all of it under load, and judge what was seen."""
    rng = random.Random(settings.seed)
    found = Found()
    with (
        world(CONFIGURATION, node_lease_seconds=NODE_LEASE_SECONDS) as there,
        tempfile.TemporaryDirectory(prefix="backup-") as folder,
    ):
        there.populate(flags=FLAGS)
        _furnish(there, settings)
        auditor = Auditor(there.api).start()
        load = Load(there, settings.rate, rng)
        load.furnish()
        trial = Trial(there, load, auditor, found, report)
        with load.running():
            _go(trial, settings, rng, Path(folder), report)
        trial.count("in the end")
        auditor.catch_up()
        _judge(report, settings, found, load)
        auditor.judge(report)
        auditor.stop()
        exits = there.exits()
        report.must("processes that ended", len(exits), "==", 0, tuple(exits))


def _go(trial: Trial, settings: Settings, rng: random.Random, folder: Path, report: Report) -> None:
    """Kill the API server so many times, and now and then compact etcd or put it back."""
    restores = {round((number + 1) * settings.times / (settings.restores + 1)) for number in range(settings.restores)}
    for number in range(1, settings.times + 1):
        trial.kill(rng, compact=number % 2 == 0)
        if number % 5 == 0:
            trial.compact()
        if number in restores:
            report.progress(f"{number} times killed; the store is put back")
            trial.restore(folder / str(number), rng.uniform(5.0, 15.0))
        if number % ROUNDS_BETWEEN_COUNTS == 0 or number in restores:
            trial.count(f"{number} times killed")


def _furnish(there: World, settings: Settings) -> None:
    there.queue("narrow", weight=1, capability={"cpu": str(NARROW)})
    there.queue(MARKS, weight=1)
    there.nodes(settings.nodes, cpu="32")
    there.control_plane.create_namespace(NAMESPACE)


def _judge(report: Report, settings: Settings, found: Found, load: Load) -> None:
    report.figure("seed", settings.seed)
    report.figure("times that the API server was killed", settings.times)
    report.figure("times that etcd was compacted", found.compactions)
    report.figure("times that etcd was put back to a backup", settings.restores)
    report.figure("pods made meanwhile", load.pods)
    report.figure("counts", found.counts)
    report.figure("seconds until every replica had listed, at most", max(found.relisted, default=0.0))
    unsettled, unlike = tuple(found.unsettled), tuple(found.unlike)
    report.must("pods that were not bound, or did not end, once no more came", len(unsettled), "==", 0, unsettled)
    report.must("accounts that differ from a recount", len(unlike), "==", 0, unlike)
    late = f"times that a replica did not know what there is after {RELISTED_SECONDS:g} s"
    report.must(late, len(found.late), "==", 0, tuple(found.late), is_time=True)


def main() -> int:
    """Run the drill as the command line says, and return its exit status."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", type=int, default=50, help="times that the API server is killed (%(default)s)")
    options.add_argument("--restores", type=int, default=2, help="times that etcd is put back (%(default)s)")
    options.add_argument("--rate", type=float, default=3.0, help="pods made a second meanwhile (%(default)s)")
    options.add_argument("--nodes", type=int, default=10, help="nodes of 32 cores (%(default)s)")
    options.add_argument("--seed", type=int, default=17, help="decides how long it is down, and so on (%(default)s)")
    given = options.parse_args()
    report = Report(NAME, WHAT)
    run(report, Settings(given.times, given.restores, given.rate, given.nodes, given.seed))
    return report.finish()
