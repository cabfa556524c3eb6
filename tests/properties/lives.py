"""How schedulers live through a scenario side by side, and how every property is checked at each of their sessions.

All of them hear the same changes. The decisions of the first one shape what happens next. So a scenario is told once,
and shows all that holds for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from random import Random
from typing import Any, ClassVar, Literal, NamedTuple

from hypothesis import given, note
from hypothesis import strategies as st

from volsched.framework.engine.fast import Engine, FastEngine
from volsched.mirror.apply import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Change
from volsched.model.cluster import Cluster
from volsched.model.conditions import LOST_PODS
from volsched.model.plan import Bind, Evict, PlanStep, StepRecorder, WriteGroupStatus
from volsched.model.status import TaskStatus
from volsched.registry import load_profile
from volsched.scheduler import Profile, Scheduler
from volsched.testing.builders import SteadyClock
from volsched.testing.checked import CheckedEngine
from volsched.testing.naive import NaiveEngine
from volsched.testing.recount import faults, leftovers


@cache
def profile_of(text: str) -> Profile:
    """Plugins keep nothing but their arguments, so one profile does for all."""
    return load_profile(text)[0]


# -- scenarios --------------------------------------------------------------------------------------------------------


class Scenario(ABC):
    """A cluster beside its schedulers: what happens in it, and what comes of decisions."""

    configuration: str
    sessions: int
    plain_pods: bool = False
    takes_over: bool = False
    """Whether other schedulers take over before the next session, and hear of everything that is there."""

    @abstractmethod
    def changes(self) -> list[Change]:
        """What a watch tells before the next session; before the first one, everything that is there."""

    def carry_out(self, reader: Reader) -> None:  # noqa: B027 - where decisions have no consequence, nothing happens
        """Let happen what the last session of the first scheduler decided."""


# -- readers ----------------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """A kind of scheduler beside the first one, and what it has to decide as that one does.

    ``forgets`` is what it makes anew for every session: nothing, its accounts and its engine (``accounts``), or also
    what it knows of jobs that are not worth another try (``everything``).
    """

    name: str
    engine: Callable[[Cluster], Engine]
    forgets: Literal["", "accounts", "everything"] = ""
    shuffles: bool = False
    places_only: bool = False


FAST = Kind("fast", FastEngine)
NAIVE = Kind("naive", NaiveEngine)
"""Asks every callback about every node: all its steps, their order and every message are right."""
CHECKED = Kind("checked", CheckedEngine)
"""States which callback reads more than it declares."""
COUNTS = Kind("counting anew", NaiveEngine, "accounts", places_only=True)
"""Was just started, so its accounts are what the cluster adds up to."""
EAGER = Kind("eager", FastEngine, "everything", places_only=True)
"""Tries every job in every session, so it places each one that can be placed."""
SHUFFLED = Kind("shuffled", FastEngine, shuffles=True)
"""Hears of what was there in another order. Objects state when they were created, so the order decides nothing."""
ENGINES = (NAIVE, CHECKED)


class Reader:
    """A scheduler that lives through a scenario."""

    def __init__(self, scenario: Scenario, kind: Kind = FAST) -> None:
        self.kind = kind
        self.mirror = Mirror(MirrorSettings(plain_pods=scenario.plain_pods))
        self.recorder, self.clock = StepRecorder(), SteadyClock()
        self.profile = profile_of(scenario.configuration)
        self.scheduler = self._scheduler()
        self.steps: list[list[PlanStep]] = []
        self.seen: Counter[str] = Counter()

    def _scheduler(self) -> Scheduler:
        return Scheduler(self.mirror, self.profile, self.recorder, self.clock, self.kind.engine)

    @property
    def cluster(self) -> Cluster:
        return self.mirror.cluster

    def hear(self, changes: Sequence[Change]) -> None:
        """Take changes in; the accounts are right after them."""
        if self.kind.shuffles and not self.steps:
            rng = Random(len(changes))  # noqa: S311 - any order will do
            changes = sorted(changes, key=lambda change: rng.random())
        self.mirror.apply(changes)
        assert faults(self.cluster) == []

    def session(self) -> list[PlanStep]:
        """Run a session; the accounts are right after it, and nothing of it is left."""
        if self.kind.forgets == "everything":
            self.scheduler.reconfigure(self.profile)
        if self.kind.forgets == "accounts":
            self.scheduler._accounts.drop()
            self.scheduler = self._scheduler()
        self.recorder.steps.clear()
        self.scheduler.cycle()
        self.clock.time += 1.0
        assert (faults(self.cluster), leftovers(self.cluster)) == ([], [])
        self.steps.append(list(self.recorder.steps))
        return self.steps[-1]

    def cycle(self, changes: Sequence[Change]) -> list[PlanStep]:
        """Take changes in and run a session."""
        self.hear(changes)
        return self.session()

    def reports_lost_pods(self) -> bool:
        """True if the last session reported lost pods of a gang, which no scheduler knows that has just begun."""
        written = (step for step in self.steps[-1] if isinstance(step, WriteGroupStatus))
        return any(condition.type == LOST_PODS for step in written for condition in step.conditions)

    @property
    def placements(self) -> list[PlanStep]:
        """Bindings and evictions of the last session."""
        return [step for step in self.steps[-1] if isinstance(step, Bind | Evict)]

    @property
    def waiting(self) -> dict[str, str]:
        """Why pods wait: each one's own refusal, else the one of its job."""
        found = {}
        for task in self.cluster.tasks.values():
            if task.status is TaskStatus.PENDING and task.spec.is_managed:
                refusal = task.refusal or (task.job.refusal if task.job else None)
                found[task.key] = refusal.message if refusal else ""
        return found


