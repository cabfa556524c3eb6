"""Random clusters in which pods share claims for devices, or have some of their own, and claims change and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from hypothesis import strategies as st

from tests.framework.dra.worlds import claim, device, exactly, held, part
from tests.plugins.predicates.test_devices import CONFIGURATION, a_world, cards, using
from tests.properties.lives import Property, Reader, Scenario
from volsched.model.changes import BindFailed, Bound, Change, Deleted, Put
from volsched.model.plan import Bind, PlanStep
from volsched.testing.builders import put

NODES = ("n1", "n2", "n3")


def shown(name: str, version: int, count: int = 1) -> Put:
    manifest = claim(name, exactly(count=count))
    manifest["metadata"] |= {"resourceVersion": str(version)}
    return put(manifest)


def taken(name: str, version: int, node: str, *devices: str) -> Put:
    """Another scheduler has given a claim devices of a node."""
    manifest = held(name, *devices, pool=node)
    manifest["metadata"]["resourceVersion"] = str(version)
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    manifest["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": terms}
    return put(manifest)


# -- claims that change -----------------------------------------------------------------------------------------------

HAPPENINGS: list[Callable[[int, int], Change]] = [
    lambda number, version: shown(f"c{number}", version, 1 + number % 2),
    lambda number, version: shown(f"c{number}", version, 2),
    lambda number, version: taken(f"c{number}", version, NODES[number % 3], "d1"),
    lambda number, version: taken(f"foreign-{number}", version, NODES[number % 3], "d2"),
    lambda number, version: Deleted("ResourceClaim", "default", f"foreign-{number}", ""),
    lambda number, version: Deleted("ResourceClaim", "default", f"c{number}", ""),
    lambda number, version: put(part(f"s-{NODES[number % 3]}", [device("d1")], node=NODES[number % 3],
                                            pool=NODES[number % 3])),
]  # fmt: skip
Chapter = list[tuple[int, int]]


class Sharing(Scenario):
    """Jobs of pods that name some of six claims, by number; of what is bound, one claim of each pod is seen."""

    configuration = CONFIGURATION

    def __init__(self, jobs: list[list[int]], chapters: list[Chapter]) -> None:
        self.told = jobs, chapters
        self.sessions, self.version = len(chapters) + 2, 100
        cluster = a_world(*(cards(node, "d1", "d2") for node in NODES), nodes=NODES)
        for number in range(6):
            cluster.add(claim(f"c{number}", exactly(count=1 + number % 2)))
        for number, members in enumerate(jobs):
            cluster.group(f"j{number}", minimum=1 + number % 2)
            for index, one in enumerate(members):
                cluster.pod(f"j{number}-{index}", f"j{number}", cpu="1", spec=using(f"c{one}"))
        self.coming = cluster.changes()
        self.chapters = iter(chapters)

    def __repr__(self) -> str:
        return f"Sharing{self.told}"

    def changes(self) -> list[Change]:
        return self.coming

    def carry_out(self, reader: Reader) -> None:
        self.version += 100
        chapter = enumerate(next(self.chapters, []))
        happens = [HAPPENINGS[what](number, self.version + 10 + place) for place, (what, number) in chapter]
        self.coming = [*self._echoes(reader.steps[-1]), *happens]

    def _echoes(self, steps: list[PlanStep]) -> Iterator[Change]:
        for step in steps:
            if isinstance(step, Bind):
                yield Bound(step.uid, step.node)
                for write in step.claims[:1]:
                    name = write.claim.partition("/")[2]
                    if write.allocation is not None:
                        results = [result.device for result in write.allocation.devices.results]
                        yield taken(name, self.version, step.node, *results)


def sharing() -> st.SearchStrategy[Sharing]:
    jobs = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=1, max_size=6)
    happening = st.tuples(st.sampled_from(range(len(HAPPENINGS))), st.integers(0, 5))
    return st.builds(Sharing, jobs, st.lists(st.lists(happening, max_size=3), max_size=4))


# -- bindings that fail -----------------------------------------------------------------------------------------------


class Failing(Scenario):
    """Gangs of some size, each pod with a claim of some devices or all with one; then some bindings fail."""

    configuration = CONFIGURATION
    sessions = 2

    def __init__(self, devices: list[int], jobs: list[tuple[int, int, bool]], failing: set[int]) -> None:
        self.told = devices, jobs, failing
        self.failing = failing
        names = tuple(f"n{number}" for number in range(len(devices)))
        slices = [cards(name, *(f"d{i}" for i in range(count))) for name, count in zip(names, devices, strict=True)]
        cluster = a_world(*slices, nodes=names)
        for number, (tasks, count, is_shared) in enumerate(jobs):
            cluster.group(f"j{number}", minimum=tasks)
            for index in range(tasks):
                name = f"c{number}" if is_shared else f"c{number}-{index}"
                if index == 0 or not is_shared:
                    cluster.add(claim(name, exactly(count=count)))
                cluster.pod(f"j{number}-{index}", f"j{number}", cpu="1", spec=using(name))
        self.coming: list[Change] = cluster.changes()

    def __repr__(self) -> str:
        return f"Failing{self.told}"

    def changes(self) -> list[Change]:
        return self.coming

    def carry_out(self, reader: Reader) -> None:
        again = reader.clock.now() + 9
        self.coming = [BindFailed(f"pod-default-j{n}-0", "x", "no", again) for n in sorted(self.failing)]


def failing() -> st.SearchStrategy[Failing]:
    devices = st.lists(st.integers(0, 3), min_size=2, max_size=4)
    jobs = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2), st.booleans()), min_size=1, max_size=5)
    return st.builds(Failing, devices, jobs, st.sets(st.integers(0, 4)))


class GivenOnce(Property):
    """Every device is given once, and a claim is in flight as long as a pod that has a node waits for it."""

    of_every_reader = True

    def after(self, steps: list[PlanStep]) -> None:
        devices = self.cluster.devices
        assert set(devices.usage.taken.values()) <= {1}
        given_out = Counter((r.pool, r.device) for results in devices.usage.held.values() for r in results)
        assert given_out == {(d.pool, d.device): count for d, count in devices.usage.taken.items()}
        placed = {w.uid for t in self.cluster.tasks.values() if t.node is not None for w in t.bind_claims}
        assert set(devices.in_flight) == placed
