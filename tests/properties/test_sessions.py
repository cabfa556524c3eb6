"""What holds of every session, whatever the cluster, the plugins and the changes in between."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.framework.stage import standing
from tests.properties.stories import Reader, Story, World, difference, live, stories
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.columns import PODS
from volsched.model.plan import Bind, Evict, RecordEvent, WritePodCondition
from volsched.model.status import TaskStatus
from volsched.testing.naive import NaiveEngine

pytestmark = pytest.mark.slow(reason="thousands of sessions on random clusters")


@given(stories(evicting=True))
def test_accounts_that_were_kept_decide_as_accounts_that_are_counted_anew(story: Story) -> None:
    """Observers follow every change and every undo; what they keep is what they would count."""
    keeps, counts = Reader(story.configuration), Reader(story.configuration, NaiveEngine, forgets="accounts")

    live(story, keeps, counts)

    assert difference(keeps.placements, counts.placements) == ""


@given(stories(evicting=True))
def test_no_job_that_is_passed_over_could_have_been_placed(story: Story) -> None:
    """A reader that tries every job in every cycle places no other pods than one that leaves hopeless ones alone."""
    patient, eager = Reader(story.configuration), Reader(story.configuration, forgets="everything")

    live(story, patient, eager)

    assert difference(patient.placements, eager.placements) == ""


@given(stories(), st.integers(1, 2**32))
def test_the_order_of_the_input_decides_nothing(story: Story, seed: int) -> None:
    """Objects say when they were created; in which order a scheduler that starts hears of them does not matter."""
    one, other = Reader(story.configuration), Reader(story.configuration)
    world, rng = World(story), random.Random(seed)  # noqa: S311 - any order will do
    for chapter in [*story.chapters, []]:
        changes = world.take()
        shuffled = sorted(changes, key=lambda change: rng.random())
        one.cycle(changes)
        other.cycle(shuffled if len(one.steps) == 1 else changes)
        world.do(one.steps[-1], one.clock.now())
        for happens in chapter:
            happens(world)

    assert difference(one.steps, other.steps) == ""


# -- gangs, room, rest ------------------------------------------------------------------------------------------------


class Witness:
    """Looks at a cluster after each cycle, as the steps of that cycle made it."""

    def __init__(self, configuration: str) -> None:
        self.configuration = configuration
        self.reader = Reader(configuration)

    def cycle(self, changes: list[Any]) -> None:
        cluster = self.reader.cluster
        self.reader.mirror.apply(changes)
        ready_before = {key for key, job in cluster.jobs.items() if _is_ready(job)}
        before = standing(cluster)
        steps = self.reader.cycle([])
        bound = [cluster.tasks[step.uid] for step in steps if isinstance(step, Bind)]
        assert len({task.uid for task in bound}) == len(bound), "nobody is bound twice"
        for task in bound:
            assert task.status is TaskStatus.BINDING
            assert task.ours
            assert not task.gated
            assert not task.terminating
            assert not task.backing_off
        if "name: gang" in self.configuration:
            for job in {task.job.key: task.job for task in bound if task.job is not None}.values():
                assert _is_ready(job) or job.key in ready_before, f"{job} has some of its minimum"
        assert _overfull(cluster, {task.node.name: task.node for task in bound if task.node}, bound) == []
        if not any(isinstance(step, Bind | Evict) for step in steps):
            after = standing(cluster)
            for what in ("tasks", "nodes", "queues", "totals"):
                assert after[what] == before[what], "what was only tried left a trace"
        told = Counter(step for step in steps if isinstance(step, RecordEvent))
        assert [step for step, times in told.items() if times > 1] == []
        for step in steps:
            if isinstance(step, WritePodCondition):
                assert cluster.tasks[step.uid].status is TaskStatus.PENDING, "only who waits is said to wait"


def _is_ready(job: JobInfo) -> bool:
    return job.is_ready and job.roles_ready()


def _overfull(cluster: Cluster, nodes: dict[str, Any], bound: list[Any]) -> list[str]:
    """Nodes that somebody was bound to and that hold more than they have of what was asked for."""
    found = []
    for task in bound:
        node = nodes[task.node.name]
        for column, _ in cluster.columns.request(task.template):
            if node.used[column] > node.allocatable[column]:
                found.append(f"{cluster.columns.names[column]} of {node.name}")
    return found


@given(stories())
def test_gangs_start_whole_and_nothing_is_placed_where_there_is_no_room(story: Story) -> None:
    witness = Witness(story.configuration)
    world = World(story)
    for chapter in [*story.chapters, []]:
        witness.cycle(world.take())
        world.do(witness.reader.steps[-1], witness.reader.clock.now())
        for happens in chapter:
            happens(world)
    if "name: predicates" in story.configuration:
        for node in witness.reader.cluster.rows:
            mine = [task for task in node.tasks.values() if task.status is TaskStatus.BINDING]
            assert not mine or node.used[PODS] <= node.allocatable[PODS]


@given(stories() | stories(evicting=True))
def test_a_cluster_in_which_nothing_happens_comes_to_rest(story: Story) -> None:
    reader = Reader(story.configuration)

    live(story, reader, quiet=24)  # three bindings in a row may be refused, each with a growing back-off

    assert reader.steps[-2:] == [[], []]


def test_the_stories_are_worth_telling() -> None:
    """Guards the generators: enough is bound, refused, evicted and held up in them."""
    seen: Counter[str] = Counter()

    @given(stories(evicting=True))
    def look(story: Story) -> None:
        reader = Reader(story.configuration)
        live(story, reader)
        seen["stories"] += 1
        for kind in {type(step).__name__ for steps in reader.steps for step in steps}:
            seen[kind] += 1
        seen["binds"] += sum(isinstance(step, Bind) for steps in reader.steps for step in steps)

    look()

    assert seen["Bind"] > seen["stories"] // 3, seen
    assert seen["binds"] > seen["stories"], seen
    assert seen["WritePodCondition"] > seen["stories"] // 3, seen
