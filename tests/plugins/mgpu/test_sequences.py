"""Pods come, are bound, fail, leave; schedulers stop and start: no card ever gives more than it has."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.mgpu.devices import FreeCard
from plugins.mgpu.ledger import CardLedger, Requests
from plugins.mgpu.results import INDEX
from tests.plugins.mgpu.cards import M, asks
from tests.plugins.mgpu.clusters import (
    NATIVE,
    Manifest,
    configuration,
    gone,
    ledger_of,
    node,
    pod,
    rig_of,
)
from volsched.framework.engine.engine import FastEngine
from volsched.model.changes import BindFailed, Change
from volsched.model.plan import Bind
from volsched.testing.builders import Rig, a_group, puts
from volsched.testing.contract import MakeEngine, engine_contract
from volsched.testing.recount import faults, leftovers

pytestmark = pytest.mark.slow(reason="thousands of sessions on random clusters")

CARDS = 3
NODES = ("n1", "n2")
MOST = 3
WANTS = [
    "30/1024",
    "50/8192",
    "60/1024 20/256",
    "1x25/2048 2x40/512",
    "2x50/4096",
    "3x10/256",
    "2x100/0",
    "full1",
    "full2",
    "full1 - 30/1024",
    "10/256 10/256 10/256 10/256",
]


@dataclass
class World:
    """The API server's side: what it shows, and what the annotations of pods with a node come to."""

    rig: Rig
    text: str
    pods: dict[str, Manifest] = field(default_factory=dict)
    wants: dict[str, str] = field(default_factory=dict)
    groups: dict[str, Manifest] = field(default_factory=dict)
    decided: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, policy: str, engine: object = FastEngine) -> World:
        text = configuration(Policy=policy, MaxContainersPerCard=MOST)
        return cls(rig_of(*cls.nodes(), text=text, engine=engine), text)

    @staticmethod
    def nodes() -> list[Manifest]:
        return [node(name, cards=CARDS, policy=NATIVE) for name in NODES]

    def arrive(self, name: str, wants: str, members: int) -> list[Change]:
        """A gang of so many pods."""
        self.groups[name] = a_group(name, minimum=members)
        made = [pod(f"{name}-{i}", wants, policy=NATIVE, group=name) for i in range(members)]
        for found in made:
            self.pods[found["metadata"]["name"]] = found
            self.wants[found["metadata"]["name"]] = wants
        return puts(self.groups[name], *made)

    def leave(self, name: str) -> list[Change]:
        del self.pods[name]
        return [gone(name)]

    def terminate(self, name: str) -> list[Change]:
        """A pod is being deleted and still holds what it holds; one without a node is gone at once."""
        found = self.pods[name]
        if "nodeName" not in found["spec"]:
            return self.leave(name)
        found["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "3"}
        return puts(found)

    def cycle(self, changes: list[Change], shown: bool = True, refused: bool = False) -> None:
        """A session; then what it bound is shown, or not yet, or the API server refuses it."""
        decision = self.rig.cycle(*changes)
        assert faults(self.rig.cluster) == []
        assert leftovers(self.rig.cluster) == []
        for step in decision.steps:
            if not isinstance(step, Bind):
                continue
            if refused:
                self.rig.mirror.apply([BindFailed(step.uid, step.node, "refused", None)])
                self.rig.mirror.apply(self.leave(step.name))
                continue
            found = copy.deepcopy(self.pods[step.name])
            found["metadata"]["annotations"] |= dict(step.annotations)
            found["metadata"]["resourceVersion"] = "2"
            found["spec"]["nodeName"] = step.node
            found["status"]["phase"] = "Running"
            self.pods[step.name] = found
            self.decided.append((step.name, f"{step.node} {sorted(step.annotations.items())}"))
            if shown:
                self.rig.mirror.apply(puts(found))
        self.check()

    def restart(self) -> None:
        """Another scheduler takes over, of what the API server shows."""
        self.rig = rig_of(*self.nodes(), *self.groups.values(), *self.pods.values(), text=self.text)

    def check(self) -> None:
        """Count from the annotations alone."""
        free = {name: [[100, M, 0] for _ in range(CARDS)] for name in NODES}
        for name, found in self.pods.items():
            where = found["spec"].get("nodeName")
            if where is None:
                continue
            for number, part in enumerate(self.wants[name].split(), 1):
                text = found["metadata"]["annotations"].get(f"{INDEX}c{number}")
                if part == "-":
                    assert text is None
                    continue
                (ask,) = asks(part)
                assert text is not None
                chosen = [int(card) for card in text.split(",")]
                assert chosen == sorted(set(chosen))
                assert len(chosen) == ask.cards
                for card in chosen:
                    memory = M if ask.is_whole else ask.memory
                    core, left, instances = free[where][card]
                    free[where][card] = [core - ask.core, left - memory, instances + 1]
        for name, cards in free.items():
            assert all(core >= 0 and left >= 0 and instances <= MOST for core, left, instances in cards), (name, cards)
            assert ledger_of(self.rig).nodes[name].state.cards == tuple(FreeCard(*card) for card in cards)


arrivals = st.tuples(st.just("arrive"), st.sampled_from(WANTS), st.integers(1, 3))
events = st.one_of(
    arrivals,
    arrivals,
    st.tuples(st.sampled_from(["leave", "terminate"]), st.integers(0, 30), st.just(0)),
    st.tuples(st.sampled_from(["restart", "refuse", "unseen"]), st.just(0), st.just(0)),
)


def live(world: World, story: list[tuple[str, object, int]]) -> None:
    """Let everything of a story happen, with a session after each."""
    for number, (event, what, members) in enumerate(story):
        changes: list[Change] = []
        if event == "arrive":
            changes = world.arrive(f"g{number}", str(what), members)
        elif event == "leave" and world.pods:
            changes = world.leave(sorted(world.pods)[int(str(what)) % len(world.pods)])
        elif event == "terminate" and world.pods:
            changes = world.terminate(sorted(world.pods)[int(str(what)) % len(world.pods)])
        elif event == "restart":
            world.restart()
        world.cycle(changes, shown=event != "unseen", refused=event == "refuse")


@settings(max_examples=150)
@given(st.lists(events, max_size=12), st.sampled_from(["binpack", "spread"]))
def test_no_card_gives_more_than_it_has_and_books_are_what_annotations_say(
    story: list[tuple[str, object, int]], policy: str
) -> None:
    world = World.of(policy)

    live(world, [*story, ("unseen", 0, 0)])

    kept, anew = ledger_of(world.rig), CardLedger(world.rig.cluster, Requests())
    assert {n: account.state for n, account in kept.nodes.items()} == {
        n: account.state for n, account in anew.nodes.items()
    }


@settings(max_examples=60)
@given(st.lists(events, max_size=10), st.sampled_from(["binpack", "spread"]))
def test_engines_agree(story: list[tuple[str, object, int]], policy: str) -> None:
    kept = [(event, what, members) for event, what, members in story if event != "restart"]

    def play(engine: MakeEngine) -> object:
        world = World.of(policy, engine)
        live(world, kept)
        return world.decided

    engine_contract(play)


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_a_thousand_random_arrivals_and_departures(policy: str) -> None:
    rng = random.Random(policy)  # noqa: S311 - any order will do
    world = World.of(policy)

    for number in range(1000):
        if len(world.pods) < 4 or (len(world.pods) < 14 and rng.random() < 0.5):
            changes = world.arrive(f"g{number}", rng.choice(WANTS), rng.choice([1, 1, 1, 2]))
        else:
            changes = world.leave(rng.choice(sorted(world.pods)))
        world.cycle(changes, shown=rng.random() < 0.9)
        if number % 250 == 249:
            world.restart()

    assert len(world.decided) > 200
