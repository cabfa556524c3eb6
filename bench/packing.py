"""How much of a real cluster's cards is given out, on a public trace (Alibaba, openb, 2023).

The trace's folder has openb_node_list_gpu_node.csv and openb_pod_list_<list>.csv, as they are published; lists that
are not there are derived from `default` (`gpushareNN`, `multigpuNN`, `cpuNNN`; a star behind the name says so). The
rules are those of the simulator of "Beware of Fragmentation" (USENIX ATC'23): nodes with cards only, named in an order
that the seed gives; pods shuffled, then drawn again; one after the other; who finds no place is dropped.

  fill    nobody leaves; percent of cards that are not given out when pods for 95, 100 and 130 percent have arrived
  churn   pods leave after an exponential time, pods for as many cards as there are want to be there at any moment;
          percent of cards not given out on average, and percent of pods refused that want several cards, one, a part

  mgpu, binpack, fragmentation   volsched with the plugin mgpu alone, with binpack beside it, with fragmentation
  bestfit, fgd                   known rules, written for comparison (bench/packing_rules.py)
"""

from __future__ import annotations

import heapq
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from bench.common import Report, Stopwatch, parser
from bench.openb import CARD, Machine, Wish, arrivals, machines, wishes
from bench.packing_rules import FGD, BestFit, Place
from volsched.mirror.apply import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Deleted
from volsched.model.plan import Bind, StepRecorder
from volsched.registry import load_profile
from volsched.scheduler import Scheduler
from volsched.testing.builders import SteadyClock, a_node, a_pod, put, puts

CORE: Final = "vke.volcengine.com/mgpu-core"
MEMORY: Final = "vke.volcengine.com/mgpu-memory"
CARD_MEMORY: Final = 16_384
BASE: Final = """
actions: "allocate"
tiers:
- plugins:
  - name: predicates
  - name: mgpu
    arguments: {predicate.MGPUEnable: true, predicate.MGPUWeightOfCore: 100, predicate.MGPUMaxContainersPerCard: 100}
"""
BINPACK: Final = f"""  - name: binpack
    arguments: {{binpack.resources: {CORE}, binpack.resources.{CORE}: 8}}
"""
VOLSCHED: Final = {"mgpu": BASE, "binpack": BASE + BINPACK, "fragmentation": BASE + "  - name: fragmentation\n"}
RULES: Final = ("bestfit", "fgd")
MARKS: Final = (95, 100, 130)
_FIRST_COUNTED: Final = 0.4
_SAY: Final = 30.0
"""Seconds between two lines of progress."""


class Placer(Protocol):
    """Places one pod after the other."""

    def place(self, wishes: Sequence[Wish]) -> list[Any]:
        """Place pods that come in this order; for each a token with which it leaves, None when it was refused."""

    def leave(self, wish: Wish, token: Any) -> None:
        """Take a pod away."""


class ByRule:
    """A rule for comparison."""

    def __init__(self, rule: BestFit | FGD) -> None:
        self._rule = rule

    def place(self, wishes: Sequence[Wish]) -> list[Place | None]:
        """Place pods."""
        return [self._rule.place(wish) for wish in wishes]

    def leave(self, wish: Wish, token: Place) -> None:
        """Take a pod away."""
        self._rule.state.take(wish, token, -1)
        if isinstance(self._rule, FGD):
            self._rule.left(token)


