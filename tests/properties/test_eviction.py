"""Random clusters in which pods are evicted and really go, over several sessions: what must hold whatever happens."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.proportion.plugin import FairShares
from tests.actions.evictions import World, protected
from tests.actions.rigs import conf
from volsched.framework.accounts.queue_demand import ACCOUNT, QueueDemands
from volsched.framework.config.configuration import PluginOption
from volsched.framework.engine.engine import FastEngine
from volsched.framework.registration import Registrar
from volsched.model.changes import Bound, Change, EvictFailed, Gone
from volsched.model.plan import Bind, Evict
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.scheduler import Profile
from volsched.testing.builders import Rig, a_rig, put, puts
from volsched.testing.contract import MakeEngine, engine_contract
from volsched.testing.recount import faults, leftovers

pytestmark = pytest.mark.slow(reason="thousands of sessions on random clusters")

QUEUES = ("a", "b", "c")
CONFIGURATIONS = {
    "preempt": conf("enqueue, allocate, preempt, backfill", "priority gang conformance", "predicates nodeorder"),
    "fair preempt": conf("allocate, preempt, backfill", "priority conformance drf", "predicates proportion"),
    "reclaim": conf("reclaim, allocate, backfill", "gang conformance proportion", "predicates nodeorder"),
    "both": conf("allocate, backfill, preempt, reclaim", "priority gang conformance proportion", "predicates"),
}
RECLAIMING = ("reclaim", "both")


class Judge:
    """A plugin that remembers where every task stood when the session opened."""

    name = "judge"

    def __init__(self) -> None:
        self.running: dict[str, tuple[TaskStatus, str]] = {}

    def on_session_open(self, registrar: Registrar) -> None:
        self.running = {
            uid: (task.status, task.node.name if task.node else "") for uid, task in registrar.cluster.tasks.items()
        }


class Play:
    """A scheduler and the rest of the world: what it binds runs, what it evicts goes after a while, or does not."""

    def __init__(self, world: World, text: str, engine: Any = FastEngine) -> None:
        self.judge = Judge()
        self.rig: Rig = a_rig(world, text, engine)
        profile = self.rig.scheduler.profile
        self.rig.scheduler.profile = Profile(
            profile.configuration, profile.actions, (*profile.plugins, ((PluginOption("judge"), self.judge),))
        )
        self.objects = {(o["kind"], o["metadata"]["name"]): o for o in world.objects}
        self.leaving: list[Evict] = []
        self.coming: list[Change] = []
        self.history: list[dict[str, Any]] = []

    @property
    def cluster(self) -> Any:
        return self.rig.cluster

    def session(self, *changes: Change, goes: float = 1.0, refused: float = 0.0, seed: int = 0) -> list[Any]:
        """One session after what came of earlier ones; each victim goes with a likelihood."""
        dice = random.Random(seed)  # noqa: S311 - a game
        came, self.coming = self.coming, []
        stay = []
        for step in self.leaving:
            roll = dice.random()
            if roll < refused:
                came.append(EvictFailed(step.uid, "refused"))
            elif roll < refused + goes:
                came.append(Gone("Pod", step.namespace, step.name, step.uid))
            else:
                stay.append(step)
        decision = self.rig.cycle(*came, *changes)
        assert faults(self.cluster) == []
        assert leftovers(self.cluster) == []
        for step in decision.steps:
            match step:
                case Bind():
                    self.coming += [Bound(step.uid, step.node), self._runs(step)]
                case Evict():
                    stay.append(step)
        self.leaving = stay
        self.history.append(
            {"bound": decision.bindings, "evicted": decision.evictions, "waiting": sorted(decision.waiting)}
        )
        return decision.steps

    def _runs(self, step: Bind) -> Change:
        pod = self.objects["Pod", step.name]
        meta = {**pod["metadata"], "resourceVersion": f"{len(self.history) + 1}"}
        pod = {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": step.node}, "status": {"phase": "Running"}}
        return put(pod)

    def task(self, key: str) -> TaskInfo:
        return next(task for task in self.cluster.tasks.values() if task.key == key)

    def victims(self, steps: list[Any]) -> list[tuple[Evict, TaskInfo, TaskInfo]]:
        """Each eviction with the victim and whom it is for."""
        found = [step for step in steps if isinstance(step, Evict)]
        return [(step, self.cluster.tasks[step.uid], self.task(step.preemptor)) for step in found]


# -- worlds -----------------------------------------------------------------------------------------------------------

pods = st.fixed_dictionaries({}, optional={"cpu": st.sampled_from([1, 2, 3]), "memory": st.sampled_from([1, 2])})
jobs = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(QUEUES),
        "level": st.sampled_from(["low", "mid", "high"]),
        "pods": st.lists(pods, min_size=1, max_size=4),
        "least": st.integers(0, 4),
        "on": st.integers(-2, 3),
        "preemptable": st.sampled_from([None, None, None, "false"]),
        "app": st.sampled_from(["x", "y"]),
        "away": st.booleans(),
    }
)
worlds = st.fixed_dictionaries(
    {
        "nodes": st.lists(st.integers(1, 5), min_size=1, max_size=4),
        "weights": st.tuples(*[st.integers(1, 3)] * 3),
        "reclaimable": st.tuples(st.just(True), st.booleans(), st.just(True)),
        "jobs": st.lists(jobs, min_size=2, max_size=7),
        "budget": st.none() | st.integers(0, 2),
    }
)


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


# -- properties -------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(worlds, st.sampled_from(sorted(CONFIGURATIONS)), st.floats(0.3, 1.0))
def test_the_fast_engine_decides_as_the_naive_one_while_victims_go(raw: Any, name: str, goes: float) -> None:
    def history(engine: MakeEngine) -> object:
        play = Play(build(raw), CONFIGURATIONS[name], engine)
        for number in range(5):
            play.session(goes=goes, refused=0.1, seed=number)
        return play.history

    engine_contract(history)


@settings(max_examples=120)
@given(worlds, st.sampled_from(sorted(CONFIGURATIONS)))
def test_only_lawful_victims_go_and_none_in_vain(raw: Any, name: str) -> None:
    play = Play(build(raw), CONFIGURATIONS[name])

    for number in range(4):
        steps = play.session(goes=0.6, seed=number)
        found = play.victims(steps)
        for step, victim, preemptor in found:
            _is_lawful(play, step, victim, preemptor)
        for preemptor in {preemptor.uid: preemptor for _, _, preemptor in found}.values():
            _has_room(play, preemptor, gang="gang" in CONFIGURATIONS[name])
        if "gang" in CONFIGURATIONS[name]:
            _gangs_stay_whole(play, [victim for _, victim, _ in found])


def _is_lawful(play: Play, step: Evict, victim: TaskInfo, preemptor: TaskInfo) -> None:
    mine, theirs = preemptor.job, victim.job
    assert mine is not None
    assert theirs is not None
    status, node = play.judge.running[victim.uid]
    assert victim.preemptable
    assert preemptor.preempts
    assert node == preemptor.nominated
    if step.action == "preempt":
        assert status in (TaskStatus.RUNNING, TaskStatus.BOUND)
        assert mine.queue == theirs.queue
        if mine is theirs:
            assert victim.priority < preemptor.priority
        else:
            assert theirs.priority < mine.priority
    else:
        assert status is TaskStatus.RUNNING
        assert mine.queue != theirs.queue
        assert play.cluster.queues[theirs.queue].reclaimable
    if preemptor.best_effort:
        assert victim.best_effort


def _has_room(play: Play, preemptor: TaskInfo, *, gang: bool) -> None:
    """The room is promised; with the gang plugin, to as many as start together."""
    job = preemptor.job
    assert job is not None
    assert preemptor.nominated in play.cluster.nodes
    if gang:
        promised = sum(1 for task in job.waiting.values() if task.nominated or task.best_effort)
        assert job.ready_count + promised >= job.min_available
    node = play.cluster.nodes[preemptor.nominated]
    nominated = [task for task in play.cluster.nominated.values() if task.nominated == node.name]
    for column, most in enumerate(node.allocatable):
        wanted = sum(amount for task in nominated for c, amount in task.charge if c == column)
        if most:  # the other columns are for scores only
            assert node.used[column] - node.releasing[column] + wanted <= most


def _gangs_stay_whole(play: Play, victims: list[TaskInfo]) -> None:
    for job in {victim.job.key: victim.job for victim in victims if victim.job is not None}.values():
        assert job.ready_count >= job.min_available


@settings(max_examples=60)
@given(worlds, st.sampled_from(sorted(CONFIGURATIONS)), st.integers(0, 3))
def test_no_budget_is_broken_when_told_so(raw: Any, name: str, allowed: int) -> None:
    play = Play(build({**raw, "budget": allowed}), protected(CONFIGURATIONS[name]))
    gone: set[str] = set()

    for number in range(4):  # its status is never written anew: what it allows is allowed once
        found = play.victims(play.session(goes=0.0, seed=number))
        gone |= {victim.uid for _, victim, _ in found if victim.labels["app"] == "x"}
        assert len(gone) <= allowed


class Dues:
    """A plugin that remembers what every queue deserved and held when the session opened."""

    name = "dues"

    def __init__(self, play: Play) -> None:
        self.due: dict[str, dict[str, Any]] = {}
        self.held: dict[str, dict[str, int]] = {}
        profile = play.rig.scheduler.profile
        play.rig.scheduler.profile = Profile(
            profile.configuration, profile.actions, (*profile.plugins, ((PluginOption("dues"), self),))
        )

    def on_session_open(self, registrar: Registrar) -> None:
        shares = FairShares(registrar.cluster, registrar.account(ACCOUNT, QueueDemands))
        self.due = {queue: dict(shares._deserved(info)) for queue, info in registrar.cluster.queues.items()}
        self.held = {queue: dict(info.allocated) for queue, info in registrar.cluster.queues.items()}


@settings(max_examples=80)
@given(worlds)
def test_reclaim_brings_no_queue_below_its_due_when_told_so(raw: Any) -> None:
    told = "name: proportion\n    arguments: {reclaimLeavesDeserved: true}"
    play = Play(build(crowded(raw)), CONFIGURATIONS["reclaim"].replace("name: proportion", told))
    dues = Dues(play)

    for number in range(4):
        for _, victim, _ in play.victims(play.session(goes=0.6, seed=number)):
            assert victim.job is not None
            queue = play.cluster.queues[victim.job.queue]
            promised = [t for t in play.cluster.nominated.values() if t.job is not None and t.job.queue == queue.name]
            for resource in victim.template.request:
                held = queue.allocated.get(resource, 0) + sum(t.template.request.get(resource, 0) for t in promised)
                assert held >= dues.due[queue.name].get(resource, 0)


@settings(max_examples=80)
@given(worlds, st.sampled_from(RECLAIMING))
def test_reclaim_takes_only_from_queues_that_hold_more_than_their_due(raw: Any, name: str) -> None:
    play = Play(build(raw), CONFIGURATIONS[name].replace("enqueue, ", ""))
    dues = Dues(play)

    for number in range(3):
        found = [v for v in play.victims(play.session(seed=number)) if v[0].action == "reclaim"]
        due, held = dues.due, dues.held
        for _, victim, preemptor in found:
            assert victim.job is not None
            assert preemptor.job is not None
            queue = victim.job.queue
            bound_since = play.cluster.queues[queue].allocated  # placed in this session, before or after
            left = {n: max(held[queue].get(n, 0), bound_since.get(n, 0)) for n in {**held[queue], **bound_since}}
            assert any(amount > due[queue].get(resource, 0) for resource, amount in left.items())


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
@pytest.mark.parametrize("seed", range(3))
def test_no_two_jobs_evict_each_other_in_turns(name: str, seed: int) -> None:
    """Jobs arrive at random and whoever was evicted comes back; once nobody arrives any more, evictions end."""
    dice = random.Random(seed)  # noqa: S311 - a game
    world = World()
    for index in range(4):
        world.node(f"n{index}", cpu=4, memory=8, pods=10)
    for queue, weight in zip(QUEUES, (1, 2, 3), strict=True):
        world.queue(queue, weight=weight)
    play = Play(world, CONFIGURATIONS[name])
    again: list[tuple[str, str, str, int]] = []
    made: dict[str, tuple[str, str, str, int]] = {}
    evictions: list[int] = []
    for number in range(200):
        arriving = World()
        if number < 60 and dice.random() < 0.4:
            level, queue = dice.choice(["low", "mid", "high"]), dice.choice(QUEUES)
            size, cpu = dice.choice([1, 2, 3]), dice.choice([1, 2])
            group = f"g{number}"
            arriving.group(group, queue, dice.choice([0, 1, size]), priorityClassName=level)
            again += [(f"{group}-{place}", group, level, cpu) for place in range(size)]
        for pod, group, level, cpu in again:
            fresh = f"{pod.split('.')[0]}.{number}"
            arriving.member(fresh, group, level, cpu=cpu)
            arriving.objects[-1]["metadata"]["uid"] = fresh
            made[fresh] = (fresh, group, level, cpu)
        again = []
        objects = [o for o in arriving.objects if o["kind"] != "PriorityClass"]
        play.objects.update({(o["kind"], o["metadata"]["name"]): o for o in objects})
        before = {step.name for step in play.leaving}
        steps = play.session(*puts(*objects), goes=0.7, seed=number)
        left = before - {step.name for step in play.leaving}
        again = [made[pod] for pod in sorted(left)]
        evictions.append(sum(isinstance(step, Evict) for step in steps))

    assert any(evictions[:80]) or seed == 2
    assert not any(evictions[120:])
    assert play.cluster.nominated == {}  # whoever was promised room has it
