"""Random queues that deserve cards, or devices, and take them back: what must hold whatever happens."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any, Literal

import msgspec
from hypothesis import strategies as st

from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tests.plugins.capacity_card.elastic import Elastic, elastic, world
from tests.plugins.predicates.test_devices import using
from tests.properties.lives import Property, Reader, Scenario
from volsched.model.changes import Bound, Change, Deleted
from volsched.model.cluster import Cluster
from volsched.model.plan import Bind, Evict, PlanStep
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import levels
from volsched.model.status import IS_ALLOCATED, TaskStatus
from volsched.testing.builders import put, puts

Kind = Literal["cards", "devices"]
A, H = "A", "H"
LEAVES, ABOVE = ("a", "b", "c"), ("one", "two")
PARENTS = {"a": "one", "b": "one", "c": "two"}
DEVICES = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - {{name: capacity-dra, enableHierarchy: {tree}}}
"""


def a_raw(seed: int) -> dict[str, Any]:
    """A world in which queue a holds most, and the others want some; drawn evenly, so that room is short in most."""
    dice = random.Random(seed)  # noqa: S311 - a game

    def some(most: int, *, often: float = 0.8) -> dict[str, int]:
        return {key: dice.randint(0, most) for key in (A, H) if dice.random() < often}

    def job(queue: str, on: int, least: list[int]) -> dict[str, Any]:
        card = dice.choice([A, A, A, A, H, f"{A}|{H}", f"{H}|{A}"])
        sizes = {"count": dice.randint(1, 4), "each": dice.choice([1, 1, 2]), "least": dice.choice(least)}
        return {"queue": queue, "card": card, "on": on, "stays": dice.randint(0, 9), **sizes}

    nodes = [(dice.choice([A, A, A, H]), dice.randint(1, 4)) for _ in range(dice.randint(1, 3))]
    running = [job(dice.choice("aaaabc"), place % len(nodes), [1, 1, 2, 3]) for place in range(dice.randint(3, 7))]
    waiting = [job(dice.choice("bc"), -1, [1, 1, 1, 2]) for _ in range(dice.randint(1, 3))]
    above = [dice.choice([None, None, some(6)]) for _ in ABOVE]
    return {
        "nodes": nodes,
        "quotas": [{A: dice.randint(3, 8), H: dice.randint(3, 8)} for _ in LEAVES]
        + [some(9, often=0.3) for _ in ABOVE],
        "deserved": [dice.choice([None, None, some(2)]), some(4), some(4), *above],
        "guarantee": [dice.choice([None, None, some(2)]), *(dice.choice([None, None, some(2)]) for _ in "bc")],
        "jobs": [*running, *waiting],
        "tree": dice.random() < 0.4,
    }


