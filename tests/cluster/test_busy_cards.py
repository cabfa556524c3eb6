"""Hundreds of pods with parts of cards come and go, many at a time, on a real control plane: no card gives too much."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import Json, eventually
from tests.cluster.test_shared_cards import GIB, INDEX, MULTIPLE, NATIVE, POLICY, Rack, amounts, cards, rack
from tools.controlplane import a_pod
from tools.controlplane.stages import RUN_FOR
from tools.patience import PATIENCE

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

__all__ = ["rack"]

WAVES, ARRIVALS = 10, 40
NODES, CARDS = 4, 4
LIMITS = {"core": 100, "memory": GIB, "containers": 16}
"""What one card has; the last as `predicate.MGPUMaxContainersPerCard` has it by default."""
LAST = "nobody-comes-after"
WATCHED_SECONDS = 20
"""How long one watch lasts: whoever follows looks so often whether the test is over."""

Taken = Counter[tuple[str, str, str]]
"""So much of a node's card's core, memory or containers."""


class Ask(NamedTuple):
    """What a container wants: percent and MiB of each of so many cards. One hundred percent is the card, alone."""

    core: int
    memory: int
    cards: int = 1


def an_ask(chance: random.Random) -> Ask:
    """Mostly a part of one card, at times an equal part of some, or whole ones."""
    match chance.randrange(6):
        case 0:
            return Ask(100, 0, chance.randint(1, 2))
        case 1:
            return Ask(chance.randint(10, 50), chance.randint(256, 8192), chance.randint(2, 3))
        case _:
            return Ask(chance.randint(5, 70), chance.randint(256, 12_000))


class Recount:
    """What cards give, added up from nothing but what pods ask for and their annotations, at each change of a pod."""

    def __init__(self, asks: dict[str, list[Ask]]) -> None:
        self._asks = asks
        self._given: dict[str, Taken] = {}
        self.is_over = threading.Event()
        self.faults: list[str] = []
        self.most: Taken = Counter()
        self.were_placed: set[str] = set()

    def follow(self, watch: Callable[[str], Iterator[Json]], version: str) -> None:
        """Add up until the last pod has come, or the test is over. Where a watch ends, the next one begins."""
        while not self.is_over.is_set():
            for event in watch(version):
                meta = event["object"]["metadata"]
                if meta["name"] == LAST:
                    return
                self._take_in(meta["name"], event["object"], is_there=event["type"] != "DELETED")
                self._add_up(f"{event['type']} {meta['name']}")
                version = meta["resourceVersion"]

    def _take_in(self, name: str, pod: Json, *, is_there: bool) -> None:
        self._given.pop(name, None)
        if is_there and holds_cards(pod):
            self.were_placed.add(name)
            self._given[name] = self._taken_by(pod)

    def _taken_by(self, pod: Json) -> Taken:
        taken: Taken = Counter()
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        for number, ask in enumerate(self._asks[name]):
            chosen = pod["metadata"]["annotations"][f"{INDEX}c{number}"].split(",")
            if len(set(chosen)) != ask.cards or not set(chosen) <= {str(card) for card in range(CARDS)}:
                self.faults.append(f"{name} has cards {chosen} for {ask}")
            for card in chosen:
                taken[node, card, "containers"] += 1
                taken[node, card, "core"] += ask.core
                taken[node, card, "memory"] += GIB if ask.core == 100 else ask.memory
        return taken

    def _add_up(self, what: str) -> None:
        total: Taken = Counter()
        for taken in self._given.values():
            total.update(taken)
        self.most |= total
        self.faults.extend(f"{what}: {card} gives {given}" for card, given in total.items() if given > LIMITS[card[2]])


def holds_cards(pod: Json) -> bool:
    """Tell whether a pod has a node and has not ended; one that is being deleted has its cards until it is gone."""
    return "nodeName" in pod["spec"] and pod["status"]["phase"] not in {"Succeeded", "Failed"}


class Traffic:
    """Pods that come and go as a seed says, in waves, the scheduler being busy with them meanwhile."""

    def __init__(self, rack: Rack, seed: int) -> None:
        self._rack = rack
        self._chance = random.Random(seed)  # noqa: S311 - the same traffic each time
        self._there: list[str] = []
        self.asks: dict[str, list[Ask]] = {}

    def wave(self) -> None:
        """Let some come and about as many go, in any order."""
        chance = self._chance
        going = chance.sample(self._there, min(len(self._there), chance.randint(ARRIVALS // 2, 2 * ARRIVALS)))
        coming = [f"p{len(self.asks) + number}" for number in range(ARRIVALS)]
        steps = [self._departure(name) for name in going] + [self._arrival(name) for name in coming]
        chance.shuffle(steps)
        self._rack.api.for_each(lambda step: step(), steps)
        self._there = sorted({*self._there, *coming} - {*going})

    def _arrival(self, name: str) -> Callable[[], object]:
        asks = self.asks[name] = [an_ask(self._chance) for _ in range(self._chance.choice((1, 1, 1, 2)))]
        pod = self._pod(name, asks)
        if self._chance.random() < 0.2:
            pod["metadata"]["annotations"][RUN_FOR] = f"{self._chance.randint(10, 2000)}ms"
        return lambda: self._rack.make(pod)

    def _pod(self, name: str, asks: list[Ask]) -> Json:
        annotations = {POLICY: NATIVE}
        if any(ask.cards > 1 and ask.core < 100 for ask in asks):
            annotations[MULTIPLE] = ",".join(str(ask.cards) for ask in asks)
        pod = a_pod(name, scheduler=self._rack.installed.name, annotations=annotations)
        pod["spec"]["containers"] = [
            {
                "name": f"c{number}",
                "image": "none",
                "resources": {"limits": amounts(ask.core * ask.cards, ask.memory * ask.cards)},
            }
            for number, ask in enumerate(asks)
        ]
        return pod

    def _departure(self, name: str) -> Callable[[], object]:
        """Half of them are gone at once; the others take a while to stop."""
        path = f"/api/v1/namespaces/{self._rack.namespace}/pods/{name}"
        grace = self._chance.choice((0, None))
        return lambda: self._rack.api.delete(path, grace_seconds=grace)

    def take_all(self) -> None:
        """Let four pods come that want all the cards of a node each."""
        for number in range(NODES):
            self.asks[f"all-{number}"] = [Ask(100, 0, CARDS)]
        self._rack.make(*(self._pod(f"all-{number}", [Ask(100, 0, CARDS)]) for number in range(NODES)))

    def share_all(self) -> int:
        """Let as many pods come as fill every card when four share one; return their number."""
        asks = {f"quarter-{number}": [Ask(25, 256)] for number in range(4 * NODES * CARDS)}
        self.asks.update(asks)
        self._rack.make(*(self._pod(name, ask) for name, ask in asks.items()))
        return len(asks)

    def wait_answered(self) -> None:
        """Wait until every pod has a node, or was told why not."""
        eventually(lambda: all(is_answered(pod) for pod in self._rack.pods().values()), what="every pod has an answer")

    def wait_gone(self) -> None:
        self._rack.api.delete(f"/api/v1/namespaces/{self._rack.namespace}/pods")
        eventually(lambda: not self._rack.pods(), what="all pods are gone")


def is_answered(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return "nodeName" in pod["spec"] or any(item["type"] == "PodScheduled" for item in conditions)


@contextlib.contextmanager
def recounted(rack: Rack, asks: dict[str, list[Ask]]) -> Iterator[Recount]:
    """Recount all that happens to pods within a ``with`` block, in the order in which it happened."""
    path = f"/api/v1/namespaces/{rack.namespace}/pods"
    version = rack.api.get(path)["metadata"]["resourceVersion"]
    recount = Recount(asks)

    def watch(version: str) -> Iterator[Json]:
        return rack.api.watch(path, resource_version=version, timeout_seconds=WATCHED_SECONDS)

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(recount.follow, watch, version)
        try:
            yield recount
            rack.make(a_pod(LAST, scheduler="nobody"))
            following.result(PATIENCE)
        finally:
            recount.is_over.set()


@pytest.mark.no_retry(reason="quota overrun")
def test_no_card_ever_gives_more_than_it_has_while_hundreds_of_pods_come_and_go(
    rack: Rack, make_nodes: MakeNodes
) -> None:
    cards(make_nodes, NODES, NATIVE, each=CARDS)
    rack.start().wait_leading()
    traffic = Traffic(rack, seed=8)

    with recounted(rack, traffic.asks) as recount:
        for _ in range(WAVES):
            traffic.wave()
            traffic.wait_answered()
            assert recount.faults == []
        traffic.wait_gone()
        rack.installed.wait_bound(rack.namespace, traffic.share_all())
        traffic.wait_gone()
        traffic.take_all()
        rack.installed.wait_bound(rack.namespace, NODES)

    assert recount.faults == []
    assert WAVES * ARRIVALS // 3 < len(recount.were_placed) < WAVES * ARRIVALS  # many had cards, and some went without
    assert max(given for (_, _, what), given in recount.most.items() if what == "containers") > 3
