"""Gangs that wait for the same quota, while pods finish, quotas change and nodes come."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.plugins.capacity_card.clusters import A, H, cards, configuration
from tests.properties.lives import Reader, Scenario
from volsched.model.changes import Change
from volsched.model.plan import Bind
from volsched.testing.builders import put

Event = tuple[str, int, int]
events = st.one_of(
    st.tuples(st.just("finish"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("quota"), st.integers(0, 4), st.integers(0, 4)),
    st.tuples(st.just("node"), st.integers(0, 9), st.just(0)),
)


class Queueing(Scenario):
    """Gangs of several sizes in one queue; what is bound never runs, and may have finished."""

    def __init__(self, sizes: list[int], card: str, story: list[Event]) -> None:
        self.configuration, self.sessions = configuration(), 1 + len(story)
        self.told = sizes, card, story
        cluster = cards().cards("a1", A, 4).cards("h1", H, 4).quota("q", {A: 2, H: 1})
        for index, size in enumerate(sizes):
            cluster.gang(f"g{index}", size, card=card, minimum=size, created=index)
        self.objects = {item["metadata"]["name"]: item for item in cluster.objects if item["kind"] == "Pod"}
        self.bound: dict[str, str] = {}
        self.coming: list[Change] = cluster.changes()
        self.story = iter([("node", 0, 0), *story])

    def __repr__(self) -> str:
        return f"Queueing{self.told}"

    def changes(self) -> list[Change]:
        came, self.coming = self.coming, []
        return [*came, *self._happens(*next(self.story))]

    def _happens(self, what: str, one: int, two: int) -> list[Change]:
        if what == "finish":
            return self._finishes(sorted(self.bound)[one % len(self.bound)]) if self.bound else []
        more = cards().quota("q", {A: one, H: two}) if what == "quota" else cards().cards(f"a{one}", A, 1 + one % 3)
        return [put(item) for item in more.objects if item["metadata"]["name"] != "default"]

    def _finishes(self, name: str) -> list[Change]:
        pod, node = self.objects[name], self.bound.pop(name)
        return [put({**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Succeeded"}})]

    def carry_out(self, reader: Reader) -> None:
        self.bound |= {step.name: step.node for step in reader.steps[-1] if isinstance(step, Bind)}


def queueing() -> st.SearchStrategy[Queueing]:
    sizes = st.lists(st.integers(1, 3), min_size=2, max_size=7)
    return st.builds(Queueing, sizes, st.sampled_from([A, f"{A}|{H}"]), st.lists(events))
