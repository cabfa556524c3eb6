"""Random clusters in which pods are evicted and really go, over several sessions: what must hold whatever happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from plugins.proportion.shares import side_by_side
from tests.actions.evictions import World, protected
from tests.actions.rigs import conf
from tests.properties.lives import Property, Reader, Scenario
from volsched.model.changes import Bound, Change, Deleted, EvictFailed
from volsched.model.plan import Bind, Evict, PlanStep
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.quota.demand import QueueDemands
from volsched.testing.builders import ClusterBuilder, put, puts

QUEUES = ("a", "b", "c")
CONFIGURATIONS = {
    "preempt": conf("enqueue, allocate, preempt, backfill", "priority gang conformance", "predicates nodeorder"),
    "fair preempt": conf("allocate, preempt, backfill", "priority conformance drf", "predicates proportion"),
    "reclaim": conf("reclaim, allocate, backfill", "gang conformance proportion", "predicates nodeorder"),
    "both": conf("allocate, backfill, preempt, reclaim", "priority gang conformance proportion", "predicates"),
}
RECLAIMING = ("reclaim", "both")

Standing = Mapping[str, tuple[TaskStatus, str]]
"""Status and node of every task."""


class Play(Scenario):
    """The world beside a scheduler: what it binds runs, what it evicts goes after a while, or does not.

    Each victim goes with a likelihood, or its eviction is refused with another one; ``arrivals`` come before a session.
    """

    def __init__(
        self,
        world: ClusterBuilder,
        configuration: str,
        sessions: int = 4,
        *,
        goes: float = 1.0,
        refused: float = 0.0,
        arrivals: Sequence[ClusterBuilder] = (),
        told: object = None,
    ) -> None:
        self.configuration, self.sessions, self.told = configuration, sessions, told
        self.goes, self.refused = goes, refused
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.leaving: list[Evict] = []
        self.coming: list[Change] = []
        self.number = 0
        self.arrivals = iter([world, *arrivals])

    def __repr__(self) -> str:
        return f"{self.configuration}\n{self.sessions} sessions, {self.goes} go, {self.refused} refused\n{self.told}"

    def changes(self) -> list[Change]:
        dice, self.number = Random(self.number), self.number + 1  # noqa: S311 - a game
        came, self.coming = self.coming, []
        leaving, self.leaving = self.leaving, []
        for step in leaving:
            roll = dice.random()
            if roll < self.refused:
                came.append(EvictFailed(step.uid, "refused"))
            elif roll < self.refused + self.goes:
                came.append(Deleted("Pod", step.namespace, step.name, step.uid))
            else:
                self.leaving.append(step)
        return [*came, *self.arrive(next(self.arrivals, ClusterBuilder([])))]

    def arrive(self, world: ClusterBuilder) -> list[Change]:
        """What a world has, without the priority classes that are there already."""
        is_first = not self.objects
        arriving = [item for item in world.objects if is_first or item["kind"] != "PriorityClass"]
        self.objects.update({(item["kind"], item["metadata"]["name"]): item for item in arriving})
        return puts(*arriving)

    def carry_out(self, reader: Reader) -> None:
        for step in reader.steps[-1]:
            match step:
                case Bind():
                    self.coming += [Bound(step.uid, step.node), self._runs(step)]
                case Evict():
                    self.leaving.append(step)

    def _runs(self, step: Bind) -> Change:
        """The pod on its node, with the annotations that its Binding carried."""
        pod = self.objects["Pod", step.name]
        notes = {**pod["metadata"].get("annotations", {}), **step.annotations}
        meta = {**pod["metadata"], "annotations": notes, "resourceVersion": f"{self.number + 1}"}
        pod = {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": step.node}, "status": {"phase": "Running"}}
        return put(pod)


def victims(reader: Reader, steps: list[PlanStep]) -> list[tuple[Evict, TaskInfo, TaskInfo]]:
    """Each eviction with the victim and whom it is for."""
    tasks = {task.key: task for task in reader.cluster.tasks.values()}
    found = [step for step in steps if isinstance(step, Evict)]
    return [(step, reader.cluster.tasks[step.uid], tasks[step.preemptor]) for step in found]


# -- worlds -----------------------------------------------------------------------------------------------------------


def a_raw(dice: Random) -> dict[str, Any]:
    """A world in which some jobs run and more important ones, or those of other queues, want in."""

    def pod() -> dict[str, int]:
        return {name: dice.randint(1, most) for name, most in (("cpu", 3), ("memory", 2)) if dice.random() < 0.7}

    def job(queues: str, levels: Sequence[str], on: int) -> dict[str, Any]:
        return {
            "queue": dice.choice(queues),
            "level": dice.choice(levels),
            "pods": [pod() for _ in range(dice.randint(1, 4))],
            "least": dice.choice([0, 0, 1, 1, 2, 4]),
            "on": on,
            "preemptable": dice.choice([None, None, None, None, "false"]),
            "app": dice.choice("xy"),
            "away": dice.random() < 0.3,
        }

    nodes = [dice.randint(1, 5) for _ in range(dice.randint(1, 3))]
    count = dice.randint(len(nodes), 2 * len(nodes) + 1)
    running = [job("aaab", ["low", "low", "mid"], place % len(nodes)) for place in range(count)]
    waiting = [job("aabc", ["mid", "high", "high"], -1) for _ in range(dice.randint(1, 4))]
    return {
        "nodes": nodes,
        "weights": [dice.randint(1, 3) for _ in QUEUES],
        "reclaimable": [True, dice.random() < 0.5, True],
        "jobs": [*running, *waiting],
        "budget": dice.choice([None, 0, 1, 2]),
    }


raws = st.integers(0, 1 << 30).map(lambda seed: a_raw(Random(seed)))  # noqa: S311 - a game


def crowded(raw: dict[str, Any]) -> dict[str, Any]:
    """The same with one queue's jobs on the nodes and those of the others waiting for what they deserve."""
    nodes, jobs = len(raw["nodes"]), raw["jobs"]
    holds = [
        {**job, "queue": "a", "on": place % nodes, "least": 0, "preemptable": None} for place, job in enumerate(jobs)
    ]
    wants = [{**job, "queue": "b" if job["queue"] == "a" else job["queue"], "on": -1, "least": 1} for job in jobs]
    return {**raw, "nodes": [cpu + 2 for cpu in raw["nodes"]], "jobs": [*holds, *wants]}


