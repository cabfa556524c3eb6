"""What a placement costs, by counting: it does not grow with the cluster, and accounts make nobody else ask again."""

from __future__ import annotations

from bench import cards as world
from bench import worlds
from tests.plugins.capacity_card.clusters import A, H, cards, rig
from volsched.framework.engine import FastEngine
from volsched.model import api
from volsched.model.changes import Put
from volsched.model.plan import Bind
from volsched.registry import load_profile


def cost(nodes: int, configuration: str) -> tuple[float, float]:
    """Callbacks asked and rows scored for each placed pod: four of 20 queues run dry, half of the pods have lists."""
    objects = world.with_quotas([*worlds.nodes(nodes), *worlds.gangs(40, 16, 20)])
    scheduler, recorder = worlds.a_scheduler(objects, load_profile(configuration)[0])
    scheduler.cycle()
    placed = sum(isinstance(step, Bind) for step in recorder.steps)
    assert placed > 400
    assert isinstance(scheduler.engine, FastEngine)
    return scheduler.engine.callbacks_asked / placed, scheduler.engine.rows_scored / placed


def test_a_placement_asks_few_callbacks_whatever_the_size_of_the_cluster() -> None:
    small, large = cost(400, world.CONFIGURATION), cost(1600, world.CONFIGURATION)
    without, _ = cost(1600, worlds.BASE)

    assert large[0] < 1.5 * small[0]
    assert large[0] < without + 4


def test_a_queue_that_runs_dry_makes_no_other_queue_ask_again() -> None:
    cluster = cards()
    for index in range(100):
        cluster.cards(f"a{index:03}", A).cards(f"h{index:03}", H)
    cluster.quota("dry", {A: 2, H: 100}).quota("rich", {A: 100, H: 100})
    scheduling = rig(cluster)
    engine = scheduling.scheduler.engine
    assert isinstance(engine, FastEngine)

    def asked_for(name: str, queue: str) -> tuple[int, int]:
        sweeps, rows = engine.sweeps, engine.rows_scored
        pod = cards().gang(name, card=f"{A}|{H}", queue=queue).objects
        assert scheduling.cycle(*(Put(api.decode_object(item)) for item in pod)).bindings
        return engine.sweeps - sweeps, engine.rows_scored - rows

    first = asked_for("one", "rich")
    second = asked_for("two", "dry")
    third = asked_for("three", "dry")  # the last A100 of its quota
    fourth = asked_for("four", "rich")
    fifth = asked_for("five", "dry")  # only H100 is left to this queue
    sixth = asked_for("six", "rich")
    seventh = asked_for("seven", "dry")

    assert first[0] == fifth[0] == 1, "all nodes, then those of the card that is left"
    for sweeps, rows in (second, third, fourth, sixth, seventh):
        assert sweeps == 0
        assert rows <= 4
