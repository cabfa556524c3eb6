"""What queues hold follows what tasks do, and is what a count from scratch comes to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.actions import test_gates as gates
from tests.framework.stage import Stage
from volsched.model.cluster import Cluster
from volsched.model.queues.queue import levels
from volsched.model.status import IS_CHOSEN
from volsched.quota.demand import QueueDemands
from volsched.quota.usage import QueueUsageObserver
from volsched.testing.builders import ClusterBuilder, a_cluster, a_queue, put

PARENTS = ("", "root", "a", "b", "c")


def a_tree() -> ClusterBuilder:
    """root > above > a, b; two pods of a and one of b run, others wait."""
    given = a_cluster().node("n1", cpu=10).queue("above").queue("a", parent="above").queue("b", parent="above")
    given.group("run-a", "a", phase="Running").group("run-b", "b", phase="Running").job("more", 3, queue="a", cpu=2)
    given.pod("run-a-0", "run-a", on="n1", cpu=1).pod("run-a-1", "run-a", on="n1", cpu=1)
    return given.pod("run-b-0", "run-b", on="n1", cpu=3)


def recounted(cluster: Cluster, *, above: bool) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for task in cluster.tasks.values():
        queue = task.job.queue if task.job is not None else ""
        if not IS_CHOSEN[task.status] or queue not in cluster.queues:
            continue
        for level in levels(cluster.queues, queue) if above else (queue,):
            account = found.setdefault(level, {})
            for name, amount in {**task.template.request, "pods": 1}.items():
                account[name] = account.get(name, 0) + amount
    return found


def shown(held: QueueUsageObserver, cluster: Cluster) -> dict[str, dict[str, int]]:
    names = [*cluster.queues, "root"]
    return {name: dict(held.by(name)) for name in names if held.by(name)}


def test_what_a_queue_holds_counts_in_it_alone() -> None:
    stage = Stage(a_tree())

    held = QueueUsageObserver(stage.cluster)

    assert shown(held, stage.cluster) == {"a": {"cpu": 2000, "pods": 2}, "b": {"cpu": 3000, "pods": 1}}
    assert held.levels("a") == ("a",)


def test_or_in_every_queue_above_it() -> None:
    stage = Stage(a_tree())

    held = QueueUsageObserver(stage.cluster, above=True)

    assert held.by("above") == held.by("root") == {"cpu": 5000, "pods": 3}
    assert held.levels("a") == ("a", "above", "root")


def test_promised_room_is_held_and_what_is_undone_is_as_if_it_had_never_been() -> None:
    stage = Stage(a_tree())
    held = stage.session.account("held", lambda cluster: QueueUsageObserver(cluster, above=True))
    before, version = shown(held, stage.cluster), held.version("above")

    statement = stage.session.statement()
    assert statement.pipeline(stage.task("more-0"), stage.node("n1")) is None
    assert statement.allocate(stage.task("more-1"), stage.node("n1")) is None
    statement.evict(stage.task("run-b-0"), "test")

    assert held.by("above") == {"cpu": 6000, "pods": 4}
    assert held.by("a") == {"cpu": 6000, "pods": 4}
    assert held.by("b") == {}
    statement.discard()
    assert shown(held, stage.cluster) == before
    assert held.version("above") > version


def test_a_queue_in_which_nothing_moves_keeps_its_version() -> None:
    stage = Stage(a_tree())
    held = stage.session.account("held", QueueUsageObserver)
    version = held.version("b")

    assert stage.place("more-0") == "n1"

    assert held.version("b") == version


def test_a_job_in_another_queue_takes_along_what_it_holds() -> None:
    stage = Stage(a_tree())
    held = stage.session.account("held", lambda cluster: QueueUsageObserver(cluster, above=True))

    stage.cluster.queue_cache.set_job_queue(stage.cluster.jobs["default/run-a"], "b")

    assert shown(held, stage.cluster) == recounted(stage.cluster, above=True)
    assert held.by("a") == {}


@pytest.mark.parametrize("above", [False, True])
@given(data=st.data())
def test_accounts_that_follow_are_those_that_are_made_anew(above: bool, data: Any) -> None:
    stage = Stage(a_cluster().node("n1", cpu=100).queue("a").queue("b").queue("c"))
    held = stage.session.account("held", lambda cluster: QueueUsageObserver(cluster, above=above))
    demand = stage.session.account("demand", lambda cluster: QueueDemands(cluster, above=above))
    for number in range(data.draw(st.integers(1, 8))):
        what = data.draw(st.sampled_from(["queue", "job", "place", "evict", "move", "drop"]))
        name = data.draw(st.sampled_from("abc"))
        jobs = sorted(stage.cluster.jobs.values(), key=lambda job: job.key)
        tasks = sorted(stage.cluster.tasks.values(), key=lambda task: task.key)
        if what == "queue":
            spec = {"parent": data.draw(st.sampled_from(PARENTS))}
            stage.apply(put(a_queue(name, **spec)))
        elif what == "drop":
            stage.mirror.cluster.queue_cache.remove_queue(name)
        elif what == "job":
            given_job = a_cluster().job(f"j{number}", 2, queue=name, cpu=1)
            given_job.objects[0]["spec"]["minResources"] = {"cpu": "5"}
            stage.apply(*given_job.changes())
        elif what == "move" and jobs:
            job = data.draw(st.sampled_from(jobs))
            stage.cluster.queue_cache.set_job_queue(job, name)
        elif tasks:
            task = data.draw(st.sampled_from(tasks))
            statement = stage.session.statement()
            if what == "place" and task.node is None:
                assert statement.allocate(task, stage.node("n1")) is None
                statement.commit()
            elif what == "evict" and task.node is not None:
                statement.evict(task, "test")
                if data.draw(st.booleans()):
                    statement.discard()
        held.refresh()

        assert shown(held, stage.cluster) == recounted(stage.cluster, above=above)
        anew = QueueDemands(stage.cluster, above=above)
        assert demand.queues() == anew.queues()
        assert demand.reserved() == anew.reserved()


@pytest.mark.parametrize(("counts", "held"), [(True, {"cpu": 1000, "pods": 1}), (False, {})])
def test_a_pod_without_a_node_whose_gate_was_lifted_counts_if_told_so(counts: bool, held: dict[str, int]) -> None:
    world = gates.World(gates.gated(gates.a_queue(1), "a", spec=gates.NOWHERE), "capacity")
    before = QueueUsageObserver(world.rig.cluster, ungated=counts)
    world.rig.cluster.observe(before)

    world.cycle()
    since = QueueUsageObserver(world.rig.cluster, ungated=counts)

    assert world.lifted == ["a"]
    assert (dict(before.by("q")), dict(since.by("q"))) == (held, held)
    assert since.allocated("q") == {}