def build(raw: dict[str, Any]) -> World:
    """A world; pods that do not fit on the node where they are said to run, wait."""
    world = World()
    room = {}
    for index, cpu in enumerate(raw["nodes"]):
        world.node(f"n{index}", cpu=cpu, memory=cpu, pods=6)
        room[f"n{index}"] = [cpu, cpu, 6]
    for name, weight, reclaimable in zip(QUEUES, raw["weights"], raw["reclaimable"], strict=True):
        world.queue(name, weight=weight, reclaimable=reclaimable)
    for index, job in enumerate(raw["jobs"]):
        _job(world, room, f"j{index}", job)
    if raw["budget"] is not None:
        world.budget("pdb", raw["budget"], app="x")
    return world


def _job(world: World, room: dict[str, list[int]], name: str, job: dict[str, Any]) -> None:
    least = min(job["least"], len(job["pods"]))
    node = f"n{job['on']}"
    placed = []
    for requests in job["pods"]:
        need = [requests.get("cpu", 0), requests.get("memory", 0), 1]
        fits = node in room and all(left >= amount for left, amount in zip(room[node], need, strict=True))
        if fits:
            room[node] = [left - amount for left, amount in zip(room[node], need, strict=True)]
        placed.append(fits)
    phase = "Running" if sum(placed) >= least and any(placed) else "Inqueue"
    world.group(name, job["queue"], least, phase, priorityClassName=job["level"])
    notes = {"volcano.sh/preemptable": job["preemptable"]} if job["preemptable"] else {}
    spec: dict[str, Any] = {}
    if job["away"]:
        term = {"labelSelector": {"matchLabels": {"app": "y"}}, "topologyKey": "kubernetes.io/hostname"}
        preferred = {"weight": 5, "podAffinityTerm": term}
        spec = {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}}
    for place, (requests, runs) in enumerate(zip(job["pods"], placed, strict=True)):
        labels = {"app": job["app"]}
        world.member(
            f"{name}-{place}",
            name,
            job["level"],
            spec,
            on=node if runs else None,
            annotations=notes,
            labels=labels,
            **requests,
        )


def plays(name: str) -> st.SearchStrategy[Play]:
    """Worlds that one of the configurations decides while victims go."""
    return st.builds(
        lambda raw, goes: Play(build(raw), CONFIGURATIONS[name], 5, goes=goes, refused=0.1, told=raw),
        raws,
        st.floats(0.3, 1.0),
    )


def with_budgets(name: str) -> st.SearchStrategy[Play]:
    """Worlds whose budget lets so many go and is never written anew: what it allows is allowed once."""
    return st.builds(
        lambda raw, allowed: Play(
            build({**raw, "budget": allowed}),
            protected(CONFIGURATIONS[name]),
            goes=0.0,
            told={**raw, "budget": allowed},
        ),
        raws,
        st.integers(0, 3),
    )


def leaving_the_deserved() -> st.SearchStrategy[Play]:
    """Worlds in which one queue holds most, and reclaim was told to bring no queue below its due."""
    told = "name: proportion\n    arguments: {reclaimLeavesDeserved: true}"
    text = CONFIGURATIONS["reclaim"].replace("name: proportion", told)
    return raws.map(lambda raw: Play(build(crowded(raw)), text, goes=0.6, told=raw))