def difference(mine: Reader, theirs: Reader) -> str:
    """The first step, or word for a pod that waits, in which two readers differ; empty when they agree."""
    if theirs.kind.places_only:
        return _first(mine.placements, theirs.placements)
    return _first(mine.steps[-1], theirs.steps[-1]) or _first(
        sorted(mine.waiting.items()), sorted(theirs.waiting.items())
    )


def _first(mine: Sequence[object], theirs: Sequence[object]) -> str:
    for place, (left, right) in enumerate(zip_longest(mine, theirs)):
        if left != right:
            return f"place {place}:\n  {left}\n  {right}"
    return ""


# -- properties -------------------------------------------------------------------------------------------------------


class Property:
    """What holds for one reader: it looks at the cluster before and after each session, and in the end."""

    of_every_reader: ClassVar[bool] = False
    """Whether the property looks at the readers that decide with other engines, too."""

    def __init__(self, scenario: Any, reader: Reader) -> None:
        self.scenario = scenario
        self.reader = reader

    @property
    def cluster(self) -> Cluster:
        return self.reader.cluster

    def before(self) -> None:
        """Look at the cluster when all changes are in and the session has not begun."""

    def after(self, steps: list[PlanStep]) -> None:
        """Look at the cluster after a session, and at what it decided."""

    def end(self) -> None:
        """Look at the cluster when the scenario is over; more sessions may follow."""

    def go_on(self) -> list[PlanStep]:
        """One more session, of this reader alone."""
        steps = self.reader.cycle(self.scenario.changes())
        self.scenario.carry_out(self.reader)
        return steps


# -- the table's cells ------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """Scenarios of some plugins, who lives through them, and what holds."""

    scenarios: st.SearchStrategy[Scenario]
    properties: tuple[type[Property], ...] = ()
    readers: tuple[Kind, ...] = ENGINES
    worth: Mapping[str, float] = {}
    """What is seen in the scenarios, and how often in each of them at least: guards the generators."""


def hold(cell: Cell) -> None:
    """Check all properties of a cell in as many scenarios as the profile says."""
    seen: Counter[str] = Counter()

    @given(cell.scenarios)
    def holds(scenario: Scenario) -> None:
        note(repr(scenario))
        seen.update(live(scenario, cell))

    holds()
    rare = {what: seen[what] for what, share in cell.worth.items() if seen[what] < share * seen["scenarios"]}
    assert not rare, f"the scenarios show too little to be worth their time: {rare} of {dict(seen)}"


def live(scenario: Scenario, cell: Cell) -> Counter[str]:
    """Let the readers of a cell live through a scenario; return what was seen, by kind of step and else."""
    company = _company(scenario, cell)
    seen = Counter(scenarios=1)
    for _ in range(scenario.sessions):
        changes = scenario.changes()
        if scenario.takes_over:
            company = _company(scenario, cell)
        readers, properties = company
        for reader in readers:
            reader.hear(changes)
        for each in properties:
            each.before()
        for reader in readers:
            reader.session()
        if readers[0].reports_lost_pods():
            readers[1:] = [reader for reader in readers[1:] if not reader.kind.forgets]
        for reader in readers[1:]:
            assert (differs := difference(readers[0], reader)) == "", f"{reader.kind.name} differs in {differs}"
        seen.update({type(step).__name__ for step in readers[0].steps[-1]})
        scenario.carry_out(readers[0])
        for each in properties:
            each.after(each.reader.steps[-1])
    readers, properties = company
    for each in properties:
        each.end()
    return seen + readers[0].seen


def _company(scenario: Scenario, cell: Cell) -> tuple[list[Reader], list[Property]]:
    """Readers that know nothing yet, the first one of them the fast one, and what looks at them."""
    readers = [Reader(scenario, kind) for kind in (FAST, *cell.readers)]
    exact = [reader for reader in readers if not reader.kind.places_only]
    return readers, [
        make(scenario, reader)
        for make in cell.properties
        for reader in (exact if make.of_every_reader else readers[:1])
    ]
