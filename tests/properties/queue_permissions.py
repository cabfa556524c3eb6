"""No session places, promises, admits, reserves or evicts anything for a namespace that its queue does not let in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.actions.test_queue_permissions import a_queue_for, work
from tests.properties.lives import Property, Reader, Scenario
from tests.properties.stories import a_configuration
from volsched.model.changes import Change
from volsched.model.job import INQUEUE
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.plan import Bind, Evict, LiftGate, PlanStep
from volsched.model.pods.task import ADMISSION_GATE, TaskInfo
from volsched.model.status import TaskStatus
from volsched.quota.demand import QueueDemands
from volsched.testing.builders import a_cluster, a_namespace, puts

SPACES = ("a", "b", "c")
TEAMS = ("red", "blue")
PARENTS = {"leaf": "team", "team": "root", "alone": "root", "root": ""}
RULES = (None, "a", "a, b", '["c"]', "team=red", '{"matchLabels": {"team": "blue"}}', "team!=red", "a,*", "{}", "")


def lets_in(rule: str | None, space: str, team: str | None) -> bool:
    """What each of the rules means, said once more."""
    answers: dict[str | None, bool] = {
        None: True,
        "a": space == "a",
        "a, b": space in ("a", "b"),
        '["c"]': space == "c",
        "team=red": team == "red",
        '{"matchLabels": {"team": "blue"}}': team == "blue",
        "team!=red": team in ("blue", ""),
    }
    return answers.get(rule, False)


@dataclass
class Realm:
    """What is in force: the rules of queues, and the teams of namespaces; None of an unknown one."""

    rules: dict[str, str | None] = field(default_factory=dict)
    teams: dict[str, str | None] = field(default_factory=lambda: dict.fromkeys(SPACES))

    def allows(self, queue: str, space: str) -> bool:
        while queue:
            if not lets_in(self.rules.get(queue), space, self.teams[space]):
                return False
            queue = PARENTS[queue]
        return True


Edict = tuple[str, str, str | None]
"""A queue and its rule from now on, or a namespace and its team."""


def an_edict(dice: Random) -> Edict:
    if dice.random() < 0.6:
        return "queue", dice.choice(sorted(PARENTS)), dice.choice(RULES)
    return "team", dice.choice(SPACES), dice.choice([*TEAMS, ""])


Work = Mapping[str, Any]


def a_work(dice: Random) -> Work:
    return {
        "namespace": dice.choice(SPACES),
        "queue": dice.choice(["leaf", "alone"]),
        "pods": dice.randint(0, 3),
        "minimum": dice.randint(0, 2),
        "phase": dice.choice(["Pending", "Inqueue", "Running"]),
        "at": dice.choice([None, None, "n0"]),
        "cpu": dice.choice(["0", "1", "2"]),
        "group": dice.choice([{}, {"minResources": {"cpu": "2"}}, {"priorityClassName": "high"}]),
        "ungated": dice.choice((False, True)),
        "spec": dice.choice([{}, {}, {"schedulingGates": [{"name": ADMISSION_GATE}]}]),
    }


class Witness(Observer):
    """Sees every pod that is given a place, if only for the rest of a session."""

    def __init__(self, realm: Realm) -> None:
        self._realm = realm
        self.wrongs: list[str] = []

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        chosen = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)
        if task.status in chosen and before not in chosen and not self._may(task):
            self.wrongs.append(f"{task.key} is {task.status.name}")

    def task_ungated(self, task: TaskInfo, *, counts: bool) -> None:
        if counts and not self._may(task):
            self.wrongs.append(f"{task.key} counts")

    def _may(self, task: TaskInfo) -> bool:
        return self._realm.allows(task.queue, task.namespace)


class Reign(Scenario):
    """A small cluster, and what is decreed of its queues and namespaces before each session."""

    def __init__(self, configuration: str, given_work: list[Work], chapters: list[list[Edict]]) -> None:
        self.configuration, self.told = configuration, (given_work, chapters)
        self.sessions = len(chapters)
        self.chapters = iter(chapters)
        self.realm = Realm()
        cluster = a_cluster().node("n0", cpu="2").node("n1", cpu="3")
        high = {"metadata": {"name": "high", "uid": "high"}, "value": 1000}
        cluster.add({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **high})
        for name, parent in PARENTS.items():
            cluster.add(a_queue_for(name, parent=parent))
        for number, one in enumerate(given_work):
            work(cluster, f"w{number}", **one)
        self.coming = cluster.changes()

    def __repr__(self) -> str:
        return f"{self.configuration}\n{self.told}"

    def changes(self) -> list[Change]:
        came, self.coming = self.coming, []
        return [*came, *(change for edict in next(self.chapters, []) for change in self._decree(edict))]

    def _decree(self, edict: Edict) -> list[Change]:
        what, name, said = edict
        if what == "queue":
            self.realm.rules[name] = said
            return puts(a_queue_for(name, said, parent=PARENTS[name]))
        self.realm.teams[name] = said
        return puts(a_namespace(name, **({"team": said} if said else {})))


def a_reign(seed: int) -> Reign:
    dice = Random(seed)  # noqa: S311 - a game
    given_work = [a_work(dice) for _ in range(dice.randint(4, 9))]
    chapters = [[an_edict(dice) for _ in range(dice.choice([0, 0, 1, 3]))] for _ in range(dice.randint(3, 6))]
    return Reign(a_configuration(dice, evicting=dice.random() < 0.5), given_work, [*chapters, []])


def reigns() -> st.SearchStrategy[Reign]:
    return st.integers(0, 1 << 30).map(a_reign)


class NothingForTheBarred(Property):
    """Nothing is done for a job whose namespace its queue does not let in, and what runs goes on."""

    of_every_reader = True
    scenario: Reign

    def __init__(self, scenario: Any, reader: Reader) -> None:
        super().__init__(scenario, reader)
        self.witness = Witness(scenario.realm)
        self.placed: set[str] = set()

    def before(self) -> None:
        """The first changes tell of pods before they tell of rules, so the witness sees what comes after them."""
        if not self.reader.steps:
            self.cluster.observe(self.witness)
        self._goes_on(set())

    def after(self, steps: list[PlanStep]) -> None:
        assert [*self._wrongs(steps), *self.witness.wrongs] == []
        self._goes_on({step.uid for step in steps if isinstance(step, Evict)})

    def _goes_on(self, evicted: set[str]) -> None:
        placed = {uid for uid, task in self.cluster.tasks.items() if task.node is not None}
        assert self.placed <= placed | evicted, "what runs goes on"
        self.placed = placed

    def _wrongs(self, steps: list[PlanStep]) -> Iterator[str]:
        cluster = self.cluster
        for job in cluster.jobs.values():
            if bool(job.blocked) == self.scenario.realm.allows(job.queue, job.namespace):
                yield f"{job} is judged wrongly: {job.blocked!r}"
            if job.blocked and job.phase == INQUEUE:
                yield f"{job} is admitted"
            if job.blocked and any(task.nominated for task in job.waiting.values()):
                yield f"{job} is promised room"
        for step in steps:
            if isinstance(step, Bind | LiftGate) and cluster.tasks[step.uid].job.blocked:
                yield f"{step} for a barred job"
            if isinstance(step, Evict):
                takes = next((task.job for task in cluster.tasks.values() if task.key == step.preemptor), None)
                if takes is not None and takes.blocked:
                    yield f"{step} for a barred job"
        yield from self._demands()

    def _demands(self) -> Iterator[str]:
        wanted: dict[str, int] = {}
        for job in self.cluster.jobs.values():
            if not job.blocked:
                wanted[job.queue] = wanted.get(job.queue, 0) + len(job.waiting)
        for name, demand in QueueDemands(self.cluster).queues().items():
            if demand.waiting != wanted.get(name, 0):
                yield f"queue {name} counts {demand.waiting} that wait, not {wanted.get(name, 0)}"
            if not wanted.get(name) and any(demand.pending.values()):
                yield f"queue {name} counts what no job may want there"