class ByVolsched:
    """The scheduler of ``volsched run`` on a mirror: a session for all pods that come at once."""

    def __init__(self, configuration: str, listed: Sequence[Machine]) -> None:
        self._mirror, self._recorder = Mirror(MirrorSettings(plain_pods=True)), StepRecorder()
        self._scheduler = Scheduler(self._mirror, load_profile(configuration)[0], self._recorder, SteadyClock())
        self._mirror.apply(puts(*[a_machine(machine) for machine in listed]))
        self._came = 0

    def place(self, wishes: Sequence[Wish]) -> list[dict[str, Any] | None]:
        """Place pods; who is refused is taken away again."""
        pods = [a_wish(wish, self._came + number) for number, wish in enumerate(wishes)]
        self._came += len(wishes)
        self._mirror.apply(puts(*pods))
        self._recorder.steps.clear()
        self._scheduler.cycle()
        binds = {step.name: step for step in self._recorder.steps if isinstance(step, Bind)}
        return [self._bound(pod, binds.get(pod["metadata"]["name"])) for pod in pods]

    def _bound(self, pod: dict[str, Any], bind: Bind | None) -> dict[str, Any] | None:
        if bind is None:
            self.leave(None, pod)
            return None
        pod["spec"]["nodeName"], pod["status"] = bind.node, {"phase": "Running"}
        pod["metadata"]["annotations"] |= bind.annotations
        self._mirror.apply([put(pod)])
        return pod

    def leave(self, _: Wish | None, token: dict[str, Any]) -> None:
        """Take a pod away."""
        meta = token["metadata"]
        self._mirror.apply([Deleted("Pod", meta["namespace"], meta["name"], meta["uid"])])


def a_machine(machine: Machine) -> dict[str, Any]:
    """Return the Node of a machine."""
    cards: dict[str, Any] = {CORE: 100 * machine.cards, MEMORY: CARD_MEMORY * machine.cards}
    cpu, memory = f"{machine.cpu}m", f"{machine.memory}Mi"
    return a_node(machine.name, cpu, memory, 1000, {"model": machine.model}, **cards)


