"""Pods that a plugin protects are evicted by nobody, whatever other plugins answer, and whoever asks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actions.victims.search import TOO_SMALL
from tests.actions.evictions import LEVELS, PREEMPT, RECLAIM, World
from tests.actions.rigs import Plug, conf, cycle, phases
from tests.actions.test_after_preemption import FULL, a_full_queue, important, with_plugin
from tests.framework.test_native_preemption import filler, nodes, running, wanting
from volsched.framework.answers import AnswerError
from volsched.framework.config.configuration import PluginOption
from volsched.framework.config.loading import IN_KUBE_SCHEDULERS_PLACE
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Change
from volsched.plugin import ClusterEvent, Observer, Protected, Registrar, TaskInfo, Wake
from volsched.testing.builders import ClusterBuilder, Rig, a_pod, a_rig, put

Names = tuple[str, ...]


class Keeper(Plug):
    """Protects the pods of these names."""

    name = "keeper"

    def __init__(self, *names: str) -> None:
        super().__init__(lambda r: r.register(Protected(lambda victim, task: victim.name in names)))


def on_a_rig(cluster: ClusterBuilder, configuration: str, *plugins: Any, settings: MirrorSettings | None = None) -> Rig:
    """A scheduler whose last tier these plugins are alone in: one that decides nothing where an earlier one does."""
    made = a_rig(cluster, configuration, settings=settings)
    profile = made.scheduler.profile
    last = tuple((PluginOption(plugin.name), plugin) for plugin in plugins)
    made.scheduler.profile = replace(profile, plugins=(*profile.plugins, last))
    return made


def evicted(cluster: ClusterBuilder, configuration: str, *names: str) -> list[str]:
    return cycle(on_a_rig(cluster, configuration, Keeper(*names))).evictions


def four() -> World:
    world = World()
    world.node("n1", cpu=4).queue("q").queue("p")
    return world.runs("v", 4, queue="q", cpu=1)


# -- who obeys --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "gone"),
    [((), ["v-3"]), (("v-3",), ["v-2"]), (("v-0", "v-2", "v-3"), ["v-1"]), (("v-0", "v-1", "v-2", "v-3"), [])],
)
def test_preempt_obeys_although_the_first_tier_names_victims(names: Names, gone: list[str]) -> None:
    assert evicted(four().wants("x", queue="q", cpu=1), PREEMPT, *names) == gone


@pytest.mark.parametrize(("names", "count"), [((), 2), (("v-0", "v-1", "v-2"), 1), (("v-0", "v-1", "v-2", "v-3"), 0)])
def test_reclaim_obeys_for_a_minimum_and_beyond_it(names: Names, count: int) -> None:
    found = evicted(four().wants("x", 2, minimum=1, queue="p", cpu=1), RECLAIM, *names)

    assert len(found) == count
    assert not set(found) & set(names)


def test_a_pod_does_not_take_the_room_of_one_of_its_own_job_either() -> None:
    world = World()
    world.node("n1", cpu=1).runs("v", cpu=1).member("v-more", "v", "high", cpu=1)
    configuration = conf("allocate, preempt", "priority conformance", "predicates")

    assert evicted(world, configuration) == ["v-0"]
    assert evicted(world, configuration, "v-0") == []


@pytest.mark.parametrize(
    ("mode", "names", "gone"),
    [
        ("Pod", (), ["v-1"]),
        ("Pod", ("v-1",), ["v-0"]),
        ("PodGroup", (), ["v-0", "v-1"]),
        ("PodGroup", ("v-1",), []),
        ("PodGroup", ("v-0",), []),
    ],
)
def test_a_native_group_that_goes_whole_stays_whole(mode: str, names: Names, gone: list[str]) -> None:
    rig = on_a_rig(nodes(2), IN_KUBE_SCHEDULERS_PLACE, Keeper(*names), settings=MirrorSettings(plain_pods=True))

    decision = rig.cycle(*running("v", [10, 10], mode, priority=10), *wanting(1, 1))

    assert sorted(decision.evictions) == gone
    assert ("pods protected by plugin keeper" in decision.waiting["want-0"]) is not bool(gone)


def test_nobody_goes_for_a_native_group() -> None:
    rig = on_a_rig(nodes(2), IN_KUBE_SCHEDULERS_PLACE, Keeper("low-0"), settings=MirrorSettings(plain_pods=True))

    assert rig.cycle(filler("low-0"), filler("low-1"), *wanting(2, 2)).evictions == []
    assert rig.cycle(filler("low-2", on="n0")).evictions == []


@pytest.mark.parametrize("pods", [1, 0])
def test_a_job_is_not_admitted_by_the_room_of_a_protected_pod(pods: int) -> None:
    given = important(a_full_queue(2, **FULL), "high", 2, pods=pods)
    configuration = with_plugin("capacity")

    def admitted(*names: str) -> bool:
        return phases(cycle(on_a_rig(given, configuration, Keeper(*names))))["high"] == "Inqueue"

    assert admitted()
    assert admitted("low-1")
    assert not admitted("low-0", "low-1")


# -- what is said -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "cpu", "said"),
    [
        (("v-0", "v-1", "v-2", "v-3"), 1, "1 pods protected by plugin keeper"),
        (
            ("v-0", "v-1"),
            3,
            f"1 {TOO_SMALL} (plugin keeper protects some)",
        ),
    ],
)
def test_the_refusal_names_the_plugin(names: Names, cpu: int, said: str) -> None:
    decision = cycle(on_a_rig(four().wants("x", queue="q", cpu=cpu), PREEMPT, Keeper(*names)))

    assert decision.waiting["x-0"].endswith(f"preemption: 0/1 nodes are available: {said}.")


def test_a_refusal_names_all_plugins_that_protect_pods() -> None:
    class Other(Keeper):
        name = "other"

    rig = on_a_rig(four().wants("x", queue="q", cpu=1), PREEMPT, Keeper("v-0", "v-1"), Other("v-2", "v-3"))

    assert "pods protected by plugins keeper, other" in cycle(rig).waiting["x-0"]


# -- a plugin that uses both hooks ------------------------------------------------------------------------------------


class Started(Observer):
    """Which pods were heard to start."""

    def __init__(self) -> None:
        self.pods: list[str] = []

    def task_started(self, task: TaskInfo) -> None:
        self.pods.append(task.name)


class FirstMinutes:
    """Protects pods from when they are heard to start until a time comes."""

    name = "first-minutes"

    def __init__(self, until: float) -> None:
        self.until = until

    def on_session_open(self, registrar: Registrar) -> None:
        started, now = registrar.account("started", lambda _: Started()), registrar.session.now
        if now >= self.until and started.pods:
            started.pods.clear()
            registrar.cluster.wake(ClusterEvent.VICTIMS_CHANGED)
        registrar.register(
            Protected(lambda victim, task: victim.name in started.pods),
            Wake(lambda: self.until if started.pods else None),
        )


def pod(name: str, group: str, level: str, **more: Any) -> Change:
    return put(a_pod(name, group, cpu=4, spec={"priorityClassName": level, "priority": LEVELS[level]}, **more))


def test_a_plugin_protects_pods_from_when_they_start_until_it_says_so() -> None:
    world = World()
    world.node("n1", cpu=4).queue("q").wants("v", level="low", queue="q", minimum=0, cpu=4)
    rig = on_a_rig(world, PREEMPT, FirstMinutes(until := 10_000_000_000.0))
    assert cycle(rig).bindings == {"v-0": "n1"}
    cycle(rig, pod("v-0", "v", "low", on="n1", phase="Running"))
    other = World()
    other.wants("x", queue="q", cpu=4)

    decision = cycle(rig, *other.changes())
    assert (decision.evictions, rig.scheduler.wake_at()) == ([], until)
    assert "pods protected by plugin first-minutes" in decision.waiting["x-0"]

    rig.clock.time = until
    assert cycle(rig).evictions == ["v-0"]


# -- what is no answer ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, "yes", 1, []])
def test_an_answer_that_is_no_bool_is_an_error_of_the_plugin(answer: Any) -> None:
    def never(victim: TaskInfo, task: TaskInfo) -> Any:
        return answer

    class Odd(Plug):
        name = "odd"

    rig = on_a_rig(four().wants("x", queue="q", cpu=1), PREEMPT, Odd(lambda r: r.register(Protected(never))))

    with pytest.raises(AnswerError, match=r"plugin odd: .*never returned .*; it returns True where the pod may not"):
        rig.cycle()


def test_who_evicts_nobody_asks_nobody() -> None:
    asked: list[str] = []

    def protects(victim: TaskInfo, task: TaskInfo) -> bool:
        asked.append(victim.name)
        return False

    cycle(
        on_a_rig(four().wants("x", queue="p", cpu=1), conf("allocate"), Plug(lambda r: r.register(Protected(protects))))
    )

    assert asked == []