class Takings(Scenario):
    """A world in which what is bound runs, and what is evicted goes after a while and is made anew."""

    def __init__(self, seed: int, kind: Kind, goes: float) -> None:
        self.seed, self.raw, self.kind, self.goes = seed, a_raw(seed), kind, goes
        self.sessions, self.dice = 4, random.Random(seed)  # noqa: S311 - a game
        self.world = world()
        self.made: dict[str, tuple[str, dict[str, Any]]] = {}
        self.births = 0
        _queues(self.world, self.raw, kind)
        room = _nodes(self.world, self.raw, kind)
        for number, job in enumerate(self.raw["jobs"]):
            self._job(f"j{number}", job, room)
        tree = self.raw["tree"]
        in_cards = elastic("enqueue, allocate, reclaim, backfill", tree=tree)
        self.configuration = in_cards if kind == "cards" else DEVICES.format(tree=str(tree).lower())
        self.coming: list[Change] = puts(*self.world.objects)

    def __repr__(self) -> str:
        return f"Takings({self.seed}, {self.kind!r}, {self.goes})\n{self.raw}"

    # -- the world ----------------------------------------------------------------------------------------------------

    def _job(self, name: str, job: dict[str, Any], room: dict[str, list[str]]) -> None:
        least = min(job["least"], job["count"])
        node = f"n{job['on']}"
        placed = 0
        start = len(self.world.objects)
        self.world.group(name, job["queue"], least, "Inqueue")
        for index in range(job["count"]):
            taken = self._free(room, node, job)
            placed += bool(taken)
            self._pod(f"{name}-{index}", name, job, node if taken else None, taken)
        if placed >= least:
            self.world.objects[start]["status"]["phase"] = "Running"

    def _free(self, room: dict[str, list[str]], node: str, job: dict[str, Any]) -> list[str]:
        there = room.get(node, [])
        named = job["card"].split("|")[: 1 if self.kind == "devices" else None]
        fits = [name for name in there if name.partition("/")[0] in named][: job["each"]]
        if len(fits) < job["each"]:
            return []
        for name in fits:
            there.remove(name)
        return fits

    def _pod(self, pod: str, group: str, job: dict[str, Any], on: str | None, taken: list[str]) -> None:
        notes = {"volcano.sh/preemptable": "false"} if job["stays"] == 0 else {}
        if self.kind == "cards":
            notes["volcano.sh/card.name"] = job["card"]
            self.world.pod(pod, group, on=on, annotations=_named(group, notes), **{"nvidia.com/gpu": job["each"]})
        else:
            wanted = claim(pod, exactly(cls=job["card"].partition("|")[0], count=job["each"]))
            if on is not None:
                wanted["status"] = _allocated(pod, on, taken)
            self.world.add(wanted)
            self.world.pod(pod, group, on=on, annotations=_named(group, notes), cpu=1, spec=using(pod))
        self.made[pod] = group, job

    # -- what comes of decisions ---------------------------------------------------------------------------------------

    def changes(self) -> list[Change]:
        taken, self.coming = self.coming, []
        return taken

    def carry_out(self, reader: Reader) -> None:
        self.coming += [change for step in reader.steps[-1] if isinstance(step, Bind) for change in self._runs(step)]
        for task in [task for task in reader.cluster.tasks.values() if task.status is TaskStatus.RELEASING]:
            if self.dice.random() < self.goes:
                self._goes(task)

    def _runs(self, step: Bind) -> list[Change]:
        pod = self._object("Pod", step.name)
        pod["spec"]["nodeName"], pod["status"] = step.node, {"phase": "Running"}
        changes: list[Change] = [Bound(step.uid, step.node)]
        for write in step.claims:
            found = self._object("ResourceClaim", write.claim.partition("/")[2])
            assert write.allocation is not None
            found["status"] = {
                "allocation": json.loads(msgspec.json.encode(write.allocation)),
                "reservedFor": [{"resource": "pods", "name": step.name, "uid": step.uid}],
            }
            changes.append(self._put(found))
        return [*changes, self._put(pod)]

    def _goes(self, task: TaskInfo) -> None:
        """The pod is gone, and its claim; its controller makes another one."""
        self.coming.append(Deleted("Pod", "default", task.name, task.uid))
        if self.kind == "devices":
            self.coming.append(Deleted("ResourceClaim", "default", task.name, f"uid-{task.name}"))
        self.births += 1
        group, job = self.made[task.name]
        start = len(self.world.objects)
        self._pod(f"{group}-r{self.births}", group, job, None, [])
        self.coming += [put(item) for item in self.world.objects[start:]]

    def _object(self, kind: str, name: str) -> dict[str, Any]:
        return next(o for o in self.world.objects if o["kind"] == kind and o["metadata"]["name"] == name)

    def _put(self, found: dict[str, Any]) -> Change:
        version = int(found["metadata"].get("resourceVersion", "0")) + 1
        found["metadata"] = {**found["metadata"], "resourceVersion": str(version)}
        return put(json.loads(json.dumps(found)))

    # -- counting without the plugins ---------------------------------------------------------------------------------

    def above(self, cluster: Cluster, queue: str) -> list[str]:
        if not self.raw["tree"]:
            return [queue]
        return [name for name in levels(cluster.queues, queue) if name != "root"]

    def holds(self, task: TaskInfo) -> Counter[str]:
        """What a placed task has, by the label of its node, or of which pool its devices are."""
        job = self.made[task.name][1]
        if self.kind == "devices":
            return Counter({job["card"].partition("|")[0]: job["each"]})
        assert task.node is not None
        return Counter({task.node.labels["nvidia.com/gpu.product"]: job["each"]})

    def held(self, cluster: Cluster) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {name: Counter() for name in (*LEAVES, *ABOVE)}
        for task in cluster.tasks.values():
            if task.job is not None and task.node is not None and IS_ALLOCATED[task.status]:
                for level in self.above(cluster, task.job.queue):
                    found[level].update(self.holds(task))
        return found

    def said(self, queue: str) -> dict[str, int] | None:
        """What a queue deserves, at least its guarantee and at most its quota; None when it does not say."""
        place = (*LEAVES, *ABOVE).index(queue)
        deserved = self.raw["deserved"][place]
        kept = self.raw["guarantee"][place] if place < len(LEAVES) else None
        if not deserved and not kept:
            return None
        due = {key: max((deserved or {}).get(key, 0), (kept or {}).get(key, 0)) for key in (A, H)}
        return {key: min(amount, self.quota(queue, key)) for key, amount in due.items()}

    def quota(self, queue: str, key: str) -> int:
        """The quota of a card is 0 where none is said; of devices, and above, what is not said is not limited."""
        said = self.raw["quotas"][(*LEAVES, *ABOVE).index(queue)]
        return said.get(key, 0 if self.kind == "cards" and (queue in LEAVES or said) else 99)


def _named(group: str, notes: dict[str, str]) -> dict[str, str]:
    return {"scheduling.k8s.io/group-name": group, **notes}