def a_wish(wish: Wish, number: int) -> dict[str, Any]:
    """Return the pod of a wish."""
    wanted: dict[str, Any] = {"cpu": f"{wish.cpu}m", "memory": f"{wish.memory}Mi"}
    if wish.share == CARD:
        wanted[CORE] = 100 * wish.cards
    elif wish.cards:
        wanted |= {CORE: wish.share // 10, MEMORY: max(256, CARD_MEMORY * wish.share // CARD)}
    spec: dict[str, Any] = {}
    if wish.models:
        terms = [{"matchExpressions": [{"key": "model", "operator": "In", "values": list(wish.models)}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_767_225_600 + number))
    return a_pod(f"p{number:06d}", created=at, spec=spec, **wanted)


def a_placer(by: str, listed: Sequence[Machine], rows: Sequence[Wish]) -> Placer:
    """Return who places."""
    if by in VOLSCHED:
        return ByVolsched(VOLSCHED[by], listed)
    return ByRule(FGD(listed, rows) if by == "fgd" else BestFit(listed, rows))


def fill(by: str, listed: Sequence[Machine], rows: Sequence[Wish], seed: int) -> dict[int, float]:
    """Return the percent of cards that are not given out, by the percent that arrived."""
    capacity = CARD * sum(machine.cards for machine in listed)
    came = list(arrivals(rows, MARKS[-1] / 100 * capacity, seed))
    tokens = a_placer(by, listed, rows).place(came)
    arrived = given = 0
    seen: dict[int, list[float]] = {}
    for wish, token in zip(came, tokens, strict=True):
        arrived += wish.demand
        given += wish.demand if token is not None else 0
        seen.setdefault(round(100 * arrived / capacity), []).append(100 - 100 * given / capacity)
    return {mark: statistics.mean(seen[mark]) for mark in MARKS if mark in seen}


@dataclass(slots=True)
class Churn:
    """What came of pods that come and leave: percent idle at each arrival that counts, and refusals by sort of pod."""

    idle: list[float] = field(default_factory=list)
    came: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def percent(self, sort: str) -> float:
        """Return the percent of pods of a sort that were refused."""
        return 100 * self.refused[sort] / self.came[sort] if self.came[sort] else 0.0


def churn(by: str, listed: Sequence[Machine], rows: Sequence[Wish], seed: int, count: int) -> Churn:
    """Let so many pods come and leave; the last 60 percent of arrivals count."""
    rng, found = random.Random(seed), Churn()  # noqa: S311 - a bench
    capacity, placer = CARD * sum(machine.cards for machine in listed), a_placer(by, listed, rows)
    stay = capacity / statistics.mean(wish.demand for wish in rows)
    leaving: list[tuple[float, int, Wish, Any]] = []
    given, said = 0, time.monotonic()
    for number in range(count):
        while leaving and leaving[0][0] <= number:
            _, _, gone, held = heapq.heappop(leaving)
            placer.leave(gone, held)
            given -= gone.demand
        wish, until = rng.choice(rows), number + rng.expovariate(1 / stay)
        token = placer.place([wish])[0]
        if token is not None:
            heapq.heappush(leaving, (until, number, wish, token))
            given += wish.demand
        if number >= _FIRST_COUNTED * count:
            _count(found, wish, is_refused=token is None, idle=100 - 100 * given / capacity)
        if time.monotonic() - said > _SAY:
            said = time.monotonic()
            print(f"  {by}, seed {seed}: {number:,} of {count:,} pods came", file=sys.stderr, flush=True)
    return found


def _count(found: Churn, wish: Wish, *, is_refused: bool, idle: float) -> None:
    sort = "none" if not wish.cards else "several" if wish.cards > 1 else "one" if wish.share == CARD else "part"
    found.idle.append(idle)
    found.came[sort] += 1
    found.refused[sort] += is_refused


def rows_of(given: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table."""
    for name in given.lists:
        shown, rows = wishes(given.trace, name)
        for by in given.by:
            for mode, run in (("fill", _fills), ("churn", _churns)):
                if mode in given.modes:
                    watch = Stopwatch()
                    figures = run(by, rows, given)
                    seconds = round(watch.cpu() / len(given.seeds), 1)
                    yield {"list": shown, "mode": mode, "by": by, **figures, "seconds": seconds}


def _fills(by: str, rows: Sequence[Wish], given: Any) -> dict[str, Any]:
    found = [fill(by, machines(given.trace, seed)[: given.nodes], rows, seed) for seed in given.seeds]
    return {f"at_{mark}": _median(one.get(mark) for one in found) for mark in MARKS}


def _churns(by: str, rows: Sequence[Wish], given: Any) -> dict[str, Any]:
    found = [churn(by, machines(given.trace, seed)[: given.nodes], rows, seed, given.arrivals) for seed in given.seeds]
    idle = _median(statistics.mean(one.idle) for one in found)
    return {"idle": idle, **{sort: _median(one.percent(sort) for one in found) for sort in ("several", "one", "part")}}


def _median(numbers: Iterator[float | None] | Any) -> float | None:
    known = [number for number in numbers if number is not None]
    return round(statistics.median(known), 2) if known else None


def main() -> None:
    """Run the bench."""
    options = parser(__doc__)
    options.add_argument("--trace", type=Path, required=True, help="the folder with the trace's files")
    options.add_argument("--lists", nargs="+", default=["default", "gpuspec33", "gpushare100", "multigpu50", "cpu250"])
    options.add_argument("--by", nargs="+", choices=(*VOLSCHED, *RULES), default=[*VOLSCHED, *RULES])
    options.add_argument("--modes", nargs="+", choices=("fill", "churn"), default=["fill", "churn"])
    options.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44, 45, 46])
    options.add_argument("--arrivals", type=int, default=40_000, help="pods of a churn")
    options.add_argument("--nodes", type=int, default=None, help="of the trace's nodes only so many")
    given = options.parse_args()
    report = Report("packing", "percent of cards that are not given out, medians over the seeds")
    for row in rows_of(given):
        report.add(**row)
    report.note("at_95, at_100, at_130: when pods for so many percent of the cards have arrived, nobody leaves")
    report.note("idle: mean while pods come and leave; several, one, part: percent refused of pods with such cards")
    report.note("seconds: of CPU for a seed; a star behind a list: derived from the list default")
    report.finish()


if __name__ == "__main__":
    main()
