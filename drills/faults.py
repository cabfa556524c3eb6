"""The API server answers wrongly thousands of times, and everything is placed as it would have been without.

Each round a fixed list of pods, gangs and Volcano Jobs arrives in a namespace of its own, while the proxies of all
replicas put faults of every kind between them and the API server: 409, 429 with Retry-After, 500, 503 as a page, 403,
410, resets and silence before and after the request was carried out, answers that break off, delays, and watches that
stall, end, are reset or fail. Then the faults stop, what is left is placed, and the outcome is compared with that of
a first round which had none. In the end all is deleted, and the next round comes, until that many faults have met a
request.

*The same placements* means: of pods that have one suitable node each, and of gangs and Jobs of such pods, the same pods
on the same nodes. Those nodes are just full then. Shares of cards are bound to a node by their selector; which of its
two equal cards one gets is up to the order of arrival, which nobody promises, so what each card gives away is compared.
Of ten pods whose queue has a quota of six cards any six may go, so their number is compared. One gang never fits, and
must have no pod bound.

A replica that loses its Lease, as it must when it cannot renew it, ends and is started again; any other end is a fault.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from drills import devices
from drills.audit import Auditor
from drills.reading import CARD_NAME, CARD_QUOTA, CORE, GROUP_NAME, MEMORY, QUEUE_NAME, Json, shares_of
from drills.report import RESULTS, Report
from drills.world import Replica, World, world
from tests.cluster.controlling import JOBS
from tests.cluster.scheduling import GROUPS
from tools.controlplane import a_pod
from tools.controlplane.fault_rules import InjectedFault, status
from tools.controlplane.faults import (
    BlackHole,
    EndWatch,
    FailWatch,
    FaultRule,
    Latency,
    Reset,
    ResetWatch,
    Respond,
    StallWatch,
    Truncate,
    bad_gateway_page,
    conflict,
    gone,
    server_error,
    too_many_requests,
)

GPU: Final = "nvidia.com/gpu"
CARD: Final = "NVIDIA-A100"
PLACE: Final = "drills.volsched.io/place"
PLACES: Final = 5
CARD_MEMORY: Final = 16_384
PODS: Final = 88
"""of a round's 95 so many have room and quota."""
QUOTA_CARDS: Final = "pods with a card of the quota"
KEPT: Final = RESULTS / "faults-logs"
"""Where the logs of all replicas are kept when a line is not met, and the objects of a round that went otherwise."""

WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is tried."""

    faults: int = 10_000
    seed: int = 1
    flags: tuple[str, ...] = ()
    """Flags of the replicas beside what they ship with."""
    round_seconds: float = 300.0
    """After so long a round's faults stop, whatever is placed by then."""
    calm_seconds: float = 240.0
    """So long may what is left take, without faults."""


# -- what arrives -----------------------------------------------------------------------------------------------------


def furnish(there: World) -> None:
    """Make nodes of which each work has one that suits it, and queues."""
    for index in range(PLACES):
        there.nodes(1, prefix=f"place-{index}", cpu="8", labels={PLACE: f"place-{index}"})
    for index in range(2):
        name = f"shared-{index}"
        there.nodes(1, prefix=name, labels={PLACE: name}, **{CORE: 200, MEMORY: 2 * CARD_MEMORY})
    devices.furnish(there.api, there.nodes(1, prefix="devices", cpu="8", labels={PLACE: "devices"}))
    labels = {f"{GPU}.product": CARD, f"{GPU}.count": "8", f"{GPU}.memory": "81920", PLACE: "cards"}
    there.nodes(1, prefix="cards", labels=labels, **{GPU: 8})
    for name, notes in (("cards", {CARD_QUOTA: f'{{"{CARD}": 6}}'}), ("teams", {})):
        there.api.create(f"{GROUPS}/queues", {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": {"name": name, "annotations": notes},
            "spec": {"weight": 1, "capability": {"cpu": "200", "memory": "1Ti"}},
        })  # fmt: skip