def _queues(found: Elastic, raw: Any, kind: Kind) -> None:
    for place, name in enumerate((*LEAVES, *ABOVE)):
        quota, deserved = raw["quotas"][place], raw["deserved"][place]
        kept = raw["guarantee"][place] if place < len(LEAVES) else None
        spec: dict[str, Any] = {"parent": PARENTS[name]} if name in PARENTS else {}
        if kind == "cards":
            found.due(name, quota or ({} if name in LEAVES else None), deserved or None, kept or None, **spec)
            continue
        blocks = {"capability": quota, "deserved": deserved, "guarantee": kept}
        dra = {block: {key: {"count": n} for key, n in (said or {}).items()} for block, said in blocks.items()}
        found.queue(name, dra=dra, **spec)


def _nodes(found: Elastic, raw: Any, kind: Kind) -> dict[str, list[str]]:
    """Nodes with cards, or devices; each by the name of what it is and a number."""
    room = {}
    for number, (what, count) in enumerate(raw["nodes"]):
        name = f"n{number}"
        room[name] = [f"{what}/{index}" for index in range(count)]
        if kind == "cards":
            found.cards(name, what, count)
        else:
            found.node(name)
            offers = [device(f"d{index}") for index in range(count)]
            found.add(part(f"s-{name}", offers, driver=f"{what}.example.com", node=name, pool=name))
    if kind == "devices":
        for what in (A, H):
            found.add(device_class(what, driver=f"{what}.example.com"))
    return room


def _allocated(pod: str, node: str, taken: list[str]) -> dict[str, Any]:
    driver = f"{taken[0].partition('/')[0]}.example.com"
    results = [
        {"request": "r0", "driver": driver, "pool": node, "device": f"d{name.partition('/')[2]}"} for name in taken
    ]
    users = [{"resource": "pods", "name": pod, "uid": f"pod-default-{pod}"}]
    return {"allocation": {"devices": {"results": results}}, "reservedFor": users}


def takings(kind: Kind) -> st.SearchStrategy[Takings]:
    return st.builds(Takings, st.integers(0, 1 << 30), st.just(kind), st.sampled_from([0.5, 0.7, 1.0]))


class TakesWhatItDeserves(Property):
    """Quotas hold; only what is deserved is taken, and only from what is beyond."""

    scenario: Takings

    def before(self) -> None:
        tasks = self.cluster.tasks.values()
        self.had = self.scenario.held(self.cluster)
        self.where = {task.uid: self.scenario.holds(task) for task in tasks if task.node is not None}

    def after(self, steps: list[PlanStep]) -> None:
        held = self.scenario.held(self.cluster)
        for queue, cards in held.items():
            for key, amount in cards.items():
                assert amount <= max(self.scenario.quota(queue, key), self.had[queue][key]), (queue, key)
        evictions = [step for step in steps if isinstance(step, Evict)]
        for step in evictions:
            preemptor = next(task for task in self.cluster.tasks.values() if task.key == step.preemptor)
            self._is_lawful(self.cluster.tasks[step.uid], preemptor, held)
        self.reader.seen["taken"] += bool(evictions)
        self.reader.seen["gangs"] += any("its gang is below" in step.message for step in evictions)

    def _is_lawful(self, victim: TaskInfo, preemptor: TaskInfo, held: dict[str, Counter[str]]) -> None:
        assert victim.job is not None
        assert preemptor.job is not None
        assert victim.job.queue != preemptor.job.queue
        assert victim.spec.preemptable
        assert self.scenario.said(preemptor.job.queue) is not None
        own = set(self.scenario.above(self.cluster, preemptor.job.queue))
        for level in self.scenario.above(self.cluster, victim.job.queue):
            due = self.scenario.said(level) or {}
            for key in self.where[victim.uid] if level not in own else ():
                assert held[level][key] >= min(due.get(key, 0), self.had[level][key])
        assert victim.job.ready_count >= victim.job.spec.min_available or not victim.job.ready_count


class EvictsInNoRing(Property):
    """Evicted pods come back and want in again. Each eviction lessens what is lacking, so evictions end."""

    def __init__(self, scenario: Any, reader: Reader) -> None:
        super().__init__(scenario, reader)
        self.evictions: list[int] = []

    def after(self, steps: list[PlanStep]) -> None:
        self.evictions.append(sum(isinstance(step, Evict) for step in steps))

    def end(self) -> None:
        for _ in range(len(self.evictions), 40):
            self.after(self.go_on())
            if self._is_settled():
                break
        assert not any(self.evictions[20:])
        assert sum(self.evictions) <= 32

    def _is_settled(self) -> bool:
        """Whether three sessions in a row placed and evicted nothing, and nothing is on its way."""
        quiet = [not any(isinstance(step, Bind | Evict) for step in steps) for steps in self.reader.steps[-3:]]
        leaving = any(task.status is TaskStatus.RELEASING for task in self.cluster.tasks.values())
        return all(quiet) and not leaving and not self.scenario.coming
