"""What one job causes in a session ends with that job, and every account is as if it had not been tried."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import at_least
from tests.framework.typed import by_task, shown
from volsched.framework.boundary import LONGEST_PAUSE_SECONDS, Bounds, culprit, modules_of
from volsched.framework.callbacks import PERMIT, TaskEvents
from volsched.framework.columns.views import NodePropertiesView
from volsched.framework.config.configuration import PluginOption
from volsched.framework.nominations import waits_for_room
from volsched.framework.registration import Registrar
from volsched.framework.reports import Report
from volsched.framework.rules import (
    Allocatable,
    EventHandler,
    JobEnqueueable,
    JobEnqueued,
    JobPipelined,
    JobReady,
    JobValid,
    NodeOrder,
    Predicate,
    Preemptable,
    PrePredicate,
    Protected,
    TaskOrder,
)
from volsched.mirror.apply import Mirror
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.plan import StepRecorder
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.model.values.series import Series
from volsched.registry import load_profile
from volsched.scheduler import Scheduler
from volsched.testing.builders import ClusterBuilder, Rig, SteadyClock, a_cluster, a_pod, put
from volsched.testing.recount import faults

CONFIGURATION = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
ODD = "odd"

Trigger = Callable[[str, object], None]
"""Raises, or not, when a callback of this kind is asked about something."""


class Saboteur:
    """A plugin that has no opinion; each of its callbacks asks the trigger first."""

    name = "saboteur"

    def __init__(self, trigger: Trigger, only: str = "") -> None:
        self._trigger = trigger
        self._only = only

    def _add_account(self, registrar: Registrar) -> None:
        registrar.account("saboteur", lambda _: Account(self))

    def on_session_open(self, registrar: Registrar) -> None:
        ask = self._ask
        add: dict[str, Callable[[], None]] = {
            "task order": lambda: registrar.register(TaskOrder(lambda task: ask("task order", task, 0))),
            "pre-predicate": lambda: registrar.register(PrePredicate(lambda task: ask("pre-predicate", task, None))),
            "predicate": lambda: registrar.register(
                Predicate(by_task(lambda task, node: ask("predicate", task, None)))
            ),
            "static predicate": lambda: registrar.register(
                Predicate(shown(TaskInfo, NodePropertiesView, lambda task, node: ask("static predicate", task, None)))
            ),
            "node order": lambda: registrar.register(NodeOrder(lambda task, node: ask("node order", task, 0.0))),
            "allocatable": lambda: registrar.register(Allocatable(lambda queue, task: ask("allocatable", task, None))),
            "valid": lambda: registrar.register(JobValid(lambda job: ask("valid", job, None))),
            "ready": lambda: registrar.register(JobReady(lambda job: ask("ready", job, True))),
            "pipelined": lambda: registrar.register(JobPipelined(lambda job: ask("pipelined", job, PERMIT))),
            "enqueueable": lambda: registrar.register(
                JobEnqueueable(lambda job: ask("enqueueable", job, PERMIT), always=True)
            ),
            "enqueued": lambda: registrar.register(JobEnqueued(lambda job: ask("enqueued", job, None))),
            "allocate": lambda: registrar.register(EventHandler(Handler(self))),
            "preemptable": lambda: registrar.register(
                Preemptable(lambda task, found: ask("preemptable", task, list(found)))
            ),
            "protected": lambda: registrar.register(
                Protected(lambda victim, task: ask("protected", victim, ask("protected for", task, False)))
            ),
            "account": lambda: self._add_account(registrar),
        }
        for kind, register in add.items():
            if self._only in ("", kind):
                register()

    def _ask(self, kind: str, about: object, answer: Any) -> Any:
        self._trigger(kind, about)
        return answer


class Handler(TaskEvents):
    """Follows statements, as far as the trigger lets it."""

    def __init__(self, saboteur: Saboteur) -> None:
        self._saboteur = saboteur

    def allocate(self, task: TaskInfo) -> None:
        self._saboteur._ask("allocate", task, None)

    def deallocate(self, task: TaskInfo) -> None:
        self._saboteur._ask("deallocate", task, None)


class Account(Observer):
    """Follows moves, as far as the trigger lets it."""

    def __init__(self, saboteur: Saboteur) -> None:
        self._saboteur = saboteur

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        self._saboteur._ask("account", task, None)

    def task_started(self, task: TaskInfo) -> None:
        self._saboteur._ask("started", task, None)


KINDS = (
    "task order", "pre-predicate", "predicate", "static predicate", "node order", "allocatable", "valid", "ready",
    "enqueueable", "enqueued", "allocate", "account",
)  # fmt: skip


def a_world() -> ClusterBuilder:
    """Two gangs that fit, and between them one that is odd."""
    cluster = a_cluster().node("n1", cpu=8, memory="32Gi").node("n2", cpu=8, memory="32Gi").queue("q1").queue("q2")
    for name, size, queue in (("a-first", 2, "q1"), (ODD, 3, "q1"), ("z-last", 2, "q2")):
        cluster.group(name, queue, size, phase="Pending")
        for number in range(size):
            cluster.pod(f"{name}-{number}", name, cpu=1, spec=tolerating(name))
    return cluster


def tolerating(name: str) -> dict[str, Any]:
    """A tolerance of each gang's own, so that answers about one do not hold for another."""
    return {"tolerations": [{"key": name, "operator": "Exists"}]}


