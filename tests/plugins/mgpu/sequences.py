"""Pods come, are bound, fail, leave; schedulers stop and start: what cards give, counted from annotations alone."""

from __future__ import annotations

import copy

from hypothesis import strategies as st

from plugins.mgpu.devices import FreeCard
from plugins.mgpu.results import INDEX
from plugins.mgpu.usage import NodeCardUsage, Requests
from tests.plugins.mgpu.cards import M, asks
from tests.plugins.mgpu.clusters import NATIVE, Manifest, configuration, gone, node, pod
from tests.properties.lives import Property, Reader, Scenario
from volsched.model.changes import BindFailed, Change
from volsched.model.plan import Bind, PlanStep
from volsched.testing.builders import a_group, puts

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


Event = tuple[str, object, int]


class Shift(Scenario):
    """The API server's side: what it shows, and the annotations of pods with a node."""

    def __init__(self, policy: str, story: list[Event]) -> None:
        self.configuration = configuration(Policy=policy, MaxContainersPerCard=MOST)
        self.policy, self.story, self.sessions = policy, story, len(story)
        self.pods: dict[str, Manifest] = {}
        self.wants: dict[str, str] = {}
        self.groups: dict[str, Manifest] = {}
        self.coming: list[Change] = puts(*self.nodes())
        self.number = -1
        self.bound = 0
        self.shows = True

    def __repr__(self) -> str:
        return f"Shift({self.policy!r}, {self.story})"

    @property
    def event(self) -> str:
        return self.story[self.number][0] if self.number < len(self.story) else ""

    @staticmethod
    def nodes() -> list[Manifest]:
        return [node(name, cards=CARDS, policy=NATIVE) for name in NODES]

    def changes(self) -> list[Change]:
        self.number += 1
        self.takes_over, self.shows = self.event == "restart", self.event != "unseen"
        if self.takes_over:
            self.coming = []
            return puts(*self.nodes(), *self.groups.values(), *self.pods.values())
        came, self.coming = self.coming, []
        return [*came, *self._happens()]

    def _happens(self) -> list[Change]:
        """What comes of the next event before its session."""
        if not self.event:
            return []
        event, what, members = self.story[self.number]
        if event == "arrive":
            return self.arrive(f"g{self.number}", str(what), members)
        if event == "leave" and self.pods:
            return self.leave(sorted(self.pods)[int(str(what)) % len(self.pods)])
        if event == "terminate" and self.pods:
            return self.terminate(sorted(self.pods)[int(str(what)) % len(self.pods)])
        return []

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

    def carry_out(self, reader: Reader) -> None:
        """Show what a session bound, or not yet, or refuse it."""
        for step in reader.steps[-1]:
            if not isinstance(step, Bind):
                continue
            if self.event == "refuse":
                self.coming += [BindFailed(step.uid, step.node, "refused", None), *self.leave(step.name)]
                continue
            self.bound += 1
            found = copy.deepcopy(self.pods[step.name])
            found["metadata"]["annotations"] |= dict(step.annotations)
            found["metadata"]["resourceVersion"] = "2"
            found["spec"]["nodeName"] = step.node
            found["status"]["phase"] = "Running"
            self.pods[step.name] = found
            if self.shows:
                self.coming += puts(found)


arrivals = st.tuples(st.just("arrive"), st.sampled_from(WANTS), st.integers(1, 3))
events = st.one_of(
    arrivals,
    arrivals,
    st.tuples(st.sampled_from(["leave", "terminate"]), st.integers(0, 30), st.just(0)),
    st.tuples(st.sampled_from(["restart", "refuse", "unseen"]), st.just(0), st.just(0)),
)


def shifts(policy: str) -> st.SearchStrategy[Shift]:
    return st.builds(lambda story: Shift(policy, [*story, ("unseen", 0, 0)]), st.lists(events, max_size=12))


class KeepsBooks(Property):
    """No card gives more than it has, and the books are what annotations say."""

    of_every_reader = True
    scenario: Shift

    def _ledger(self) -> NodeCardUsage:
        (found,) = [observer for observer in self.cluster.observers if isinstance(observer, NodeCardUsage)]
        return found

    def before(self) -> None:
        if self.reader.steps:
            self.check()

    def after(self, steps: list[PlanStep]) -> None:
        if self.scenario.event != "refuse":
            self.check()

    def end(self) -> None:
        kept, anew = self._ledger(), NodeCardUsage(self.cluster, Requests())
        assert {n: account.state for n, account in kept.nodes.items()} == {
            n: account.state for n, account in anew.nodes.items()
        }

    def check(self) -> None:
        """Count from the annotations alone."""
        free = {name: [[100, M, 0] for _ in range(CARDS)] for name in NODES}
        for name, found in self.scenario.pods.items():
            where = found["spec"].get("nodeName")
            if where is None:
                continue
            for number, part in enumerate(self.scenario.wants[name].split(), 1):
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
            assert self._ledger().nodes[name].state.cards == tuple(FreeCard(*card) for card in cards)