# -- properties -------------------------------------------------------------------------------------------------------


class LawfulVictims(Property):
    """Only lawful victims go, and none in vain."""

    def before(self) -> None:
        self.stood = {
            uid: (task.status, task.node.name if task.node else "") for uid, task in self.cluster.tasks.items()
        }

    def after(self, steps: list[PlanStep]) -> None:
        found = victims(self.reader, steps)
        gang = "gang" in self.scenario.configuration
        for step, victim, preemptor in found:
            _is_lawful(self.reader, self.stood, step, victim, preemptor)
        for preemptor in {preemptor.uid: preemptor for _, _, preemptor in found}.values():
            _has_room(self.reader, preemptor, gang=gang)
        if gang:
            _gangs_stay_whole([victim for _, victim, _ in found])


def _is_lawful(reader: Reader, stood: Standing, step: Evict, victim: TaskInfo, preemptor: TaskInfo) -> None:
    mine, theirs = preemptor.job, victim.job
    assert mine is not None
    assert theirs is not None
    status, node = stood[victim.uid]
    assert victim.spec.preemptable
    assert preemptor.spec.preempts
    assert node == preemptor.nominated
    if step.action == "preempt":
        assert status in (TaskStatus.RUNNING, TaskStatus.BOUND)
        assert mine.queue == theirs.queue
        if mine is theirs:
            assert victim.spec.priority < preemptor.spec.priority
        else:
            assert theirs.priority < mine.priority
    else:
        assert status in (TaskStatus.RUNNING, TaskStatus.BOUND)
        assert mine.queue != theirs.queue
        assert reader.cluster.queues[theirs.queue].spec.reclaimable


def _has_room(reader: Reader, preemptor: TaskInfo, *, gang: bool) -> None:
    """The room is promised; with the gang plugin, to as many as start together."""
    job = preemptor.job
    assert job is not None
    assert preemptor.nominated in reader.cluster.nodes
    if gang:
        promised = sum(1 for task in job.waiting.values() if task.nominated or task.best_effort)
        assert job.ready_count + promised >= job.spec.min_available
    node = reader.cluster.nodes[preemptor.nominated]
    nominated = [task for task in reader.cluster.nominated.values() if task.nominated == node.name]
    for column, most in enumerate(node.allocatable):
        wanted = sum(amount for task in nominated for c, amount in task.charge if c == column)
        if most:  # the other columns are for scores only
            assert node.used[column] - node.releasing[column] + wanted <= most


def _gangs_stay_whole(victims: list[TaskInfo]) -> None:
    for job in {victim.job.key: victim.job for victim in victims if victim.job is not None}.values():
        assert job.ready_count >= job.spec.min_available


class KeepsBudget(Property):
    """No budget is broken when told so."""

    def __init__(self, scenario: Any, reader: Reader) -> None:
        super().__init__(scenario, reader)
        self.gone: set[str] = set()

    def after(self, steps: list[PlanStep]) -> None:
        self.gone |= {victim.uid for _, victim, _ in victims(self.reader, steps) if victim.spec.labels["app"] == "x"}
        assert len(self.gone) <= self.scenario.told["budget"]


class Dues(Property):
    """What every queue deserved and held when the session began."""

    def before(self) -> None:
        divided = side_by_side(self.cluster, QueueDemands(self.cluster).queues())
        self.due = {queue: dict(divided[queue].deserved) if queue in divided else {} for queue in self.cluster.queues}
        self.held = {queue: dict(info.allocated) for queue, info in self.cluster.queues.items()}


class LeavesDeserved(Dues):
    """Reclaim brings no queue below its due when told so."""

    def after(self, steps: list[PlanStep]) -> None:
        for _, victim, _ in victims(self.reader, steps):
            assert victim.job is not None
            queue = self.cluster.queues[victim.job.queue]
            promised = [t for t in self.cluster.nominated.values() if t.job is not None and t.job.queue == queue.name]
            for resource in victim.template.request:
                held = queue.allocated.get(resource, 0) + sum(t.template.request.get(resource, 0) for t in promised)
                assert held >= self.due[queue.name].get(resource, 0)


class TakesFromTheRich(Dues):
    """Reclaim takes only from queues that hold more than their due."""

    def after(self, steps: list[PlanStep]) -> None:
        for step, victim, preemptor in victims(self.reader, steps):
            if step.action != "reclaim":
                continue
            assert victim.job is not None
            assert preemptor.job is not None
            queue = victim.job.queue
            bound_since = self.cluster.queues[queue].allocated  # placed in this session, before or after
            had = self.held[queue]
            left = {name: max(had.get(name, 0), bound_since.get(name, 0)) for name in {**had, **bound_since}}
            assert any(amount > self.due[queue].get(resource, 0) for resource, amount in left.items())