def rig_of(cluster: ClusterBuilder, saboteur: Saboteur, bounds: Bounds | None = None) -> Rig:
    mirror = Mirror()
    mirror.apply(cluster.changes())
    profile, _ = load_profile(CONFIGURATION)
    with_him = replace(profile, plugins=(*profile.plugins, ((PluginOption("saboteur"), saboteur),)))
    recorder, clock = StepRecorder(), SteadyClock()
    scheduler = Scheduler(mirror, with_him, recorder, clock, bounds=bounds or Bounds(contains_faults=True))
    return Rig(mirror, scheduler, recorder, clock)


def owner_of(about: object) -> str:
    job = about.job if isinstance(about, TaskInfo) else about
    return job.name if isinstance(job, JobInfo) else ""


def fails_over_odd(kind: str, about: object) -> None:
    if owner_of(about) == ODD:
        raise ZeroDivisionError(f"in {kind}")


def nothing(kind: str, about: object) -> None:
    """Let everything pass."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_plugin_that_fails_over_one_gang_stops_that_gang_alone(kind: str) -> None:
    rig = rig_of(a_world(), Saboteur(fails_over_odd, only=kind))

    placed = {name for _ in range(3) for name in rig.cycle().bindings}

    assert placed == {"a-first-0", "a-first-1", "z-last-0", "z-last-1"}
    assert faults(rig.cluster) == []
    job = rig.cluster.jobs[f"default/{ODD}"]
    assert job.refusal is not None
    assert (job.refusal.reason, job.refusal.plugin) == ("PluginError", "saboteur")
    assert f"ZeroDivisionError: in {kind}" in job.refusal.message
    waiting = rig.cycle().waiting
    assert {message for name, message in waiting.items() if name.startswith(ODD)} == {job.refusal.message}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_tried_again_after_growing_pauses_or_when_it_changes(kind: str) -> None:
    broken = [True]

    def fails_at_first(kind: str, about: object) -> None:
        if broken[0]:
            fails_over_odd(kind, about)

    rig = rig_of(a_world(), Saboteur(fails_at_first, only=kind))
    for _ in range(3):
        rig.cycle()
    assert rig.scheduler.wake_at() == rig.clock.time + 1.0
    rig.clock.time += 1.0
    for _ in range(2):
        rig.cycle()
    assert rig.scheduler.wake_at() == rig.clock.time + 2.0
    broken[0] = False
    assert rig.cycle().bindings == {}

    rig.clock.time += 2.0
    placed = {name for _ in range(2) for name in rig.cycle().bindings}

    assert placed == {f"{ODD}-{number}" for number in range(3)}
    assert rig.cluster.jobs[f"default/{ODD}"].refusal is None


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@at_least(150)
@given(
    st.integers(1, 400),
    st.sets(st.sampled_from((*KINDS, "deallocate", "preemptable", "protected", "pipelined")), min_size=1),
)
def test_wherever_callbacks_fail_accounts_are_exact_and_all_is_placed_in_the_end(at: int, kinds: set[str]) -> None:
    count = itertools.count(1)

    def fails_once(kind: str, about: object) -> None:
        if kind in kinds and next(count) == at:
            raise KeyError(kind)

    rig = rig_of(a_world(), Saboteur(fails_once))
    placed: set[str] = set()
    for _ in range(4):
        placed |= set(rig.cycle().bindings)
        assert faults(rig.cluster) == []
        rig.clock.time += LONGEST_PAUSE_SECONDS
    assert len(placed) == 7


def test_a_plugin_that_cannot_open_decides_nothing_and_says_so() -> None:
    class Broken:
        name = "broken"

        def on_session_open(self, registrar: Registrar) -> None:
            raise RuntimeError("no")

    rig = rig_of(a_world(), Broken())  # type: ignore[arg-type]
    rig.scheduler.profile = replace(
        rig.scheduler.profile, plugins=(*rig.scheduler.profile.plugins[:-1], ((PluginOption("broken"), Broken()),))
    )

    decision = rig.cycle()

    assert decision.bindings == {}
    assert [(plugin, str(error)) for plugin, error in decision.report.faults] == [("broken", "no")]


def test_an_account_that_fails_over_a_pod_that_starts_is_made_again_and_the_plugin_is_named() -> None:
    def fails_over_starts(kind: str, about: object) -> None:
        assert kind != "started", about

    rig = rig_of(a_world(), Saboteur(fails_over_starts))
    placed = rig.cycle().bindings
    seen = [
        put(a_pod(name, name.rsplit("-", 1)[0], on=node, cpu=1, spec=tolerating(name.rsplit("-", 1)[0])))
        for name, node in placed.items()
    ]

    decision = rig.cycle(*seen)

    assert [(plugin, type(error)) for plugin, error in decision.report.faults] == [("saboteur", AssertionError)]
    assert faults(rig.cluster) == []
    assert rig.cycle().report.faults == ()


def test_a_plugin_that_fails_over_who_is_protected_stops_the_job_that_needs_room_alone() -> None:
    low = a_cluster().node("n1", cpu=2).group("low", "q1", phase="Running").queue("q1")
    for number in range(2):
        low.pod(f"low-{number}", "low", on="n1", cpu=1)
    for name in (ODD, "z-last"):
        low.group(name, "q1", 1, phase="Inqueue").pod(f"{name}-0", name, cpu=1, spec={"priority": 9})

    def fails_for_odd(kind: str, about: object) -> None:
        if kind == "protected for":
            fails_over_odd(kind, about)

    rig = rig_of(low, Saboteur(fails_for_odd))

    evicted = rig.cycle().evictions

    assert len(evicted) == 1
    refusal = rig.cluster.jobs[f"default/{ODD}"].refusal
    assert refusal is not None
    assert (refusal.reason, refusal.plugin) == ("PluginError", "saboteur")
    assert faults(rig.cluster) == []


def test_numbers_that_cannot_be_made_are_left_out_and_all_others_are_shown() -> None:
    good, bad = Series("good", "Good"), Series("bad", "Bad")

    class Counts:
        name = "counts"

        def on_session_open(self, registrar: Registrar) -> None:
            registrar.register(Report(metrics={bad: lambda: {(): 1 / 0}, good: lambda: {(): 1.0}}))

    rig = rig_of(a_world(), Counts())  # type: ignore[arg-type]

    decision = rig.cycle()

    assert dict(decision.report.series)[good] == {(): 1.0}
    assert bad not in dict(decision.report.series)
    assert [type(error) for _, error in decision.report.faults] == [ZeroDivisionError]
    assert decision.report.over == ""


def test_a_session_ends_with_its_budget_and_the_next_one_goes_on_without_what_took_most() -> None:
    """A look at a node for the first gang takes a hundred seconds, and it is placed nowhere."""
    seconds = [0.0]

    def takes_time(kind: str, about: object) -> None:
        seconds[0] += 100.0 if owner_of(about) == "a-first" else 0.1

    world = a_world().group("a-first-of-all", "q1", 9, phase="Pending")
    rig = rig_of(world, Saboteur(takes_time, only="pre-predicate"), Bounds(5.0, contains_faults=True))
    rig.clock.cpu = lambda: seconds[0]  # type: ignore[method-assign]

    first = rig.cycle()
    assert first.report.over == "200.0s of CPU were used, the budget of a session is 5s"
    assert first.bindings.keys() == {"a-first-0", "a-first-1"}  # what was decided stands
    second = rig.cycle()
    assert second.bindings.keys() == {"z-last-0", "z-last-1", *(f"{ODD}-{number}" for number in range(3))}
    assert second.report.over == ""
    assert faults(rig.cluster) == []


def test_what_took_most_of_a_session_that_ran_out_of_time_is_told_and_left_alone() -> None:
    seconds = [0.0]

    class Slow(Saboteur):
        """Takes long over the first gang, and lets it in nowhere."""

        def _ask(self, kind: str, about: object, answer: Any) -> Any:
            is_slow = owner_of(about) == "a-first"
            seconds[0] += 100.0 if is_slow else 0.1
            return waits_for_room(*slow_place(about)) if is_slow else answer

    def slow_place(about: object) -> tuple[TaskInfo, NodeInfo]:
        assert isinstance(about, TaskInfo)
        return about, rig.cluster.nodes["n1"]

    rig = rig_of(a_world(), Slow(nothing, only="pre-predicate"), Bounds(5.0, contains_faults=True))
    rig.clock.cpu = lambda: seconds[0]  # type: ignore[method-assign]

    assert rig.cycle().report.over
    refusal = rig.cluster.jobs["default/a-first"].refusal
    assert refusal is not None
    assert refusal.reason == "TooExpensive"
    assert "took 100.0s of the 5s that a session has" in refusal.message
    placed = rig.cycle().bindings
    assert placed.keys() == {"z-last-0", "z-last-1", *(f"{ODD}-{number}" for number in range(3))}


def test_without_containment_faults_are_raised() -> None:
    rig = rig_of(a_world(), Saboteur(fails_over_odd), Bounds())
    with pytest.raises(ZeroDivisionError):
        rig.cycle()


# --- whose fault ----------------------------------------------------------------------------------------------------


def made_in(module: str) -> object:
    """An object whose class is from a module."""
    return type("Made", (), {"__module__": module})()


def raised_in(*modules: str) -> BaseException:
    """An error that passed through functions of these modules, the innermost last."""
    call: Callable[[], None] | None = None
    for module in reversed(modules):
        space: dict[str, Any] = {"__name__": module, "inner": call}
        exec("def outer():\n    inner() if inner else 1 / 0", space)  # noqa: S102 - a function of another module
        call = space["outer"]
    assert call is not None
    with pytest.raises(ZeroDivisionError) as found:
        call()
    return found.value


@pytest.mark.parametrize(
    ("plugins", "through", "whose"),
    [
        ({"acme": "acme.plugin"}, ("volsched.scheduler", "acme.cards"), "acme"),
        ({"acme": "acme.plugin"}, ("volsched.scheduler", "acmes"), ""),
        ({"racks": "racks"}, ("racks", "volsched.model"), "racks"),
        ({"one": "house.one", "two": "house.two"}, ("house.two",), "two"),
        ({"one": "house.one", "two": "house.two"}, ("house.shared",), ""),
        ({"in": "house.inner.plugin", "out": "house.plugin"}, ("house.inner.cards",), "in"),
        ({"out": "house.plugin", "in": "house.inner.plugin"}, ("house.cards",), "out"),
        ({"mgpu": "plugins.mgpu.plugin", "sla": "plugins.sla.plugin"}, ("plugins.mgpu.cards.best",), "mgpu"),
    ],
)
def test_an_error_is_that_of_the_plugin_in_whose_package_it_was_raised(
    plugins: dict[str, str], through: tuple[str, ...], whose: str
) -> None:
    modules = modules_of((name, made_in(module)) for name, module in plugins.items())

    assert culprit(raised_in(*through), modules) == whose