class Works:
    """The fixed list of a round, in one namespace."""

    def __init__(self, there: World, namespace: str) -> None:
        self._world = there
        self._api = there.api
        self._namespace = namespace

    def arrive(self, pause: float = 0.05) -> None:
        """Create everything, in the same order each time."""
        for index in range(30):
            self._pod(f"plain-{index}", f"place-{index % PLACES}", {QUEUE_NAME: "teams"}, {"cpu": "1"})
            time.sleep(pause)
        for index in range(5):
            self._gang(f"gang-{index}", "teams", [f"place-{(index + n) % PLACES}" for n in range(4)], {"cpu": "250m"})
            time.sleep(pause)
        for index in range(3):
            self._job(f"job-{index}", f"place-{index}")
            time.sleep(pause)
        for index in range(8):
            requests = {CORE: "50", MEMORY: str(CARD_MEMORY // 2)}
            self._pod(f"share-{index}", f"shared-{index % 2}", {QUEUE_NAME: "teams"}, requests)
            time.sleep(pause)
        for index in range(10):
            self._gang(f"card-{index}", "cards", ["cards"], {GPU: "1"}, notes={CARD_NAME: CARD})
            time.sleep(pause)
        self._gang("never", "teams", ["place-4"] * 3, {"cpu": "6"})
        self._with_devices(pause)

    def _with_devices(self, pause: float) -> None:
        """Create pods with a claim each, a gang with one for all, and pods that get devices by a resource."""
        devices.make_template(self._api, self._namespace)
        devices.make_claim(self._api, self._namespace, "shared")
        for index in range(4):
            self._pod(f"own-{index}", "devices", {QUEUE_NAME: "teams"}, {"cpu": "100m"}, devices.own())
            time.sleep(pause)
        self._gang("sharing", "teams", ["devices"] * 3, {"cpu": "100m"}, spec=devices.shared("shared"))
        for index in range(2):
            requests = {**devices.by_resource(), "cpu": "100m"}
            self._pod(f"resource-{index}", "devices", {QUEUE_NAME: "teams"}, requests)
            time.sleep(pause)

    def go(self) -> None:
        """Delete everything, and return once it is gone."""
        base = f"namespaces/{self._namespace}"
        self._api.delete(f"{JOBS}/{base}/jobs")
        self._api.delete(f"/api/v1/{base}/pods", grace_seconds=0)
        self._api.delete(f"{GROUPS}/{base}/podgroups")
        self._api.wait_for(f"/api/v1/{base}/pods", lambda found: not found["items"])
        self._api.delete(devices.claims(self._namespace))
        self._api.wait_for(devices.claims(self._namespace), lambda found: not found["items"])

    def keep(self, folder: Path) -> None:
        """Write down what is there and what was told of it, so that what went otherwise can be looked into."""
        folder.mkdir(parents=True, exist_ok=True)
        base = f"namespaces/{self._namespace}"
        kinds = {"pods": "/api/v1", "events": "/api/v1", "podgroups": GROUPS, "jobs": JOBS}
        for name, path in (kinds | {"resourceclaims": devices.API}).items():
            found = self._api.items(f"{path}/{base}/{name}")
            (folder / f"{self._namespace}-{name}.json").write_text(json.dumps(found, indent=1))

    def outcome(self) -> dict[str, str]:
        """What is compared: the node of each pod where that is determined, and sums where it is not."""
        found, cards, with_card = {}, Counter[str](), 0
        for pod in self._api.items(f"/api/v1/namespaces/{self._namespace}/pods"):
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
            if node and name.startswith("card-"):
                with_card += 1
            elif node:
                found[name] = node
                cards.update(_given_away(pod, node))
        return found | {QUOTA_CARDS: str(with_card), **{k: str(v) for k, v in cards.items()}}

    def _gang(
        self,
        name: str,
        queue: str,
        places: list[str],
        requests: Mapping[str, str],
        notes: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> None:
        self._api.create(f"{GROUPS}/namespaces/{self._namespace}/podgroups", {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
            "spec": {"minMember": len(places), "queue": queue},
        })  # fmt: skip
        for index, place in enumerate(places):
            self._pod(f"{name}-{index}", place, {GROUP_NAME: name, **(notes or {})}, requests, spec)

    def _job(self, name: str, place: str) -> None:
        task = self._world.task("worker", 5)
        task["template"]["spec"]["nodeSelector"] = {PLACE: place}
        task["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "200m"}}
        self._world.job(self._namespace, name, [task], minAvailable=5, queue="teams")

    def _pod(
        self,
        name: str,
        place: str,
        notes: Mapping[str, str],
        requests: Mapping[str, Any],
        spec: Mapping[str, Any] | None = None,
    ) -> None:
        whole: dict[str, Any] = {"nodeSelector": {PLACE: place}, "restartPolicy": "Never", **(spec or {})}
        pod = a_pod(name, scheduler=self._world.name, annotations=notes, spec=whole, **requests)
        self._api.create(f"/api/v1/namespaces/{self._namespace}/pods", pod)


def _given_away(pod: Json, node: str) -> dict[str, int]:
    return {f"percent of {node} card {share.card}": share.core for share in shares_of(pod, CARD_MEMORY)}


def differences(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Say what is placed otherwise than without faults."""
    return [
        f"{name}: {found.get(name, 'nowhere')}, and {expected.get(name, 'nowhere')} without faults"
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    ]


# -- what goes wrong --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault, and the requests that it may meet."""

    name: str
    make: Callable[[random.Random], InjectedFault]
    writes: bool | None = None
    """Only writes, only what is read, or both."""
    watch: bool | None = False
    path: str | None = None
    weight: int = 10


def _forbidden(_: random.Random) -> InjectedFault:
    return Respond(403, json.dumps(status(403, "Forbidden", "the authorizer has not caught up yet")))


_COLLECTION: Final = r"^(/api|/apis/[^/]+)/[^/]+/[a-z]+$"
"""A path that lists or watches; nobody answers 410 to anything else."""

KINDS: Final = (
    Kind("409 conflict", lambda _: conflict(), writes=True),
    Kind("409 conflict, though done", lambda _: conflict(after=True), writes=True, weight=5),
    Kind("429 with Retry-After", lambda _: too_many_requests(1)),
    Kind("500", lambda _: server_error()),
    Kind("500, though done", lambda _: server_error(after=True)),
    Kind("503 as a page", lambda _: bad_gateway_page(), watch=None),
    Kind("403", _forbidden, weight=3),
    Kind("410 to lists and watches", lambda _: gone(), writes=False, watch=None, path=_COLLECTION),
    Kind("reset before", lambda _: Reset(), watch=None),
    Kind("reset after", lambda _: Reset(after=True)),
    Kind("no answer", lambda _: BlackHole(), weight=2),
    Kind("no answer, though done", lambda _: BlackHole(after=True), weight=2),
    Kind("answer that breaks off", lambda rng: Truncate(rng.choice((0, 1, 10, 200)))),
    Kind("delay", lambda rng: Latency(rng.choice((0.05, 0.3, 1.5))), watch=None),
    Kind("watch stalls", lambda rng: StallWatch(rng.randrange(3)), watch=True, weight=1),
    Kind("watch ends", lambda rng: EndWatch(rng.randrange(3)), watch=True, weight=6),
    Kind("watch is reset", lambda rng: ResetWatch(rng.randrange(3)), watch=True, weight=6),
    Kind("watch fails with 410", lambda rng: FailWatch(rng.randrange(3)), watch=True, weight=6),
)


class Chaos:
    """Puts one fault after the other into each proxy, from `start` until `stop`; `met` counts the requests met."""

    def __init__(self, replicas: list[Replica], rng: random.Random) -> None:
        self.met: Counter[str] = Counter()
        self._replicas = replicas
        self._rng = rng
        self._rules: list[tuple[Kind, FaultRule]] = []
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Let things go wrong."""
        self._is_over.clear()
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let nothing more go wrong; what was met before stays as it is."""
        self._is_over.set()
        if self._thread:
            self._thread.join()
        for replica in self._replicas:
            replica.proxy.clear()
        self._settle()

    def _run(self) -> None:
        """Let one kind of fault meet what each replica asks for a moment, and then nothing: some third of all."""
        while not self._is_over.is_set():
            for replica in self._replicas:
                if self._rng.random() < 0.7:
                    [kind] = self._rng.choices(KINDS, [kind.weight for kind in KINDS])
                    self._inject(replica, kind)
            self._is_over.wait(self._rng.uniform(0.1, 0.5))
            self._settle()
            self._is_over.wait(self._rng.uniform(0.1, 0.5))

    def _inject(self, replica: Replica, kind: Kind) -> None:
        method = None
        if kind.writes is not None:
            method = self._rng.choice(WRITES[:3]) if kind.writes else "GET"
        # few of those that cost a minute of waiting, so that rounds end
        times = 1 if kind.weight <= 2 else self._rng.randint(4, 30)
        rule = replica.proxy.inject(kind.make(self._rng), method=method, path=kind.path, watch=kind.watch, times=times)
        self._rules.append((kind, rule))

    def _settle(self) -> None:
        """Take the rules away and count what they met."""
        for kind, rule in self._rules:
            rule.remove()
            self.met[kind.name] += rule.hits
        self._rules.clear()


# -- the drill --------------------------------------------------------------------------------------------------------


class Nurse:
    """Starts replicas again that ended because they lost their Lease, as a Deployment would."""

    def __init__(self, there: World, tell: Callable[[str], None]) -> None:
        self.losses = 0
        self._world = there
        self._tell = tell

    def look(self) -> None:
        """Bring back who lost its Lease; who ended otherwise is left for `World.exits` to tell."""
        for replica in (*self._world.schedulers, *self._world.managers):
            if replica.has_ended and (said := replica.process.said("lost the lease")):
                self.losses += 1
                self._tell(f"{replica.process.log.name} {said[-1]['event']}")
                self._world.restart(replica)

    def others(self) -> list[str]:
        """Who ended for another reason, after those that lost their Lease are back."""
        self.look()
        return self._world.exits()


def run(report: Report, settings: Settings) -> None:
    """Do all of it on a cluster of its own, and add the lines to the report."""
    with world() as there:
        furnish(there)
        auditor = Auditor(there.api).start()
        there.populate(flags=(*settings.flags, "--log-level", "info"))
        nurse, numbers = Nurse(there, report.progress), count()
        chaos = Chaos([*there.schedulers, *there.managers], random.Random(settings.seed))
        expected = _round(there, next(numbers), nurse, settings, None, None)
        placed = sum(" " not in name for name in expected) + int(expected[QUOTA_CARDS])
        report.figure("pods placed in a round", placed)
        report.progress(f"without faults {placed} pods are placed")
        wrong = [] if placed == PODS else [f"without faults {placed} were placed, and there is room for {PODS}"]
        rounds, slowest = 0, 0.0
        while sum(chaos.met.values()) < settings.faults and not wrong and not nurse.others():
            began = time.monotonic()
            found = _round(there, next(numbers), nurse, settings, chaos, expected)
            rounds, slowest = rounds + 1, max(slowest, time.monotonic() - began)
            wrong += [f"round {rounds}: {text}" for text in differences(expected, found)]
            for line in auditor.examples("in part"):
                report.progress(line)
            report.progress(f"round {rounds}: {sum(chaos.met.values())} faults, {time.monotonic() - began:.0f} s")
        auditor.catch_up()
        report.figure("rounds", rounds)
        report.figure("slowest round, seconds", slowest)
        report.figure("Leases lost, and replicas started again", nurse.losses)
        judge(report, settings, chaos, wrong)
        auditor.judge(report, without=("vanished",))
        exits = nurse.others()
        report.must("processes that ended for another reason than a lost Lease", len(exits), "==", 0, tuple(exits))
        if not report.is_met:
            there.keep_logs(KEPT)
        auditor.stop()


def judge(report: Report, settings: Settings, chaos: Chaos, wrong: list[str]) -> None:
    """Add the lines that are the drill's own."""
    for kind in KINDS:
        report.figure(f"faults: {kind.name}", chaos.met[kind.name])
    report.must("faults that met a request", sum(chaos.met.values()), ">=", settings.faults)
    never = [kind.name for kind in KINDS if not chaos.met[kind.name]]
    report.must("kinds of fault that met none", len(never), "==", 0, tuple(never))
    report.must("placements other than without faults", len(wrong), "==", 0, tuple(wrong))


def _round(
    there: World,
    number: int,
    nurse: Nurse,
    settings: Settings,
    chaos: Chaos | None,
    expected: Mapping[str, str] | None,
) -> dict[str, str]:
    """Let the list arrive, with faults or without, and return where everything went."""
    namespace = there.control_plane.create_namespace(f"round-{number}")
    works = Works(there, namespace)
    if chaos:
        chaos.start()
    works.arrive()
    if chaos:
        _wait(works, nurse, settings.round_seconds, expected)
        chaos.stop()
    found = _wait(works, nurse, settings.calm_seconds, expected)
    if expected is not None and found != expected:
        works.keep(KEPT)
    works.go()
    return found


def _wait(works: Works, nurse: Nurse, within: float, expected: Mapping[str, str] | None) -> dict[str, str]:
    """Wait until the outcome is as expected, or, when nobody knows what to expect, until it changes no more."""
    deadline = time.monotonic() + within
    found, since = works.outcome(), time.monotonic()
    while time.monotonic() < deadline and found != expected:
        time.sleep(0.5)
        nurse.look()
        now = works.outcome()
        if now != found:
            found, since = now, time.monotonic()
        if expected is None and len(found) > 2 and time.monotonic() - since > 15.0:
            break
    return found


def parsed(arguments: list[str] | None = None) -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = Settings()
    parser.add_argument("--faults", type=int, default=known.faults, help="requests to be met (%(default)s)")
    parser.add_argument("--seed", type=int, default=known.seed, help="of the faults (%(default)s)")
    return Settings(**vars(parser.parse_args(arguments)))


def main() -> int:
    settings = parsed()
    report = Report("faults", f"{settings.faults} faults between the replicas and the API server, seed {settings.seed}")
    run(report, settings)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
